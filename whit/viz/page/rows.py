"""Nodes as rows for the page. Constants are no nodes of their own: they stand among the operands, as text.

    %3 = add %1, 5      ["add", [1, "5"], "", "weakint", "5..104"]
    r0 = range 100, …   ["range", ["100"], "id=0, kind=loop", "weakint", "0..99"]

A row: op, operands (numbers of rows, or text), argument, type, range of values ("" where none is known).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from whit.ir import ops
from whit.ir.op import spell_shape
from whit.ir.text.spell import FIRST_SIZE, spell_argument
from whit.ir.text.write import spell_const, to_text
from whit.ir.uop import UOp
from whit.simplify.bounds import bounds
from whit.viz.model import Trace
from whit.viz.report.graphs import parsed

Row = list[Any]
Data = dict[str, Any]
MOST_DIGITS = 40  # of a bound


def row(node: UOp, number: Callable[[UOp], int]) -> Row:
    """The row of one node, whose sources have numbers."""
    if node.op is ops.CONST:
        return ["const", [], spell_const(node), type_text(node), ""]
    first_size = FIRST_SIZE.get(node.op, len(node.src))
    operands: list[int | str] = []
    for source in node.src:
        if source.op is ops.CONST:
            operands.append(spell_const(source))
        elif source.op is ops.FUNCTION:
            operands.append(source.arg.name)
        else:
            operands.append(number(source))
    sizes = [operand if isinstance(operand, str) else "…" for operand in operands[first_size:]]
    argument = ", ".join(spell_argument(node.op, node.arg, sizes))
    return [node.op.name, operands, argument, type_text(node), range_text(node)]


def type_text(node: UOp) -> str:
    """`float32(4, 3)`; nothing for an effect."""
    if node.dtype.name == "void":
        return ""
    return f"{node.dtype.name}{spell_shape(node.shape) if node.shape else ''}"


def range_text(node: UOp) -> str:
    """`0..99`, of an integer that is no whole range of its dtype."""
    if not node.dtype.is_int:
        return ""
    found = bounds(node)
    if found is None:
        return ""
    low, high = found
    if node.dtype.name != "weakint" and (low, high) == (node.dtype.min, node.dtype.max):
        return ""
    if max(abs(low), abs(high)).bit_length() > 3 * MOST_DIGITS:
        return "huge"
    return str(low) if low == high else f"{low}..{high}"


def graph_document(trace: Trace, graph: int) -> Data:
    """A whole graph. Functions come apart, once each; a call names its own as `function`."""
    root = parsed(trace, graph)
    text = trace.graphs.get(graph, "")
    if root is None:
        return {"text": text, "rows": [], "names": [], "root": -1, "functions": [], "calls": {}}
    if root.op is ops.FUNCTION:
        (root,) = root.src
    functions: dict[UOp, int] = {}
    bodies: list[Data] = []
    text = to_text(root)
    main = _scope(root, text, functions, bodies)
    return {"text": text, **main, "functions": bodies}


def _scope(root: UOp, text: str, functions: dict[UOp, int], bodies: list[Data]) -> Data:
    """The nodes of one body, sources first, with the names that the text form gives them."""
    order = [node for node in root.topological() if node.op not in (ops.CONST, ops.FUNCTION)]
    numbers = {node: number for number, node in enumerate(order)}
    calls: dict[int, int] = {}
    for node in order:
        for source in node.src:
            if source.op is ops.FUNCTION:
                if source not in functions:
                    functions[source] = -1
                    body = _scope(source.src[0], to_text(source.src[0], types=False), functions, bodies)
                    functions[source] = len(bodies)
                    bodies.append({"name": source.arg.name, **body})
                calls[numbers[node]] = functions[source]
    return {
        "rows": [row(node, numbers.__getitem__) for node in order],
        "names": _names(text, len(order)),
        "root": numbers.get(root, -1),
        "calls": calls,
    }


def _names(text: str, count: int) -> list[str]:
    """The names of the nodes in the text form; the lines of its own scope are the last ones."""
    lines = text.split("\n")[-count:] if count else []
    names = [line.partition(" = ")[0].strip() if " = " in line else "" for line in lines]
    return names if len(names) == count else [""] * count
