"""Contractions on a GPU by tiles, which the threads of a block compute together.

    c[m, n] = relu(sum over k of a[m, k] * b[k, n])

    ->  for tile = block, block + blocks, ...:                     neighbouring tiles run at the same time
            block_mma acc, a, b, thread, row, column, ...          from the tile's first row and column on
            c[row + .., column + ..] = relu(acc[0..1]), relu(acc[2..3]), ...

An atom computes a tile, and says which of its elements a thread has (`gpu_atoms`). Operands are read from memory as
they lie there, with any strides of which one is 1; whatever becomes of a sum is computed before it is stored.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import gcd, prod

from whit.codegen.contraction import Contraction, find_contraction, size_of, sizes_of
from whit.codegen.fill_panels import unflat
from whit.codegen.gpu_atoms import Atom, choose_atom
from whit.codegen.lanes import lane_numbers
from whit.codegen.panels import with_total
from whit.codegen.ranges import free_ranges, stride
from whit.dtype import DType, dtypes
from whit.ir import ops
from whit.ir.args import BlockMmaArg, Digit, MatrixArg, Memory, RangeKind, StageArg
from whit.ir.graph import topological
from whit.ir.uop import UOp, as_index, make
from whit.simplify.sums import linear_form
from whit.target import Target

BLOCK_ID, THREAD_ID, LOOP_ID = 0, 1, 16  # of ranges: in the order in which they nest
NEAR = 16  # tiles of rows that run together over the same columns: both stay in the second cache
LEAST = 32  # rows and columns below which a tile is mostly empty
ZERO = as_index(0)


@dataclass(frozen=True, slots=True)
class Operand:
    """A matrix in memory."""

    memory: UOp
    matrix: MatrixArg
    batch: UOp  # which of its matrices


def tile_matmul(body: UOp, target: Target) -> tuple[UOp, str] | None:
    """The kernel over tiles and why, if it is a contraction that an atom computes."""
    found = find_contraction(body)
    if found is None or found.outer:
        return None
    found = _by_columns(found, body)
    sizes = prod(sizes_of(found.m)), prod(sizes_of(found.n)), prod(sizes_of(found.along))
    if min(sizes[:2]) < LEAST or not sizes[2] or found.reduce.dtype is not dtypes.float32:
        return None
    a = _operand(found, found.a, found.m, target)
    b = _operand(found, found.b, found.n, target)
    if a is None or b is None or a.memory.dtype is not b.memory.dtype:
        return None
    atom = choose_atom(a.memory.dtype, sizes, prod(sizes_of(found.batch)), (a.matrix, b.matrix), target)
    if atom is None:
        return None
    return apply_atom(body, found, a, b, atom, target.cores), str(atom)


def _by_columns(found: Contraction, body: UOp) -> Contraction:
    """The contraction with what is stored side by side as columns."""
    free = free_ranges(body)
    place = body.src[0].src[2]
    if stride(place, found.n[-1], free) == 1 or stride(place, found.m[-1], free) != 1:
        return found
    return replace(found, a=found.b, b=found.a, m=found.n, n=found.m)


# ---- operands


def _operand(found: Contraction, value: UOp, rows: list[UOp], target: Target) -> Operand | None:
    """An operand that is an element of memory, or one cast up, with a stride along everything."""
    load = value.src[0] if value.op is ops.CAST and value.src[0].dtype in (dtypes.float16, dtypes.bfloat16) else value
    if load.op is not ops.INDEX or load.arg or load.src[0].op is not ops.PARAM:
        return None
    memory, position = load.src
    terms, start = linear_form(position)
    if any(base.op is not ops.RANGE or step < 0 for base, step in terms.items()):
        return None
    row, depth = _as_one(terms, rows), _as_one(terms, found.along)
    if row is None or depth is None or 1 not in (row, depth) or not row or not depth:
        return None
    if not set(terms) <= {*rows, *found.along, *found.batch}:
        return None
    steps = {r: terms[r] for r in found.batch if r in terms}
    unit = gcd(*steps.values()) if steps else 0
    batch, count = ZERO, 1
    for r, step in steps.items():
        batch = batch + r * (step // unit)
        count += (size_of(r) - 1) * (step // unit)
    matrix = MatrixArg(start, row, depth, unit, count, _copied(memory.dtype, start, row * depth, unit, target))
    return Operand(memory, matrix, batch)


def _as_one(terms: dict[UOp, int], ranges: list[UOp]) -> int | None:
    """The stride along several ranges that are walked as one."""
    step = terms.get(ranges[-1], 0)
    after = step
    for r in reversed(ranges):
        if terms.get(r, 0) != after:
            return None
        after *= size_of(r)
    return step


def _copied(dtype: DType, start: int, line: int, batch: int, target: Target) -> int:
    """How many neighbouring bytes are certainly aligned: 16, or one element."""
    parts = gcd(start, line, batch) * dtype.itemsize
    return 16 if parts % 16 == 0 and target.vector_bytes >= 16 else dtype.itemsize


# ---- the kernel


def apply_atom(body: UOp, found: Contraction, a: Operand, b: Operand, atom: Atom, cores: int) -> UOp:
    """The kernel: a GROUP of stores that read what a thread has of a tile."""
    rows, columns = prod(sizes_of(found.m)), prod(sizes_of(found.n))
    number = _tile_number(found, atom, cores)
    batch, row, column = _where(number, -(-rows // atom.tile[0]), -(-columns // atom.tile[1]), atom)
    thread = UOp.range(prod(digit.count for digit in atom.threads), THREAD_ID, RangeKind.THREAD)
    batches = unflat(batch, found.batch)
    sizes = (rows, columns, prod(sizes_of(found.along)))
    arg = BlockMmaArg(atom.name, sizes, atom.tile, a.matrix, b.matrix, atom.threads, atom.elements, atom.stages)
    places = (thread, row, column, a.batch.substitute(batches), b.batch.substitute(batches))
    count = prod(digit.count for digit in atom.elements)
    registers = UOp.buffer(0, found.reduce.dtype, (count,), memory=Memory.REGISTER)
    effect = make(ops.BLOCK_MMA, (registers, a.memory, b.memory, *places), arg)
    sums = registers.after(make(ops.STAGE, (UOp.group(effect),), StageArg(Memory.REGISTER)))
    first = _offset(thread, atom.threads)
    width = atom.elements[-1].count
    stores: list[UOp] = []
    for element in range(0, count, width):
        down, right = arg.place(0, element)
        at_row, at_column = row + first[0] + down, column + first[1] + right
        lanes = at_column + lane_numbers(width)
        at = {**batches, **unflat(at_row, found.m), **unflat(lanes, found.n)}
        copied = with_total(body, found.reduce, sums.index(lane_numbers(width) + element), at)
        gate = _gate(at_row, at_column, lanes, sizes, atom)
        stores.extend(copied.src if gate is None else _gated(copied, gate).src)
    return UOp.group(*stores)


def _tile_number(found: Contraction, atom: Atom, cores: int) -> UOp:
    """Which tile a block computes; where an atom keeps its block, which in each round."""
    m, n = (-(-prod(sizes_of(ranges)) // size) for ranges, size in ((found.m, atom.tile[0]), (found.n, atom.tile[1])))
    total = m * n * prod(sizes_of(found.batch))
    blocks = min(total, cores) if atom.is_persistent else total
    block = UOp.range(blocks, BLOCK_ID, RangeKind.BLOCK)
    if blocks == total:
        return block
    rounds = (as_index(total + blocks - 1) - block) // blocks
    return UOp.range(rounds, LOOP_ID) * blocks + block


def _where(number: UOp, rows: int, columns: int, atom: Atom) -> tuple[UOp, UOp, UOp]:
    """The batch, first row and first column of a tile. So many tiles of rows stay near over all columns."""
    batch, inside = number // (rows * columns), number % (rows * columns)
    first = inside // (NEAR * columns) * NEAR
    near: UOp = as_index(NEAR) if rows % NEAR == 0 else as_index(NEAR).minimum(as_index(rows) - first)
    rest = inside % (NEAR * columns)
    return batch, (first + rest % near) * atom.tile[0], rest // near * atom.tile[1]


def _offset(thread: UOp, digits: tuple[Digit, ...]) -> tuple[UOp, UOp]:
    """How far the first element of a thread is from the tile's."""
    row, column, after = ZERO, ZERO, 1
    for digit in reversed(digits):
        value = thread // after % digit.count
        row, column, after = row + value * digit.row, column + value * digit.column, after * digit.count
    return row, column


def _gate(row: UOp, column: UOp, lanes: UOp, sizes: tuple[int, ...], atom: Atom) -> UOp | None:
    """Where elements are inside of the result; None if all are."""
    gates = []
    if sizes[0] % atom.tile[0]:
        gates.append(row < sizes[0])
    if sizes[1] % atom.tile[1]:
        gates.append((lanes if sizes[1] % lanes.shape[0] else column) < sizes[1])
    return gates[0] & gates[-1] if gates else None


def _gated(graph: UOp, gate: UOp) -> UOp:
    """The stores, and all that they read of params, where the gate holds."""
    done: dict[UOp, UOp] = {}
    for node in topological((graph,)):
        src = tuple([done[s] for s in node.src])
        if node.op is ops.INDEX and node.src[0].op is ops.PARAM:
            memory, position, *given = src
            done[node] = memory.index(position, gate=gate & given[0] if given else gate)
        elif node.op is ops.STORE:
            memory, value, position, *given = src
            done[node] = memory.store(value, position, gate=gate & given[0] if given else gate)
        else:
            done[node] = node if src == node.src else make(node.op, src, node.arg)
    return done[graph]
