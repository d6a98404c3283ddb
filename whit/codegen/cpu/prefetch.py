"""Prefetch on CPUs: which loads of a program ask for memory that comes soon, and how many bytes ahead.

    load panel[(tile * 512 + k) * 64]                 from a panel that does not fit the first cache   ->   8192
    store panel[k * 64], load matrix[k * 768 + c]     a copy, row by row                               ->   4 rows
    load bytes[g * 18432 + u * 2304 + b * 18]         eight short rows u at a time, along b            ->   8 rows
    loop, load result[i]                              known before the loop, read after it             ->   at the loop

The hardware prefetches by itself only inside a page, and never the first line of a row.

Goes in: a LINEAR. Comes out: the same with a PREFETCH after each such load, or before the loop.
"""

from __future__ import annotations

from whit.ir import ops
from whit.ir.args import Memory, PrefetchArg, RangeKind
from whit.ir.graph import memory_of, topological
from whit.ir.uop import UOp, make
from whit.target import CACHE_LINE_BYTES, Target

# bytes ahead in a panel: 60.0 ms for 2048 x 2048 x 2048 on two cores, and 65.6 ms with 1024
PANEL_DISTANCE_BYTES = 8192
COPY_DISTANCE_ROWS = 4  # ahead in a copy: 3.0 -> 2.6 ms for 64 x 3072 x 768
# bytes ahead: what is nearer the hardware prefetches, what is farther is evicted by then
LEAST_DISTANCE_BYTES, MOST_DISTANCE_BYTES = 1024, 1 << 17
# bytes of a row too short to be prefetched by the hardware: Q4_0 1.32 -> 0.88 ms (bench/quantised.py)
SHORT_ROW_BYTES = 1 << 13


def prefetch(linear: UOp, target: Target) -> UOp:
    """The program with a PREFETCH for all that `prefetch_distances` and `loads_after_loops` find."""
    ahead, after = prefetch_distances(linear, target), loads_after_loops(linear)
    if not ahead and not after:
        return linear
    listed: dict[UOp, None] = {}
    for node in linear.src:
        if node.op is ops.RANGE:
            listed.update((_asked(load), None) for load in after.get(node, ()))
        listed[node] = None
        if node in ahead:
            listed[_asked(node, ahead[node])] = None
    return make(ops.LINEAR, tuple(listed))


def _asked(load: UOp, ahead: int = 0) -> UOp:
    """The PREFETCH of a line that begins so many bytes after the place of a load."""
    return make(ops.PREFETCH, load.src[:2], PrefetchArg(CACHE_LINE_BYTES, ahead))


def prefetch_distances(linear: UOp, target: Target) -> dict[UOp, int]:
    """Load -> how many bytes ahead of it memory is prefetched."""
    found: dict[UOp, int] = {}
    for node in linear.src:
        if node.op is ops.LOAD:
            load, distance = node, _ahead_of_load(node, target)
        elif node.op is ops.STORE and node.src[1].op is ops.LOAD:
            load, distance = node.src[1], _ahead_in_copy(node)
        else:
            continue
        if distance:
            found[load] = distance
    return found


def _ahead_of_load(load: UOp, target: Target) -> int:
    """In the next rows of a param, or further on in a panel that does not fit the first cache; 0 elsewhere."""
    memory = memory_of(load.src[0])
    if memory.op is ops.PARAM:
        return _worth_it(_next_rows(load.src[1]) * load.dtype.itemsize) if _is_vector(load) else 0
    is_large = memory.op is ops.BUFFER and memory.shape[0] * memory.dtype.itemsize > target.l1_bytes
    return PANEL_DISTANCE_BYTES if is_large and _is_line(load) else 0


def _ahead_in_copy(store: UOp) -> int:
    """A few rows on in what a panel is filled from; 0 if this is no copy of a line of a param into a panel."""
    memory, load, place = store.src[:3]
    panel, source = memory_of(memory), memory_of(load.src[0])
    is_panel = panel.op is ops.BUFFER and panel.arg.memory is Memory.SHARED
    if not is_panel or source.op is not ops.PARAM or not _is_line(load):
        return 0
    return _worth_it(COPY_DISTANCE_ROWS * _row(load.src[1], place) * source.dtype.itemsize)


def _worth_it(distance: int) -> int:
    """A distance, or 0 if it is too short or too long."""
    return distance if LEAST_DISTANCE_BYTES <= distance <= MOST_DISTANCE_BYTES else 0


def loads_after_loops(linear: UOp) -> dict[UOp, list[UOp]]:
    """Loop -> the loads after it that are prefetched in front of it: those of what its sums are added to."""
    found: dict[UOp, list[UOp]] = {}
    places = {node: i for i, node in enumerate(linear.src)}
    loops: list[UOp | None] = [None]  # at each depth, the last one that has ended
    for node in linear.src:
        if node.op is ops.RANGE:
            loops.append(None)
        elif node.op is ops.END and node.src[0].op is ops.RANGE:
            loops.pop()
            loops[-1] = node.src[0]
        elif node.op is ops.LOAD and loops[-1] is not None:
            is_known = places.get(node.src[1], 0) < places[loops[-1]]
            if is_known and _is_line_of_param(node):
                found.setdefault(loops[-1], []).append(node)
    return found


def _is_line_of_param(load: UOp) -> bool:
    """Whether a load is of whole lines of a param that nothing has been written to before, all of it or nothing."""
    memory, *others = load.src
    if memory.op is not ops.PARAM or any(each.shape for each in others):
        return False
    return bool(load.shape) and load.shape[0] * memory.dtype.itemsize >= CACHE_LINE_BYTES


def _is_vector(load: UOp) -> bool:
    """Whether a load is of neighbours, always."""
    _, position, *gate = load.src
    return not gate and not position.shape and bool(load.shape)


def _is_line(load: UOp) -> bool:
    """Whether a load is of whole lines, and of nothing else."""
    return _is_vector(load) and load.shape[0] * load.src[0].dtype.itemsize >= CACHE_LINE_BYTES


def _next_rows(position: UOp) -> int:
    """How far the next rows are, in elements, where several short ones are summed up side by side, block by block; 0
    elsewhere. Loops along blocks are the reduction's own: those along vectors of it are split off."""
    steps = {node: step_of(position, node) for node in topological((position,)) if node.op is ops.RANGE}
    summed = {r: step for r, step in steps.items() if r.arg.kind is RangeKind.REDUCE}
    outside = [step for r, step in steps.items() if r not in summed and step > 0]
    if not summed or not outside or any(step <= 0 or r.src[0].op is not ops.CONST for r, step in summed.items()):
        return 0
    row, pitch = max(step * int(r.src[0].arg) for r, step in summed.items()), min(outside)
    return pitch if row <= min(SHORT_ROW_BYTES, pitch // 2) else 0


def _row(source: UOp, place: UOp) -> int:
    """The longest step, in elements of the source, of a range along which a copy moves in both memories."""
    both = set(topological((source,))) & set(topological((place,)))
    return max((step_of(source, r) for r in both if r.op is ops.RANGE), default=0)


def step_of(position: UOp, r: UOp) -> int:
    """How far a position moves with a range; 0 if that is not always the same."""
    if position is r:
        return 1
    if position.op is ops.ADD:
        return sum(step_of(part, r) for part in position.src)
    if position.op is ops.MUL and position.src[1].op is ops.CONST:
        return step_of(position.src[0], r) * int(position.src[1].arg)
    return 0
