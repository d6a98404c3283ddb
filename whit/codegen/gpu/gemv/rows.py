"""Products of few rows on a GPU (GEMV, skinny GEMM): matrices that are read once, at the speed of memory.

    y[n] = relu(sum over k of w[n, k] * x[k])           4096 x 4096, bfloat16

    ->  n = (block*4 + thread // 32)*2 + 0 .. 1         a warp for two rows of w: x is loaded once for both
        sum over o of w[n, o*256 + thread % 32 * 8 + 0 .. 7] * x[..]
        across the 32 threads of the warp               by exchanging registers: nothing waits for other warps

Each thread reads 16 neighbouring bytes of the matrix at once, and has several rows, so that many bytes are on their
way. A short row is shared by fewer threads, and a warp has more rows. Results that read the same element of the matrix
are computed by the same threads: a product with up to eight rows reads the matrix once.

    y[n] = sum over k of w[n, k] * norm(x)[k]      ->      shared[k] = norm(x)[k], by all threads of a block
                                                           y[n] = sum over k of w[n, k] * shared[k]

A row that has to be reduced before it is multiplied, as by a norm, is computed by every block for itself, while the
second cache fetches the beginning of the matrix.

The other layout, w[k, n], has results side by side: see `gemv.columns`. Sums are in an order that depends on sizes
alone.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import dataclass
from itertools import product
from math import prod

from whit.codegen.gpu.gemm.staged import gated
from whit.codegen.gpu.gemv.products import find_products, matrix_of
from whit.codegen.gpu.gemv.scaled_once import scaled_once
from whit.codegen.gpu.thread_index import Free, block_range, narrowed, strided_loop, thread_range
from whit.codegen.passes.lanes import lane_numbers
from whit.codegen.passes.split_blocks import split_blocks, write_out_blocks
from whit.dtype import dtypes
from whit.ir import ops
from whit.ir.args import AcrossArg, Memory, PrefetchArg, RangeKind, StageArg
from whit.ir.graph import topological
from whit.ir.map_graph import map_graph, rebuilt
from whit.ir.nesting import Owner
from whit.ir.op import Sources
from whit.ir.uop import UOp, as_index, make
from whit.kernel.ranges import Region, in_order, is_open, replace_ranges, size_of, sizes_of, stride
from whit.simplify.sums import build_sum, linear_form
from whit.target import GPU_LIMITS, Target

SHARED_ID = 20_000  # of buffers in shared memory
THREADS, WARP = 128, GPU_LIMITS.warp_threads
MOST_BATCH = 8  # results that share what they read of the matrix
MOST_ROWS = 4  # of the matrix, for each group of threads
PACKED_LANES = 8  # numbers of packed weights: 14336 x 4096 of Q4_0 25 -> 22, Q4_K 28 -> 25 us (bench/gpu_decode.py)
WARPS_A_CORE = 12  # that have enough on their way, with two rows each
LEAST_ROWS = 512  # of the matrix: fewer do not fill the chip
LEAST_DEPTH = 32
ON_THE_WAY = 8  # loads of 16 bytes that a thread has started before it waits for the first
LEAST_ON_THE_WAY = 4  # the same where results that share the matrix need registers
MANY_LOADS = 8  # of a step, as of Q6_K: four rows of it take more registers than there are for enough warps
MOST_LOADS = 64  # of any kind
MOST_ROW_BYTES = 1 << 15  # of a row that every block computes first, in shared memory
# Bytes that are prefetched into the second cache by all blocks, when a multiprocessor has that many warps: a decoder of
# eight layers takes 1.24 ms, 1.28 with 16 MiB and 1.34 with 32 (bench/gpu_decode.py).
PREFETCH_BYTES, MOST_PREFETCH_WARPS = 8 << 20, 16

Product = Callable[[UOp, UOp], UOp]  # of a REDUCE and what it was at first


@dataclass(frozen=True, slots=True)
class SkinnyProduct:
    """Products that read the same rows of matrices."""

    free: Free
    along: dict[UOp, UOp]  # REDUCE -> the range along which its operands are neighbours
    blocks: dict[UOp, UOp]  # REDUCE -> the range of blocks that threads share too, where neighbours are few
    rows: list[UOp]  # ranges of the matrices' rows
    batch: list[UOp]  # ranges of results that read the same
    lanes: int  # elements of a matrix in 16 bytes
    loads: int  # of one step along the most complicated of them
    matrix: dict[UOp, UOp]  # REDUCE that is a product -> a load of its matrix

    @property
    def depth(self) -> int:
        """How many elements of the longest sum threads share."""
        blocks = {node: size_of(r) for node, r in self.blocks.items()}
        return max(size_of(r) * blocks.get(node, 1) for node, r in self.along.items())

    @property
    def shared(self) -> list[UOp]:
        """The ranges that threads share."""
        return in_order({*self.along.values(), *self.blocks.values()})

    @property
    def matrices(self) -> tuple[UOp, ...]:
        """What is read of them, one load of each."""
        return tuple(self.matrix.values())

    @property
    def count(self) -> int:
        """How many products there are for each row of a matrix."""
        return len(self.matrix) * prod(sizes_of(self.batch))


def tile_gemv_rows(body: UOp, target: Target) -> tuple[UOp, str] | None:
    """The kernel with a group of threads for each few rows of a matrix and why, if it is a product of few rows."""
    body = write_out_blocks(split_blocks(body))
    skinny = find_skinny(body, target)
    if skinny is None:
        return None
    threads = _threads_of_a_group(skinny)
    copies = _rows_of_a_group(skinny, threads, target)
    groups = THREADS // threads
    thread = thread_range(THREADS)
    count = prod(sizes_of(skinny.rows)) // copies
    blocks = -(-count // groups)
    number = block_range(blocks) * groups + thread // threads
    indices = unravel(number, skinny.rows, copies)
    inside = number < prod((as_index(r.size) for r in skinny.rows), start=as_index(1)) // copies
    is_whole = blocks * groups == count and not any(map(is_open, skinny.rows))
    inner = skinny.rows[-1]
    steps = _steps(skinny, copies)
    shared, known = with_products(
        body, skinny, thread, steps, lambda new, old: _across(new, old, skinny, thread, threads, steps)
    )
    stores = []
    for places in product(range(copies), *(range(size_of(r)) for r in skinny.batch)):
        at = {r: as_index(place) for r, place in zip(skinny.batch, places[1:], strict=True)}
        values = {**indices, **at, inner: indices[inner] * copies + places[0]}
        for store in shared.src:
            new = replace_ranges(store, values, {})
            stores.append(_stored(new, thread % threads, None if is_whole else inside, known))
    first = (thread % threads).eq(0) if is_whole else (thread % threads).eq(0) & inside
    mine = [{**indices, inner: indices[inner] * copies + copy} for copy in range(copies)]
    asked = {load.src[0]: _prefetch(load, mine, skinny, first, target) for load in skinny.matrices}
    reason = f"{count} groups of {threads} threads, {copies} x {skinny.count} products in each"
    return UOp.group(*stores).substitute(asked), reason


def find_skinny(body: UOp, target: Target) -> SkinnyProduct | None:
    """The products of a kernel, if they are of few rows, and everything that is stored is one of them."""
    found = find_products(body)
    if found is None or not any(len(region.loads) > 1 for region in found.regions.values()):
        return None  # sums of rows, not products, or of other sums
    free, rows, batch = found.free, found.rows, found.batch
    if any(map(is_open, batch)) or prod(sizes_of(batch)) > MOST_BATCH or prod(sizes_of(rows)) < LEAST_ROWS:
        return None
    along = found.along(lambda region: _along(region, free))
    lanes = min((_lanes(found.regions[reduce], r, free, target) for reduce, r in along.items()), default=1)
    if lanes < 2:
        return None
    blocks = {reduce: _blocks(reduce, r, lanes) for reduce, r in along.items()}
    of_blocks = {reduce: r for reduce, r in blocks.items() if r is not None}
    loads = max(len(region.loads) for region in found.regions.values())
    products = {reduce: matrix for reduce, matrix in found.matrices.items() if not rows.isdisjoint(free[matrix])}
    return SkinnyProduct(free, along, of_blocks, in_order(rows), batch, lanes, loads, products)


def _along(region: Region, free: Free) -> UOp | None:
    """The range of a reduction along which its operands are neighbours, or the same."""
    assert region.reduce is not None, "callers give regions with a reduction"
    if region.reduce.dtype.itemsize != 4 or not region.reduce.dtype.is_float:
        return None
    ranges = region.reduce.src[1:]
    if prod(sizes_of(ranges)) < LEAST_DEPTH:
        return None
    for r in ranges:
        steps = [stride(load.src[1], r, free) for load in region.loads]
        if isinstance(r.size, int) and 1 in steps and all(step in (0, 1) for step in steps):
            return r if stride(matrix_of(region, free).src[1], r, free) == 1 else None
    return None


def _lanes(region: Region, r: UOp, free: Free, target: Target) -> int:
    """How many neighbours of the widest operand a thread reads at once."""
    widest = max(load.dtype.itemsize for load in region.loads if r in free[load])
    lanes = max(target.vector_bytes // widest, 1)
    if any(load.dtype.itemsize == 1 for load in region.loads):  # what a block has once is worth more numbers
        lanes = max(lanes, PACKED_LANES)
    while lanes > 1 and size_of(r) % lanes:
        lanes //= 2
    return lanes


def _blocks(reduce: UOp, r: UOp, lanes: int) -> UOp | None:
    """The longest other range of a reduction, if a warp has more threads than there are vectors of neighbours."""
    vectors = size_of(r) // lanes
    others = [other for other in reduce.src[1:] if other is not r and isinstance(other.size, int)]
    return max(others, key=size_of) if others and vectors < WARP and WARP % vectors == 0 else None


def _threads_of_a_group(skinny: SkinnyProduct) -> int:
    """How many threads share a row: a warp, or fewer if there are not as many vectors in it."""
    threads = WARP
    while threads > 2 and threads * skinny.lanes > skinny.depth:
        threads //= 2
    return threads


def _rows_of_a_group(skinny: SkinnyProduct, threads: int, target: Target) -> int:
    """How many rows a group of threads has: more share what they read beside the matrix, fewer leave no core idle."""
    inner, total = skinny.rows[-1], prod(sizes_of(skinny.rows))
    copies = MOST_ROWS if skinny.loads <= MANY_LOADS else 2
    while copies > 1 and (
        is_open(inner)
        or inner.size % copies
        or copies * skinny.count > MOST_BATCH
        or total // copies * threads < WARPS_A_CORE * WARP * target.cores
    ):
        copies //= 2
    return copies


def _prefetch(load: UOp, places: list[dict[UOp, UOp]], skinny: SkinnyProduct, first: UOp, target: Target) -> UOp:
    """The memory of a matrix after a prefetch of the beginning of a group's rows into the second cache, as much as it
    holds of all groups that run at once: before the kernel waits for those before it, which leave memory idle."""
    memory, position = load.src[:2]
    itemsize = memory.dtype.itemsize
    terms, last = linear_form(position)  # `last` is where a row ends, in the end
    row = {base: step for base, step in terms.items() if base in skinny.rows}
    for base in terms.keys() - row.keys():
        if base.op is not ops.RANGE or terms[base] < 0:
            return memory
        last += terms[base] * (size_of(base) - 1)
    if any(step * itemsize % 16 for step in row.values()):
        return memory
    share = PREFETCH_BYTES // (MOST_PREFETCH_WARPS * target.cores * len(places) * len(skinny.matrices))
    nbytes = min((last + 1) * itemsize, share) // 128 * 128
    if nbytes <= 0:
        return memory
    start = build_sum(row, 0, dtypes.weakint)
    asked = [replace_ranges(start, at, {}) for at in places]
    return memory.after(*(make(ops.PREFETCH, (memory, place, first), PrefetchArg(nbytes)) for place in asked))


def _steps(skinny: SkinnyProduct, copies: int) -> int:
    """How many vectors of each row a thread has on their way."""
    rows = copies * len(skinny.matrices)
    wanted = max(ON_THE_WAY // (copies * skinny.count), min(LEAST_ON_THE_WAY // rows, 2))
    return max(min(wanted, MOST_LOADS // (copies * skinny.loads)), 1)


def unravel(number: UOp, ranges: list[UOp], step: int) -> dict[UOp, UOp]:
    """Ranges as digits of a number, the last one the lowest; it counts in steps."""
    indices: dict[UOp, UOp] = {}
    for i, r in reversed(list(enumerate(ranges))):
        size = as_index(r.size) // (step if r is ranges[-1] else 1)
        indices[r] = number % size if i else number
        number = number // size
    return indices


def with_products(body: UOp, skinny: SkinnyProduct, thread: UOp, steps: int, of: Product) -> tuple[UOp, list[UOp]]:
    """The kernel with other values for its products, and the shared memory in which rows are that all threads of a
    block compute first. `of` is given a product with its new operands, and as it was; `steps` vectors are read at once
    for the reductions of those rows."""
    rows = _computed_rows(skinny)
    by_block = {node for node in topological(tuple(rows)) if node in skinny.along}
    known: list[UOp] = []

    def other_value(node: UOp, src: Sources) -> UOp | None:
        new = rebuilt(node, src)
        if node in rows:
            known.append(_filled(new, rows[node], thread, len(known)))
            return known[-1].index(rows[node])
        if node in by_block:
            memory, new = of_block(new, node, skinny, thread, steps, len(known))
            known.append(memory)
            return new
        return of(new, node) if node in skinny.along else new

    return map_graph(body, other_value), known


def _computed_rows(skinny: SkinnyProduct) -> dict[UOp, UOp]:
    """Operands of products that are the same for all rows of a matrix, and that need reductions, as norms do -> the
    range along which they are."""
    found: dict[UOp, UOp] = {}
    for reduce, along in skinny.along.items():
        value = reduce.src[0]
        for side in value.src if value.op is ops.MUL else ():
            while side.op is ops.CAST and side.src[0].dtype.itemsize < side.dtype.itemsize:
                side = side.src[0]
            is_reduced = any(node.op is ops.REDUCE for node in topological((side,)))
            if is_reduced and skinny.free[side] == {along} and size_of(along) * side.dtype.itemsize <= MOST_ROW_BYTES:
                found[side] = along
    return found


def of_block(new: UOp, old: UOp, skinny: SkinnyProduct, thread: UOp, steps: int, number: int) -> tuple[UOp, UOp]:
    """A reduction by all threads of a block: shared memory with what each warp has, and the result."""
    memory = _of_warps(_across(new, old, skinny, thread, size_of(thread), steps), thread, number)
    warp = UOp.range(size_of(thread) // WARP, number, RangeKind.REDUCE, Owner.TEAM)
    return memory, memory.index(warp).reduce(new.arg.op, ranges=(warp,))


def _of_warps(value: UOp, thread: UOp, number: int) -> UOp:
    """What each warp of a block has, in shared memory."""
    shared = UOp.buffer(SHARED_ID + number, value.dtype, (size_of(thread) // WARP,), memory=Memory.SHARED)
    fill = shared.store(value, thread // WARP, gate=(thread % WARP).eq(0))
    return shared.after(make(ops.STAGE, (UOp.group(fill),), StageArg(Memory.SHARED)))


def _filled(value: UOp, along: UOp, thread: UOp, number: int) -> UOp:
    """A row in shared memory, of which each thread of a block has computed some vectors."""
    size, lanes, threads = size_of(along), 16 // value.dtype.itemsize, size_of(thread)
    while size % lanes:
        lanes //= 2
    shared = UOp.buffer(SHARED_ID + number, value.dtype, (size,), memory=Memory.SHARED)
    fills = []
    for start in range(0, size, threads * lanes):
        vector = thread + start // lanes
        if start + threads * lanes > size:  # some of them more than once
            vector = vector.minimum(as_index(size // lanes - 1))
        at = vector * lanes + lane_numbers(lanes)
        fills.append(shared.store(replace_ranges(value, {along: at}, {}), at))
    return shared.after(make(ops.STAGE, (UOp.group(*fills),), StageArg(Memory.SHARED)))


def _across(node: UOp, old: UOp, skinny: SkinnyProduct, thread: UOp, threads: int, steps: int) -> UOp:
    """A reduction by a group of threads: first over a strided loop of each thread, whose steps are vectors of
    neighbours, or blocks if it has blocks; then over the lanes of the vectors, then across the threads."""
    value, *ranges = node.src
    op, lanes, lane = node.arg.op, skinny.lanes, thread % threads
    along, block = skinny.along[old], skinny.blocks.get(old)
    vectors = size_of(along) // lanes
    beside = 1 if block is None else min(vectors, threads)  # threads that have a block together, a vector each
    strided, count = (along, vectors) if block is None else (block, size_of(block))
    parts, part = threads // beside, lane // beside
    rounds, steps = strided_loop(as_index(count), parts, part, steps)
    loop = UOp.range(rounds, skinny.shared.index(strided), strided.arg.kind, Owner.PART)
    values = []
    for step in range(steps):
        number = (loop * steps + step) * parts + part  # of a block, or of a vector
        vector = number if block is None else lane % beside
        at = {strided: number, along: vector * lanes + lane_numbers(lanes)}
        found = replace_ranges(value, at, {})
        values.append(found if found.shape else UOp.stack(*([found] * lanes)))
    every = functools.reduce(lambda a, b: make(op, (a, b)), _all_scaled_once(values) if op is ops.ADD else values)
    others = [r for r in ranges if r not in (along, block)]
    total = every.reduce(op, ranges=(*others, loop))
    total = total.reduce(op, axes=(0,)) if total.shape else total
    return make(ops.ACROSS, (total, thread), AcrossArg(op, min(threads, WARP)))


def _all_scaled_once(values: list[UOp]) -> list[UOp]:
    """Each as `scaled_once`, if that is possible for all of them."""
    scaled = [scaled_once(value) for value in values]
    found = [value for value in scaled if value is not None]
    return found if len(found) == len(values) else values


def _stored(store: UOp, lane: UOp, inside: UOp | None, known: list[UOp]) -> UOp:
    """A store by the first thread of a group, of one that there is; all threads fill shared memory."""
    first = lane.eq(0)
    gate = first if inside is None else first & inside
    if inside is not None:
        store = gated(store, inside, *known)
    target, value, position, *given = store.src
    return target.store(value, position, combine=store.arg.combine, gate=narrowed(gate, given))
