"""Numbers of the host that depend on variables: what Shape gives in a program for many sizes, and what follows of it.

    Sizes([1, 3, n*32, m*32])           as an array: `array` has ints and nodes over variables as its elements

Where an operator asks something of such a number that has another answer for another value, there is no program for
all of them: `Undecided` is raised, and the model has a program for each shape instead.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from whit.errors import ArgumentError
from whit.ir.assumed import value_with
from whit.ir.sizes import Size, is_at_most, quotient, reach, same_size, settled
from whit.ir.uop import UOp
from whit.onnx.tensors import Array
from whit.records import dataclass
from whit.tensor import Tensor


class Undecided(ArgumentError):  # noqa: N818  no error of the user: nobody sees it
    """What a step does depends on the value of a size."""

    def __init__(self, what: str) -> None:
        super().__init__(f"onnx: {what}", "", "This stays inside of whit: each shape has a program of its own.")


@dataclass(frozen=True, eq=False)
class Sizes:
    """An array on the host, some of whose elements are nodes. `array` has the dtype object, `dtype` is the declared."""

    array: Array
    dtype: Any

    @property
    def shape(self) -> tuple[int, ...]:
        """That of the array."""
        return tuple(self.array.shape)

    def tensor(self, device: str | None) -> Tensor:
        """The numbers on a device."""
        name = self.dtype.name
        parts = [Tensor(number, device=device, dtype=name).reshape(1) for number in self.array.reshape(-1)]
        return (parts[0].cat(*parts[1:]) if len(parts) > 1 else parts[0]).reshape(self.shape)

    def now(self, bindings: Mapping[str, int]) -> Array:
        """The numbers with these values of variables, by name."""
        flat = [value_with(size, bindings) if isinstance(size, UOp) else size for size in self.array.reshape(-1)]
        return np.array(flat, self.dtype).reshape(self.shape)


def of_numbers(numbers: Any, dtype: Any = np.int64) -> Array | Sizes:
    """Integers and nodes -> an array of the host, if no node is left in settled form."""
    array = np.asarray(numbers, object)
    flat = np.empty(array.size, object)
    for place, number in enumerate(array.reshape(-1)):
        flat[place] = settled(number) if isinstance(number, UOp) else number
    array = flat.reshape(array.shape)
    if any(isinstance(number, UOp) for number in flat):
        return Sizes(array, np.dtype(dtype))
    return array.astype(dtype)


def as_size(number: Any) -> Any:
    """A number of the host as a size of a shape."""
    return number if isinstance(number, UOp) else int(number)


def is_symbolic(sizes: Iterable[Any]) -> bool:
    """Whether one of them depends on a variable."""
    return any(isinstance(size, UOp) for size in sizes)


def is_same(left: Size, right: Size) -> bool:
    """Whether two sizes are equal for all values; undecided where that depends."""
    left, right = settled(left), settled(right)
    if same_size(left, right):
        return True
    low, high = reach(settled(left - right))
    if low is None or high is None or low <= 0 <= high:
        raise Undecided(f"whether {left} is {right}")
    return False


def is_below(left: Size, right: Size) -> bool:
    """Whether left < right for all values; undecided where that depends."""
    found = is_at_most(left + 1, right)
    if found is None:
        raise Undecided(f"whether {left} is below {right}")
    return found


def divided(total: Size, by: Size) -> Size:
    """An exact quotient."""
    found = quotient(settled(total), settled(by))
    if found is None:
        raise Undecided(f"{total} in {by} parts")
    return found


def broadcast(left: Sequence[Size], right: Sequence[Size]) -> tuple[Size, ...]:
    """The shape of both together. A size that depends on a variable is that of the other side, or meets a 1."""
    count = max(len(left), len(right))
    wide = [(1,) * (count - len(shape)) + tuple(shape) for shape in (left, right)]
    sizes = []
    for one, other in zip(*wide, strict=True):
        if same_size(one, 1) or same_size(other, 1):
            sizes.append(other if same_size(one, 1) else one)
        elif is_same(one, other):
            sizes.append(one)
        else:
            raise Undecided(f"shapes {tuple(left)} and {tuple(right)} together")
    return tuple(sizes)
