"""Bytes that are loaded as one: whatever is made of them, a machine in Python gets the same."""

import numpy as np
import pytest

from render.ptx_machine import run_ptx
from whit import Tensor
from whit.codegen import generate
from whit.dtype import DType, dtypes
from whit.engine.realize.parametrise import below, parametrise
from whit.nn.state.gguf_blocks import KINDS
from whit.render import render
from whit.schedule import schedule
from whit.target import parse_target

pytestmark = pytest.mark.slow  # every thread is interpreted

TARGET = parse_target("CUDA:PTX:sm_90a")
GPU = "NULL:PTX:sm_90a"
BYTES = np.random.default_rng(0).integers(0, 256, (48, 4), np.uint8)


def run_text(value: Tensor, given: np.ndarray, other: Tensor | None = None) -> tuple[np.ndarray, str]:
    """A value of one tensor as the machine computes it, and the text of its kernel, or of that of another."""
    node = (value if other is None else other).uop
    (call,) = schedule(parametrise([node], below([node])[0]).graph, TARGET).src
    program = generate(call.src[0].src[0], TARGET)
    text = render({"parts": program.linear}, TARGET)
    result = np.zeros_like(value.numpy())
    run_ptx(text, program.total, program.threads, {"p0": result.reshape(-1), "p1": given.reshape(-1)})
    return result, text


@pytest.mark.parametrize("dtype", (dtypes.uint16, dtypes.int16, dtypes.float16, dtypes.uint32, dtypes.int32))
def test_bytes_as_wider_numbers(dtype: DType) -> None:
    x = Tensor(BYTES, device="CPU")
    value = x.bitcast(dtype).cast(dtypes.float32 if dtype.is_float else dtypes.int64)
    got, text = run_text(value, BYTES)
    np.testing.assert_array_equal(got, value.numpy())
    assert "ld.global.u32" in text or "ld.global.u16" in text


@pytest.mark.parametrize("shift", (8, 16))
def test_signed_bytes_are_not_put_together(shift: int) -> None:
    x = Tensor(BYTES, device="CPU").bitcast(dtypes.int8)
    for dtype in (dtypes.int16, dtypes.int32, dtypes.uint16):
        value = (x[:, 0::2].cast(dtype) | (x[:, 1::2].cast(dtype) << shift)).cast(dtypes.int64)
        np.testing.assert_array_equal(run_text(value, BYTES)[0], value.numpy())


def test_signed_bytes_as_floats() -> None:
    value = Tensor(BYTES, device="CPU").bitcast(dtypes.int8)[:, :2].cast(dtypes.float32).sum(1)
    np.testing.assert_array_equal(run_text(value, BYTES)[0], value.numpy())


@pytest.mark.parametrize("dtype", (dtypes.uint8, dtypes.int8, dtypes.uint16, dtypes.int16))
def test_all_small_integers_as_floats_without_conversions(dtype: DType) -> None:
    """Each value, and bytes with a number subtracted."""
    given = np.arange(1 << dtype.bitsize, dtype=np.uint16).astype(f"u{dtype.itemsize}")
    raw = Tensor(given, device="CPU")
    on_gpu = Tensor.empty(len(given), dtype=raw.dtype, device=GPU)
    for less in (0, 8, -3, 128, 129, 0.5) if dtype.itemsize == 1 else (0,):
        value, other = (x.bitcast(dtype).cast(dtypes.float32) - less for x in (raw, on_gpu))
        got, text = run_text(value, given, other)
        np.testing.assert_array_equal(got.view(np.uint32), value.numpy().view(np.uint32))
        assert "cvt.rn.f32" not in text


@pytest.mark.parametrize("width", (1, 2, 4))
def test_bits_of_bytes_as_floats(width: int) -> None:
    """Taken out of words of two or four bytes, put together, and moved so that some are negative."""
    for start in range(0, 8, width):
        values = []
        for x in (Tensor(BYTES, device="CPU"), Tensor.empty(*BYTES.shape, dtype=dtypes.uint8, device=GPU)):
            parts = (x >> start) & ((1 << width) - 1)
            values.append((parts.flatten() | ((x & 15) << 4).flatten()).cast(dtypes.float32) - 32)
            values.append(parts.cast(dtypes.float32) - (1 << width - 1))
        for value, other in zip(values[:2], values[2:], strict=True):
            got, text = run_text(value, BYTES, other)
            np.testing.assert_array_equal(got.view(np.uint32), value.numpy().view(np.uint32))
            assert "cvt.rn.f32" not in text


@pytest.mark.parametrize("name", ("Q4_0", "Q5_0", "Q8_0"))
def test_packed_weights(name: str) -> None:
    kind = next(kind for kind in KINDS.values() if kind.name == name)
    given = np.random.default_rng(1).integers(0, 256, (5, kind.nbytes), np.uint8)
    given[:, :2] = np.full((5, 1), -0.37, np.float16).view(np.uint8)
    assert kind.unpack is not None
    value = kind.unpack(Tensor(given, device="CPU"))
    other = kind.unpack(Tensor.empty(*given.shape, dtype=dtypes.uint8, device=GPU))
    got, text = run_text(value, given, other)
    np.testing.assert_array_equal(got.view(np.uint32), value.numpy().view(np.uint32))
    assert "cvt.rn.f32" not in text


def test_upper_halves_shifted_in_their_own_dtype_are_nothing() -> None:
    given = BYTES.view(np.uint16).copy()
    x = Tensor(given, device="CPU")
    for value in (
        x << 16,
        x.cast(dtypes.uint32) << 16,
        x.bitcast(dtypes.bfloat16).cast(dtypes.float32).bitcast(dtypes.uint32),
    ):
        np.testing.assert_array_equal(run_text(value, given)[0], value.numpy())
