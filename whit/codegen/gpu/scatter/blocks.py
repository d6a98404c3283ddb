"""Scatters whose order matters, by blocks that look for what is theirs.

    for i < n in order: p0[idx[i]*768 + c] += x[i, c]        over c < 768

    ->  block b has the rows of p0 whose number is b modulo 1021. Of each 3072 positions:
        a thread looks at 16 neighbours i, and counts those with idx[i]*768 % 1021 == b;
        what the threads before it have counted says where in a list, in shared memory, it puts them: in order;
        for each i of the list: p0[idx[i]*768 + c] += x[i, c], where a thread always has the same c; four are read at
        once, and the sum stays in a register as long as they go to one row

All blocks read all positions, which are few beside what is added, and come from the cache; the rest is read once. Where
rows are short, the threads of a block share them too, by row. Everything that is written to one place is written by one
thread, in the order that it had: results are the same bits, in every run and on every device.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from math import gcd, prod

from whit.codegen.gpu.gemm.staged import gated
from whit.codegen.gpu.reduce import GROUP, vector_positions
from whit.codegen.gpu.scatter.threads import PARTS, loads_of, row_of
from whit.codegen.gpu.thread_index import block_range, lanes_of, thread_range, unravel, width_of
from whit.codegen.math.expand import EXPAND_MATH_ON_GPU
from whit.codegen.passes.index_dtype import fits_in_32_bits, fix_index_dtype
from whit.codegen.passes.lanes import all_of, lane_numbers, without_each
from whit.codegen.passes.simplify_lanes import simplify_lanes
from whit.codegen.passes.vector_access import VECTOR_ACCESS
from whit.codegen.passes.writer import ProgramWriter, Variable
from whit.dtype import DType, dtypes
from whit.ir import ops
from whit.ir.atomic import is_atomic
from whit.ir.graph import topological
from whit.ir.nesting import Owner
from whit.ir.rewrite import rewrite
from whit.ir.uop import UOp, const, make
from whit.kernel.ranges import free_ranges, in_order, ordered_ranges, replace_ranges, size_of
from whit.simplify.sums import linear_form
from whit.target import GPU_LIMITS, Target

LANES = 16  # positions that a thread looks at
LEAST = 512  # positions that are worth a list
MOST_BLOCKS = 509
MOST_LOOKS = 1 << 28  # positions that all blocks together look at: a fifth of a millisecond
WARP, FEW_THREADS, MANY_THREADS = GPU_LIMITS.warp_threads, 128, 256
TOGETHER = 4  # rows that are read at once, a power of two: 16384 x 768 0.073 ms, with 8 0.076 (bench/gpu_memory.py)
MOST_KEPT = 4  # vectors that a thread keeps from one to the next of these
THERE = UOp.range(2, 0, owner=Owner.GUARD)  # stands for 1 where there is such a row
I32, U16 = dtypes.int32, dtypes.uint16


def write_scatter(body: UOp, target: Target) -> tuple[UOp, str] | None:
    """The program and why it is so; None if the kernel is no scatter in order, or one of few positions."""
    store, *others = body.src
    if others or is_atomic(store) or any(node.op in (ops.REDUCE, ops.SCAN) for node in topological((body,))):
        return None
    free = free_ranges(body)
    ordered = ordered_ranges(body, free)
    parallel = [r for r in in_order(free[body]) if r not in ordered]
    if len(ordered) != 1 or not all(isinstance(r.size, int) for r in free[body]):
        return None
    (along,) = ordered
    row = row_of(store.src[2], set(parallel))
    if size_of(along) < LEAST or not loads_of(row) or free_ranges(row)[row] != {along}:
        return None
    kernel = Scatter.of(without_each(store), row, along, parallel, target)  # which runs through all of `along`
    return kernel.write(), str(kernel)


@dataclass
class Scatter:
    """Writes the program."""

    store: UOp
    row: UOp
    along: UOp
    parallel: list[UOp]
    lanes: int  # of what is added
    blocks: int
    threads: int
    width: int  # threads of a row
    w: ProgramWriter = field(default_factory=ProgramWriter)

    @classmethod
    def of(cls, store: UOp, row: UOp, along: UOp, parallel: list[UOp], target: Target) -> Scatter:
        """With as many blocks as may look at all positions, and threads for a row, or for several."""
        free, count = free_ranges(store), size_of(along)
        lanes = 1
        if parallel and all(parallel[-1] not in free[gate] for gate in store.src[3:]):
            places = [store.src[2], *(load.src[1] for load in loads_of(store.src[1]))]
            lanes = lanes_of(parallel[-1], width_of(store, target, parallel[-1:], free), places, free)
        blocks = next((n for n in PARTS if n <= MOST_BLOCKS and n * count <= MOST_LOOKS), PARTS[-1])
        vectors = prod(size_of(r) for r in parallel) // lanes
        if vectors >= 2 * WARP:
            threads = min(max(-(-vectors // WARP) * WARP, FEW_THREADS), MANY_THREADS)
            return cls(store, row, along, parallel, lanes, blocks, threads, threads)
        width = 1 << max(vectors - 1, 0).bit_length()
        return cls(store, row, along, parallel, lanes, blocks, max(MANY_THREADS, width), width)

    def __str__(self) -> str:
        return f"{self.blocks} blocks of {self.threads} threads that list what they add, {self.width} for each row"

    @property
    def shares(self) -> int:
        """Parts of a block's rows, by its threads."""
        return self.threads // self.width

    @property
    def groups(self) -> int:
        return self.threads // GROUP

    @property
    def vectors(self) -> int:
        """Of a row."""
        return prod(size_of(r) for r in self.parallel) // self.lanes

    @property
    def unit(self) -> int:
        """All positions of vectors are multiples of it: of their length, where memory takes them whole."""
        terms, offset = linear_form(self.store.src[2])
        steps = [factor for base, factor in terms.items() if base not in self.parallel[-1:]]
        return self.lanes if gcd(self.lanes, offset, *steps) == self.lanes else 1

    @property
    def gates(self) -> list[UOp]:
        """Conditions that are the same for a whole row."""
        return [gate for gate in self.store.src[3:] if free_ranges(gate)[gate] <= {self.along}]

    @property
    def index(self) -> DType:
        return dtypes.int32 if fits_in_32_bits(UOp.group(self.store, self.row)) else dtypes.int64

    def write(self) -> UOp:
        """The program: loops over blocks, threads and pieces of the positions."""
        w, step = self.w, self.threads * LANES
        pieces = -(-size_of(self.along) // step)
        self.counts, self.sums = w.buffer(I32, self.threads), w.buffer(I32, self.groups)
        self.listed = w.buffer(U16, step)  # places in a piece
        self.keys = w.buffer(U16, step) if self.shares > 1 else None
        block, thread = block_range(self.blocks), thread_range(self.threads)
        piece = UOp.range(pieces, 0, owner=Owner.ROUND)
        loops = [fix_index_dtype(r, self.index) for r in (block, thread, piece)]
        adds = [self._add(thread, copy) for copy in range(-(-self.vectors // self.width))]
        with w.walk(loops[0]), w.walk(loops[1]) as me:
            kept = [self._nothing(store) if len(adds) <= MOST_KEPT else None for store in adds]
            with w.walk(loops[2]) as at:
                first = w.value(at * step)
                count = self._list(me, *self._lowered(*self._mine(block, thread, piece, step)))
                if self.keys is None:
                    with w.loop((count + (TOGETHER - 1)) >> (TOGETHER.bit_length() - 1)) as group:
                        listed = [w.value(group * TOGETHER + i) for i in range(TOGETHER)]
                        for store, row in zip(adds, kept, strict=True):
                            self._add_rows(store, row, [self._row(store, first, m, count) for m in listed])
                else:
                    with w.loop(count) as m, w.when(w.load(self.keys, m).eq((me // self.width).cast(U16))):
                        for store, row in zip(adds, kept, strict=True):
                            self._add_rows(store, row, [self._row(store, first, m)])
            for store, row in zip(adds, kept, strict=True):
                if row is not None:
                    row.put(w, store.src[0])
        params = sorted({node for node in topological((self.store,)) if node.op is ops.PARAM}, key=lambda p: p.arg.slot)
        return w.linear(params)

    def _lowered(self, *roots: UOp) -> list[UOp]:
        """Expressions, or stores, of the kernel as those of a program."""
        group = rewrite(simplify_lanes(UOp.group(*roots)), VECTOR_ACCESS, once=True)
        found = rewrite(fix_index_dtype(simplify_lanes(group), self.index), EXPAND_MATH_ON_GPU).src
        return [_as_wide(new, old) for new, old in zip(found, roots, strict=True)]

    # ---- what is listed

    def _mine(self, block: UOp, thread: UOp, piece: UOp, step: int) -> tuple[UOp, UOp, UOp]:
        """Which of the positions of a thread are this block's, whose of its threads, and what they are."""
        along, size = self.along, size_of(self.along)
        first, lanes = thread * LANES, lane_numbers(LANES)
        place = piece * step + first + lanes
        inside = None
        if size % step:  # one condition where lanes are all inside, or none is
            inside = place < size if size % LANES else UOp.stack(*([piece * step + first < size] * LANES))
        row, *gates = (replace_ranges(part, {along: place}, {}) for part in (self.row, *self.gates))
        if inside is not None:
            row, *gates = (gated(part, inside) for part in (row, *gates))
        number = row.cast(dtypes.uint32)  # remainders of 64 bits take long
        mine = (number % self.blocks).eq(block.cast(dtypes.uint32))
        is_mine = all_of(mine, inside, *gates)
        assert is_mine is not None, "one condition at least was given"
        return is_mine, (number // self.blocks % self.shares).cast(U16), (first + lanes).cast(U16)

    def _list(self, me: UOp, mine: UOp, key: UOp, place: UOp) -> UOp:
        """Puts them where those of the threads before end; how many there are."""
        w = self.w
        mine, key, place = (w.value(part) for part in (mine, key, place))
        ones = w.value(mine.where(const(I32, 1), const(I32, 0)))
        w.store(self.counts, w.value(ones.reduce(ops.ADD, axes=(0,))), me)
        self._wait(self.counts)
        near, group = self._before(self.counts, me // GROUP * GROUP, GROUP, me % GROUP)
        w.store(self.sums, group, w.value(me // GROUP), gate=w.value((me % GROUP).eq(0)))
        self._wait(self.sums)
        far, every = self._before(self.sums, const(self.index, 0), self.groups, me // GROUP)
        at = w.value(far + near)
        for lane in range(LANES):
            is_mine = w.value(mine.index(lane))
            w.store(self.listed, w.value(place.index(lane)), w.value(at.cast(self.index)), gate=is_mine)
            if self.keys is not None:
                w.store(self.keys, w.value(key.index(lane)), w.value(at.cast(self.index)), gate=is_mine)
            at = w.value(at + ones.index(lane))
        self._wait(self.listed, *([] if self.keys is None else [self.keys]))
        return w.value(every.cast(self.index))

    def _wait(self, *memories: UOp) -> None:
        """All threads wait for what others have put there."""
        last = tuple(self.w.last_store[memory] for memory in memories)
        self.w.effect(make(ops.BARRIER, last), *memories)

    def _before(self, memory: UOp, start: UOp, count: int, mine: UOp) -> tuple[UOp, UOp]:
        """The sum of the numbers before mine, and of all."""
        w = self.w
        values = w.load(memory, w.value(start), count)
        numbers = UOp.stack(*(const(self.index, i) for i in range(count)))
        before = (numbers < mine).where(values, const(I32, 0)).reduce(ops.ADD, axes=(0,))
        return w.value(before), w.value(values.reduce(ops.ADD, axes=(0,)))

    # ---- what is added

    def _add(self, thread: UOp, copy: int) -> UOp:
        """The store of one vector of a thread, at a position that is yet to come."""
        number = thread % self.width + copy * self.width if self.shares > 1 else thread + copy * self.width
        values = unravel(number, self.parallel, dict.fromkeys(self.parallel[-1:], self.lanes))
        values.update({r: vector_positions(values[r], self.lanes) for r in self.parallel[-1:]})
        new = replace_ranges(self.store, values, {})
        there = THERE.ne(0) if self.keys is None else None
        gate = all_of(there, number < self.vectors if self.vectors % self.width else None)
        (store,) = self._lowered(new if gate is None else gated(new, gate))
        return store

    def _nothing(self, store: UOp) -> BlockList:
        zero = const(store.src[0].dtype, 0)
        value = UOp.stack(*([zero] * self.lanes)) if self.lanes > 1 else zero
        return BlockList(self.w.variable(value), self.w.variable(const(self.index, -1)), self.unit)

    def _row(self, store: UOp, first: UOp, m: UOp, count: UOp | None = None) -> list[UOp]:
        """Value, position and gate of the store at a place of the list, of which those beyond its end are left out."""
        w = self.w
        is_there = None if count is None else m < count
        known = {self.along: w.load(self.listed, m, gate=is_there).cast(self.index) + first}
        if is_there is not None:
            known[THERE] = is_there.cast(self.index)
        values = {fix_index_dtype(r, self.index): w.value(value) for r, value in known.items()}
        new, place, *gate = (w.value(source.substitute(values)) for source in store.src[1:])
        return [new, place, *(w.value(g.index(0)) if g.shape else g for g in gate)]  # the same for all lanes

    def _add_rows(self, store: UOp, kept: BlockList | None, rows: list[list[UOp]]) -> None:
        """Combines rows with the one that is kept; where another place begins that is stored, and the next one kept."""
        w, target, combine = self.w, store.src[0], store.arg.combine
        row = self._nothing(store) if kept is None else kept
        for new, place, *gate in rows:
            value, last = row.value.get(), row.number.get()
            number = w.value(place >> (row.unit.bit_length() - 1))
            is_new = all_of(number.ne(last), *gate)
            assert is_new is not None, "one condition at least was given"
            row.put(w, target, w.value(is_new))
            if combine is not None:
                old = w.load(target, place, self.lanes, gate=is_new)
                new = make(combine, (is_new.where(old, value), new))
            is_here = all_of(*gate)
            row.value.set(w.value(_as_wide(new, value) if is_here is None else is_here.where(new, value)))
            row.number.set(w.value(is_new.where(number, last)))
        if kept is None:
            row.put(w, target)


@dataclass(frozen=True, slots=True)
class BlockList:
    """What a thread has in registers of a row, and where that belongs: the position, in units; -1 if it has none."""

    value: Variable
    number: Variable
    unit: int

    def put(self, w: ProgramWriter, target: UOp, gate: UOp | None = None) -> None:
        """Stores it."""
        number = self.number.get()
        w.store(target, self.value.get(), number * self.unit, gate=all_of(number >= 0, gate))


def _as_wide(value: UOp, before: UOp) -> UOp:
    return value if value.shape or not before.shape else UOp.stack(*([value] * before.shape[0]))
