"""Steps of optimisers, for any number of tensors at once: all tensors, all gradients, then the states."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from whit.onnx.operators.registry import Node, operator
from whit.tensor import Tensor

DOMAIN: Final = "ai.onnx.preview.training"


def _for_each(parts: int, inputs: tuple[Tensor, ...], step: Callable[..., tuple[Tensor, ...]]) -> tuple[Tensor, ...]:
    """A step for each tensor with its gradient and states; results first of all tensors, then states by kind."""
    count = len(inputs) // parts
    results = [step(*inputs[i::count]) for i in range(count)]
    return tuple(each for kind in zip(*results, strict=True) for each in kind)


@operator("Adagrad", since=(1,), domain=DOMAIN)
def adagrad(node: Node, rate: Tensor, count: Tensor, *inputs: Tensor) -> tuple[Tensor, ...]:
    """The squares of all gradients are added up."""
    decayed = rate / (1 + count.cast(rate.dtype) * float(node.get("decay_factor", 0.0)))

    def step(x: Tensor, gradient: Tensor, squares: Tensor) -> tuple[Tensor, Tensor]:
        regular = gradient + x * float(node.get("norm_coefficient", 0.0))
        total = squares + regular.square()
        return x - decayed * regular / (total.sqrt() + float(node.get("epsilon", 1e-6))), total

    return _for_each(3, inputs, step)


@operator("Adam", since=(1,), domain=DOMAIN)
def adam(node: Node, rate: Tensor, count: Tensor, *inputs: Tensor) -> tuple[Tensor, ...]:
    """Running means of gradients and of their squares."""
    alpha, beta = float(node.get("alpha", 0.9)), float(node.get("beta", 0.999))
    time = count.cast(rate.dtype)
    adjusted = (count > 0).where(rate * (1 - (time * 0 + beta) ** time).sqrt() / (1 - (time * 0 + alpha) ** time), rate)

    def step(x: Tensor, gradient: Tensor, mean: Tensor, squares: Tensor) -> tuple[Tensor, ...]:
        regular = gradient + x * float(node.get("norm_coefficient", 0.0))
        new_mean = mean * alpha + regular * (1 - alpha)
        new_squares = squares * beta + regular.square() * (1 - beta)
        moved = x - adjusted * new_mean / (new_squares.sqrt() + float(node.get("epsilon", 1e-6)))
        return moved * (1 - float(node.get("norm_coefficient_post", 0.0))), new_mean, new_squares

    return _for_each(4, inputs, step)


@operator("Momentum", since=(1,), domain=DOMAIN)
def momentum(node: Node, rate: Tensor, count: Tensor, *inputs: Tensor) -> tuple[Tensor, ...]:
    """A running sum of gradients, looked at one step ahead with the mode "nesterov"."""
    alpha, mode = float(node.get("alpha")), node.get("mode")
    share: Any = (count > 0).where(float(node.get("beta")), 1.0).cast(rate.dtype)

    def step(x: Tensor, gradient: Tensor, speed: Tensor) -> tuple[Tensor, Tensor]:
        regular = gradient + x * float(node.get("norm_coefficient", 0.0))
        new = speed * alpha + regular * share
        return x - rate * (regular + new * alpha if mode == "nesterov" else new), new

    return _for_each(3, inputs, step)
