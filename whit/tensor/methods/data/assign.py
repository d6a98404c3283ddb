"""Writing: `assign`, `replace`, and what the operators `+=` ... and `x[i] = y` are made of.

A write replaces the base of the tensor's family by the old base after a STORE (whit/tensor/family.py). Values are those
from before the write, whatever they are made of: `x[1:] = x[:-1]` moves every element by one.

    assign(v)       v broadcasts to the shape; its dtype must be the tensor's. Python numbers and lists take it.
    x[i] = v        the same, and v is cast to the dtype, as in NumPy.
    x += v          the sum must have the tensor's shape, and a dtype of its kind or a lower one (bool, unsigned,
                    signed, float), as in NumPy: float16 += float32 rounds, int32 += float32 raises.
"""

from __future__ import annotations

from typing import Any, Self

from whit.dtype import DType
from whit.engine.devices.device import is_disk
from whit.errors import ArgumentError, DeviceError, DTypeError, ShapeError
from whit.ir import ops
from whit.ir.op import Op, Shape, spell_shape
from whit.ir.uop import UOp
from whit.tensor.build import fitting
from whit.tensor.core import Core, broadcast_scalar, expand_to
from whit.tensor.family import Change, chain_of, change_all, is_repeating, value_for_base
from whit.tensor.topic import Topic


class Assignment(Topic):
    """Whole tensors that become something else."""

    __slots__ = ()

    def assign(self, x: Any) -> Self:
        """Writes x into this tensor, and so into all that share its elements, or into its file; returns this tensor."""
        if is_disk(self.uop.device):
            self._write_file("assign", x)
            return self
        value = self._value_to_write("assign", x)
        if value.dtype is not self.uop.dtype:
            raise DTypeError(
                f"assign: the value is {value.dtype.name}, and the tensor is {self.dtype.name}",
                self._made(),
                f"Cast it: x.assign(y.cast(dtypes.{self.dtype.name})), or write x[...] = y.",
            )
        self._write("assign", self.uop, fitted("assign", self, value, self.uop.shape))
        return self

    def replace(self, x: Any) -> Self:
        """Makes this object the tensor x: nothing is written, and views of what it was stay what they are."""
        other = self._operand("replace", x)
        if other.shape != self.shape:
            raise ShapeError(
                f"replace: shapes {spell_shape(self.shape)} and {spell_shape(other.shape)} differ",
                f"the tensor {self._made()}, the other {other._made()}",
                "Use a tensor of the same shape.",
            )
        change_all([(self, "uop", other.uop), (self, "_wanted", other._wanted), (self, "_family", None)])
        return self

    def _become_view(self, view: Core) -> None:
        """Makes this object another name of a view, with the elements shared."""
        family = view._family
        if family is not None:
            family.add(self)  # who has another family is no member
        change_all([(self, "uop", view.uop), (self, "_wanted", view._wanted), (self, "_family", family)])

    # ---- for all kinds of writes

    def _value_to_write(self, name: str, x: Any) -> UOp:
        """The node of a value: of Python numbers and lists in this tensor's dtype, of all else in their own."""
        dtype = self.uop.dtype
        if isinstance(x, bool | int | float | complex):
            return fitting(name, x, dtype)
        if isinstance(x, list | tuple):
            value: Core = type(self)(x, device=self.uop.device or self._wanted, dtype=dtype)
        else:
            value = self._operand(name, x)
        mine, other = self.uop.device or self._wanted, value.uop.device
        if other is not None and mine is not None and mine != other:
            raise DeviceError(
                f"{name}: the tensor is on {mine} and the value on {other}",
                f"the tensor {self._made()}, the value {value._made()}",
                f'Move the value: y.to("{mine}").',
            )
        if value.uop.dtype.is_complex and not dtype.is_complex:
            raise DTypeError(
                f"{name}: the value is {value.dtype.name}, and the tensor is {dtype.name}",
                f"the tensor {self._made()}, the value {value._made()}",
                "Its imaginary part would be lost: write y.real.",
            )
        return value.uop

    def _write(
        self,
        name: str,
        target: UOp,
        value: UOp,
        positions: tuple[UOp, ...] = (),
        combine: Op | None = None,
        gate: UOp | None = None,
    ) -> None:
        """Stores a value into a view of this tensor's node, at positions of its first axes."""
        family = self._family
        base = self.uop if family is None else family.uop
        chain = chain_of(target, base)
        self._check_elements_are_apart(name, target, base)
        if _is_empty(value) and target is not base:
            return  # nothing is written
        if gate is not None and not positions:
            value, gate = gate.where(value, target), None
        is_plain = not positions and gate is None and combine is None
        whole = value_for_base(chain, base, value) if is_plain else None
        if whole is None:
            shown = _without_detach(target, base, chain)
            new = base.after(shown.store(value, *_inside(positions, shown, chain), combine=combine, gate=gate))
        else:
            new = _replaced(base, whole)
        # lists: an interrupt while a generator is closed, before its end, would be lost
        device, *_ = [*[node.device for node in (value, *positions) if node.device], None]
        if family is None:
            change_all([(self, "uop", new), _placed_on(self, device)])
        else:
            family.rebase(new, *[_placed_on(tensor, device) for tensor in family.members()])

    def _check_elements_are_apart(self, name: str, target: UOp, base: UOp) -> None:
        """Whether each element of what is written to lies in a place of its own."""
        family = self._family
        if (family is not None and family.is_read_only) or is_repeating(target, base):
            raise ArgumentError(
                f"{name}: the tensor repeats elements by expand(), so writing to it has no single meaning",
                self._made(),
                "Write to the tensor that was expanded, or to a clone().",
            )

    def _become(self, name: str, result: Core) -> Self:
        """`x op= y`, `result` being `x op y`."""
        node, dtype = result.uop, self.uop.dtype
        if node.dtype is not dtype:
            if kind(node.dtype) > kind(dtype):
                raise DTypeError(
                    f"{name}: the result is {node.dtype.name}, and the tensor is {dtype.name}",
                    self._made(),
                    f"Cast the tensor first, or write {_not_in_place(name)}.",
                )
            node = node.cast(dtype)
        if node.shape != self.uop.shape:
            raise ShapeError(
                f"{name}: the result has shape {spell_shape(node.shape)}, and the tensor {spell_shape(self.shape)}",
                self._made(),
                f"Expand the tensor first, or write {_not_in_place(name)}.",
            )
        self._write(name, self.uop, node)
        return self


def _not_in_place(name: str) -> str:
    """The statement that makes a new tensor."""
    return f"x = x {name[:-1]} y" if name.endswith("=") else f"x = x.{name[:-1]}(...)"


def _placed_on(tensor: Core, device: str | None) -> Change:
    """A constant is nowhere until something is written into it."""
    return (tensor, "_wanted", tensor._wanted or device)


def _replaced(base: UOp, value: UOp) -> UOp:
    """The base with another value in all of it: in its memory, if it has one."""
    return base.after(base.store(value)) if base.op in (ops.BUFFER, ops.AFTER) else value


def _without_detach(target: UOp, base: UOp, chain: list[UOp]) -> UOp:
    """The same view of the base, without the links that only cut gradients."""
    if not any(link.op is ops.DETACH for link in chain):
        return target
    target = base
    for link in chain:
        if link.op is not ops.DETACH:
            target = link.replace(src=(target, *link.src[1:]))
    return target


def _inside(positions: tuple[UOp, ...], target: UOp, chain: list[UOp]) -> tuple[UOp, ...]:
    """Positions in a view with a step, which is padded: to be seen never to be reached there."""
    if not any(link.op is ops.PAD for link in chain):
        return positions
    return tuple(p.maximum(0).minimum(size - 1) for p, size in zip(positions, target.shape, strict=False))


def _is_empty(value: UOp) -> bool:
    """Whether it is known to have no elements."""
    return any(type(size) is int and not size for size in value.shape)


def kind(dtype: DType) -> int:
    """The order of kinds of numbers: each is a part of the next."""
    if dtype.is_bool:
        return 0
    if dtype.is_int:
        return 1 if dtype.is_unsigned else 2
    return 4 if dtype.is_complex else 3


def fitted(name: str, tensor: Core, value: UOp, shape: Shape) -> UOp:
    """A value repeated to the shape it is written to; leading axes of size 1 may be too many."""
    given = value.shape
    while len(value.shape) > len(shape) and value.shape[0] == 1:
        value = value.reshape(value.shape[1:])
    lead = len(shape) - len(value.shape)
    pairs = zip(value.shape, shape[lead:], strict=True) if lead >= 0 else ()
    if lead < 0 or any(size is not wanted and size not in (1, wanted) for size, wanted in pairs):
        raise ShapeError(
            f"{name}: a value of shape {spell_shape(given)} does not broadcast to {spell_shape(shape)}",
            tensor._made(),
            "Sizes must be equal, or 1 in the value.",
        )
    return expand_to(value, shape) if value.shape else broadcast_scalar(value, shape)
