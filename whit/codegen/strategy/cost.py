"""What a tiled contraction takes, estimated: the one place where time is guessed from sizes.

    given = Operands(found, body, target)       how the operands of a contraction lie
    cost = estimate_tiling(tiling, given)       cycles of one core, by what takes them
    cost.total, str(cost)                       "5.88e+06 cycles: products 90 %, copies of b 4 %, ..."

`tiling.candidates` lists what is possible, this file says what each would take, and the least is chosen. Numbers of the
machine come from the `Target` (vector width, registers, caches, cores, multipliers) and from `whit.kernel.rates`. The
numbers below are of the loops that this code generator writes, so they stand here: measured on one core of Ice Lake
with `bench/contractions.py`, by leaving out one part of a kernel after the other.
"""

from __future__ import annotations

from math import prod
from typing import TYPE_CHECKING

from whit.ir import ops
from whit.ir.graph import topological
from whit.ir.uop import UOp
from whit.kernel.contraction import Contraction, merged, neighbours
from whit.kernel.ranges import free_ranges, sizes_of, stride
from whit.kernel.rates import CPU_CYCLES as CPU
from whit.records import dataclass
from whit.target import CACHE_LINE_BYTES, Target

if TYPE_CHECKING:
    from whit.codegen.cpu.panel_sizes import Tiling

# cost of copying an element, in elements copied by vectors: as a scalar; transposed in a square
ALONE_VECTORS, TRANSPOSE_VECTORS = 16, 2
BROADCAST_CYCLES = 0.2  # cycles more for each row of a tile: 6 x 4 vectors reach 94 % of peak, 14 x 2 reach 80 %
STEP_CYCLES = 0.5  # cycles of an iteration of the innermost loop, beside its products
START_CYCLES = 30  # cycles of a tile beside its products: loops, and a mispredicted branch
NEW_RUN_LINES = 4  # cost of starting a run, in lines: no prefetcher knows its first ones
WAIT_CYCLES = 3  # cycles to add a vector to partial sums in L2
RESULT_CYCLES = 2  # cycles to store a vector of results
TRANSPOSED_RESULT_CYCLES = 8  # the same where squares of partial sums are transposed
SCATTER_CYCLES = 64  # the same where it is scattered
CROWDED_CYCLES = 240  # and where all its lanes fall into one or two sets of L1
# times that products take where rows are read where they are, and those of a tile are not always as far apart: their
# places wait in memory. 14 x 14 x 256, 3 x 3: 2.04 ms in tiles of 6 rows, 1.05 ms in tiles of 14 (two cores of Zen 4)
UNEVEN_ROWS = 1.9
ACROSS_CYCLES = 3  # cycles for a step along k of rows that lie across k and are not copied: a line for a few elements


@dataclass(frozen=True, slots=True)
class Cost:
    """Cycles of the core that works longest."""

    products: float
    copies_of_a: float
    copies_of_b: float
    reads: float  # of operands that are read where they are, and of panels that do not fit the second cache
    sums: float  # that wait in memory between blocks of k
    results: float

    @property
    def parts(self) -> dict[str, float]:
        """Cycles by what takes them."""
        return {
            "products": self.products,
            "copies of a": self.copies_of_a,
            "copies of b": self.copies_of_b,
            "reads": self.reads,
            "sums": self.sums,
            "results": self.results,
        }

    @property
    def total(self) -> float:
        """All cycles."""
        return sum(self.parts.values())

    def __str__(self) -> str:
        shares = [(name, round(part / self.total * 100)) for name, part in self.parts.items()]
        return f"{self.total:.3g} cycles: " + ", ".join(f"{name} {share} %" for name, share in shares if share)


class Operands:
    """How the operands of a contraction lie: what does not depend on the tiling, worked out once."""

    def __init__(self, found: Contraction, body: UOp, target: Target) -> None:
        free = free_ranges(body)
        self.target = target
        self.m, self.n, self.outer = (prod(sizes_of(group)) for group in (found.m, found.n, found.outer))
        self.batches = prod(sizes_of(found.batch))
        self.line_of_a, self.line_of_b = self._line(found.a), self._line(found.b)
        self.pitch = self._pitch(found)
        self.lines = self._lines(found)
        outside = topological((body,), stop=(found.reduce,))
        places = [node.src[1] for node in outside if node.op is ops.INDEX]
        places += [store.src[2] for store in body.src]
        self.itemsize = found.reduce.dtype.itemsize
        steps = [stride(place, found.n[-1], free) for place in places]
        self.lies_along_n = all(step == 1 for step in steps[len(places) - len(body.src) :])  # the result, not across
        self.results = sum(RESULT_CYCLES if step in (0, 1) else _scattered(step, self.itemsize) for step in steps)

    def _line(self, operand: UOp) -> float:
        """Cycles for a line of the memory that an operand is made of, by where it probably is."""
        params = {node.src[0] for node in topological((operand,)) if node.op is ops.INDEX}
        size = sum(prod(n for n in param.shape if isinstance(n, int)) * param.dtype.itemsize for param in params)
        if size <= self.target.l2_bytes // 2:
            return CPU.l2_line_cycles
        return CPU.l3_line_cycles if size <= self.target.l3_bytes // 4 else CPU.memory_line_cycles

    def _lines(self, found: Contraction) -> list[int]:
        """Sizes of the ranges of rows, those that a walks as one taken together: the last is a line of evenly spaced
        rows."""
        sizes, together = sizes_of(found.m), merged(found.a, found.m) if found.m else 0
        return [*sizes[: len(sizes) - together], prod(sizes[len(sizes) - together :])]

    def is_even(self, rows: int) -> bool:
        """Whether the rows of all tiles are as far apart from each other."""
        if len(self.lines) == 1:
            return True
        for size in reversed(self.lines):
            if rows > size and rows % size:
                return False
            if rows <= size:
                return size % rows == 0
            rows //= size
        return rows == 1

    def even_rows(self, most: int) -> frozenset[int]:
        """The numbers of rows for which they are, if not all."""
        every = range(2, most + 1) if len(self.lines) > 1 else ()
        return frozenset(rows for rows in every if self.is_even(rows))

    def _pitch(self, found: Contraction) -> int:
        """Bytes between two rows of a."""
        if not found.m or found.a.op is not ops.INDEX:
            return 0
        step = stride(found.a.src[1], found.m[-1], free_ranges(found.a)) or 0
        return step * found.a.dtype.itemsize


def _scattered(step: int | None, itemsize: int) -> int:
    """Cycles for a vector whose lanes are `step` elements apart."""
    is_crowded = step is not None and step * itemsize % (CPU.l1_way_bytes // 2) == 0
    return CROWDED_CYCLES if is_crowded else SCATTER_CYCLES


def copying(value: UOp, ranges: list[UOp]) -> float:
    """Vectors for each element of a copy along ranges of neighbours, by vectors of a power of two of them."""
    size = neighbours(value, ranges)
    lanes = min(ALONE_VECTORS, 1 << (size.bit_length() - 1))
    return -(-size // lanes) / size


def step_cycles(rows: int, vectors: int, target: Target) -> float:
    """One step along k of a register tile: products, loads, what it takes to start them all."""
    products, loads = rows * vectors, rows + vectors
    waiting = CPU.fma_latency_cycles if products < CPU.fma_latency_cycles * target.multipliers else 0
    busy = max(products / target.multipliers, loads * CPU.load_cycles, waiting)
    return busy + BROADCAST_CYCLES * rows + CPU.l2_stream_vector_cycles * vectors + STEP_CYCLES


def _of_run(line: float, run: int, itemsize: int) -> float:
    """Cycles for a line that is copied in a run of `run` elements."""
    return line * (1 + NEW_RUN_LINES / max(run * itemsize / CACHE_LINE_BYTES, 1))


def estimate_tiling(tiling: Tiling, given: Operands) -> Cost:
    """The cycles of the core that has most to do."""
    return _Estimate(tiling, given).cost()


class _Estimate:
    """How often a tiling does what, and the cycles of each. An item is what a core takes at a time."""

    def __init__(self, tiling: Tiling, given: Operands) -> None:
        self.tiling, self.given, self.target = tiling, given, given.target
        self.depth = tiling.depth.total
        items, cores = given.batches * tiling.row_items * tiling.groups, given.target.cores
        self.rounds = items / cores if items >= 4 * cores else -(-items // cores)
        self.blocks = self.rounds * tiling.depth.blocks  # of k, of all items of a core
        self.tiles = tiling.inside * tiling.panels * tiling.group * tiling.tiles  # of an item
        self.vectors = self.tiles * tiling.rows * tiling.vectors  # of its results
        self.rows, columns = tiling.panels * tiling.rows, tiling.tiles * tiling.columns  # of a panel
        fills = tiling.group * tiling.inside if tiling.inside > 1 else 1
        self.lines_of_a, self.lines_of_b = fills * self.lines(self.rows), tiling.group * self.lines(columns)
        self.is_wide = columns * self.depth * given.itemsize > self.target.l2_bytes // 2

    def lines(self, count: int) -> float:
        """Cache lines of `count` rows or columns of a block of k."""
        return count * self.depth * self.given.itemsize / CACHE_LINE_BYTES

    def cost(self) -> Cost:
        step = step_cycles(self.tiling.rows, self.tiling.vectors, self.target)
        if not self.tiling.copy_a and not self.tiling.image and not self.given.is_even(self.tiling.rows):
            step *= UNEVEN_ROWS
        return Cost(
            products=self.blocks * self.tiles * (self.depth * step + START_CYCLES),
            copies_of_a=self.blocks * self.copies_of_a(),
            copies_of_b=self.blocks * self.copies_of_b(),
            reads=self.blocks * (self.reads_of_a() + self.reads_of_b()),
            sums=self.sums(),
            results=self.rounds * self.results(),
        )

    def copies_of_a(self) -> float:
        tiling, given = self.tiling, self.given
        if tiling.image:
            return tiling.image * given.itemsize / CACHE_LINE_BYTES * (2 * CPU.copy_vector_cycles + given.line_of_a)
        if not tiling.copy_a:
            return 0
        copy = CPU.copy_vector_cycles * (2 if tiling.is_across else 1)  # vectors that overlap lie across two lines
        run = _of_run(given.line_of_a, tiling.run_of_a, given.itemsize)
        return self.lines_of_a * (tiling.copy_a * CACHE_LINE_BYTES / given.itemsize * copy + run)

    def copies_of_b(self) -> float:
        tiling, given = self.tiling, self.given
        if not tiling.copy_b:
            return 0
        run = _of_run(given.line_of_b, tiling.run_of_b, given.itemsize)
        of_line = tiling.copy_b * CACHE_LINE_BYTES / given.itemsize * CPU.copy_vector_cycles + run
        if tiling.image and tiling.depth.blocks == 1:  # they stay for all images
            return self.lines_of_b / self.rounds * of_line
        return self.lines_of_b * of_line

    def reads_of_a(self) -> float:
        tiling, given = self.tiling, self.given
        if tiling.image:
            return 0
        reads, room = 0.0, self.rows * self.depth * given.itemsize
        if not tiling.copy_a:
            reads = self.lines_of_a * given.line_of_a / 2  # the other half goes on beside the products
            if tiling.is_across:
                reads = self.lines_of_a * _of_run(given.line_of_a, tiling.rows, given.itemsize)
                reads += self.tiles * self.depth * ACROSS_CYCLES
            evicts = tiling.rows * CPU.l1_way_bytes > self.target.l1_bytes  # one row another
            if evicts and given.pitch % CPU.l1_way_bytes == 0:
                reads += self.tiles * tiling.rows * self.depth * CPU.load_cycles
            if given.pitch % (CPU.l1_way_bytes // 2) == 0:
                room = self.rows * given.pitch
        if room + tiling.columns * self.depth * given.itemsize > self.target.l2_bytes * 3 // 4:
            again = self.tiles - tiling.inside * tiling.panels  # tiles whose rows were read before, for other columns
            reads += again * self.lines(tiling.rows) * CPU.l3_line_cycles
        return reads

    def reads_of_b(self) -> float:
        reads = self.lines_of_b * CPU.l3_stream_line_cycles if self.is_wide else 0.0
        return self.tiling.inside * (reads if self.tiling.copy_b else reads + self.lines_of_b * self.given.line_of_b)

    def sums(self) -> float:
        far = CPU.l3_line_cycles if self.vectors * CACHE_LINE_BYTES > self.target.l2_bytes // 4 else 0
        if self.tiling.in_place:
            return self.vectors * self.blocks * (WAIT_CYCLES + 2 * far)  # read and written, where the result is
        return self.vectors * (self.blocks + self.rounds) * (WAIT_CYCLES + far) if self.tiling.waits else 0

    def results(self) -> float:
        if self.tiling.is_turned:
            return self.vectors * TRANSPOSED_RESULT_CYCLES
        lookups = self.tiles * self.tiling.rows * CPU.page_miss_cycles if self.rows > CPU.first_tlb_pages else 0
        return self.vectors * self.given.results + lookups
