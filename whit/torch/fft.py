"""`torch.fft`: the functions of `whit.numpy.fft`, whose axes are called `dim` (docs/linalg.md)."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from whit.numpy import fft as _numpy
from whit.tensor import Tensor
from whit.torch.rows import into, plain


def _along(name: str) -> Callable[..., Any]:
    """A transform along one axis."""
    function = getattr(_numpy, name)

    @functools.wraps(function)
    def transform(
        input: Tensor, n: int | None = None, dim: int = -1, norm: str | None = None, *, out: Any = None
    ) -> Any:
        return into(out, function(input, n, dim, norm))

    return transform


def _over(name: str, last_two: bool = False) -> Callable[..., Any]:
    """A transform over several axes."""
    function = getattr(_numpy, name)
    default = (-2, -1) if last_two else None

    @functools.wraps(function)
    def transform(input: Tensor, s: Any = None, dim: Any = default, norm: str | None = None, *, out: Any = None) -> Any:
        return into(out, function(input, s, dim, norm))

    return transform


fft, ifft, rfft, irfft, hfft, ihfft = (_along(name) for name in ("fft", "ifft", "rfft", "irfft", "hfft", "ihfft"))
fftn, ifftn, rfftn, irfftn = (_over(name) for name in ("fftn", "ifftn", "rfftn", "irfftn"))
fft2, ifft2, rfft2, irfft2 = (_over(name, last_two=True) for name in ("fftn", "ifftn", "rfftn", "irfftn"))


def fftfreq(n: int, d: float = 1.0, **given: Any) -> Tensor:
    """The frequencies of a transform of n samples at a distance of d."""
    _, _, given = plain(given)
    return _numpy.fftfreq(n, d, **given)


def rfftfreq(n: int, d: float = 1.0, **given: Any) -> Tensor:
    """Those of a transform of real numbers."""
    _, _, given = plain(given)
    return _numpy.rfftfreq(n, d, **given)


def fftshift(input: Tensor, dim: Any = None) -> Tensor:
    """The frequency 0 moves to the middle."""
    return _numpy.fftshift(input, dim)


def ifftshift(input: Tensor, dim: Any = None) -> Tensor:
    """And back."""
    return _numpy.ifftshift(input, dim)
