"""Gradients of tensors: `gradient` returns them, `backward` leaves them in `.grad`.

    dx, dw = loss.gradient(x, w)          # a graph each, nothing is computed yet
    loss.backward()                       # x.grad, w.grad: added to what is there

`backward` finds the tensors itself: those that were made from data or by a constructor, or realised, and that the loss
was computed from. Where some of them have `requires_grad=True`, as all have that an optimiser trains, it is those;
otherwise all but those of `requires_grad=False`. Results of operations get no `.grad`; ask for them with `gradient`.
There is nothing to switch off and nothing to retain: what no gradient needs is never kept.
"""

from __future__ import annotations

import functools
import weakref
from collections.abc import Iterable
from typing import Any, Self, overload

from whit.containers import flatten, parts_in
from whit.engine.memory.origins import behind, cuts, note_gradient
from whit.engine.programs.overlay import current
from whit.engine.report.launch_names import made
from whit.errors import ArgumentError, DTypeError, JitError, ShapeError
from whit.ir import ops
from whit.ir.op import spell_shape
from whit.ir.record import set_made
from whit.ir.uop import UOp
from whit.tensor.core import Core, all_leaves, broadcast_scalar, leaves, result_of
from whit.tensor.engine import former, is_realised
from whit.tensor.family import moved
from whit.tensor.topic import Topic
from whit.transform import flow, gradients

# Roots of backward(), by identity, with the tensors that got a gradient from them. A root leaves when it dies.
_roots: dict[int, tuple[weakref.ref[Core], frozenset[int]]] = {}


class Backward(Topic):
    """Reverse-mode differentiation."""

    __slots__ = ()

    @overload
    def gradient(self, *targets: Core, gradient: Any = None) -> list[Self]: ...

    @overload
    def gradient(self, *targets: Any, gradient: Any = None) -> list[Any]: ...

    def gradient(self, *targets: Any, gradient: Any = None) -> list[Any]:
        """The gradient of this scalar, or of sum(self * gradient), with respect to each target.

        Zeros for a target that this tensor was not computed from, or only by steps, comparisons and detached values.
        The gradient of a container of tensors has the same places; None stands where a tensor is no float.
        """
        if any(not isinstance(target, Core) for target in targets):
            return self._gradient_of_containers(targets, gradient)
        for target in targets:
            _check_target("gradient", target)
        trace = current()
        if trace is not None:
            trace.check_gradient(self.uop, lambda _: True, list(targets), is_asked=False)
        seed = self._seed("gradient", gradient)
        found = gradients(self.uop, seed, [target.uop for target in targets])
        if None in found:  # not reached; or it was realised or written to since it was used
            below = set(flow((self.uop,)))
            used = [self._used_as("gradient", target, below) for target in targets]
            if None in used:
                self._check_graph("gradient")
            found = gradients(self.uop, seed, [node for node in used if node is not None])
            found = [None if node is None else found.pop(0) for node in used]
        self._check_cuts("gradient", targets)
        return [self._gradient_of(target, node) for target, node in zip(targets, found, strict=True)]

    def _gradient_of_containers(self, targets: tuple[Any, ...], gradient: Any) -> list[Any]:
        """The same, where some targets are lists, dictionaries and other containers of tensors."""
        for target in targets:
            if not isinstance(target, Core) and not parts_in(Core, target):
                raise ArgumentError(
                    f"gradient: {target!r:.60} is no tensor",
                    fix="Name the tensors to differentiate by, or lists and other containers of them.",
                )
        inside, structure = flatten(Core, targets)
        wanted = [tensor for tensor in inside if tensor.dtype.is_continuous]
        found = iter(self.gradient(*wanted, gradient=gradient))
        result = structure.unflatten([next(found) if tensor.dtype.is_continuous else None for tensor in inside])
        return list(result)

    def backward(self, gradient: Any = None) -> Self:
        """Adds the gradient of this scalar, or of sum(self * gradient), to `.grad` of the tensors it was made of."""
        seed = self._seed("backward", gradient)
        if not self.requires_grad:
            self._check_graph("backward")
        below = set(flow((self.uop,)))
        targets = self._leaves_below(below)
        # Else data that is used again would gather gradients that nobody asks for, with all weights that they need.
        asking = [(tensor, node) for tensor, node in targets if tensor.requires_grad]
        trace = current()
        if trace is not None:
            trace.check_gradient(self.uop, _takes_gradient_outside, all_leaves(), bool(asking))
        given = self._reached(seed, asking)
        if not given:
            asking, given = targets, self._reached(seed, targets)
        _check_results([tensor for tensor, _ in asking], [tensor for tensor, _ in targets])
        wanted = [tensor for tensor in leaves() if tensor.requires_grad]
        self._check_cuts("backward", wanted, [tensor for tensor, _ in given], below)
        for target, node in given:
            fresh = self._gradient_of(target, node)
            target.grad = fresh if target.grad is None else target.grad + fresh
        key = id(self)
        reference: weakref.ref[Core] = weakref.ref(self, functools.partial(_roots.pop, key))
        _roots[key] = (reference, frozenset(id(target) for target, _ in asking))
        return self

    def _reached(self, seed: UOp, targets: list[tuple[Core, UOp]]) -> list[tuple[Core, UOp]]:
        """Those of the tensors, given with their nodes, that have a gradient, with it."""
        found = gradients(self.uop, seed, [node for _, node in targets])
        return [(tensor, node) for (tensor, _), node in zip(targets, found, strict=True) if node is not None]

    def _leaves_below(self, below: set[UOp]) -> list[tuple[Core, UOp]]:
        """The leaves that this was made of and that may have gradients, each with what it was when it was used."""
        used = [(tensor, self._used_as("backward", tensor, below)) for tensor in leaves() if _takes_gradient(tensor)]
        return [(tensor, node) for tensor, node in used if node is not None]

    def contiguous_backward(self) -> Self:
        """The same value, whose gradient is kept in memory before it is passed on."""
        return self._same(UOp(ops.STAGE_GRADIENT, None, (self.uop,)))

    def _seed(self, name: str, gradient: Any) -> UOp:
        """The gradient to start from."""
        self._require(name, self.dtype.is_continuous, "only floats have gradients", "Cast it to a float.")
        if gradient is None:
            fix = "Take the gradient of a real number, as z.abs() or z.real, or pass gradient=."
            self._require(name, not self.dtype.is_complex, "a complex number is not more or less", fix)
            if self.uop.shape and self.numel() != 1:
                raise ShapeError(
                    f"{name}: a tensor of shape {spell_shape(self.shape)} has no gradient, a number has",
                    self._made(),
                    "Reduce it, as with sum() or mean(), or pass gradient= of the same shape.",
                )
            return broadcast_scalar(self.uop.constant(1.0), self.shape)
        seed = self._operand(name, gradient)
        fits = seed.dtype.is_float or (seed.dtype.is_complex and self.dtype.is_complex)
        if isinstance(gradient, Core) and not fits:
            raise DTypeError(
                f"{name}: gradient= is {seed.dtype.name}, the tensor {self.dtype.name}",
                f"{self._made()}, gradient {seed._made()}",
                "Pass a float.",
            )
        self._one_device(name, seed)
        if seed.shape != self.shape:
            raise ShapeError(
                f"{name}: gradient= has shape {spell_shape(seed.shape)}, the tensor {spell_shape(self.shape)}",
                f"{self._made()}, gradient {seed._made()}",
                "They must be equal.",
            )
        return seed.uop.cast(self.dtype)

    def _check_graph(self, name: str) -> None:
        """A tensor that was realised does not know any more what it was computed from."""
        if self.uop.op is ops.BUFFER and result_of(self) is None and is_realised(self.uop):
            raise ArgumentError(
                f"{name}: the tensor was realised, and what it was computed from is not known any more",
                self._made(),
                "Ask for gradients before realize(): item(), numpy() and tolist() leave the graph as it is.",
            )

    def _check_cuts(
        self,
        name: str,
        targets: Iterable[Core],
        directly: Iterable[Core] = (),
        below: Iterable[UOp] | None = None,
    ) -> None:
        """Raises where a part of a gradient would be lost: at a tensor that was computed from a target, and has no
        graph any more, because it was realised or is the result of a captured function. One that has
        `requires_grad=True` is where the gradient is to end. `directly`: targets that only count if it was not computed
        from them by gradients alone."""
        found = cuts(flow((self.uop,)) if below is None else below)
        if not found:
            return
        ends = {leaf.uop for leaf in leaves() if leaf.requires_grad}
        asked = [target.uop for target in targets]
        by_node = {target.uop: target for target in (*targets, *directly)}
        for cut in found:
            lost = behind(cut, asked, by_node) if cut.node() not in ends else None
            if lost is None:
                continue
            node, function = lost
            last = next((leaf for leaf in leaves() if leaf.uop is cut.node()), None)
            where = f"target {by_node[node]._made()}" + ("" if last is None else f", the other {last._made()}")
            if function:
                raise _ends_at_result(name, function, where)
            raise ArgumentError(
                f"{name}: the gradient ends at a tensor that was realised, and it was computed from a target",
                where,
                "Ask before realize(), or leave it out: item(), numpy() and tolist() keep the graph. "
                "If the gradient shall end there, use its detach().",
            )

    def _used_as(self, name: str, target: Core, below: set[UOp]) -> UOp | None:
        """What a target was to a graph: its node, or the one that it was before it was realised; None if it is not in
        the graph. What was written to since it was used is an error: the graph does not depend on what it is now."""
        node = target.uop
        base = node if target._family is None else target._family.uop
        if node in below:
            return node
        if base.op is not ops.BUFFER and base.op is not ops.AFTER:
            return None
        views = [(moved(node, {base: earlier}), is_same) for earlier, is_same in former(base)]
        found = {is_same: view for view, is_same in views if view in below}
        if False in found and True not in found and (name == "gradient" or target.requires_grad):
            raise ArgumentError(
                f"{name}: a target was written to after the tensor was computed from it",
                f"target {target._made()}, the tensor {self._made()}",
                "Ask for the gradient before the write, or write into a clone().",
            )
        return found.get(True)

    def _gradient_of(self, target: Core, node: UOp | None) -> Self:
        place = None if node is None else made(node)
        result = self._wrap(broadcast_scalar(target.uop.constant(0.0), target.shape) if node is None else node)
        if node is not None and place is not None:
            set_made(node, place)  # of what it is the gradient says more than where it was asked for
        note_gradient(result.uop)
        result._wanted = target._wanted
        return result


def unrealised_roots(targets: Iterable[Core]) -> list[Any]:
    """The tensors whose `backward()` gave a target its gradient, and which are not computed yet: the last chance to
    compute them together with what is about to change. Each is told once."""
    asked = {id(target) for target in targets}
    found = []
    for key, (reference, reached) in list(_roots.items()):
        root = reference()
        if root is None or not asked.isdisjoint(reached):
            _roots.pop(key, None)
            if root is not None and root.uop.op is not ops.BUFFER:
                found.append(root)
    return found


def unrealised_states() -> list[Any]:
    """The tensors without gradients that were written to and not computed, as the statistics of layers are by a batch.
    Left alone they would hold on to the graph of every batch."""
    plain = (ops.BUFFER, ops.CONST, ops.LEAF)
    return [tensor for tensor in leaves() if tensor.requires_grad is False and tensor.uop.op not in plain]


def _takes_gradient(tensor: Core) -> bool:
    trace = current()
    is_number = tensor.uop.op is ops.CONST or (trace is not None and trace.is_number(tensor))
    return tensor.requires_grad is not False and tensor.dtype.is_continuous and not is_number


def _check_results(asking: Iterable[Core], targets: Iterable[Core]) -> None:
    """Raises where a gradient ends at the result of a captured function and should have gone on into it."""
    ends = [tensor for tensor in asking if result_of(tensor) and not tensor.requires_grad]
    ends += [tensor for tensor in targets if (found := result_of(tensor)) and found[1]]
    for tensor in ends:
        name, _ = result_of(tensor) or ("", False)
        raise _ends_at_result("backward", name, tensor._made())


def _ends_at_result(name: str, function: str, where: str) -> JitError:
    return JitError(
        f"{name}: the gradient ends at a result of {function}, which was captured and keeps no graph",
        where,
        f"Call {name}() inside {function}; or detach() the result, if the gradient shall end there.",
    )


def _takes_gradient_outside(tensor: Core) -> bool:
    """The same of a tensor that a trace has not seen, and must not see by being asked."""
    return tensor.requires_grad is not False


def _check_target(name: str, target: Any) -> None:
    if not target.dtype.is_continuous:
        raise DTypeError(
            f"{name}: a target is {target.dtype.name}, and only floats have gradients",
            f"target {target._made()}",
            "Cast it to a float before it is used.",
        )
    if target.uop.op is ops.CONST:
        raise ArgumentError(
            f"{name}: a target is the plain number {target.uop.arg}, which any other equal number is too",
            f"target {target._made()}",
            "Make it with requires_grad=True, or from a list.",
        )
