"""Reverse mode: from a value and its targets to the graph of the gradients.

    loss = sum(x * w)          gradients(loss, 1, [x, w])  ->  [expand(1) * w, expand(1) * x]

Only nodes between the targets and the root are visited, each once, users before sources. What a node's users give is
added up, then the rule in its op record passes it on. Nothing is computed and nothing is kept: the result is a graph,
which can be differentiated again.

A value that was restated (`whit.tensor.restate`) passes its gradient to the better expression, or to the one that was
written if a target is in the middle of it.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from whit.errors import NotSupportedError
from whit.grad.calls import call_gradients
from whit.grad.formulas import RESTATED, formula_gradients
from whit.ir import ops
from whit.ir.gradients import total
from whit.ir.graph import topological
from whit.ir.uop import UOp


def gradients(root: UOp, seed: UOp, targets: Iterable[UOp]) -> list[UOp | None]:
    """For each target the gradient of sum(root * seed); None where the root does not depend on it smoothly."""
    return gradients_of([(root, seed)], targets)


def gradients_of(roots: Sequence[tuple[UOp, UOp]], targets: Iterable[UOp]) -> list[UOp | None]:
    """The same for several roots, each with its seed: the gradient of what they are in sum."""
    wanted = list(targets)
    keep = set(wanted)
    order = _between([root for root, _ in roots], keep)
    parts: dict[UOp, list[UOp]] = {}
    for root, seed in roots:
        parts.setdefault(root, []).append(seed)
    results: dict[UOp, dict[int, UOp]] = {}  # CALL -> the gradients of what it returns
    found: dict[UOp, UOp] = {}
    on_path = set(order)
    for node in reversed(order):
        if node.op is ops.CALL and node not in parts:
            passed: Sequence[UOp | None] = _through_call(node, results.pop(node, {}), on_path)
        else:
            pieces = parts.pop(node, None)
            if pieces is None:
                continue
            dy = added(pieces)
            if node in keep:
                found[node] = dy
            if node.op is ops.ITEM and node.src[0].op is ops.CALL:
                results.setdefault(node.src[0], {})[node.arg] = dy
                continue
            passed = _pass_on(node, dy, keep)
        for source, piece in zip(node.src, passed, strict=True):
            if piece is not None and source in on_path:
                parts.setdefault(source, []).append(_fitting(piece, source))
    return [found.get(target) for target in wanted]


def _through_call(call: UOp, dy: dict[int, UOp], on_path: set[UOp]) -> list[UOp | None]:
    if not dy:
        return [None] * len(call.src)
    wanted = tuple(place for place, argument in enumerate(call.src[1:]) if argument in on_path)
    return [None, *call_gradients(call, dy, wanted, gradients_of)]


def _between(roots: list[UOp], targets: set[UOp]) -> list[UOp]:
    """The nodes through which a gradient flows from the roots to targets, sources before users."""
    reached: set[UOp] = set()
    order: list[UOp] = []
    for node in topological(roots):
        is_smooth = node.dtype.is_float or node.op is ops.STORE or node.op is ops.CALL
        if node in targets or (
            is_smooth and node.op is not ops.DETACH and not reached.isdisjoint(_smooth(node, targets))
        ):
            reached.add(node)
            order.append(node)
    return order


def _smooth(node: UOp, targets: set[UOp]) -> tuple[UOp, ...]:
    """The sources to which a gradient can go."""
    if node.op is ops.FORMULA:
        if node.arg.name == RESTATED:
            return (node.src[_chosen(node, targets)],)
        return node.src[1:]
    if node.op is ops.STORE:
        return node.src[1:2]
    return node.src[1:] if node.op is ops.CALL else node.src


def _chosen(node: UOp, targets: set[UOp]) -> int:
    """Which source of a restated value gets its gradient: 0, the better one, or 1, as there is a target in between."""
    better, written, *operands = node.src
    ends = set(operands)
    todo = [better, written]
    while todo:
        part = todo.pop()
        if part in ends:
            continue
        if part in targets:
            return 1
        below = part.src[1:] if part.op is ops.FORMULA else part.src
        todo.extend(source for source in below if source.dtype.is_float)
    return 0


def _pass_on(node: UOp, dy: UOp, targets: set[UOp]) -> tuple[UOp | None, ...]:
    if not node.src or node.op.opaque:
        return (None,) * len(node.src)
    if node.op is ops.FORMULA and node.arg.name == RESTATED:
        chosen = _chosen(node, targets)
        return tuple(dy if place == chosen else None for place in range(len(node.src)))
    if node.op is ops.FORMULA:
        return formula_gradients(node, dy)
    rule = node.op.grad
    if rule is None:
        raise NotSupportedError(
            f"gradient: {node.op.name} has no gradient", node.short(), "Detach what should be constant."
        )
    return rule(node, dy)


def _fitting(piece: UOp, source: UOp) -> UOp:
    """A gradient in the shape of its source: a scalar operand was at every element, and a scalar gradient is too."""
    if piece.shape == source.shape or source.op is ops.STORE:
        return piece
    if not source.shape:
        return total(piece, tuple(range(len(piece.shape))))
    return piece.reshape((1,) * len(source.shape)).expand(source.shape)


def added(pieces: list[UOp]) -> UOp:
    """The sum, as a balanced tree: a thousand pieces are ten deep."""
    while len(pieces) > 1:
        pairs = zip(pieces[::2], pieces[1::2], strict=False)
        odd = pieces[-1:] if len(pieces) % 2 else []
        pieces = [a + b for a, b in pairs] + odd
    return pieces[0]
