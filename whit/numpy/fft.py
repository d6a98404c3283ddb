"""`whit.numpy.fft`: the standard's extension for Fourier transforms. They are methods of Tensor."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from whit.dtype import DTypeLike
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
    "irfft2",
    "irfftn",
    "rfft",
    "rfft2",
    "rfftfreq",
    "rfftn",
]

Norm = str | None
Axes = Sequence[int] | None


# ---- along one axis


def fft(x: Any, /, n: int | None = None, axis: int = -1, norm: Norm = "backward") -> Tensor:
    """The sum over j of x[j] * e ** (-2 pi i j k / n) at every k. `n` cuts or pads the axis."""
    return tensor_of(x).fft(n, axis, norm)


def ifft(x: Any, /, n: int | None = None, axis: int = -1, norm: Norm = "backward") -> Tensor:
    """The inverse of `fft`."""
    return tensor_of(x).ifft(n, axis, norm)


def rfft(x: Any, /, n: int | None = None, axis: int = -1, norm: Norm = "backward") -> Tensor:
    """The first n // 2 + 1 values of the transform of real numbers; the others are their conjugates."""
    return tensor_of(x).rfft(n, axis, norm)


def irfft(x: Any, /, n: int | None = None, axis: int = -1, norm: Norm = "backward") -> Tensor:
    """The inverse of `rfft`: n real numbers, 2 * (size - 1) if n is not given."""
    return tensor_of(x).irfft(n, axis, norm)


def hfft(x: Any, /, n: int | None = None, axis: int = -1, norm: Norm = "backward") -> Tensor:
    """The transform of a signal of which half is given, the rest being its conjugate: n real numbers."""
    return tensor_of(x).hfft(n, axis, norm)


def ihfft(x: Any, /, n: int | None = None, axis: int = -1, norm: Norm = "backward") -> Tensor:
    """The inverse of `hfft`: the first n // 2 + 1 values."""
    return tensor_of(x).ihfft(n, axis, norm)


# ---- along several


def fftn(x: Any, /, s: Axes = None, axes: Axes = None, norm: Norm = "backward") -> Tensor:
    """`fft` along several axes, all if none are named; `s` has the number of values of each."""
    return tensor_of(x).fftn(s, axes, norm)


def ifftn(x: Any, /, s: Axes = None, axes: Axes = None, norm: Norm = "backward") -> Tensor:
    """The inverse of `fftn`."""
    return tensor_of(x).ifftn(s, axes, norm)


def rfftn(x: Any, /, s: Axes = None, axes: Axes = None, norm: Norm = "backward") -> Tensor:
    """`rfft` along the last of several axes, then `fft` along the others."""
    return tensor_of(x).rfftn(s, axes, norm)


def irfftn(x: Any, /, s: Axes = None, axes: Axes = None, norm: Norm = "backward") -> Tensor:
    """The inverse of `rfftn`."""
    return tensor_of(x).irfftn(s, axes, norm)


def fft2(x: Any, /, s: Axes = None, axes: Axes = (-2, -1), norm: Norm = "backward") -> Tensor:
    """`fft` over two axes (NumPy)."""
    return tensor_of(x).fft2(s, axes, norm)


def ifft2(x: Any, /, s: Axes = None, axes: Axes = (-2, -1), norm: Norm = "backward") -> Tensor:
    """The inverse of `fft2` (NumPy)."""
    return tensor_of(x).ifft2(s, axes, norm)


def rfft2(x: Any, /, s: Axes = None, axes: Axes = (-2, -1), norm: Norm = "backward") -> Tensor:
    """`rfftn` over two axes (NumPy)."""
    return tensor_of(x).rfft2(s, axes, norm)


def irfft2(x: Any, /, s: Axes = None, axes: Axes = (-2, -1), norm: Norm = "backward") -> Tensor:
    """The inverse of `rfft2` (NumPy)."""
    return tensor_of(x).irfft2(s, axes, norm)


# ---- frequencies


def fftfreq(n: int, /, d: float = 1.0, *, dtype: DTypeLike | None = None, device: str | None = None) -> Tensor:
    """The frequencies of `fft` in cycles a unit, samples being `d` apart: 0, 1, ... and then the negative ones."""
    return Tensor.fftfreq(n, d, dtype=dtype, device=device)


def rfftfreq(n: int, /, d: float = 1.0, *, dtype: DTypeLike | None = None, device: str | None = None) -> Tensor:
    """The frequencies of `rfft`."""
    return Tensor.rfftfreq(n, d, dtype=dtype, device=device)


def fftshift(x: Any, /, axes: Any = None) -> Tensor:
    """The frequency 0 in the middle of each axis, or of those that are named."""
    return tensor_of(x).fftshift(axes)


def ifftshift(x: Any, /, axes: Any = None) -> Tensor:
    """The inverse of `fftshift`."""
    return tensor_of(x).ifftshift(axes)
