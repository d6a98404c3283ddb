"""How a kernel is tiled: which range becomes vector lanes, what is unrolled, what runs on the cores.

Goes in: a kernel over flat positions and a target. Comes out: a `LoopStrategy`, which `apply_strategy` carries out.
Nothing is rewritten here. The choice is by the strides of the accesses:

- Each innermost loop (of the stores, of every reduction) wants the range along which most accesses move by one. Along
  a stride of zero a value is broadcast, which is free; any other stride is a gather, which is not.
- A reduction with its lanes along an output range needs no horizontal step, and if its operands each skip one of two
  output ranges (a contraction, such as a matmul) a tile of both is kept in registers.
- A range along which a store may come to one place twice (a scatter) has neither lanes nor cores.
- Otherwise lanes go along the reduction, with several accumulators to hide the latency of the additions.
"""

from __future__ import annotations

from collections.abc import Collection
from math import prod

from whit.codegen.passes.interleave import STRIDES
from whit.ir import ops
from whit.ir.graph import topological
from whit.ir.uop import UOp
from whit.kernel.ranges import Region, free_ranges, in_order, ordered_ranges, regions, scanned_ranges, size_of, stride
from whit.records import dataclass, field
from whit.simplify.sums import linear_form
from whit.target import Target

WORTH_THREADS_OPERATIONS = 1 << 15  # element operations below which one core is faster than waking another
SHORT_ELEMENTS = 64  # elements: the longest range inside a block that is vectorised as one (`_is_inside_blocks`)
MOST_SUMS = 8  # accumulators of rows of blocks that are read together: 1.00, 0.90, 1.63 ms for Q4_0 with 4, 8, 16
ROWS = 4  # of a matrix that are read side by side: 1 x 4096^2 5.1 -> 4.0 ms (bench/contractions.py)
MOST_ROWS = 12  # and of a window that is summed up along an image: 13.7 -> 2.5 ms for 128 of 3 x 3 over 8 x 56 x 56
# vectors of channels, and pixels beside each other that read their weights once, of a convolution of each channel by
# itself: 91 -> 38 us for 5 x 5 over 14 x 14 x 256 (one core of Zen 4)
VECTORS_BESIDE, LEAST_BESIDE, MOST_BESIDE = 2, 4, 7
REPEATS = 1.0  # score of a load whose lanes read each element two or four times (`_repeats`)
MANY_NODES = 40  # of what is computed for each element, from which on fewer vectors are written out
PIECE_ELEMENTS = 4096  # elements of a one-dimensional kernel that a core takes at a time


@dataclass(slots=True)
class LoopStrategy:
    """Splits by range, and why."""

    lanes: dict[UOp, int] = field(default_factory=dict)  # range -> width of its vectors
    unroll: dict[UOp, int] = field(default_factory=dict)  # range -> vectors (or elements) written out side by side
    order: list[UOp] = field(default_factory=list)  # output ranges, outer first
    core: UOp | None = None
    reasons: list[str] = field(default_factory=list)

    def __str__(self) -> str:
        return "\n".join(self.reasons)


def choose_strategy(body: UOp, target: Target) -> LoopStrategy:
    """The default: no search, only strides and sizes."""
    free = free_ranges(body)
    scanned = scanned_ranges(body)
    ordered = ordered_ranges(body, free)
    strategy = LoopStrategy(order=in_order(free[body], scanned))
    widths = _vector_widths(free, target)
    found = regions(body)
    if ordered and not scanned:
        _lanes_of_stores(strategy, body, found, free, widths, ordered, target.cores)
    elif not scanned:
        _choose_lanes(strategy, body, found, free, widths, target)
    elif len(scanned) == 1 and len(found) == 1:
        _lanes_of_scan(strategy, body, found[0], free, widths, next(iter(scanned)))
    _choose_core(strategy, found, free, target, scanned | ordered)
    return strategy


def vector_width(body: UOp, target: Target) -> int:
    """Lanes of a vector of the widest dtype that the kernel computes with."""
    sizes = [node.dtype.itemsize for node in topological((body,)) if node.dtype.bitsize and node.op is not ops.PARAM]
    return max(target.vector_bytes // max(sizes, default=4), 1)


def _vector_widths(free: dict[UOp, frozenset[UOp]], target: Target) -> dict[UOp, int]:
    """Lanes of a vector along each range: of the widest dtype that is computed inside it. Ranges of single lanes, where
    the target has no vectors or the dtype is too wide, are left out."""
    widest: dict[UOp, int] = {}
    for node, ranges in free.items():
        dtype = node.src[1].dtype if node.op is ops.STORE else node.dtype
        if dtype.bitsize and node.op is not ops.PARAM:
            for r in ranges:
                widest[r] = max(widest.get(r, 1), dtype.itemsize)
    return {r: target.vector_bytes // size for r, size in widest.items() if target.vector_bytes >= 2 * size}


def _choose_lanes(
    strategy: LoopStrategy,
    body: UOp,
    found: list[Region],
    free: dict[UOp, frozenset[UOp]],
    widths: dict[UOp, int],
    target: Target,
) -> None:
    outer = strategy.order
    stored: UOp | None = None  # the output range with lanes
    along: list[UOp] = []  # reductions with lanes of their own: they have no others
    for region in found[1:]:
        if region.reduce is None or _contains_reduce(region.reduce.src[0], region.reduce, free):
            continue
        scores = _scores(body, region, region.reduce, outer, free, widths)
        best = _best_lanes(scores, outer, widths)
        if best is None or scores[best] <= 0 or size_of(best) < 2:
            continue
        if best in outer:
            if (stored is None or stored is best) and not any(best in free[reduce] for reduce in along):
                stored = best
                _tile_outputs(strategy, region, best, free, widths[best], target)
        elif stored is None or stored not in free[region.reduce]:
            along.append(region.reduce)
            _lanes_along_reduction(strategy, found, region, best, free, widths[best], target)
    if stored is None:
        _lanes_of_stores(strategy, body, found, free, widths)


def _scores(
    body: UOp,
    region: Region,
    reduce: UOp,
    outer: list[UOp],
    free: dict[UOp, frozenset[UOp]],
    widths: dict[UOp, int],
) -> dict[UOp, float]:
    """How well lanes along each range suit a reduction: its own ranges, and those of the outputs that it depends on."""
    inner = [r for r in reduce.src[1:] if r in widths]
    around = [r for r in outer if r in widths and r in free[reduce.src[0]]]
    scores = {r: _score(body, region, r, free, is_output=False) for r in inner}
    return scores | {r: _score(body, region, r, free, is_output=True) for r in around}


def _best_lanes(scores: dict[UOp, float], outer: list[UOp], widths: dict[UOp, int]) -> UOp | None:
    """The range that suits lanes best; not an output range that fills few of them, such as that of a window, where a
    range of the reduction fills all."""
    best = max(scores, key=lambda r: (scores[r], r in outer), default=None)
    if best not in outer or 4 * size_of(best) > widths[best]:
        return best
    long = [r for r in scores if r not in outer and scores[r] > 0 and size_of(r) >= widths[r]]
    return max(long, key=lambda r: scores[r], default=best)


def _lanes_along_reduction(
    strategy: LoopStrategy,
    found: list[Region],
    region: Region,
    best: UOp,
    free: dict[UOp, frozenset[UOp]],
    width: int,
    target: Target,
) -> None:
    """Lanes along the reduction: several accumulators, or a tile of results if operands are shared between them."""
    strategy.lanes[best] = min(width, _power_below(size_of(best)))
    if _is_inside_blocks(region, best, free):
        _rows_of_blocks(strategy, found, region, best, free)
        return
    pair = _contracted(strategy.order, region, free)
    shared = _shared(strategy.order, region, best, free) if pair is None and len(found) == 2 else []
    if shared:
        rows, whole = min(ROWS, size_of(shared[0])), 1
        strategy.unroll[shared[0]] = rows
        for r in shared:  # of a window, all
            whole *= size_of(r)
            if whole <= MOST_ROWS:
                strategy.unroll[r], rows = size_of(r), whole
        count = max(min(2 if rows <= ROWS else 1, size_of(best) // width), 1)
        strategy.unroll[best] = count
        strategy.reasons.append(
            f"lanes along reduction {best.arg.name}: {rows} rows at a time, {count} accumulators each"
        )
        return
    if pair is None:
        strategy.unroll[best] = max(min(4, size_of(best) // width), 1)
        count = strategy.unroll[best]
        strategy.reasons.append(f"lanes along reduction {best.arg.name}: unit stride, {count} accumulators")
        return
    side = 4 if target.vector_registers >= 32 else 2
    for r in pair:
        strategy.unroll[r] = min(side, size_of(r))
    strategy.reasons.append(f"lanes along reduction {best.arg.name}: dot products, {side} x {side} at a time")


def _is_inside_blocks(region: Region, best: UOp, free: dict[UOp, frozenset[UOp]]) -> bool:
    """Whether a reduction is along blocks: something is read once for all that a short range walks along."""
    if region.reduce is None or size_of(best) > SHORT_ELEMENTS:
        return False
    others = set(region.reduce.src[1:]) - {best}
    return any(best not in free[load] and others & free[load] for load in region.loads)


def _rows_of_blocks(
    strategy: LoopStrategy, found: list[Region], region: Region, best: UOp, free: dict[UOp, frozenset[UOp]]
) -> None:
    """Rows at a time where a row is blocks: as many as there are registers for their sums, and first of all those along
    which the fewest loads move, so that what is unpacked is used for all of them."""
    assert region.reduce is not None, "blocks of a row are summed by a reduction"
    beside = sum(other.reduce is not None and best in other.reduce.src for other in found)
    moving = {r: sum(r in free[load] for load in region.loads) for r in strategy.order if r in free[region.reduce]}
    if len(moving) == 1:
        strategy.unroll[best] = max(min(4, size_of(best) // strategy.lanes[best]), 1)
    left = MOST_SUMS // (beside * strategy.unroll.get(best, 1))
    for r in sorted(moving, key=lambda r: moving[r]):
        strategy.unroll[r] = max(min(left, size_of(r)), 1)
        left //= strategy.unroll[r]
    names = ", ".join(f"{strategy.unroll[r]} along {r.arg.name}" for r in moving)
    strategy.reasons.append(f"lanes along reduction {best.arg.name} inside of blocks; {names}")


def _contracted(order: list[UOp], region: Region, free: dict[UOp, frozenset[UOp]]) -> tuple[UOp, UOp] | None:
    """Two output ranges of which each operand of a reduction skips one."""
    for i, a in enumerate(order):
        for b in order[i + 1 :]:
            only_a = any(a in free[load] and b not in free[load] for load in region.loads)
            only_b = any(b in free[load] and a not in free[load] for load in region.loads)
            if only_a and only_b:
                return a, b
    return None


def _shared(order: list[UOp], region: Region, along: UOp, free: dict[UOp, frozenset[UOp]]) -> list[UOp]:
    """Output ranges that an operand of a reduction skips, as a vector does those of a matrix: inner first."""
    moving = [load for load in region.loads if along in free[load]]
    skipped = [{load for load in moving if r in free[load]} for r in reversed(order)]
    return [r for r, loads in zip(reversed(order), skipped, strict=True) if loads and len(loads) < len(set(moving))]


def _contains_reduce(value: UOp, reduce: UOp, free: dict[UOp, frozenset[UOp]]) -> bool:
    """Whether a reduction inside depends on the ranges of this one."""
    mine = set(reduce.src[1:])
    return any(node.op in (ops.REDUCE, ops.SCAN) and free[node] & mine for node in topological((value,)))


def _power_below(n: int) -> int:
    """The smallest power of two that is at least n."""
    return 1 << max(n - 1, 1).bit_length() if n > 1 else 1


def _score(body: UOp, region: Region, r: UOp, free: dict[UOp, frozenset[UOp]], *, is_output: bool) -> float:
    """How well the accesses of a region suit lanes along r: those that its loops repeat."""
    score = 0.0
    loops = set(region.reduce.src[1:] if region.reduce is not None else ())
    for load in (load for load in region.loads if region.reduce is None or free[load] & loops):
        score += REPEATS if not load.arg and _repeats(load.src[1], r, free) else _suits(stride(load.src[1], r, free))
    if is_output:
        stores = sum(_suits(stride(store.src[2], r, free)) for store in body.src)
        score += stores if region.reduce is None else stores / len(body.src)  # outside: they do not outweigh its loads
    return score


def _repeats(position: UOp, r: UOp, free: dict[UOp, frozenset[UOp]]) -> bool:
    """Whether neighbours along r are few times the same, then the next: r // 2, as what pooling gives back."""
    if r not in free.get(position, ()):
        return False
    found = [(base, factor) for base, factor in linear_form(position)[0].items() if r in free[base]]
    if len(found) != 1 or found[0][1] != 1 or found[0][0].op is not ops.FLOORDIV:
        return False
    value, by = found[0][0].src
    return stride(value, r, free) == 1 and by.is_const and by.arg in (2, 4)


def _suits(step: int | None) -> float:
    if step == 1:
        return 2
    if step == -1:
        return 1.5  # and turned round in the register
    return 0.5 if step == 0 else -4


def _tile_outputs(
    strategy: LoopStrategy, region: Region, best: UOp, free: dict[UOp, frozenset[UOp]], width: int, target: Target
) -> None:
    """Lanes along an output range; and a register tile with another one if the reduction is a contraction of both."""
    strategy.lanes[best] = min(width, _power_below(size_of(best)))
    others = [
        r
        for r in strategy.order
        if r is not best
        and any(r in free[load] and best not in free[load] for load in region.loads)
        and any(best in free[load] and r not in free[load] for load in region.loads)
    ]
    vectors = -(-size_of(best) // width)
    shared = [] if others else _shared(strategy.order, region, best, free)
    if shared:
        beside, rows, side = shared[0], _rows_beside(size_of(shared[0])), min(VECTORS_BESIDE, vectors)
        strategy.unroll[best], strategy.unroll[beside] = side, rows
        strategy.reasons.append(
            f"lanes along output {best.arg.name}: {side} vectors, {rows} of {beside.arg.name} at once"
        )
        return
    if not others:
        strategy.unroll[best] = min(8, vectors)
        strategy.reasons.append(
            f"lanes along output {best.arg.name}: unit stride, {strategy.unroll[best]} accumulators"
        )
        return
    across = others[-1]
    columns = min(2, vectors)
    rows = min((target.vector_registers - 2 - columns) // columns, size_of(across))
    strategy.unroll[best], strategy.unroll[across] = columns, max(rows, 1)
    rest = [r for r in strategy.order if r is not best and r is not across]
    strategy.order = [*rest, best, across]
    names = f"{across.arg.name}, {best.arg.name}"
    strategy.reasons.append(f"contraction: register tile of {rows} x {columns} vectors over {names}")


def _rows_beside(size: int) -> int:
    """How many results share what is read once for them: a divisor of all of them, if there is one."""
    divisors = [rows for rows in range(LEAST_BESIDE, MOST_BESIDE + 1) if size % rows == 0]
    return max(divisors, default=min(MOST_BESIDE, size))


def _lanes_of_stores(
    strategy: LoopStrategy,
    body: UOp,
    found: list[Region],
    free: dict[UOp, frozenset[UOp]],
    widths: dict[UOp, int],
    ordered: Collection[UOp] = (),
    cores: int = 1,
) -> None:
    """Lanes along an output range that no vectorised reduction depends on, and that need not run in order."""
    blocked = _around_loops(strategy.order, body, found, free) | set(ordered)
    allowed = [r for r in strategy.order if r in widths and r not in blocked]
    scores = {r: _score(body, found[0], r, free, is_output=True) for r in allowed}
    best = max(scores, key=lambda r: (scores[r], strategy.order.index(r)), default=None)
    if best is None or size_of(best) < 2 or scores[best] <= -4 * len(body.src):
        return
    width = widths[best]
    whole = _read_along(strategy, found[0], best, free, width) if size_of(best) in STRIDES and not ordered else None
    if whole is not None:
        strategy.lanes[whole], strategy.unroll[best] = width, size_of(best)
        strategy.order = [*(r for r in strategy.order if r not in (whole, best)), whole, best]
        strategy.reasons.append(
            f"lanes along output {whole.arg.name}, all {size_of(best)} of {best.arg.name} beside it"
        )
        return
    strategy.lanes[best] = min(width, _power_below(size_of(best)))
    across = _transposed(strategy, found[0], best, free, width)
    if across is not None and across not in ordered:
        strategy.unroll[across] = width
        strategy.order = _as_read([*(r for r in strategy.order if r is not across), across], found[0], free)
        strategy.reasons.append(f"lanes along output {best.arg.name}, {width} x {width} squares with {across.arg.name}")
        return
    if len(found) == 1 and not ordered:
        strategy.order = _as_read(strategy.order, found[0], free)
    strategy.unroll[best] = _vectors_at_once(size_of(best) // width, found[0].nodes, cores if ordered else None)
    strategy.reasons.append(f"lanes along output {best.arg.name}, {strategy.unroll[best]} vectors at a time")


def _around_loops(order: list[UOp], body: UOp, found: list[Region], free: dict[UOp, frozenset[UOp]]) -> frozenset[UOp]:
    """The ranges that scans depend on, and reductions over ranges that are no output's."""
    scans = [node for node in topological((body,)) if node.op is ops.SCAN]
    reduces = [region.reduce for region in found[1:] if region.reduce is not None]
    looped = [reduce for reduce in reduces if not all(r in order for r in reduce.src[1:])]
    return frozenset().union(*(free[node] for node in (*scans, *looped)))


def _vectors_at_once(count: int, nodes: int, cores: int | None) -> int:
    """How many of the vectors of a range are written out: fewer of what is much to compute. `cores`: how many share the
    range where each of them walks all rows."""
    most = 4 if nodes < MANY_NODES else 2
    if cores is not None and nodes < MANY_NODES:  # long pieces: 1.7 -> 1.2 ms for 4096 rows of 512
        most = max(min(32, count // cores), 4)
    return max(min(most, count), 1)


def _as_read(order: list[UOp], region: Region, free: dict[UOp, frozenset[UOp]]) -> list[UOp]:
    """Output ranges in the order of the strides of the one load: loads in order are prefetched, and a core does not
    wait for scattered stores. 1.9 -> 0.5 ms for 8 x 512 x 12 x 64 with the middle two exchanged, on two cores."""
    loads = set(region.loads)
    if len(loads) != 1:
        return order
    strides = {r: stride(load.src[1], r, free) for load in loads for r in order}
    return sorted(order, key=lambda r: -abs(strides[r] or 0)) if all(strides.values()) else order


def _lanes_of_scan(
    strategy: LoopStrategy,
    body: UOp,
    region: Region,
    free: dict[UOp, frozenset[UOp]],
    widths: dict[UOp, int],
    scanned: UOp,
) -> None:
    """Lanes across the scan, several at once, or along it: a vector is then scanned in the register."""
    suits = {r: _score(body, region, r, free, is_output=True) for r in strategy.order if r in widths and size_of(r) > 1}
    best = max(suits, key=lambda r: (suits[r], r is not scanned), default=None)
    if best is None or suits[best] <= 0:
        return
    width = widths[best]
    strategy.lanes[best] = min(width, _power_below(size_of(best)))
    if best is scanned:
        strategy.reasons.append(f"lanes along the scan {best.arg.name}")
        return
    strategy.unroll[best] = max(min(4, size_of(best) // width), 1)
    strategy.reasons.append(f"lanes along output {best.arg.name}, {strategy.unroll[best]} scans of vectors at a time")


def _read_along(
    strategy: LoopStrategy, region: Region, best: UOp, free: dict[UOp, frozenset[UOp]], width: int
) -> UOp | None:
    """The output range along which everything is read that moves along a few results, as colours of a picture do that
    becomes one with channels last: whole runs are stored then (`interleave`)."""
    moving = [load.src[1] for load in region.loads if best in free[load]]
    for r in strategy.order if moving else ():
        if r is not best and size_of(r) >= width and all(stride(place, r, free) == 1 for place in moving):
            return r
    return None


def _transposed(
    strategy: LoopStrategy, region: Region, best: UOp, free: dict[UOp, frozenset[UOp]], width: int
) -> UOp | None:
    """The output range along which a load has its neighbours, if that is not the range of the lanes."""
    for load in region.loads:
        if stride(load.src[1], best, free) in (0, 1) or load.arg:
            continue
        for r in strategy.order:
            if r is not best and stride(load.src[1], r, free) == 1 and size_of(r) >= width and size_of(best) >= width:
                return r
    return None


def _choose_core(
    strategy: LoopStrategy, found: list[Region], free: dict[UOp, frozenset[UOp]], target: Target, scanned: set[UOp]
) -> None:
    """Threads along the outermost range that is long enough."""
    independent = [r for r in strategy.order if r not in scanned]
    if target.cores < 2 or not independent:
        return
    outer = prod(size_of(r) for r in strategy.order)
    work = outer * found[0].nodes
    for region in found[1:]:
        if region.reduce is not None:
            around = free[region.reduce.src[0]] | set(region.reduce.src[1:])
            work += prod(size_of(r) for r in around) * region.nodes
    if work < WORTH_THREADS_OPERATIONS:
        return
    long_enough = [r for r in independent if _trips(strategy, r) >= 2 * target.cores]
    strategy.core = long_enough[0] if long_enough else max(independent, key=lambda r: _trips(strategy, r))
    strategy.reasons.append(f"cores along {strategy.core.arg.name}: about {work} operations")


def _trips(strategy: LoopStrategy, r: UOp) -> int:
    """Iterations of a range once its vectors and unrolled copies are taken out."""
    step = strategy.lanes.get(r, 1) * strategy.unroll.get(r, 1)
    return size_of(r) // step
