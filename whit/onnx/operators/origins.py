"""Which floats stand for bytes: what DequantizeLinear gave, seen again by the operator that reads it.

    y = dequantised(Bytes(q, scale, zero))     floats
    origin(y), origin(y.transpose(0, 1))       Bytes of q, turned as y was

So a product of two such values can be a product of the bytes, with the scales on its sums, and what only moves or
picks elements does not leave the bytes. A float that nobody asks for is never computed.
"""

from __future__ import annotations

import weakref

from whit.cache import register_cache
from whit.dtype import dtypes
from whit.ir import ops
from whit.ir.uop import UOp
from whit.records import dataclass
from whit.tensor import Tensor

FAR_NODES = 100
BYTES = (dtypes.int8, dtypes.uint8)


@dataclass(frozen=True, slots=True)
class Bytes:
    """(values - zero) * scale. Scale and zero point are one number, or one for each slice of `axis`."""

    values: Tensor
    scale: Tensor
    zero: Tensor | int | None
    axis: int | None = None
    numbers: tuple[float, int] | None = None  # scale and zero point, where the host knows both and each is one


_origins: weakref.WeakKeyDictionary[UOp, Bytes] = weakref.WeakKeyDictionary()
_sums: weakref.WeakKeyDictionary[UOp, bool] = weakref.WeakKeyDictionary()
register_cache(_origins.clear, "onnx.origins")
register_cache(_sums.clear, "onnx.sums")


def note(result: Tensor, found: Bytes) -> Tensor:
    """Remembers what floats stand for."""
    _origins[result.uop] = found
    return result


def dequantised(found: Bytes) -> Tensor:
    """The floats that bytes in one scale stand for."""
    wide = found.values.cast(dtypes.int32)
    zero = found.zero.cast(dtypes.int32) if isinstance(found.zero, Tensor) else found.zero
    moved = wide if zero is None else wide - zero
    return note(moved.cast(dtypes.float32) * found.scale, found)


def note_sum(result: Tensor) -> Tensor:
    """Remembers that floats are sums of bytes with a scale on them."""
    _sums[result.uop] = True
    return result


def is_of_bytes(x: Tensor) -> bool:
    """Whether floats are made, element by element, of what bytes stand for or of their sums."""
    stack, seen = [x.uop], {x.uop}
    while stack and len(seen) < FAR_NODES:
        node = stack.pop()
        if node in _sums or node in _origins:
            return True
        if node.op.elementwise or node.op in ops.MOVEMENT or node.op is ops.CAST:
            fresh = [s for s in node.src if s not in seen]
            seen.update(fresh)
            stack.extend(fresh)
    return False


def origin(x: Tensor) -> Bytes | None:
    """The bytes that a value stands for; None if it stands for itself."""
    node, views = x.uop, []
    while node not in _origins and node.op in ops.MOVEMENT and node.op is not ops.PAD:
        views.append(node)
        node = node.src[0]
    found = _origins.get(node)
    if found is None or not views:
        return found
    if found.axis is not None:
        return _turned(found, views)
    values = found.values.uop
    for view in reversed(views):
        values = view.replace(src=(values, *view.src[1:]))
    return Bytes(Tensor(values), found.scale, found.zero, None, found.numbers)


def _turned(found: Bytes, views: list[UOp]) -> Bytes | None:
    """A weight that is turned is one still; its scales are for the axis that moved."""
    if len(views) != 1 or views[0].op is not ops.PERMUTE or found.axis is None:
        return None
    order = tuple(views[0].arg)
    return Bytes(Tensor(found.values.uop.permute(order)), found.scale, found.zero, order.index(found.axis))
