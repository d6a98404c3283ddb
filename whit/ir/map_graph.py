"""Every node of a graph once, sources first, each over what its sources have become.

    def doubled(node: UOp, src: Sources) -> UOp | None:
        return src[0] * 2 if node.op is ops.NEG else None

    map_graph(root, doubled)                    -x + y  ->  x*2 + y

What is a rule belongs into a rule set (`whit.ir.rewrite`). This is for changes that know more than a node: which ranges
are free in it, what was decided about it, how many came before.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from whit.ir.op import Sources
from whit.ir.uop import UOp, make

# A node as it was, and its sources as they are now -> what becomes of it; None: the same over the new sources.
Change = Callable[[UOp, Sources], UOp | None]


def map_graph(root: UOp, change: Change, done: dict[UOp, UOp] | None = None) -> UOp:
    """What a graph becomes when `change` is asked about every node below and including the root.

    `done` has what nodes have become before: they are neither asked about nor entered. It is filled with the others, so
    that the next call can go on from it. Bodies of functions are not entered, and a node whose sources stay the same
    stays the same object. Iterative: the depth does not matter.
    """
    return map_graphs((root,), change, done)[root]


def map_graphs(roots: Iterable[UOp], change: Change, done: dict[UOp, UOp] | None = None) -> dict[UOp, UOp]:
    """What every node below and including the roots becomes: `map_graph` of several."""
    done = {} if done is None else done
    stack = list(roots)
    stack.reverse()
    while stack:
        node = stack.pop()
        if node in done:
            continue
        src = node.src
        if src and not node.op.opaque:
            missing = [s for s in src if s not in done]
            if missing:
                stack.append(node)
                missing.reverse()
                stack.extend(missing)
                continue
            src = tuple([done[s] for s in src])
        found = change(node, src)
        done[node] = rebuilt(node, src) if found is None else found
    return done


def rebuilt(node: UOp, src: Sources) -> UOp:
    """A node over other sources: the same object if they are its own."""
    return node if src == node.src else make(node.op, src, node.arg)
