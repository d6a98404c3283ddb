"""Meanings that programs bring from PyTorch, NumPy and tinygrad."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

from whit import Tensor
from whit.dtype import dtypes


@pytest.fixture(scope="module")
def torch() -> Any:
    return pytest.importorskip("torch")


def test_counting_past_int32_is_int64() -> None:
    assert Tensor.arange(3).dtype is dtypes.int32
    x = Tensor.arange(2**31 - 2, 2**31 + 1)
    assert x.dtype is dtypes.int64 and x.tolist() == [2**31 - 2, 2**31 - 1, 2**31]
    assert Tensor.arange(-(2**31) - 1, -(2**31) + 1).tolist() == [-(2**31) - 1, -(2**31)]


def test_lines_between_tensors() -> None:
    first, last = np.array([0.0, 10.0]), np.array([1.0, 20.0])
    found = Tensor.linspace(Tensor(first), Tensor(last), 5, dtype="float64")
    np.testing.assert_allclose(found.numpy(), np.linspace(first, last, 5), rtol=1e-15)
    assert Tensor.linspace(Tensor(0.0), 1, 3).tolist() == [0.0, 0.5, 1.0]
    np.testing.assert_allclose(Tensor.linspace(0, Tensor(last), 1).numpy(), [[0.0, 0.0]])


FORMULAS = {
    "i...j,jk->...ik": ((2, 3, 4), (4, 5)),
    "...i,i...->...": ((3, 4), (4, 3)),
    "a...b->b...a": ((2, 3, 4),),
    "...ij,...jk": ((2, 3, 4), (2, 4, 5)),
    "i...->i": ((2, 3),),
    "...->": ((2, 3),),
}


@pytest.mark.parametrize("formula", FORMULAS)
def test_dots_anywhere_in_einsum(formula: str, torch: Any) -> None:
    arrays = [np.random.default_rng(0).standard_normal(shape) for shape in FORMULAS[formula]]
    wanted = torch.einsum(formula, *map(torch.tensor, arrays)).numpy()
    np.testing.assert_allclose(Tensor.einsum(formula, *map(Tensor, arrays)).numpy(), wanted, rtol=1e-12)


@pytest.mark.parametrize(
    "index",
    [
        ((0, 1),),
        ((0, 1), slice(None), (1, 2)),
        (slice(None), (0, 2)),
        ((True, False),),
        (((0, 1), (1, 0)),),
        (Ellipsis, (3, 0)),
    ],
    ids=str,
)
def test_tuples_inside_of_an_index_are_positions(index: Any) -> None:
    x = np.arange(24).reshape(2, 3, 4)
    assert Tensor(x)[index].tolist() == x[index].tolist()
    y, z = x.copy(), Tensor(x)
    y[index] = -1
    z[index] = -1
    assert z.tolist() == y.tolist()


def test_negative_padding_cuts_off() -> None:
    x = Tensor(np.arange(50.0).reshape(1, 2, 5, 5))
    w = Tensor(np.ones((3, 2, 2, 2)))
    inner = x[:, :, 1:-1, 1:-1].conv2d(w)
    assert x.conv2d(w, padding=-1).tolist() == inner.tolist()
    assert x.conv2d(w, padding=(-1, 0)).tolist() == x[:, :, 1:-1].conv2d(w).tolist()
    assert x.conv2d(w, padding=(0, -1, 1, 0)).tolist() == x.pad((0, -1, 1, 0)).conv2d(w).tolist()


@pytest.mark.parametrize("mode", ["bilinear", "bicubic", "nearest", "nearest-exact"])
def test_images_of_bytes_stay_bytes(mode: str, torch: Any) -> None:
    image = np.random.default_rng(0).integers(0, 256, (1, 2, 5, 6), dtype=np.uint8)
    wanted = torch.nn.functional.interpolate(torch.tensor(image), size=(8, 9), mode=mode).numpy()
    found = Tensor(image).interpolate((8, 9), mode=mode)
    assert found.dtype is dtypes.uint8
    most = {"bilinear": 1, "bicubic": 2}.get(mode, 0)  # PyTorch rounds after each axis
    assert np.abs(found.numpy().astype(int) - wanted.astype(int)).max() <= most


def test_dots_in_rearrange() -> None:
    x = np.arange(24).reshape(2, 3, 4)
    assert Tensor(x).rearrange("a ... -> ... a").tolist() == np.moveaxis(x, 0, -1).tolist()
    assert (
        Tensor(x).rearrange("... (h w) -> h ... w", h=2).tolist() == np.moveaxis(x.reshape(2, 3, 2, 2), 2, 0).tolist()
    )
    assert Tensor(x).rearrange("a ... -> a (...)").tolist() == x.reshape(2, 12).tolist()


def test_corners() -> None:
    x = Tensor([-1.0, 0.0, 1.0])
    assert x.relu().sum().gradient(x)[0].tolist() == [0.0, 0.0, 1.0]
    assert x.clip(0.0, 1.0).sum().gradient(x)[0].tolist() == [0.0, 1.0, 1.0]
    assert all(math.isnan(y) for y in Tensor([-2.0, -1.0, 0.5]).acosh().tolist())


@pytest.mark.parametrize("kind", ["bool", "float", "causal", "both", "scale", "gqa", "row"])
def test_attention_is_that_of_pytorch(kind: str, torch: Any) -> None:
    random = np.random.default_rng(0)
    q, k, v = (random.standard_normal((2, 4, 5, 8)) for _ in range(3))
    given: dict[str, Any] = {}
    mask = random.random((5, 5)) < 0.6
    if kind in ("bool", "both", "row"):
        given["attn_mask"] = mask
    if kind == "row":
        mask[2] = False
    if kind == "float":
        given["attn_mask"] = np.where(mask, random.standard_normal((5, 5)), -np.inf)
    if kind in ("causal", "both"):
        mask |= np.eye(5, dtype=bool)
        given["is_causal"] = True
    if kind == "scale":
        given["scale"] = 0.3
    if kind == "gqa":
        k, v, given["enable_gqa"] = k[:, :2], v[:, :2], True
    theirs = {name: torch.tensor(x) if isinstance(x, np.ndarray) else x for name, x in given.items()}
    wanted = torch.nn.functional.scaled_dot_product_attention(*map(torch.tensor, (q, k, v)), **theirs)
    ours: dict[str, Any] = {name: Tensor(x) if isinstance(x, np.ndarray) else x for name, x in given.items()}
    found = Tensor(q).scaled_dot_product_attention(Tensor(k), Tensor(v), **ours)
    np.testing.assert_allclose(found.numpy(), wanted.numpy(), rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("name, theirs", [("fp8e5m2", "float8_e5m2"), ("fp8e4m3", "float8_e4m3fn")])
def test_floats_of_8_bits_end_as_in_pytorch(name: str, theirs: str, torch: Any) -> None:
    if name == "fp8e4m3" and not torch.isfinite(torch.tensor(1e9).to(torch.float8_e4m3fn).float()):
        pytest.skip("this PyTorch makes NaN of what is past the end, newer ones the largest number")
    ends = [57344.0, 61439.0, 61440.0, 1e9, math.inf, -math.inf, math.nan, 448.0, 464.0, 500.0]
    x = np.concatenate([np.linspace(-70000, 70000, 2001), ends]).astype(np.float32)
    wanted = torch.tensor(x).to(getattr(torch, theirs)).float().numpy()
    for device in ("CPU", "PYTHON"):
        np.testing.assert_array_equal(Tensor(x, device=device).cast(name).float().numpy(), wanted)
