"""`Tensor`: its topics, and the casts that are named after dtypes.

The casts stand here because, in the body of a class that has a method `float`, the annotation `float` means that
method.
"""

from __future__ import annotations

from types import FunctionType
from typing import Any, Self

from whit.dtype import dtypes
from whit.names import TAKES_ANY_NAME, TENSOR, Absent, advice, with_help
from whit.tensor.methods.aliases import SameAs
from whit.tensor.methods.arithmetic import Arithmetic, Comparisons, Elementwise
from whit.tensor.methods.arrays import Arrays
from whit.tensor.methods.complex_numbers import ComplexNumbers
from whit.tensor.methods.convolution import Convolution
from whit.tensor.methods.data import Data
from whit.tensor.methods.foreign_names import Aliases
from whit.tensor.methods.gradients import Gradients
from whit.tensor.methods.grids import Grids
from whit.tensor.methods.indexing import Indexing
from whit.tensor.methods.linear_algebra import LinearAlgebra
from whit.tensor.methods.movement import Movement, Views
from whit.tensor.methods.networks import Networks
from whit.tensor.methods.random import Random
from whit.tensor.methods.readings import readings_of
from whit.tensor.methods.reduction import Reductions
from whit.tensor.methods.special import Special


class Tensor(
    Data,
    Grids,
    Random,
    Arithmetic,
    ComplexNumbers,
    Special,
    Movement,
    Indexing,
    Reductions,
    LinearAlgebra,
    Convolution,
    Networks,
    Gradients,
    Aliases,
    SameAs,
    Arrays,
):
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


def _is_helped(part: type, name: str, method: Any, function: FunctionType) -> bool:
    """Methods with arguments that people name. It takes 0.3 us a call: too much for views, operators, arithmetic."""
    code = function.__code__
    has_arguments = code.co_argcount + code.co_kwonlyargcount > 1
    has_any = code.co_flags & TAKES_ANY_NAME
    is_fast = part in (Views, Elementwise, Comparisons) or name in ("cast", "bitcast")
    return (
        not name.startswith("_") and has_arguments and not has_any and not is_fast and type(method) is not staticmethod
    )


def _finish() -> None:
    """What all methods have in common."""
    for part in Tensor.__mro__[:-1]:
        for name, method in list(vars(part).items()):
            function = getattr(method, "__func__", method)
            if not isinstance(function, FunctionType):
                continue
            _named_after_tensor(name, function)
            readings = readings_of(name)
            if readings is not None or _is_helped(part, name, method, function):
                helped: Any = with_help(function, name, readings)
                setattr(part, name, helped if method is function else type(method)(helped))
            if hasattr(function, "same_as"):
                function.__dict__["__wrapped__"] = getattr(Tensor, function.same_as)
                function.__code__ = function.__code__.replace(co_name=name)  # what messages call it
    for name in TENSOR:
        setattr(Tensor, name, Absent(str(advice("Tensor", name, TENSOR))))


_finish()
