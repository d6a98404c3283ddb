"""Two runs that are in order, merged on a GPU.

    sort of two runs of 4096    ->    each block makes 1024 elements of the result: it finds where they begin and end
    (8192 elements)                   in both runs, reads their keys into shared memory, and each thread merges eight;
                                      then all write what they belong to side by side

An element of the first run comes before those of the second that are equal, so the order is stable.
"""

from __future__ import annotations

from collections.abc import Callable

from whit.codegen.cpu.sort import SortJob
from whit.codegen.cpu.sort_keys import bits_dtype
from whit.codegen.gpu.sort.runs import I32, I64, U16, Pieces
from whit.codegen.passes.writer import ProgramWriter
from whit.ir import ops
from whit.ir.args import AcrossArg, RangeKind
from whit.ir.uop import UOp, const, make
from whit.target import GPU_LIMITS

THREADS, ELEMENTS = 128, 8  # of a block, of a thread
WARP = GPU_LIMITS.warp_threads
WARP_BITS = WARP.bit_length() - 1
Keys = Callable[[UOp], UOp]


class Merge(Pieces):
    """Writes the program."""

    def __init__(self, job: SortJob) -> None:
        super().__init__(job)
        self.tile = THREADS * ELEMENTS
        most = job.piece if job.pieces > 1 else job.arg.count
        self.tiles = -(-most // self.tile)

    def write(self) -> tuple[UOp, str]:
        """The program, and what it is."""
        w, job = self.w, self.job
        blocks = self.count * self.tiles
        keys = self.shared(bits_dtype(job.key.dtype), self.tile)
        order, splits = self.shared(U16, self.tile), self.shared(I32, 2)
        with w.loop(blocks, RangeKind.BLOCK) as block, w.loop(THREADS, RangeKind.THREAD) as thread:
            me, task = w.value(thread.cast(I32)), w.value(block // self.tiles)
            row, first = self.row(task), self.first(task)
            length = self.length(first)
            left = w.value(length.minimum(job.arg.runs))
            kept = self.kept(length)
            begin = w.value(((block % self.tiles).cast(I32) * self.tile).minimum(kept))
            end = w.value((begin + self.tile).minimum(kept))

            def key_at(position: UOp) -> UOp:
                return w.value(job.key_from(job.bits_at(row, w.value(first + position.cast(I64)))))

            def far_key(position: UOp) -> UOp:
                return key_at(w.value((left + position).minimum(length - 1)))

            odd = w.value(((me >> WARP_BITS) & 1).eq(1))
            found = self._search(me, w.value(odd.where(end, begin)), left, w.value(length - left), key_at, far_key)
            is_first = w.value((me & (WARP - 1)).eq(0) & (me < 2 * WARP))
            w.store(splits, found, w.value(me >> WARP_BITS), gate=is_first)
            self.wait()
            start, stop = w.load(splits, 0), w.load(splits, 1)
            total, near = w.value(end - begin), w.value(stop - start)
            skip = w.value(left + begin - start - near)  # from a place in the tile to one in the second run

            def position_of(e: UOp) -> UOp:
                return w.value((e < near).where(start + e, skip + e))

            for copy in range(ELEMENTS):
                e = w.value(me + copy * THREADS)
                w.store(keys, key_at(w.value(position_of(e).minimum(length - 1))), e)
            self.wait()
            self._merge(me, keys, order, near, w.value(total - near))
            self.wait()
            for copy in range(ELEMENTS):
                e = w.value(me + copy * THREADS)
                with w.when(w.value(e < total)):
                    position = position_of(w.value(w.load(order, e).cast(I32)))
                    places = [w.value(first + number.cast(I64)) for number in (begin + e, position)]
                    job.write(row, places[0], places[1], None)
        return w.linear(), f"{blocks} blocks of {THREADS} threads, each merges {self.tile} elements"

    def _search(self, me: UOp, begin: UOp, left: UOp, right: UOp, left_key: Keys, right_key: Keys) -> UOp:
        """How many of the first `begin` elements of two runs, of `left` and `right`, come from the first: 32 threads
        ask at 32 places, and the answer is between two of them."""
        w = self.w
        lane = w.value(me & (WARP - 1))
        low = w.variable(w.value((begin - right).maximum(0)))
        high = w.variable(w.value(begin.minimum(left)))
        with w.loop(const(I32, self.job.arg.runs.bit_length() // WARP_BITS + 2)):
            a, b = low.get(), high.get()
            step = w.value((b - a + (WARP - 1)) >> WARP_BITS)
            place = w.value(a + lane * step)
            is_open = w.value((place < b) & (a < b))
            asked = w.value(is_open.where(place, const(I32, 0)))
            other = w.value(is_open.where(begin - place - 1, const(I32, 0)))
            is_low = is_open & (left_key(asked) <= right_key(other))
            one = w.value(is_low.where(const(I32, 1), const(I32, 0)))
            count = w.value(make(ops.ACROSS, (one, me), AcrossArg(ops.ADD, WARP)))
            some = w.value(const(I32, 0) < count)
            low.set(w.value(some.where(a + (count - 1) * step + 1, a)))
            high.set(w.value(some.where(b.minimum(a + count * step), a)))
        return low.get()

    def _merge(self, me: UOp, keys: UOp, order: UOp, near: UOp, far: UOp) -> None:
        """The places in the tile of eight elements that follow each other, in order."""
        w = self.w
        begin = w.value((me * ELEMENTS).minimum(near + far))

        def left_key(i: UOp) -> UOp:
            return w.load(keys, w.value(i.minimum(self.tile - 1)))

        def right_key(j: UOp) -> UOp:
            return w.load(keys, w.value((near + j).minimum(self.tile - 1)))

        steps = self.tile.bit_length()
        i = _bisect(w, steps, begin, near, far, left_key, right_key)
        j = w.value(begin - i)
        for copy in range(ELEMENTS):
            is_left = w.value((i < near) & ((left_key(i) <= right_key(j)) | (far <= j)))
            w.store(order, w.value(is_left.where(i, near + j).cast(U16)), w.value(me * ELEMENTS + copy))
            one = w.value(is_left.where(const(I32, 1), const(I32, 0)))
            i, j = w.value(i + one), w.value(j + 1 - one)


def _bisect(w: ProgramWriter, steps: int, begin: UOp, left: UOp, right: UOp, left_key: Keys, right_key: Keys) -> UOp:
    """How many of the first `begin` elements of two runs come from the first: a binary search of `steps` steps."""
    low = w.variable(w.value((begin - right).maximum(0)))
    high = w.variable(w.value(begin.minimum(left)))
    with w.loop(const(I32, steps)):
        a, b = low.get(), high.get()
        is_open = w.value(a < b)
        half = w.value(is_open.where((a + b) >> 1, const(I32, 0)))
        other = w.value(is_open.where(begin - half - 1, const(I32, 0)))
        is_low = w.value(left_key(half) <= right_key(other))
        low.set(w.value((is_open & is_low).where(half + 1, a)))
        high.set(w.value((is_open & ~is_low).where(half, b)))
    return low.get()
