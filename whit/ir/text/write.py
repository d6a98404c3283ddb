"""The text form of the IR: one node a line, sources before users, constants in place. `parse` reads it back.

    >>> from whit.ir.uop import UOp
    >>> x = UOp.variable("x", 0, 1000)
    >>> print(to_text((x * 3 + 5) % 977))
    x = variable "x", 0..1000
    %1 = mul x, 3
    %2 = add %1, 5
    %3 = floormod %2, 977

A line is `name = op operands, field=value`. Effects that nobody refers to have no name.

- Names: variables, ranges (`r0`), params (`p0`), buffers (`b3`) and functions have their own, with `.1`, `.2` behind it
  where two differ in something else; all others are numbered.
- Constants: `3` is a weakint and `1.5` a weakfloat; the others name their dtype (`3:int32`, `-inf:float16`), except
  `true` and `false`. A NaN with a payload shows its bits: `nan(0x7fc00001):float32`. Complex numbers are their bits.
- Symbolic sizes stand in their place, `shape=(4, n)`; a size that is a constant node is written `4:weakint`.
- A function is a block `f = function "f" {` ... `}` with names of its own; functions come before their callers.
- `linear ...` lists every line above it, in order; the loops of such a program are indented.
- The last line is the root. Where that cannot be, a line `roots a, b` names the roots.
- What follows a `#` is a comment; the printer notes dtypes and shapes there that the line does not show.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Callable, Iterable
from typing import Any

from whit.dtype import DType, dtypes, encode
from whit.ir import ops
from whit.ir.graph import topological
from whit.ir.op import Op, Shape, spell_int, spell_shape
from whit.ir.text.spell import FIRST_SIZE, TELLS_TYPE, spell_argument, spell_text, spell_value
from whit.ir.uop import UOp, const

Spelled = dict[UOp, str]  # how each node is referred to: its name, or the text of a constant

RESERVED = frozenset({"true", "false", "nan", "inf", "none"})  # the names that operands cannot have


def to_text(roots: UOp | Iterable[UOp], types: bool = True) -> str:
    """The text of the graph below one root or several. `types` adds the comments on dtypes and shapes."""
    wanted = (roots,) if isinstance(roots, UOp) else tuple(roots)
    lines: list[str] = []
    functions: Spelled = {}
    naming = Naming()
    for function, order in _functions_below(wanted):
        name = naming.choose(function)
        params = "" if _params(order) == function.arg.params else f", params={spell_value(function.arg.params)}"
        lines.append(f"{name} = function {spell_text(function.arg.name)}{params} {{")
        _write_scope(function.src, order, functions, lines, "  ", types)
        lines.append("}")
        functions[function] = name
    # A function that is the root is already the last block.
    last_is_root = bool(functions) and wanted == (next(reversed(functions)),)
    if not last_is_root:
        _write_scope(wanted, topological(wanted), functions, lines, "", types)
    return "\n".join(lines)


def excerpt(root: UOp, limit: int = 12) -> str:
    """The text of the `limit` nodes nearest below a node, for messages; what lies further down is only named."""
    near = _nearest(root, limit)
    beyond = dict.fromkeys(s for node in near for s in node.src if s not in near and s.op is not ops.CONST)
    naming = Naming()
    lines = []
    names: Spelled = {}
    for node in topological([root], stop=beyond):
        for source in (*node.src, node):
            if source not in names:
                names[source] = naming.choose(source)
        if node.op is not ops.CONST:
            comment = "" if node.op in TELLS_TYPE else _comment(node.dtype, node.shape)
            lines.append(f"{names[node]} = {spell(node, names)}{comment}")
    return "\n".join(["..."] * bool(beyond) + [line if len(line) <= 120 else line[:117] + "..." for line in lines])


def _nearest(root: UOp, limit: int) -> set[UOp]:
    """A node and those below it, the nearest first, `limit` of them."""
    near = {root}
    frontier = [root]
    while frontier and len(near) < limit:
        below = dict.fromkeys(s for node in frontier if not node.op.opaque for s in node.src)
        frontier = [s for s in below if s not in near][: limit - len(near)]
        near.update(frontier)
    return near


class Naming:
    """Gives out names, none of them twice."""

    def __init__(self, taken: Iterable[str] = ()) -> None:
        self.taken = set(taken)
        self.numbered = 0

    def choose(self, node: UOp) -> str:
        """A free name for the node; for a constant, its text."""
        if node.op is ops.CONST:
            return spell_const(node)
        hint = HINTS.get(node.op)
        wish = hint(node.arg) if hint is not None else ""
        if not (wish.isascii() and wish.isidentifier()) or wish in RESERVED:
            self.numbered += 1
            return f"%{self.numbered}"
        name, count = wish, 0
        while name in self.taken:
            count += 1
            name = f"{wish}.{count}"
        self.taken.add(name)
        return name


HINTS: dict[Op, Callable[[Any], str]] = {
    ops.VARIABLE: lambda arg: str(arg.name),
    ops.FUNCTION: lambda arg: str(arg.name),
    ops.RANGE: lambda arg: arg.name,
    ops.PARAM: lambda arg: f"p{arg.slot}",
    ops.BUFFER: lambda arg: f"b{arg.id}",
}


def _functions_below(roots: Iterable[UOp]) -> list[tuple[UOp, list[UOp]]]:
    """Every function reachable from the roots with the nodes of its body, callees before callers."""
    done: dict[UOp, list[UOp]] = {}
    bodies: dict[UOp, list[UOp]] = {}
    stack = _functions(topological(roots))[::-1]
    while stack:
        function = stack[-1]
        if function in bodies:
            stack.pop()
            done.setdefault(function, bodies[function])
            continue
        bodies[function] = topological(function.src)
        stack += [callee for callee in reversed(_functions(bodies[function])) if callee not in bodies]
    return list(done.items())


def _functions(order: Iterable[UOp]) -> list[UOp]:
    return [node for node in order if node.op is ops.FUNCTION]


def _listable(order: list[UOp]) -> list[UOp]:
    """What `linear ...` as the last of these nodes stands for."""
    return [node for node in order[:-1] if node.op is not ops.CONST and node.op is not ops.FUNCTION]


def _params(order: Iterable[UOp]) -> tuple[Any, ...]:
    """What `UOp.function` derives from a body: the arguments of its params by slot."""
    found = {node.arg for node in order if node.op is ops.PARAM}
    return tuple(sorted(found, key=lambda param: param.slot))


def _write_scope(
    roots: tuple[UOp, ...], order: list[UOp], functions: Spelled, lines: list[str], margin: str, types: bool
) -> None:
    """Appends the lines of one body, or of the text's own nodes."""
    names = _names_from_elsewhere(order, functions)
    naming = Naming(names.values())
    program = roots[0] if _is_program(roots, order) else None
    anonymous = _without_names(roots, order if program is None else order[:-1])
    step, depth = "  " * (program is not None), 0  # the loops of a program are indented
    comments = _Comments()
    for node in order:
        if node in names:
            continue
        op = node.op
        if node is program:
            name, text = naming.choose(node), f"{op.name} ..."
        elif op.arg_type is None and node.src:  # most nodes, without three calls: 2.7 us -> 2.1 us (a chain of 200,000)
            naming.numbered += 1
            name, text = f"%{naming.numbered}", f"{op.name} {', '.join([names[s] for s in node.src])}"
        else:
            name, text = naming.choose(node), spell(node, names)
        names[node] = name
        if types and op not in TELLS_TYPE:
            text += comments[node.dtype, node.shape]
        if op is ops.END:
            depth = max(depth - 1, 0)
        indent = margin + step * depth
        lines.append(f"{indent}{text}" if node in anonymous else f"{indent}{name} = {text}")
        depth += op is ops.RANGE or op is ops.IF
    _write_roots(roots, names, lines, margin)


def _names_from_elsewhere(order: list[UOp], functions: Spelled) -> Spelled:
    """What has no line: functions, which have blocks, and constants, which are spelled in place."""
    names = {node: functions[node] for node in _functions(order)}
    names.update((node, spell_const(node)) for node in order if node.op is ops.CONST)
    return names


def _is_program(roots: tuple[UOp, ...], order: list[UOp]) -> bool:
    """Whether these nodes are those of one `linear ...`, which lists them."""
    if len(roots) != 1 or roots[0].op is not ops.LINEAR:
        return False
    return bool(roots[0].src) and list(roots[0].src) == _listable(order)


def _without_names(roots: tuple[UOp, ...], users: list[UOp]) -> set[UOp]:
    """The effects that nobody refers to."""
    effects = {node for node in (*users, *roots) if node.dtype is dtypes.void}
    if len(effects) > 1:
        effects.difference_update(*[node.src for node in users])
    return effects.difference(roots) if len(roots) > 1 else effects


class _Comments(dict[tuple[DType, Shape], str]):
    """The comments on dtypes and shapes, each made once."""

    def __missing__(self, value_type: tuple[DType, Shape]) -> str:
        comment = self[value_type] = _comment(*value_type)
        return comment


def _write_roots(roots: tuple[UOp, ...], names: Spelled, lines: list[str], margin: str) -> None:
    """Names the roots where the last line is not the root."""
    if len(roots) == 1 and roots[0].op is ops.CONST:
        lines.append(f"{margin}const {names[roots[0]]}")
    elif len(roots) != 1 or roots[0].op is ops.FUNCTION:
        lines.append(f"{margin}roots {', '.join([names[root] for root in roots])}".rstrip())


# ---- one node


def spell(node: UOp, names: Spelled) -> str:
    """The line of one node without its name: `mul x, 3`. `names` has its sources."""
    op = node.op
    if op is ops.FUNCTION:
        return _spell_function(node, names)
    first_size = FIRST_SIZE.get(op, len(node.src))
    operands = [names[s] for s in node.src[:first_size]]
    if _is_gated(node):
        operands[-1] = f"gate={operands[-1]}"
    sizes = [f"{names[s]}:weakint" if s.op is ops.CONST else names[s] for s in node.src[first_size:]]
    parts = operands + spell_argument(op, node.arg, sizes)
    return f"{op.name} {', '.join(parts)}" if parts else op.name


def _is_gated(node: UOp) -> bool:
    """Whether the last source is the gate of an access."""
    op = node.op
    if op is ops.LOAD:
        return len(node.src) == 3
    return bool(node.arg) if op is ops.INDEX else op is ops.STORE and node.arg.gated


def _spell_function(node: UOp, names: Spelled) -> str:
    """One line for messages and differences; `to_text` writes a block instead."""
    (body,) = node.src
    return f"function {spell_text(node.arg.name)} {{ {names[body]} }}, params={spell_value(node.arg.params)}"


def spell_const(node: UOp) -> str:
    """A constant: `3`, `true`, `1.5:float32`, `nan(0xffc00000):float32`."""
    dtype, value = node.dtype, node.arg
    if dtype.is_bool:
        return "true" if value else "false"
    if dtype is dtypes.weakint:
        return spell_int(value)
    if dtype.is_int:
        return f"{value}:{dtype.name}"
    if dtype.is_complex:
        return f"{encode(dtype, value):#x}:{dtype.name}"
    text = repr(value)
    if math.isnan(value):
        text = "nan" if node is const(dtype, math.nan) else f"nan({nan_bits(dtype, value):#x})"
    return text if dtype is dtypes.weakfloat else f"{text}:{dtype.name}"


def nan_bits(dtype: DType, value: float) -> int:
    """The bits of a NaN as its dtype stores it; those of a double as they are, signalling or not."""
    if dtype is dtypes.float64 or dtype is dtypes.weakfloat:
        return int.from_bytes(struct.pack(">d", value), "big")
    return encode(dtype, value)


def _comment(dtype: DType, shape: Shape) -> str:
    """The dtype and shape of a value; nothing for effects, for scalars that are indices, and for truth values."""
    if not shape and dtype in (dtypes.weakint, dtypes.bool, dtypes.void):
        return ""
    return f"  # {dtype.name}{spell_shape(shape) if shape else ''}"
