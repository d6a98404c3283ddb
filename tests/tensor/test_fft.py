"""Fourier transforms against NumPy's: every length, axes, batches, scales, cut and padded; kernels; mistakes."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from tensor.check import value
from whit import Tensor
from whit.dtype import complex_dtype, dtypes, to_dtype
from whit.engine.report.counters import GlobalCounters
from whit.errors import ArgumentError, OutOfRangeError, ShapeError
from whit.tensor.methods.linear_algebra.fourier import _tables

pytestmark = pytest.mark.slow  # every case is compiled

LENGTHS = (97, 101, 128, 131, 262, 1000, 1009, 4096)


def _complex(shape: tuple[int, ...], dtype: str = "float64") -> Any:
    """Random complex numbers whose parts are of a dtype, and the same as complex128."""
    parts = np.random.default_rng(len(shape)).standard_normal((*shape, 2)).astype(dtype)
    x = parts.view({"float32": "complex64", "float64": "complex128"}[dtype])[..., 0].copy()
    return x, x.astype(np.complex128)


def near(found: Any, expected: Any, dtype: str = "float64") -> None:
    """Within a few roundings of the largest value, as transforms mix all of them."""
    assert found.shape == expected.shape
    limit = {"float64": 3e-15, "float32": 1.5e-6}[dtype]
    scale = max(abs(expected).max(), 1e-30) if expected.size else 1
    assert abs(found - expected).max(initial=0) <= limit * scale


@pytest.mark.parametrize("n", range(1, 65))
def test_short_lengths_by_the_interpreter(n: int) -> None:
    x, z = _complex((2, n))
    near(value(Tensor(x).fft()), np.fft.fft(z))
    near(value(Tensor(x).ifft()), np.fft.ifft(z))
    near(value(Tensor(z.real.copy()).rfft()), np.fft.rfft(z.real))
    near(value(Tensor(x[:, : n // 2 + 1].copy()).irfft(n=n)), np.fft.irfft(z[:, : n // 2 + 1], n=n))


@pytest.mark.parametrize("dtype", ("float32", "float64"))
@pytest.mark.parametrize("n", LENGTHS)
def test_long_lengths(n: int, dtype: str) -> None:
    x, z = _complex((3, n), dtype)
    forward = Tensor(x).fft()
    assert forward.dtype is complex_dtype(to_dtype(dtype))
    near(forward.numpy(), np.fft.fft(z), dtype)
    near(forward.ifft().numpy(), z, dtype)
    real = z.real.astype(dtype)
    half = Tensor(real).rfft()
    near(half.numpy(), np.fft.rfft(real.astype(np.float64)), dtype)
    near(half.irfft(n=n).numpy(), real.astype(np.float64), dtype)


@pytest.mark.parametrize("axis", (0, 1, 2, -1, -2, -3))
def test_axes(axis: int) -> None:
    x, z = _complex((3, 6, 5))
    near(value(Tensor(x).fft(dim=axis)), np.fft.fft(z, axis=axis))
    near(value(Tensor(x).ifft(axis=axis)), np.fft.ifft(z, axis=axis))
    near(value(Tensor(z.real.copy()).rfft(axis=axis)), np.fft.rfft(z.real, axis=axis))
    near(value(Tensor(x).irfft(dim=axis)), np.fft.irfft(z, axis=axis))
    near(value(Tensor(x).fft(n=4, dim=axis)), np.fft.fft(z, n=4, axis=axis))
    near(value(Tensor(x).fft(n=9, dim=axis)), np.fft.fft(z, n=9, axis=axis))
    near(value(Tensor(x).irfft(n=9, dim=axis)), np.fft.irfft(z, n=9, axis=axis))
    near(value(Tensor(x).irfft(n=3, dim=axis)), np.fft.irfft(z, n=3, axis=axis))


@pytest.mark.parametrize("norm", (None, "backward", "ortho", "forward"))
def test_scales(norm: str | None) -> None:
    x, z = _complex((2, 12))
    near(value(Tensor(x).fft(norm=norm)), np.fft.fft(z, norm=norm))  # type: ignore[arg-type]
    near(value(Tensor(x).ifft(norm=norm)), np.fft.ifft(z, norm=norm))  # type: ignore[arg-type]
    near(value(Tensor(z.real.copy()).rfft(norm=norm)), np.fft.rfft(z.real, norm=norm))  # type: ignore[arg-type]
    near(value(Tensor(x).irfft(norm=norm)), np.fft.irfft(z, norm=norm))  # type: ignore[arg-type]


def test_two_axes() -> None:
    x, z = _complex((2, 6, 5))
    near(value(Tensor(x).fft2()), np.fft.fft2(z))
    near(value(Tensor(x).ifft2()), np.fft.ifft2(z))


REAL = ("rfftn", "rfft2")
FAMILY = ("fftn", "ifftn", "fft2", "ifft2", "irfftn", "irfft2", "hfft", "ihfft", *REAL)


@pytest.mark.parametrize("name", FAMILY)
def test_the_family_is_numpys(name: str) -> None:
    x, z = _complex((3, 4, 6))
    given = z.real.copy() if name in (*REAL, "ihfft") else x
    for norm in ("backward", "ortho", "forward"):
        near(value(getattr(Tensor(given), name)(norm=norm)), getattr(np.fft, name)(given, norm=norm))
    if name not in ("hfft", "ihfft"):
        near(value(getattr(Tensor(given), name)(s=(3, 8))), getattr(np.fft, name)(given, (3, 8), (-2, -1)))
        near(value(getattr(Tensor(given), name)(axes=(0, 1))), getattr(np.fft, name)(given, axes=(0, 1)))


def test_the_frequency_0_in_the_middle() -> None:
    x = np.arange(15.0).reshape(3, 5)
    np.testing.assert_array_equal(value(Tensor(x).fftshift()), np.fft.fftshift(x))
    np.testing.assert_array_equal(value(Tensor(x).ifftshift(axes=1)), np.fft.ifftshift(x, axes=1))


def test_one_vector_no_batch_and_views() -> None:
    x, z = _complex((7,))
    near(value(Tensor(x).fft()), np.fft.fft(z))
    x, z = _complex((0, 7))
    near(Tensor(x).fft().numpy(), np.fft.fft(z))
    x, z = _complex((6, 8))
    near(value(Tensor(x)[::-2, 1:8:2].fft()), np.fft.fft(z[::-2, 1:8:2]))
    near(value(Tensor(x).permute(1, 0).fft()), np.fft.fft(z.T))


def test_dtypes() -> None:
    x = np.arange(12) % 5
    for dtype in ("int32", "uint8", "float16", "bfloat16"):
        found = Tensor(x.tolist(), dtype=dtype).rfft()
        assert found.dtype is dtypes.complex64
        near(value(found), np.fft.rfft(x), "float32")


def test_whole_numbers_stay_whole_where_the_roots_are() -> None:
    found = value(Tensor([1.0, 2.0, 3.0, 4.0]).rfft()).tolist()
    assert found == [10, -2 + 2j, -2]


def test_frequencies() -> None:
    for n in (1, 2, 7, 8):
        np.testing.assert_allclose(Tensor.fftfreq(n, 0.1).numpy(), np.fft.fftfreq(n, 0.1), rtol=1e-6, atol=1e-6)
        np.testing.assert_allclose(Tensor.rfftfreq(n, 0.1).numpy(), np.fft.rfftfreq(n, 0.1), rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("n, kernels", [(32, 1), (127, 1), (128, 3), (1024, 5), (4096, 5)])
def test_kernels_grow_with_the_number_of_factors(n: int, kernels: int) -> None:
    x = Tensor.empty(4, n, dtype="complex64").realize()
    GlobalCounters.reset()
    x.fft().realize()
    assert GlobalCounters.kernel_count <= kernels


def test_tables_are_made_once() -> None:
    Tensor.zeros(3, 36).rfft()
    before = len(_tables)
    Tensor.zeros(5, 36).rfft()
    assert len(_tables) == before


MISTAKES: dict[str, tuple[Callable[[], Any], type[Exception], str]] = {
    "a number": (lambda: Tensor(1.0).ifft(), OutOfRangeError, "ifft: there is no axis -1"),
    "no axis": (lambda: Tensor.zeros(4).fft(dim=1), OutOfRangeError, "fft: there is no axis 1 in shape (4,)"),
    "rfft of a number": (lambda: Tensor(1.0).rfft(), OutOfRangeError, "rfft: there is no axis -1"),
    "rfft of complex numbers": (lambda: Tensor([1j]).rfft(), TypeError, "rfft: it is of real numbers"),
    "no values": (lambda: Tensor.zeros(0).fft(), ArgumentError, "fft: a transform of 0 values"),
    "none asked for": (lambda: Tensor.zeros(4).fft(n=0), ArgumentError, "fft: a transform of 0 values"),
    "irfft of one": (lambda: Tensor.zeros(1).irfft(), ArgumentError, "irfft: a transform of 0 values"),
    "no such norm": (lambda: Tensor.zeros(4).fft(norm="orto"), ArgumentError, "fft: there is no norm 'orto'"),
    "both names": (lambda: Tensor.zeros(4).fft(dim=0, axis=0), ArgumentError, "fft: both axis=0 and dim=0"),
    "bools": (lambda: Tensor([True, False]).rfft(), TypeError, "rfft: bools are not numbers here"),
    "an axis twice": (lambda: Tensor.zeros(2, 2).fftn(dim=(0, 0)), ShapeError, "fftn: s=None along axes (0, 0)"),
    "sizes of one axis": (lambda: Tensor.zeros(2, 2).fft2(s=(3,)), ShapeError, "fft2: s=(3,) along axes (-2, -1)"),
}


@pytest.mark.parametrize("name", MISTAKES)
def test_mistakes_are_told(name: str) -> None:
    call, kind, message = MISTAKES[name]
    with pytest.raises(kind) as caught:
        call()
    assert message in str(caught.value)


def test_small_frequencies_are_as_exact_as_large_ones() -> None:
    np.testing.assert_allclose(Tensor.fftfreq(1001, 0.1).numpy(), np.fft.fftfreq(1001, 0.1), rtol=2e-7)
