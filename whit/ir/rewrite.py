"""The driver: applies a rule set to a graph, sources first, until nothing changes.

    rewrite(graph, rules)                       to a fixpoint
    rewrite(graph, rules, once=True)            each node at most once
    with tracing() as trace: ...                every rewrite: rule, before, after
    with counting() as counts: ...              per rule: attempts, hits, seconds

The driver walks iteratively, keeps what replaced what, does not enter function bodies unless asked, and finds rules
that undo each other. Tracing and counting use differently compiled rule functions, so they cost nothing when off.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from typing import Any

from whit.config import TRACK_MATCH_STATS
from whit.errors import RuleError
from whit.ir.rules import Rules, short_location
from whit.ir.statistics import watched
from whit.ir.uop import UOp, make
from whit.ir.watched import Counts, RewriteStep, Watched, recorded
from whit.recording import hooks

CHAIN_LIMIT = 1000  # replacements of one node after another before it counts as a loop


_trace: ContextVar[list[RewriteStep] | None] = ContextVar("whit_rewrite_trace", default=None)
_counts: ContextVar[Counts | None] = ContextVar("whit_rewrite_counts", default=None)


@contextmanager
def tracing() -> Iterator[list[RewriteStep]]:
    """Collects every rewrite made inside."""
    steps: list[RewriteStep] = []
    token = _trace.set(steps)
    try:
        yield steps
    finally:
        _trace.reset(token)


@contextmanager
def counting() -> Iterator[Counts]:
    """Collects per-rule statistics of the rewrites made inside."""
    counts = Counts()
    token = _counts.set(counts)
    try:
        yield counts
    finally:
        _counts.reset(token)


def rewrite(root: UOp, rules: Rules, context: Any = None, *, once: bool = False, enter_functions: bool = False) -> UOp:
    """The graph with the rules applied, sources before users: to a fixpoint, or each node once."""
    return rewrite_all((root,), rules, context, once=once, enter_functions=enter_functions)[root]


def rewrite_all(
    roots: tuple[UOp, ...], rules: Rules, context: Any = None, *, once: bool = False, enter_functions: bool = False
) -> dict[UOp, UOp]:
    """What every node below the roots became."""
    trace, counts = _trace.get(), _counts.get()
    if trace is not None or counts is not None:
        return _rewrite(roots, Watched(rules, trace, counts), context, once, enter_functions)
    if level := TRACK_MATCH_STATS.value:
        rules = watched(rules, level)
    elif (recorder := hooks.recorder) is not None and recorder.wants_rewrites:
        rules = recorded(rules)
    try:
        return _rewrite(roots, rules, context, once, enter_functions)
    except _LoopError as loop:
        raise explain_loop(loop.node, rules, context, enter_functions) from None


class _LoopError(Exception):
    """A node came back to itself, or was replaced too often."""

    def __init__(self, node: UOp) -> None:
        super().__init__("loop")
        self.node = node


def _rewrite(  # noqa: C901  the innermost loop of every pass, without calls
    roots: tuple[UOp, ...], rules: Rules, context: Any, once: bool, enter_functions: bool
) -> dict[UOp, UOp]:
    done: dict[UOp, UOp] = {}  # node -> its final form
    waiting: dict[UOp, UOp] = {}  # node -> its replacement, whose own rewriting is under way
    chain: dict[UOp, int] = {}  # replacement -> how many came before it
    compiled = rules.compiled
    stack = list(reversed(roots))
    while stack:
        node = stack[-1]
        if node in done:
            stack.pop()
            continue
        if node in waiting:
            done[node] = done[waiting.pop(node)]
            stack.pop()
            continue
        src = node.src
        current = node
        if src and (enter_functions or not node.op.opaque):
            missing = []
            new_src = []
            for s in src:
                if s in done:
                    new_src.append(done[s])
                elif not s.src and s.op not in compiled:  # a leaf without rules: no visit of its own
                    done[s] = s
                    new_src.append(s)
                else:
                    if s in waiting:
                        raise _LoopError(s)
                    missing.append(s)
            if missing:
                stack.extend(reversed(missing))
                continue
            changed = tuple(new_src)
            if changed != src:  # compares identities
                current = make(node.op, changed, node.arg)
                if current in done:
                    done[node] = done[current]
                    continue
        stack.pop()
        op = current.op
        found = None
        if op in compiled:
            dtype = current.src[0].dtype if current.src else current.dtype
            by_dtype = compiled[op]
            function = by_dtype[dtype] if dtype in by_dtype else rules.compile(op, dtype)
            if function is not None:
                found = function(current, context)
        if found is None or found is current:
            done[node] = done[current] = current
        elif once:
            done[node] = done[current] = found
        elif found in done:
            done[node] = done[current] = done[found]
        else:
            length = chain.get(current, 0) + 1
            if found in waiting or found is node or length > CHAIN_LIMIT:
                raise _LoopError(node)
            chain[found] = length
            waiting[node] = found
            stack.append(node)
            stack.append(found)
    return done


def explain_loop(node: UOp, rules: Rules, context: Any, enter_functions: bool) -> RuleError:
    """Runs the node again under a trace, and names the rules that fired last."""
    with tracing() as steps, suppress(_LoopError):
        _rewrite((node,), Watched(rules, steps, None), context, False, enter_functions)
    last = steps[-40:]
    involved = dict.fromkeys(f"{step.rule.name}  [{short_location(step.rule.where)}]" for step in last)
    return RuleError(
        f"rewrite: the rules of {rules.name!r} never come to an end",
        "\n".join(["these undo each other:", *(f"  {name}" for name in involved), "last steps:", *map(str, last[-6:])]),
        "Make each rule produce something smaller; whit.ir.check.rules tests it.",
    )
