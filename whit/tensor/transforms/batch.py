"""`vmap`: a function of one example as a function of a batch.

    vmap(f)(xs)                    stack([f(x) for x in xs]), in the kernels of one call
    vmap(f, in_axes=(None, 0))     the first argument is the same for all

The function runs once, on tensors without the axis of the batch: in it, shapes are those of one example. The graph that
it makes is then made one of the batch (`whit.transform.batch`), op by op. It cannot ask for values, which stand for all
examples, nor change tensors from outside, for which each example would have another value.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from whit.engine.programs.overlay import Reads, transforming
from whit.errors import ArgumentError
from whit.ir.batching import moved_axis, spread
from whit.ir.op import spell_shape
from whit.ir.uop import UOp
from whit.tensor.core import Core
from whit.tensor.nested import flatten_tensors
from whit.tensor.transforms.arguments import check_function, name_of, of_array, shown
from whit.tensor.transforms.axes import axes_of_arguments, batch_size, counted, spread_axes
from whit.transform.active import during
from whit.transform.batch import Batch

RANDOMNESS = ("error", "different", "same")


def vmap(f: Callable[..., Any], in_axes: Any = 0, out_axes: Any = 0, randomness: str = "error") -> Callable[..., Any]:
    """f for every example of a batch at once.

    `in_axes`: which axis of the arguments counts examples: one for all, or one for each argument, in containers like
    theirs where they have some; None for what all examples share, as do arguments that are given by name. `out_axes`:
    where that axis goes in the results; None for results that are the same for all. `randomness`: whether random
    numbers in f are an "error", "different" for each example, as one draw for all of them has them, or the "same".
    """
    check_function("vmap", f)
    if randomness not in RANDOMNESS:
        raise ArgumentError(f"vmap: randomness={randomness!r:.60}", fix=f"It is one of {', '.join(RANDOMNESS)}.")

    @functools.wraps(f, updated=())
    def _mapped(*args: Any, **kwargs: Any) -> Any:
        call = _Call(name_of(f), [of_array(each) for each in args], in_axes, randomness)
        result = call.run(lambda given: f(*given, **kwargs))
        return call.over_batch(result, out_axes)

    return _mapped


class _Call:
    """One call of a mapped function."""

    def __init__(self, name: str, args: list[Any], in_axes: Any, randomness: str) -> None:
        self.name = name
        flat = [flatten_tensors(each) for each in args]
        self._structures = [structure for _, structure in flat]
        tensors = [tensor for found, _ in flat for tensor in found]
        places = [f"argument {i}{place}" for i, (_, s) in enumerate(flat) for place in s.leaf_places()]
        rows = zip(axes_of_arguments(in_axes, self._structures), tensors, places, strict=True)
        axes = [None if axis is None else counted("in_axes", axis, t, p, len(t.shape)) for axis, t, p in rows]
        self.size = batch_size(tensors, axes, places)
        self._batch = Batch(self.size, {}, randomness)
        self._entered: list[Any] = []
        self._given = [t if axis is None else self._enter(t, axis) for t, axis in zip(tensors, axes, strict=True)]

    def _enter(self, tensor: Any, axis: int) -> Any:
        device = tensor.uop.device or tensor._wanted
        found = shown(tensor, self._batch.example(moved_axis(tensor.uop, axis, 0), device))
        self._entered.append(found)
        return found

    def run(self, function: Callable[[list[Any]], Any]) -> Any:
        """What the function returns for one example."""
        given, place = [], 0
        for structure in self._structures:
            given.append(structure.unflatten(self._given[place : place + structure.count]))
            place += structure.count
        outside = _Outside(self.name)
        for tensor in self._entered:
            outside.note_made(tensor)
        with transforming(), during(self._batch):
            return outside.run(lambda: function(given))

    def over_batch(self, result: Any, out_axes: Any) -> Any:
        """The result of one example as that of the batch."""
        tensors, structure = flatten_tensors(result)
        axes = spread_axes("out_axes", out_axes, structure)
        over = self._batch.of([tensor.uop for tensor in tensors])
        rows = zip(tensors, over, axes, structure.leaf_places(), strict=True)
        return structure.unflatten([self._result(*row) for row in rows])

    def _result(self, tensor: Any, over: tuple[UOp, bool], axis: int | None, place: str) -> Any:
        node, has_axis = over
        if axis is None:
            if has_axis:
                raise ArgumentError(
                    f"vmap: out_axes is None for result{place}, of shape {spell_shape(tensor.shape)}, which differs "
                    "from example to example",
                    tensor._made(),
                    "Give the axis where the examples go, or make it one value in the function.",
                )
            return tensor._wrap(node)
        end = counted("out_axes", axis, tensor, f"result{place}", len(tensor.shape) + 1)
        return tensor._wrap(moved_axis(node if has_axis else spread(node, self.size), 0, end))


class _Outside(Reads):
    """Raises where a function that is mapped changes what was there before it."""

    def __init__(self, name: str) -> None:
        super().__init__()
        self._name = name

    def check_change(self, tensor: Any) -> None:
        """A tensor from outside has one value, and each example would give it another."""
        if not self.is_made(tensor):
            raise self._error("writes to a tensor", tensor, "Return the new value and write it outside")

    def check_gradient(self, tensor: Any) -> None:
        """The same of a gradient."""
        if not self.is_made(tensor):
            raise self._error("gives a gradient to a tensor", tensor, "Use grad(), or gradient(), and return it")

    def _error(self, what: str, tensor: Core, fix: str) -> ArgumentError:
        return ArgumentError(
            f"vmap: {self._name} {what} from outside, once for all examples",
            tensor._made(),
            f"{fix}; what was made in the function, its arguments too, can be written to.",
        )
