"""Which elements of its arguments a kernel reads and writes, and in which iteration: for the proof of plans.

    store p0, p1[r0, r1] + 1, r1, r0      of (2, 3)      ->   reads 0 1 2 3 4 5 of p1, writes 0 2 4 1 3 5 of p0,
                                                              both in the iterations 0 1 2 3 4 5

Variables have values here, of which the caller tries some. What data decides is not known: elements are None where a
position is data; `is_sure` is false where a gate is. Iterations number the values of the ranges that a store runs over;
None where an element is met in several of them.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from math import prod
from typing import Any

import numpy as np

from whit.cache import register_cache
from whit.dtype import dtypes
from whit.engine.memory.storage import concrete_shape, size_value
from whit.ir import ops
from whit.ir.graph import topological
from whit.ir.uop import UOp

MOST_POINTS = 1 << 15  # values of ranges that are tried
MOST_KNOWN_KERNELS = 4096

Array = Any
Variables = Mapping[str, int]
DATA = (ops.INDEX, ops.PARAM, ops.REDUCE, ops.SCAN, ops.SORT, ops.STAGE, ops.AFTER)


@dataclass(frozen=True, slots=True, eq=False)
class Access:
    """One INDEX, or one STORE."""

    slot: int
    count: int  # of elements that the kernel could reach
    elements: Array | None  # flat positions
    iterations: Array | None  # of the store that reads or writes, one for each element
    is_sure: bool  # it happens whatever the data is
    store: int  # the number of the store in the kernel
    loop: frozenset[UOp]  # the ranges of that store
    combines: bool = False  # the store reads what it writes
    is_large: bool = False  # there are too many elements to say which
    positions: tuple[UOp, ...] = ()  # where data decides about them


@dataclass(frozen=True, slots=True, eq=False)
class Accesses:
    """Of one kernel."""

    reads: tuple[Access, ...]
    writes: tuple[Access, ...]


_known: dict[tuple[UOp, tuple[tuple[str, int], ...]], Accesses] = {}
register_cache(_known.clear, "engine.kernel_accesses")


def accesses_of_kernel(body: UOp, variables: Variables) -> Accesses:
    """The accesses of a kernel: a GROUP of STOREs."""
    names = {node.arg.name for node in topological((body,)) if node.op is ops.VARIABLE} if variables else ()
    key = (body, tuple((name, variables[name]) for name in sorted(names)))
    found = _known.get(key)
    if found is None:
        if len(_known) >= MOST_KNOWN_KERNELS:
            _known.clear()
        found = _known[key] = (_of_loop if body.op is ops.REPEAT else _find)(body, variables)
    return found


def _find(body: UOp, variables: Variables) -> Accesses:
    reads: list[Access] = []
    writes: list[Access] = []
    for number, store in enumerate(body.src if body.op is ops.GROUP else (body,)):
        run = _Run(number, frozenset(_ranges(store)), variables)
        target, value, *position = store.src
        write = run.access(target, position, store.arg.gated)
        writes.append(replace(write, combines=store.arg.combine is not None))
        below = topological((value, *position))
        reads += [run.access(node.src[0], node.src[1:], bool(node.arg)) for node in below if _is_read(node)]
        others = {s for node in below if not _is_read(node) for s in node.src if s.op is ops.PARAM}
        scratch = {s for node in below if node.op is ops.SORT for s in node.src[4:]}  # a sort fills it itself
        writes += [run.access(param) for param in scratch]
        reads += [run.access(param) for param in others - scratch]
        if value.op is ops.PARAM:
            reads.append(run.access(value))
    return Accesses(tuple(reads), tuple(writes))


def _of_loop(body: UOp, variables: Variables) -> Accesses:
    """All of each operand, by one iteration: what its steps do among themselves is not looked at."""
    run = _Run(0, frozenset(), variables)
    operands = [run.access(source) for source in body.src if source.op is ops.PARAM]
    return Accesses(tuple(operands[body.arg.written :]), tuple(operands[: body.arg.written]))


def _is_read(node: UOp) -> bool:
    """Whether one element of a param is read at a time."""
    return node.op is ops.INDEX and node.src[0].op is ops.PARAM


def _ranges(store: UOp) -> set[UOp]:
    """The ranges that a store runs over: all below it but those of reductions."""
    free: dict[UOp, frozenset[UOp]] = {}
    for node in topological((store,)):
        found = frozenset().union(*(free[s] for s in node.src)) if node.src else frozenset[UOp]()
        if node.op is ops.RANGE:
            found |= {node}
        elif node.op is ops.REDUCE or node.op is ops.STAGE:
            found -= set(node.src[1:])
        elif node.op is ops.SORT:
            found -= set(node.src[2:3])
        free[node] = found
    return set(free[store])


@dataclass(frozen=True, slots=True, eq=False)
class _Run:
    """One store of a kernel, at every point of its ranges."""

    store: int
    loop: frozenset[UOp]
    variables: Variables

    def access(self, param: UOp, position: Sequence[UOp] = (), is_gated: bool = False) -> Access:
        """An access at a position, whose last part may be a gate; without one, to all of a tensor."""
        end = len(position) - is_gated
        return _access(param, position[:end], position[end:], self.store, self.loop, self.variables)


def _access(
    param: UOp, positions: Sequence[UOp], gates: Sequence[UOp], store: int, loop: frozenset[UOp], variables: Variables
) -> Access:
    """One access, at every point of the ranges that it depends on."""
    known = [gate for gate in gates if not _is_data(gate)]
    is_sure = len(known) == len(gates)
    shape = concrete_shape(param.shape, variables)
    slot, count = param.arg.slot, prod(shape)
    if any(map(_is_data, positions)):
        return Access(slot, count, None, None, is_sure, store, loop, positions=tuple(positions))
    ranges = sorted({n for n in topological([*positions, *known]) if n.op is ops.RANGE}, key=_outer_first)
    counts = [size_value(r.size, variables) for r in ranges]
    if prod(counts) > MOST_POINTS:
        return Access(slot, count, None, None, is_sure, store, loop, is_large=True)
    if not positions and shape:  # of a tensor: all of it
        return Access(slot, count, np.arange(count), None, is_sure, store, loop)
    grid = np.indices(counts, np.int64).reshape(len(counts), -1) if counts else np.zeros((0, 1), np.int64)
    values: dict[UOp, Array] = dict(zip(ranges, grid, strict=True))
    flat = np.zeros(grid.shape[1], np.int64)
    happens = np.ones(grid.shape[1], bool)
    for position, size in zip(positions, shape, strict=True):
        along = _value(position, values, variables)
        flat = flat * size + along
        happens = happens & (along >= 0) & (along < size)  # that nothing is outside is proved by others
    for gate in known:
        happens = happens & _value(gate, values, variables)
    return Access(slot, count, flat[happens], _iterations(loop, values, happens, variables), is_sure, store, loop)


def _iterations(loop: frozenset[UOp], values: dict[UOp, Array], happens: Array, variables: Variables) -> Array | None:
    """The numbers of the iterations at the points that count; None if a point stands for several."""
    found = np.zeros(len(happens), np.int64)
    for r in sorted(loop, key=_outer_first):
        size = size_value(r.size, variables)
        if r in values:
            found = found * size + values[r]
        elif size != 1:
            return None
    return found[happens]


def _outer_first(r: UOp) -> tuple[tuple[int, int], str]:
    return r.arg.order, r.arg.kind.value


def _is_data(node: UOp) -> bool:
    """Whether something decides a value that is only known while the kernel runs. Floats count as that: positions that
    are computed with them are not computed here."""
    return any(below.op in DATA or below.dtype.is_float for below in topological((node,)))


def _value(root: UOp, values: dict[UOp, Array], variables: Variables) -> Array:
    """An expression at each point."""
    done: dict[UOp, Array] = dict(values)
    for node in topological((root,), stop=done):
        sources = [done[s] for s in node.src]
        if node.op is ops.CONST:
            done[node] = np.int64(node.arg) if not node.dtype.is_bool else np.bool_(node.arg)
        elif node.op is ops.VARIABLE:
            done[node] = np.int64(variables[node.arg.name])
        elif node.op is ops.EACH:
            done[node] = np.bool_(True)
        elif node.op is ops.CAST:
            done[node] = np.asarray(sources[0], np.bool_ if node.dtype is dtypes.bool else np.int64)
        else:
            assert node.op.python is not None, "positions are computed by ops that have a meaning in Python"
            done[node] = node.op.python(np, *sources)
    return done[root]


def spelled(elements: Iterable[int]) -> str:
    """Some of these elements."""
    listed = sorted({int(i) for i in elements})
    return ", ".join(map(str, listed[:6])) + (", ..." if len(listed) > 6 else "")
