"""Small numbers that are unpacked from bits become wide before they are unpacked, not after.

    cast(load 16 bytes >> 4, float32)    ->    cast(cast(load 16 bytes, int32) >> 4, float32)
    vector * cast(half, float32)         ->    vector * cast((half, half, ...), float32)

Bytes cannot be shifted in vectors, and a byte that holds several numbers is widened once for all of them. A half that
meets a vector is spread over the lanes as it is loaded, and converted there: one instruction less than the other way.
"""

from __future__ import annotations

from whit.dtype import dtypes
from whit.ir import ops
from whit.ir.graph import topological
from whit.ir.map_graph import map_graph, rebuilt
from whit.ir.op import Sources
from whit.ir.uop import UOp, const, make

BITWISE = (ops.AND, ops.OR, ops.XOR, ops.SHR, ops.SHL)
BYTE = 255


def widen_bits(body: UOp) -> UOp:
    """The kernel with bits unpacked in vectors of int32."""
    return map_graph(body, _in_int32)


def _in_int32(node: UOp, src: Sources) -> UOp | None:
    if node.shape and node.op.elementwise and any(_is_half(s) for s in src):
        src = tuple([_broadcast_lanes(s, node.shape[0]) if _is_half(s) else s for s in src])
    new = rebuilt(node, src)
    return _widened(new) if node.op is ops.CAST and node.shape else new


def _is_half(node: UOp) -> bool:
    """Whether this is one float16 as a float32."""
    return (
        not node.shape and node.op is ops.CAST and node.dtype is dtypes.float32 and node.src[0].dtype is dtypes.float16
    )


def _broadcast_lanes(node: UOp, width: int) -> UOp:
    (half,) = node.src
    return UOp.stack(*([half] * width)).cast(dtypes.float32)


def _widened(node: UOp) -> UOp:
    """A cast of bytes that are made of others by their bits."""
    (bits,) = node.src
    if bits.dtype is not dtypes.uint8 or bits.op not in BITWISE or node.dtype.itemsize < 4:
        return node
    wide: dict[UOp, UOp] = {}
    for part in topological((bits,)):
        if _is_bitwise(part):
            result = make(part.op, tuple([wide[s] if s in wide else _as_int(s) for s in part.src]))
            wide[part] = result & const(dtypes.int32, BYTE) if part.op is ops.SHL else result
    return wide[bits].cast(node.dtype) if bits in wide else node


def _as_int(node: UOp) -> UOp:
    return const(dtypes.int32, node.arg) if node.op is ops.CONST else node.cast(dtypes.int32)


def _is_bitwise(node: UOp) -> bool:
    """Whether a byte is made of others by bits that wider numbers have too: shifts by less than their width."""
    if node.op not in BITWISE or node.dtype is not dtypes.uint8:
        return False
    return node.op not in (ops.SHR, ops.SHL) or (node.src[1].op is ops.CONST and node.src[1].arg < 8)
