"""Products of few rows with packed weights on a GPU: bytes of rows through shared memory, x in registers.

    y[n] = sum over b, j of x[b*32 + j] * w[n, b, j]      blocks b of 18 bytes, 128 in a row

    ->  x[..]                                             a thread has the same 32 numbers for every row
        shared <- the bytes of the first four rows        16 at a time: blocks need not begin at multiples of 16
        for each four rows:
            the other half of shared <- the next four     while these are multiplied
            part[row, thread] = sum of x[..] * w[row, ..] of each thread
            all threads wait
            y[n] = sum over threads of part[row, thread]  a warp for a row

Kernels whose threads read packed rows where they are (`gemv.rows`) are bound by loads: of two bytes, and of numbers of
x for each few rows. Goes in: a kernel of products whose matrices are bytes, of which it says where numbers and scales
are. A small matrix is read at once. Sums are in an order that depends on sizes alone.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import reduce
from itertools import product
from math import prod
from operator import add

from whit.codegen.gpu.gemv.rows import (
    WARP,
    SkinnyProduct,
    find_skinny,
    of_block,
    unravel,
    with_products,
)
from whit.codegen.gpu.gemv.scaled_once import scaled_once
from whit.codegen.gpu.thread_index import block_range, narrowed, thread_range
from whit.codegen.passes.lanes import lane_numbers
from whit.codegen.passes.split_blocks import split_blocks, write_out_blocks
from whit.dtype import dtypes
from whit.ir import ops
from whit.ir.args import AcrossArg, Memory, PrefetchArg, StageArg
from whit.ir.graph import joined, topological
from whit.ir.nesting import Owner
from whit.ir.uop import UOp, as_index, make
from whit.kernel.ranges import in_order, replace_ranges, size_of, sizes_of
from whit.simplify.sums import build_sum, linear_form
from whit.target import GPU_LIMITS, Target

BYTES_ID, SUMS_ID, OTHERS = 21_000, 22_000, 100  # of buffers in shared memory
HELD_NUMBERS, MOST_HELD_NUMBERS = 32, 64  # of x that a thread has in registers; the most of several rows
# How many of them are neighbours; fewer where the scale of a block takes few loads, and how many those are.
LANES, FEW_LANES, FEW_LOADS = 8, 4, 8
LEAST_THREADS, MOST_THREADS = 64, GPU_LIMITS.block_threads
MOST_ROWS = 4  # at a time
BLOCKS_A_CORE = 3  # that there should be
# Threads of a multiprocessor that leave each enough of its 65536 registers: 73 for one row of x, 128 for several.
MOST_RESIDENT_THREADS, FEW_RESIDENT_THREADS = 896, 512
FEW_HELD = 40  # numbers of x in the registers of a thread up to which there are the most
SPARE_BYTES = 2 << 10  # bytes of shared memory that a block has for other sums
VECTOR_BYTES = GPU_LIMITS.access_bytes
ZERO = as_index(0)


@dataclass(frozen=True, slots=True)
class PackedRows:
    """How the threads of a block share rows."""

    skinny: SkinnyProduct
    rows: int  # of a block
    lanes: int  # neighbours that a thread reads at once
    thread: UOp
    first: dict[UOp, UOp]  # ranges of the first row of a block
    indices: dict[UOp, UOp]  # and of the first row at a time
    following: tuple[dict[UOp, UOp], UOp] | None = None  # and of the next one, if there is one
    half: UOp = ZERO  # of shared memory, in which rows and sums of this time are

    @property
    def threads(self) -> int:
        return size_of(self.thread)

    @property
    def results(self) -> int:
        """Sums of a block."""
        return self.rows * prod(map(size_of, self.skinny.batch))


def tile_gemv_packed(body: UOp, target: Target) -> tuple[UOp, str] | None:
    """The kernel with blocks of threads for each few rows of packed weights and why, if it is such a product."""
    if not any(node.op is ops.PARAM and node.dtype is dtypes.uint8 for node in topological((body,))):
        return None
    if not target.has_async_copies:
        return None  # nothing is copied while others are multiplied
    body = write_out_blocks(split_blocks(body))
    skinny = find_skinny(body, target)
    if skinny is None or not _is_of_bytes(skinny):
        return None
    nbytes = _bytes_of_rows(skinny)
    lanes, threads = _share(skinny)
    if nbytes is None or not LEAST_THREADS <= threads <= MOST_THREADS:
        return None
    shape = _rows(skinny, nbytes, threads, skinny.count, target)
    if shape is None:
        return None
    rows, rounds = shape
    thread = thread_range(threads)
    groups = prod(sizes_of(skinny.rows)) // rows
    blocks = -(-groups // rounds)
    block = block_range(blocks)
    first = _first_row(block, skinny, rows)
    packed = PackedRows(skinny, rows, lanes, thread, first, first)
    if rounds > 1:
        left = (groups - 1 - block) // blocks + 1 if groups % blocks else as_index(rounds)
        number = UOp.range(left, 0, owner=Owner.ROUND)
        here, there = number * blocks + block, (number + 1) * blocks + block
        following = _first_row(there, skinny, rows), there < groups
        packed = PackedRows(skinny, rows, lanes, thread, first, _first_row(here, skinny, rows), following, number % 2)
    reason = f"{blocks} blocks of {threads} threads, {rows} x {skinny.count} products of packed rows at a time"
    return _stores(body, packed), reason


def _is_of_bytes(skinny: SkinnyProduct) -> bool:
    """Whether all matrices are bytes, and their products are added."""
    return all(load.dtype is dtypes.uint8 for load in skinny.matrices) and all(
        x.arg.op is ops.ADD for x in skinny.matrix
    )


def _first_row(number: UOp, skinny: SkinnyProduct, rows: int) -> dict[UOp, UOp]:
    """Ranges for the first row of a group of them."""
    indices = unravel(number, skinny.rows, rows)
    return {**indices, skinny.rows[-1]: indices[skinny.rows[-1]] * rows}


def _share(skinny: SkinnyProduct) -> tuple[int, int]:
    """How many neighbours of each part of a block a thread has, and how many threads share a row."""
    batch = prod(sizes_of(skinny.batch))
    parts = max(len(joined(each.src[0], ops.ADD)) for each in skinny.matrix) * batch
    lanes = FEW_LANES if skinny.loads <= FEW_LOADS else LANES
    while lanes > 1 and (
        any(size_of(skinny.along[each]) % lanes for each in skinny.matrix) or lanes * parts > MOST_HELD_NUMBERS
    ):
        lanes //= 2
    vectors = max(prod(map(size_of, each.src[1:])) // lanes for each in skinny.matrix)
    numbers = HELD_NUMBERS if batch == 1 else MOST_HELD_NUMBERS
    share = -(-vectors // max(numbers // (lanes * parts), 1))
    return lanes, -(-share // WARP) * WARP


def _rows(skinny: SkinnyProduct, size: int, threads: int, sums: int, target: Target) -> tuple[int, int] | None:
    """How many rows, each of `size` bytes in all matrices, a block has at a time, and how often: once, if all blocks
    have room."""
    total, inner = prod(sizes_of(skinny.rows)), skinny.rows[-1]
    if not all(isinstance(r.size, int) for r in skinny.rows):
        return None
    is_many = prod(sizes_of(skinny.batch)) > 1
    resident = max((FEW_RESIDENT_THREADS if is_many else MOST_RESIDENT_THREADS) // threads, 1)
    room = target.shared_bytes // resident - SPARE_BYTES
    rows = MOST_ROWS
    while rows:
        groups, nbytes = total // rows, rows * (size + 4 * threads * sums)
        fits = size_of(inner) % rows == 0 and all(rows * step % VECTOR_BYTES == 0 for step in _steps(skinny))
        if fits and (groups >= BLOCKS_A_CORE * target.cores or rows == 1):
            if nbytes <= room and groups <= resident * target.cores * 5 // 4:
                return rows, 1
            if 2 * nbytes <= room:
                return rows, -(-groups // (resident * target.cores))
        rows //= 2
    return None


def _bytes_of_rows(skinny: SkinnyProduct) -> int | None:
    """The bytes of one row of all matrices; None if those of one are not known."""
    sizes = [_row_bytes(product, skinny) for product in skinny.matrix]
    known = [size for size in sizes if size is not None]
    return sum(known) if len(known) == len(sizes) else None


def _row_bytes(product: UOp, skinny: SkinnyProduct) -> int | None:
    """The bytes from one row of a matrix to the next, if those are all that is read of a row."""
    memory, position = skinny.matrix[product].src[:2]
    inner, own = skinny.rows[-1], linear_form(position)[0]
    step, base = own.get(inner, 0), _base(product, skinny)
    if base % VECTOR_BYTES or any(own.get(r, 0) % VECTOR_BYTES for r in skinny.rows[:-1]):
        return None
    for load in _loads(product, memory):
        terms = linear_form(load.src[1])[0]
        last = _last_byte(load, product, skinny)
        if last is None or last - base >= step or any(terms.get(r, 0) != own.get(r, 0) for r in skinny.rows):
            return None
    return step


def _last_byte(load: UOp, product: UOp, skinny: SkinnyProduct) -> int | None:
    """The last byte of the first row that a load reads; None if it moves along other ranges, or has a gate."""
    position, *gates = load.src[1:]
    terms, last = linear_form(position)
    if position.shape or not all(gate.op is ops.CONST and gate.arg for gate in gates):
        return None
    for r, factor in terms.items():
        if r in product.src[1:] and factor >= 0:
            last += factor * (size_of(r) - 1)
        elif r not in skinny.rows:
            return None
    return last


def _base(product: UOp, skinny: SkinnyProduct) -> int:
    """Where the first row begins that is read of a matrix."""
    memory, position = skinny.matrix[product].src[:2]
    first = min(linear_form(load.src[1])[1] for load in _loads(product, memory))
    step = linear_form(position)[0].get(skinny.rows[-1], 0)
    return first // step * step if step > 0 else first


def _steps(skinny: SkinnyProduct) -> list[int]:
    """Bytes from row to row of each matrix."""
    return [linear_form(load.src[1])[0][skinny.rows[-1]] for load in skinny.matrices]


def _loads(root: UOp, memory: UOp) -> list[UOp]:
    return [node for node in topological((root,)) if node.op is ops.INDEX and node.src[0] is memory]


def _stores(body: UOp, packed: PackedRows) -> UOp:
    """What becomes of the sums: warps have rows in turn."""
    skinny, thread = packed.skinny, packed.thread
    sums: dict[UOp, UOp] = {}
    others: list[UOp] = []

    def staged(new: UOp, old: UOp) -> UOp:
        if old not in skinny.matrix:  # as of a norm of x
            others.append(old)
            return of_block(new, old, skinny, thread, 1, OTHERS + len(others))[1]
        sums[old] = _sums(new, old, packed, len(sums))
        return old

    shared, _ = with_products(body, skinny, thread, 1, staged)
    warps = packed.threads // WARP
    stores = []
    for first in range(0, packed.results, warps):
        number = thread // WARP + first
        inside = None if first + warps <= packed.results else number < packed.results
        if inside is not None:
            number = number.minimum(as_index(packed.results - 1))
        places = unravel(number, [skinny.rows[-1], *skinny.batch], 1)
        at = {**packed.indices, **places, skinny.rows[-1]: packed.indices[skinny.rows[-1]] + places[skinny.rows[-1]]}
        values: dict[UOp, UOp] = {}
        for old, memory in sums.items():
            half = packed.half * (packed.results * packed.threads)
            mine = lane_numbers(warps) if warps > 1 else ZERO
            part = memory.index(half + number * packed.threads + thread % WARP * warps + mine)
            total = part.reduce(ops.ADD, axes=(0,)) if part.shape else part
            values[old] = make(ops.ACROSS, (total, thread), AcrossArg(ops.ADD, WARP))
        gate = (thread % WARP).eq(0) if inside is None else (thread % WARP).eq(0) & inside
        for store in shared.src:
            memory, value, position, *given = replace_ranges(store, {**at, **values}, {}).src
            stores.append(memory.store(value, position, gate=narrowed(gate, given)))
    return UOp.group(*stores)


def _sums(new: UOp, old: UOp, packed: PackedRows, number: int) -> UOp:
    """What each thread has of each row, in shared memory."""
    skinny, thread = packed.skinny, packed.thread
    value, *ranges = new.src
    order = [*in_order(r for r in ranges if r is not skinny.along[old]), skinny.along[old]]
    vectors = prod(map(size_of, ranges)) // packed.lanes
    memory, inner, halves = skinny.matrix[old].src[0], skinny.rows[-1], 1 if packed.following is None else 2
    staged, size, fills = _staged(old, packed, number, halves)
    count = packed.results * packed.threads
    sums = UOp.buffer(SUMS_ID + number, new.dtype, (count * halves,), memory=Memory.SHARED)
    for i, places in enumerate(product(range(packed.rows), *(range(size_of(r)) for r in skinny.batch))):
        at = {r: as_index(place) for r, place in zip(skinny.batch, places[1:], strict=True)}
        start = _base(old, skinny) - places[0] * size
        reads = {load: _from(staged, load, start, size, packed) for load in _loads(value, memory)}
        rows = {**packed.indices, inner: packed.indices[inner] + places[0]}
        row = value.substitute(reads)
        parts = [_part(row, {**rows, **at}, order, first, packed) for first in range(0, vectors, packed.threads)]
        total = reduce(add, parts)
        fills.append(sums.store(total, packed.half * count + thread + i * packed.threads))
    return sums.after(make(ops.STAGE, (UOp.group(*fills),), StageArg(Memory.SHARED)))


def _part(row: UOp, at: dict[UOp, UOp], order: list[UOp], first: int, packed: PackedRows) -> UOp:
    """The sum of a thread's neighbours in a row: its vector is number `first` + thread; 0 past the last."""
    lanes, along = packed.lanes, order[-1]
    number, count = packed.thread + first, prod(map(size_of, order)) // lanes
    is_whole = first + packed.threads <= count
    mine = unravel(number if is_whole else number.minimum(as_index(count - 1)), order, lanes)
    if lanes > 1:
        mine[along] = mine[along] * lanes + lane_numbers(lanes)
    found = replace_ranges(row, {**at, **mine}, {})
    total = scaled_once(found) if found.shape else None
    if total is None:
        total = found.reduce(ops.ADD, axes=(0,)) if found.shape else found * lanes
    return total if is_whole else (number < count).where(total, 0.0)


def _staged(product: UOp, packed: PackedRows, number: int, halves: int) -> tuple[UOp, int, list[UOp]]:
    """The bytes of a block's rows in shared memory; how many a row has; the stores of those that come next."""
    skinny = packed.skinny
    memory, position = skinny.matrix[product].src[:2]
    row = {r: factor for r, factor in linear_form(position)[0].items() if r in skinny.rows}
    size = row[skinny.rows[-1]]
    nbytes = size * packed.rows
    start = build_sum(row, _base(product, skinny), dtypes.weakint)
    first = replace_ranges(start, packed.first, {})
    asked = memory.after(make(ops.PREFETCH, (memory, first, packed.thread.eq(0)), PrefetchArg(nbytes)))
    shared = UOp.buffer(BYTES_ID + number, dtypes.uint8, (nbytes * halves,), memory=Memory.SHARED)
    fills = _fills(shared, asked, first, nbytes, packed)
    filled = shared.after(make(ops.STAGE, (UOp.group(*fills),), StageArg(Memory.SHARED)))
    if packed.following is None:
        return filled, size, []
    at, gate = packed.following
    return filled, size, _fills(shared, memory, replace_ranges(start, at, {}), nbytes, packed, gate)


def _fills(shared: UOp, memory: UOp, start: UOp, nbytes: int, packed: PackedRows, gate: UOp | None = None) -> list[UOp]:
    """Stores of bytes of memory: into the first half of shared memory, or into the one that is not in use."""
    threads, found = packed.threads, []
    into = ZERO if gate is None else (1 - packed.half) * nbytes
    for done in range(0, nbytes // VECTOR_BYTES, threads):
        vector = packed.thread + done
        if done + threads > nbytes // VECTOR_BYTES:  # some of them more than once
            vector = vector.minimum(as_index(nbytes // VECTOR_BYTES - 1))
        place = vector * VECTOR_BYTES + lane_numbers(VECTOR_BYTES)
        value = memory.index(start + place, gate=gate)
        found.append(shared.store(value, into + place, gate=gate, asynchronous=True))
    return found


def _from(staged: UOp, load: UOp, start: int, size: int, packed: PackedRows) -> UOp:
    """A load of a row from shared memory, where byte `start` of the matrix is the first; rows have `size` bytes."""
    terms, offset = linear_form(load.src[1])
    inside = {base: factor for base, factor in terms.items() if base not in packed.skinny.rows}
    return staged.index(build_sum(inside, offset - start, dtypes.weakint) + packed.half * (size * packed.rows))
