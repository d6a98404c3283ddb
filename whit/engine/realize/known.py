"""What is known about a value without running anything: it is in memory, a part of what is there, or a number.

    known(x + 1)            the BUFFER that holds it, if it was computed before
    without_kernel(b[2:4])  a BUFFER over the part of b's memory that it is

Everything else has to be computed (`realize`).
"""

from __future__ import annotations

from math import prod

from whit.engine.memory.storage import attach, computed, computed_entries, from_bytes, nbytes_of, remember, storage
from whit.engine.memory.view import view_of_buffer
from whit.engine.plan.find_plan import encoded
from whit.engine.realize.effects import stored_value
from whit.engine.realize.parametrise import SPREADS
from whit.engine.report.launch_names import keep_made
from whit.ir import ops
from whit.ir.uop import UOp

# bytes; a constant tensor of at most this size is written from Python, without a kernel
MOST_FILLED_BY_HAND_BYTES = 4096


def known(node: UOp) -> UOp | None:
    """The BUFFER of a node, if it has one."""
    return node if node.op is ops.BUFFER else computed(node)


def value_of(root: UOp) -> UOp:
    """The node that has the value of a root: behind those that only have other gradients, and behind whole stores."""
    while True:
        if root.op in ops.SAME_VALUE:
            value: UOp | None = root.src[0]
        else:
            value = root.member if root.op is ops.ITEM else stored_value(root)
        if value is None or id(root) in computed_entries:
            return root
        root = keep_made(value, root)


def unknown(pairs: list[tuple[UOp, str]]) -> list[tuple[UOp, str]]:
    """Those of some nodes, with their devices, that are not in memory; each once."""
    return [pair for pair in dict.fromkeys(pairs) if known(pair[0]) is None]


def keep(node: UOp, device: str, result: UOp, found: dict[tuple[UOp, str], UOp]) -> None:
    """What has a device is remembered for all graphs; a value of constants may be wanted elsewhere next time."""
    if node.device is None:
        found[node, device] = result
    else:
        remember(node, result)


def without_kernel(root: UOp, device: str) -> UOp | None:
    """A contiguous part of a buffer needs no kernel, and a small constant no code."""
    part = view_of_buffer(root)
    if part is not None:
        base, offset = part
        return attach(storage(base).view(offset, nbytes_of(root.dtype, root.shape)), root.dtype, root.shape)
    value = filled_by_hand(root, device)
    return None if value is None else from_bytes(encoded(value) * prod(root.shape), root.dtype, root.shape, device)


def filled_by_hand(root: UOp, device: str) -> UOp | None:
    """The CONST that fills a tensor, if the tensor is so small that no kernel is worth it."""
    value = root
    while (value.op in SPREADS and len(value.src) == 1) or value.op in ops.SAME_VALUE:
        value = value.src[0]
    if value.op is not ops.CONST or device.startswith(("NULL", "DISK")):
        return None
    size = value.dtype.itemsize
    return value if size and prod(root.shape) * size <= MOST_FILLED_BY_HAND_BYTES else None
