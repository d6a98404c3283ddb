"""Scans shared between the threads of a block.

    scan add over k < n of x[k]      ->      k = piece*8192 + copy*1024 + thread*4 + lane: each thread scans 4
    256 threads, one row, 8 copies           neighbours in registers, eight times; 32 threads exchange what is before
                                             them; the sums of these are kept in shared memory; all threads wait;
                                             what came before: in pieces, in copies, in groups of 32, in threads of one

    scan add over k of x[k, c]       ->      k = piece*128 + thread // 32 * 8 + lane // 2,
    512 threads, 64 columns                  c = block*64 + thread % 32 * 2 + lane % 2;
                                             what came before: in pieces, in the 16 threads of the column

    scan add over k < 8191 of x[k]   ->      k = piece*4096 + lane*256 + thread: where neighbours are no vectors,
    256 threads                              threads read side by side, and exchange neighbours in shared memory

All copies are read before anything is added, so that many loads are on their way. Values past the end of a row come
last, so what they hold reaches nobody. Shared memory has two halves, one for every other piece: who writes a half again
has waited for those who read it. The order is always the same, so sums are too.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from math import prod

from whit.codegen.gpu.reduce import COMBINES, WARP, ThreadGroup
from whit.codegen.gpu.thread_index import Copy, Free, lanes_of, narrowed, places_along, width_of
from whit.codegen.passes.lanes import lane_numbers
from whit.dtype import dtypes
from whit.ir import ops
from whit.ir.args import AcrossArg, Memory, StageArg
from whit.ir.graph import topological
from whit.ir.map_graph import rebuilt
from whit.ir.nesting import Owner
from whit.ir.op import Op
from whit.ir.uop import UOp, as_index, const, make
from whit.kernel.ranges import is_open, size_of
from whit.target import Target

LANES = 4  # neighbours that a thread scans by itself where they are no vectors
COPIES, MOST_COPIES = 4, 8  # of these in a thread: with fewer threads than a block may have, and at most
COLUMNS, PARTS = 32, 8  # threads side by side, and those that share a column, for each column of a thread
BYTES_OF_COLUMNS = 64  # of a thread, twice: those of the next piece are read ahead (`register_prefetch`)
THREADS, FEWEST = 256, WARP  # of a block for a row
MOST_SCANS = 8  # of a kernel
# elements of a row that is turned in shared memory, bytes of a thread
LEAST_TRANSPOSED_ELEMENTS, TRANSPOSED_BYTES = 1024, 64
BEFORE_ID, AFTER_ID = MOST_SCANS, MOST_SCANS + 1  # of shared memory


@dataclass(frozen=True, slots=True)
class Shares:
    """The threads of a block, and what each has of a piece."""

    threads: int
    lanes: int  # elements of a vector
    copies: int = 1  # vectors
    apart: int = 1  # elements from one lane to the next in memory
    wide: int = 1  # columns side by side

    @property
    def is_turned(self) -> bool:
        """Whether elements are read side by side by the threads, and then exchanged."""
        return self.apart > 1

    @property
    def numbers(self) -> UOp:
        """How far each lane of a thread is from its first element."""
        if self.wide > 1:  # columns are the lower digit of a lane
            return UOp.stack(*(as_index(lane // self.wide) for lane in range(self.lanes * self.wide)))
        return lane_numbers(self.lanes) * self.apart if self.is_turned else lane_numbers(self.lanes)


def shares_of_a_scan(body: UOp, target: Target, free: Free, along: UOp, rows: list[UOp], columns: int) -> Shares:
    """For as many threads side by side as `columns`, each with one column of all `rows`, or two; for a row, if one."""
    scans = [node for node in free if node.op is ops.SCAN]
    if columns == 1:
        width = width_of(body, target, (along,), free)
        return _shares_of_a_row(size_of(along), lanes_of(along, width, places_along(along, free), free), scans)
    itemsize = target.vector_bytes // width_of(body, target, rows[-1:], free)
    blocks = prod(size_of(r) for r in rows) // (2 * columns)
    is_many = 4 * blocks >= 3 * target.cores  # half of the blocks fill the chip
    accesses = [node for node in free if node.op in (ops.INDEX, ops.STORE) and rows[-1] in free[node]]
    is_plain = len(scans) == 1 and itemsize <= 4 and all(along in free[node] for node in (*accesses, *body.src))
    is_plain = is_plain and all(rows[-1] in free[store] for store in body.src)
    wide = lanes_of(rows[-1], 2, places_along(rows[-1], free), free) if is_many and is_plain else 1
    return Shares(PARTS * wide * columns, max(BYTES_OF_COLUMNS // (itemsize * wide), LANES), wide=wide)


def _shares_of_a_row(size: int, lanes: int, scans: list[UOp]) -> Shares:
    """For a row of `size` elements, of which `lanes` are one access."""
    nbytes = sum(node.dtype.itemsize for node in scans)
    if lanes == 1 and size >= LEAST_TRANSPOSED_ELEMENTS and nbytes <= 8:
        transposed = TRANSPOSED_BYTES // max(nbytes, 4)
        threads = THREADS if size > THREADS // 2 * transposed else THREADS // 2
        return Shares(threads, transposed, apart=threads)
    lanes = lanes if lanes > 1 else LANES
    threads = FEWEST
    while threads < THREADS and threads * lanes * COPIES < size:
        threads *= 2
    most = MOST_COPIES if all(node.arg.op in COMBINES for node in scans) else 1  # others are long when written out
    return Shares(threads, lanes, min(-(-size // (threads * lanes)), most))


def share_scans(
    body: UOp, along: UOp, group: ThreadGroup, shares: Shares, indices: Mapping[UOp, UOp], inside: UOp | None
) -> list[list[UOp]]:
    """What becomes of each store if threads share the scanned range, and the other ranges are digits; accesses are
    `inside`."""
    piece = _piece(along, group.parts * shares.lanes * shares.copies)
    copies = _copies(along, group, shares, piece, indices, inside)
    count = 0
    for node in topological((body,)):
        if node.op is ops.SCAN:
            vectors = [_as_wide(copy.values[node.src[0]], shares.lanes * shares.wide) for copy in copies]
            for copy, vector in zip(copies, _scanned(vectors, node, group, shares, piece, count), strict=True):
                copy.values[node] = vector
            count += 1
        elif node.op is not ops.GROUP and node not in copies[0].values:
            for copy in copies:
                copy.values[node] = _in_copy(node, copy, inside)
    return [list(dict.fromkeys(copy.values[store] for copy in copies)) for store in body.src]


def _piece(along: UOp, step: int) -> UOp:
    """Which piece of `step` elements a block is at: a loop, or 0 if there is only one."""
    size = as_index(along.size)
    pieces = (size + (step - 1)) // step if is_open(along) else as_index(-(-size.arg // step))
    is_one = pieces.op is ops.CONST and pieces.arg == 1
    return as_index(0) if is_one else UOp.range(pieces, 0, along.arg.kind, Owner.STEP)


def _copies(
    along: UOp, group: ThreadGroup, shares: Shares, piece: UOp, indices: Mapping[UOp, UOp], inside: UOp | None
) -> list[Copy]:
    """The vectors of a thread in a piece."""
    each, is_one, numbers = group.parts * shares.lanes, piece.op is ops.CONST, shares.numbers
    copies = []
    for copy in range(shares.copies):
        start = piece * (each * shares.copies) + copy * each
        first = start + group.part * (1 if shares.is_turned else shares.lanes)
        end = each * (copy + 1 if is_one else shares.copies)
        gate = _inside(first, as_index(along.size), end, is_one, numbers, shares.lanes, inside)
        copies.append(Copy({**indices, along: first + numbers}, gate))
    return copies


def _in_copy(node: UOp, copy: Copy, inside: UOp | None) -> UOp:
    """A node for the elements of a copy; accesses along the row are inside of it, all of them are `inside`."""
    src = copy.sources(node)
    if node.op is ops.STORE:
        return _gated(node, src, copy.gate if src[2].shape else inside)
    if node.op is ops.INDEX and src[0].op is ops.PARAM:
        return _gated(node, src, copy.gate if src[1].shape else inside)
    return rebuilt(node, src)


def _transposed(vector: UOp, group: ThreadGroup, id: int, is_back: bool) -> UOp:
    """Elements that are as far apart as there are threads -> neighbours, or back, through shared memory: 32 elements
    are followed by a gap, so that threads read other banks."""
    lanes, threads = vector.shape[0], group.threads
    memory = UOp.buffer(id, vector.dtype, (lanes * (threads + threads // WARP),), memory=Memory.SHARED)
    apart = group.thread + group.thread // WARP + lane_numbers(lanes) * (threads + threads // WARP)
    beside = group.thread * lanes + group.thread // (WARP // lanes) + lane_numbers(lanes)
    fill = memory.store(vector, beside if is_back else apart)
    kept = memory.after(make(ops.STAGE, (UOp.group(fill),), StageArg(Memory.SHARED)))
    return kept.index(apart if is_back else beside)


def _inside(first: UOp, size: UOp, end: int, is_one: bool, numbers: UOp, lanes: int, inside: UOp | None) -> UOp | None:
    """Where the lanes of a thread are elements: one condition if they are all or none."""
    width, is_beside = numbers.shape[0], numbers.op is ops.STACK
    within: UOp | None = None
    is_known = size.op is ops.CONST
    if is_known and (end <= size.arg if is_one else size.arg % end == 0):
        within = None
    elif is_known and size.arg % lanes == 0 and is_beside:
        within = _as_wide(first < size, width)
    else:
        within = numbers < (size - first)
    if inside is None or within is None:
        return within if inside is None else _as_wide(inside, width)
    return within & inside


def _gated(node: UOp, src: tuple[UOp, ...], gate: UOp | None) -> UOp:
    """An access under one more condition."""
    if gate is None:
        return make(node.op, src, node.arg)
    if node.op is ops.INDEX:
        memory, position, *given = src
        return memory.index(position, gate=narrowed(gate, given))
    memory, value, position, *given = src
    return memory.store(value, position, combine=node.arg.combine, gate=narrowed(gate, given))


def _as_wide(value: UOp, lanes: int) -> UOp:
    return value if value.shape else UOp.stack(*([value] * lanes))


def _scanned(vectors: list[UOp], node: UOp, group: ThreadGroup, shares: Shares, piece: UOp, id: int) -> list[UOp]:
    """The scans of what a thread has, after what came before."""
    if not shares.is_turned:
        return _after_all(vectors, node, group, piece, shares.wide, id)
    (vector,) = vectors
    found = _after_all([_transposed(vector, group, BEFORE_ID, is_back=False)], node, group, piece, shares.wide, id)
    return [_transposed(found[0], group, AFTER_ID, is_back=True)]


def _after_all(vectors: list[UOp], node: UOp, group: ThreadGroup, piece: UOp, wide: int, id: int) -> list[UOp]:
    """The scans of vectors of neighbours: what came before, and their own."""
    op, dtype = node.arg.op, node.dtype
    sums = [_sums(vector, op, wide) for vector in vectors]
    befores, every = _shared([last for each in sums for last in each[-wide:]], op, group, piece, wide, id)
    starts = [const(dtype, op.identity(dtype))] * wide
    if piece.op is ops.RANGE:
        starts = [total.scan(op, range=piece, exclusive=True) for total in every]
    found = []
    for copy, parts in enumerate(sums):
        before = [make(op, pair) for pair in zip(starts, befores[copy * wide :], strict=False)]
        if node.arg.exclusive:
            later = [make(op, (before[lane % wide], part)) for lane, part in enumerate(parts[:-wide])]
            found.append(UOp.stack(*before, *later))
        else:
            first = before[0] if wide == 1 else UOp.stack(*(before[lane % wide] for lane in range(len(parts))))
            found.append(make(op, (first, UOp.stack(*parts))))
    return found


def _sums(vector: UOp, op: Op, wide: int = 1) -> list[UOp]:
    """The scan of a vector, or of as many as `wide` that take turns in it."""
    sums = [vector.index(lane) for lane in range(wide)]
    for lane in range(wide, vector.shape[0]):
        sums.append(make(op, (sums[lane - wide], vector.index(lane))))
    return sums


def _shared(
    values: list[UOp], op: Op, group: ThreadGroup, piece: UOp, wide: int, id: int
) -> tuple[list[UOp], list[UOp]]:
    """What comes before each of the values of this thread, and all of them combined, for each of its columns."""
    dtype = values[0].dtype
    if dtype.is_float and dtype.bitsize < 32:
        values = [value.cast(dtypes.float32) for value in values]
    near, mine = [], group.part  # whose of the values that are kept
    if group.columns == 1:
        near = [_before(value, op, group.thread) for value in values]
        values = [make(op, pair) for pair in zip(near, values, strict=True)]  # of the last of 32: what all of them have
        mine = group.thread // WARP
    count = group.threads // WARP if group.columns == 1 else group.threads
    kept, half = _kept(values, count, group, piece, id)
    befores: list[UOp] = []
    every: list[UOp] = []  # so far
    for copy in range(len(values)):
        start = half * (len(values) * count) + copy * count
        if group.columns > 1:
            start = start + group.column
        numbers = lane_numbers(count // group.columns)
        found = kept.index(start + numbers * group.columns)
        identity = const(found.dtype, op.identity(found.dtype))  # type: ignore[misc]
        before = _combined((numbers < mine).where(found, identity), op)
        before = make(op, (before, near[copy])) if near else before
        total = _combined(found, op)
        if copy >= wide:
            earlier = every.pop(0)
            before, total = make(op, (earlier, before)), make(op, (earlier, total))
        befores.append(before.cast(dtype))
        every.append(total)
    return befores, [total.cast(dtype) for total in every]


def _combined(vector: UOp, op: Op) -> UOp:
    """All lanes of a vector; by an op that is no instruction, one after the other."""
    return vector.reduce(op, axes=(0,)) if op in COMBINES else _sums(vector, op)[-1]


def _before(value: UOp, op: Op, thread: UOp) -> UOp:
    """What the threads before this one have, of 32: with the one before, then with the two before these."""
    lane, step = thread % WARP, 1

    def taken(far: int) -> UOp:
        return make(ops.ACROSS, (value, thread), AcrossArg(None, WARP, far))

    while step < WARP:
        value = (lane >= step).where(make(op, (taken(step), value)), value)
        step *= 2
    return (lane >= 1).where(taken(1), const(value.dtype, op.identity(value.dtype)))  # type: ignore[misc]


def _kept(values: list[UOp], count: int, group: ThreadGroup, piece: UOp, id: int) -> tuple[UOp, UOp]:
    """Shared memory that holds `count` of each of the values, a double buffer for several pieces; and which half."""
    is_loop = piece.op is ops.RANGE
    half, halves = (piece % 2, 2) if is_loop else (as_index(0), 1)
    memory = UOp.buffer(id, values[0].dtype, (halves * len(values) * count,), memory=Memory.SHARED)
    place, gate = group.thread, None
    if group.columns == 1:
        place, gate = group.thread // WARP, (group.thread % WARP).eq(WARP - 1)
    start = half * (len(values) * count)
    fills = [memory.store(value, start + copy * count + place, gate=gate) for copy, value in enumerate(values)]
    return memory.after(make(ops.STAGE, (UOp.group(*fills),), StageArg(Memory.SHARED))), half
