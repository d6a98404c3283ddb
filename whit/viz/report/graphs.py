"""Graphs and nodes of a trace as text. What does not parse, as in a damaged file, is shown as it stands there."""

from __future__ import annotations

import re

from whit.errors import WhitError
from whit.ir.text.diff import diff
from whit.ir.text.parse import parse, parse_all
from whit.ir.text.write import to_text
from whit.ir.uop import UOp
from whit.viz.model import Trace

WIDTH_CHARACTERS = 160  # letters of a node that is spelled as an expression
NEAREST_NODES = 40  # its nodes
UNREADABLE = (WhitError, ValueError, TypeError, ArithmeticError, LookupError, RecursionError)

_SOURCE = re.compile(r"%(\d{1,12})")


def parsed(trace: Trace, graph: int) -> UOp | None:
    """The nodes of a graph."""
    try:
        return parse(trace.graphs[graph])
    except UNREADABLE:
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


class NodeTexts:
    """The nodes of rewrites as expressions. All lines are parsed at once: 5 us each."""

    def __init__(self, trace: Trace) -> None:
        self._trace = trace
        self._texts: dict[int, str] = {}
        self._nodes = _all_nodes(trace)

    def __getitem__(self, number: int) -> str:
        text = self._texts.get(number)
        if text is None:
            node = self._nodes.get(number)
            line = self._trace.nodes.get(number, f"%{number}").removeprefix("const ")
            text = _shortened(line if node is None else _expression(node))
            self._texts[number] = text
        return text


def _shortened(text: str) -> str:
    return text if len(text) <= WIDTH_CHARACTERS else f"{text[: WIDTH_CHARACTERS - 1]}…"


def _expression(root: UOp) -> str:
    """The nodes nearest below a root, and an ellipsis for what lies further down.

    A search through 3,000 rewrites took 4.6 s with whole expressions, and takes 1.8 s.
    """
    near = {root}
    frontier = [root]
    while frontier and len(near) < NEAREST_NODES:
        below = dict.fromkeys(s for node in frontier if not node.op.opaque for s in node.src)
        frontier = [s for s in below if s not in near][: NEAREST_NODES - len(near)]
        near.update(frontier)
    beyond = {s: "…" for node in near for s in node.src if s not in near and s.src}
    return root.expression(names=beyond)


def _all_nodes(trace: Trace) -> dict[int, UOp]:
    """Node by number. Functions are named only, so what refers to one has no node; a damaged table has none at all."""
    lines: dict[int, str] = {}
    for number in sorted(trace.nodes):  # a node has its number after its sources
        line = trace.nodes[number]
        if line.startswith(("function ", "const ")) or "\n" in line:
            continue
        if all(int(source) in lines for source in _SOURCE.findall(line)):
            lines[number] = line
    text = "\n".join(f"%{number} = {line}" for number, line in lines.items())
    try:
        roots = parse_all(f"{text}\nroots {', '.join(f'%{number}' for number in lines)}") if lines else ()
    except UNREADABLE:
        return {}
    return dict(zip(lines, roots, strict=True))
