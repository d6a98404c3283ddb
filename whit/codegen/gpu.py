"""Kernels for GPUs: which ranges are counted by blocks and threads, and which stay loops.

Goes in: a kernel over flat positions. Comes out: the kernel over ranges of kind BLOCK and THREAD. Two forms:

    store p0[r0*48 + r1] over r0 < 40, r1 < 48        each thread has elements of its own: r0, r1 are digits of
    ->  i = block*256 + thread, where i < 1920        one number, the range of neighbours in memory last,
        r0 = i // 48, r1 = i % 48                     and up to 16 bytes of them side by side in vectors

    store p0[r0] = sum over k < n of p1[r0*n + k]     each block has a row of its own: its threads share the
    ->  r0 = block, k = o*256 + thread                reduction, and combine what they have through shared
                                                      memory (`gpu_reduce`); what is stored along rows is
                                                      shared between them too

The second where the elements of a reduction are neighbours, or results are few. Ranges that run in order (of scans and
of scatters) stay loops of one thread.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from math import prod

from whit.codegen.gpu_reduce import combine_threads
from whit.codegen.lanes import lane_numbers
from whit.codegen.ranges import (
    Region,
    free_ranges,
    in_order,
    ordered_ranges,
    regions,
    replace_ranges,
    scanned_ranges,
    stride,
)
from whit.codegen.strategy import vector_width
from whit.ir import ops
from whit.ir.args import RangeArg, RangeKind
from whit.ir.graph import topological
from whit.ir.sizes import reach
from whit.ir.uop import UOp, as_index, make
from whit.target import Target

THREADS = 256  # of a block
WARP = 32
ENOUGH = 1 << 16  # threads that fill the chip: so many are not given up for vectors
FEW = 1 << 14  # results below which their reductions are shared between threads
BLOCK_ID, THREAD_ID, GUARD_ID, FIRST_ID = 0, 1, 2, 16  # of ranges: in the order in which they nest
REDUCE_ID = 10_000

Free = dict[UOp, frozenset[UOp]]


@dataclass(slots=True)
class GpuKernel:
    """A kernel while it is tiled."""

    body: UOp
    target: Target
    free: Free
    parallel: list[UOp]  # output ranges whose iterations are independent, those of neighbours last
    serial: list[UOp]
    reasons: list[str] = field(default_factory=list)


def tile_gpu(body: UOp, target: Target) -> tuple[UOp, list[str]]:
    """The kernel over blocks and threads, and why it is so."""
    free = free_ranges(body)
    scanned = scanned_ranges(body)
    serial = (scanned | ordered_ranges(body, free)) & free[body]
    order = in_order(free[body], scanned)
    parallel = [r for r in order if r not in serial]
    kernel = GpuKernel(body, target, free, parallel, [r for r in order if r in serial])
    found = regions(body)
    neighbours = max(parallel, key=lambda r: (_score(kernel, found, r), parallel.index(r)), default=None)
    if neighbours is not None:
        parallel.remove(neighbours)
        parallel.append(neighbours)
    along = _shared_reductions(kernel, found)
    result = _block_for_a_row(kernel, along) if along else _thread_for_an_element(kernel, found)
    return result, kernel.reasons


def size_of(r: UOp) -> int:
    """The size of a range; of a symbolic one, the largest it can be."""
    return r.size if isinstance(r.size, int) else max(reach(r.size)[1] or 0, 0)


def _suits(step: int | None) -> int:
    """How good it is if neighbouring threads are so far from each other in memory."""
    return 2 if step in (1, -1) else 1 if step == 0 else -4


def _score(kernel: GpuKernel, found: list[Region], r: UOp) -> int:
    """How well all accesses suit threads along an output range."""
    loads = {load for region in found for load in region.loads if r in kernel.free[load]}
    places = [load.src[1] for load in loads] + [store.src[2] for store in kernel.body.src]
    return sum(_suits(stride(place, r, kernel.free)) for place in places) if size_of(r) > 1 else -100


# ---- a block for a row


def _shared_reductions(kernel: GpuKernel, found: list[Region]) -> dict[UOp, UOp]:
    """REDUCE -> the range of it that threads share; nothing where each element is better left to one thread."""
    if kernel.serial or len(found) == 1:
        return {}
    if not all(isinstance(r.size, int) for r in kernel.parallel):
        return {}
    along: dict[UOp, UOp] = {}
    gain = 0
    for region in found[1:]:
        reduce = region.reduce
        assert reduce is not None
        if not kernel.free[reduce] <= set(kernel.parallel):
            return {}  # inside of another reduction
        suits = {r: _reduce_score(kernel, region, r) for r in reduce.src[1:]}
        best = max(suits, key=lambda r: (suits[r], size_of(r)))
        if size_of(best) < WARP:
            return {}
        along[reduce] = best
        inner = kernel.parallel[-1] if kernel.parallel else None
        gain += suits[best] - (_reduce_score(kernel, region, inner) if inner is not None else -100)
    results = prod(size_of(r) for r in set().union(*(kernel.free[reduce] for reduce in along)))
    return along if gain > 0 or results < FEW else {}


def _reduce_score(kernel: GpuKernel, region: Region, r: UOp) -> int:
    return sum(_suits(stride(load.src[1], r, kernel.free)) for load in region.loads)


def _block_for_a_row(kernel: GpuKernel, along: dict[UOp, UOp]) -> UOp:
    """Blocks along what the reductions depend on; threads along the reductions, and along what else is stored."""
    free, body = kernel.free, kernel.body
    rows = [r for r in kernel.parallel if any(r in free[reduce] for reduce in along)]
    longest = max(size_of(r) for r in along.values())
    width = vector_width(body, kernel.target)
    threads = THREADS
    while threads > WARP and threads > longest:
        threads //= 2
    thread = UOp.range(threads, THREAD_ID, RangeKind.THREAD)
    block = UOp.range(prod(size_of(r) for r in rows), BLOCK_ID, RangeKind.BLOCK)
    digits = _digits(block, rows)
    kernel.reasons.append(f"{prod(size_of(r) for r in rows)} blocks of {threads} threads, one for each row")
    body = _reduce_together(body, along, thread, width, kernel)
    stores = []
    numbers: dict[tuple[UOp, ...], dict[UOp, UOp]] = {}
    for store, old in zip(body.src, kernel.body.src, strict=True):
        rest = tuple(r for r in kernel.parallel if r not in rows and r in free[old])
        if rest and rest not in numbers:
            numbers[rest] = _along_threads(kernel, old, rest, thread, width, FIRST_ID + 16 * len(numbers))
        values = {**digits, **(numbers[rest] if rest else {})}
        stores.append(replace_ranges(store, values, {}))
        gates = [digits[r].eq(0) for r in rows if r not in free[old]] + ([] if rest else [thread.eq(0)])
        stores[-1] = _only_where(stores[-1], gates)
    return UOp.group(*stores)


def _reduce_together(body: UOp, along: dict[UOp, UOp], thread: UOp, width: int, kernel: GpuKernel) -> UOp:
    """Every reduction shared between the threads of a block."""
    done: dict[UOp, UOp] = {}
    for node in topological((body,)):
        src = tuple([done[s] for s in node.src])
        new = node if src == node.src else make(node.op, src, node.arg)
        if node in along:
            r = along[node]
            lanes = _lanes_of(r, width, [load.src[1] for load in _loads(node.src[0])], kernel.free)
            new = _partial(new, r, thread, lanes)
            new = combine_threads(new, node.arg.op, thread, len(done))
        done[node] = new
    return done[body]


def _loads(value: UOp) -> list[UOp]:
    return [node for node in value.topological() if node.op is ops.INDEX]


def _partial(node: UOp, r: UOp, thread: UOp, lanes: int) -> UOp:
    """What one thread has of a reduction."""
    value, *ranges = node.src
    op, threads = node.arg.op, int(thread.src[0].arg)
    loop = UOp.range(_trips(as_index(r.size) // lanes, thread, threads), REDUCE_ID + r.arg.id, r.arg.kind)
    part = replace_ranges(value, {r: _spread(loop * threads + thread, lanes)}, {})
    if lanes > 1 and not part.shape:
        part = UOp.stack(*([part] * lanes))
    others = [other for other in ranges if other is not r]
    total = part.reduce(op, ranges=(*others, loop))
    return total.reduce(op, axes=(0,)) if total.shape else total


def _trips(count: UOp, thread: UOp, threads: int) -> UOp:
    """How often a thread runs if it has every 256th of so many."""
    if count.op is ops.CONST and count.arg % threads == 0:
        return as_index(count.arg // threads)
    return (count + (threads - 1) - thread) // threads


def _spread(number: UOp, lanes: int) -> UOp:
    """The positions of a vector, of its number."""
    return number if lanes == 1 else number * lanes + lane_numbers(lanes)


def _along_threads(
    kernel: GpuKernel, store: UOp, rest: tuple[UOp, ...], thread: UOp, width: int, first_id: int
) -> dict[UOp, UOp]:
    """Ranges of a store as digits of a number that threads share."""
    inner, threads = rest[-1], int(thread.src[0].arg)
    lanes = _lanes_of(inner, width, [store.src[2], *(load.src[1] for load in _loads(store.src[1]))], kernel.free)
    count = prod((as_index(r.size) for r in rest), start=as_index(1)) // lanes
    loop = UOp.range(_trips(_folded(count), thread, threads), first_id)
    return _digits(loop * threads + thread, list(rest), lanes)


def _folded(size: UOp) -> UOp:
    """A size as a number where it is one."""
    low, high = reach(size)
    return as_index(low) if low is not None and low == high else size


# ---- a thread for an element


def _thread_for_an_element(kernel: GpuKernel, found: list[Region]) -> UOp:
    """All independent ranges as digits of one number, which blocks and threads count."""
    parallel, body, free = kernel.parallel, kernel.body, kernel.free
    if not parallel:
        kernel.reasons.append("one thread: everything runs in order")
        return UOp.group(*(_renumbered(kernel, store, {}) for store in body.src))
    inner = parallel[-1]
    total = prod(size_of(r) for r in parallel)
    width = 1 if kernel.serial or any(store.arg.combine for store in body.src) else vector_width(body, kernel.target)
    places = [store.src[2] for store in body.src]
    places += [load.src[1] for region in found for load in region.loads]
    while width > 1 and total // width < ENOUGH:
        width //= 2
    lanes = _lanes_of(inner, width, places, free)
    count = total // lanes
    threads = min(THREADS, -(-count // WARP) * WARP)
    blocks = -(-count // threads)
    block, thread = UOp.range(blocks, BLOCK_ID, RangeKind.BLOCK), UOp.range(threads, THREAD_ID, RangeKind.THREAD)
    number = block * threads + thread
    digits = _digits(number, parallel, lanes)
    kernel.reasons.append(f"{blocks} blocks of {threads} threads, {lanes} elements in each along r{inner.arg.id}")
    known = all(isinstance(r.size, int) for r in parallel)
    if not known or blocks * threads != count:
        inside = number < prod((as_index(r.size) for r in parallel), start=as_index(1)) // lanes
        body = _guarded(body, set(parallel), free, inside)
    stores = []
    for store, old in zip(body.src, kernel.body.src, strict=True):
        gates = [_first(digits[r]).eq(0) for r in parallel if r not in free[old]]
        stores.append(_only_where(_renumbered(kernel, store, digits), gates))
    return UOp.group(*stores)


def _first(position: UOp) -> UOp:
    """A position without its lanes: a store that has none is done by the thread with the first."""
    lanes = [node for node in position.topological() if node.op is ops.STACK]
    return position.substitute({node: node.src[0] for node in lanes})


def _renumbered(kernel: GpuKernel, store: UOp, digits: dict[UOp, UOp]) -> UOp:
    """A store over digits; loops that stay get ids after those of blocks and threads."""
    loops = {r: UOp.range(r.src[0].substitute(digits), FIRST_ID + i, r.arg.kind) for i, r in enumerate(kernel.serial)}
    return replace_ranges(store, {**digits, **loops}, {})


def _guarded(body: UOp, parallel: set[UOp], free: Free, inside: UOp) -> UOp:
    """The kernel with every access inside of a loop that runs once, or not at all."""
    one, none = as_index(1), as_index(0)
    guard = UOp.range(inside.where(one, none), GUARD_ID)
    done: dict[UOp, UOp] = {}
    for node in topological((body,)):
        src = tuple([done[s] for s in node.src])
        if node.op is ops.STORE or (node.op is ops.INDEX and free[node] & parallel):
            src = (src[0].after(guard), *src[1:])
        done[node] = node if src == node.src else make(node.op, src, node.arg)
    return done[body]


# ---- both


def _digits(number: UOp, ranges: list[UOp], lanes: int = 1) -> dict[UOp, UOp]:
    """The ranges as digits of a number, the last one the lowest, whose digit is a vector of so many lanes."""
    digits: dict[UOp, UOp] = {}
    rest = number
    for i, r in enumerate(reversed(ranges)):
        size = as_index(r.size) // lanes if i == 0 and lanes > 1 else as_index(r.size)
        digit = rest if i == len(ranges) - 1 else rest % size
        digits[r] = _spread(digit, lanes) if i == 0 else digit
        rest = rest // size
    return digits


def _lanes_of(r: UOp, width: int, places: list[UOp], free: Free) -> int:
    """How many neighbours along a range are one vector: a power of two that divides it."""
    steps = [stride(place, r, free) for place in places]
    if not isinstance(r.size, int) or 1 not in steps or any(step not in (0, 1) for step in steps):
        return 1
    while width > 1 and r.size % width:
        width //= 2
    return max(width, 1)


def _only_where(store: UOp, gates: list[UOp]) -> UOp:
    """A store under more conditions."""
    if not gates:
        return store
    target, value, position, *gate = store.src
    every = gate[0] if gate else gates.pop()
    for more in gates:
        every = every & more
    if every.shape != position.shape and position.shape and not every.shape:
        every = UOp.stack(*([every] * position.shape[0]))
    return target.store(value, position, combine=store.arg.combine, gate=every)


def on_blocks(linear: UOp) -> UOp:
    """A program for cores with a block of one thread for each of their iterations."""
    cores = [node for node in linear.src if node.op is ops.RANGE and node.arg.kind is RangeKind.CORE]
    blocks = {core: make(ops.RANGE, core.src, RangeArg(core.arg.id, RangeKind.BLOCK)) for core in cores}
    return linear.substitute(blocks) if blocks else linear
