"""Comments in PTX, for those who read it under DEBUG=4: what is passed, how often loops run, what is accessed.

    // p1: 64000 x float32, read
    // r3 = 0 .. 15
    // load p1[r0 * 1000 + r3 * 4], 4 in a row

Names are those of the linear program (DEBUG=6): `r3` is the range with that number, wherever registers have it.
"""

from __future__ import annotations

from whit.ir import ops
from whit.ir.args import Memory, RangeKind
from whit.ir.uop import UOp
from whit.render.program import params_of, written_by

LONGEST_CHARACTERS = 140  # characters of a position
_SIGNS = {ops.ADD: "+", ops.SUB: "-", ops.MUL: "*", ops.FLOORDIV: "//", ops.FLOORMOD: "%", ops.CDIV: "/", ops.CMOD: "%"}
_COUNTED = {RangeKind.BLOCK: "the block", RangeKind.THREAD: "the thread"}


def of_params(linear: UOp) -> list[str]:
    """What a function takes."""
    written = {*written_by(linear)}
    found = []
    for node in params_of(linear):
        use = "written" if node in written else "read"
        size = node.shape[0] if node.shape and not isinstance(node.shape[0], UOp) else "many"
        found.append(f"// p{node.arg.slot}: {size} x {node.dtype.name}, {use}")
    return found


def of_range(node: UOp) -> str:
    """What a range counts."""
    (size,) = node.src
    last = f" .. {int(size.arg) - 1}" if size.op is ops.CONST else " and on"
    who = f", {_COUNTED[node.arg.kind]}" if node.arg.kind in _COUNTED else ""
    return f"{node.arg.name} = 0{last}{who}"


def of_access(verb: str, memory: UOp, position: UOp, width: int) -> str:
    """Which elements are loaded or stored."""
    if memory.op is ops.PARAM:
        name = f"p{memory.arg.slot}"
    else:
        name = f"{'local' if memory.arg.memory is Memory.REGISTER else 'shared'}{memory.arg.id}"
    if position.shape:
        return f"{verb} {width} elements of {name}"
    text = _position(position)
    place = text if len(text) <= LONGEST_CHARACTERS else "..."
    return f"{verb} {name}[{place}]" + (f", {width} in a row" if width > 1 else "")


def _position(node: UOp, inside: bool = False, depth: int = 0) -> str:
    if node.op is ops.CONST:
        return str(node.arg)
    if node.op is ops.RANGE:
        return str(node.arg.name)
    if node.op is ops.CAST:
        return _position(node.src[0], inside, depth)
    if node.op is ops.VARIABLE:
        return str(node.arg.name)
    if node.op not in _SIGNS or depth > 8:
        return node.op.name
    left, right = (_position(source, node.op is not ops.ADD, depth + 1) for source in node.src)
    text = f"{left} {_SIGNS[node.op]} {right}"
    return f"({text})" if inside and node.op is not ops.MUL else text
