"""Many elements into few: sums, extremes, moments, truth; and what runs along an axis.

Sums of integers smaller than the default int are of that size, as the standard asks; `std` and `var` divide by the
number of elements unless `correction` says otherwise.
"""

from __future__ import annotations

from typing import Any

from whit.dtype import DType, DTypeLike, to_dtype
from whit.errors import ArgumentError
from whit.ir.op import spell_shape
from whit.numpy.manipulation import concat
from whit.numpy.operands import NUMBERS, number_beside, tensor_of
from whit.tensor import Tensor
from whit.tensor.methods.readings import forget_single

__all__ = [
    "all",
    "any",
    "cumprod",
    "cumsum",
    "cumulative_prod",
    "cumulative_sum",
    "diff",
    "max",
    "mean",
    "min",
    "prod",
    "std",
    "sum",
    "var",
]


def all(x: Any, /, axis: Any = None, *, keepdims: bool = False) -> Tensor:
    """Whether no element is zero."""
    return tensor_of(x).all(axis, keepdims)


def any(x: Any, /, axis: Any = None, *, keepdims: bool = False) -> Tensor:
    """Whether an element is not zero."""
    return tensor_of(x).any(axis, keepdims)


def max(x: Any, /, axis: Any = None, *, keepdims: bool = False) -> Tensor:
    """The largest; NaN if there is one."""
    return forget_single(tensor_of(x).max(axis, keepdims))


def min(x: Any, /, axis: Any = None, *, keepdims: bool = False) -> Tensor:
    """The smallest; NaN if there is one."""
    return forget_single(tensor_of(x).min(axis, keepdims))


def mean(x: Any, /, axis: Any = None, dtype: DTypeLike | None = None, *, keepdims: bool = False) -> Tensor:
    """The sum, divided by the number of elements."""
    given = tensor_of(x)
    return (given if dtype is None else given.cast(to_dtype(dtype))).mean(axis, keepdims)


def sum(x: Any, /, axis: Any = None, dtype: DTypeLike | None = None, *, keepdims: bool = False) -> Tensor:
    """The sum; 0 of no elements."""
    return tensor_of(x).sum(axis, keepdims, dtype)


def prod(x: Any, /, axis: Any = None, dtype: DTypeLike | None = None, *, keepdims: bool = False) -> Tensor:
    """The product; 1 of no elements."""
    return tensor_of(x).prod(axis, keepdims, dtype)


def std(
    x: Any, /, axis: Any = None, *, correction: float = 0.0, keepdims: bool = False, ddof: float | None = None
) -> Tensor:
    """The square root of `var`."""
    return tensor_of(x).std(axis, keepdims, _less("std", correction, ddof))


def var(
    x: Any, /, axis: Any = None, *, correction: float = 0.0, keepdims: bool = False, ddof: float | None = None
) -> Tensor:
    """The mean of squared distances from the mean, dividing by the number of elements less the correction, which NumPy
    calls ddof, too."""
    return tensor_of(x).var(axis, keepdims, _less("var", correction, ddof))


def _less(name: str, correction: float, ddof: float | None) -> Any:
    if ddof is None:
        return correction
    if correction:
        raise ArgumentError(f"{name}: both correction={correction} and ddof={ddof} are given", fix="They are one.")
    return ddof


def cumulative_sum(
    x: Any, /, *, axis: int | None = None, dtype: DTypeLike | None = None, include_initial: bool = False
) -> Tensor:
    """At each position the sum up to it; with `include_initial` a 0 before the first one."""
    return _running("cumulative_sum", "cumsum", 0, x, axis, dtype, include_initial)


def cumulative_prod(
    x: Any, /, *, axis: int | None = None, dtype: DTypeLike | None = None, include_initial: bool = False
) -> Tensor:
    """At each position the product up to it; with `include_initial` a 1 before the first one."""
    return _running("cumulative_prod", "cumprod", 1, x, axis, dtype, include_initial)


def _running(
    name: str, method: str, first: int, x: Any, axis: int | None, dtype: DTypeLike | None, include_initial: bool
) -> Tensor:
    given = tensor_of(x)
    if axis is None and given.ndim != 1:
        raise ArgumentError(
            f"{name}: no axis is named for shape {spell_shape(given.shape)}", given._made(), "Name one: axis=0."
        )
    place = given._axis(name, axis or 0)
    wanted: DType | None = None if dtype is None else to_dtype(dtype)
    result: Tensor = getattr(given if wanted is None else given.cast(wanted), method)(place)
    if wanted is not None and result.dtype is not wanted:
        result = result.cast(wanted)
    if not include_initial:
        return result
    start = Tensor.full((*result.shape[:place], 1, *result.shape[place + 1 :]), first, result.dtype, result.device)
    return concat([start, result], axis=place)


def cumsum(x: Any, /, axis: int | None = None, dtype: DTypeLike | None = None) -> Tensor:
    """At each position the sum up to it; without an axis, of all elements in a row (NumPy)."""
    given = tensor_of(x)
    return cumulative_sum(given.flatten() if axis is None else given, axis=axis or 0, dtype=dtype)


def cumprod(x: Any, /, axis: int | None = None, dtype: DTypeLike | None = None) -> Tensor:
    """At each position the product up to it; without an axis, of all elements in a row (NumPy)."""
    given = tensor_of(x)
    return cumulative_prod(given.flatten() if axis is None else given, axis=axis or 0, dtype=dtype)


def diff(x: Any, /, n: int = 1, axis: int = -1, *, prepend: Any = None, append: Any = None) -> Tensor:
    """The differences of neighbours along an axis, n times; prepend and append are put at its ends before."""
    given = tensor_of(x)
    ends = [_end(part, given, axis) for part in (prepend, append)]
    return given.diff(n, axis, *ends)


def _end(part: Any, x: Tensor, axis: int) -> Tensor | None:
    """What is put beside an axis; one number is repeated."""
    if part is None:
        return None
    end = number_beside(part, x) if isinstance(part, NUMBERS) else tensor_of(part)
    if end.ndim:
        return end
    place = x._axis("diff", axis)
    return end.expand((*x.shape[:place], 1, *x.shape[place + 1 :]))
