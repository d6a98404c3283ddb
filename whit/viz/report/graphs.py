"""Graphs and nodes of a trace as text. What does not parse, as in a damaged file, is shown as it stands there."""

from __future__ import annotations

import re

from whit.ir.diff import diff
from whit.ir.parse import parse, parse_all
from whit.ir.text import to_text
from whit.ir.uop import UOp
from whit.viz.model import Trace

MOST_BELOW = 3000  # nodes below one that is spelled as an expression

_SOURCE = re.compile(r"%(\d{1,12})")


def parsed(trace: Trace, graph: int) -> UOp | None:
    """The nodes of a graph."""
    try:
        return parse(trace.graphs[graph])
    except (KeyError, ValueError, TypeError, ArithmeticError, LookupError, RecursionError, RuntimeError):
        return None


def graph_text(trace: Trace, graph: int) -> str:
    """A graph with its dtypes and shapes."""
    root = parsed(trace, graph)
    return trace.graphs.get(graph, "(not recorded)") if root is None else to_text(root)


def graph_diff(trace: Trace, before: int, after: int) -> str:
    """What changed from one graph to the next."""
    if before == after:
        return ""
    old, new = parsed(trace, before), parsed(trace, after)
    return diff(old, new) if old is not None and new is not None else "(not recorded)"


def node_text(trace: Trace, number: int, limit: int = 160) -> str:
    """A node of a rewrite as an expression."""
    lines: dict[int, str] = {}
    stack = [number]
    while stack and len(lines) < MOST_BELOW:
        node = stack.pop()
        line = trace.nodes.get(node)
        if node not in lines and line is not None:
            lines[node] = line
            stack += [int(source) for source in _SOURCE.findall(line)]
    if number not in lines:
        return f"%{number}"
    # A node gets its number after its sources.
    text = "\n".join(f"%{node} = {lines[node]}" for node in sorted(lines) if not lines[node].startswith("const "))
    if lines[number].startswith("const "):
        return lines[number].removeprefix("const ")
    try:
        (root,) = parse_all(f"{text}\nroots %{number}")
        return root.expression(limit)
    except (ValueError, TypeError, ArithmeticError, LookupError, RecursionError, RuntimeError):
        return lines[number][:limit]
