"""Kernels that sort, as programs.

Goes in: a kernel whose stores are all of SORTs by the same keys, over flat positions. Comes out: a LINEAR. Rows are
independent and go to the cores; what happens to a row depends on the memory that the schedule has given
(`whit.schedule.rewrites.split_sort`):

    none, runs=m             two sorted runs are merged; each core makes a part of the result
    none                     counting: the place of an element is the number of those in front of it, for rows of up
                             to a few hundred; whole vectors are compared with one element
    (blocks, 2, n)           radix sort from the last digit, 8 bits at a time: all digits are counted while the records
                             are made, then each pass moves them from one half to the other, in the order of a digit;
                             a digit that is the same in all records costs nothing
    (blocks, 2, fewer)       selection: elements below a limit are collected; when there is no more room they are
                             sorted, the first `count` stay, and the last of these is the limit

The value that is stored for a place is the second source of the SORT, read at the position that belongs there.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from math import prod

from whit.codegen.cpu.sort_keys import Record, bits_dtype, from_bits, key_of, to_bits
from whit.codegen.math.expand import EXPAND_MATH
from whit.codegen.passes.index_dtype import fix_index_dtype
from whit.codegen.passes.simplify_lanes import simplify_lanes
from whit.codegen.passes.vector_access import VECTOR_ACCESS
from whit.codegen.passes.writer import ProgramWriter, Variable, index, lanes_from
from whit.dtype import dtypes
from whit.ir import ops
from whit.ir.args import RangeKind, SortArg
from whit.ir.graph import topological
from whit.ir.nesting import Owner
from whit.ir.rewrite import rewrite
from whit.ir.uop import UOp, const
from whit.kernel.ranges import free_ranges, in_order, replace_ranges
from whit.target import Target

DIGIT_BITS = 8
LONG_DIGIT_BITS = 11  # for long rows: three passes over 32 bits instead of four
LONG_ELEMENTS = 1 << 14
COUNTED_CANDIDATES = 256  # up to which counting is faster than a radix sort; places fit the smallest key, a byte
MERGE_PARTS = 32  # parts of a merged row, for the cores
WORTH_THREADS_ELEMENTS = 1 << 12  # elements below which one core is faster than waking another


def write_sort(body: UOp, target: Target) -> UOp:
    """The program of a kernel that sorts."""
    job = SortJob.of(body, target)
    if job.arg.runs:
        _merge_rows(job)
    elif not job.scratch:
        _count_rows(job)
    elif job.capacity < job.piece:
        _select_rows(job)
    else:
        _radix_rows(job)
    return job.w.linear()


@dataclass(slots=True)
class Output:
    """One store: where, and which value for which position."""

    memory: UOp
    place: UOp  # the flat position, over the rows' ranges and `at`
    at: UOp
    value: UOp  # over the rows' ranges and `along`
    is_key: bool


@dataclass(slots=True)
class SortJob:
    """A kernel to be written, and what its parts are."""

    arg: SortArg
    key: UOp
    vector: UOp  # the key as it came, for vectors of it
    along: UOp
    size: int
    rows: list[UOp]
    outputs: list[Output]
    scratch: tuple[UOp, ...]
    blocks: int
    capacity: int  # records in one half of a block
    target: Target
    w: ProgramWriter = field(default_factory=ProgramWriter)

    @staticmethod
    def of(body: UOp, target: Target) -> SortJob:
        """Takes a kernel apart."""
        free = free_ranges(body)
        first = body.src[0].src[1]
        key, _, along, _, *scratch = first.src
        outputs = []
        varying: set[UOp] = set(free[key])
        for store in body.src:
            memory, node, place = store.src
            _, value, _, at, *_ = node.src
            varying |= (free[place] | free[value]) - {at}
            is_key = value is key
            outputs.append(Output(memory, _plain(place), _plain(at), _plain(value), is_key))
        rows = [_plain(r) for r in in_order(varying - {along})]
        shape = scratch[0].shape if scratch else (1, 2, 0)
        flat = tuple(UOp.param(s.arg.slot, s.dtype, (prod(s.shape),)) for s in scratch)
        size = along.size
        assert isinstance(size, int), "rows that are sorted have a known size"
        return SortJob(
            first.arg, _plain(key), key, _plain(along), size, rows, outputs, flat, shape[0], shape[2], target
        )

    @property
    def piece(self) -> int:
        """Elements that are sorted together."""
        return self.arg.piece or self.size

    @property
    def pieces(self) -> int:
        """How many pieces a row has."""
        return -(-self.size // self.piece)

    @property
    def row_count(self) -> int:
        """How many rows there are."""
        return prod(_size(r) for r in self.rows)

    @property
    def digit_bits(self) -> int:
        """Bits of a digit: more of them are fewer passes, but more counters."""
        bits = bits_dtype(self.key.dtype).bitsize
        return LONG_DIGIT_BITS if bits >= 32 and min(self.piece, self.capacity) >= LONG_ELEMENTS else DIGIT_BITS

    @property
    def radix(self) -> int:
        """Values of a digit."""
        return 1 << self.digit_bits

    @property
    def passes(self) -> int:
        """Digits of a key."""
        return -(-bits_dtype(self.key.dtype).bitsize // self.digit_bits)

    @property
    def needs_positions(self) -> bool:
        """Whether something other than the keys is put in order."""
        return not all(output.is_key for output in self.outputs)

    @property
    def record(self) -> Record:
        """How a record lies in the scratch memory."""
        words = tuple(memory.dtype for memory in self.scratch)
        bits = bits_dtype(self.key.dtype)
        shared = self.needs_positions and len(words) == 1
        return Record(bits, words, (self.size - 1).bit_length() if shared else 0)

    def row(self, number: UOp) -> dict[UOp, UOp]:
        """The ranges of the rows for the row with that number."""
        values: dict[UOp, UOp] = {}
        left = self.row_count
        for r in self.rows:
            left //= _size(r)
            value = number if left == 1 else number // left
            values[r] = value if left * _size(r) == self.row_count else value % _size(r)
        return values

    def bits_at(self, row: dict[UOp, UOp], position: UOp) -> UOp:
        """The bits of the key at a position of a row."""
        return self.w.value(to_bits(self.w.at(self.key, {**row, self.along: position})))

    @property
    def widest(self) -> int:
        """Bytes of the widest number that is computed for a key."""
        return max(node.dtype.itemsize for node in topological((self.vector,)) if node.dtype.bitsize)

    def vector_key(self, width: int) -> tuple[UOp, UOp] | None:
        """A range that stands for a position, and the keys from there on, if they are neighbours in memory."""
        if width < 2:
            return None
        along = next(r for r in topological((self.vector,)) if r.op is ops.RANGE and r.arg == self.along.arg)
        first = UOp.range(along.src[0], 0, owner=Owner.UNKNOWN)
        keys = replace_ranges(self.vector, {along: lanes_from(first, width)}, {})
        plain = _plain(simplify_lanes(keys))
        loads = [node for node in topological((plain,)) if node.op is ops.LOAD]
        if not plain.shape or any(load.src[1].shape for load in loads):
            return None
        return _plain(first), plain

    def key_from(self, bits: UOp) -> UOp:
        """Bits as a key."""
        return key_of(bits, self.key.dtype, self.arg.descending)

    def write(self, row: dict[UOp, UOp], place: UOp, position: UOp | None, bits: UOp | None) -> None:
        """Stores what belongs to a place: the key with these bits, and values from this position."""
        w = self.w
        for output in self.outputs:
            if output.is_key and bits is not None:
                value = from_bits(bits, self.key.dtype)
            else:
                assert position is not None, "a value that is no key is read by its position"
                value = w.at(output.value, {**row, self.along: position})
            w.store(output.memory, w.value(value), w.at(output.place, {**row, output.at: place}))


def _size(r: UOp) -> int:
    assert isinstance(r.size, int), "rows that are sorted have a known size"
    return r.size


def _plain(node: UOp) -> UOp:
    """An expression of a kernel as instructions: loads, int64 positions, no functions but arithmetic."""
    return rewrite(fix_index_dtype(rewrite(node, VECTOR_ACCESS, once=True)), EXPAND_MATH)


# ---- rows of a few hundred: counting


def _count_rows(job: SortJob) -> None:
    """The place of an element is the number of elements in front of it."""
    w, size, width = job.w, job.size, _vector_width(job)
    keys, ranks = _key_memory(job, size)
    on_cores = job.row_count > 1 and job.row_count * size >= WORTH_THREADS_ELEMENTS
    with w.loop(job.row_count, RangeKind.CORE if on_cores else RangeKind.LOOP) as number:
        row = job.row(number)
        with w.loop(size) as i:
            w.store(keys, w.value(job.key_from(job.bits_at(row, i))), i)
        with w.loop(-(-size // width)) as v:
            w.store(ranks, _count_vector(w, keys, v * width, width, index(size)), v * width)
        with w.loop(size) as i:
            rank = w.value(w.load(ranks, i).cast(dtypes.int64))
            if job.arg.count == size:
                job.write(row, rank, i, None)
            else:
                with w.when(rank < job.arg.count):
                    job.write(row, rank, i, None)


def _vector_width(job: SortJob) -> int:
    """Keys in a vector."""
    return max(job.target.vector_bytes // bits_dtype(job.key.dtype).itemsize, 1)


def _key_memory(job: SortJob, size: int) -> tuple[UOp, UOp]:
    """Room for `size` keys and their places, in whole vectors."""
    room = -(-size // _vector_width(job)) * _vector_width(job)
    return job.w.buffer(bits_dtype(job.key.dtype), room), job.w.buffer(bits_dtype(job.key.dtype), room)


def _count_vector(w: ProgramWriter, keys: UOp, start: UOp, width: int, size: UOp) -> UOp:
    """For each of some neighbouring keys, how many others are in front of it: smaller, or equal and earlier."""
    mine = w.load(keys, start, width)
    one, zero = const(mine.dtype, 1), const(mine.dtype, 0)
    found = w.variable(UOp.stack(*([zero] * width)) if width > 1 else zero)
    with w.loop(start) as j:
        found.set(w.value(found.get() + (w.load(keys, j) <= mine).where(one, zero)))
    rest = size - start
    near = w.value((rest < width).where(rest, index(width)))
    with w.loop(near) as lane:
        other = w.load(keys, w.value(start + lane))
        in_front = (other < mine) | (other.eq(mine) & (lane < lanes_from(index(0), width)))
        found.set(w.value(found.get() + in_front.where(one, zero)))
    with w.loop(w.value(rest - near)) as j:
        other = w.load(keys, w.value(start + width + j))
        found.set(w.value(found.get() + (other < mine).where(one, zero)))
    return found.get()


# ---- long rows: radix sort

Task = Callable[[dict[UOp, UOp], UOp, UOp, UOp], None]


def _radix_rows(job: SortJob) -> None:
    counts = _counters(job)

    def sort_piece(row: dict[UOp, UOp], first: UOp, length: UOp, start: UOp) -> None:
        w, record = job.w, job.record
        _clear(job, counts)
        with w.loop(length) as i:
            position = w.value(first + i)
            bits = job.bits_at(row, position)
            _put(job, record.pack(bits, position), w.value(start + i))
            _count_digits(job, counts, w.value(job.key_from(bits)))
        half = _radix(job, counts, length, start)
        kept = length if job.arg.count == job.size else index(job.arg.count)
        _write_records(job, row, first, w.value(start + half * job.capacity), kept)

    _each_piece(job, sort_piece)


def _each_piece(job: SortJob, task: Task) -> None:
    """Blocks on the cores; a block sorts one piece of a row after another, in its own scratch memory."""
    w, tasks = job.w, job.row_count * job.pieces
    each = -(-tasks // job.blocks)
    on_cores = job.blocks > 1 and tasks * job.piece >= WORTH_THREADS_ELEMENTS
    with w.loop(job.blocks, RangeKind.CORE if on_cores else RangeKind.LOOP) as block:
        here = index(each)
        if each * job.blocks != tasks:
            left = (index(tasks) - block * each).maximum(0)
            here = (left < each).where(left, index(each))
        with w.loop(w.value(here)) as turn:
            number = w.value(block * each + turn)
            first = w.value(number % job.pieces * job.piece) if job.pieces > 1 else index(0)
            length = index(job.piece)
            if job.size % job.piece:
                rest = index(job.size) - first
                length = w.value((rest < job.piece).where(rest, length))
            row = job.row(number // job.pieces if job.pieces > 1 else number)
            task(row, first, length, w.value(block * (2 * job.capacity)))


def _write_records(job: SortJob, row: dict[UOp, UOp], first: UOp, source: UOp, count: UOp) -> None:
    """The outputs, from records in order."""
    w, record = job.w, job.record
    with w.loop(count) as i:
        words = _get(job, w.value(source + i))
        position = w.value(record.position_of(words)) if job.needs_positions else None
        job.write(row, w.value(first + i), position, w.value(record.bits_of(words)))


def _counters(job: SortJob) -> UOp:
    return job.w.buffer(dtypes.int32 if job.piece < 1 << 31 else dtypes.int64, job.passes * job.radix)


def _clear(job: SortJob, counts: UOp) -> None:
    with job.w.loop(counts.shape[0]) as i:
        job.w.store(counts, const(counts.dtype, 0), i)


def _count_digits(job: SortJob, counts: UOp, key: UOp) -> None:
    """One more for each digit of a key."""
    w = job.w
    for number in range(job.passes):
        place = w.value(_digit(job, key, const(key.dtype, number * job.digit_bits)) + number * job.radix)
        w.store(counts, w.value(w.load(counts, place) + 1), place)


def _digit(job: SortJob, key: UOp, shift: UOp) -> UOp:
    return ((key >> shift) & (job.radix - 1)).cast(dtypes.int64)


def _put(job: SortJob, words: tuple[UOp, ...], position: UOp) -> None:
    for memory, word in zip(job.scratch, words, strict=True):
        job.w.store(memory, job.w.value(word), position)


def _get(job: SortJob, position: UOp) -> tuple[UOp, ...]:
    return tuple(job.w.load(memory, position) for memory in job.scratch)


def _radix(job: SortJob, counts: UOp, length: UOp, start: UOp) -> UOp:
    """Sorts the records of the first half of a block, whose digits are counted; says in which half they are then."""
    w, record = job.w, job.record
    half = w.variable(index(0))
    with w.loop(job.passes) as number:
        now = half.get()
        source = w.value(start + now * job.capacity)
        target = w.value(start + (1 - now) * job.capacity)
        base = w.value(number * job.radix)
        shift = w.value((number * job.digit_bits).cast(record.bits))
        some = job.key_from(record.bits_of(_get(job, source)))
        together = w.load(counts, w.value(base + _digit(job, some, shift))).cast(dtypes.int64)
        with w.when(together.ne(length)):
            total = w.variable(const(counts.dtype, 0))
            with w.loop(job.radix) as digit:
                place = w.value(base + digit)
                count = w.load(counts, place)
                w.store(counts, total.get(), place)
                total.set(w.value(total.get() + count))
            with w.loop(length) as i:
                words = _get(job, w.value(source + i))
                key = job.key_from(record.bits_of(words))
                place = w.value(base + _digit(job, key, shift))
                count = w.load(counts, place)
                w.store(counts, w.value(count + 1), place)
                _put(job, words, w.value(target + count.cast(dtypes.int64)))
            half.set(w.value(1 - now))
    return half.get()


# ---- the first few of long rows: selection


def _select_rows(job: SortJob) -> None:
    w = job.w
    shorten = _shorten_by_counting if job.capacity <= COUNTED_CANDIDATES else _shorten_by_radix
    memory = _key_memory(job, job.capacity) if job.capacity <= COUNTED_CANDIDATES else (_counters(job),)
    bits = bits_dtype(job.key.dtype)
    filled = w.variable(index(0))
    limit = w.variable(const(bits, bits.max))
    count, room = job.arg.count, (job.capacity - job.arg.count) // 2
    chunks = -(-job.size // room)

    def select(row: dict[UOp, UOp], first: UOp, length: UOp, start: UOp) -> None:
        filled.set(index(0))
        limit.set(const(bits, bits.max))
        with w.loop(chunks) as chunk:
            begin = w.value(chunk * room)
            _collect(job, row, begin, room, start, filled, limit)
            is_last = chunk.eq(chunks - 1)
            with w.when(w.value(is_last | (index(count + room) < filled.get()))):
                shorten(job, memory, start, filled.get())
                filled.set(index(count))
                last = job.key_from(job.record.bits_of(_get(job, w.value(start + count - 1))))
                limit.set(w.value(last - last.ne(0).where(const(bits, 1), const(bits, 0))))
        _write_records(job, row, first, start, index(count))

    _each_piece(job, select)


def _collect(
    job: SortJob, row: dict[UOp, UOp], begin: UOp, room: int, start: UOp, filled: Variable, limit: Variable
) -> None:
    """Adds the elements of a chunk that are not above the limit. A vector of which none is costs one comparison."""
    w, width = job.w, max(job.target.vector_bytes // max(job.widest, 1), 1)
    left = index(job.size) - begin
    length = w.value((left < room).where(left, index(room))) if job.size % room else index(room)
    vectors = job.vector_key(width)
    whole = w.value(length // width) if vectors is not None else index(0)
    if vectors is not None:
        with w.loop(whole) as v:
            position = w.value(begin + v * width)
            keys = job.key_from(to_bits(w.at(vectors[1], {**row, vectors[0]: position})))
            near = (keys <= limit.get()).reduce(ops.OR, axes=(0,))
            with w.when(w.value(near)), w.loop(width) as lane:
                _add(job, row, w.value(position + lane), start, filled, limit)
    done = w.value(whole * width)
    with w.loop(w.value(length - done)) as i:
        _add(job, row, w.value(begin + done + i), start, filled, limit)


def _add(job: SortJob, row: dict[UOp, UOp], position: UOp, start: UOp, filled: Variable, limit: Variable) -> None:
    """Writes a record behind the others, where it only stays if it is not above the limit."""
    w = job.w
    bits = job.bits_at(row, position)
    count = filled.get()
    _put(job, job.record.pack(bits, position), w.value(start + count))
    filled.set(w.value(count + (job.key_from(bits) <= limit.get()).where(index(1), index(0))))


# Sorts the candidates and keeps the first; after that only what comes before the last of them is wanted.


def _shorten_by_radix(job: SortJob, memory: tuple[UOp, ...], start: UOp, length: UOp) -> None:
    w, record = job.w, job.record
    (counts,) = memory
    _clear(job, counts)
    with w.loop(length) as i:
        bits = record.bits_of(_get(job, w.value(start + i)))
        _count_digits(job, counts, w.value(job.key_from(bits)))
    half = _radix(job, counts, length, start)
    with w.loop(w.value(half * job.arg.count)) as i:
        _put(job, _get(job, w.value(start + job.capacity + i)), w.value(start + i))


def _shorten_by_counting(job: SortJob, memory: tuple[UOp, ...], start: UOp, length: UOp) -> None:
    w, record = job.w, job.record
    keys, ranks = memory
    width = _vector_width(job)
    with w.loop(length) as i:
        w.store(keys, w.value(job.key_from(record.bits_of(_get(job, w.value(start + i))))), i)
    with w.loop(w.value((length + (width - 1)) // width)) as v:
        w.store(ranks, _count_vector(w, keys, v * width, width, length), v * width)
    with w.loop(length) as i:
        rank = w.value(w.load(ranks, i).cast(dtypes.int64))
        with w.when(rank < job.arg.count):
            _put(job, _get(job, w.value(start + i)), w.value(start + job.capacity + rank))
    with w.loop(job.arg.count) as i:
        _put(job, _get(job, w.value(start + job.capacity + i)), w.value(start + i))


# ---- two runs in order: merging


def _merge_rows(job: SortJob) -> None:
    """Each core makes some parts of the rows: it finds where a part begins in both runs, and goes on from there."""
    w, size, middle = job.w, job.size, job.arg.runs
    parts = MERGE_PARTS if size >= WORTH_THREADS_ELEMENTS else 1
    length = -(-job.arg.count // parts)
    with w.loop(job.row_count * parts, RangeKind.CORE if parts > 1 else RangeKind.LOOP) as number:
        row = job.row(number // parts)
        begin = w.value((number % parts * length).minimum(job.arg.count))
        end = w.value((begin + length).minimum(job.arg.count))
        taken = _find_split(job, row, begin)
        with w.loop(w.value(end - begin)) as i:
            left = taken.get()
            right = w.value(begin + i - left)
            left_key = job.key_from(job.bits_at(row, w.value(left.minimum(middle - 1))))
            right_key = job.key_from(job.bits_at(row, w.value((right + middle).minimum(size - 1))))
            is_left = (left < middle) & ((left_key <= right_key) | (index(size - middle) <= right))
            position = w.value(is_left.where(left, right + middle))
            taken.set(w.value(left + is_left.where(index(1), index(0))))
            job.write(row, w.value(begin + i), position, None)


def _find_split(job: SortJob, row: dict[UOp, UOp], begin: UOp) -> Variable:
    """How many of the first `begin` elements of the result come from the first run: bisection."""
    w, size, middle = job.w, job.size, job.arg.runs
    low = w.variable(w.value((begin - (size - middle)).maximum(0)))
    high = w.variable(w.value(begin.minimum(middle)))
    with w.loop(middle.bit_length() + 1):
        a, b = low.get(), high.get()
        with w.when(w.value(a < b)):
            half = w.value((a + b) // 2)
            left_key = job.key_from(job.bits_at(row, half))
            right_key = job.key_from(job.bits_at(row, w.value(begin - half - 1 + middle)))
            is_low = w.value(left_key <= right_key)
            low.set(w.value(is_low.where(half + 1, a)))
            high.set(w.value(is_low.where(b, half)))
    return low
