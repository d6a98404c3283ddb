"""Max pooling whose windows begin at random places, as far from each other as the output is smaller (Graham, 2015).

Of o windows of k on an axis of n, window i begins at floor((i + u) a) - floor(u a), where a = (n - k) / (o - 1) and u
in [0, 1) is drawn for each example and channel; the last one ends where the axis ends.
"""

from __future__ import annotations

from math import prod
from typing import Any

from whit.dtype import dtypes
from whit.errors import ArgumentError, ShapeError
from whit.ir.op import spell_shape
from whit.nn.functional.pooling import each_axis
from whit.tensor import Tensor


def fractional_max_pool(
    input: Tensor,
    axes: int,
    kernel_size: Any,
    output_size: Any = None,
    output_ratio: Any = None,
    return_indices: bool = False,
    random_samples: Tensor | None = None,
) -> Any:
    """The largest element of each window of the last axes; with `return_indices` also where it is."""
    name = f"fractional_max_pool{axes}d"
    if input.ndim == axes + 1:
        found = fractional_max_pool(
            input.unsqueeze(0), axes, kernel_size, output_size, output_ratio, return_indices, random_samples
        )
        return tuple(each.squeeze(0) for each in found) if return_indices else found.squeeze(0)
    kernel, sizes = _checked(name, input, axes, each_axis(kernel_size, axes), output_size, output_ratio)
    lead, space = input.shape[:2], input.shape[2:]
    if random_samples is None:
        random_samples = Tensor.rand(*lead, axes, device=input.device)
    elif random_samples.shape != (*lead, axes):
        raise ShapeError(
            f"{name}: random_samples {spell_shape(random_samples.shape)}",
            fix=f"They are {spell_shape((*lead, axes))}: for each example and channel, one for each axis.",
        )
    order = (1, 0) if axes == 2 else (0, 1, 2)  # PyTorch's: of images, the first number is for columns
    flat = Tensor(0, device=input.device)
    for axis, (n, k, size) in enumerate(zip(space, kernel, sizes, strict=True)):
        place = _begins(random_samples[..., order[axis]], n, k, size).unsqueeze(-1) + Tensor.arange(
            k, device=input.device
        )
        shape = [*lead, *([1] * (2 * axes))]
        shape[2 + axis], shape[2 + axes + axis] = size, k
        flat = flat * n + place.reshape(shape)
    windows = flat.expand(*lead, *sizes, *kernel).reshape(*lead, *sizes, -1)
    values = input.reshape(*lead, -1).gather(-1, windows.reshape(*lead, -1)).reshape(windows.shape)
    if not return_indices:
        return values.max(-1)
    best = values.argmax(-1, keepdim=True)
    return values.gather(-1, best).squeeze(-1), windows.gather(-1, best).squeeze(-1).cast(dtypes.int64)


def _begins(sample: Tensor, n: int, k: int, size: int) -> Tensor:
    """Where the windows of an axis begin, of shape (batch, channels, size)."""
    step = (n - k) / max(size - 1, 1)
    sample = sample.detach().unsqueeze(-1)
    index = Tensor.arange(size, device=sample.device)
    begins = ((sample + index) * step).cast(dtypes.int32) - (sample * step).cast(dtypes.int32)
    return (index == size - 1).where(n - k, begins)


def _checked(
    name: str, input: Tensor, axes: int, kernel: tuple[int, ...], output_size: Any, output_ratio: Any
) -> tuple[tuple[int, ...], tuple[int, ...]]:
    if (output_size is None) == (output_ratio is None):
        raise ArgumentError(f"{name}: output_size={output_size!r}, output_ratio={output_ratio!r}", fix="Give one.")
    space = input.shape[input.ndim - axes :]
    if input.ndim != axes + 2 or not all(isinstance(n, int) for n in space):
        raise ShapeError(
            f"{name}: {spell_shape(input.shape)}", input._made(), f"Give (batch, channels) and {axes} axes."
        )
    if output_size is None:
        ratios = each_axis(output_ratio, axes)
        if not all(0 < ratio < 1 for ratio in ratios):
            raise ArgumentError(f"{name}: output_ratio={output_ratio!r}", fix="It is between 0 and 1.")
        sizes = tuple(int(n * ratio) for n, ratio in zip(space, ratios, strict=True))
    else:
        sizes = each_axis(output_size, axes)
    fits = all(0 < size <= n - k + 1 and k > 0 for size, n, k in zip(sizes, space, kernel, strict=True))
    if not fits or prod(space) == 0:
        raise ShapeError(
            f"{name}: windows {spell_shape(kernel)}, outputs {spell_shape(sizes)} of {spell_shape(space)}",
            input._made(),
            "On each axis, output + window - 1 is at most its size.",
        )
    return kernel, sizes


def fractional_max_pool2d(
    input: Tensor,
    kernel_size: Any,
    output_size: Any = None,
    output_ratio: Any = None,
    return_indices: bool = False,
    _random_samples: Tensor | None = None,
) -> Any:
    """Of images."""
    return fractional_max_pool(input, 2, kernel_size, output_size, output_ratio, return_indices, _random_samples)


def fractional_max_pool3d(
    input: Tensor,
    kernel_size: Any,
    output_size: Any = None,
    output_ratio: Any = None,
    return_indices: bool = False,
    _random_samples: Tensor | None = None,
) -> Any:
    """Of volumes."""
    return fractional_max_pool(input, 3, kernel_size, output_size, output_ratio, return_indices, _random_samples)
