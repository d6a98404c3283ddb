"""Many tensors in one memory, so that an optimiser has one tensor to change.

    joined([a, b])          a and b one after the other: each is computed where it lies then, and nothing is copied
    Flat(params)            the memory of parameters, which become views of it

What is done to all gradients alike (a factor, a limit, a wider dtype) is done once, to the joined ones. So a norm of
`joined(gradients)` and an update by gradients that were scaled with it read the same memory.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from itertools import accumulate
from math import prod
from typing import Any

from whit.dtype import dtypes
from whit.ir import ops
from whit.ir.op import Op
from whit.ir.uop import UOp, const, make
from whit.records import dataclass
from whit.tensor import Tensor

MOST_ROWS = 1 << 12  # of one parameter: the most that are added up for each
SHORTEST_ROW_ELEMENTS = 64  # elements
SPREADS = (ops.RESHAPE, ops.EXPAND, *ops.SAME_VALUE)


def joined(tensors: Sequence[Tensor]) -> Tensor:
    """The elements of all, one after the other."""
    if len(tensors) == 1:
        return tensors[0].reshape(-1)
    steps, parts = take_off([tensor.uop for tensor in tensors])
    counts = [prod(part.shape) for part in parts]
    base = const(parts[0].dtype, 0.0).reshape((1,)).expand((sum(counts),))
    stores = []
    for part, count, end in zip(parts, counts, accumulate(counts), strict=True):
        stores.append(base.shrink([(end - count, count)]).reshape(part.shape).store(part.stage()))
    result = base.after(*stores)
    for step in reversed(steps):
        result = step.on(result)
    return tensors[0]._wrap(result)


def by_kind(tensors: Sequence[Tensor]) -> dict[Hashable, list[int]]:
    """The places of tensors of one dtype and device."""
    groups: dict[Hashable, list[int]] = {}
    for place, tensor in enumerate(tensors):
        groups.setdefault((tensor.dtype, tensor.device), []).append(place)
    return groups


# ---- what is done to all of them


@dataclass(frozen=True, slots=True)
class FlatStep:
    """An elementwise op on a value and on numbers."""

    op: Op
    arg: Any
    place: int  # of the value among the sources
    numbers: tuple[UOp, ...]  # the other sources, of shape ()

    def on(self, value: UOp) -> UOp:
        """The op on another value."""
        return make(self.op, (*self.numbers[: self.place], value, *self.numbers[self.place :]), self.arg)


def take_off(nodes: list[UOp]) -> tuple[list[FlatStep], list[UOp]]:
    """The steps that all values have at their end, the last one first, and the values before them."""
    steps: list[FlatStep] = []
    while True:
        nodes = [_bare(node) for node in nodes]
        step = _common_step(nodes)
        if step is None:
            return steps, nodes
        steps.append(step)
        nodes = [node.src[step.place] for node in nodes]


def _bare(node: UOp) -> UOp:
    while node.op is ops.RESHAPE or node.op in ops.SAME_VALUE:
        node = node.src[0]
    return node


def _common_step(nodes: list[UOp]) -> FlatStep | None:
    first = nodes[0]
    if any(node.op is not first.op or node.arg != first.arg for node in nodes):
        return None
    if first.op is ops.CAST:
        return FlatStep(ops.CAST, first.arg, 0, ()) if _widen(nodes) else None
    if not first.op.elementwise or any(node.dtype is not first.dtype for node in nodes):
        return None
    for place in range(len(first.src)):
        beside = _numbers_beside(first, place)
        if beside is not None and all(_is_like(node, first, place, beside) for node in nodes):
            return FlatStep(first.op, first.arg, place, tuple(n.reshape(()) for n in beside))
    return None


def _widen(casts: list[UOp]) -> bool:
    """Whether casts go from one dtype of floats to a wider one."""
    (source,) = casts[0].src
    return is_wider(casts[0], source) and all(node.src[0].dtype is source.dtype for node in casts)


def _numbers_beside(node: UOp, place: int) -> list[UOp] | None:
    """The numbers that the other sources of a node repeat; None if one of them is more than a number."""
    found = [_number(source) for i, source in enumerate(node.src) if i != place]
    numbers = [number for number in found if number is not None]
    return numbers if len(numbers) == len(found) else None


def _is_like(node: UOp, first: UOp, place: int, beside: list[UOp]) -> bool:
    """Whether a node does to the source at a place what the first one does to its own."""
    return _is_value(node, place, first) and _numbers_beside(node, place) == beside


def is_wider(node: UOp, source: UOp) -> bool:
    """Whether a cast goes from a float to one with more bits: the narrow one is kept."""
    return node.dtype.is_float and source.dtype.is_float and node.dtype.itemsize > source.dtype.itemsize


def _is_value(node: UOp, place: int, like: UOp) -> bool:
    value = node.src[place]
    return value.shape == node.shape and value.dtype is like.src[place].dtype and value.dtype.is_float


def _number(node: UOp) -> UOp | None:
    """What a source repeats, if that is one number."""
    while node.op in SPREADS and len(node.src) == 1:
        node = node.src[0]
    return node if prod(node.shape) == 1 else None


# ---- parameters


class Flat:
    """The memory of several parameters, which become views of it."""

    __slots__ = ("sizes", "tensor")  # no __dict__: what is in here has no name in a state dict

    def __init__(self, params: Sequence[Tensor]) -> None:
        self.sizes = [tensor.numel() for tensor in params]
        self.tensor = self._filled(joined([tensor.detach() for tensor in params])).contiguous().realize()
        self.tensor.requires_grad = False
        for tensor, start, size in zip(params, self._starts(), self.sizes, strict=True):
            tensor._become_view(self.tensor[start : start + size].reshape(tensor.shape))

    def take(self, gradients: Sequence[Tensor]) -> Tensor:
        """Gradients in the order of the parameters."""
        return self._filled(joined(gradients))

    def _starts(self) -> list[int]:
        return [0, *accumulate(self.sizes)][:-1]

    def _filled(self, elements: Tensor) -> Tensor:
        return elements


class FlatRows(Flat):
    """The same in rows: each parameter begins a row, and zeros fill its last one. A row belongs to one parameter, so
    that norms of all parameters are two kernels. What they need is on the device `home`, where states are.
    """

    __slots__ = ("_first_row", "begin", "end", "first", "most", "owner", "row", "rows")

    def __init__(self, params: Sequence[Tensor], home: str) -> None:
        sizes = [tensor.numel() for tensor in params]
        self.row = row_for(sizes)
        rows = [-(-size // self.row) for size in sizes]
        self._first_row = [0, *accumulate(rows)][:-1]
        self.most = max(rows)
        owner = [place for place, count in enumerate(rows) for _ in range(count)]
        starts = [0, *accumulate(sizes)]
        begin = [starts[place] + (at - self._first_row[place]) * self.row for at, place in enumerate(owner)]
        device = params[0].device
        self.owner = _table(owner, home)  # of each row: its parameter
        self.begin = _table(begin, device)  # of each row: its first element, among all elements without zeros
        self.end = _table([starts[place + 1] for place in owner], device)  # of each row: where its parameter ends there
        self.first = _table(self._first_row, home)  # of each parameter: its first row
        self.rows = _table(rows, home)  # of each parameter: how many rows it has
        super().__init__(params)

    def _starts(self) -> list[int]:
        return [place * self.row for place in self._first_row]

    def _filled(self, elements: Tensor) -> Tensor:
        place = self.begin.reshape(-1, 1) + _arange(self.row)
        return _read(elements, place, place < self.end.reshape(-1, 1)).reshape(-1)

    def norms(self, *values: Tensor) -> list[Tensor]:
        """The norm of each parameter in each of these flat tensors."""
        first, *others = [value.reshape(-1, self.row).square() for value in values]
        sums = first.stack(*others).sum(2).contiguous()
        step = _arange(self.most)
        is_own, place = step < self.rows.reshape(-1, 1), step + self.first.reshape(-1, 1)
        return [_read(sums[i], place, is_own).sum(1).sqrt() for i in range(len(values))]

    def for_each_element(self, numbers: Tensor) -> Tensor:
        """A number of each parameter at each of its elements."""
        return _read(numbers.contiguous(), self.owner).reshape(-1, 1).expand(-1, self.row).reshape(-1)


def _read(values: Tensor, place: Tensor, gate: Tensor | None = None) -> Tensor:
    """values[place], where all places are known to be inside; zero where the gate is closed."""
    return values._wrap(values.uop.index(place.uop, gate=None if gate is None else gate.uop))


def _arange(count: int) -> Tensor:
    return Tensor.arange(count, dtype=dtypes.int32).reshape(1, -1)


def row_for(sizes: Sequence[int]) -> int:
    """The length of rows: a power of two with which no parameter has too many."""
    row = SHORTEST_ROW_ELEMENTS
    while max(sizes) > row * MOST_ROWS:
        row *= 2
    return row


def _table(numbers: list[int], device: str) -> Tensor:
    return Tensor(numbers, dtype=dtypes.int32, device=device, requires_grad=False).realize()
