"""Streaming stores (non-temporal): which go past the caches, those of a result that would not stay there.

    store p0[r0 * 64 + 48], 16 float32     of 32 MiB, on a machine with 48 MiB of last cache     ->     yes

A store into a cache reads the line first, and pushes out another. Past them, lines are written whole: a copy of 64 MiB
goes at 47 instead of 24 GB/s on two cores of Ice Lake. Who reads the result next finds nothing of it in a cache: 16 MiB
that are copied and then added up are faster if they were kept (1.23 ms, not 1.35), 24 MiB slower (2.4 ms, not 2.0).

Stores that go from page to page, as a transpose's do, gain more: 2.9 -> 1.0 ms for 16 MiB, and 9 MiB gain as well.
"""

from __future__ import annotations

from collections.abc import Iterable
from math import gcd, prod

from whit.codegen.cpu.prefetch import step_of
from whit.ir import ops
from whit.ir.graph import memory_of
from whit.ir.map_graph import map_graph
from whit.ir.op import Sources
from whit.ir.uop import UOp, make
from whit.records import replace
from whit.target import CACHE_LINE_BYTES, PAGE_BYTES, Target

IN_ORDER_SHARE, SCATTERED_SHARE = 2, 6  # results of 1/2 and 1/6 of the last cache are evicted before they are read


def stream_stores(linear: UOp, target: Target) -> UOp:
    """The program in which those of `streaming_stores` go past the caches."""
    found = streaming_stores(linear, target)

    def streamed(node: UOp, src: Sources) -> UOp | None:
        return make(ops.STORE, src, replace(node.arg, streaming=True)) if node in found else None

    return map_graph(linear, streamed) if found else linear


def streaming_stores(linear: UOp, target: Target) -> set[UOp]:
    """Stores of whole lines into params of which nothing is read, where these would not stay in the last cache."""
    if target.family != "x86_64" or not target.l3_bytes:
        return set()
    written: dict[UOp, int] = {}  # bytes, times IN_ORDER_SHARE or SCATTERED_SHARE
    found: dict[UOp, list[UOp]] = {}
    for (*around, param, base), stores in _stores_by_line(linear).items():
        whole = list(_whole_lines(stores))
        step = next((step_of(base, r) for r in reversed(around) if r.op is ops.RANGE), 0) * param.dtype.itemsize
        weight = SCATTERED_SHARE if step >= PAGE_BYTES else IN_ORDER_SHARE
        found.setdefault(param, []).extend(whole)
        written[param] = written.get(param, 0) + sum(map(_nbytes, whole)) * _times(around) * weight
    return {store for param, stores in found.items() if written[param] >= target.l3_bytes for store in stores}


def _stores_by_line(linear: UOp) -> dict[tuple[UOp, ...], dict[int, UOp]]:
    """Blocks around, param, where a line of it starts -> stores by their first byte, counted from there. They are of
    params of which nothing is read, and each begins at a multiple of its own size."""
    read = {memory_of(node.src[0]) for node in linear.src if node.op is ops.LOAD}
    found: dict[tuple[UOp, ...], dict[int, UOp]] = {}
    blocks: list[UOp] = []
    for node in linear.src:
        if node.op in (ops.RANGE, ops.IF):
            blocks.append(node)
        elif node.op is ops.END:
            blocks.pop()
        elif node.op is ops.STORE and _is_vector_of_param(node) and memory_of(node.src[0]) not in read:
            param = memory_of(node.src[0])
            base, offset = _parted(node.src[2])
            size = param.dtype.itemsize
            if _divisor(base) * size % CACHE_LINE_BYTES == 0 and offset * size % _nbytes(node) == 0:
                found.setdefault((*blocks, param, base), {})[offset * size] = node
    return found


def _is_vector_of_param(store: UOp) -> bool:
    """Whether a store puts a vector into a param as it is, always, to places side by side."""
    memory, value, place, *gate = store.src
    is_plain = not gate and store.arg.combine is None
    return is_plain and bool(value.shape) and not place.shape and memory_of(memory).op is ops.PARAM


def _nbytes(store: UOp) -> int:
    return int(prod(store.src[1].shape)) * store.src[0].dtype.itemsize


def _whole_lines(stores: dict[int, UOp]) -> Iterable[UOp]:
    """Those that fill their lines, together with the others."""
    filled: dict[int, int] = {}
    for start, store in stores.items():
        filled[start // CACHE_LINE_BYTES] = filled.get(start // CACHE_LINE_BYTES, 0) + min(
            _nbytes(store), CACHE_LINE_BYTES
        )
    return (store for start, store in stores.items() if filled[start // CACHE_LINE_BYTES] == CACHE_LINE_BYTES)


def _times(blocks: Iterable[UOp]) -> int:
    """How often the inside of blocks runs; 0 if that is not known."""
    sizes = [block.src[0] for block in blocks if block.op is ops.RANGE]
    return prod(int(size.arg) if size.op is ops.CONST else 0 for size in sizes)


def _parted(place: UOp) -> tuple[UOp, int]:
    """A position as a sum of something and a number."""
    if place.op is ops.ADD and place.src[1].op is ops.CONST:
        base, offset = _parted(place.src[0])
        return base, offset + int(place.src[1].arg)
    return place, 0


def _divisor(place: UOp) -> int:
    """A number that divides a position; 0 divides only 0."""
    if place.op is ops.CONST:
        return abs(int(place.arg))
    if place.op is ops.ADD:
        return gcd(*(_divisor(part) for part in place.src))
    if place.op is ops.MUL:
        return prod(_divisor(part) for part in place.src)
    return 1
