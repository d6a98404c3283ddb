"""`torch.func`: functions into functions. They are those of whit.grad and its neighbours (docs/transforms.md)."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from typing import Any

from whit.nn.state import functional_call as _functional_call
from whit.nn.state import get_parameters, get_state_dict
from whit.tensor import Tensor
from whit.tensor import transforms as whole
from whit.tensor.transforms import grad, linearize, vjp

__all__ = [
    "functional_call",
    "grad",
    "grad_and_value",
    "hessian",
    "jacfwd",
    "jacrev",
    "jvp",
    "linearize",
    "stack_module_state",
    "vjp",
    "vmap",
]


def vmap(
    func: Callable[..., Any],
    in_dims: Any = 0,
    out_dims: Any = 0,
    randomness: str = "error",
    *,
    chunk_size: int | None = None,
) -> Callable[..., Any]:
    """func for every example of a batch at once."""
    return whole.vmap(func, in_dims, out_dims, randomness)


def grad_and_value(func: Callable[..., Any], argnums: Any = 0, has_aux: bool = False) -> Callable[..., Any]:
    """(gradient, value), or (gradient, (value, aux))."""
    both = whole.value_and_grad(func, argnums, has_aux)

    @functools.wraps(func)
    def found(*args: Any, **kwargs: Any) -> tuple[Any, Any]:
        value, gradient = both(*args, **kwargs)
        return gradient, value

    return found


def jvp(func: Callable[..., Any], primals: Any, tangents: Any, *, strict: bool = False, has_aux: bool = False) -> Any:
    """func(*primals), and how it moves along the tangents."""
    return whole.jvp(func, primals, tangents, has_aux=has_aux)


def jacrev(
    func: Callable[..., Any], argnums: Any = 0, *, has_aux: bool = False, chunk_size: int | None = None
) -> Callable[..., Any]:
    """The Jacobian, a row at a time."""
    return whole.jacrev(func, argnums, has_aux)


def jacfwd(
    func: Callable[..., Any], argnums: Any = 0, has_aux: bool = False, *, randomness: str = "error"
) -> Callable[..., Any]:
    """The Jacobian, a column at a time."""
    return whole.jacfwd(func, argnums, has_aux)


def hessian(func: Callable[..., Any], argnums: Any = 0) -> Callable[..., Any]:
    """The second derivatives."""
    return whole.hessian(func, argnums)


def functional_call(
    module: Any,
    parameter_and_buffer_dicts: Any,
    args: Any = None,
    kwargs: Mapping[str, Any] | None = None,
    *,
    tie_weights: bool = True,
    strict: bool = False,
) -> Any:
    """module(*args, **kwargs) with other tensors in it, by the names of its state dictionary."""
    given = parameter_and_buffer_dicts
    if isinstance(given, list | tuple):
        given = {name: tensor for each in given for name, tensor in each.items()}
    positional = () if args is None else args if isinstance(args, tuple) else (args,)
    return _functional_call(module, given, *positional, **(kwargs or {}))


def stack_module_state(models: Any) -> tuple[dict[str, Tensor], dict[str, Tensor]]:
    """The parameters, and the other tensors, of several models of one kind, one above the other."""
    states = [get_state_dict(model) for model in models]
    trained = {id(tensor) for tensor in get_parameters(models[0])}
    stacked = {name: Tensor.stack([state[name] for state in states]).detach() for name in states[0]}
    parameters = {name: tensor for name, tensor in stacked.items() if id(states[0][name]) in trained}
    return parameters, {name: tensor for name, tensor in stacked.items() if name not in parameters}
