"""Kernels for GPUs: which ranges are counted by blocks and threads, and which stay loops.

Goes in: a kernel over flat positions. Comes out: the kernel over ranges of kind BLOCK and THREAD. Two forms:

    store p0[r0*48 + r1] over r0 < 40, r1 < 48        each thread has elements of its own: r0, r1 are digits of
    ->  i = block*256 + thread, where i < 1920        one number, the range of neighbours in memory last
        r0 = i // 48, r1 = i % 48                     (coalesced), up to 16 bytes of them in vectors

    store p0[r0] = sum over k < n of p1[r0*n + k]     each block has a row of its own: its threads share the
    ->  r0 = block, k = o*256 + thread                reduction, and combine what they have through shared
                                                      memory (`gpu.reduce`); what is stored along rows is
                                                      shared between them too

The second where the elements of a reduction are neighbours, or results are few; where these are neighbours, a block has
32 of them. A contraction is of the first form with a tile of results in the registers of each thread. Ranges that run
in order (of scans and of scatters) stay loops of one thread.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from math import prod

from whit.codegen.gpu.arithmetic import with_short_arithmetic
from whit.codegen.gpu.reduce import STRETCHES, ThreadGroup, share_reductions, stretches, vector_positions
from whit.codegen.gpu.rows import find_rows, tile_rows
from whit.codegen.gpu.scan import COLUMNS, MOST_SCANS, share_scans, shares_of_a_scan
from whit.codegen.gpu.scatter.threads import in_parts
from whit.codegen.gpu.thread_index import (
    Free,
    block_range,
    is_folded,
    lanes_of,
    once,
    only_where,
    thread_range,
    trips,
    unravel,
    width_of,
)
from whit.codegen.gpu.transpose import find_transpose, tile_transpose
from whit.ir import ops
from whit.ir.args import RangeKind
from whit.ir.atomic import is_atomic
from whit.ir.graph import topological
from whit.ir.map_graph import map_graph
from whit.ir.nesting import Owner
from whit.ir.op import Sources
from whit.ir.uop import UOp, as_index, make
from whit.kernel.ranges import (
    Region,
    free_ranges,
    in_order,
    is_open,
    ordered_ranges,
    regions,
    replace_ranges,
    scanned_ranges,
    size_of,
    sizes_of,
    stride,
)
from whit.target import GPU_LIMITS, Target

THREADS = 256  # of a block
MOST_THREADS, WARP = GPU_LIMITS.block_threads, GPU_LIMITS.warp_threads
FEWEST_COLUMNS = 16  # of a block, threads that have them side by side
COLUMN_BYTES = 8  # of neighbouring columns that a thread reads at once
MOST_SHARED_REDUCTIONS = 32  # of a kernel, each with memory that threads share
TILE = 8  # rows of a register tile
GATHERED = 4  # rows of a thread, one after the other: 0.182 ms; 1 0.197, 2 0.183, 8 0.185; all loads first 0.184
ENOUGH_THREADS = 1 << 16  # threads that fill the chip: vectors are narrower rather than threads fewer
FEW_RESULTS = 1 << 14  # results below which their reductions are shared between threads


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
    kernel = _kernel_of(with_short_arithmetic(body), target)
    found = regions(kernel.body)
    _put_neighbours_last(kernel, found)
    transpose = None if kernel.serial else find_transpose(kernel.body, found, kernel.parallel, kernel.free)
    if transpose is not None:
        result, reason = tile_transpose(kernel.body, transpose)
        return result, [reason]
    scan = _shared_scan(kernel)
    if scan is not None:
        return _block_for_a_scan(kernel, found, scan), kernel.reasons
    along = _shared_reductions(kernel, found)
    if not along:
        return _thread_for_an_element(kernel, found), kernel.reasons
    if _gain(kernel, found, along) > 0:
        rows = find_rows(kernel.body, target, kernel.free, found, along, kernel.parallel)
        if rows is not None:
            result, reason = tile_rows(kernel.body, kernel.free, rows)
            return result, [reason]
        return _block_for_a_row(kernel, along), kernel.reasons
    if _is_of_columns(kernel, along):
        return _block_for_columns(kernel, along), kernel.reasons
    if prod(sizes_of(_results(kernel, along))) < FEW_RESULTS:
        return _block_for_a_row(kernel, along), kernel.reasons
    return _thread_for_an_element(kernel, found), kernel.reasons


def _kernel_of(body: UOp, target: Target) -> GpuKernel:
    """A kernel with its ranges: those that run in order, as of scatters, in parts if there are too many steps."""
    free = free_ranges(body)
    scanned = scanned_ranges(body)
    ordered = set() if all(is_atomic(store) for store in body.src) else ordered_ranges(body, free)
    serial = (scanned | ordered) & free[body]
    order = in_order(free[body], scanned)
    parallel = [r for r in order if r not in serial]
    if serial and not scanned and prod(sizes_of(serial)) >= 2 * WARP:
        body, parts = in_parts(body, parallel, prod(sizes_of(parallel)), ENOUGH_THREADS)
        free, parallel = free_ranges(body), [*parts, *parallel]
    return GpuKernel(body, target, free, parallel, [r for r in order if r in serial])


def _put_neighbours_last(kernel: GpuKernel, found: list[Region]) -> None:
    """The range along which accesses are coalesced best becomes the innermost one."""
    parallel = kernel.parallel
    neighbours = max(parallel, key=lambda r: (_score(kernel, found, r), parallel.index(r)), default=None)
    if neighbours is not None:
        parallel.remove(neighbours)
        parallel.append(neighbours)


def _suits(step: int | None) -> int:
    """How well accesses of neighbouring threads that are `step` elements apart are coalesced."""
    return 2 if step in (1, -1) else 1 if step == 0 else -4


def _score(kernel: GpuKernel, found: list[Region], r: UOp) -> int:
    """How well all accesses suit threads along an output range."""
    loads = {load for region in found for load in region.loads if r in kernel.free[load]}
    places = [load.src[1] for load in loads] + [store.src[2] for store in kernel.body.src]
    return sum(_suits(stride(place, r, kernel.free)) for place in places) if size_of(r) > 1 else -100


# ---- reductions that threads share


def _shared_reductions(kernel: GpuKernel, found: list[Region]) -> dict[UOp, UOp]:
    """REDUCE -> the range of it that threads can share; nothing where one of them has to be left to one thread."""
    if kernel.serial or len(found) == 1 or not all(isinstance(r.size, int) for r in kernel.parallel):
        return {}
    along: dict[UOp, UOp] = {}
    for region in found[1:]:
        reduce = region.reduce
        assert reduce is not None, "the first region alone has no reduction"
        if not kernel.free[reduce] <= set(kernel.parallel):
            return {}  # inside of another reduction
        suits = {r: _reduce_score(kernel, region, r) for r in reduce.src[1:]}
        best = max(suits, key=lambda r: (suits[r], size_of(r)))
        if size_of(best) < WARP:
            return {}
        along[reduce] = best
    return along if len(along) <= MOST_SHARED_REDUCTIONS else {}


def _group_size(kernel: GpuKernel, along: dict[UOp, UOp], wanted: int, least: int) -> int:
    """The wanted number of threads, or fewer if shared memory does not hold two values of each for each reduction."""
    while wanted > least and 2 * wanted * sum(reduce.dtype.itemsize for reduce in along) > kernel.target.l1_bytes:
        wanted //= 2
    return wanted


def _reduce_score(kernel: GpuKernel, region: Region, r: UOp) -> int:
    return sum(_suits(stride(load.src[1], r, kernel.free)) for load in region.loads)


def _gain(kernel: GpuKernel, found: list[Region], along: dict[UOp, UOp]) -> int:
    """How much better accesses are with threads along the reductions than along the results."""
    gain = 0
    for region in found[1:]:
        assert region.reduce is not None, "the first region alone has no reduction"
        beside = _reduce_score(kernel, region, kernel.parallel[-1]) if kernel.parallel else -100
        gain += _reduce_score(kernel, region, along[region.reduce]) - beside
    return gain


def _results(kernel: GpuKernel, along: dict[UOp, UOp]) -> list[UOp]:
    """The ranges that the reductions depend on."""
    return [r for r in kernel.parallel if any(r in kernel.free[reduce] for reduce in along)]


def _block_for_a_row(kernel: GpuKernel, along: dict[UOp, UOp]) -> UOp:
    """Blocks along what the reductions depend on; threads along the reductions, and along what else is stored."""
    free = kernel.free
    rows = _results(kernel, along)
    count = prod(size_of(r) for r in rows)
    longest = max(size_of(r) for r in along.values())
    width = width_of(kernel.body, kernel.target, {*along.values(), *kernel.parallel[-1:]}, free)
    threads = MOST_THREADS if longest >= 8 * MOST_THREADS else THREADS  # few rows at once, that the cache keeps
    while threads > WARP and threads > longest:
        threads //= 2
    threads = _group_size(kernel, along, threads, WARP)
    group = ThreadGroup(thread_range(threads))
    indices = unravel(block_range(count), rows, {})
    kernel.reasons.append(f"{count} blocks of {threads} threads, one for each row")

    def lanes(node: UOp, r: UOp) -> int:
        return lanes_of(r, width, [load.src[1] for load in _loads(node.src[0], r, free)], free, is_whole=False)

    body = share_reductions(kernel.body, along, group, {}, lanes)
    stores = []
    numbers: dict[tuple[UOp, ...], list[dict[UOp, UOp]]] = {(): [{}]}
    for store, old in zip(body.src, kernel.body.src, strict=True):
        rest = tuple(r for r in kernel.parallel if r not in rows and r in free[old])
        if rest not in numbers:
            numbers[rest] = _along_threads(kernel, old, rest, group, width, STRETCHES * len(numbers))
        gates = once(old, indices, rows, free) + ([] if rest else [group.thread.eq(0)])
        for values in numbers[rest]:
            stores.append(only_where(replace_ranges(store, {**indices, **values}, {}), list(gates)))
    return UOp.group(*stores)


def _loads(value: UOp, r: UOp, free: Free) -> list[UOp]:
    """All loads of a value along a range."""
    return [node for node in value.topological() if node.op is ops.INDEX and r in free[node]]


def _along_threads(
    kernel: GpuKernel, store: UOp, rest: tuple[UOp, ...], group: ThreadGroup, width: int, first_id: int
) -> list[dict[UOp, UOp]]:
    """Ranges of a store as digits of a number that threads share; of one range in several stretches."""
    inner, free = rest[-1], kernel.free
    places = [store.src[2], *(load.src[1] for load in _loads(store.src[1], inner, free))]
    if len(rest) == 1:
        found = []
        for i, stretch in enumerate(stretches(inner, lanes_of(inner, width, places, free, is_whole=False), group)):
            loop = stretch.loop(group, first_id + i, RangeKind.LOOP, Owner.STEP)
            found += [{inner: place} for place in stretch.places(loop, group)]
        return found
    lanes = lanes_of(inner, width, places, free)
    vectors = as_index(prod(size_of(r) for r in rest) // lanes)
    loop = UOp.range(trips(vectors, group.parts, group.part), first_id, owner=Owner.STEP)
    indices = unravel(loop * group.threads + group.thread, list(rest), {inner: lanes})
    return [{**indices, inner: vector_positions(indices[inner], lanes)}]


def _is_of_columns(kernel: GpuKernel, along: dict[UOp, UOp]) -> bool:
    """Whether neighbouring results have neighbouring operands, and are too few to fill the chip one by one."""
    if not kernel.parallel or _results(kernel, along) != kernel.parallel:
        return False
    inner = kernel.parallel[-1]
    if size_of(inner) % WARP or not all(inner in kernel.free[reduce] for reduce in along):
        return False
    return prod(size_of(r) for r in kernel.parallel) < ENOUGH_THREADS


def _block_for_columns(kernel: GpuKernel, along: dict[UOp, UOp]) -> UOp:
    """Blocks of neighbouring results, 32 times 8 bytes or fewer; several threads share the reductions of each."""
    longest, free, inner = max(size_of(r) for r in along.values()), kernel.free, kernel.parallel[-1]
    columns, lanes = _columns_of_a_block(kernel, along)
    threads = MOST_THREADS
    while threads > 2 * WARP and threads // columns * 4 > longest:
        threads //= 2
    threads = _group_size(kernel, along, threads * lanes, 2 * WARP * lanes) // lanes
    group = ThreadGroup(thread_range(threads), columns)
    blocks = prod(sizes_of(kernel.parallel)) // (columns * lanes)
    number = block_range(blocks) * columns + group.column
    first = unravel(number, kernel.parallel, {inner: lanes})  # of the lanes
    indices = {**first, inner: vector_positions(first[inner], lanes)}
    kernel.reasons.append(f"{blocks} blocks of {threads} threads, each for {columns * lanes} columns")
    body = share_reductions(kernel.body, along, group, indices, lambda node, r: 1)
    stores = []
    for store, old in zip(body.src, kernel.body.src, strict=True):
        stores.append(only_where(store, [*once(old, first, kernel.parallel, free), group.part.eq(0)]))
    return UOp.group(*stores)


def _columns_of_a_block(kernel: GpuKernel, along: dict[UOp, UOp]) -> tuple[int, int]:
    """Threads side by side, and the neighbours of each: many, as long as blocks fill the chip."""
    free, inner, target = kernel.free, kernel.parallel[-1], kernel.target
    loads = {load for reduce in along for load in _loads(reduce, inner, free)}
    places = [load.src[1] for load in loads] + [store.src[2] for store in kernel.body.src]
    rows = [load.dtype.itemsize for load in loads if not free[load] <= set(kernel.parallel)]  # others are read once
    lanes = lanes_of(inner, max(min(COLUMN_BYTES, target.vector_bytes) // max(rows, default=4), 1), places, free)
    results, columns = prod(sizes_of(kernel.parallel)), WARP
    while columns > FEWEST_COLUMNS and results // (columns * lanes) < target.cores * 15 // 8:
        columns //= 2
    while lanes > 1 and (size_of(inner) % (columns * lanes) or results // (columns * lanes) < target.cores // 2):
        lanes //= 2
    return columns, lanes


# ---- scans that threads share


def _shared_scan(kernel: GpuKernel) -> UOp | None:
    """The range that is scanned, if threads can share it."""
    if len(kernel.serial) != 1:
        return None
    (along,) = kernel.serial
    if along not in scanned_ranges(kernel.body) - ordered_ranges(kernel.body, kernel.free):
        return None
    scans = [node for node in topological((kernel.body,)) if node.op is ops.SCAN]
    is_known = not any(map(is_open, kernel.parallel))
    return along if is_known and size_of(along) >= 2 * WARP and len(scans) <= MOST_SCANS else None


def _block_for_a_scan(kernel: GpuKernel, found: list[Region], along: UOp) -> UOp:
    """Blocks of one row, their threads along it; or of 32 columns, if these are neighbours."""
    body, free, rows = kernel.body, kernel.free, kernel.parallel
    total = prod(size_of(r) for r in rows)
    is_wide = bool(rows) and size_of(rows[-1]) >= COLUMNS // 2
    columns = COLUMNS if is_wide and _score(kernel, found, rows[-1]) > _score(kernel, found, along) else 1
    shares = shares_of_a_scan(body, kernel.target, free, along, rows, columns)
    group = ThreadGroup(thread_range(shares.threads), columns)
    total //= shares.wide
    blocks = -(-total // columns)
    number = block_range(blocks) * columns + group.column
    each = f"{shares.copies} x {shares.lanes * shares.wide} elements in each"
    kernel.reasons.append(f"{blocks} blocks of {shares.threads} threads that share a scan, {each}")
    indices = unravel(number, rows, {rows[-1]: shares.wide} if rows else {})
    if shares.wide > 1:
        beside = UOp.stack(*(as_index(lane % shares.wide) for lane in range(shares.lanes * shares.wide)))
        indices[rows[-1]] = indices[rows[-1]] * shares.wide + beside
    new = share_scans(body, along, group, shares, indices, number < total if total % columns else None)
    stores = []
    for copies, old in zip(new, body.src, strict=True):
        gates = once(old, indices, rows, free)
        gates += [] if along in free[old] else [group.part.eq(0)]
        stores += [only_where(store, list(gates)) for store in copies]
    return UOp.group(*stores)


# ---- a thread for an element


def _thread_for_an_element(kernel: GpuKernel, found: list[Region]) -> UOp:
    """All independent ranges as digits of one number, which blocks and threads count."""
    parallel, body, free = kernel.parallel, kernel.body, kernel.free
    if not parallel:
        kernel.reasons.append("one thread: everything runs in order")
        return UOp.group(*(_renumbered(kernel, store, {}) for store in body.src))
    inner, total = parallel[-1], prod(sizes_of(parallel))
    lanes = _lanes_of_a_thread(kernel, found, total)
    several = _several(kernel, found, lanes, total // lanes)
    copies = prod(several.values())
    count = total // (lanes * copies)
    threads = min(THREADS, -(-count // WARP) * WARP)
    blocks = -(-count // threads)
    number = block_range(blocks) * threads + thread_range(threads)
    indices = unravel(number, parallel, {inner: lanes, **several})
    kernel.reasons.append(f"{blocks} blocks of {threads} threads, {copies} x {lanes} elements in each")
    if any(map(is_open, parallel)) or blocks * threads != count:
        sizes = prod((as_index(r.size) for r in parallel), start=as_index(1))
        body = _guarded(body, set(parallel), free, number < sizes // (lanes * copies))
    stores = []
    for copy in range(copies):
        values = {**indices, inner: vector_positions(indices[inner], lanes)}
        values.update({r: indices[r] * step + copy for r, step in several.items()})
        for store, old in zip(body.src, kernel.body.src, strict=True):
            stores.append(only_where(_renumbered(kernel, store, values), once(old, indices, parallel, free)))
    return UOp.group(*stores)


def _lanes_of_a_thread(kernel: GpuKernel, found: list[Region], total: int) -> int:
    """How many neighbours a thread has of `total` results: a vector, or all taps of a window; as long as there are
    enough threads."""
    body, free, inner = kernel.body, kernel.free, kernel.parallel[-1]
    if kernel.serial or any(store.arg.combine for store in body.src):
        return 1
    width = width_of(body, kernel.target, (inner,), free)
    while width > 1 and total // width < ENOUGH_THREADS:
        width //= 2
    places = [store.src[2] for store in body.src]
    places += [load.src[1] for region in found for load in region.loads]
    lanes = lanes_of(inner, width, places, free)
    if lanes == 1 and is_folded(body, inner, places, free) and total // size_of(inner) >= ENOUGH_THREADS:
        return size_of(inner)
    return lanes


def _several(kernel: GpuKernel, found: list[Region], lanes: int, threads: int) -> dict[UOp, int]:
    """Another range of which a thread has several places, and how many; nothing if it has one."""
    across = _across(kernel, found, threads) if lanes > 1 else None
    if across is not None:
        return {across: TILE}
    gathered = _gathered(kernel, found, threads)
    return {} if gathered is None else {gathered: GATHERED}


def _across(kernel: GpuKernel, found: list[Region], threads: int) -> UOp | None:
    """The other output range of a contraction: a tile of both is kept in registers, and loads are shared in it."""
    inner, free = kernel.parallel[-1], kernel.free
    for region in found[1:]:
        for r in kernel.parallel[:-1]:
            only_r = any(r in free[load] and inner not in free[load] for load in region.loads)
            only_inner = any(inner in free[load] and r not in free[load] for load in region.loads)
            every = all(r in free[store] for store in kernel.body.src)
            if only_r and only_inner and every and isinstance(r.size, int) and r.size % TILE == 0:
                return r if threads // TILE >= ENOUGH_THREADS // 4 else None
    return None


def _gathered(kernel: GpuKernel, found: list[Region], threads: int) -> UOp | None:
    """A range along which positions are read, and then what is there: a thread has several."""
    for load in found[0].loads:
        for position in load.src[1].topological():
            if position.op is ops.INDEX:
                for r in kernel.parallel[:-1]:
                    every = all(r in kernel.free[store] for store in kernel.body.src)
                    if r in kernel.free[position] and every and size_of(r) % GATHERED == 0:
                        return r if threads // GATHERED >= ENOUGH_THREADS and isinstance(r.size, int) else None
    return None


def _renumbered(kernel: GpuKernel, store: UOp, indices: dict[UOp, UOp]) -> UOp:
    """A store over digits; loops that stay get ids after those of blocks and threads."""
    loops = {r: UOp.range(r.src[0].substitute(indices), i, r.arg.kind, Owner.STEP) for i, r in enumerate(kernel.serial)}
    return replace_ranges(store, {**indices, **loops}, {})


def _guarded(body: UOp, parallel: set[UOp], free: Free, inside: UOp) -> UOp:
    """The kernel with every access inside of a loop that runs once, or not at all."""
    one, none = as_index(1), as_index(0)
    guard = UOp.range(inside.where(one, none), 0, owner=Owner.GUARD)

    def guarded(node: UOp, src: Sources) -> UOp | None:
        is_access = node.op is ops.STORE or (node.op is ops.INDEX and free[node] & parallel)
        return make(node.op, (src[0].after(guard), *src[1:]), node.arg) if is_access else None

    return map_graph(body, guarded)
