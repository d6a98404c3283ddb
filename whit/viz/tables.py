"""Things that are written once and then named by their number: graphs, nodes, rules, stacks."""

from __future__ import annotations

import hashlib
import inspect
import linecache
import os
import textwrap
import tokenize
import weakref
from typing import Any

from whit.ir import ops
from whit.ir.rules import AnyRule
from whit.ir.text.write import spell, spell_const, to_text
from whit.ir.uop import UOp
from whit.viz.stacks import Frame
from whit.viz.writer import TraceWriter

MOST_RULE_LINES = 80  # of the text of a rule
MOST_NODES = 500  # of one record
MOST_LINE_CHARACTERS = 200  # letters of a line of the user's program


class Graphs:
    """Whole graphs, in text form. Equal graphs have one number: they are told apart by a digest of the text."""

    def __init__(self, writer: TraceWriter) -> None:
        self._writer = writer
        self._by_node: weakref.WeakKeyDictionary[UOp, int] = weakref.WeakKeyDictionary()
        self._by_digest: dict[bytes, int] = {}

    def number(self, root: UOp) -> int:
        """The number of a graph, which is written if it is new."""
        found = self._by_node.get(root)
        if found is None:
            text = to_text(root, types=False)
            digest = hashlib.sha256(text.encode()).digest()[:16]
            found = self._by_digest.get(digest)
            if found is None:
                found = self._by_digest[digest] = len(self._by_digest)
                self._writer.add("graph", id=found, digest=digest.hex(), text=text)
            self._by_node[root] = found
        return found


class Nodes:
    """Nodes of rewrites: a line each, whose sources are the numbers of other nodes."""

    def __init__(self, writer: TraceWriter) -> None:
        self._writer = writer
        self._numbers: weakref.WeakKeyDictionary[UOp, int] = weakref.WeakKeyDictionary()
        self._count = 0
        self._lines: list[list[Any]] = []

    def number(self, root: UOp) -> int:
        """The number of a node; it and what lies below it are written where they are new."""
        known = self._numbers
        found = known.get(root)
        if found is not None:
            return found
        stack = [root]
        names: dict[UOp, str] = {}
        while stack:
            node = stack[-1]
            if node in known:
                stack.pop()
                continue
            sources = () if node.op.opaque else node.src
            missing = [s for s in sources if s.op is not ops.CONST and s not in known]
            if missing:
                stack += missing
                continue
            stack.pop()
            self._count += 1
            known[node] = self._count
            self._lines.append([self._count, self._line(node, names)])
            if len(self._lines) >= MOST_NODES:
                self.write()
        return known[root]

    def write(self) -> None:
        """Writes what is new: before anything that names these nodes is written."""
        if self._lines:
            lines, self._lines = self._lines, []
            self._writer.add("nodes", nodes=lines)

    def _line(self, node: UOp, names: dict[UOp, str]) -> str:
        if node.op is ops.CONST:
            return f"const {spell_const(node)}"
        if node.op is ops.FUNCTION:
            return f'function "{node.arg.name}"'
        for source in node.src:
            if source not in names:
                is_const = source.op is ops.CONST
                names[source] = spell_const(source) if is_const else f"%{self._numbers.get(source, 0)}"
        return spell(node, names)


class RuleTable:
    """Rules of rewriting."""

    def __init__(self, writer: TraceWriter) -> None:
        self._writer = writer
        self._numbers: dict[AnyRule, int] = {}

    def number(self, rule: AnyRule) -> int:
        """The number of a rule."""
        found = self._numbers.get(rule)
        if found is None:
            found = self._numbers[rule] = len(self._numbers)
            path, _, line = rule.where.rpartition(":")
            inside = path.rpartition(f"{os.sep}whit{os.sep}")[2].replace(os.sep, "/")
            source = rule_source(path, int(line))
            self._writer.add("rule", id=found, name=rule.name, file=f"whit/{inside}", line=int(line), source=source)
        return found


def rule_source(path: str, line: int) -> str:
    """The lines in which a rule is written: a function with its decorators, or the expression that is the rule."""
    lines = linecache.getlines(path)[line - 1 : line - 1 + MOST_RULE_LINES]
    try:
        block = inspect.getblock(lines) if lines and lines[0].lstrip().startswith(("@", "def ")) else _expression(lines)
    except (SyntaxError, IndentationError, tokenize.TokenError):
        block = lines[:1]
    return textwrap.dedent("".join(block)).rstrip()


def _expression(lines: list[str]) -> list[str]:
    """The lines up to the one in which the brackets that the first one opens are closed."""
    depth = 0
    for token in tokenize.generate_tokens(iter(lines).__next__):
        depth += (token.string in "([{") - (token.string in ")]}") if token.type == tokenize.OP else 0
        if token.type in (tokenize.NL, tokenize.NEWLINE) and depth <= 0:
            return lines[: token.start[0]]
    return lines


def shortened(text: str, most: int) -> str:
    """The beginning of a long text, up to the end of a line."""
    return text if len(text) <= most else f"{text[:most].rpartition(chr(10))[0]}\n... {len(text) - most:,} more letters"


class Stacks:
    """Stacks of the user's program; 0 is the empty one."""

    def __init__(self, writer: TraceWriter) -> None:
        self._writer = writer
        self._numbers: dict[tuple[Frame, ...], int] = {(): 0}

    def number(self, frames: tuple[Frame, ...]) -> int:
        """The number of a stack."""
        found = self._numbers.get(frames)
        if found is None:
            found = self._numbers[frames] = len(self._numbers)
            texts = [linecache.getline(path, line).strip()[:MOST_LINE_CHARACTERS] for path, line, _ in frames]
            self._writer.add("stack", id=found, frames=[list(frame) for frame in frames], texts=texts)
        return found
