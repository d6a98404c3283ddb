"""Results of tiles that the copy engine stores, while the block computes its next tile.

    c[row + .., column + ..] = relu(acc[0..7])      ->      block_store c, thread, row, column, 0, relu(acc[0..7]), ...
    c[row + .., column + ..] = relu(acc[8..15])             block_store c, thread, row, column + 64, 0, ...
    ...

A box has 64 rows of a group of 128 threads, 128 bytes of each. Threads put what they have into shared memory as tensor
cores leave it: nothing is exchanged, and nothing asks what is inside of the result, which the copy engine knows. But
two neighbours at a time are too few where each sum is combined with an element of another matrix: there four threads
exchange sums, read and store 16 bytes each (residuals of bfloat16 16384 x 768 x 768, H200: 0.042 ms instead of 0.046).
"""

from __future__ import annotations

from functools import reduce
from operator import and_
from typing import Protocol

from whit.codegen.gpu.gemm.atoms import PAIRS, PAIRS_OF_QUADS, Atom
from whit.codegen.gpu.gemm.matrices import Operand, first_place, matrix_at
from whit.codegen.gpu.gemm.staged import gated
from whit.codegen.passes.lanes import lane_numbers
from whit.codegen.strategy.fill_panels import Values, unflat
from whit.codegen.strategy.panels import with_total
from whit.ir import ops
from whit.ir.args import BlockStoreArg, Mode, StoreArg
from whit.ir.graph import topological
from whit.ir.uop import UOp, as_index, make
from whit.kernel.contraction import Contraction
from whit.kernel.ranges import free_ranges
from whit.records import replace
from whit.target import GPU_LIMITS, Target

SWIZZLE_BYTES, ROWS = GPU_LIMITS.swizzle_bytes, 64  # bytes of a row of a box, and rows
LANES = 8  # elements of a thread that are computed together


class TilePlace(Protocol):
    """Where the tile of a block is."""

    found: Contraction
    atom: Atom
    sizes: tuple[int, ...]
    row: UOp
    column: UOp
    thread: UOp
    batches: Values


def results_of(body: UOp, found: Contraction, atom: Atom, target: Target) -> list[Operand] | None:
    """Where the results of a kernel are, if the copy engine can store boxes of all of them."""
    if atom.name != "wgmma" or atom.split_k > 1 or reads_matrix(body, found):
        return None
    results = []
    for store in body.src:
        memory, _, position, *_ = store.src
        itemsize = memory.dtype.itemsize
        if (
            store.arg != StoreArg()
            or memory.dtype.is_bool
            or itemsize > 4
            or atom.tile[1] % (SWIZZLE_BYTES // itemsize)
        ):
            return None
        result = matrix_at(memory, position, found.m, found.n, found.batch, target)
        if result is None or result.matrix.copied != 16 or not result.matrix.is_depth_major:
            return None
        results.append(result)
    return results


def reads_matrix(body: UOp, found: Contraction) -> bool:
    """Whether something is read for every sum, not only for each row or column."""
    free = free_ranges(body)
    loads = [free[node] for node in topological((body,), stop=(found.reduce,)) if node.op is ops.INDEX]
    return any(not ranges.isdisjoint(found.m) and not ranges.isdisjoint(found.n) for ranges in loads)


def with_pairs(atom: Atom) -> Atom:
    """The atom whose threads have what tensor cores leave them: two columns of each eight, those of a row first."""
    down, right = PAIRS
    threads = (*atom.threads[:-2], *PAIRS_OF_QUADS)
    return replace(atom, threads=threads, elements=(atom.elements[0], down, Mode(atom.tile[1] // 8, column=8), right))


def box_stores(tile: TilePlace, body: UOp, sums: UOp, results: list[Operand]) -> UOp:
    """The kernel's stores of what a thread has: of each 64 rows and 128 bytes. What several results have in common is
    stored one after another."""
    pieces, _, eights, _ = tile.atom.elements
    stores: list[tuple[int, int, UOp]] = []
    for store, result in zip(body.src, results, strict=True):
        across = SWIZZLE_BYTES // result.memory.dtype.itemsize
        for piece in range(pieces.count):
            for right in range(0, 8 * eights.count, across):
                stores.append((piece, right + across, _box_store(tile, store, sums, result, piece, right)))
    return UOp.group(*(store for *_, store in sorted(stores, key=lambda each: each[:2])))


def _box_store(tile: TilePlace, store: UOp, sums: UOp, result: Operand, piece: int, right: int) -> UOp:
    """A box of each group, from a column on."""
    _, down, _, pair = tile.atom.elements
    across = SWIZZLE_BYTES // result.memory.dtype.itemsize
    elements = (down, Mode(across // 8, column=8), pair)
    arg = BlockStoreArg(tile.sizes[:2], (ROWS, across), result.matrix, tile.atom.threads, elements)
    rows, columns = (ROWS * piece, ROWS * piece + 8), range(right, right + across, 4 * LANES)
    values = [_value(tile, store, sums, (row, column)) for row in rows for column in columns]
    where = (tile.row + ROWS * piece, tile.column + right, result.batch.substitute(tile.batches))
    return make(ops.BLOCK_STORE, (result.memory, tile.thread, *where, *values), arg)


def _value(tile: TilePlace, store: UOp, sums: UOp, place: tuple[int, int]) -> UOp:
    """What is stored of a thread's elements in 32 columns of a row. Only what is inside of the result is read."""
    found, atom, (rows, columns, _) = tile.found, tile.atom, tile.sizes
    _, down, eights, pair = atom.elements
    first = first_place(tile.thread, atom.threads)
    row, column = tile.row + first[0] + place[0], tile.column + first[1] + place[1]
    lanes = column + UOp.stack(*(as_index(i // 2 * 8 + i % 2) for i in range(LANES)))
    at = {**tile.batches, **unflat(row, found.m), **unflat(lanes, found.n)}
    line = place[0] // ROWS * down.count + place[0] % ROWS // 8
    total = sums.index(lane_numbers(LANES) + (line * eights.count * pair.count + place[1] // 4))
    value = with_total(UOp.group(store), found.reduce, total, at).src[0].src[1]
    gates = [row < rows] if rows % (atom.tile[0] * atom.cluster) else []
    if columns % atom.tile[1]:
        gates.append((lanes if columns % 32 else column) < columns)
    return gated(value, reduce(and_, gates), sums) if gates else value
