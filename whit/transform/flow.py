"""Where a gradient can go: the sources of a node that it depends on smoothly, and all that is below a node by them.

flow([sum(x.detach() * y + z.cast(int))])        y and what is made of it; not x, not z
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from whit.ir import ops
from whit.ir.uop import UOp
from whit.transform.formulas import RESTATED

TRANSPARENT = "checkpoint"  # formulas of this name have the gradient of their value: one may ask for what is inside


_SPECIAL = frozenset({ops.FORMULA, ops.STORE, ops.CALL, ops.LOOP, ops.RECOMPUTE, ops.AFTER})


def is_smooth(node: UOp) -> bool:
    """Whether a gradient passes through a node."""
    if node.dtype.is_continuous:
        return node.op is not ops.DETACH
    return node.op in (ops.STORE, ops.GROUP, ops.FORMULA, ops.CALL, ops.LOOP)


def smooth_sources(node: UOp) -> Sequence[UOp]:
    """The sources of a smooth node to which a gradient can go, whatever it is asked by."""
    if node.op not in _SPECIAL:
        return node.src
    first, *rest = node.src
    if node.op is ops.FORMULA:
        if node.arg.name == RESTATED:
            return node.src[:2]
        return node.src if node.arg.name.startswith(TRANSPARENT) else rest
    if node.op is ops.STORE:
        return rest[:1]
    if node.op is ops.CALL or node.op is ops.LOOP:
        return [source for source in rest if source.op is not ops.FUNCTION]
    if node.op is ops.RECOMPUTE:
        return (first,)
    if node.op is ops.AFTER and any(_covers(effect, first) for effect in rest):
        return rest
    return node.src


def _covers(effect: UOp, old: UOp) -> bool:
    """Whether a store leaves nothing of what was there."""
    if effect.op is not ops.STORE or len(effect.src) != 2:
        return False
    return effect.src[0] is old and effect.arg.combine is None


def flow(roots: Iterable[UOp]) -> list[UOp]:
    """The nodes that a gradient of the roots can reach, each once, sources before users."""
    order: list[UOp] = []
    seen: set[UOp] = set()
    stack: list[UOp | None] = [*filter(is_smooth, roots)]
    while stack:
        node = stack.pop()
        if node is None:
            order.append(stack.pop())  # type: ignore[arg-type]
        elif node not in seen:
            seen.add(node)
            stack += [node, None]
            stack += [source for source in smooth_sources(node) if source not in seen and is_smooth(source)]
    return order
