"""`@function`: each call of a Python function is one node of the graph. docs/functions.md, `whit.tensor.calls`."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, ParamSpec, TypeVar, overload

from whit.errors import ArgumentError

Parameters = ParamSpec("Parameters")
Result = TypeVar("Result")


@overload
def function(fn: Callable[Parameters, Result]) -> Callable[Parameters, Result]: ...


@overload
def function(
    fn: None = None,
    *,
    precompile: bool = False,
    precompile_backward: bool = False,
    allow_implicit: bool = True,
    grad_fxn: Callable[..., Any] | None = None,
) -> Callable[[Callable[Parameters, Result]], Callable[Parameters, Result]]: ...


def function(
    fn: Any = None,
    *,
    precompile: bool = False,
    precompile_backward: bool = False,
    allow_implicit: bool = True,
    grad_fxn: Callable[..., Any] | None = None,
) -> Any:
    """The function, each call of it one node of the graph. With options it is put around a function: `@function(...)`.

    precompile, precompile_backward   no effect: a call is always compiled apart from what is around it
    allow_implicit                    False: tensors that are no arguments are an error
    grad_fxn                          `grad_fxn(gradient, call)` gives a gradient for each tensor among the arguments,
                                      or None; they are `call.src[1:]`
    """
    if fn is None:
        return functools.partial(function, allow_implicit=allow_implicit, grad_fxn=grad_fxn)
    if not callable(fn):
        raise ArgumentError(f"function: {fn!r:.60} is no function", fix="Put @function before a function or a method.")
    name = getattr(fn, "__name__", type(fn).__name__)

    @functools.wraps(fn)
    def with_calls(*args: Any, **kwargs: Any) -> Any:
        from whit.tensor.calls import called  # lazy: it loads the runtime, which `import whit` must not

        return called(name, fn, args, kwargs, allow_implicit, grad_fxn)

    return with_calls
