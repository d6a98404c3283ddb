"""`torch.fft`: methods of Tensor, and shifts of their results (docs/linalg.md)."""

from __future__ import annotations

from typing import Any

from whit.tensor import Tensor
from whit.torch.rows import functions, plain

_ROWS = functions("fft ifft rfft irfft fft2 ifft2".split(), "torch.fft")
fft, ifft, rfft, irfft = (_ROWS[name] for name in ("fft", "ifft", "rfft", "irfft"))
fft2, ifft2 = (_ROWS[name] for name in ("fft2", "ifft2"))


def fftfreq(n: int, d: float = 1.0, **given: Any) -> Tensor:
    """The frequencies of a transform of n samples at a distance of d."""
    _, _, given = plain(given)
    return Tensor.fftfreq(n, d, **given)


def rfftfreq(n: int, d: float = 1.0, **given: Any) -> Tensor:
    """Those of a transform of real numbers."""
    _, _, given = plain(given)
    return Tensor.rfftfreq(n, d, **given)


def fftshift(input: Tensor, dim: Any = None) -> Tensor:
    """The frequency 0 moves to the middle."""
    axes = _axes(input, dim)
    return input.roll([input.shape[axis] // 2 for axis in axes], axes)


def ifftshift(input: Tensor, dim: Any = None) -> Tensor:
    """And back."""
    axes = _axes(input, dim)
    return input.roll([-(input.shape[axis] // 2) for axis in axes], axes)


def _axes(input: Tensor, dim: Any) -> list[int]:
    if dim is None:
        return list(range(input.ndim))
    return [dim] if isinstance(dim, int) else list(dim)
