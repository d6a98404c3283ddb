"""Contractions on a GPU (GEMM) by tiles, which the threads of a block compute together.

    c[m, n] = relu(sum over k of a[m, k] * b[k, n])

    ->  for tile = block, block + blocks, ...:                     neighbouring tiles run at the same time
            block_mma acc, a, b, thread, row, column, ...          from the tile's first row and column on
            c[row + .., column + ..] = relu(acc[0..1]), relu(acc[2..3]), ...

An atom computes a tile, and says which of its elements a thread has (`gemm.atoms`). Operands are read from memory as
they lie there, with any strides of which one is 1, or are windows of images (`gemm.im2col`); whatever becomes of a sum
is computed before it is stored, by the thread that has it, or by the copy engine (`gemm.tma_store`).
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import reduce
from math import prod
from operator import and_

from whit.codegen.gpu.arithmetic import with_short_epilogue
from whit.codegen.gpu.gemm.atoms import (
    INTS,
    SKINNY_TILES,
    Atom,
    choose_atom,
    choose_skinny,
    choose_staged,
    multiplied,
)
from whit.codegen.gpu.gemm.im2col import find_window
from whit.codegen.gpu.gemm.matrices import Operand, first_place, matrix_at
from whit.codegen.gpu.gemm.staged import gated, staged, staged_dtype
from whit.codegen.gpu.gemm.tma_store import box_stores, reads_matrix, results_of, with_pairs
from whit.codegen.gpu.thread_index import block_range, thread_range
from whit.codegen.passes.lanes import lane_numbers
from whit.codegen.strategy.fill_panels import unflat
from whit.codegen.strategy.panels import with_total
from whit.dtype import DType, dtypes
from whit.ir import ops
from whit.ir.args import BlockMmaArg, Memory, Mode, StageArg, place_of
from whit.ir.graph import topological
from whit.ir.nesting import Owner
from whit.ir.uop import UOp, as_index, const, make
from whit.kernel.contraction import Contraction, find_contraction
from whit.kernel.ranges import free_ranges, sizes_of, stride
from whit.kernel.tensor_cores import FP8S, LEAST_TILE_ROWS, SKINNY_COLUMNS, SKINNY_ROWS
from whit.simplify import simplify
from whit.target import Target

NEAR_TILES = 8  # tiles of rows that run together over the same columns: both stay in the second cache
LEAST_HALF_PRECISION_ROWS = 9  # rows where tensor cores wait for memory anyway; fewer are left to `gemv.rows`
LONG_OPERATIONS, LONG_REGISTERS = 8, 64  # operations of an element of the result that take many registers, and how many
FULL_REGISTERS = 160  # registers of a thread, of 168, for sums and that
ZERO, TRUE = as_index(0), const(dtypes.bool, True)


@dataclass(frozen=True, slots=True)
class Product:
    """A kernel that is a product of matrices."""

    body: UOp
    found: Contraction
    target: Target

    @property
    def sizes(self) -> tuple[int, int, int]:
        """Rows, columns, depth."""
        found = self.found
        return prod(sizes_of(found.m)), prod(sizes_of(found.n)), prod(sizes_of(found.along))

    @property
    def batches(self) -> int:
        return prod(sizes_of(self.found.batch))

    @property
    def total(self) -> DType:
        """The dtype of sums."""
        return self.found.reduce.dtype

    @property
    def is_small(self) -> bool:
        return min(self.sizes[:2]) < LEAST_TILE_ROWS


def tile_matmul(body: UOp, target: Target) -> tuple[UOp, str] | None:
    """The kernel over tiles and why, if it is a contraction that an atom computes."""
    found = find_contraction(body)
    if found is None:
        return None
    body = with_short_epilogue(body, found.reduce)
    found = _by_columns(replace(found, batch=[*found.batch, *found.outer], outer=[]), body)
    product = Product(body, found, target)
    rows, columns, depth = product.sizes
    if min(rows, columns) < SKINNY_ROWS[0] or not depth or product.total not in (dtypes.float32, dtypes.int32):
        return None
    operands = _operands(product)
    if operands is None:
        return _of_computed(product)
    return _of_few(product, *operands) or _of_matrices(product, *operands) or _of_computed(product)


def _of_few(product: Product, a: Operand, b: Operand) -> tuple[UOp, str] | None:
    """The kernel of a matrix beside few rows, or few columns, of the other operand (skinny GEMM)."""
    found, target = product.found, product.target
    rows, columns, depth = product.sizes
    if product.batches != 1:
        return None
    if _is_skinny(a, b, (rows, columns), target):
        found, a, b = _swapped(found), b, a
    elif not _is_skinny(b, a, (columns, rows), target):
        return None
    tile = BlockTile(found, choose_skinny((max(rows, columns), min(rows, columns), depth), target), target.cores)
    return tile.stores(product.body, tile.effect(a, b)), str(tile.atom)


def _of_matrices(product: Product, a: Operand, b: Operand) -> tuple[UOp, str] | None:
    """The kernel of operands that are copied as they lie in memory, if there is an atom for them."""
    body, found, target, sizes, dtype = product.body, product.found, product.target, product.sizes, a.memory.dtype
    is_enough = (
        min(sizes[:2]) >= LEAST_HALF_PRECISION_ROWS and max(sizes[:2]) >= SKINNY_COLUMNS and dtype in dtypes.float16s
    )
    if product.is_small and not is_enough:
        return None
    atom = choose_atom(dtype, sizes, product.batches, (a.matrix, b.matrix), target)
    if atom is None:
        return None
    results = results_of(body, found, atom, target)
    tile = BlockTile(found, atom if results is None else with_pairs(atom), target.cores)
    sums = tile.effect(a, b, donates_registers=_needs_registers(body, found, atom, dtype))
    return tile.stores(body, sums) if results is None else box_stores(tile, body, sums, results), str(atom)


def _of_computed(product: Product) -> tuple[UOp, str] | None:
    """The kernel of operands that are computed on their way to shared memory."""
    found, target = product.found, product.target
    dtype = staged_dtype(found, target)
    if dtype is None or product.is_small or not product.total.is_float:
        return None
    atom = choose_staged(dtype, product.sizes, product.batches, target)
    tile = BlockTile(found, atom, target.cores)
    return tile.stores(product.body, staged(found, atom, dtype, tile)), f"{atom}, operands computed on the way"


def _by_columns(found: Contraction, body: UOp) -> Contraction:
    """The contraction with what is stored side by side as columns."""
    free = free_ranges(body)
    place = body.src[0].src[2]
    if stride(place, found.n[-1], free) == 1 or stride(place, found.m[-1], free) != 1:
        return found
    return _swapped(found)


def _swapped(found: Contraction) -> Contraction:
    return replace(found, a=found.b, b=found.a, m=found.n, n=found.m)


def _is_skinny(x: Operand, matrix: Operand, sizes: tuple[int, ...], target: Target) -> bool:
    """Whether an operand has few rows, so that the other is to be read at the speed of memory."""
    are_copied = all(each.matrix.copied == 16 and not each.matrix.axes for each in (x, matrix))
    if not target.has_wgmma or x.memory.dtype not in dtypes.float16s or not are_copied:
        return False
    return x.matrix.is_depth_major and sizes[0] <= SKINNY_TILES[-1] and sizes[1] >= SKINNY_COLUMNS


def _needs_registers(body: UOp, found: Contraction, atom: Atom, dtype: DType) -> bool:
    """Whether a thread has too few registers for its sums, which are kept twice of fp8, and what is computed of them:
    much of each, or with elements of another matrix."""
    sums = prod(mode.count for mode in atom.elements) * (2 if dtype in FP8S else 1)
    after = topological((body,), stop=(found.reduce,))
    operations = sum(node.op.operations for node in after if node.op.elementwise and node.dtype.is_float)
    is_long = operations >= LONG_OPERATIONS or reads_matrix(body, found)
    return atom.name == "wgmma" and sums + (LONG_REGISTERS if is_long else 0) >= FULL_REGISTERS


# ---- operands


def _operands(product: Product) -> tuple[Operand, Operand] | None:
    """Both operands, if they are matrices in memory, or one of them windows of images, which an atom multiplies."""
    found, target = product.found, product.target
    a = _operand(found, found.a, found.m, target)
    b = _operand(found, found.b, found.n, target)
    if target.has_wgmma and (a is None) != (b is None):
        a = a or _window(found, found.a, found.m, b)
        b = b or _window(found, found.b, found.n, a)
    if a is None or b is None or not multiplied(a.memory.dtype, b.memory.dtype, product.total, target):
        return None
    return a, b


def _operand(found: Contraction, value: UOp, rows: list[UOp], target: Target) -> Operand | None:
    """An operand that is an element of memory, or one cast up, with a stride along everything."""
    is_narrow = value.op is ops.CAST and value.src[0].dtype in (*dtypes.float16s, *FP8S, *INTS)
    is_bits = value.op is ops.BITCAST and value.src[0].dtype is dtypes.uint32  # of float32, rounded
    load = value.src[0] if is_narrow or is_bits else value
    if load.op is not ops.INDEX or load.arg or load.src[0].op is not ops.PARAM:
        return None
    memory, position = load.src
    return matrix_at(memory, position, rows, found.along, found.batch, target)


def _window(found: Contraction, value: UOp, rows: list[UOp], other: Operand | None) -> Operand | None:
    """An operand that is windows of images, beside one whose lines the copy engine copies, too."""
    window = find_window(found, value, rows) if other is not None and other.matrix.copied == 16 else None
    return None if window is None else Operand(*window)


# ---- the kernel


class BlockTile:
    """Where the tile of a block is, and which part of it a thread has."""

    def __init__(self, found: Contraction, atom: Atom, cores: int) -> None:
        self.found, self.atom = found, atom
        self.sizes: tuple[int, ...] = (prod(sizes_of(found.m)), prod(sizes_of(found.n)), prod(sizes_of(found.along)))
        rows, columns = -(-self.sizes[0] // (atom.tile[0] * atom.cluster)), -(-self.sizes[1] // atom.tile[1])
        number, beside = _tile_number(rows * columns * prod(sizes_of(found.batch)), atom, cores)
        batch, row, self.column = _where(number, rows, columns, atom)
        self.row = row + beside * atom.tile[0] if atom.split_k == 1 else row
        self.stored = [beside.eq(0)] if atom.split_k > 1 else []  # by the block that has the sums
        self.batches = unflat(batch, found.batch)
        self.thread = thread_range(prod(mode.count for mode in atom.threads))
        count = prod(mode.count for mode in atom.elements)
        self.registers = UOp.buffer(0, found.reduce.dtype, (count,), memory=Memory.REGISTER)

    def effect(self, a: Operand, b: Operand, donates_registers: bool = False) -> UOp:
        """The registers when the tile of two matrices in memory is in them."""
        atom = self.atom
        arg = BlockMmaArg(
            atom.name,
            self.sizes,
            atom.tile,
            a.matrix,
            b.matrix,
            atom.threads,
            atom.elements,
            atom.stages,
            cluster=atom.cluster,
            split_k=atom.split_k,
            donates_registers=donates_registers,
        )
        places = (self.row, self.column, a.batch.substitute(self.batches), b.batch.substitute(self.batches))
        effect = make(ops.BLOCK_MMA, (self.registers, a.memory, b.memory, self.thread, *places), arg)
        return self.registers.after(make(ops.STAGE, (UOp.group(effect),), StageArg(Memory.REGISTER)))

    def stores(self, body: UOp, sums: UOp) -> UOp:
        """The kernel's stores of what a thread has."""
        found, atom = self.found, self.atom
        first = first_place(self.thread, atom.threads)
        width = atom.elements[-1].count
        stores: list[UOp] = []
        for element in range(0, sums.shape[0], width):
            down, right = place_of(element, atom.elements)
            row, column = self.row + first[0] + down, self.column + first[1] + right
            lanes = column + lane_numbers(width)
            at = {**self.batches, **unflat(row, found.m), **unflat(lanes, found.n)}
            copied = with_total(body, found.reduce, sums.index(lane_numbers(width) + element), at)
            for gates in _gates(row, column, right, lanes, self.sizes, atom):
                gate = reduce(and_, [*self.stored, *gates], TRUE)
                if simplify(gate) is TRUE:  # a gate of constants would store elements one by one
                    stores.extend(copied.src)
                else:
                    stores.extend(gated(copied, gate, sums).src)
        return UOp.group(*stores)


def _tile_number(total: int, atom: Atom, cores: int) -> tuple[UOp, UOp]:
    """Which of `total` tiles a cluster of blocks computes (in each round, if it stays); the place of this one in it."""
    cluster = atom.cluster * atom.split_k
    clusters = min(total, max(cores * atom.persistent // cluster, 1)) if atom.persistent else total
    block = block_range(clusters * cluster)
    number, beside = block // cluster, block % cluster
    if clusters == total:
        return number, beside
    rounds = (as_index(total + clusters - 1) - number) // clusters
    return UOp.range(rounds, 0, owner=Owner.ROUND) * clusters + number, beside


def _where(number: UOp, rows: int, columns: int, atom: Atom) -> tuple[UOp, UOp, UOp]:
    """The batch, first row and first column of a tile. So many tiles of rows stay near over all columns."""
    batch, inside = number // (rows * columns), number % (rows * columns)
    first = inside // (NEAR_TILES * columns) * NEAR_TILES
    near: UOp = as_index(NEAR_TILES) if rows % NEAR_TILES == 0 else as_index(NEAR_TILES).minimum(as_index(rows) - first)
    rest = inside % (NEAR_TILES * columns)
    return batch, (first + rest % near) * (atom.tile[0] * atom.cluster), rest // near * atom.tile[1]


def _gates(row: UOp, column: UOp, right: int, lanes: UOp, sizes: tuple[int, ...], atom: Atom) -> list[list[UOp]]:
    """Where elements are inside of the result; nothing if all are. A vector across its end is stored by elements, and
    as a whole in the tiles before. `right`: how far it is from the first of a thread."""
    width, columns = lanes.shape[0], sizes[1]
    inside = [row < sizes[0]] if sizes[0] % (atom.tile[0] * atom.cluster) else []
    if columns % atom.tile[1] == 0:
        return [inside]
    gates = [(lanes if columns % width else column) < columns]
    if columns % width and columns % atom.tile[1] // width * width - right in _first_columns(atom.threads):
        last = columns - width  # where the last whole vector may begin
        gates = [column < last + 1, (lanes < columns) & (as_index(last) < column)]
    return [[*inside, gate] for gate in gates]


def _first_columns(threads: tuple[Mode, ...]) -> set[int]:
    """Where in a tile threads have their first columns."""
    found = {0}
    for mode in threads:
        found = {column + i * mode.column for column in found for i in range(mode.count)}
    return found
