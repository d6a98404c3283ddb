"""Products with packed weights: one kernel that reads the packed bytes, for every kind of block."""

from __future__ import annotations

import numpy as np
import pytest

from whit import GlobalCounters, Tensor
from whit.nn.state.gguf_blocks import KINDS, Kind

pytestmark = pytest.mark.slow  # compiles much

PACKED = {kind.name: kind for kind in KINDS.values() if kind.unpack is not None}
OFFSETS = {"Q4_0": (0,), "Q4_1": (0, 2), "Q5_0": (0,), "Q5_1": (0, 2), "Q8_0": (0,), "IQ4_NL": (0,), "IQ4_XS": (0,)} | {
    "Q2_K": (80, 82), "Q3_K": (108,), "Q4_K": (0, 2), "Q5_K": (0, 2), "Q6_K": (208,)
}  # fmt: skip


def blocks(kind: Kind, count: int) -> np.ndarray:
    """Random blocks with scales that are no NaN."""
    rng = np.random.default_rng(kind.nbytes)
    raw = rng.integers(0, 256, (count, kind.nbytes), np.uint8)
    for place in OFFSETS.get(kind.name, ()):
        raw[:, place : place + 2] = rng.uniform(-0.02, 0.02, (count, 1)).astype(np.float16).view(np.uint8)
    if kind.name == "MXFP4":
        raw[:, 0] = rng.integers(120, 126, count)
    if kind.name == "Q8_K":
        raw[:, :4] = rng.uniform(-0.02, 0.02, (count, 1)).astype(np.float32).view(np.uint8)
    return raw


def check(kind: Kind, m: int, n: int, k: int) -> None:
    raw = blocks(kind, n * k // kind.elements)
    x = np.random.default_rng(m).standard_normal((m, k)).astype(np.float32)
    unpack = kind.unpack
    assert unpack is not None
    weight = unpack(Tensor(raw, device="PYTHON")).reshape(n, k).numpy()
    given, bytes_ = Tensor(x).realize(), Tensor(raw).realize()
    GlobalCounters.reset()
    found = (given @ unpack(bytes_).reshape(n, k).T).numpy()
    assert GlobalCounters.kernel_count == 1
    table = 64 if kind.name in ("IQ4_NL", "IQ4_XS", "MXFP4") else 0
    assert GlobalCounters.bytes_read <= raw.nbytes + x.nbytes + table + 16  # a few constants
    assert GlobalCounters.bytes_written == 4 * m * n
    want = x.astype(np.float64) @ weight.T.astype(np.float64)
    np.testing.assert_allclose(found, want, rtol=0, atol=2e-6 * float(np.abs(x).sum(1).max() * np.abs(weight).max()))


@pytest.mark.parametrize("name", PACKED)
def test_a_vector_times_packed_weights_is_one_kernel(name: str) -> None:
    check(PACKED[name], 1, 9, 512)


@pytest.mark.slow
@pytest.mark.parametrize("m", [5, 16, 40])
@pytest.mark.parametrize("name", ["Q8_0", "Q4_0", "Q4_K", "Q6_K"])
def test_a_matrix_times_packed_weights_is_one_kernel(name: str, m: int) -> None:
    check(PACKED[name], m, 40, 512)


def test_weights_whose_scales_are_infinite_or_nan_stay_so() -> None:
    raw = blocks(PACKED["Q4_0"], 4)
    raw[0, :2], raw[1, :2] = (0x00, 0x7C), (0x00, 0x7E)  # inf, NaN
    weight = PACKED["Q4_0"].unpack
    assert weight is not None
    x = Tensor(np.ones((1, 32), np.float32)).realize()
    found = (x @ weight(Tensor(raw).realize()).T).numpy()[0]
    with np.errstate(invalid="ignore"):  # inf - inf
        want = np.sum(weight(Tensor(raw, device="PYTHON")).numpy(), 1)
    np.testing.assert_allclose(found, want, rtol=1e-5, atol=1e-5)
