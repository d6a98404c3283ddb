"""Convolutions on the device CUDA beside cuDNN on the same GPU. Results are checked; times are the best of many.

python bench/gpu_convolutions.py            forward and both gradients, of shapes of residual networks

`nchw` takes a tensor as users have it and stores the result as they get it: copies with channels last are part of the
time. The others are what happens between two layers: their results have channels last, too.
"""

# mypy: disable-error-code="misc"
from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

import torch
from gpu_products import TOLERANCE, random, row

from whit import Device, Tensor

# images, channels in and out, size of an image, of a window, stride, dtype
SHAPES = [
    (64, 256, 256, 56, 3, 1, torch.bfloat16),
    (64, 256, 256, 56, 3, 1, torch.float16),
    (64, 256, 256, 56, 1, 1, torch.bfloat16),
    (256, 64, 64, 56, 3, 1, torch.bfloat16),
    (256, 512, 512, 7, 3, 1, torch.bfloat16),
    (256, 64, 128, 56, 3, 2, torch.bfloat16),
    (256, 64, 256, 56, 1, 1, torch.bfloat16),
]


def convolutions() -> None:
    """Four lines for each shape."""
    for images, inputs, outputs, size, window, stride, kind in SHAPES:
        ahead = {"stride": stride, "padding": window // 2}
        places = (size + stride - 1) // stride
        (image, x), (weight, w), (upstream, g) = (
            random(kind, *shape)
            for shape in (
                (images, inputs, size, size),
                (outputs, inputs, window, window),
                (images, outputs, places, places),
            )
        )
        there = [_last(t) for t in (image, weight, upstream)]
        here = [_here(t) for t in (x, w, g)]
        flops = 2.0 * images * places**2 * inputs * outputs * window**2
        name = f"{str(kind)[6:]} {images} x {inputs} -> {outputs}, {size}², {window}x{window}, stride {stride}"
        theirs = _of(there, ahead)
        tolerance = TOLERANCE[kind]
        row(f"{name}: nchw", flops, lambda x=x, w=w, a=ahead: x.conv2d(w, **a), theirs["forward"], tolerance)
        for what, compute in _ours(here, ahead).items():
            row(f"{name}: {what}", flops, compute, lambda f=theirs[what]: f().permute(0, 2, 3, 1), tolerance)


def _last(t: Any) -> Any:
    return t.to(memory_format=torch.channels_last)


def _here(x: Tensor) -> Tensor:
    """The same tensor, channels last in memory."""
    return x.permute(0, 2, 3, 1).contiguous().realize().permute(0, 3, 1, 2)


def _ours(tensors: list[Tensor], ahead: dict[str, Any]) -> dict[str, Callable[[], Tensor]]:
    x, w, g = tensors

    def last(y: Tensor) -> Tensor:
        return y.permute(0, 2, 3, 1)

    return {
        "forward": lambda: last(x.conv2d(w, **ahead)),
        "gradient of images": lambda: last(x.conv2d(w, **ahead).gradient(x, gradient=g)[0]),
        "gradient of weights": lambda: last(x.conv2d(w, **ahead).gradient(w, gradient=g)[0]),
    }


def _of(tensors: list[Any], ahead: dict[str, int]) -> dict[str, Callable[[], Any]]:
    """The same by cuDNN: of the gradients one alone."""
    x, w, g = tensors
    pair = {name: [value, value] for name, value in ahead.items()}

    def gradient(which: int) -> Any:
        wanted = [which == 0, which == 1, False]
        return torch.ops.aten.convolution_backward(
            g, x, w, None, pair["stride"], pair["padding"], [1, 1], False, [0, 0], 1, wanted
        )[which]

    return {
        "forward": lambda: torch.conv2d(x, w, **ahead),
        "gradient of images": lambda: gradient(0),
        "gradient of weights": lambda: gradient(1),
    }


if __name__ == "__main__":
    print(f"{Device['CUDA'].gpu.name}, torch {torch.__version__}")  # type: ignore[attr-defined]
    convolutions()
    sys.exit()
