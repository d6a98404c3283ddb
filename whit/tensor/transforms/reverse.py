"""Gradients of functions: `grad`, `value_and_grad`, `vjp`.

    grad(loss)(w, x, y)                        d loss / d w, in the containers of w
    value_and_grad(loss)(w, x, y)              loss, and the same
    y, pullback = vjp(f, x)                    pullback(dy): (dx,)

The function runs once, on tensors of its own in the place of those that are differentiated by. Its result is a graph
over them, and so is the gradient: it can be differentiated, mapped, captured like any other.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

from whit.engine.programs.overlay import current, transforming
from whit.errors import ArgumentError, DTypeError, ShapeError
from whit.ir.op import spell_shape
from whit.ir.uop import UOp
from whit.tensor.core import Core, broadcast_scalar
from whit.tensor.nested import flatten_tensors
from whit.tensor.transforms.arguments import Given, as_argument, check_function, chosen, like, name_of, without_aux
from whit.transform.reverse import gradients_of


def grad(f: Callable[..., Any], argnums: int | Sequence[int] = 0, has_aux: bool = False) -> Callable[..., Any]:
    """The function that gives the gradient of f, whose result is one number, by the argument that `argnums` names.

    The gradient has the containers of the argument; of several arguments it is a tuple. With `has_aux` f returns a pair
    of the number and anything else, and so does the result: (gradient, anything).
    """
    function = _with_gradient("grad", f, argnums, has_aux)

    @functools.wraps(f, updated=())
    def _gradient(*args: Any, **kwargs: Any) -> Any:
        _, aux, found = function(args, kwargs)
        return (found, aux) if has_aux else found

    return _gradient


def value_and_grad(
    f: Callable[..., Any], argnums: int | Sequence[int] = 0, has_aux: bool = False
) -> Callable[..., Any]:
    """The function that gives (value, gradient), as `grad` has it; with `has_aux` ((value, aux), gradient)."""
    function = _with_gradient("value_and_grad", f, argnums, has_aux)

    @functools.wraps(f, updated=())
    def _both(*args: Any, **kwargs: Any) -> Any:
        value, aux, found = function(args, kwargs)
        return ((value, aux) if has_aux else value), found

    return _both


def _with_gradient(
    name: str, f: Callable[..., Any], argnums: int | Sequence[int], has_aux: bool
) -> Callable[[tuple[Any, ...], dict[str, Any]], tuple[Any, Any, Any]]:
    """A call of f as (value, aux, gradient)."""
    check_function(name, f)

    def run(args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[Any, Any, Any]:
        places = chosen(name, argnums, len(args))
        given = [Given(name, as_argument(args[place])) for place in places]
        for place, one in zip(places, given, strict=True):
            one.check_floats(f"argument {place}")
        inside = list(args)
        for place, one in zip(places, given, strict=True):
            inside[place] = one.enter()
        with transforming():
            result = f(*inside, **kwargs)
        value, aux = without_aux(name, f, result, has_aux)
        _check_number(name, f, value)
        targets = [target for one in given for target in one.targets()]
        found = pulled_back(name, [value], [_ones(value)], targets)
        parts = [one.structure.unflatten([found.pop(0) for _ in one.tensors]) for one in given]
        return value, aux, tuple(parts) if isinstance(argnums, tuple | list) else parts[0]

    return run


def _ones(value: Any) -> UOp:
    return broadcast_scalar(value.uop.constant(1.0), value.shape)


def _check_number(name: str, f: Callable[..., Any], value: Any) -> None:
    """Raises for a result that has no gradient."""
    if not isinstance(value, Core):
        raise ArgumentError(
            f"{name}: {name_of(f)} returns {_spell(value)}, which is no tensor",
            fix="Return a number as a tensor; with has_aux=True a pair of it and anything else.",
        )
    if not value.dtype.is_float:
        raise DTypeError(
            f"{name}: {name_of(f)} returns {value.dtype.name}, and only floats have gradients",
            value._made(),
            "Return a real number of it: z.real, or z.abs()." if value.dtype.is_complex else "Cast it to a float.",
        )
    if value.shape and value.numel() != 1:
        raise ShapeError(
            f"{name}: {name_of(f)} returns shape {spell_shape(value.shape)}, and a number has a gradient",
            value._made(),
            "Reduce it, as with sum() or mean(); jacobian(f) gives all derivatives, vjp(f, x) a product with them.",
        )


def _spell(value: Any) -> str:
    """What a function has returned: a number as it is, of anything larger what it is."""
    return repr(value) if isinstance(value, bool | int | float | type(None)) else f"a {type(value).__name__}"


def pulled_back(name: str, values: Sequence[Any], seeds: Sequence[UOp], targets: Sequence[Any]) -> list[Any]:
    """The gradient of sum(values * seeds) by each of the targets, tensors that nothing was written to."""
    trace = current()
    for value in values if trace is not None else ():
        trace.check_gradient(value.uop, lambda _: True, list(targets), is_asked=False)  # type: ignore[union-attr]
    roots = [(value.uop, seed) for value, seed in zip(values, seeds, strict=True)]
    found = gradients_of(roots, [target.uop for target in targets])
    for value in values:
        if None in found:
            value._check_graph(name)
        value._check_cuts(name, targets)
    like_value = values[0] if values else targets[0]
    return [like_value._gradient_of(target, node) for target, node in zip(targets, found, strict=True)]


def vjp(f: Callable[..., Any], *primals: Any, has_aux: bool = False) -> tuple[Any, ...]:
    """(f(*primals), pullback), or (value, pullback, aux) with `has_aux`.

    `pullback(cotangent)`, of a cotangent in the containers of the result, gives the product of it with the derivatives
    of f: a tuple with one for each of the primals. What is no float has no cotangent: None stands there.
    """
    check_function("vjp", f)
    if not primals:
        raise ArgumentError("vjp: there are no primals", fix="Write vjp(f, x, y), with the arguments of f.")
    given = [Given("vjp", as_argument(primal)) for primal in primals]
    with transforming():
        result = f(*[one.enter() for one in given])
    value, aux = without_aux("vjp", f, result, has_aux)
    product = Pullback("vjp", value, given)

    def _pullback(cotangent: Any) -> tuple[Any, ...]:
        return product.of(cotangent)

    return (value, _pullback, aux) if has_aux else (value, _pullback)


class Pullback:
    """From cotangents of a function's results to those of its arguments, at one point."""

    def __init__(self, name: str, value: Any, given: Sequence[Given]) -> None:
        self._name = name
        self._given = given
        tensors, self._structure = flatten_tensors(value)
        if not tensors:
            raise ArgumentError(f"{name}: the function returns {value!r:.60}, and no tensor", fix="Return tensors.")
        self._values = [tensor._wrap(tensor.uop) for tensor in tensors]  # as they are now: they may be realised
        self._targets = [target for one in given for target in one.targets()]

    def of(self, cotangent: Any) -> tuple[Any, ...]:
        """The cotangents of the arguments, a tuple."""
        seeds = like(self._name, "the cotangent is", cotangent, self._values, self._structure)
        found = self.pull([seed.uop for seed in seeds])
        return tuple([one.structure.unflatten([found.pop(0) for _ in one.tensors]) for one in self._given])

    def pull(self, seeds: Sequence[UOp | None]) -> list[Any]:
        """Of nodes: one for each result, or None for zeros; the cotangent of each tensor among the arguments."""
        known_seeds = zip(self._values, seeds, strict=True)
        pairs = [(value, seed) for value, seed in known_seeds if value.dtype.is_continuous and seed is not None]
        targets = [target for target in self._targets if target.dtype.is_continuous]
        if not pairs or not targets:
            return [None if not t.dtype.is_continuous else t._gradient_of(t, None) for t in self._targets]
        values, known = zip(*pairs, strict=True)
        found = pulled_back(self._name, values, known, targets)
        return [found.pop(0) if target.dtype.is_continuous else None for target in self._targets]
