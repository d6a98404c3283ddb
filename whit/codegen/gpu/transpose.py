"""Transposes by tiles in shared memory, so that reads and writes are both coalesced: threads side by side, neighbours.

store p0[r0*n + r1] = p1[r1*m + r0]

->  shared[i*33 + j] = p1[(tile1*32 + i)*m + tile0*32 + j]      threads along j, where p1 has neighbours;
    all threads wait                                            rows are 33 long: no bank conflict along columns
    p0[(tile0*32 + i)*n + tile1*32 + j] = shared[j*33 + i]      threads along j, where p0 has neighbours
"""

from __future__ import annotations

from dataclasses import dataclass
from math import prod

from whit.codegen.gpu.gemm.staged import gated
from whit.codegen.gpu.reduce import vector_positions
from whit.codegen.gpu.thread_index import Free, block_range, thread_range
from whit.ir import ops
from whit.ir.args import Memory, StageArg
from whit.ir.uop import UOp, make
from whit.kernel.ranges import Region, is_open, replace_ranges, size_of, stride
from whit.target import GPU_LIMITS

THREADS = 256
LEAST = 16  # elements along both ranges that are worth a tile
MOST_LOADS = 4  # of tiles in shared memory


@dataclass(frozen=True, slots=True)
class Transpose:
    """What a kernel stores along one range and loads along another."""

    inner: UOp  # neighbours where it stores
    across: UOp  # neighbours where it loads
    loads: list[UOp]
    others: list[UOp]  # all other ranges

    @property
    def tile(self) -> int:
        """Elements along both sides: as many as there is room for, but not many more than there are."""
        room = sum(64 * 65 * load.dtype.itemsize for load in self.loads) <= GPU_LIMITS.shared_bytes
        return 64 if room and min(self.inner.size, self.across.size) > 32 else 32

    def lanes(self, r: UOp) -> int:
        """Neighbours along a range that a thread reads or writes: 4 bytes; two of 4 bytes if both sides are even (of
        16384 x 8192 float32 0.266 -> 0.261 ms; of halves, and of 16384 x 8191, no difference)."""
        itemsize = max(load.dtype.itemsize for load in self.loads)
        is_even = self.inner.size % 2 == self.across.size % 2 == 0
        lanes = 2 if itemsize == 4 and is_even else max(4 // itemsize, 1)
        return lanes if r.size % lanes == 0 else 1


def find_transpose(body: UOp, found: list[Region], parallel: list[UOp], free: Free) -> Transpose | None:
    """The loads that have neighbours along another range than the stores have."""
    if len(found) > 1 or any(free[store] != set(parallel) or store.arg.combine for store in body.src):
        return None
    if any(map(is_open, parallel)):
        return None
    long = [r for r in parallel if size_of(r) >= LEAST]
    inner = _stored_along(body, long, free)
    if inner is None:
        return None
    by_range = _strided_loads(found[0], inner, long, free)
    across, loads = max(by_range.items(), key=lambda item: len(item[1]), default=(inner, []))
    others = [r for r in parallel if r is not inner and r is not across]
    return Transpose(inner, across, loads, others) if 0 < len(loads) <= MOST_LOADS else None


def _stored_along(body: UOp, long: list[UOp], free: Free) -> UOp | None:
    """The range along which all stores are coalesced."""
    return next((r for r in long if all(stride(store.src[2], r, free) == 1 for store in body.src)), None)


def _strided_loads(region: Region, inner: UOp, long: list[UOp], free: Free) -> dict[UOp, list[UOp]]:
    """The loads that are not coalesced along the innermost range, by the range along which they have neighbours."""
    found: dict[UOp, list[UOp]] = {}
    for load in dict.fromkeys(region.loads):
        if stride(load.src[1], inner, free) in (None, -1, 0, 1):
            continue
        other = next((r for r in long if r is not inner and stride(load.src[1], r, free) == 1), None)
        if other is not None:
            found.setdefault(other, []).append(load)
    return found


def tile_transpose(body: UOp, transpose: Transpose) -> tuple[UOp, str]:
    """The kernel by tiles, and what it is."""
    tile, line_size = transpose.tile, transpose.tile + 1
    sizes = [transpose.across.size, transpose.inner.size]
    tiles = [-(-size // tile) for size in sizes]
    blocks = prod(tiles) * prod(r.size for r in transpose.others)
    block, thread = block_range(blocks), thread_range(THREADS)
    first = block // tiles[1] % tiles[0] * tile, block % tiles[1] * tile
    number, places = block // prod(tiles), {}
    for r in reversed(transpose.others):
        places[r] = number % r.size
        number = number // r.size

    def at(across: UOp, inner: UOp, graph: UOp) -> UOp:
        """A load or a store at a place of the tile."""
        values = {**places, transpose.across: first[0] + across, transpose.inner: first[1] + inner}
        new = replace_ranges(graph, values, {})
        gates = [values[r] < r.size for r in (transpose.across, transpose.inner) if r.size % tile]
        return gated(new, gates[0] & gates[-1], *shared) if gates else new

    def lines(lanes: int) -> list[tuple[UOp, UOp]]:
        """The lines of a thread, and its neighbours in them."""
        in_line = tile // lanes
        neighbours = vector_positions(thread % in_line, lanes)
        return [(thread // in_line + i, neighbours) for i in range(0, tile, THREADS // in_line)]

    shared: list[UOp] = []
    for which, load in enumerate(transpose.loads):
        memory = UOp.buffer(which, load.dtype, (tile * line_size,), memory=Memory.SHARED)
        found = lines(transpose.lanes(transpose.across))
        fills = [memory.store(at(column, line, load), line * line_size + column) for line, column in found]
        shared.append(memory.after(make(ops.STAGE, (UOp.group(*fills),), StageArg(Memory.SHARED))))
    stores = []
    for line, column in lines(transpose.lanes(transpose.inner)):
        position = column * line_size + line
        kept = {load: memory.index(position) for load, memory in zip(transpose.loads, shared, strict=True)}
        stores += [at(line, column, store.substitute(kept)) for store in body.src]
    return UOp.group(*stores), f"{blocks} blocks of {THREADS} threads, tiles of {tile} x {tile} in shared memory"
