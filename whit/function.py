"""`@function`: each call of a Python function is one node of the graph. docs/functions.md, `whit.tensor.calls`."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, ParamSpec, TypeVar

from whit.errors import ArgumentError

Parameters = ParamSpec("Parameters")
Result = TypeVar("Result")


def function(fn: Callable[Parameters, Result]) -> Callable[Parameters, Result]:
    """The function, each call of it one node of the graph."""
    if not callable(fn):
        raise ArgumentError(f"function: {fn!r:.60} is no function", fix="Put @function before a function or a method.")
    name = getattr(fn, "__name__", type(fn).__name__)

    @functools.wraps(fn)
    def with_calls(*args: Parameters.args, **kwargs: Parameters.kwargs) -> Result:
        from whit.tensor.calls import called  # lazy: it loads the runtime, which `import whit` must not

        result: Any = called(name, fn, args, kwargs)
        return result  # type: ignore[no-any-return]

    return with_calls
