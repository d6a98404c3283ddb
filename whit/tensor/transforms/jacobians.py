"""All derivatives of a function: `jacobian`, `jacrev`, `jacfwd`, `hessian`.

    jacobian(f)(x)                 y.shape + x.shape: how each element of f(x) depends on each of x
    hessian(f)(x)                  x.shape + x.shape, of a function that gives a number

Each is a product with derivatives for every element at once: `vmap` of a pullback over the elements of the results
(`jacrev`), or of tangents over those of the argument (`jacfwd`). `jacobian` takes what has fewer of them. Where results
or arguments are containers, there is a container of the argument in the place of each result.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

from whit.engine.programs.overlay import transforming
from whit.errors import ArgumentError
from whit.ir.batching import moved_axis, spread
from whit.ir.sizes import settled
from whit.ir.uop import UOp, const
from whit.tensor.nested import flatten_tensors
from whit.tensor.transforms.arguments import Given, as_argument, check_function, chosen, without_aux
from whit.tensor.transforms.forward import Moving
from whit.tensor.transforms.reverse import Pullback
from whit.transform.active import during
from whit.transform.batch import Batch

Rows = list[list[Any]]  # for each result the derivatives by each tensor among the arguments


def jacrev(f: Callable[..., Any], argnums: int | Sequence[int] = 0, has_aux: bool = False) -> Callable[..., Any]:
    """The function of all derivatives of f by an argument, in reverse mode: a pullback for each element of the result.

    In the place of each result is the argument, with tensors of shape result.shape + argument.shape in the place of its
    own; for several argnums a tuple of them. With `has_aux` it gives (derivatives, aux).
    """
    return _jacobian("jacrev", f, argnums, has_aux, lambda run: run.in_reverse())


def jacfwd(f: Callable[..., Any], argnums: int | Sequence[int] = 0, has_aux: bool = False) -> Callable[..., Any]:
    """The same as `jacrev`, in forward mode: a tangent for each element of the argument."""
    return _jacobian("jacfwd", f, argnums, has_aux, lambda run: run.forward())


def jacobian(f: Callable[..., Any], argnums: int | Sequence[int] = 0, has_aux: bool = False) -> Callable[..., Any]:
    """`jacfwd` where the argument has fewer elements than the result, else `jacrev`."""
    return _jacobian("jacobian", f, argnums, has_aux, lambda run: run.forward() if run.is_tall else run.in_reverse())


def hessian(f: Callable[..., Any], argnums: int | Sequence[int] = 0, has_aux: bool = False) -> Callable[..., Any]:
    """The function of all second derivatives of f: of a number x.shape + x.shape, else with result.shape in front."""
    return jacfwd(jacrev(f, argnums, has_aux), argnums, has_aux)


def _jacobian(
    name: str,
    f: Callable[..., Any],
    argnums: int | Sequence[int],
    has_aux: bool,
    rows: Callable[[_Run], list[list[Any]]],
) -> Callable[..., Any]:
    check_function(name, f)

    @functools.wraps(f, updated=())
    def _derivatives(*args: Any, **kwargs: Any) -> Any:
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
        run = _Run(name, value, given)
        found = run.arranged(rows(run), is_several=isinstance(argnums, tuple | list))
        return (found, aux) if has_aux else found

    return _derivatives


class _Run:
    """The results of a function and the tensors that they depend on."""

    def __init__(self, name: str, value: Any, given: Sequence[Given]) -> None:
        self._name = name
        self._given = given
        self._results, self._structure = flatten_tensors(value)
        if not self._results:
            raise ArgumentError(f"{name}: the function returns {value!r:.60}, and no tensor", fix="Return tensors.")
        for result in self._results:
            result._require(name, result.dtype.is_float, "only floats have derivatives", "Return it by has_aux=True.")
        self._inputs = [tensor for one in given for tensor in one.tensors]
        self._value = value

    @property
    def is_tall(self) -> bool:
        """Whether the results are known to have more elements than the arguments."""
        sizes = [settled(sum(tensor.numel() for tensor in group)) for group in (self._results, self._inputs)]
        return all(isinstance(size, int) for size in sizes) and sizes[0] > sizes[1]

    def in_reverse(self) -> Rows:
        """For each result the derivatives by each argument, a pullback for each element of the results."""
        pullback = Pullback(self._name, self._value, self._given)
        rows = []
        for place, result in enumerate(self._results):
            seeds: list[UOp | None] = [None] * len(self._results)
            batch, seeds[place] = _elements(result)
            with during(batch):
                found = [tensor.uop for tensor in pullback.pull(seeds)]
            rows.append(batch.with_axis(found))
        return [
            [result._wrap(node.reshape((*result.shape, *x.shape))) for node, x in zip(row, self._inputs, strict=True)]
            for result, row in zip(self._results, rows, strict=True)
        ]

    def forward(self) -> Rows:
        """The same, a tangent for each element of the arguments."""
        moving = Moving(self._name, self._value, self._given)
        columns = []
        for place, x in enumerate(self._inputs):
            known: list[UOp | None] = [None] * len(self._inputs)
            batch, known[place] = _elements(x)
            with during(batch):
                found = [node for node in moving.nodes(known) if node is not None]
            columns.append(batch.with_axis(found))
        rows = []
        for number, result in enumerate(self._results):
            last = [moved_axis(column[number], 0, len(result.shape)) for column in columns]
            pairs = zip(last, self._inputs, strict=True)
            rows.append([result._wrap(node.reshape((*result.shape, *x.shape))) for node, x in pairs])
        return rows

    def arranged(self, rows: Sequence[Sequence[Any]], is_several: bool) -> Any:
        """The derivatives in the containers of the results, each in those of the arguments."""
        filled = []
        for row in rows:
            left = list(row)
            parts = [one.structure.unflatten([left.pop(0) for _ in one.tensors]) for one in self._given]
            filled.append(tuple(parts) if is_several else parts[0])
        return self._structure.unflatten(filled)


def _elements(like: Any) -> tuple[Batch, UOp]:
    """A batch of directions, and the node that stands for one of them: along each element of a tensor."""
    size = like.numel()
    batch = Batch(size, {})
    return batch, batch.example(_directions(like, size), like.device)


def _directions(like: Any, size: Any) -> UOp:
    """(size, *shape): one element of each is 1."""
    place = UOp.arange(size)
    rows = place.reshape((size, 1)).expand((size, size))
    is_one = rows.eq(spread(place, size))
    return is_one.where(const(like.dtype, 1.0), 0.0).reshape((size, *like.shape))
