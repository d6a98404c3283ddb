"""Functions with a gradient that the user gives: `Tensor.custom_function(forward, gradient)`.

    round_through = Tensor.custom_function(lambda x: x.round(), lambda dy, y, x: dy)
    y = round_through(x)                  # the value of x.round(), the gradient of x

`forward` may do anything: other ops, NumPy, a library. `gradient` gets the gradient of the result, the result, and the
arguments of the call, all as tensors, and gives a gradient for each tensor among the arguments. What it gives is a
graph like any other, so it can be differentiated again.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from whit.containers import map_parts
from whit.errors import ArgumentError, DeviceError, DTypeError, ShapeError
from whit.ir import ops
from whit.ir.op import spell_shape
from whit.ir.uop import UOp, make
from whit.records import dataclass
from whit.tensor.core import Core, broadcast_scalar
from whit.tensor.nested import map_tensors, tensors_in
from whit.transform import own_rule

Forward = Callable[..., Any]
Gradient = Callable[..., Any]


@dataclass(frozen=True, slots=True)
class Slot:
    """The place of a tensor among the operands."""

    number: int


@dataclass(frozen=True, slots=True)
class Call:
    """One call of a custom function, without its tensors: those are the operands of the node, and free when it is."""

    kind: type[Core]
    name: str
    gradient: Gradient
    arguments: Any  # (positional, by name), with Slots for tensors
    results: Any  # one result or a tuple, with Slots for floats; the others are tensors

    def rule(self, y: UOp, dy: Any, *operands: UOp) -> tuple[UOp | None, ...]:
        """The gradients of the operands, as the user's function gives them."""
        members = [y.item(i) for i in range(len(dy))] if type(dy) is tuple else [y]
        pieces = dy if type(dy) is tuple else (dy,)
        known = [_or_zeros(piece, value) for piece, value in zip(pieces, members, strict=True)]
        slopes = _filled(self._results_without_integers(), [self._tensor(piece) for piece in known])
        values = _filled(self.results, [self._tensor(value) for value in members])
        positional, named = _filled(self.arguments, [self._tensor(operand) for operand in operands])
        found = self.gradient(slopes, values, *positional, **named)
        return self._checked(found if isinstance(found, tuple | list) else (found,), operands)

    def _tensor(self, node: UOp) -> Core:
        return self.kind._make(node, node.device)

    def _results_without_integers(self) -> Any:
        return map_tensors(lambda _: None, self.results)

    def _checked(self, found: Sequence[Any], operands: Sequence[UOp]) -> tuple[UOp | None, ...]:
        if len(found) != len(operands):
            raise ArgumentError(
                f"gradient: the gradient of {self.name} gives {len(found)} for {len(operands)} tensors",
                "one is wanted for each tensor among the arguments, in their order",
                "Give None where there is none.",
            )
        return tuple(self._checked_one(i, *pair) for i, pair in enumerate(zip(found, operands, strict=True)))

    def _checked_one(self, number: int, found: Any, operand: UOp) -> UOp | None:
        if found is None:
            return None
        what = f"gradient: the gradient of {self.name} gives"
        wanted = f"tensor {number} among the arguments is {operand.dtype.name}{spell_shape(operand.shape)}"
        if not isinstance(found, Core):
            raise ArgumentError(f"{what} {found!r:.60}, which is no tensor", wanted, "Give a tensor, or None.")
        if not operand.dtype.is_continuous:
            raise DTypeError(f"{what} a tensor for one that is no float", wanted, "Give None for it.")
        if found.shape != operand.shape:
            raise ShapeError(f"{what} shape {spell_shape(found.shape)}", wanted, "Give the shape of the argument.")
        if found.dtype is not operand.dtype:
            raise DTypeError(f"{what} {found.dtype.name}", wanted, "Cast it to the dtype of the argument.")
        device = found.uop.device
        if device is not None and operand.device is not None and device != operand.device:
            raise DeviceError(f"{what} a tensor on {device}", f"{wanted} on {operand.device}", "Move it there.")
        return found.uop


def with_gradient(kind: type[Core], forward: Forward, gradient: Gradient) -> Callable[..., Any]:
    """A function of tensors and whatever else; `gradient(dy, y, *args, **kwargs)` is its gradient."""
    for role, given in (("forward", forward), ("gradient", gradient)):
        if not callable(given):
            raise ArgumentError(f"custom_function: {role}={given!r:.60} cannot be called", fix="Pass two functions.")
    name = getattr(forward, "__name__", type(forward).__name__)

    def custom_function(*args: Any, **kwargs: Any) -> Any:
        result = forward(*args, **kwargs)
        _check_result(name, result)
        operands = tensors_in((args, kwargs))
        values = [tensor.uop for tensor in tensors_in(result) if tensor.dtype.is_continuous]
        if not values or not operands:
            return result
        places = _numbered((args, kwargs))
        results = _numbered(result, lambda tensor: tensor.dtype.is_continuous)
        arg = own_rule(name, Call(kind, name, gradient, places, results).rule)
        first = values[0] if len(values) == 1 else UOp.group(*values)
        node = make(ops.FORMULA, (first, *(tensor.uop for tensor in operands)), arg)
        members = [node] if len(values) == 1 else [node.item(i) for i in range(len(values))]
        (like, *_) = operands
        return _filled(results, [like._wrap(member) for member in members])

    custom_function.__name__ = custom_function.__qualname__ = name
    custom_function.__doc__ = getattr(forward, "__doc__", None)
    return custom_function


def _check_result(name: str, result: Any) -> None:
    parts = result if isinstance(result, tuple | list) else (result,)
    odd = [part for part in parts if not isinstance(part, Core)]
    if odd or not parts:
        what = f"{odd[0]!r:.60}, which is no tensor" if odd else "no tensors"
        raise ArgumentError(
            f"custom_function: {name} gives {what}",
            fix="Return a tensor, or a tuple of tensors; Tensor(array) makes one of an array.",
        )


def _numbered(value: Any, wanted: Callable[[Any], bool] = lambda tensor: True) -> Any:
    """The structure with Slots in the place of tensors that are wanted."""
    count = 0

    def number(tensor: Any) -> Any:
        nonlocal count
        if not wanted(tensor):
            return tensor
        count += 1
        return Slot(count - 1)

    return map_tensors(number, value)


def _filled(value: Any, tensors: Sequence[Any]) -> Any:
    """The structure with tensors in the place of Slots."""
    return map_parts(Slot, lambda slot: tensors[slot.number], value)


def _or_zeros(piece: UOp | None, value: UOp) -> UOp:
    return broadcast_scalar(value.constant(0.0), value.shape) if piece is None else piece
