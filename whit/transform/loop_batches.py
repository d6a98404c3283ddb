"""Loops over batches: one loop of all examples.

    scan(f, c0, xs, w)       ->      scan(f over a batch, C0, Xs, w)        Xs: (steps, examples, ...)

States have the axis of the batch if they have it at first or after any step. A while loop goes on as long as any
example does; those that are done keep their states. A choice of each example's own is a choice of values: both
functions run.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from whit.errors import NotSupportedError
from whit.ir import ops
from whit.ir.batching import fitted, moved_axis, spread
from whit.ir.op import Sources
from whit.ir.uop import UOp, make

# (body, what its params are over the batch, what others are) -> each result, and whether it has the axis
Over = Callable[[UOp, Mapping[UOp, UOp], Mapping[UOp, UOp]], "list[tuple[UOp, bool]]"]


def loop_over_batch(node: UOp, src: Sources, flags: tuple[bool, ...], size: Any, over: Over) -> UOp:
    """A GROUP of the results of a LOOP, all with the axis."""
    if not isinstance(size, int):
        raise NotSupportedError("vmap: a loop over a batch of a symbolic size", node.short(), "Bind it to a number.")
    count = node.arg.functions
    loop = _Loop(node, src[count:], flags[count:], size, over)
    return loop.choice() if node.arg.kind == "cond" else loop.repeated()


class _Loop:
    """One LOOP, with its operands as they are over the batch."""

    def __init__(self, node: UOp, given: Sources, flags: tuple[bool, ...], size: int, over: Over) -> None:
        self.node, self.size, self.over = node, size, over
        self.arg = node.arg
        self.lengths = list(given[len(given) - (node.arg.length is None) :])
        self.given = list(given[: len(given) - len(self.lengths)])
        self.flags = flags
        self.functions = node.src[: node.arg.functions]
        self.bodies = [function.src[0] for function in self.functions]

    def results_over(self, body: UOp, mapped: set[int]) -> list[tuple[UOp, bool]]:
        """The results of a body where some of its params have the axis."""
        params = [each for each in body.topological() if each.op is ops.PARAM and each.arg.slot in mapped]
        return self.over(body, {p: UOp.param(p.arg.slot, p.dtype, (self.size, *p.shape)) for p in params}, {})

    def with_axis(self, pair: tuple[UOp, bool]) -> UOp:
        """A value, repeated if it has no axis."""
        node, has_axis = pair
        return node if has_axis else spread(node, self.size)

    # ---- scan and while

    def repeated(self) -> UOp:
        """The loop of all examples."""
        mapped, is_open = self._mapped()
        carries = self.arg.carries
        pairs = enumerate(self.results_over(self.bodies[0], mapped))
        members = [self.with_axis(p) if i in mapped or i >= carries else p[0] for i, p in pairs]
        bodies = [UOp.group(*members)]
        if self.arg.kind == "while":
            ((test, has_axis),) = self.results_over(self.bodies[1], mapped)
            if is_open:
                bodies = [UOp.group(*self._where_open(test, members))]
            bodies.append(UOp.group(test.reduce(ops.OR, (0,)) if has_axis else test))
        rows = zip(bodies, self.functions, strict=True)
        called = [body.function(function.arg.name) for body, function in rows]
        loop = make(ops.LOOP, (*called, *self._operands(mapped), *self.lengths), self.arg)
        return UOp.group(*[self._result(loop, place, mapped) for place in range(len(members))])

    def _mapped(self) -> tuple[set[int], bool]:
        """The operands that have the axis, states among them; whether examples end at times of their own."""
        mapped = {place for place in range(len(self.given)) if self.flags[place]}
        states = set(range(self.arg.carries))
        while True:
            found = self.results_over(self.bodies[0], mapped)
            more = {place for place in states if found[place][1]} - mapped
            is_open = self.arg.kind == "while" and self.results_over(self.bodies[1], mapped)[0][1]
            if is_open:
                more = states - mapped
            if not more:
                return mapped, is_open
            mapped |= more

    def _where_open(self, test: UOp, members: list[UOp]) -> list[UOp]:
        """The states of examples that go on, and of the others those that they have."""
        found = []
        for place, (member, one) in enumerate(zip(members, self.bodies[0].src, strict=True)):
            old = UOp.param(place, member.dtype, member.shape)
            found.append(fitted(test, True, one.shape, self.size).where(member, old))
        return found

    def _operands(self, mapped: set[int]) -> list[UOp]:
        """Operands with the axis where they have it now, behind that of steps."""
        found = []
        for place, operand in enumerate(self.given):
            if place < self.arg.carries:
                found.append(self.with_axis((operand, self.flags[place])) if place in mapped else operand)
            elif place < self.arg.carries + self.arg.inputs and self.flags[place]:
                found.append(moved_axis(operand, 0, 1))
            else:
                found.append(operand)
        return found

    def _result(self, loop: UOp, place: int, mapped: set[int]) -> UOp:
        item = make(ops.ITEM, (loop,), place)
        if place >= self.arg.carries:
            return moved_axis(item, 1, 0)
        return item if place in mapped else spread(item, self.size)

    # ---- cond

    def choice(self) -> UOp:
        """A choice for all examples together; where each has its own, both functions and a choice of values."""
        predicate, *operands = self.given
        mapped = {place for place, flag in enumerate(self.flags[1:]) if flag}
        if self.flags[0]:
            return self._both(predicate, operands, mapped)
        called = []
        for body, function in zip(self.bodies, self.functions, strict=True):
            members = [self.with_axis(pair) for pair in self.results_over(body, mapped)]
            called.append(UOp.group(*members).function(function.arg.name))
        loop = make(ops.LOOP, (*called, predicate, *operands), self.arg)
        return UOp.group(*[make(ops.ITEM, (loop,), place) for place in range(len(self.bodies[0].src))])

    def _both(self, predicate: UOp, operands: list[UOp], mapped: set[int]) -> UOp:
        both = []
        for body in self.bodies:
            params = [each for each in body.topological() if each.op is ops.PARAM]
            over_batch = {p: operands[p.arg.slot] for p in params if p.arg.slot in mapped}
            same = {p: operands[p.arg.slot] for p in params if p.arg.slot not in mapped}
            both.append([self.with_axis(pair) for pair in self.over(body, over_batch, same)])
        rows = zip(self.bodies[0].src, *both, strict=True)
        choices = [fitted(predicate, True, one.shape, self.size).where(yes, no) for one, yes, no in rows]
        return UOp.group(*choices)
