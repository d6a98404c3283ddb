"""Questions about graphs: what is below a node, how it reads, which one comes first. Nothing here builds a node.

Every traversal is iterative, so the depth of a graph does not matter.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any

from whit.cache import register_cache
from whit.ir import ops
from whit.ir.op import Op, spelled
from whit.ir.record import set_digest

if TYPE_CHECKING:
    from whit.ir.uop import UOp

_double = struct.Struct("<d")


def topological(roots: Iterable[UOp], enter_functions: bool = False, stop: Iterable[UOp] = ()) -> list[UOp]:
    """Every node reachable from the roots, each once, sources before users. Iterative: depth does not matter."""
    order: list[UOp] = []
    seen: set[UOp | None] = set(stop)
    stack: list[UOp | None] = list(roots)
    stack.reverse()
    while stack:
        node = stack.pop()
        if node is None:
            order.append(stack.pop())  # type: ignore[arg-type]
            continue
        if node in seen:
            continue
        seen.add(node)
        src = node.src
        if not src or (node.op.opaque and not enter_functions):
            order.append(node)
            continue
        stack.append(node)
        stack.append(None)
        for s in reversed(src):
            if s not in seen:
                stack.append(s)
    return order


def walk(root: UOp, op: Op) -> Iterator[UOp]:
    """The nodes of one op below and including root, sources first."""
    return (node for node in topological((root,)) if node.op is op)


def flatten(root: UOp) -> list[tuple[Any, ...]]:
    """The graph as a flat list of (op, dtype, source positions, argument): what pickle stores, whatever the depth."""
    position: dict[UOp, int] = {}
    rows: list[tuple[Any, ...]] = []
    for node in topological((root,), enter_functions=True):
        position[node] = len(rows)
        if node.op is ops.CONST:
            rows.append((node.op, node.dtype, (), _double.pack(node.arg) if node.dtype.is_float else node.arg))
        else:
            rows.append((node.op, None, tuple(position[s] for s in node.src), node.arg))
    return rows


def expression(root: UOp, limit: int = 200) -> str:
    """Infix text of a value, by the spellings of the op table; deep parts become an ellipsis."""
    text: dict[UOp, str] = {}
    order = topological((root,))
    for i, node in enumerate(order):
        if len(order) - i > limit:
            text[node] = "…"
            continue
        parts = [text[s] for s in node.src]
        if node.op is ops.CONST:
            text[node] = str(node.arg)
        elif node.op is ops.VARIABLE:
            text[node] = node.arg.name
        elif node.op is ops.RANGE:
            text[node] = f"r{node.arg.id}"
        elif node.op is ops.PARAM:
            text[node] = f"p{node.arg.slot}"
        elif node.op is ops.INDEX:
            text[node] = f"{parts[0]}[{', '.join(parts[1:])}]"
        elif node.op is ops.CAST:
            text[node] = f"{node.dtype.name}({parts[0]})"
        elif node.op.spelling:
            text[node] = spelled(node.op, parts, [s.op for s in node.src])
        else:
            text[node] = f"{node.op.name}({', '.join(parts)})"
        if len(text[node]) > 20 * limit:  # a shared node is written out each time: 2**n letters for n nodes
            text[node] = "…"
    result = text[root]
    return result[1:-1] if result.startswith("(") and _closes_at_end(result) else result


def _closes_at_end(text: str) -> bool:
    depth = 0
    for i, letter in enumerate(text):
        depth += (letter == "(") - (letter == ")")
        if depth == 0:
            return i == len(text) - 1
    return False


_numbers: dict[Any, int] = {}  # op, dtype or argument -> a number that is the same in every process
register_cache(_numbers.clear, "digests of arguments")


def _number(thing: Any) -> int:
    number = _numbers.get(thing)
    if number is None:
        number = _numbers[thing] = zlib.crc32(repr(thing).encode())
    return number


def digest(node: UOp) -> int:
    """A number that depends on the structure alone: the same in every process, and almost surely different for
    different graphs. For orders that must not depend on when a node was built; not for telling graphs apart."""
    stack = [node] if node.known_digest is None else []
    while stack:  # only through nodes whose digest is not known yet, and whatever the depth
        current = stack[-1]
        for s in current.src:
            if s.known_digest is None:
                stack.append(s)
        if stack[-1] is not current:
            continue
        arg = current.arg
        if type(arg) is not int:
            arg = 0 if arg is None else _number(_double.pack(arg) if type(arg) is float else arg)
        # a hash of integers: not randomised between processes
        parts = (_number(current.op), _number(current.dtype), arg, *[s.known_digest for s in current.src])
        set_digest(current, hash(parts))
        stack.pop()
    return node.known_digest  # type: ignore[return-value]
