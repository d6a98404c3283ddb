"""Where elements are: positions, order, sets; and elements at positions.

How many elements `nonzero` and `unique_values` find depends on the data: they are computed at once.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from whit.dtype import dtypes
from whit.errors import ArgumentError, ShapeError
from whit.numpy.data_types import result_type
from whit.numpy.operands import NUMBERS, tensor_of, tensors
from whit.tensor import Tensor

__all__ = [
    "argmax",
    "argmin",
    "argsort",
    "count_nonzero",
    "nonzero",
    "searchsorted",
    "sort",
    "take",
    "take_along_axis",
    "unique_all",
    "unique_counts",
    "unique_inverse",
    "unique_values",
    "where",
]

# ---- searching


def argmax(x: Any, /, axis: int | None = None, *, keepdims: bool = False) -> Tensor:
    """The position of the first largest element along an axis, or in all elements."""
    return tensor_of(x).argmax(axis, keepdims)


def argmin(x: Any, /, axis: int | None = None, *, keepdims: bool = False) -> Tensor:
    """The position of the first smallest element along an axis, or in all elements."""
    return tensor_of(x).argmin(axis, keepdims)


def count_nonzero(x: Any, /, axis: Any = None, *, keepdims: bool = False) -> Tensor:
    """How many elements are not zero."""
    return tensor_of(x).count_nonzero(axis, keepdims)


def nonzero(x: Any, /) -> tuple[Tensor, ...]:
    """The positions of the elements that are not zero: a row for each axis."""
    given = tensor_of(x)
    if not given.ndim:
        raise ShapeError("nonzero: an array of shape () has no positions", given._made(), "Use reshape(x, 1).")
    rows = given.nonzero()
    return tuple(rows[:, axis] for axis in range(given.ndim))


def searchsorted(x1: Any, x2: Any, /, side: str = "left", sorter: Any = None, *, right: bool | None = None) -> Tensor:
    """Where each element of x2 belongs in x1, which is in order, or is put in order by the positions `sorter`."""
    if side not in ("left", "right"):
        raise ArgumentError(f"searchsorted: there is no side {side!r}", fix='Use "left" or "right".')
    row, values = tensors(x1, x2)
    ordered = row if sorter is None else row.take(tensor_of(sorter))
    dtype = result_type(ordered, values)
    is_right = side == "right" if right is None else right
    return ordered.cast(dtype).searchsorted(values.cast(dtype), right=is_right)


def where(condition: Any, x1: Any = None, x2: Any = None, /) -> Any:
    """x1 where the condition holds, x2 elsewhere. Of the condition alone, `nonzero`."""
    if x1 is None and x2 is None:
        return nonzero(condition)
    yes, no = (each if isinstance(each, NUMBERS) else tensor_of(each) for each in (x1, x2))
    return tensor_of(condition).cast(dtypes.bool).where(yes, no)


# ---- order


def argsort(x: Any, /, axis: int | None = -1, *, descending: bool = False, stable: bool = True) -> Tensor:
    """The positions that put an axis in order; those of equal elements stay in order. Without an axis, all in a row."""
    given = tensor_of(x)
    if axis is None:
        given, axis = given.flatten(), 0
    return given.argsort(axis, descending, stable=stable)


def sort(x: Any, /, axis: int | None = -1, *, descending: bool = False, stable: bool = True) -> Tensor:
    """The elements of an axis in order; without an axis, all of them."""
    given = tensor_of(x)
    if axis is None:
        given, axis = given.flatten(), 0
    return given.sort(axis, descending, stable=stable)[0]


# ---- sets


class UniqueAll(NamedTuple):
    """What `unique_all` gives."""

    values: Tensor
    indices: Tensor
    inverse_indices: Tensor
    counts: Tensor


class UniqueCounts(NamedTuple):
    """What `unique_counts` gives."""

    values: Tensor
    counts: Tensor


class UniqueInverse(NamedTuple):
    """What `unique_inverse` gives."""

    values: Tensor
    inverse_indices: Tensor


def unique_all(x: Any, /) -> UniqueAll:
    """The different elements in order, where each is first, for each element which of them it is, and how often each
    is. NaNs differ from each other."""
    return UniqueAll(*tensor_of(x).unique_all())


def unique_counts(x: Any, /) -> UniqueCounts:
    """The different elements in order, and how often each is. NaNs differ from each other."""
    return UniqueCounts(*tensor_of(x).unique_counts())


def unique_inverse(x: Any, /) -> UniqueInverse:
    """The different elements in order, and for each element which of them it is. NaNs differ from each other."""
    return UniqueInverse(*tensor_of(x).unique_inverse())


def unique_values(x: Any, /) -> Tensor:
    """The different elements in order. NaNs differ from each other."""
    return tensor_of(x).unique_values()


# ---- elements at positions


def take(x: Any, indices: Any, /, axis: int | None = None) -> Tensor:
    """The elements at positions of an axis, which may be left out where there is one."""
    return tensor_of(x).take(tensor_of(indices), axis)


def take_along_axis(x: Any, indices: Any, /, axis: int | None = -1) -> Tensor:
    """For each position of the other axes, the elements at positions of this axis."""
    given, places = tensor_of(x), tensor_of(indices)
    if axis is None:
        return given.flatten().take_along_axis(places, 0)
    return given.take_along_axis(places, axis)
