"""Forward mode: from tangents of some nodes to those of values made of them.

    y = sum(x * w)             tangents_of([y], {x: dx})  ->  [sum(dx * w)]

Every node between is visited once, sources before users; the rule in its op record makes its tangent of those of its
sources. Nothing is computed and nothing is kept: the result is a graph, which can be differentiated again, either way.

A function with a gradient of its own (FORMULA) has the tangent of its ops where those are as good as the function, and
that of its rule where the rule works on each element alone. Else, as of a function of the user, the rule is transposed:
it is linear in dy, so its gradient by dy, with the tangents as seeds, is the tangent. This asks the rule nothing new,
and costs as much as two gradients.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from typing import Any

from whit.errors import NotSupportedError
from whit.ir import ops
from whit.ir.gradients.effects import broadcast_like
from whit.ir.graph import topological
from whit.ir.op import Op
from whit.ir.record import set_made
from whit.ir.uop import UOp
from whit.transform.active import during
from whit.transform.calls import call_tangents
from whit.transform.flow import TRANSPARENT
from whit.transform.formulas import RESTATED, Form, form_of, rule_of
from whit.transform.loop_tangents import loop_tangents
from whit.transform.reverse import chosen_source, gradients_of
from whit.transform.stand_in import stand_in
from whit.transform.unknown import Unknown

# A node of several results (GROUP, CALL, a FORMULA of a group) has their tangents by place.
Found = UOp | dict[int, UOp]


def tangents_of(roots: Sequence[UOp], given: dict[UOp, UOp]) -> list[UOp | None]:
    """The tangent of each root, those of some nodes being given; None where a root does not depend on them smoothly."""
    found: dict[UOp, Any] = dict(given)
    inside = _depending(roots, given)
    ends = set(given)
    for node in inside:
        tangent = _tangent(node, found, ends)
        if tangent is None:
            continue
        if isinstance(tangent, UOp):
            tangent = _fitting(tangent, node)
            place = getattr(node, "made", None)
            if place is not None and tangent.src and not hasattr(tangent, "made"):
                set_made(tangent, place)
        found[node] = tangent
    return [found.get(root) for root in roots]


def _depending(roots: Sequence[UOp], given: dict[UOp, UOp]) -> list[UOp]:
    """The nodes between the given ones and the roots, sources first."""
    reached = set(given)
    order = []
    for node in topological(roots, stop=given):
        if node not in reached and not reached.isdisjoint(node.src):
            reached.add(node)
            order.append(node)
    return order


def _tangent(node: UOp, found: dict[UOp, Any], ends: Collection[UOp]) -> Any:
    """The tangent of one node, or of each of its results; None if it does not move."""
    known: list[Any] = [found.get(source) for source in node.src]
    if all(tangent is None for tangent in known):
        return None
    if node.op in _OF_SEVERAL:
        return _OF_SEVERAL[node.op](node, known, set(ends))
    if not node.dtype.is_continuous and node.op is not ops.STORE:
        return None
    rule = node.op.tangent
    if rule is None:
        raise NotSupportedError(f"jvp: {node.op.name} has no tangent", node.short(), "Detach what should be constant.")
    return rule(node, tuple(known))


def _of_item(node: UOp, known: list[Any], ends: set[UOp]) -> UOp | None:
    found: UOp | None = known[0].get(node.arg)
    return found


def _of_group(node: UOp, known: list[Any], ends: set[UOp]) -> dict[int, UOp]:
    return {i: tangent for i, tangent in enumerate(known) if tangent is not None}


def _of_call(node: UOp, known: list[Any], ends: set[UOp]) -> dict[int, UOp] | None:
    return call_tangents(node, {i: t for i, t in enumerate(known[1:]) if t is not None}, tangents_of) or None


def _of_loop(node: UOp, known: list[Any], ends: set[UOp]) -> dict[int, UOp] | None:
    return loop_tangents(node, {i: t for i, t in enumerate(known) if t is not None}, tangents_of) or None


def _of_formula(node: UOp, known: list[Any], ends: set[UOp]) -> Any:
    """By its value, by its rule, or by the transpose of that."""
    if node.arg.name == RESTATED:
        return known[chosen_source(node, ends)]
    if node.arg.name.startswith(TRANSPARENT):
        return known[0]
    form = form_of(node.arg)
    if form is Form.POINTWISE:
        return _by_rule(node, known)
    if form in (Form.LEADING, Form.COMPOSED):
        return known[0]
    return _transposed(node, known)


_OF_SEVERAL: dict[Op, Callable[[UOp, list[Any], set[UOp]], Any]] = {
    ops.ITEM: _of_item,
    ops.GROUP: _of_group,
    ops.CALL: _of_call,
    ops.LOOP: _of_loop,
    ops.FORMULA: _of_formula,
}


def _by_rule(node: UOp, known: list[Any]) -> UOp | None:
    """The sum of what the rule gives for each operand's tangent."""
    rule, total = rule_of(node), None
    for place, tangent in enumerate(known[1:]):
        piece = None if tangent is None else rule(node, tangent, *node.src[1:])[place]
        if piece is not None:
            total = piece if total is None else total + piece
    return total


def _transposed(node: UOp, known: list[Any]) -> Any:
    """dy -> rule(dy) is linear: the gradient of sum(rule(dy) * tangents) by dy."""
    value = node.src[0]
    is_group = value.op is ops.GROUP
    members = list(value.src) if is_group else [value]
    seeds = [stand_in(member.dtype, member.shape, node.device or member.device) for member in members]
    with during(Unknown(seeds)):
        given = rule_of(node)(node, tuple(seeds) if is_group else seeds[0], *node.src[1:])
    pairs = zip(given, known[1:], strict=True)
    roots = [(piece, tangent) for piece, tangent in pairs if piece is not None and tangent is not None]
    if not roots:
        return None
    found = gradients_of(roots, seeds)
    by_place = {i: tangent for i, tangent in enumerate(found) if tangent is not None}
    return (by_place or None) if is_group else found[0]


def _fitting(tangent: UOp, node: UOp) -> UOp:
    """In the shape of its node: the tangent of a scalar operand is at every element."""
    if tangent.shape == node.shape or node.op is ops.STORE:
        return tangent
    return broadcast_like(tangent, node)
