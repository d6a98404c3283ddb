"""The works of the benchmark: what whit computes, what NumPy computes for the same inputs, and what it costs at least.

    for work in works(quick=False): ...

`moved` counts each element of inputs and results once, `flops` those of products and sums in matrix work alone: the
arithmetic of memory-bound kernels hides behind their memory.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from math import prod
from typing import Any

import numpy as np
import numpy.typing as npt

from whit.tensor import Tensor

Array = npt.NDArray[Any]
Shape = tuple[int, ...]
MiB = 1 << 20


@dataclass(frozen=True, slots=True)
class Work:
    """One computation over float32 inputs of these shapes; the results are a tuple, compared one by one."""

    name: str
    shapes: tuple[Shape, ...]
    ours: Callable[..., tuple[Tensor, ...]]
    reference: Callable[..., tuple[Array, ...]]
    moved: int  # bytes
    flops: int = 0
    tolerance: float = 1e-4  # of the largest element


def works(quick: bool = False) -> list[Work]:
    """All of them; `quick`: the same on tiny inputs."""
    many = 1 << 12 if quick else 16 * MiB
    rows, width = (16, 64) if quick else (2048, 4096)
    sizes = (16, 32, 48) if quick else (512, 1024, 2048)
    return [
        _elementwise("add", many, lambda a, b: a + b, lambda a, b: a + b),
        _elementwise("gelu chain", many, lambda a, b: (a * 2 + 1).gelu() * b + a, _gelu_chain),
        Work(f"sum {many}", ((many,),), lambda a: (a.sum(),), lambda a: (np.asarray(a.sum()),), 4 * many),
        _rows("softmax", rows, width, lambda a: a.softmax(1), _softmax),
        _rows("layernorm", rows, width, lambda a: a.layernorm(), _layernorm),
        *(_matmul(size, size, size) for size in sizes),
        _matmul(*((20, 33, 17) if quick else (1000, 777, 999))),
        _convolution(*((1, 4, 8, 4) if quick else (8, 64, 56, 64))),
        _training(*((8, 16, 24, 4) if quick else (256, 784, 1024, 10))),
    ]


def _elementwise(name: str, count: int, ours: Callable[..., Tensor], reference: Callable[..., Array]) -> Work:
    shapes = ((count,), (count,))
    return Work(f"{name} {count}", shapes, lambda a, b: (ours(a, b),), lambda a, b: (reference(a, b),), 12 * count)


def _gelu_chain(a: Array, b: Array) -> Array:
    x = a * 2 + 1
    result: Array = 0.5 * x * (1 + np.tanh(0.7978845608028654 * (x + 0.044715 * x**3))) * b + a
    return result


def _rows(name: str, rows: int, width: int, ours: Callable[..., Tensor], reference: Callable[..., Array]) -> Work:
    shapes = ((rows, width),)
    return Work(f"{name} {rows}x{width}", shapes, lambda a: (ours(a),), lambda a: (reference(a),), 8 * rows * width)


def _softmax(x: Array) -> Array:
    e = np.exp(x - x.max(1, keepdims=True))
    result: Array = e / e.sum(1, keepdims=True)
    return result


def _layernorm(x: Array) -> Array:
    result: Array = (x - x.mean(1, keepdims=True)) / np.sqrt(x.var(1, keepdims=True) + 1e-5)
    return result


def _matmul(m: int, k: int, n: int) -> Work:
    return Work(
        f"matmul {m}x{k}x{n}",
        ((m, k), (k, n)),
        lambda a, b: (a @ b,),
        lambda a, b: (a @ b,),
        4 * (m * k + k * n + m * n),
        2 * m * k * n,
    )


def _convolution(batch: int, channels: int, size: int, filters: int) -> Work:
    """3x3, no padding."""
    shapes = ((batch, channels, size, size), (filters, channels, 3, 3))
    out = (batch, filters, size - 2, size - 2)

    def reference(x: Array, w: Array) -> tuple[Array]:
        windows = np.lib.stride_tricks.sliding_window_view(x, (3, 3), (2, 3))  # (batch, channels, y, x, 3, 3)
        return (np.moveaxis(np.tensordot(windows, w, ((1, 4, 5), (1, 2, 3))), -1, 1),)

    moved = 4 * (prod(shapes[0]) + prod(shapes[1]) + prod(out))
    name = f"conv {batch}x{channels}x{size}x{size}"
    return Work(name, shapes, lambda x, w: (x.conv2d(w),), reference, moved, 2 * prod(out) * channels * 9)


def _training(batch: int, inputs: int, hidden: int, classes: int) -> Work:
    """One step of gradient descent of a network with one hidden layer: the new weights, and the loss."""
    rate = 0.1
    labels = np.arange(batch) % classes
    one_hot = np.eye(classes)[labels]

    def ours(x: Tensor, first: Tensor, second: Tensor) -> tuple[Tensor, ...]:
        first, second = first * 0.05, second * 0.05
        target = Tensor(labels.astype(np.int32), device=x.device)
        loss = ((x @ first).relu() @ second).sparse_categorical_crossentropy(target)
        changes = loss.gradient(first, second)
        return loss, first - changes[0] * rate, second - changes[1] * rate

    def reference(x: Array, first: Array, second: Array) -> tuple[Array, ...]:
        first, second = first * 0.05, second * 0.05
        middle = np.maximum(x @ first, 0)
        chances = _softmax(middle @ second)
        loss = -np.log(chances[np.arange(batch), labels]).mean()
        wrong = (chances - one_hot) / batch
        back = (wrong @ second.T) * (middle > 0)
        return np.asarray(loss), first - rate * x.T @ back, second - rate * middle.T @ wrong

    products = (
        2 * batch * inputs * hidden + 3 * batch * hidden * classes
    )  # forward and weights; the last one's input too
    weights = inputs * hidden + hidden * classes
    return Work(
        f"training step {batch}x{inputs}x{hidden}x{classes}",
        ((batch, inputs), (inputs, hidden), (hidden, classes)),
        ours,
        reference,
        4 * (batch * inputs + 2 * weights),
        2 * products,
    )
