"""Rows of temporary memory begin where vectors and tensor cores can read them.

    t0 = buffer bfloat16(64, 50257)                  ->   t0 = buffer bfloat16(64, 50304)
    k0: store t0[r0, r1] = ...   r1 < 50257               the same: nobody needs what is behind a row (`fill_rows`)
    k1: sum over k of t0[r0, k] * w[k, r1]

Goes in: a schedule. Comes out: the same with longer rows of the buffers that a kernel with a reduction reads or writes,
where little is added. For GPUs only: they copy 16 bytes at once, or tiles, whose lines begin at a multiple of 16.
"""

from __future__ import annotations

from whit.ir import ops
from whit.ir.uop import UOp, make
from whit.schedule.rewrites.fill_rows import fill_rows
from whit.target import GPU_LIMITS

SECTOR_BYTES = GPU_LIMITS.l2_line_bytes
LEAST_ROW_BYTES = 16 * SECTOR_BYTES  # bytes of a row that is made longer


def align_rows(linear: UOp) -> UOp:
    """The schedule with aligned rows."""
    longer = {buffer: _with_row(buffer) for buffer in _accessed(linear) if _is_uneven(buffer)}
    if not longer:
        return linear
    functions: dict[tuple[UOp, ...], UOp] = {}  # by the function and its arguments' shapes: equal layers stay equal
    calls = []
    for call in linear.src:
        function, *arguments = call.src
        changed = {slot: longer[argument] for slot, argument in enumerate(arguments) if argument in longer}
        key = (function, *[UOp.param(slot, new.dtype, new.shape) for slot, new in changed.items()])
        if key not in functions:
            functions[key] = _over(function, key[1:])
        calls.append(make(ops.CALL, (functions[key], *[longer.get(a, a) for a in arguments]), call.arg))
    return make(ops.LINEAR, tuple(calls), linear.arg)


def _accessed(linear: UOp) -> list[UOp]:
    """The buffers of which kernels access one element at a time, and one of these kernels has a reduction."""
    reduced: dict[UOp, None] = {}
    others: set[UOp] = set()
    for call in linear.src:
        function, *arguments = call.src
        nodes = function.src[0].topological()
        reduces = any(node.op is ops.REDUCE for node in nodes)
        whole = {s.arg.slot for node in nodes for s in node.src[_first_value(node) :] if s.op is ops.PARAM}
        for slot, argument in enumerate(arguments):
            if argument.op is not ops.BUFFER or slot in whole:
                others.update(node for node in argument.topological() if node.op is ops.BUFFER)
            elif reduces:
                reduced[argument] = None
    return [buffer for buffer in reduced if buffer not in others]


def _first_value(node: UOp) -> int:
    """Which source of a node is the first that is no memory whose element it accesses."""
    return 1 if node.op in (ops.INDEX, ops.STORE) else 0


def _is_uneven(buffer: UOp) -> bool:
    if len(buffer.shape) < 2 or not all(isinstance(size, int) for size in buffer.shape):
        return False
    nbytes: int = buffer.shape[-1] * buffer.dtype.itemsize
    return nbytes >= LEAST_ROW_BYTES and nbytes % SECTOR_BYTES != 0


def _with_row(buffer: UOp) -> UOp:
    """The same buffer with longer rows."""
    size = buffer.dtype.itemsize
    row = -(-buffer.shape[-1] * size // SECTOR_BYTES) * SECTOR_BYTES // size
    return UOp.buffer(buffer.arg.id, buffer.dtype, (*buffer.shape[:-1], row))


def _over(function: UOp, params: tuple[UOp, ...]) -> UOp:
    """The function with these params in their slots."""
    (body,) = function.src
    slots = {param.arg.slot: param for param in params}
    old = [node for node in body.topological() if node.op is ops.PARAM and node.arg.slot in slots]
    body = body.substitute({param: slots[param.arg.slot] for param in old})
    return fill_rows(body, params).function(function.arg.name)
