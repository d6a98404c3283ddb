"""`torch.autograd.functional`: derivatives of functions at a point."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from whit.errors import ArgumentError
from whit.tensor import Tensor
from whit.tensor.transforms import grad as _grad
from whit.tensor.transforms import jacfwd as _jacfwd
from whit.tensor.transforms import jacrev as _jacrev
from whit.tensor.transforms import jvp as _jvp
from whit.tensor.transforms import vjp as _vjp

Function = Callable[..., Any]


def _inputs(inputs: Any) -> tuple[Any, ...]:
    return (inputs,) if isinstance(inputs, Tensor) else tuple(inputs)


def _places(inputs: Any) -> Any:
    return 0 if isinstance(inputs, Tensor) else tuple(range(len(inputs)))


def jacobian(
    func: Function,
    inputs: Any,
    create_graph: bool = False,
    strict: bool = False,
    vectorize: bool = False,
    strategy: str = "reverse-mode",
) -> Any:
    """d func / d inputs: of one input a tensor, of several a tuple of them."""
    derivative = _jacfwd if strategy == "forward-mode" else _jacrev
    return derivative(func, argnums=_places(inputs))(*_inputs(inputs))


def hessian(
    func: Function,
    inputs: Any,
    create_graph: bool = False,
    strict: bool = False,
    vectorize: bool = False,
    outer_jacobian_strategy: str = "reverse-mode",
) -> Any:
    """The second derivatives of a function that gives one number."""
    places = _places(inputs)
    return _jacfwd(_grad(func, argnums=places), argnums=places)(*_inputs(inputs))


def _ones(value: Any, like: Any, name: str) -> Any:
    if value is not None:
        return value
    if isinstance(like, Tensor) and like.numel() == 1:
        return like.ones_like()
    raise ArgumentError(f"{name}: the result is no single number, and v= is missing", fix="Give v=, of its shape.")


def vjp(
    func: Function, inputs: Any, v: Any = None, create_graph: bool = False, strict: bool = False
) -> tuple[Any, Any]:
    """func(inputs), and v times the Jacobian."""
    output, pull = _vjp(func, *_inputs(inputs))
    found = pull(_ones(v, output, "vjp"))
    return output, found[0] if isinstance(inputs, Tensor) else found


def jvp(
    func: Function, inputs: Any, v: Any = None, create_graph: bool = False, strict: bool = False
) -> tuple[Any, Any]:
    """func(inputs), and the Jacobian times v."""
    given = _inputs(inputs)
    direction = _ones(v, inputs, "jvp") if isinstance(inputs, Tensor) else v
    output, tangent = _jvp(func, given, _inputs(direction))
    return output, tangent


def hvp(
    func: Function, inputs: Any, v: Any = None, create_graph: bool = False, strict: bool = False
) -> tuple[Any, Any]:
    """func(inputs), and the Hessian times v."""
    places = _places(inputs)
    given = _inputs(inputs)
    direction = _ones(v, inputs, "hvp") if isinstance(inputs, Tensor) else v
    _, product = _jvp(_grad(func, argnums=places), given, _inputs(direction))
    return func(*given), product


def vhp(
    func: Function, inputs: Any, v: Any = None, create_graph: bool = False, strict: bool = False
) -> tuple[Any, Any]:
    """func(inputs), and v times the Hessian, which is symmetric."""
    return hvp(func, inputs, v)
