"""The matrix of ops, dtypes and shapes: graphs, the arrays they read, and what NumPy says they give.

A `Group` is what one schedule computes: several cases over the same operands, so that a few hundred kernels cover many
thousand cases. `elementwise_groups(dtype)` and its siblings walk the op table.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from ops.corners import corners, source_dtypes, to_array

from matrix import reference
from whit.dtype import DType, dtypes
from whit.errors import DTypeError
from whit.ir import ops
from whit.ir.op import TENSOR, Op
from whit.ir.uop import UOp, const, make

Shape = tuple[int, ...]
MOST_OUTPUTS = 6  # of one kernel
ULPS = 4  # of transcendental functions, see docs/semantics.md

# One element without axes, larger than any vector and no multiple of one, and none; beside them one of: one element
# with an axis, a little more than a vector, odd.
SHAPES: tuple[Shape, ...] = ((), (133,), (0,), (3, 0, 2))
MORE_SHAPES: tuple[Shape, ...] = ((1,), (17,), (3, 5, 7))
FEW_SHAPES = SHAPES[:2]
VIEWED = (6, 19)


@dataclass(frozen=True)
class Case:
    """One value and what it has to be."""

    name: str
    node: UOp
    expected: Any
    ulps: int = 0
    has_signed_zeros: bool = True  # max and min do not specify the sign of a zero


@dataclass
class Group:
    """Cases over the same params."""

    inputs: dict[UOp, Any] = field(default_factory=dict)
    cases: list[Case] = field(default_factory=list)

    def param(self, dtype: DType, array: Any) -> UOp:
        """One more operand."""
        node = UOp.param(len(self.inputs), dtype, array.shape)
        self.inputs[node] = array
        return node

    def add(self, name: str, node: UOp, expected: Any, **details: Any) -> None:
        """One more case."""
        assert node.shape == np.shape(expected), f"{name}: {node.shape} and {np.shape(expected)}"
        self.cases.append(Case(name, node, expected, **details))

    def split(self) -> Iterator[Group]:
        """Groups of a few cases each."""
        for first in range(0, len(self.cases), MOST_OUTPUTS):
            cases = self.cases[first : first + MOST_OUTPUTS]
            used = {node for case in cases for node in case.node.topological()}
            yield Group({node: array for node, array in self.inputs.items() if node in used}, cases)


def values_of(dtype: DType, shape: Shape, seed: int) -> Any:
    """Corner values at random places."""
    generator = np.random.default_rng([seed, *dtype.name.encode()])
    choices = to_array(dtype, corners(dtype))
    return np.array(choices[generator.integers(0, len(choices), shape)], choices.dtype)


def accepts(op: Op, dtype: DType) -> bool:
    """Whether the op's record takes the dtype."""
    try:
        make(op, tuple(const(source, 1) for source in source_dtypes(op, dtype)))
    except DTypeError:
        return False
    return True


def reducers(dtype: DType) -> list[Op]:
    """The ops by which elements of the dtype can be combined."""
    return [op for op in ops.REDUCERS if accepts(op, dtype)]


# ---- operands that are no plain arrays: for a wanted shape, the shape of the param, the view and NumPy's view


View = tuple[Callable[[Shape], Shape], Callable[[UOp], UOp], Callable[[Any], Any]]


def _strided(x: UOp) -> UOp:
    *front, last = x.shape
    pairs = x.reshape((*front, last // 2, 2)).shrink((*((0, size) for size in (*front, last // 2)), (1, 1)))
    return pairs.reshape((*front, last // 2))


VIEWS: dict[str, View] = {
    "plain": (lambda s: s, lambda x: x, lambda a: a),
    "permuted": (lambda s: s[::-1], lambda x: x.permute((1, 0)), lambda a: a.T),
    "strided": (lambda s: (s[0], 2 * s[1]), _strided, lambda a: a[:, 1::2]),
    "flipped": (lambda s: s, lambda x: x.flip((0, 1)), lambda a: a[::-1, ::-1]),
    "expanded": (lambda s: (1, s[1]), lambda x: x.expand(VIEWED), lambda a: np.broadcast_to(a, VIEWED)),
    "padded": (
        lambda s: (s[0] - 3, s[1] - 2),
        lambda x: x.pad(((1, 2), (0, 2))),
        lambda a: np.concatenate(
            [
                np.zeros((1, 19), a.dtype),
                np.concatenate([a, np.zeros((3, 2), a.dtype)], 1),
                np.zeros((2, 19), a.dtype),
            ]
        ),
    ),
    "shrunk": (lambda s: (s[0] + 3, s[1] + 2), lambda x: x.shrink(((1, 6), (2, 19))), lambda a: a[1:7, 2:21]),
}
# Every operand of an op sees every view, and never the same one as its neighbour.
MIXED = [tuple(list(VIEWS)[(i + shift) % len(VIEWS)] for shift in range(4)) for i in range(len(VIEWS))]


def viewed(group: Group, dtype: DType, view: str, seed: int) -> tuple[UOp, Any]:
    """An operand of shape VIEWED seen in that way, and the array that it shows."""
    before, move, numpy_move = VIEWS[view]
    array = values_of(dtype, before(VIEWED), seed)
    return move(group.param(dtype, array)), numpy_move(array)


def some_of(things: Sequence[Any], dtype: DType, count: int) -> list[Any]:
    """A few of them, others for each dtype, so that all dtypes together see every one."""
    first = dtypes.scalars.index(dtype)
    return [things[(first + 2 * i) % len(things)] for i in range(count)]


def operand_sets(dtype: DType, sources: Sequence[DType], few: bool) -> Iterator[tuple[str, Group, list[Any]]]:
    """For each shape and some choices of views: its name, a group, and pairs of operand and array."""
    for number, shape in enumerate(FEW_SHAPES if few else (*SHAPES, *some_of(MORE_SHAPES, dtype, 1))):
        group = Group()
        arrays = [values_of(source, shape, 10 * number + i) for i, source in enumerate(sources)]
        pairs = [(group.param(source, array), array) for source, array in zip(sources, arrays, strict=True)]
        yield str(shape), group, pairs
    for number, views in enumerate(some_of(MIXED, dtype, 1 if few else 2)):
        group = Group()
        pairs = [viewed(group, source, views[i], 100 + 10 * number + i) for i, source in enumerate(sources)]
        yield " ".join(views[: len(sources)]), group, pairs


# ---- the groups


def elementwise_groups(dtype: DType, few: bool = False) -> Iterator[Group]:
    """Every elementwise op that takes the dtype."""
    accepted = [op for op in ops.ELEMENTWISE if TENSOR in op.stages and accepts(op, dtype)]
    for name, group, pairs in operand_sets(dtype, (dtypes.bool, dtype, dtype, dtype), few):
        for op in accepted:
            chosen = pairs[:3] if op is ops.WHERE else pairs[1 : 1 + op.least]
            nodes, arrays = zip(*chosen, strict=True)
            node = make(op, nodes)
            wanted = reference.elementwise(op, dtype, arrays)
            ulps = ULPS if op in reference.TRANSCENDENTAL else 0
            ulps = 16 * ULPS if op is ops.LOGADDEXP else ulps  # where the result nearly cancels
            unsigned = op in (ops.MAX, ops.MIN)
            group.add(f"{op.name} of {dtype.name} {name}", node, wanted, ulps=ulps, has_signed_zeros=not unsigned)
        yield from group.split()


def conversion_groups(dtype: DType, few: bool = False) -> Iterator[Group]:
    """Casts to every dtype and bitcasts to those of the same size."""
    for name, group, ((x, array),) in operand_sets(dtype, (dtype,), few):
        for target in dtypes.scalars:
            group.add(
                f"cast of {dtype.name} {name} to {target.name}", x.cast(target), reference.cast(array, dtype, target)
            )
            if target.bitsize == dtype.bitsize:
                bits = np.array(array, order="C").view(reference.STORAGE[target])
                group.add(f"bitcast of {dtype.name} {name} to {target.name}", x.bitcast(target), bits)
        yield from group.split()


def summable(dtype: DType, op: Op, shape: Shape) -> Any:
    """Elements whose combination is exact in any order."""
    if op not in (ops.ADD, ops.MUL) or not dtype.is_float:
        return values_of(dtype, shape, 7)
    generator = np.random.default_rng([3, *dtype.name.encode()])
    size = math.prod(shape)
    if op is ops.ADD and dtype.mantissa_bits >= 23:
        numbers = generator.integers(-8, 9, shape).astype(reference.STORAGE[dtype])
        return np.where(numbers == 0, np.array(-0.0, numbers.dtype), numbers)
    result = np.full(size, -0.0 if op is ops.ADD else 1.0)  # a sum starts from 0.0, so that its zeros have no sign
    count = min(size, 2 ** (1 + dtype.mantissa_bits) if op is ops.ADD else 3)
    picks = (1.0, -1.0) if op is ops.ADD else (2.0, -1.0, 0.5)
    result[generator.permutation(size)[:count]] = generator.choice(picks, count)
    return result.reshape(shape).astype(reference.STORAGE[dtype])


def _reduced_shapes(dtype: DType, few: bool) -> Iterator[tuple[Shape, str, tuple[Shape, ...]]]:
    """Shape, view and the sets of axes."""
    views = some_of([view for view in VIEWS if view != "plain"], dtype, 1 if few else 2)
    if few:
        yield (3, 5, 7), "plain", ((0,), (0, 2))
        yield (133,), "plain", ((0,),)
        yield VIEWED, views[0], ((1,),)
        return
    yield (3, 5, 7), "plain", ((0,), *some_of(((), (1,), (2,), (0, 1), (0, 2), (1, 2), (0, 1, 2)), dtype, 3))
    yield (), "plain", ((),)
    for shape in ((1,), (0,), (17,), (133,)):
        yield shape, "plain", ((0,),)
    yield (3, 1), "plain", ((1,),)
    yield (3, 0, 2), "plain", ((0,), (1,), (0, 1, 2))
    yield (2, 133), "plain", ((0,), (1,), (0, 1))
    for view in views:
        yield VIEWED, view, ((0,), (1,))


def _combinable(group: Group, dtype: DType, op: Op, shape: Shape, view: str) -> tuple[UOp, Any]:
    before, move, numpy_move = VIEWS[view]
    array = summable(dtype, op, before(shape))
    param = group.param(dtype, array)
    return (param, array) if view == "plain" else (move(param), numpy_move(array))


def reduce_groups(dtype: DType, few: bool = False) -> Iterator[Group]:
    """Every reducer over every set of axes, and the result spread over the operand again."""
    for shape, view, sets in _reduced_shapes(dtype, few):
        for axes in sets:
            group, back = Group(), Group()
            for op in reducers(dtype):
                name = f"{op.name} of {dtype.name} {shape} {view} over {axes}"
                has_signed_zeros = op not in (ops.MAX, ops.MIN)
                x, array = _combinable(group, dtype, op, shape, view)
                wanted = reference.reduce(op, dtype, array, axes)
                group.add(name, x.reduce(op, axes), wanted, has_signed_zeros=has_signed_zeros)
                if axes == (0,) and shape in ((3, 5, 7), (0,), (1,)):
                    x, array = _combinable(back, dtype, op, shape, view)
                    kept = (1, *wanted.shape)
                    node = x.reduce(op, axes).reshape(kept).expand(shape)
                    spread = np.broadcast_to(wanted.reshape(kept), shape)
                    back.add(f"{name} and back", node, spread, has_signed_zeros=has_signed_zeros)
            yield group
            if back.cases:
                yield back


SCANNED: tuple[tuple[Shape, str, tuple[int, ...]], ...] = (
    *(((1,), "plain", (0,)), ((0,), "plain", (0,)), ((17,), "plain", (0,)), ((133,), "plain", (0,))),
    *(((3, 5, 7), "plain", (0, 1, 2)), ((3, 0, 2), "plain", (0, 1)), (VIEWED, "flipped", (0, 1))),
    *((VIEWED, "padded", (1,)), (VIEWED, "permuted", (1,)), (VIEWED, "expanded", (0,))),
)
FEW_SCANNED = (((133,), "plain", (0,)), ((3, 5, 7), "plain", (1,)), (VIEWED, "flipped", (1,)))


def scan_groups(dtype: DType, few: bool = False) -> Iterator[Group]:
    """Every reducer along every axis."""
    for shape, view, axes in FEW_SCANNED if few else SCANNED:
        for axis in axes:
            group = Group()
            for op in reducers(dtype):
                x, array = _combinable(group, dtype, op, shape, view)
                wanted = reference.scan(op, dtype, array, axis)
                name = f"scan {op.name} of {dtype.name} {shape} {view} along {axis}"
                group.add(name, x.scan(op, axis), wanted, has_signed_zeros=op not in (ops.MAX, ops.MIN))
            yield group


def movement_groups(dtype: DType, few: bool = False) -> Iterator[Group]:
    """Every movement op, stack and detach: all bits stay."""
    yield from _moves(dtype, (3, 5, 7), _moves_of_three_axes())
    for size in (133,) if few else (133, 1, 0):
        yield from _moves(dtype, (size,), _moves_of_one_axis(size))
    scalar = [
        ("reshape", lambda x: x.reshape((1, 1)), lambda a: a.reshape(1, 1)),
        ("pad nothing", lambda x: x.pad(()), lambda a: a),
        ("shrink nothing", lambda x: x.shrink(()), lambda a: a),
        ("flip nothing", lambda x: x.flip(()), lambda a: a),
        ("permute nothing", lambda x: x.permute(()), lambda a: a),
        ("expand", lambda x: x.reshape((1, 1)).expand((3, 17)), lambda a: np.broadcast_to(a, (3, 17))),
        ("stack", lambda x: UOp.stack(x, x, x), lambda a: np.stack([a, a, a])),
    ]
    yield from _moves(dtype, (), scalar)
    for shape in ((), (1,), (0,), (17,), (3, 5, 7)):
        group = Group()
        arrays = [values_of(dtype, shape, seed) for seed in range(3)]
        params = [group.param(dtype, array) for array in arrays]
        for count in (1, 2, 3):
            node = UOp.stack(*params[:count])
            group.add(f"stack of {count} {dtype.name} {shape}", node, np.stack(arrays[:count]))
        yield group


Moves = Iterable[tuple[str, Callable[[UOp], UOp], Callable[[Any], Any]]]


def _padded(a: Any, *pads: tuple[int, int]) -> Any:
    result = np.zeros([size + sum(pair) for size, pair in zip(a.shape, pads, strict=True)], a.dtype)
    result[tuple(slice(first, first + size) for size, (first, _) in zip(a.shape, pads, strict=True))] = a
    return result


def _moves_of_three_axes() -> Moves:
    return [
        ("reshape", lambda x: x.reshape((7, 15)), lambda a: a.reshape(7, 15)),
        ("reshape to one", lambda x: x.reshape((105,)), lambda a: a.reshape(105)),
        ("permute 201", lambda x: x.permute((2, 0, 1)), lambda a: a.transpose(2, 0, 1)),
        ("permute 021", lambda x: x.permute((0, 2, 1)), lambda a: a.transpose(0, 2, 1)),
        ("permute 210", lambda x: x.permute((2, 1, 0)), lambda a: a.transpose(2, 1, 0)),
        ("expand", lambda x: x.reshape((3, 1, 35)).expand((3, 4, 35)), lambda a: a.reshape(3, 1, 35).repeat(4, 1)),
        ("pad", lambda x: x.pad(((0, 1), (2, 0), (3, 17))), lambda a: _padded(a, (0, 1), (2, 0), (3, 17))),
        ("shrink", lambda x: x.shrink(((1, 2), (0, 3), (2, 5))), lambda a: a[1:3, :3, 2:7]),
        ("shrink to nothing", lambda x: x.shrink(((1, 2), (0, 0), (2, 5))), lambda a: a[1:3, :0, 2:7]),
        ("flip last", lambda x: x.flip((2,)), lambda a: a[:, :, ::-1]),
        ("flip all", lambda x: x.flip((0, 1, 2)), lambda a: a[::-1, ::-1, ::-1]),
        ("detach", lambda x: x.detach(), lambda a: a),
        (
            "all of it",
            lambda x: (
                x.permute((2, 0, 1)).flip((0,)).pad(((1, 0), (0, 0), (0, 2))).reshape((56, 3)).shrink(((5, 40), (1, 2)))
            ),
            lambda a: _padded(a.transpose(2, 0, 1)[::-1], (1, 0), (0, 0), (0, 2)).reshape(56, 3)[5:45, 1:3],
        ),
    ]


def _moves_of_one_axis(size: int) -> Moves:
    return [
        ("pad", lambda x: x.pad(((1, 2),)), lambda a: _padded(a, (1, 2))),
        ("flip", lambda x: x.flip((0,)), lambda a: a[::-1]),
        ("expand", lambda x: x.reshape((1, size)).expand((3, size)), lambda a: np.broadcast_to(a, (3, size))),
        ("column", lambda x: x.reshape((size, 1)).expand((size, 5)), lambda a: a.reshape(size, 1).repeat(5, 1)),
        ("shrink", lambda x: x.shrink(((size // 3, size // 2),)), lambda a: a[size // 3 : size // 3 + size // 2]),
        ("itself", lambda x: x, lambda a: a),
    ]


def _moves(dtype: DType, shape: Shape, moves: Moves) -> Iterator[Group]:
    for name, move, numpy_move in moves:
        group = Group()
        array = values_of(dtype, shape, 5)
        group.add(f"{name} of {dtype.name} {shape}", move(group.param(dtype, array)), np.array(numpy_move(array)))
        yield group


def index_groups(dtype: DType, few: bool = False) -> Iterator[Group]:
    """Elements at computed positions, with and without a gate, with positions of every integer dtype."""
    table = values_of(dtype, (9, 4), 1)
    shapes = ((), (1,), (0,), (17,), (3, 5))
    for number, kind in enumerate(dtypes.ints):
        for shape in shapes[-1:] if few else some_of(shapes, dtype, 3):
            group = Group()
            x = group.param(dtype, table)
            rows, columns = values_of(kind, shape, number), values_of(kind, shape, number + 50)
            i, j = group.param(kind, rows), group.param(kind, columns)
            row, column = i.alu(ops.FLOORMOD, const(kind, 9)), j.alu(ops.FLOORMOD, const(kind, 4))
            name = f"{dtype.name} at {kind.name}{shape}"
            at_row, at_column = rows.astype(object) % 9, columns.astype(object) % 4
            at_row, at_column = np.array(at_row, np.int64), np.array(at_column, np.int64)
            group.add(f"rows of {name}", x.index(row), table[at_row])
            group.add(f"elements of {name}", x.index(row, column), table[at_row, at_column])
            inside = (i >= const(kind, 0)) & (i < const(kind, 9))
            is_inside = np.array((rows.astype(object) >= 0) & (rows.astype(object) < 9), np.bool_)
            safe = np.array(np.where(is_inside, rows.astype(object), 0), np.int64)
            wanted = np.array(table[safe])
            wanted[~is_inside] = np.zeros((), wanted.dtype)
            group.add(f"gated rows of {name}", x.index(i, gate=inside), wanted)
            yield group


def arange_groups(dtype: DType, few: bool = False) -> Iterator[Group]:
    """The positions themselves."""
    for size in (0, 1, 17, 100, 133, 1031):
        if size - 1 <= dtype.max:
            group = Group()
            wanted = np.arange(size).astype(reference.STORAGE[dtype])
            group.add(f"arange {dtype.name} {size}", UOp.arange(size, dtype), wanted)
            spread = np.broadcast_to(wanted, (3, size)).T
            node = UOp.arange(size, dtype).reshape((size, 1)).expand((size, 3))
            group.add(f"arange {dtype.name} {size} in columns", node, np.array(spread))
            yield group


# kind -> its groups for a dtype, all of them or few where compiling is slow; and the dtypes
KINDS: dict[str, tuple[Callable[[DType, bool], Iterator[Group]], tuple[DType, ...]]] = {
    "elementwise": (elementwise_groups, dtypes.scalars),
    "conversion": (conversion_groups, dtypes.scalars),
    "reduce": (reduce_groups, dtypes.scalars),
    "scan": (scan_groups, dtypes.scalars),
    "movement": (movement_groups, dtypes.scalars),
    "index": (index_groups, dtypes.scalars),
    "arange": (arange_groups, dtypes.ints),
}
