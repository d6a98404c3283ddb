"""Kernels do not know which part of a memory they access: it is an argument, so that equal steps are one kernel.

    store p0[r0, r1] = p1[7, r0, r1], p1 of (64, 4, 16)         store p0[r0, r1] = p1[0, r0, r1], p1 of (1, 4, 16)
    call f(t0, x)                                         ->    call f(t0, x.shrink(((7, 1), (0, 4), (0, 16))))

Goes in: the stores of a kernel over its own params, and the memories that these stand for. Comes out: the same with
smaller params, where all that a kernel accesses of a memory lies together and is less than the memory. Wide accesses of
a GPU begin at a multiple of 16 bytes, so there only such windows are taken.
"""

from __future__ import annotations

from collections.abc import Iterable
from math import prod

from whit.ir import ops
from whit.ir.map_graph import map_graph, rebuilt
from whit.ir.op import Shape, Sources
from whit.ir.uop import UOp, as_index
from whit.simplify import simplify
from whit.simplify.bounds import bounds
from whit.target import GPU_LIMITS

ALIGNMENT_BYTES = GPU_LIMITS.access_bytes
MEMORIES = (ops.PARAM, ops.BUFFER)
Window = tuple[tuple[int, int], ...]  # the start and the length along each axis


def pass_windows(body: UOp, arguments: list[UOp], is_aligned: bool) -> tuple[UOp, list[UOp]]:
    """The body over windows of memories, and the arguments."""
    windows = {
        param: window
        for param, accesses in _accesses(body).items()
        if (window := _window(param, accesses)) is not None and (not is_aligned or _is_aligned(param, window))
    }
    if not windows:
        return body, arguments

    def inside(node: UOp, src: Sources) -> UOp | None:
        if node in windows:
            return UOp.param(node.arg.slot, node.dtype, tuple(length for _, length in windows[node]))
        if node.op in (ops.INDEX, ops.STORE) and node.src[0] in windows:
            return rebuilt(node, tuple(_moved(node, list(src), windows[node.src[0]])))
        return None

    parts = list(arguments)
    for param, window in windows.items():
        parts[param.arg.slot] = arguments[param.arg.slot].shrink(window)
    return map_graph(body, inside), parts


def _positions(node: UOp) -> range:
    """Which sources of an access are positions."""
    if node.op is ops.INDEX:
        return range(1, len(node.src) - bool(node.arg))
    return range(2, len(node.src) - node.arg.gated)


def _accesses(body: UOp) -> dict[UOp, list[UOp]]:
    """The params of known shape that a kernel accesses by elements only, with these accesses."""
    found: dict[UOp, list[UOp]] = {}
    whole: set[UOp] = set()
    for node in body.topological():
        first = 0
        if node.op in (ops.INDEX, ops.STORE) and node.src[0].op is ops.PARAM:
            first = 1
            memory = node.src[0]
            if len(_positions(node)) == len(memory.shape):
                found.setdefault(memory, []).append(node)
            else:
                whole.add(memory)
        whole.update(s for s in node.src[first:] if s.op is ops.PARAM)
    return {param: nodes for param, nodes in found.items() if param not in whole and _is_known(param.shape)}


def _is_known(shape: Shape) -> bool:
    return len(shape) > 0 and set(map(type, shape)) <= {int}


def _window(param: UOp, accesses: Iterable[UOp]) -> Window | None:
    """The elements that are accessed, if they lie together and are not all: one along the first axes, then some, then
    all."""
    shape: Shape = param.shape
    parts = [(0, size) for size in shape]
    for axis, size in enumerate(shape):
        low, high = size, -1
        for node in accesses:
            found = bounds(node.src[_positions(node)[axis]])
            if found is None:
                return None
            low, high = min(low, found[0]), max(high, found[1])
        if low < 0 or high >= size:  # beyond a gate
            low, high = 0, size - 1
        parts[axis] = (low, high - low + 1)
        if low != high:
            break
    window = tuple(parts)
    return None if prod(length for _, length in window) == prod(shape) else window


def _is_aligned(param: UOp, window: Window) -> bool:
    start, stride = 0, param.dtype.itemsize
    for size, (first, _) in zip(reversed(param.shape), reversed(window), strict=True):
        start += first * stride
        stride *= size
    return start % ALIGNMENT_BYTES == 0


def _moved(node: UOp, src: list[UOp], window: Window) -> list[UOp]:
    """The sources of an access, in its window."""
    moved = list(src)
    for place, (start, length) in zip(_positions(node), window, strict=True):
        if length == 1:
            moved[place] = as_index(0)
        elif start:
            moved[place] = simplify(src[place] - start)
    return moved
