"""Changes to batches of images (batch, channels, height, width), as tensor code: each image gets its own.

They are graphs like others: they run where the batch is, and in a step that `TinyJit` has captured their random numbers
are new in every call. They always happen; evaluation does not call them.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from whit.dtype import dtypes
from whit.errors import ArgumentError, ShapeError
from whit.ir.op import spell_shape
from whit.tensor import Tensor

TRIES = 64  # of drawing a beta number; of those with alpha = 2, five in six are refused, and all of them never
LARGEST_ALPHA = 2.0


def _images(name: str, x: Tensor) -> tuple[int, int, int, int]:
    if x.ndim != 4:
        raise ShapeError(f"{name}: {spell_shape(x.shape)}", x._made(), "It takes (batch, channels, height, width).")
    batch, channels, height, width = x.shape
    return int(batch), int(channels), int(height), int(width)


def _chance(name: str, p: float) -> None:
    if isinstance(p, bool) or not isinstance(p, int | float) or not 0 <= p <= 1:
        raise ArgumentError(f"{name}: p={p!r} is no probability", fix="Use one from 0 to 1.")


def _for_each(x: Tensor, *choices: Tensor) -> list[Tensor]:
    """Numbers of each image in the shape of images."""
    return [choice.reshape(-1, *(1 for _ in x.shape[1:])) for choice in choices]


def normalize(x: Tensor, mean: Any, std: Any) -> Tensor:
    """(x - mean) / std with one number for each channel; integers are taken as 0 to 255."""
    _images("normalize", x)
    values = x.cast(dtypes.default_float) / 255 if x.dtype.is_int else x
    shift, scale = (Tensor(given, dtype=values.dtype, device=x.device).reshape(1, -1, 1, 1) for given in (mean, std))
    return (values - shift) / scale


def random_flip(x: Tensor, p: float = 0.5, axis: int = -1) -> Tensor:
    """Left and right exchanged with probability p; up and down with `axis=-2`."""
    _images("random_flip", x)
    _chance("random_flip", p)
    (chosen,) = _for_each(x, Tensor.rand(x.shape[0], device=x.device) < p)
    return chosen.where(x.flip(axis), x)


def random_crop(
    x: Tensor, size: int | Sequence[int], padding: int = 0, mode: str = "constant", value: float = 0.0
) -> Tensor:
    """A part of this size from anywhere in each image, which gets `padding` around it before."""
    _images("random_crop", x)
    high, wide = (size, size) if isinstance(size, int) else tuple(size)
    padded = x.pad((padding,) * 4, mode, value) if padding else x
    batch, _, height, width = _images("random_crop", padded)
    if not 0 < high <= height or not 0 < wide <= width:
        raise ShapeError(f"random_crop: {high} x {wide} of images of {height} x {width}", x._made(), "Pad more.")
    top = Tensor.randint(batch, low=0, high=height - high + 1, device=x.device).reshape(-1, 1, 1)
    left = Tensor.randint(batch, low=0, high=width - wide + 1, device=x.device).reshape(-1, 1, 1)
    image = Tensor.arange(batch, device=x.device).reshape(-1, 1, 1)
    rows = top + Tensor.arange(high, device=x.device).reshape(1, -1, 1)
    columns = left + Tensor.arange(wide, device=x.device).reshape(1, 1, -1)
    return padded.permute(0, 2, 3, 1)[image, rows, columns].permute(0, 3, 1, 2)


def random_erase(x: Tensor, p: float = 0.5, size: int | Sequence[int] = 8, value: float = 0.0) -> Tensor:
    """With probability p, a window of this size anywhere in an image, or partly outside of it, is one number."""
    batch, *_ = _images("random_erase", x)
    _chance("random_erase", p)
    high, wide = (size, size) if isinstance(size, int) else tuple(size)
    inside = _window(x, Tensor.rand(batch, device=x.device), Tensor.rand(batch, device=x.device), high, wide)
    (chosen,) = _for_each(x, Tensor.rand(batch, device=x.device) < p)
    return (chosen & inside).where(value, x)


def _window(x: Tensor, vertical: Tensor, horizontal: Tensor, high: Any, wide: Any) -> Tensor:
    """Where windows lie whose middles are at these shares of height and width."""
    _, _, height, width = x.shape
    middle_row, middle_column = _for_each(x, vertical * height, horizontal * width)
    row = Tensor.arange(height, device=x.device).reshape(1, 1, -1, 1) + 0.5
    column = Tensor.arange(width, device=x.device).reshape(1, 1, 1, -1) + 0.5
    inside: Tensor = ((row - middle_row).abs() * 2 < high) & ((column - middle_column).abs() * 2 < wide)
    return inside


def random_brightness(x: Tensor, most: float = 0.2) -> Tensor:
    """Each image times a number from 1 - most to 1 + most."""
    _images("random_brightness", x)
    (factor,) = _for_each(x, Tensor.uniform(x.shape[0], low=1 - most, high=1 + most, device=x.device))
    return x * factor.cast(x.dtype)


def random_contrast(x: Tensor, most: float = 0.2) -> Tensor:
    """The difference of each image to its mean, times a number from 1 - most to 1 + most."""
    _images("random_contrast", x)
    (factor,) = _for_each(x, Tensor.uniform(x.shape[0], low=1 - most, high=1 + most, device=x.device))
    mean = x.mean((1, 2, 3), keepdim=True)
    return mean + (x - mean) * factor.cast(x.dtype)


def beta(alpha: float, device: str | None = None) -> Tensor:
    """One number of the distribution Beta(alpha, alpha), by Johnk's method: the first try that is not refused."""
    if not 0 < alpha <= LARGEST_ALPHA:
        raise ArgumentError(f"mixup: alpha={alpha!r}", fix=f"It is above 0, and at most {LARGEST_ALPHA:g}.")
    logs = Tensor.rand(2, TRIES, device=device).maximum(1e-30).log() / alpha
    first, total = logs[0], logs[0].logaddexp(logs[1])
    chosen = (total <= 0).int().argmax()
    return (first - total).exp()[chosen].reshape(())


def mixup(x: Tensor, y: Tensor, alpha: float = 0.2) -> tuple[Tensor, Tensor]:
    """Images and their probabilities of classes, each mixed with those of another one of the batch."""
    share = beta(alpha, x.device).cast(x.dtype)
    order = Tensor.randperm(x.shape[0], device=x.device)
    labels = _labels("mixup", y, x)
    part = share.cast(labels.dtype)
    return x * share + x[order] * (1 - share), labels * part + labels[order] * (1 - part)


def cutmix(x: Tensor, y: Tensor, alpha: float = 1.0) -> tuple[Tensor, Tensor]:
    """Images with a window of another one of the batch, and probabilities of classes by the size of the window."""
    batch, _, height, width = _images("cutmix", x)
    labels = _labels("cutmix", y, x)
    size = (1 - beta(alpha, x.device)).sqrt()
    order = Tensor.randperm(batch, device=x.device)
    place = Tensor.rand(2, device=x.device)
    middles = [place[axis].reshape(1).expand(batch) for axis in range(2)]
    inside = _window(x, middles[0], middles[1], size * height, size * width)
    share = 1 - inside[0].cast(labels.dtype).mean()
    return inside.where(x[order], x), labels * share + labels[order] * (1 - share)


def _labels(name: str, y: Tensor, x: Tensor) -> Tensor:
    if y.ndim != 2 or not y.dtype.is_float or y.shape[0] != x.shape[0]:
        raise ShapeError(
            f"{name}: labels {spell_shape(y.shape)} of {y.dtype.name} for {spell_shape(x.shape)}",
            y._made(),
            "They are probabilities (batch, classes): y.one_hot(classes).float().",
        )
    return y
