"""Tangents of functions: `jvp`, `linearize`, `hvp`.

    y, dy = jvp(f, (x,), (dx,))                  f(x), and how it changes as x changes by dx
    y, push = linearize(f, x)                    push(dx): dy
    hvp(f, (x,), (dx,))                          how the gradient of f changes

The function runs once, on tensors of its own in the place of the primals; what it has made is walked from them to its
results (`whit.transform.forward`). A tangent costs about as much as the value, whatever the number of results.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from whit.engine.programs.overlay import transforming
from whit.errors import ArgumentError
from whit.ir.map_graph import map_graphs
from whit.ir.uop import UOp
from whit.tensor.core import broadcast_scalar
from whit.tensor.nested import flatten_tensors
from whit.tensor.transforms.arguments import Given, as_argument, check_function, like, without_aux
from whit.tensor.transforms.reverse import grad
from whit.transform.active import during
from whit.transform.forward import tangents_of
from whit.transform.stand_in import stand_in
from whit.transform.unknown import Unknown


def jvp(
    f: Callable[..., Any], primals: Sequence[Any], tangents: Sequence[Any], has_aux: bool = False
) -> tuple[Any, ...]:
    """(f(*primals), its tangent), or (value, tangent, aux) with `has_aux`.

    The tangents are in the containers of the primals, with tensors of the same shapes and dtypes; so is the tangent of
    the result. What is no float has none: that of an argument without floats may be anything, and None comes back.
    """
    given = _given("jvp", f, primals)
    known = _known("jvp", given, tangents)
    value, aux, moving = _run("jvp", f, given, has_aux)
    tangent = moving.along(known)
    return (value, tangent, aux) if has_aux else (value, tangent)


def linearize(f: Callable[..., Any], *primals: Any, has_aux: bool = False) -> tuple[Any, ...]:
    """(f(*primals), push), or (value, push, aux) with `has_aux`: push(*tangents) is what `jvp` gives for them.

    The function does not run again for other tangents, and what they have in common is one graph.
    """
    given = _given("linearize", f, primals)
    value, aux, moving = _run("linearize", f, given, has_aux)
    linear = Linear(given, moving)

    def _push(*tangents: Any) -> Any:
        return linear.at(_known("linearize", given, tangents))

    return (value, _push, aux) if has_aux else (value, _push)


def hvp(f: Callable[..., Any], primals: Sequence[Any], tangents: Sequence[Any]) -> Any:
    """The product of the second derivatives of f, whose result is a number, with tangents: in the containers of the
    primals, as a tuple of one for each."""
    check_function("hvp", f)
    _check_sequence("hvp", "primals", primals)
    return jvp(grad(f, argnums=tuple(range(len(primals)))), primals, tangents)[1]


def _check_sequence(name: str, role: str, value: Any) -> None:
    if not isinstance(value, tuple | list) or not value:
        raise ArgumentError(f"{name}: {role}={value!r:.60}", fix=f"Give a tuple: {name}(f, (x, y), (dx, dy)).")


def _given(name: str, f: Any, primals: Any) -> list[Given]:
    check_function(name, f)
    _check_sequence(name, "primals", primals)
    return [Given(name, as_argument(primal)) for primal in primals]


def _known(name: str, given: Sequence[Given], tangents: Any) -> list[UOp | None]:
    """The tangent of each tensor among the primals."""
    if not isinstance(tangents, tuple | list) or len(tangents) != len(given):
        count = len(tangents) if isinstance(tangents, tuple | list) else f"{tangents!r:.40}, and none"
        raise ArgumentError(f"{name}: {count} tangents of {len(given)} primals", fix="Give one for each, in a tuple.")
    found: list[UOp | None] = []
    for number, (one, tangent) in enumerate(zip(given, tangents, strict=True)):
        if not any(tensor.dtype.is_continuous for tensor in one.tensors):
            found += [None] * len(one.tensors)
            continue
        tensors = like(name, f"the tangent of primal {number} is", as_argument(tangent), one.tensors, one.structure)
        pairs = zip(one.tensors, tensors, strict=True)
        found += [t.uop if primal.dtype.is_continuous else None for primal, t in pairs]
    return found


def _run(name: str, f: Callable[..., Any], given: Sequence[Given], has_aux: bool) -> tuple[Any, Any, Moving]:
    with transforming():
        result = f(*[one.enter() for one in given])
    value, aux = without_aux(name, f, result, has_aux)
    return value, aux, Moving(name, value, given)


class Moving:
    """The results of a function, as values that move with its arguments."""

    def __init__(self, name: str, value: Any, given: Sequence[Given]) -> None:
        tensors, self._structure = flatten_tensors(value)
        if not tensors:
            raise ArgumentError(f"{name}: the function returns {value!r:.60}, and no tensor", fix="Return tensors.")
        self.values = [tensor._wrap(tensor.uop) for tensor in tensors]  # as they are now: they may be realised
        self._nodes = [node for one in given for node in one.nodes]
        targets = [target for one in given for target in one.targets() if target.dtype.is_continuous]
        for tensor in self.values:
            tensor._check_cuts(name, targets)

    def nodes(self, known: Sequence[UOp | None]) -> list[UOp | None]:
        """The tangents of the results from those of all tensors among the arguments; None: of no float."""
        pairs = zip(self._nodes, known, strict=True)
        given = {node: tangent for node, tangent in pairs if tangent is not None}
        found = tangents_of([tensor.uop for tensor in self.values], given)
        pieces = zip(self.values, found, strict=True)
        return [_or_zeros(tensor, node) if tensor.dtype.is_continuous else None for tensor, node in pieces]

    def wrapped(self, nodes: Sequence[UOp | None]) -> Any:
        """Tangents in the containers of the result."""
        pairs = zip(self.values, nodes, strict=True)
        return self._structure.unflatten([None if node is None else tensor._wrap(node) for tensor, node in pairs])

    def along(self, known: Sequence[UOp | None]) -> Any:
        """The tangents of the results, in their containers."""
        return self.wrapped(self.nodes(known))


def _or_zeros(tensor: Any, node: UOp | None) -> UOp:
    return broadcast_scalar(tensor.uop.constant(0.0), tensor.shape) if node is None else node


class Linear:
    """From tangents of arguments to those of results, at one point: a graph over tangents that are not known yet."""

    def __init__(self, given: Sequence[Given], moving: Moving) -> None:
        tensors = [tensor for one in given for tensor in one.tensors]
        self._moving = moving
        self.inputs = [
            stand_in(tensor.dtype, tensor.shape, tensor.device) if tensor.dtype.is_continuous else None
            for tensor in tensors
        ]
        unknown = Unknown([node for node in self.inputs if node is not None])
        with during(unknown):
            self._nodes = moving.nodes(self.inputs)
        self._is_asked_again = unknown.is_used  # a rule computes at once, and has to see what it computes with

    def at(self, known: Sequence[UOp | None]) -> Any:
        """The tangents of the results, in their containers."""
        if self._is_asked_again:
            return self._moving.along(known)
        pairs = zip(self.inputs, known, strict=True)
        done = {node: tangent for node, tangent in pairs if node is not None and tangent is not None}
        map_graphs([node for node in self._nodes if node is not None], lambda node, src: None, done)
        return self._moving.wrapped([None if node is None else done[node] for node in self._nodes])
