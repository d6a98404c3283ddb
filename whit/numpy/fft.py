"""`whit.numpy.fft`: the standard's extension for Fourier transforms, of complex dtypes.

The transforms along one axis are methods of Tensor. Those over several go along one after another; those of symmetric
spectra are the others, conjugated.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from whit.dtype import DTypeLike, dtypes, to_dtype
from whit.errors import ArgumentError
from whit.numpy.operands import tensor_of
from whit.tensor import Tensor

__all__ = [
    "fft",
    "fft2",
    "fftfreq",
    "fftn",
    "fftshift",
    "hfft",
    "ifft",
    "ifft2",
    "ifftn",
    "ifftshift",
    "ihfft",
    "irfft",
    "irfftn",
    "rfft",
    "rfftfreq",
    "rfftn",
]

_OTHER_WAY = {None: "forward", "backward": "forward", "forward": "backward", "ortho": "ortho"}


def _complex(x: Any) -> Tensor:
    """Numbers as complex ones."""
    given = tensor_of(x)
    if given.dtype.kind == "complex":
        return given
    return given.cast(to_dtype("complex128" if given.dtype is dtypes.float64 else "complex64"))


def fft(x: Any, /, n: int | None = None, axis: int = -1, norm: str | None = "backward") -> Tensor:
    """The sum over j of x[j] * e ** (-2 pi i j k / n) at every k. `n` cuts or pads the axis."""
    return _complex(x).fft(n, axis, norm)


def ifft(x: Any, /, n: int | None = None, axis: int = -1, norm: str | None = "backward") -> Tensor:
    """The inverse of `fft`."""
    return _complex(x).ifft(n, axis, norm)


def rfft(x: Any, /, n: int | None = None, axis: int = -1, norm: str | None = "backward") -> Tensor:
    """The first n // 2 + 1 values of the transform of real numbers."""
    return tensor_of(x).rfft(n, axis, norm)


def irfft(x: Any, /, n: int | None = None, axis: int = -1, norm: str | None = "backward") -> Tensor:
    """The inverse of `rfft`: n real numbers, 2 * (size - 1) if n is not given."""
    return _complex(x).irfft(n, axis, norm)


def hfft(x: Any, /, n: int | None = None, axis: int = -1, norm: str | None = "backward") -> Tensor:
    """The transform of numbers whose second half is the first one's conjugate, which is not given: it is real."""
    return irfft(_complex(x).conj(), n, axis, _opposite("hfft", norm))


def ihfft(x: Any, /, n: int | None = None, axis: int = -1, norm: str | None = "backward") -> Tensor:
    """The inverse of `hfft`."""
    return rfft(x, n, axis, _opposite("ihfft", norm)).conj()


def _opposite(name: str, norm: str | None) -> str:
    if norm not in _OTHER_WAY:
        raise ArgumentError(f"{name}: there is no norm {norm!r}", fix='Use "backward", "ortho" or "forward".')
    return _OTHER_WAY[norm]


# ---- over several axes


def _several(name: str, x: Tensor, s: Sequence[int] | None, axes: Sequence[int] | None) -> list[tuple[int, int | None]]:
    """The axes to transform, and what each is cut or padded to."""
    if axes is None:
        named = list(range(x.ndim) if s is None else range(x.ndim - len(s), x.ndim))
    else:
        named = [x._axis(name, axis, scalars=False) for axis in axes]
    sizes: list[int | None] = [None] * len(named) if s is None else [None if size == -1 else size for size in s]
    if len(sizes) != len(named):
        raise ArgumentError(f"{name}: {len(sizes)} sizes for {len(named)} axes", x._made(), "Give one for each axis.")
    return list(zip(named, sizes, strict=True))


def fftn(
    x: Any, /, s: Sequence[int] | None = None, axes: Sequence[int] | None = None, norm: str | None = "backward"
) -> Tensor:
    """`fft` over several axes, all if none are named."""
    result = _complex(x)
    for axis, size in _several("fftn", result, s, axes):
        result = fft(result, size, axis, norm)
    return result


def ifftn(
    x: Any, /, s: Sequence[int] | None = None, axes: Sequence[int] | None = None, norm: str | None = "backward"
) -> Tensor:
    """The inverse of `fftn`."""
    result = _complex(x)
    for axis, size in _several("ifftn", result, s, axes):
        result = ifft(result, size, axis, norm)
    return result


def rfftn(
    x: Any, /, s: Sequence[int] | None = None, axes: Sequence[int] | None = None, norm: str | None = "backward"
) -> Tensor:
    """`rfft` along the last of several axes, then `fft` over the others."""
    given = tensor_of(x)
    *others, (last, size) = _several("rfftn", given, s, axes)
    result = rfft(given, size, last, norm)
    for axis, each in others:
        result = fft(result, each, axis, norm)
    return result


def irfftn(
    x: Any, /, s: Sequence[int] | None = None, axes: Sequence[int] | None = None, norm: str | None = "backward"
) -> Tensor:
    """The inverse of `rfftn`."""
    result = _complex(x)
    *others, (last, size) = _several("irfftn", result, s, axes)
    for axis, each in others:
        result = ifft(result, each, axis, norm)
    return irfft(result, size, last, norm)


def fft2(
    x: Any, /, s: Sequence[int] | None = None, axes: Sequence[int] = (-2, -1), norm: str | None = "backward"
) -> Tensor:
    """`fftn` over the last two axes (NumPy)."""
    return fftn(x, s, axes, norm)


def ifft2(
    x: Any, /, s: Sequence[int] | None = None, axes: Sequence[int] = (-2, -1), norm: str | None = "backward"
) -> Tensor:
    """`ifftn` over the last two axes (NumPy)."""
    return ifftn(x, s, axes, norm)


# ---- frequencies


def fftfreq(n: int, /, d: float = 1.0, *, dtype: DTypeLike | None = None, device: str | None = None) -> Tensor:
    """The frequencies of `fft` in cycles a unit, samples being `d` apart: 0, 1, ... and then the negative ones."""
    place = Tensor.arange(n, dtype=dtypes.int64, device=device)
    return _frequencies((place + n // 2) % n - n // 2, n, d, dtype)


def rfftfreq(n: int, /, d: float = 1.0, *, dtype: DTypeLike | None = None, device: str | None = None) -> Tensor:
    """The frequencies of `rfft`."""
    return _frequencies(Tensor.arange(n // 2 + 1, dtype=dtypes.int64, device=device), n, d, dtype)


def _frequencies(cycles: Tensor, n: int, d: float, dtype: DTypeLike | None) -> Tensor:
    wanted = dtypes.default_float if dtype is None else to_dtype(dtype)
    return (cycles.cast(dtypes.float64) / (n * d)).cast(wanted)


def fftshift(x: Any, /, axes: Any = None) -> Tensor:
    """Frequencies in order, 0 in the middle."""
    given = tensor_of(x)
    named = given._axes("fftshift", axes)
    return given.roll(tuple(given.shape[axis] // 2 for axis in named), named) if named else given


def ifftshift(x: Any, /, axes: Any = None) -> Tensor:
    """The inverse of `fftshift`."""
    given = tensor_of(x)
    named = given._axes("ifftshift", axes)
    return given.roll(tuple(-(given.shape[axis] // 2) for axis in named), named) if named else given
