"""Tiles of a product whose operands are computed on their way to shared memory: prologues, convolutions, gathers.

    sum over k of relu(a[m, k]) * b[k, n]

    ->  registers = 0
        for each piece of k:
            shared[piece % 2 ...] = relu(a[row + .., piece*32 + ..]), b[...]     threads side by side along neighbours
            all threads wait
            block_mma registers += the product of both

With two stages (a double buffer) one wait for each piece is enough: who writes a stage again has waited for those who
read it.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from math import prod
from typing import Protocol

from whit.codegen.gpu.gemm.atoms import Atom, multiplied_halves
from whit.codegen.gpu.thread_index import as_wide, narrowed
from whit.codegen.passes.lanes import lane_numbers
from whit.codegen.strategy.fill_panels import Values, as_one, unflat
from whit.dtype import DType, can_lossless_cast, dtypes
from whit.ir import ops
from whit.ir.args import BlockMmaArg, MatrixArg, Memory, RangeKind, StageArg
from whit.ir.map_graph import map_graph
from whit.ir.nesting import Owner
from whit.ir.op import Sources
from whit.ir.uop import UOp, as_index, const, make
from whit.kernel.contraction import Contraction, is_unit, merged, neighbours
from whit.kernel.online_softmax import narrow
from whit.kernel.ranges import replace_ranges, sizes_of
from whit.target import Target

SHARED_ID = 1  # of the buffer
ZERO = as_index(0)


class TilePlace(Protocol):
    """Where the tile of a block is."""

    row: UOp
    column: UOp
    thread: UOp
    registers: UOp
    batches: Values


@dataclass(frozen=True, slots=True)
class Side:
    """An operand: its value over rows and the depth, and how its part of a stage lies in shared memory."""

    value: UOp
    ranges: list[UOp]
    first: UOp  # row of the tile
    rows: int
    depth: int
    along_depth: bool  # neighbours in memory are neighbours along the depth
    transposed: bool  # lines of shared memory are steps of the depth
    lanes: int
    padding: int  # elements at the end of a line

    @property
    def line(self) -> int:
        return (self.rows if self.transposed else self.depth) + self.padding

    @property
    def size(self) -> int:
        return self.line * (self.depth if self.transposed else self.rows)

    def matrix(self, start: int, stage: int, stages: int) -> MatrixArg:
        row, depth = (1, self.line) if self.transposed else (self.line, 1)
        return MatrixArg(start, row, depth, stage, stages)


def staged_dtype(found: Contraction, target: Target) -> DType | None:
    """The dtype of the operands in shared memory: what both are cast up from, or what they are multiplied in."""
    for dtype in multiplied_halves(target):
        if _narrowed(found.a, dtype) is not None and _narrowed(found.b, dtype) is not None:
            return dtype
    return dtypes.float32 if found.reduce.dtype is dtypes.float32 else None


def _narrowed(value: UOp, dtype: DType) -> UOp | None:
    """The value in a dtype that it was cast up from, or that has all values of the one that it was cast up from."""
    if value.op is ops.CAST and can_lossless_cast(value.src[0].dtype, dtype):
        return value.src[0].cast(dtype)
    return narrow(value, dtype)


def staged(found: Contraction, atom: Atom, dtype: DType, place: TilePlace) -> UOp:
    """The registers of a thread when all pieces have been added."""
    depth = atom.tile[2]
    total = prod(sizes_of(found.along))
    piece = UOp.range(-(-total // depth), 0, RangeKind.REDUCE, Owner.DEPTH)
    sides = [
        _side(found, atom, dtype, value, ranges, first, rows)
        for value, ranges, first, rows in (
            (found.a, found.m, place.row, atom.tile[0]),
            (found.b, found.n, place.column, atom.tile[1]),
        )
    ]
    stage = sum(side.size for side in sides)
    shared = UOp.buffer(SHARED_ID, dtype, (stage * atom.stages,), memory=Memory.SHARED)
    start = piece % atom.stages * stage
    fills = _fills(sides[0], found, place, piece, shared, start)
    fills += _fills(sides[1], found, place, piece, shared, start + sides[0].size)
    filled = shared.after(make(ops.STAGE, (UOp.group(*fills),), StageArg(Memory.SHARED, depth=atom.stages)))
    registers = place.registers
    zeros = UOp.stack(*([const(registers.dtype, 0)] * registers.shape[0]))
    cleared = registers.after(make(ops.STAGE, (UOp.group(registers.store(zeros, ZERO)),), StageArg(Memory.REGISTER)))
    a, b = sides[0].matrix(0, stage, atom.stages), sides[1].matrix(sides[0].size, stage, atom.stages)
    arg = BlockMmaArg(atom.name, atom.tile, atom.tile, a, b, atom.threads, atom.elements, 1, accumulate=True)
    number = piece % atom.stages
    effect = make(ops.BLOCK_MMA, (cleared, filled, filled, place.thread, ZERO, ZERO, number, number), arg)
    return registers.after(make(ops.STAGE, (UOp.group(effect), piece), StageArg(Memory.REGISTER)))


def _side(found: Contraction, atom: Atom, dtype: DType, value: UOp, ranges: list[UOp], first: UOp, rows: int) -> Side:
    narrowed = _narrowed(value, dtype)
    value = value if narrowed is None else narrowed
    runs = [neighbours(value, group) if is_unit(value, group[-1]) else 0 for group in (found.along, ranges)]
    along_depth = runs[0] >= runs[1]
    transposed = atom.name != "mma" or not along_depth
    padding = (32 if atom.name == "tf32" else 16) // dtype.itemsize  # lines that are read together: in different banks
    return Side(value, ranges, first, rows, atom.tile[2], along_depth, transposed, 16 // dtype.itemsize, padding)


def _fills(side: Side, found: Contraction, place: TilePlace, piece: UOp, shared: UOp, start: UOp) -> list[UOp]:
    """What a thread stores of an operand: groups of neighbours."""
    threads = int(place.thread.src[0].arg)
    length, lines = (side.depth, side.rows) if side.along_depth else (side.rows, side.depth)
    in_line = length // side.lanes
    sizes = prod(sizes_of(side.ranges)), prod(sizes_of(found.along))
    at = partial(_at, side.value)
    stores = []
    for i in range(lines * in_line // threads):
        number = place.thread + i * threads
        line, along = number // in_line, number % in_line * side.lanes + lane_numbers(side.lanes)
        row, k = (line, along) if side.along_depth else (along, line)
        at_row, at_k = side.first + row, piece * side.depth + k
        values = {**place.batches, **at(at_row, side.ranges), **at(at_k, found.along)}
        value = _inside(replace_ranges(side.value, values, {}), at_row, at_k, sizes, side)
        position = k * side.line + row if side.transposed else row * side.line + k
        stores.append(shared.store(value, start + position))
    return stores


def _at(value: UOp, position: UOp, ranges: list[UOp]) -> Values:
    """Ranges of a value at a position along all of them."""
    return as_one(position, ranges) if merged(value, ranges) == len(ranges) else unflat(position, ranges)


def _inside(value: UOp, row: UOp, k: UOp, sizes: tuple[int, int], side: Side) -> UOp:
    """The value where it is inside of the operand; beyond the depth 0, which adds nothing."""
    gate: UOp | None = None
    if sizes[0] % side.rows:
        gate = row < sizes[0]
    if sizes[1] % side.depth:
        gate = k < sizes[1] if gate is None else gate & (k < sizes[1])
    if gate is None:
        return value
    return gate.where(gated(value, gate), const(value.dtype, 0))


def gated(graph: UOp, gate: UOp, *known: UOp) -> UOp:
    """Stores, or a value, and all that they read of params but for what is known, where the gate holds."""

    def where_it_holds(node: UOp, src: Sources) -> UOp | None:
        if node.op is ops.INDEX and node.src[0].op is ops.PARAM and node.src[1].op is not ops.CONST:
            memory, position, *given = src
            return memory.index(position, gate=as_wide(narrowed(gate, given), position))
        if node.op is ops.STORE:
            memory, value, position, *given = src
            both = as_wide(narrowed(gate, given), position)
            return memory.store(value, position, combine=node.arg.combine, gate=both)
        return None

    return map_graph(graph, where_it_holds, {node: node for node in known})
