"""Reductions along numbers that are packed in blocks.

Goes in: a kernel whose reduce ranges are divided, because what they walk along lies in memory block by block. Comes
out: the same over a range for each level of the blocks, of which none is divided.

    k < 4096: x[k] * byte[k//32*18 + k%16 + 2] >> k//16%2*4   ->   b < 128, h < 2, j < 16:
                                                                   x[b*32 + h*16 + j] * byte[b*18 + j + 2] >> h*4

What a block has once, such as its scale, is now outside of the loops inside the block, and neighbours are neighbours
along j. It is the opposite of `merge_ranges`, which leaves such ranges alone.

`write_out_blocks` goes on from there, for kernels without panels: a short range that is used as a number (h above, a
shift) is written out, so that the number is known and bytes that are used for each h are loaded once.

    reduce over b, h, j of f(b, h, j)     ->     reduce over b, j of f(b, 0, j) + f(b, 1, j)
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator
from math import prod

from whit.dtype import dtypes
from whit.ir import ops
from whit.ir.args import RangeKind
from whit.ir.graph import topological
from whit.ir.map_graph import map_graph, rebuilt
from whit.ir.nesting import Owner
from whit.ir.op import Sources
from whit.ir.uop import UOp, const, make
from whit.kernel.ranges import free_ranges, next_id, replace_ranges, size_of, sizes_of
from whit.simplify import simplify
from whit.simplify.sums import linear_form

MOST_COPIES = 8  # of a reduction that is written out


def split_blocks(body: UOp) -> UOp:
    """The kernel with every reduce range that is divided as several, if that rids it of the divisions."""
    for r, levels in _levels(body).items():
        split = _split(body, r, levels)
        if split is not None:
            body = split
    return body


def _levels(body: UOp) -> dict[UOp, list[int]]:
    """The sizes of blocks by which a reduce range is divided, each a multiple of the one before."""
    nodes = topological((body,))
    reduced = {r for node in nodes if node.op is ops.REDUCE for r in node.src[1:] if isinstance(r.size, int)}
    divided: dict[UOp, tuple[UOp, int]] = {r: (r, 1) for r in reduced}  # r // s -> r, s
    found: dict[UOp, set[int]] = {}
    for node in nodes:
        if node.op not in (ops.FLOORDIV, ops.FLOORMOD) or node.src[0] not in divided or node.src[1].op is not ops.CONST:
            continue
        r, step = divided[node.src[0]]
        size = step * node.src[1].arg
        found.setdefault(r, set()).add(size)
        if node.op is ops.FLOORDIV:
            divided[node] = (r, size)
    levels = {r: _inside_each_other(sizes, size_of(r)) for r, sizes in found.items()}
    return {r: sizes for r, sizes in levels.items() if sizes}


def _inside_each_other(blocks: Iterable[int], whole: int) -> list[int]:
    """The sizes of blocks and of the whole, if each is made of those before it: {32, 16}, 4096 -> [16, 32, 4096]."""
    sizes = [*sorted(size for size in blocks if 1 < size < whole), whole]
    fits = len(sizes) > 1 and all(large % small == 0 for small, large in itertools.pairwise(sizes))
    return sizes if fits else []


def _split(body: UOp, r: UOp, levels: list[int]) -> UOp | None:
    """The kernel with a range for each level, outer first; None if one of them would have to be divided again."""
    first = next_id(Owner.REDUCE, topological((body,)))
    sizes = [b // a for a, b in itertools.pairwise([1, *levels])][::-1]
    ranges = tuple(UOp.range(size, first + i, RangeKind.REDUCE, Owner.REDUCE) for i, size in enumerate(sizes))
    steps = [prod(sizes[i + 1 :]) for i in range(len(sizes))]
    place = const(dtypes.weakint, 0)
    for piece, step in zip(ranges, steps, strict=True):
        place = place + piece * step
    split = simplify(replace_ranges(body, {r: place}, {r: ranges}))
    free = free_ranges(split)
    if any(n.op in (ops.FLOORDIV, ops.FLOORMOD) and not free[n].isdisjoint(ranges) for n in topological((split,))):
        return None
    return split


def write_out_blocks(body: UOp) -> UOp:
    """The kernel with sums along short ranges that are used as numbers written out."""

    def written_out(node: UOp, src: Sources) -> UOp | None:
        return _written_out(rebuilt(node, src)) if node.op is ops.REDUCE and len(src) > 2 else None

    written = map_graph(body, written_out)
    return body if written is body else simplify(written)


def _written_out(reduce: UOp) -> UOp:
    """A sum of several values at a time, one for each combination of the ranges that are used as numbers."""
    value, *ranges = reduce.src
    numbers = _fewest(_numbers(value, ranges[1:-1]))  # the last one has the lanes
    if not numbers or reduce.arg.op is not ops.ADD:
        return reduce
    rest = tuple(r for r in ranges if r not in numbers)
    first, *others = [replace_ranges(value, at, {}) for at in _combinations(numbers)]
    for other in others:
        first = first + other
    return first.reduce(ops.ADD, ranges=rest)


def write_out_fills(body: UOp) -> UOp:
    """The same in what fills panels: a store for each combination of the ranges that are used as numbers. Goes in
    simplified: a stride that is not looks like a number."""

    def filled_apart(node: UOp, src: Sources) -> UOp | None:
        return _filled_apart(rebuilt(node, src)) if node.op is ops.STAGE and len(src) > 1 else None

    return map_graph(body, filled_apart)


def _filled_apart(stage: UOp) -> UOp:
    group, *ranges = stage.src
    values = UOp.group(*(store.src[1] for store in group.src))
    numbers = _fewest(_numbers(values, ranges))
    if not numbers or any(node.op is ops.REDUCE for node in topological((values,))):  # sums that wait are no copies
        return stage
    stores: list[UOp] = []
    for at in _combinations(numbers):
        stores.extend(replace_ranges(group, at, {}).src)
    return make(ops.STAGE, (UOp.group(*stores), *(r for r in ranges if r not in numbers)), stage.arg)


def _fewest(numbers: list[UOp]) -> list[UOp]:
    """As many of them as may be written out, inner ones first."""
    while prod(sizes_of(numbers)) > MOST_COPIES:
        numbers = numbers[1:]
    return numbers


def _combinations(numbers: list[UOp]) -> Iterator[dict[UOp, UOp]]:
    for places in itertools.product(*map(range, sizes_of(numbers))):
        yield {r: const(dtypes.weakint, place) for r, place in zip(numbers, places, strict=True)}


def _numbers(value: UOp, ranges: Iterable[UOp]) -> list[UOp]:
    """The short ranges of which a value depends other than by strides of what it reads."""
    free = free_ranges(value)
    used: set[UOp] = set()
    for node in topological((value,)):
        if node.op is ops.INDEX:
            _, position, *gate = node.src
            terms, _ = linear_form(position)
            hidden = [*(base for base in terms if base.op is not ops.RANGE), *gate]
            used.update(r for part in hidden for r in free[part])
        elif node.dtype is not dtypes.weakint and node.op is not ops.GROUP:
            used.update(r for s in node.src if s.dtype is dtypes.weakint for r in free[s])
    return [r for r in ranges if r in used and _is_short(r)]


def _is_short(r: UOp) -> bool:
    return isinstance(r.size, int) and r.size <= MOST_COPIES
