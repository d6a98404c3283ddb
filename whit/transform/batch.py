"""A graph of one example -> the graph of a batch.

    y = sum(x * w)        Batch(size, {x: X}).of([y])  ->  Y = sum(X * expand(w)) along the axes that it had

X has the axis of the batch in front, and so has everything that depends on it; the rule in its op record says how a
node is computed over the batch. What does not depend on it stays one value. Nothing is computed.

Bodies of functions become bodies over batches, once for each function and set of arguments that have the axis. A
function with a gradient of its own (FORMULA) keeps it: as it is, where the rule works on each element alone or counts
axes from the end; else the rule is asked about one example, and what it gives is made a batch again.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from whit.cache import RecentlyUsed
from whit.dtype import dtypes
from whit.errors import NotSupportedError
from whit.ir import ops
from whit.ir.batching import fitted, spread
from whit.ir.gradients.rules import total
from whit.ir.map_graph import map_graphs, rebuilt
from whit.ir.op import Op, Sources
from whit.ir.record import set_made
from whit.ir.uop import UOp, const, make
from whit.transform.active import Compute, Read, Repeat, Step, during
from whit.transform.flow import TRANSPARENT
from whit.transform.formulas import FORMULAS, RESTATED, Derivative, Form, derivative, form_of, own_rule, rule_of
from whit.transform.loop_batches import loop_over_batch
from whit.transform.stand_in import stand_in

Flags = tuple[bool, ...]  # which sources have the axis of the batch


class Batch:
    """What nodes of one example are over a batch."""

    def __init__(self, size: Any, given: Mapping[UOp, UOp], randomness: str = "error") -> None:
        self.size = size
        self.randomness = randomness  # what random numbers are to be: "error", "different", "same"
        self._known: dict[UOp, UOp] = dict(given)
        self._mapped: set[UOp] = set(given)

    def give(self, node: UOp, over_batch: UOp) -> None:
        """One more node that is known, the axis in front."""
        self._known[node] = over_batch
        self._mapped.add(node)

    def example(self, over_batch: UOp, device: str | None = None) -> UOp:
        """A node that stands for one example of a node with the axis in front; `device` is for constants."""
        node = stand_in(over_batch.dtype, over_batch.shape[1:], over_batch.device or device)
        self.give(node, over_batch)
        return node

    def know(self, nodes: Mapping[UOp, UOp]) -> None:
        """Nodes that become others, which do not have the axis."""
        self._known.update(nodes)

    def of(self, nodes: Iterable[UOp]) -> list[tuple[UOp, bool]]:
        """Each node as it is over the batch, and whether it has the axis."""
        roots = list(nodes)
        map_graphs(roots, self._over, self._known)
        return [(self._known[node], node in self._mapped) for node in roots]

    def with_axis(self, nodes: Iterable[UOp]) -> list[UOp]:
        """The same, all with the axis."""
        return [node if has_axis else spread(node, self.size) for node, has_axis in self.of(nodes)]

    # ---- what is computed while a function runs

    def computed(self, nodes: Sequence[UOp], compute: Compute) -> list[UOp]:
        """The values of all examples, each node standing for one."""
        over = self.of(nodes)
        values = compute([node for node, _ in over])
        pairs = zip(values, over, strict=True)
        return [self.example(value) if has_axis else value for value, (_, has_axis) in pairs]

    def repeated(self, step: Step, state: Sequence[UOp], repeat: Repeat) -> list[UOp]:
        """The states of all examples, each step being one over the batch."""
        roots = list(step(const(dtypes.weakint, 0), state))
        if not any(has_axis for _, has_axis in self.of([*state, *roots])):
            return repeat(step, state)

        def over_batch(number: UOp, states: Sequence[UOp]) -> list[UOp]:
            return self.with_axis(step(number, [self.example(each) for each in states]))

        return [self.example(value) for value in repeat(over_batch, self.with_axis(state))]

    def greatest(self, node: UOp, read: Read) -> float:
        """That of all examples."""
        ((found, has_axis),) = self.of([node])
        return read(found.reduce(ops.MAX, (0,)) if has_axis else found)

    def _over(self, node: UOp, src: Sources) -> UOp | None:
        if node.op.opaque or self._mapped.isdisjoint(node.src):
            return None
        flags = tuple([source in self._mapped for source in node.src])
        self._mapped.add(node)
        special = _SPECIAL.get(node.op)
        if special is not None:
            found = special(node, src, flags, self.size)
        elif node.op.batch is not None:
            found = node.op.batch(node, src, flags, self.size)
        else:
            raise NotSupportedError(f"vmap: {node.op.name} goes over no batch", node.short(), "Do it outside.")
        place = getattr(node, "made", None)
        if place is not None and found.src and not hasattr(found, "made"):
            set_made(found, place)
        return found


def _item(node: UOp, src: Sources, flags: Flags, size: Any) -> UOp:
    (group,) = src
    return group.src[node.arg] if group.op is ops.GROUP else rebuilt(node, src)


# ---- calls

_made: RecentlyUsed[tuple[UOp, Flags, int], UOp] = RecentlyUsed("transform.batches_of_calls", 1024)


def _call(node: UOp, src: Sources, flags: Flags, size: Any) -> UOp:
    """A call of the function over batches; with a symbolic size, what it computes."""
    function, *arguments = src
    (body,) = function.src
    params = [each for each in body.topological() if each.op is ops.PARAM]
    if not isinstance(size, int):
        batch = Batch(size, {each: arguments[each.arg.slot] for each in params if flags[each.arg.slot + 1]})
        batch.know({each: arguments[each.arg.slot] for each in params if not flags[each.arg.slot + 1]})
        return UOp.group(*batch.with_axis(body.src))
    key = (function, flags, size)
    made = _made.get(key)
    if made is None:
        mapped = [each for each in params if flags[each.arg.slot + 1]]
        given = {p: UOp.param(p.arg.slot, p.dtype, (size, *p.shape), p.arg.device) for p in mapped}
        members = Batch(size, given).with_axis(body.src)
        made = _made[key] = UOp.group(*members).function(function.arg.name)
    return made.call(*arguments)


# ---- loops


def _loop(node: UOp, src: Sources, flags: Flags, size: Any) -> UOp:
    """A loop over batches."""

    def over(body: UOp, given: Mapping[UOp, UOp], known: Mapping[UOp, UOp]) -> list[tuple[UOp, bool]]:
        batch = Batch(size, given)
        batch.know(known)
        return batch.of(body.src)

    return loop_over_batch(node, src, flags, size, over)


# ---- formulas


def _formula(node: UOp, src: Sources, flags: Flags, size: Any) -> UOp:
    value = src[0] if flags[0] else _spread_value(node, src[0], size)
    pairs = list(zip(src[1:], flags[1:], strict=True))
    if node.arg.name == RESTATED:
        (written, has_axis), *ends = pairs
        return node.replace(src=(value, written if has_axis else spread(written, size), *(x for x, _ in ends)))
    if node.arg.name.startswith(TRANSPARENT):
        return node.replace(src=(value, *src[1:]))
    form = form_of(node.arg)
    if form is Form.POINTWISE:
        shape = node.shape
        return node.replace(src=(value, *(fitted(x, has_axis, shape, size) for x, has_axis in pairs)))
    if form is Form.LEADING:
        return node.replace(src=(value, *src[1:])) if all(flags) else value
    return make(ops.FORMULA, (value, *src[1:]), _argument(node, flags[1:], form))


def _spread_value(node: UOp, value: UOp, size: Any) -> UOp:
    """The value of a formula that does not depend on the batch, as its operands do."""
    if value.op is ops.GROUP:
        return UOp.group(*(spread(member, size) for member in value.src))
    return spread(value, size)


def _argument(node: UOp, flags: Flags, form: Form) -> Any:
    """That of the formula over a batch: a rule of the same name for all of its kind, or one that goes with the node."""
    rule = _OverBatch(node.arg, rule_of(node), flags).rule
    if node.arg.name not in FORMULAS:
        return own_rule(node.arg.name, rule)
    name = f"{node.arg.name} over a batch of {''.join('01'[flag] for flag in flags)}"
    if name not in FORMULAS:
        derivative(name, form)(rule)
    return type(node.arg)(name)


class _OverBatch:
    """The rule of a formula over a batch."""

    def __init__(self, arg: Any, rule: Derivative, flags: Flags) -> None:
        self._arg = arg  # that of one example, with which its rule lives
        self._rule = rule
        self._flags = flags

    def rule(self, y: UOp, dy: Any, *operands: UOp) -> tuple[UOp | None, ...]:
        """The gradients of the operands: what the rule gives for one example, over the batch; of what is the same for
        all examples, the sum."""
        members = list(y.src[0].src) if y.src[0].op is ops.GROUP else [y.src[0]]
        size = members[0].shape[0]
        batch = Batch(size, {})
        pairs = zip(operands, self._flags, strict=True)
        given = [batch.example(x) if has_axis else x for x, has_axis in pairs]
        values = [batch.example(member) for member in members]
        is_group = y.src[0].op is ops.GROUP
        value = UOp.group(*values) if is_group else values[0]
        one = make(ops.FORMULA, (value, *given), self._arg)
        batch.give(one, y)
        if is_group:
            slopes: Any = tuple([None if piece is None else batch.example(piece) for piece in dy])
        else:
            slopes = batch.example(dy)
        with during(batch):
            found = self._rule(one, slopes, *given)
        wanted = [piece for piece in found if piece is not None]
        done = dict(zip(wanted, batch.with_axis(wanted), strict=True))
        results = zip(found, self._flags, strict=True)
        return tuple([None if g is None else done[g] if has_axis else total(done[g], (0,)) for g, has_axis in results])


_SPECIAL: dict[Op, Callable[[UOp, Sources, Flags, Any], UOp]] = {
    ops.ITEM: _item,
    ops.CALL: _call,
    ops.LOOP: _loop,
    ops.FORMULA: _formula,
}
