"""`torch.autograd.Function`: a class with a `forward`, and a `backward` that says its gradient.

    class Cube(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward(x)
            return x**3

        @staticmethod
        def backward(ctx, grad):
            (x,) = ctx.saved_tensors
            return 3 * x**2 * grad

    Cube.apply(x)

It is `Tensor.custom_function`, with a place to keep things between the two. `setup_context(ctx, inputs, output)` may do
the keeping, for a `forward` without `ctx`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from whit.errors import ArgumentError
from whit.tensor import Tensor
from whit.tensor.nested import tensors_in


class FunctionContext:
    """What `forward` keeps for `backward`. Any attribute may be set."""

    def __init__(self, inputs: Sequence[Any]) -> None:
        self.saved_tensors: tuple[Any, ...] = ()
        self.needs_input_grad = tuple(_takes_gradient(each) for each in inputs)

    def save_for_backward(self, *tensors: Any) -> None:
        """Keeps tensors, or None, as `saved_tensors`."""
        self.saved_tensors = tensors

    def save_for_forward(self, *tensors: Any) -> None:
        """The same for forward mode, which goes through `forward` itself here: nothing to do."""

    def mark_non_differentiable(self, *tensors: Tensor) -> None:
        """No gradient flows through these results."""
        for tensor in tensors:
            tensor.requires_grad = False

    def mark_dirty(self, *tensors: Tensor) -> None:
        """Nothing to do: writes are nodes of the graph."""

    def set_materialize_grads(self, value: bool) -> None:
        """Nothing to do: gradients that are not there are zeros."""


def _takes_gradient(value: Any) -> bool:
    return isinstance(value, Tensor) and value.dtype.is_float and value.requires_grad is not False


class Function:
    """A function with a gradient of its own, called by `apply`."""

    @classmethod
    def apply(cls, *args: Any, **kwargs: Any) -> Any:
        """The value of `forward`, whose gradient is that of `backward`."""
        forward, backward = getattr(cls, "forward", None), getattr(cls, "backward", None)
        if forward is None or backward is None:
            missing = "forward" if forward is None else "backward"
            raise ArgumentError(f"{cls.__name__}: the class has no {missing}", fix="Define it as a static method.")
        context = FunctionContext(args)

        def run(*inputs: Any, **named: Any) -> Any:
            if not hasattr(cls, "setup_context"):
                return _copied(forward(context, *inputs, **named), inputs)
            result = _copied(forward(*inputs, **named), inputs)
            cls.setup_context(context, inputs, result)
            return result

        def gradient(slopes: Any, results: Any, *inputs: Any, **named: Any) -> list[Any]:
            given = slopes if isinstance(slopes, tuple | list) else (slopes,)
            found = backward(context, *given)
            return cls._for_tensors(found if isinstance(found, tuple | list) else (found,), inputs)

        run.__name__ = cls.__name__
        return Tensor.custom_function(run, gradient)(*args, **kwargs)

    @classmethod
    def _for_tensors(cls, found: Sequence[Any], inputs: Sequence[Any]) -> list[Any]:
        """The gradients of the tensors among the inputs: `backward` gives one for each input."""
        extra = found[len(inputs) :]
        if len(found) < len(inputs) or any(each is not None for each in extra):
            raise ArgumentError(
                f"{cls.__name__}.backward: gives {len(found)} gradients for {len(inputs)} arguments of forward",
                fix="Give one for each, None where there is none.",
            )
        result: list[Any] = []
        for value, given in zip(inputs, found, strict=False):
            inside = tensors_in(value)
            result += [None] * len(inside) if len(inside) != 1 else [given if inside[0].dtype.is_float else None]
        return result


def _copied(result: Any, inputs: Sequence[Any]) -> Any:
    """The results, as tensors of their own where they are inputs, of the dtype that they have."""
    parts = result if isinstance(result, tuple | list) else (result,)
    found = tuple(part.view_as(part) if any(part is each for each in inputs) else part for part in parts)
    return found if isinstance(result, tuple | list) else found[0]


def once_differentiable(function: Any) -> Any:
    """A `backward` that is not differentiated again: it is a graph, which can be."""
    return function
