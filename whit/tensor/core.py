"""What every tensor is: a node of the graph, and the place in the user's code where it was made.

`Tensor` (`tensor.py`) is made of topics, each a class of methods in a file or folder of `methods/`. Topics stand on
`Topic` (`topic.py`), which stands on `Core`.

A method builds nodes and wraps the last one; nothing is computed. What cannot be right raises at the call, with the
lines where the operands were made. Methods of several steps work on nodes, so that one call of the user is one tensor.

`_wrap` makes a tensor with a value of its own. `_view` makes one that shares elements with this one (docs/indexing.md):
a write through one is seen through the other.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any, Self

from whit.dtype import DType, DTypeLike, dtypes, least_upper_float, to_dtype
from whit.engine.devices.device import Device, is_disk
from whit.engine.memory.holders import Holder, clock, forget, hold, holders
from whit.engine.programs.overlay import Overlaid, current
from whit.errors import ArgumentError, DeviceError, DTypeError, OutOfRangeError, ShapeError
from whit.ir import ops
from whit.ir.op import Shape, spell_shape, spell_size
from whit.ir.record import set_made
from whit.ir.sizes import is_size, reach, settled
from whit.ir.uop import UOp
from whit.tensor.family import Family
from whit.tensor.place import Place, line_of_caller, spell_place, user_method
from whit.tensor.size import size_answer

_new = object.__new__


class Leaf(Holder):
    """A tensor that is no result of operations."""

    __slots__ = ()


class _Cut(Leaf):
    """A leaf that is the result of a captured function: whose, and whether tensors asked it for gradients."""

    __slots__ = ("asks", "name")
    name: str
    asks: bool


def mark_leaf(tensor: Core) -> None:
    """From now on the tensor is one of the leaves."""
    hold(tensor, Leaf)


def mark_result(tensor: Core, name: str, asks: bool) -> None:
    """From now on the tensor is a leaf where a gradient ends that should go on."""
    cut = hold(tensor, _Cut)
    cut.name, cut.asks = name, asks


def result_of(tensor: Core) -> tuple[str, bool] | None:
    """The captured function that a leaf is the result of, and whether tensors asked it for gradients."""
    cut = tensor._holder
    return (cut.name, cut.asks) if isinstance(cut, _Cut) else None


def leaves() -> list[Core]:
    """The living tensors that are no results of operations: made from data, by a constructor, or realised."""
    trace = current()
    return all_leaves() if trace is None else [tensor for tensor in all_leaves() if trace.knows(tensor)]


def all_leaves() -> list[Core]:
    """The same, also while a function is traced that has nothing to do with them."""
    found = [holder() for holder in list(holders) if isinstance(holder, Leaf)]
    return [tensor for tensor in found if tensor is not None]


class Core(Overlaid):
    """A node and its place. `uop` is the graph that computes the tensor, or the BUFFER that holds it."""

    __slots__ = ("__weakref__", "_holder", "_place", "_wanted", "requires_grad")

    uop: UOp
    grad: Any  # the gradient, a tensor, once there is one
    requires_grad: bool | None
    _family: Family | None  # the tensors that share elements with this one; None as long as there was none
    _holder: Holder  # its entry among those who can ask for what a memory holds
    _place: Place | None
    _wanted: str | None  # the device that was asked for where the node has none, as constants do

    # Elementwise comparison takes `==`; tensors are still keys of dictionaries, by identity.
    __hash__ = object.__hash__
    # NumPy leaves `array + tensor` to the tensor.
    __array_ufunc__ = None

    def _wrap(self, uop: UOp) -> Self:
        """The tensor of a node, made by the call that the user is in."""
        if uop.device is not None and uop.device[0] == "D":  # 40 ns
            _check_in_file(uop)
        result = _new(type(self))
        result.uop = uop
        result._family = None
        result._place = place = line_of_caller()
        if uop is not self.uop:
            set_made(uop, place)
        result._wanted = self._wanted
        result.grad = None
        result.requires_grad = None
        result._holder = holder = Holder(result, forget)
        holder.number = next(clock)
        holders[holder] = holder
        return result

    def _view(self, uop: UOp) -> Self:
        """The tensor of movement on this one's node: it shows the same elements."""
        result = _new(type(self))
        result.uop = uop
        result._place = place = line_of_caller()
        if uop is not self.uop:
            set_made(uop, place)
        result._wanted = self._wanted
        result.grad = None
        result.requires_grad = self.requires_grad and None  # False stays
        result._holder = holder = Holder(result, forget)
        holder.number = next(clock)
        holders[holder] = holder
        family = self._family
        if family is None:
            family = self._family = Family(self)
        result._family = family
        family.add(result)
        return result

    def _same(self, uop: UOp) -> Self:
        """The tensor of the same value in another place or dtype. What takes no gradient still does not."""
        result = self._wrap(uop)
        result.requires_grad = self.requires_grad and None
        return result

    @classmethod
    def _make(cls, uop: UOp, wanted: str | None = None) -> Self:
        """The same where there is no tensor yet."""
        if uop.device is not None and uop.device[0] == "D":
            _check_in_file(uop)
        result = _new(cls)
        result.uop = uop
        result._family = None
        result._place = place = line_of_caller()
        if uop.src:
            set_made(uop, place)
        result._wanted = wanted
        result.grad = None
        result.requires_grad = None
        mark_leaf(result)
        return result

    @classmethod
    def _of_buffer(cls, uop: UOp, place: Place | None, name: str = "", asks: bool = False) -> Self:
        """The tensor of a BUFFER. `name` is that of the captured function that a gradient should go on into."""
        result = _new(cls)
        result.uop = uop
        result._family = None
        result._place = place
        result._wanted = None
        result.grad = None
        result.requires_grad = None
        result._mark(name, asks)
        return result

    def _mark(self, name: str, asks: bool) -> None:
        """A leaf from now on; with a name, one where a gradient ends that should go on into that captured function."""
        if name:
            mark_result(self, name, asks)
        else:
            mark_leaf(self)

    @classmethod
    def _new_family(cls, base: UOp, strides: tuple[int, ...] | None, is_read_only: bool) -> Family:
        """A family without members yet, for tensors that come from a file."""
        return Family.around(base, strides, is_read_only)

    # ---- questions

    @property
    def shape(self) -> tuple[Any, ...]:
        """The sizes of the axes."""
        return self.uop.shape

    @property
    def ndim(self) -> int:
        """The number of axes."""
        return len(self.uop.shape)

    @property
    def dtype(self) -> DType:
        """What an element is."""
        return self.uop.dtype

    @property
    def device(self) -> str:
        """Where the elements are, or will be."""
        return self.uop.device or self._wanted or Device.DEFAULT

    @property
    def size(self) -> Any:
        """The number of elements (NumPy); called, `x.size()`, the shape, and `x.size(1)` the size of an axis."""
        return size_answer(self)

    def numel(self) -> Any:
        """The number of elements."""
        return settled(prod(self.shape))

    def element_size(self) -> int:
        """Bytes of one element."""
        return self.dtype.itemsize

    def nbytes(self) -> Any:
        """Bytes of all elements."""
        return settled(self.numel() * self.element_size())

    def is_floating_point(self) -> bool:
        """Whether the elements are floats."""
        return self.dtype.is_float

    def __len__(self) -> int:
        if not self.shape:
            raise ArgumentError("len: a tensor of shape () has no length", self._made(), "Use numel() or item().")
        size = self.shape[0]
        if not isinstance(size, int):
            raise ArgumentError(f"len: the first size of {spell_shape(self.shape)} is symbolic", fix="Use shape[0].")
        return size

    # ---- messages

    def _made(self) -> str:
        return f"made at {spell_place(self._place)}"

    def _axis(self, name: str, axis: Any, scalars: bool = True) -> int:
        """An axis counted from either end as one counted from 0. `scalars`: axis 0 of shape () is accepted."""
        count = len(self.uop.shape)
        if type(axis) is not int:
            if isinstance(axis, bool) or not hasattr(axis, "__index__"):
                raise ArgumentError(f"{name}: {axis!r} is not an axis", self._made(), "Axes are integers.")
            axis = axis.__index__()
        if -count <= axis < count:
            return int(axis % count)
        if scalars and not count and axis in (0, -1):
            return 0
        allowed = f"Axes go from {-count} to {count - 1}." if count else "It has no axes."
        raise OutOfRangeError(
            f"{name}: there is no axis {axis} in shape {spell_shape(self.shape)}", self._made(), allowed
        )

    def _axes(self, name: str, axis: Any) -> tuple[int, ...]:
        """One axis, several, or None for all, as ascending axes."""
        if axis is None:
            return tuple(range(len(self.uop.shape)))
        given = axis if isinstance(axis, tuple | list) else (axis,)
        axes = [self._axis(name, a) for a in given]
        if not self.uop.shape:
            return ()
        if len(set(axes)) != len(axes):
            raise OutOfRangeError(f"{name}: {tuple(given)} names an axis twice", self._made(), "Name each axis once.")
        return tuple(sorted(axes))

    # ---- nodes for methods

    def _as_float(self) -> UOp:
        """The node; of integers and bools, cast to the default float."""
        dtype = self.uop.dtype
        return self.uop if dtype.is_float or dtype.is_complex else self.uop.cast(least_upper_float(dtype))

    def _require(self, name: str, accepted: bool, what: str, fix: str) -> None:
        if not accepted:
            raise DTypeError(
                f"{name}: {what}, and this is {self.dtype.name}{spell_shape(self.shape)}", self._made(), fix
            )


def without_views(node: UOp) -> UOp:
    """What a view shows, or the node itself."""
    while node.op in ops.MOVEMENT or node.op in ops.SAME_VALUE or node.op is ops.BITCAST:
        node = node.src[0]
    return node


def placed(node: UOp, device: str | None) -> UOp:
    """The node where it is wanted. What has no device is computed wherever its user is, except for files: they are only
    written when asked, and not by what is computed later."""
    return node.copy_to(device or "") if node.device is None and is_disk(device) else node


def _check_in_file(node: UOp) -> None:
    """Files are stored and moved: nothing is computed there."""
    if without_views(node).op not in (ops.BUFFER, ops.COPY, ops.AFTER):
        raise DeviceError(
            f"{user_method()}: nothing is computed on {node.device}",
            "a tensor in a file can be sliced, reshaped, bitcast, read and assigned to",
            'Move it first: x.to("CPU").',
        )


def either(name: str, axis: Any, dim: Any) -> Any:
    """The value of a parameter that may be spelled axis= or dim=."""
    if dim is None:
        return axis
    if axis is not None:
        raise ArgumentError(f"{name}: both axis={axis!r} and dim={dim!r} are given", fix="They are one parameter.")
    return dim


def keeps(keepdim: Any, keepdims: Any) -> bool:
    """Whether reduced axes stay, as in PyTorch's spelling or in NumPy's. sum(0, 1) is no sum over both axes."""
    for given in (keepdim, keepdims):
        if given is not True and given is not False:
            raise ArgumentError(
                f"{user_method()}: keepdim={given!r:.60} is no bool",
                fix="Several axes are one argument, as (0, 1). A dtype is named: dtype=.",
            )
    return bool(keepdim or keepdims)


def storable(name: str, dtype: DTypeLike) -> DType:
    """A dtype that a tensor can have."""
    found = to_dtype(dtype)
    if not found.itemsize:
        raise DTypeError(f"{name}: a tensor cannot be {found.name}", fix="It is never stored. Use int32 or float32.")
    return found


def check_gradient(requires_grad: bool | None, dtype: DType) -> None:
    """What is to have a gradient is a float."""
    if requires_grad and not dtype.is_continuous:
        raise DTypeError(
            f"Tensor: requires_grad=True of {dtype.name}",
            fix="Only floats and complex numbers have gradients. Cast it, or leave it out.",
        )


def whole_or_symbolic(name: str, what: str, value: Any, made: str = "") -> Any:
    """An integer, or a size that depends on variables."""
    if isinstance(value, UOp) and value.dtype is dtypes.weakint and is_size(value):
        return settled(value)
    return whole(name, what, value, made)


def integer_for(low: int, high: int, dtype: DType | None = None) -> DType:
    """An integer dtype, the default one if none is given, or int64 where it does not hold these numbers."""
    wanted = dtype or dtypes.default_int
    return wanted if wanted.min <= low and high <= wanted.max else dtypes.int64


def as_number(value: UOp) -> UOp:
    """A number made of variables, as tensors have it."""
    if value.dtype is not dtypes.weakint:
        return value
    low, high = reach(value)
    return value.cast(dtypes.default_int if low is None or high is None else integer_for(low, high))


def whole(name: str, what: str, value: Any, made: str = "") -> int:
    """An argument that is an integer; NumPy's are too."""
    if isinstance(value, bool) or not hasattr(value, "__index__"):
        raise ArgumentError(f"{name}: {what}={value!r:.60} is no integer", made, "Use an integer.")
    return int(value.__index__())


def plain_number(value: Any) -> Any:
    """A number of a subclass of Python's, as np.float64, as one of Python's own."""
    if isinstance(value, float):
        return float(value)
    return int(value) if isinstance(value, int) else complex(value)


def check_number(name: str, what: str, value: Any, made: str = "") -> None:
    """An argument that is a number."""
    if isinstance(value, str) or not hasattr(value, "__float__"):
        raise ArgumentError(f"{name}: {what}={value!r:.60} is no number", made, "Use a number.")


def broadcast_scalar(value: UOp, shape: Shape) -> UOp:
    """A scalar at every position."""
    return value.reshape((1,) * len(shape)).expand(shape) if shape else value


def expand_to(value: UOp, shape: Shape) -> UOp:
    """A value whose axes fit the last ones of a shape, repeated to all of it; a scalar stays, it fits as it is."""
    old = value.shape
    if old == shape or not old:
        return value
    if len(old) < len(shape):
        value = value.reshape((1,) * (len(shape) - len(old)) + old)
    return value if value.shape == shape else value.expand(shape)


def common_shape(name: str, operands: Sequence[tuple[str, Core]]) -> Shape:
    """The shape that tensors, each with its role, broadcast to by NumPy's rules."""
    shape: tuple[Any, ...] = ()
    for _, tensor in operands:
        other = tensor.uop.shape
        if other == shape or not other:
            continue
        both = join_shapes(shape, other)
        if both is None:
            raise _no_broadcast(name, operands)
        shape = both
    return shape


def join_shapes(left: Shape, right: Shape) -> Shape | None:
    """What two shapes broadcast to; None if they do not."""
    rank = max(len(left), len(right))
    sizes = []
    for a, b in zip((1,) * (rank - len(left)) + left, (1,) * (rank - len(right)) + right, strict=True):
        if a is not b and a != b and a != 1 and b != 1:
            return None
        sizes.append(b if isinstance(a, int) and a == 1 else a)
    return tuple(sizes)


def _no_broadcast(name: str, operands: Sequence[tuple[str, Core]]) -> ShapeError:
    shapes = [tensor.shape for _, tensor in operands]
    rank = max(map(len, shapes))
    padded = [(1,) * (rank - len(shape)) + shape for shape in shapes]
    for axis in range(rank - 1, -1, -1):
        sizes = [shape[axis] for shape in padded]
        odd = [i for i, size in enumerate(sizes) if size != 1]
        clash = [i for i in odd if sizes[i] != sizes[odd[0]]]
        if clash:
            break
    i, j = odd[0], clash[0]
    listed = " and ".join(spell_shape(shape) for shape in shapes)
    (first, left), (second, right) = operands[i], operands[j]
    return ShapeError(
        f"{name}: shapes {listed} do not broadcast: "
        f"axis {axis} is {spell_size(sizes[i])} {_on(first)} and {spell_size(sizes[j])} {_on(second)}",
        f"{first} {left._made()}, {second} {right._made()}",
        "Sizes on an axis must be equal, or one of them 1. Reshape or expand one side.",
    )


def _on(role: str) -> str:
    return f"on the {role}" if role in ("left", "right") else f"in the {role}"
