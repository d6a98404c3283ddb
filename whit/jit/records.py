"""What a captured function consists of besides its program: the tensors it reads, changes and makes.

site       a placeholder of the trace, and the place of its memory in the program's table
seen       a tensor that is read through a site: an argument, a captured one, or the gradient of one
change     a tensor that has another value afterwards
guards     what must be as it was when the function was traced
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from whit.dtype import DType
from whit.engine.memory.ownership import base_of
from whit.engine.memory.storage import is_known, nbytes_of
from whit.engine.programs.program import State
from whit.ir.uop import UOp
from whit.jit.signature import unbound
from whit.records import dataclass, field
from whit.runtime.pool.fields import FieldWatch, watch_field
from whit.tensor.core import Core
from whit.tensor.family import Family


@dataclass(slots=True)
class CapturedInput:
    """A placeholder, and the place of its memory in the table."""

    placeholder: UOp
    place: int = -1  # -1: it is not read


@dataclass(slots=True)
class ReadTensor:
    """A tensor that the function reads: an argument, a captured one, or the gradient of one."""

    tensor: Any  # a Core, or None where the number says which
    argument: int  # its number, or -1
    owner: Any  # what it is the gradient of, or None
    owner_argument: int  # the number of that, if it is an argument, or -1
    start: UOp  # what it shows, over the placeholder
    captured_input: int

    def is_gradient(self) -> bool:
        """Whether it is found through the tensor that it is the gradient of."""
        return self.owner is not None or self.owner_argument >= 0


@dataclass(slots=True)
class Change:
    """A tensor, or a family through one of its tensors, that has another value afterwards."""

    state: State
    seen: int  # the number of the `ReadTensor` through which it is found; -1: `tensor`, which was a constant
    tensor: Any  # a Core, or None where the number says which
    is_replaced: bool  # the tensor leaves its family
    writes_first: bool  # but was written to before that: it must have none
    dtype: DType
    shape: tuple[Any, ...]

    def can_stay(self) -> bool:
        """Whether the new value may lie where the old one was."""
        return self.seen >= 0 and (self.state.is_part or self.state.can_overwrite)


@dataclass(slots=True)
class Grad:
    """What the gradient of a tensor becomes."""

    tensor: Any  # a Core, or None where the number says which
    argument: int  # the number of the tensor, or -1
    value: Core | None  # a tensor from outside, or None
    output: int  # -1, or which of the gradients that are computed

    def is_settled(self) -> bool:
        """Whether it is the same for every call."""
        return self.argument < 0 and self.output < 0


@dataclass(slots=True)
class Escape:
    """A tensor that a function has made and put somewhere, and the family of views that it belongs to."""

    tensor: Core
    family: Family | None


@dataclass(slots=True)
class Shared:
    """A result that shares its elements with another tensor: a view of it, or the tensor itself.

    That is a result (`output`), an argument, or a captured tensor. `view` shows `base`, which stands for all of what is
    shown; None: it is the tensor itself.
    """

    output: int  # -1, or which of the tensors that are made
    argument: int  # -1, or which argument
    tensor: Any  # a Core, or None where the number says which
    view: UOp | None = None
    base: UOp | None = None
    family: Any = None  # a Family around `base`
    is_whole: bool = False  # what is shown is what the tensor shows; else it is what the tensor itself is a view of

    def of(self, made: Sequence[Core], arguments: Sequence[Core]) -> Any:
        """The result of this call."""
        owner = self.tensor
        if self.output >= 0:
            owner = made[self.output]
        elif self.argument >= 0:
            owner = arguments[self.argument]
        if self.view is None:
            return owner
        base = owner.uop if self.is_whole else base_of(owner)
        return owner._view(self.family.shown_on(base).same_view(self.view, self.base))


@dataclass(slots=True)
class Output:
    """A tensor to be made."""

    kind: Any
    dtype: DType
    shape: tuple[Any, ...]
    device: str
    where: Any
    name: str  # of the function, if a gradient should go on into it
    asks: bool
    inputs: tuple[int, ...] = ()  # the arguments that a gradient would go on to
    captured: tuple[Any, ...] = ()  # the other tensors that it would go on to, as weak references
    nbytes: int = field(init=False)  # -1: it depends on variables

    def __post_init__(self) -> None:
        self.nbytes = nbytes_of(self.dtype, self.shape) if is_known(self.shape) else -1


@dataclass(slots=True)
class Guards:
    """What must be as it was."""

    same: list[tuple[int, Core]]  # arguments that are captured tensors, too
    constants: list[tuple[Core, UOp]]  # captured tensors without a device, which are in the code
    without_grad: list[Core]
    arguments_without_grad: list[int]
    with_grad: list[tuple[Core, int, UOp | None]]  # a tensor, or which argument; the constant that is its gradient
    asked: list[Core]  # tensors that gradients may go to, and what they say about that
    requires_grad: list[bool | None]
    quick: FieldWatch | None = None  # of these

    def hold(self, arguments: Sequence[Core]) -> bool:
        """Whether it is."""
        for number, tensor in self.same:
            if arguments[number] is not tensor:
                return False
        if self.constants and not self.constants_hold():
            return False
        if not self._gradients_hold(arguments):
            return False
        if self.quick is not None and self.quick.is_same():
            return True
        return all(t.requires_grad is value for t, value in zip(self.asked, self.requires_grad, strict=True))

    def use_native(self) -> None:
        """Lets native code look at what can be hundreds of tensors."""
        self.quick = watch_field(Core, vars(Core)["requires_grad"], self.asked)
        if self.quick is not None:
            self.quick.note(list(map(id, self.requires_grad)))

    def _gradients_hold(self, arguments: Sequence[Core]) -> bool:
        """Whether the same tensors have a gradient, and those that are constants are the same ones."""
        for tensor in self.without_grad:
            if tensor.grad is not None:
                return False
        for number in self.arguments_without_grad:
            if arguments[number].grad is not None:
                return False
        for owner, number, node in self.with_grad:
            grad = (owner if number < 0 else arguments[number]).grad
            if grad is None or (node is not None and grad.uop is not node):
                return False
        return True

    def constants_hold(self) -> bool:
        """Whether captured tensors without a device are the same constants."""
        return all(tensor.uop is node for tensor, node in self.constants)


def shown_base(seen: ReadTensor, tensor: Core, placeholder: UOp) -> UOp | None:
    """What a placeholder stands for now, if the tensor shows it in the same way; else None."""
    node, family, base = tensor.uop, tensor._family, base_of(tensor)
    if base.dtype is not placeholder.dtype or not _is_same_shape(base.shape, placeholder.shape):
        return None
    if base.device is not None and base.device != placeholder.device:
        return None
    if family is None or base is node:
        return base if seen.start is placeholder else None
    return base if family.shown_on(placeholder).same_view(node, base) is seen.start else None


def _is_same_shape(shape: tuple[Any, ...], other: tuple[Any, ...]) -> bool:
    """Whether two shapes are the same but for the values of variables."""
    return shape == other or (len(shape) == len(other) and tuple(map(unbound, shape)) == tuple(map(unbound, other)))
