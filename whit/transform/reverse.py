"""Reverse mode: from a value and its targets to the graph of the gradients.

    loss = sum(x * w)          gradients(loss, 1, [x, w])  ->  [expand(1) * w, expand(1) * x]

Only nodes between the targets and the root are visited, each once, users before sources. What a node's users give is
added up, then the rule in its op record passes it on. Nothing is computed and nothing is kept: the result is a graph,
which can be differentiated again.

Of a complex x + iy the gradient is that by x plus i times that by y. What has a complex derivative passes on dy times
the conjugate of it: its rule, which multiplies by the derivative, is asked about the conjugate of dy.

A value that was restated (`whit.tensor.graphs.restate`) passes its gradient to the better expression, or to the one
that was written if a target is in the middle of it.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from typing import Any

from whit.errors import NotSupportedError
from whit.ir import ops
from whit.ir.gradients.rules import conjugate, total
from whit.ir.graph import topological
from whit.ir.record import set_made
from whit.ir.uop import UOp, make
from whit.transform.calls import call_gradients
from whit.transform.flow import TRANSPARENT, is_smooth
from whit.transform.formulas import RESTATED, formula_gradients, is_holomorphic
from whit.transform.loops import loop_gradients, smooth_operands

MANY_PIECES = 16  # pieces of a gradient that are not added one by one


def gradients(root: UOp, seed: UOp, targets: Iterable[UOp]) -> list[UOp | None]:
    """For each target the gradient of sum(root * seed); None where the root does not depend on it smoothly."""
    return gradients_of([(root, seed)], targets)


def gradients_of(
    roots: Sequence[tuple[UOp, UOp]], targets: Iterable[UOp], stop: Collection[UOp] = ()
) -> list[UOp | None]:
    """The same for several roots, each with its seed: the gradient of what they are in sum. Nodes in `stop` are
    independent: nothing below them is looked at."""
    wanted = list(targets)
    walk = _Walk([root for root, _ in roots], set(wanted), stop)
    ends = set(stop)
    for root, seed in roots:
        walk.give(root, seed)
    found: dict[UOp, UOp] = {}
    for node in reversed(walk.order):
        dy = walk.taken(node)
        if dy is None:
            continue
        if node in walk.targets:
            found[node] = dy
        if node not in ends:
            walk.pass_on(node, dy)
    return [found.get(target) for target in wanted]


class _Walk:
    """The nodes through which gradients flow, and what has arrived at them so far."""

    def __init__(self, roots: Sequence[UOp], targets: set[UOp], stop: Collection[UOp]) -> None:
        self.targets = targets
        self.opened: set[UOp] = set()  # transparent formulas with a target inside
        self.parts: dict[UOp, list[UOp]] = {}
        self.members: dict[UOp, dict[int, UOp]] = {}  # CALL, GROUP or FORMULA of one -> the gradients of its ITEMs
        self.places: dict[UOp, Any] = {}  # of nodes that no tensor has made: those of what they are parts of
        self.order = self._between(roots, stop)
        self.on_path = set(self.order)

    def _between(self, roots: Sequence[UOp], stop: Collection[UOp]) -> list[UOp]:
        """The nodes through which a gradient flows from the roots to targets, sources before users."""
        reached: set[UOp] = set()
        order: list[UOp] = []
        for node in (*stop, *topological(roots, stop=stop)):
            if node in self.targets or (is_smooth(node) and not reached.isdisjoint(self._smooth(node))):
                reached.add(node)
                order.append(node)
        return order

    def _smooth(self, node: UOp) -> Sequence[UOp]:
        """The sources to which a gradient can go."""
        value, *rest = node.src or (node,)
        if node.op is ops.FORMULA:
            if node.arg.name == RESTATED:
                return (node.src[chosen_source(node, self.targets)],)
            if node.arg.name.startswith(TRANSPARENT):
                inside = topological((value,), stop=rest)
                if not self.targets.isdisjoint(inside):
                    self.opened.add(node)
                    return (value,)
            return rest
        if node.op is ops.STORE:
            return rest[:1]
        if node.op is ops.CALL:
            return rest
        if node.op is ops.LOOP:
            return smooth_operands(node)
        return (value,) if node.op is ops.RECOMPUTE else node.src

    def give(self, node: UOp, piece: UOp, place: Any = None) -> None:
        """One more part of a node's gradient, which comes from something that was made there."""
        if node in self.on_path:
            piece = _fitting(piece, node)
            if place is not None:
                if node.src:
                    self.places.setdefault(node, place)
                if piece.src and not hasattr(piece, "made"):
                    set_made(piece, (*place[:-1], True))
            self.parts.setdefault(node, []).append(piece)

    def taken(self, node: UOp) -> Any:
        """All that has arrived at a node, now that its users are done; None if nothing has. For members of a group a
        tuple, for results of a call a dictionary."""
        members = self.members.pop(node, None)
        if members is not None and node.op in (ops.CALL, ops.LOOP):
            return members
        if members is not None:
            value = node.src[0] if node.op is ops.FORMULA else node
            return tuple(members.get(i) for i in range(len(value.src)))
        pieces = self.parts.pop(node, None)
        if pieces is None:
            return None
        found = added(pieces)
        if found.src and not hasattr(found, "made") and (place := getattr(pieces[-1], "made", None)) is not None:
            set_made(found, place)
        return found

    def pass_on(self, node: UOp, dy: Any) -> None:
        """To the sources, by the rule of the op."""
        if node.op is ops.ITEM:
            self.members.setdefault(node.src[0], {})[node.arg] = dy
        elif node in self.opened and type(dy) is tuple:
            self.members[node.src[0]] = {i: piece for i, piece in enumerate(dy) if piece is not None}
        else:
            place = getattr(node, "made", None) or self.places.get(node)
            for source, piece in zip(node.src, self._given(node, dy), strict=True):
                if piece is not None:
                    self.give(source, piece, place)

    def _given(self, node: UOp, dy: Any) -> Sequence[UOp | None]:
        """What each source gets."""
        if node.op is ops.GROUP:
            return dy  # type: ignore[no-any-return]
        if node.op is ops.LOOP:
            first = node.arg.functions + (node.arg.kind == "cond")
            count = len(smooth_operands(node))
            places = [place for place in range(first, first + count) if node.src[place] in self.on_path]
            return loop_gradients(node, dy, places, gradients_of)
        if type(dy) is dict:
            wanted = tuple(place for place, argument in enumerate(node.src[1:]) if argument in self.on_path)
            return [None, *call_gradients(node, dy, wanted, gradients_of)]
        if node.op is ops.FORMULA and node.arg.name == RESTATED:
            chosen = chosen_source(node, self.targets)
            return tuple(dy if place == chosen else None for place in range(len(node.src)))
        return _rule(node, dy, node in self.opened)


def chosen_source(node: UOp, targets: set[UOp]) -> int:
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
        todo.extend(source for source in below if source.dtype.is_continuous)
    return 0


def _rule(node: UOp, dy: Any, is_opened: bool) -> Sequence[UOp | None]:
    if not node.src or node.op.opaque:
        return (None,) * len(node.src)
    if node.op is ops.FORMULA and is_opened:
        return (dy, *(None for _ in node.src[1:]))
    if node.dtype.is_complex and is_holomorphic(node):
        found = _plain_rule(node, conjugate(dy))
        return tuple([None if piece is None else conjugate(piece) for piece in found])
    return _plain_rule(node, dy)


def _plain_rule(node: UOp, dy: Any) -> Sequence[UOp | None]:
    """By the rule of its op or formula."""
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
    """The sum: of many results of calls, or of many rows of one tensor, a few nodes; else a balanced tree, of which a
    thousand pieces are ten deep."""
    if len(pieces) >= MANY_PIECES:
        if all(piece.op is ops.ITEM for piece in pieces):  # they are in memory anyway
            return total(make(ops.STACK, tuple(pieces)), (0,)).reshape(pieces[0].shape)
        rows = _rows(pieces)
        if rows is not None:
            return make(ops.STACK, tuple(rows))
    while len(pieces) > 1:
        pairs = zip(pieces[::2], pieces[1::2], strict=False)
        odd = pieces[-1:] if len(pieces) % 2 else []
        pieces = [a + b for a, b in pairs] + odd
    return pieces[0]


def _rows(pieces: Sequence[UOp]) -> list[UOp] | None:
    """What is added to each row of a tensor, if pieces are single rows between zeros, as the gradients of `x[t]` are,
    and together most of the rows."""
    if not pieces[0].shape:
        return None
    size, *row = pieces[0].shape
    found: dict[int, list[UOp]] = {}
    for piece in pieces:
        if piece.op is not ops.PAD or len(piece.src) != 1 or piece.src[0].shape[0] != 1:
            return None
        (start, _), *others = piece.arg
        if any(pair != (0, 0) for pair in others):
            return None
        found.setdefault(start, []).append(piece.src[0].reshape(tuple(row)))
    if 2 * len(found) < size:
        return None
    nothing = UOp.const(pieces[0].dtype, 0).reshape((1,) * len(row)).expand(tuple(row))
    return [added(found[place]) if place in found else nothing for place in range(size)]
