"""Questions about graphs: what is below a node, how it reads, which one comes first. Nothing here builds a node.

Every traversal is iterative, so the depth of a graph does not matter.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Iterable, Mapping
from enum import Enum
from typing import TYPE_CHECKING, Any

from whit.cache import register_cache
from whit.dtype import DType
from whit.ir import ops
from whit.ir.nesting import Owner
from whit.ir.op import Op, spell_int, spelled, without_parentheses
from whit.ir.record import set_digest
from whit.records import fields, is_dataclass

if TYPE_CHECKING:
    from whit.ir.uop import UOp

_double = struct.Struct("<d")
_two_doubles = struct.Struct("<dd")


def pack_number(value: Any) -> Any:
    """What tells a number of one dtype from all others: of floats and complex numbers the bits, of which -0.0 and each
    NaN have their own; integers are themselves."""
    if type(value) is float:
        return _double.pack(value)
    return _two_doubles.pack(value.real, value.imag) if type(value) is complex else value


def unpack_number(packed: Any) -> Any:
    """The number of which `pack_number` made this."""
    if type(packed) is not bytes:
        return packed
    return _double.unpack(packed)[0] if len(packed) == _double.size else complex(*_two_doubles.unpack(packed))


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


class OpsIn:
    """The ops in a graph, found once as long as a pipeline leaves it as it is."""

    def __init__(self) -> None:
        self._graph: UOp | None = None
        self._found: frozenset[Op] = frozenset()

    def __call__(self, graph: UOp) -> frozenset[Op]:
        if graph is not self._graph:
            self._graph, self._found = graph, frozenset([node.op for node in topological((graph,))])
        return self._found


def has_complex(graph: UOp) -> bool:
    """Whether a value in a graph, or in the body of a function that it calls, is complex."""
    return any(node.dtype.is_complex for node in topological((graph,), enter_functions=True))


def joined(root: UOp, op: Op) -> list[UOp]:
    """What an op joins, from left to right: the terms of a sum, the conditions of an `and`."""
    found: list[UOp] = []
    stack = [root]
    while stack:
        node = stack.pop()
        if node.op is op:
            stack.extend(reversed(node.src))
        else:
            found.append(node)
    return found


def memory_of(node: UOp) -> UOp:
    """The PARAM or BUFFER behind what a LOAD or STORE names."""
    while node.op is ops.AFTER:
        node = node.src[0]
    return node


def flatten(root: UOp) -> list[tuple[Any, ...]]:
    """The graph as a flat list of (op, dtype, source positions, argument): what pickle stores, whatever the depth."""
    position: dict[UOp, int] = {}
    rows: list[tuple[Any, ...]] = []
    for node in topological((root,), enter_functions=True):
        position[node] = len(rows)
        if node.op is ops.CONST:
            rows.append((node.op, node.dtype, (), pack_number(node.arg)))
        else:
            rows.append((node.op, None, tuple(position[s] for s in node.src), node.arg))
    return rows


def expression(root: UOp, limit: int = 200, names: Mapping[UOp, str] | None = None) -> str:
    """Infix text of a value, by the spellings of the op table; deep parts become an ellipsis. `names` go first."""
    text: dict[UOp, str] = {}
    given = names or {}
    order = topological((root,), stop=given)
    for i, node in enumerate(order):
        if len(order) - i > limit:
            text[node] = "…"
            continue
        text[node] = _one_node(node, [given[s] if s in given else text[s] for s in node.src])
        if len(text[node]) > 20 * limit:  # a shared node is written out each time: 2**n letters for n nodes
            text[node] = "…"
    return given[root] if root in given else without_parentheses(text[root])


def _one_node(node: UOp, parts: list[str]) -> str:
    """A node over the texts of its sources."""
    op, arg = node.op, node.arg
    if op is ops.CONST:
        return spell_int(arg) if type(arg) is int else str(arg)
    if op is ops.VARIABLE:
        return str(arg.name)
    if op is ops.RANGE:
        return str(arg.name)
    if op is ops.PARAM:
        return f"p{arg.slot}"
    if op is ops.BUFFER:
        return f"b{arg.id}"
    if op.spelling and op is not ops.CAST:
        return spelled(op, parts, [s.op for s in node.src])
    bare = [without_parentheses(part) for part in parts]
    if op is ops.INDEX:
        return f"{parts[0]}[{', '.join(bare[1:])}]"
    return f"{node.dtype.name if op is ops.CAST else op.name}({', '.join(bare)})"


MOST_NUMBERS = 30_000
_numbers: dict[Any, int] = {}  # op, dtype or argument -> a number that is the same in every process
register_cache(_numbers.clear, "digests of arguments")


def _number(thing: Any) -> int:
    number = _numbers.get(thing)
    if number is None:
        if len(_numbers) > MOST_NUMBERS:
            _numbers.clear()
        number = _numbers[thing] = zlib.crc32(_meaning(thing).encode())
    return number


def _meaning(thing: Any) -> str:
    """What an argument or a part of it says, as text that no new name and no new field with a default changes: a record
    is its fields by their places, without those that are as they are by default; a member of an enumeration its place
    there. Digests decide the order of operands: other text makes other kernels, which are worth as much."""
    if isinstance(thing, Op | DType):
        return thing.name
    if isinstance(thing, Enum):
        return f"#{thing.place if isinstance(thing, Owner) else list(type(thing)).index(thing)}"
    if isinstance(thing, tuple):
        return f"({','.join(map(_meaning, thing))})"
    if is_dataclass(thing):
        said = [each for each in fields(thing) if not each.metadata]  # no hints
        values = [(getattr(thing, each.name), each.default) for each in said]
        texts = [f"{place}:{_meaning(value)}" for place, (value, default) in enumerate(values) if value != default]
        return f"[{','.join(texts)}]"
    return repr(thing)


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
            arg = 0 if arg is None else _number(pack_number(arg))
        # a hash of integers: not randomised between processes
        parts = (_number(current.op), _number(current.dtype), arg, *[s.known_digest for s in current.src])
        set_digest(current, hash(parts))
        stack.pop()
    return node.known_digest  # type: ignore[return-value]
