"""Which memory a node shows, and which memory a graph writes."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from whit.ir import ops
from whit.ir.graph import topological
from whit.ir.uop import UOp

_VIEWS = (*ops.MOVEMENT, ops.BITCAST, ops.DETACH, ops.INDEX, ops.AFTER)  # memory, seen in another way


class Views:
    """For each node of a graph that shows memory: which buffer, through which views. Nodes are added sources first."""

    def __init__(self, nodes: Iterable[UOp] = ()) -> None:
        self.values: set[UOp] = set()  # values that are no memory, and are changed in parts as if they were
        self.base: dict[UOp, UOp] = {}
        self.links: dict[UOp, Any] = {}  # (view, links of what it views), innermost first; None for the buffer
        for node in nodes:
            self.add(node)

    def add(self, node: UOp) -> None:
        """Enters a node, if it is memory or a view of memory."""
        if node.op is ops.BUFFER or node.op is ops.PARAM or node in self.values:
            self.base[node], self.links[node] = node, None
        elif node.op in _VIEWS and node.src[0] in self.base:
            links = self.links[node.src[0]]
            self.base[node] = self.base[node.src[0]]
            self.links[node] = links if node.op is ops.AFTER else (node, links)

    def chain(self, node: UOp) -> list[UOp]:
        """The views from the buffer up to the node, without AFTERs."""
        chain = []
        links = self.links[node]
        while links is not None:
            view, links = links
            chain.append(view)
        return chain[::-1]


def changed_values(order: Iterable[UOp]) -> set[UOp]:
    """What AFTERs stand on that is no memory, zeros.after(zeros.shrink(...).store(x)), or was gathered from it and is
    itself stored to, or shows one element of it several times, or more than it."""
    found: set[UOp] = set()
    for node in order:
        if node.op is ops.AFTER:
            old = node.src[0]
            while old.op is ops.AFTER:
                (old, *_) = old.src
            stores = [s for s in node.src[1:] if s.op is ops.STORE]
            chain = _chain(old)
            if not stores:
                continue
            is_gathered = any(view.op is ops.INDEX for view in chain) and any(old in _chain(s.src[0]) for s in stores)
            is_repeated = any(view.op in (ops.EXPAND, ops.PAD) and view.shape != view.src[0].shape for view in chain)
            if is_gathered or is_repeated or chain[-1].op not in (ops.BUFFER, ops.PARAM):
                found.add(old)
    return found


def _chain(node: UOp) -> list[UOp]:
    """A node, and what it views, down to the leaf."""
    chain = [node]
    while node.op in _VIEWS:
        (node, *_) = node.src
        chain.append(node)
    return chain


def written(root: UOp) -> set[UOp]:
    """The buffers and params that a graph writes."""
    order = topological((root,))
    base = Views(order).base
    found = []
    for node in order:
        if node.op is ops.STORE:
            found.append(base.get(node.src[0]))
        elif node.op is ops.SORT:
            found.extend(base.get(scratch) for scratch in node.src[4:])
        elif node.op is ops.CALL:
            function, *arguments = node.src
            for target in written(function.src[0]):
                found.append(base.get(arguments[target.arg.slot]) if target.op is ops.PARAM else target)
        elif node.op is ops.REPEAT:
            found.extend([source for source in node.src if source.op is ops.PARAM][: node.arg.written])
    return {target for target in found if target is not None}
