"""Special functions at their corners, against the standard library and against what defines them."""

from __future__ import annotations

import math

import numpy as np
import pytest

from whit import Tensor
from whit.dtype import dtypes
from whit.errors import ArgumentError, DTypeError

pytestmark = pytest.mark.slow


def test_lgamma_is_that_of_the_standard_library() -> None:
    points = np.concatenate([np.linspace(-9.3, 30, 500), [1e-10, 0.5, 1.0, 2.0, 170.5, 1e8]])
    points = points[(points > 0) | (points != np.floor(points))]
    found = Tensor(points).lgamma().numpy()
    wanted = [math.lgamma(point) for point in points]
    np.testing.assert_allclose(found, wanted, rtol=2e-13, atol=2e-14)
    assert Tensor([0.0, -1.0, math.inf, -math.inf]).lgamma().tolist() == [math.inf] * 4
    assert np.isnan(Tensor([math.nan]).lgamma().item())


def test_erfc_and_its_inverse_are_right_in_the_tails() -> None:
    points = np.linspace(-6, 26, 300)
    np.testing.assert_allclose(Tensor(points).erfc().numpy(), [math.erfc(p) for p in points], rtol=1e-13)
    inside = np.concatenate([np.linspace(-0.999, 0.999, 301), 1 - 2.0 ** -np.arange(1, 50)])
    back = Tensor(inside).erfinv().numpy()
    np.testing.assert_allclose([math.erf(b) for b in back], inside, rtol=1e-14, atol=1e-15)
    assert Tensor([1.0, -1.0]).erfinv().tolist() == [math.inf, -math.inf]
    assert np.isnan(Tensor([1.5, math.nan]).erfinv().numpy()).all()


def test_polygamma_is_the_derivative_of_the_one_before() -> None:
    torch = pytest.importorskip("torch")
    points = np.concatenate([np.linspace(0.2, 20, 60), np.linspace(-4.7, -0.3, 9)])
    for order in (0, 1, 2, 3):
        wanted = torch.polygamma(order, torch.tensor(points)).numpy()
        np.testing.assert_allclose(Tensor(points).polygamma(order).numpy(), wanted, rtol=2e-9)
    with pytest.raises(ArgumentError, match="there is no derivative -1"):
        Tensor([1.0]).polygamma(-1)


def test_floats_and_their_parts() -> None:
    x = np.array([0.0, -0.0, 1.0, -1.5, 1e-40, 3e38, 1e-45, math.inf, -math.inf, math.nan], np.float32)
    for dtype in (np.float32, np.float64, np.float16):
        with np.errstate(over="ignore"):
            y = x.astype(dtype)
        mantissa, exponent = Tensor(y).frexp()
        there = np.isfinite(y)
        wanted = np.frexp(y)
        np.testing.assert_array_equal(mantissa.numpy(), wanted[0])
        np.testing.assert_array_equal(exponent.numpy()[there], wanted[1][there])
        np.testing.assert_array_equal(mantissa.ldexp(exponent).numpy(), y)
        for end in (0.0, 1.0, math.inf, -math.inf):
            found = Tensor(y).nextafter(Tensor(np.full_like(y, end))).numpy()
            np.testing.assert_array_equal(found, np.nextafter(y, np.full_like(y, end)))
    with np.errstate(all="ignore"):
        wanted_power = np.ldexp(np.array([1.5, 1e38, 3e-39], np.float32), [-148, -250, 200])
    assert Tensor([1.5, 1e38, 3e-39]).ldexp(Tensor([-148, -250, 200])).tolist() == wanted_power.tolist()
    with pytest.raises(DTypeError, match="nextafter: floats of 8 bits have none"):
        Tensor([1.0], dtype=dtypes.fp8e4m3).nextafter(Tensor([2.0], dtype=dtypes.fp8e4m3))


@pytest.mark.parametrize("dtype", ["int8", "uint8", "int16", "int32", "int64", "uint64"])
def test_divisors(dtype: str) -> None:
    random = np.random.default_rng(0)
    info = np.iinfo(dtype)
    a, b = (random.integers(max(info.min, -(2**62)), min(info.max, 2**62), 200).astype(dtype) for _ in range(2))
    np.testing.assert_array_equal(Tensor(a).gcd(Tensor(b)).numpy(), np.gcd(a, b))
    small = [(random.integers(0, 10, 50)).astype(dtype) for _ in range(2)]
    np.testing.assert_array_equal(Tensor(small[0]).lcm(Tensor(small[1])).numpy(), np.lcm(*small))
    # neighbours in Fibonacci's sequence take the most steps
    last, before = 1, 1
    while last + before <= info.max:
        last, before = last + before, last
    assert Tensor(np.array([last], dtype)).gcd(Tensor(np.array([before], dtype))).item() == 1
    with pytest.raises(DTypeError, match="gcd: it is for integers"):
        Tensor([1.0]).gcd(2.0)


def test_rounding_to_digits() -> None:
    x = np.array([1.25, -2.345, 1234.5, 0.05], np.float64)
    for decimals in (2, 1, 0, -1, -2):
        np.testing.assert_allclose(Tensor(x).round(decimals).numpy(), np.round(x, decimals), rtol=1e-15)
    n = np.array([15, 25, -149, 3])
    assert Tensor(n).round(decimals=-1).tolist() == np.round(n, -1).tolist()
    assert Tensor(n).round(2).tolist() == n.tolist()
