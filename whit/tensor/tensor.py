"""The end of the chain of classes: `Tensor`, with the casts that are named after dtypes.

They stand last because, in the body of a class that has a method `float`, the annotation `float` means that method.
"""

from __future__ import annotations

import inspect
from types import FunctionType
from typing import Any, Self

from whit.dtype import dtypes
from whit.names import TENSOR, Absent, advice, with_help
from whit.tensor.aliases import Aliases
from whit.tensor.movement import Movement


class Tensor(Aliases):
    """A lazy array: shape, dtype, device, and the graph that computes it."""

    __slots__ = ()

    def __dir__(self) -> list[str]:
        """The names that there are: not those of `whit/names.py`."""
        return [name for name in super().__dir__() if name not in TENSOR]

    def bool(self) -> Self:
        """Cast to bool."""
        return self.cast(dtypes.bool)

    def int(self) -> Self:
        """Cast to int32."""
        return self.cast(dtypes.int32)

    def short(self) -> Self:
        """Cast to int16."""
        return self.cast(dtypes.int16)

    def long(self) -> Self:
        """Cast to int64."""
        return self.cast(dtypes.int64)

    def half(self) -> Self:
        """Cast to float16."""
        return self.cast(dtypes.float16)

    def float(self) -> Self:
        """Cast to float32."""
        return self.cast(dtypes.float32)

    def double(self) -> Self:
        """Cast to float64."""
        return self.cast(dtypes.float64)

    def bfloat16(self) -> Self:
        """Cast to bfloat16."""
        return self.cast(dtypes.bfloat16)


def _named_after_tensor(name: str, function: FunctionType) -> None:
    """Users see one class. Python's own messages say "Tensor.sum() got an unexpected keyword argument", too."""
    function.__qualname__ = f"Tensor.{name}"
    function.__module__ = Tensor.__module__


def _is_helped(name: str, function: FunctionType) -> bool:
    """Methods with something to leave out, which people name."""
    has_any = function.__code__.co_flags & inspect.CO_VARKEYWORDS
    has_defaults = function.__defaults__ or function.__kwdefaults__
    is_operator = "reverse" in function.__code__.co_varnames
    return not name.startswith("_") and bool(has_defaults) and not has_any and not is_operator


def _finish() -> None:
    """What all methods have in common."""
    for part in Tensor.__mro__[:-1]:
        for name, method in list(vars(part).items()):
            function = getattr(method, "__func__", method)
            if not isinstance(function, FunctionType):
                continue
            _named_after_tensor(name, function)
            if isinstance(method, staticmethod):
                continue
            if part is not Movement and _is_helped(name, function):  # 0.3 us a call: too much for views and operators
                helped: Any = with_help(function, name)
                setattr(part, name, helped if method is function else type(method)(helped))
    for name in TENSOR:
        setattr(Tensor, name, Absent(str(advice("Tensor", name, TENSOR))))


_finish()
