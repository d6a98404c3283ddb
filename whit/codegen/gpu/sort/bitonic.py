"""Rows that a block of a GPU puts in order in shared memory, by a bitonic network.

    sort of (32, 1000)    ->    each block has a row of 1024 records, each a key above its position; in stage s of the
                                network pieces of 2**s records alternate between up and down:
                                for distances q*4, q*2, q from 2**(s-1) down to 1, a thread reads the records
                                base + (0, q, ..., q*7), puts those at these distances in order, and writes them

Short rows share a block; longer ones are sorted in pieces, which are merged two by two (`sort.merge`, and
`whit.schedule.rewrites.split_sort` for how they are cut). Records are all different, since positions are: so the order
is stable. Keys past the end of a row come last. What is stored is read at the positions.
"""

from __future__ import annotations

from collections.abc import Sequence

from whit.codegen.cpu.sort import SortJob
from whit.codegen.cpu.sort_keys import bits_dtype
from whit.codegen.gpu.sort.merge import Merge
from whit.codegen.gpu.sort.runs import EIGHT, I32, I64, U16, Pieces
from whit.dtype import DType, dtypes
from whit.errors import InternalError, NotSupportedError
from whit.ir.args import RangeKind
from whit.ir.uop import UOp, const
from whit.target import Target

STEPS = 3  # of the network, that a thread does with eight records
LEAST_THREADS = 64  # of a block
MOST_RECORDS = 4096  # of a block: 8 bytes, and padding, fit in 48 KiB
LONGEST = 1 << 30  # elements of a row: places in it are computed with 32 bits
Words = tuple[UOp, ...]


def write_gpu_sort(body: UOp, target: Target) -> tuple[UOp, str]:
    """The program of a kernel that sorts, and what it is."""
    job = SortJob.of(body, target)
    if job.size >= LONGEST:
        raise NotSupportedError(f"sort: a row of {job.size} elements on a GPU", fix="Sort parts of it, or on a CPU.")
    if job.arg.runs and job.piece <= 2 * job.arg.runs:
        return Merge(job).write()
    if job.piece > MOST_RECORDS:
        raise InternalError(f"sort: a row of {job.piece} does not fit in a block", fix="Schedule it for this target.")
    return Network(job).write()


class Network(Pieces):
    """Writes the program."""

    def __init__(self, job: SortJob) -> None:
        super().__init__(job)
        self.stages = max((job.piece - 1).bit_length(), STEPS)
        self.size = 1 << self.stages
        self.threads = max(self.size // EIGHT, LEAST_THREADS)
        self.together = self.threads * EIGHT // self.size
        self.bits = bits_dtype(job.key.dtype)
        room = self.bits.bitsize + self.stages
        if room > 64:
            self.words: tuple[DType, ...] = (self.bits, U16)
        else:
            self.words = (dtypes.uint32 if room <= 32 else dtypes.uint64,)
        self.blocks = -(-self.count // self.together)

    def write(self) -> tuple[UOp, str]:
        """The program, and what it is."""
        w = self.w
        records = self.threads * EIGHT
        self.records = [self.shared(word, records + records // EIGHT) for word in self.words]
        with w.loop(self.blocks, RangeKind.BLOCK) as block, w.loop(self.threads, RangeKind.THREAD) as thread:
            self.me = w.value(thread.cast(I32))
            for copy in range(EIGHT):
                self._read(block, copy)
            self.wait()
            self._sort_eights()
            whole, rest = divmod(self.stages - STEPS, STEPS)
            if whole:
                with w.loop(const(I32, whole)) as u:
                    self._stage(w.value(u + 1), 1)
                    self._stage(w.value(u + 1), 2)
                    self._stage(w.value(u + 2), 0)
            for more in range(1, rest + 1):
                self._stage(const(I32, whole + 1), more)
            for copy in range(EIGHT):
                self._write(block, copy)
        reason = f"{self.blocks} blocks of {self.threads} threads, each for {self.together} rows of {self.size} records"
        return w.linear(), reason

    def _place(self, block: UOp, copy: int) -> tuple[UOp, UOp, UOp]:
        """Whose of the pieces an element is that is read and written with others side by side, which of it, and where
        its record is."""
        w = self.w
        number = w.value(self.me + copy * self.threads)
        if self.together == 1:
            return block, number, self._at(number)
        task = w.value(block * self.together + (number >> self.stages).cast(I64))
        return task, w.value(number & (self.size - 1)), self._at(number)

    def _at(self, number: UOp) -> UOp:
        """Where a record is in memory: eight are followed by a gap, so that threads read other banks."""
        return self.w.value(number + (number >> STEPS))

    def _read(self, block: UOp, copy: int) -> None:
        w = self.w
        task, i, at = self._place(block, copy)
        safe = w.value(task.minimum(self.count - 1)) if self.count % self.together else task
        first = self.first(safe)
        length = self.length(first)
        position = w.value(first + i.minimum(length - 1).cast(I64))
        key = self.job.key_from(self.job.bits_at(self.row(safe), position))
        if self.size != self.job.piece or self.job.size % self.job.piece:
            key = (i < length).where(key, const(key.dtype, key.dtype.max))
        if len(self.words) == 2:
            words: Words = key, i.cast(U16)
        else:
            word = self.words[0]
            words = ((key.cast(word) << self.stages) | i.cast(word),)
        self._put(words, at)

    def _put(self, words: Words, at: UOp) -> None:
        for memory, word in zip(self.records, words, strict=True):
            self.w.store(memory, self.w.value(word), at)

    def _get(self, at: UOp) -> Words:
        return tuple(self.w.load(memory, at) for memory in self.records)

    def _write(self, block: UOp, copy: int) -> None:
        """What belongs to a place."""
        w = self.w
        task, i, at = self._place(block, copy)
        first = self.first(task)
        is_wanted = i < self.kept(self.length(first))
        if self.count % self.together:
            is_wanted = is_wanted & (task < self.count)
        with w.when(w.value(is_wanted)):
            found = self._get(at)[-1]
            position = found if len(self.words) == 2 else found & const(found.dtype, self.size - 1)
            places = [w.value(first + number.cast(I64)) for number in (i, position)]
            self.job.write(self.row(task), places[0], places[1], None)

    # ---- the network

    def _sort_eights(self) -> None:
        """The first three stages: each eight records, up or down."""
        w = self.w
        base = w.value(self.me * EIGHT)
        places = [self._at(w.value(base + a)) for a in range(EIGHT)]
        flip = self._flip(base, const(I32, STEPS))
        values = self._flipped([self._get(at) for at in places], flip)
        for stage in range(STEPS):
            for step in range(stage, -1, -1):
                self._compare(values, 1 << step, down=2 << stage)
        self._store(values, places, flip)

    def _stage(self, triples: UOp, rest: int) -> None:
        """A stage of 3 * triples + rest steps."""
        w = self.w
        stage = w.value(triples * STEPS + rest)
        with w.loop(triples) as turn:
            shift = w.value((triples - 1 - turn) * STEPS + rest)
            self._steps(shift, stage, (4, 2, 1))
        if rest:
            self._steps(const(I32, 0), stage, (2, 1)[2 - rest :])

    def _steps(self, shift: UOp, stage: UOp, distances: Sequence[int]) -> None:
        """Steps at these distances times 2**shift."""
        w = self.w
        q = w.value(const(I32, 1) << shift)
        low = w.value(self.me & (q - 1))
        base = w.value((self.me - low) * EIGHT + low)
        places = [self._at(w.value(base + q * a)) for a in range(EIGHT)]
        flip = self._flip(base, stage)
        values = self._flipped([self._get(at) for at in places], flip)
        for distance in distances:
            self._compare(values, distance)
        self._store(values, places, flip)

    def _flip(self, base: UOp, stage: UOp) -> list[UOp]:
        """All ones where records have to go down: their complements go up."""
        down = self.w.value(((base & (self.size - 1)) >> stage) & 1)
        return [self.w.value(const(word, 0) - down.cast(word)) for word in self.words]

    def _flipped(self, values: list[Words], flip: list[UOp]) -> list[Words]:
        return [tuple(self.w.value(x ^ mask) for x, mask in zip(words, flip, strict=True)) for words in values]

    def _compare(self, values: list[Words], distance: int, down: int = 0) -> None:
        """Each two records at a distance, exchanged if they are not in order; those with a bit in their number go
        down."""
        w = self.w
        for a in range(EIGHT):
            if a & distance:
                continue
            ends = (a | distance, a) if a & down else (a, a | distance)
            one, other = (values[end] for end in ends)
            above = w.value(_is_above(one, other))
            less = tuple(w.value(above.where(y, x)) for x, y in zip(one, other, strict=True))
            more = tuple(w.value(above.where(x, y)) for x, y in zip(one, other, strict=True))
            values[ends[0]], values[ends[1]] = less, more

    def _store(self, values: list[Words], places: list[UOp], flip: list[UOp]) -> None:
        for words, at in zip(self._flipped(values, flip), places, strict=True):
            self._put(words, at)
        self.wait()


def _is_above(one: Words, other: Words) -> UOp:
    """Whether a record comes after another."""
    if len(one) == 1:
        return other[0] < one[0]
    return (other[0] < one[0]) | (other[0].eq(one[0]) & (other[1] < one[1]))
