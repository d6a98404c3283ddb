"""Values that are stored the first time that something made of them is computed, because their tensor is still there.

    w = Tensor.randn(64, 64)        # a graph of arithmetic on positions
    (x @ w).realize()               # w is computed inside, and stored on the way: it lives, and may be asked for again
    (y @ w).realize()               # reads it

Random numbers cost a hundred operations each, and `contiguous()` says that a value is to be in memory; without this,
each use would compute them again. A tensor that is gone by then is not stored.
"""

from __future__ import annotations

import weakref
from collections.abc import Sequence
from functools import partial
from typing import Any

from whit.ir import ops
from whit.ir.uop import UOp

LARGEST_BYTES = 1 << 28  # bytes; what is larger is stored only if it is realised

_owners: dict[int, tuple[weakref.ref[UOp], weakref.ref[Any]]] = {}  # id of a node -> the node, its tensor


def store_when_computed(tensor: Any) -> None:
    """Marks the value of a tensor."""
    node = tensor.uop.src[0] if tensor.uop.op is ops.LEAF else tensor.uop
    key = id(node)
    _owners[key] = (weakref.ref(node, partial(_owners.pop, key)), weakref.ref(tensor))


def to_store(order: Sequence[UOp]) -> list[UOp]:
    """The marked nodes among these whose tensors live; they are marked no longer."""
    found = []
    for node in order if _owners else ():
        entry = _owners.pop(id(node), None) if id(node) in _owners else None
        tensor = None if entry is None else entry[1]()
        if tensor is not None and _is_value_of(node, tensor.uop) and _is_small(node):
            found.append(node)
    return found


def _is_value_of(node: UOp, uop: UOp) -> bool:
    return uop is node or (uop.op is ops.LEAF and uop.src[0] is node)


def _is_small(node: UOp) -> bool:
    size = node.dtype.itemsize
    for n in node.shape:
        size = size * n if isinstance(n, int) else LARGEST_BYTES + 1
    return node.device is not None and size <= LARGEST_BYTES
