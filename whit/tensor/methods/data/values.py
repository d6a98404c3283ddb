"""Data in and out: what a tensor is built from (`build.py`), and what realising it gives.

`realize` replaces the graph of a tensor by the buffer that holds its value. `numpy`, `item` and `tolist` compute too,
but keep the graph, so that a gradient can still be taken; what was computed is not computed again.
"""

from __future__ import annotations

from collections.abc import Sequence
from os import PathLike, fspath
from typing import TYPE_CHECKING, Any, Self

from whit.containers import opened, parts_in
from whit.dtype import DTypeLike, known_dtype
from whit.engine.devices.device import is_disk, usable
from whit.engine.memory.origins import Trail
from whit.engine.programs.overlay import current, forbid
from whit.engine.realize.store_once import store_when_computed
from whit.errors import ArgumentError, DTypeError, NotSupportedError, ShapeError
from whit.ir import ops
from whit.ir.op import spell_shape
from whit.ir.sizes import value_now
from whit.ir.uop import UOp
from whit.tensor.build import copy_to, node_of
from whit.tensor.core import (
    Core,
    broadcast_scalar,
    check_gradient,
    expand_to,
    join_shapes,
    mark_leaf,
    placed,
    storable,
    without_views,
)
from whit.tensor.display import html_of, show, text_of
from whit.tensor.engine import (
    explain,
    is_in_memory,
    item,
    kernels,
    note_realised,
    realize,
    shared_memory,
    to_list,
    to_numpy,
    write_view,
)
from whit.tensor.family import change_all
from whit.tensor.place import line_of_caller, user_method
from whit.tensor.topic import Topic

if TYPE_CHECKING:
    import numpy.typing as npt

    Array = npt.NDArray[Any]


HERE = ""  # no other device


class Values(Topic):
    """Building from data, realising, reading."""

    __slots__ = ()

    def __init__(
        self,
        data: Any,
        device: str | None = None,
        dtype: DTypeLike | None = None,
        requires_grad: bool | None = None,
        *,
        copy: bool = True,
    ) -> None:
        self._family = None
        self._place = line_of_caller()
        self._wanted = None if device is None else usable(device)
        self.grad = None
        self.requires_grad = requires_grad
        self.uop = node_of(data, None if dtype is None else storable("Tensor", dtype), self._wanted, copy)
        check_gradient(requires_grad, self.uop.dtype)
        if self.uop.op is ops.CONST and self.uop.dtype.is_continuous and requires_grad is not False:
            self.uop = self.uop.leaf()
        self.uop = placed(self.uop, self._wanted)
        mark_leaf(self)
        if isinstance(data, Core):
            self._wanted = self._wanted or data._wanted
            if requires_grad is None and data.requires_grad is False:
                self.requires_grad = False

    # ---- computing

    def realize(self, *lst: Any) -> Self:
        """Computes this tensor and the others together; returns this one. Also tensors in containers.

        What is a view of another tensor that is still in use stays one: its memory is part of the other's.
        """
        given: Sequence[Core] = (self, *lst)
        if any(not isinstance(each, Core) for each in given):
            given = _inside(given)
        if current() is not None:
            for tensor in given:
                _settle(tensor)
            return self
        tensors = [tensor for tensor in given if not _stays_in_file(tensor.uop)]
        for device in {tensor._wanted for tensor in tensors if tensor.uop.device is None} or {None}:
            _realize_all([t for t in tensors if t.uop.device is not None or t._wanted == device], device)
        return self

    def explain(self) -> str:
        """What `realize` would run for this tensor, and why: kernels in order, how each is tiled, bytes, memory.

        Nothing is computed, and the tensor stays as it is.
        """
        return explain(self._explained(), self._wanted)

    def kernels(self) -> list[Any]:
        """The kernels that `realize` would run for this tensor, in order; `kernels()[0].explain()` is about one.

        Nothing is computed, and the tensor stays as it is. A kernel says why it is tiled as it is, what the machine
        allows, and once it was timed (`kernel.measure()`, DEBUG=2, a recording) what was achieved.
        """
        return kernels(self._explained(), self._wanted)

    def _explained(self) -> UOp:
        is_there = without_views(self.uop).op is ops.BUFFER
        return self.uop if is_there else _to_realize(self)

    def _buffer(self) -> UOp:
        """The BUFFER that holds the value, computed if it is not yet; of a file, what was read from it."""
        if current() is None and is_in_memory(self.uop):  # 3 us less than what follows
            return self.uop
        forbid(user_method())
        if is_disk(self.device):
            return self.to("CPU")._buffer()
        (buffer,) = realize([self.uop], self._wanted)
        return buffer

    def numpy(self) -> Array:
        """The elements as a NumPy array of the caller's own: it may be written, and changes nothing here."""
        return to_numpy(self._buffer())

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Array:
        """`np.asarray(x)`: read-only, not copied unless asked; it does not change when the tensor is assigned to."""
        array = to_numpy(self._buffer(), copy=bool(copy))
        if dtype is None or array.dtype == dtype:
            return array
        if copy is False:
            raise ValueError(f"asarray: {array.dtype} as {dtype} needs a copy")  # the type that NumPy asks for
        return array.astype(dtype)

    def data(self) -> memoryview:
        """The elements as a memoryview of their shape, read-only and not copied; of float16 and the dtypes that Python
        does not know, as bytes. What it shows does not change when the tensor is assigned to."""
        raw: Any = shared_memory(self._buffer())
        if self.dtype.fmt is None or self.dtype.fmt == "e" or 0 in map(value_now, self.shape):
            return raw  # type: ignore[no-any-return]
        shape = [value_now(size) or 0 for size in self.shape]
        return raw.cast(self.dtype.fmt, shape) if shape else raw.cast(self.dtype.fmt)  # type: ignore[no-any-return]

    def item(self) -> Any:
        """The one element as a Python number."""
        if value_now(self.numel()) != 1:
            raise ShapeError(
                f"item: a tensor of shape {spell_shape(self.shape)} is not one number",
                self._made(),
                "Index or reduce it to one element first, or use tolist().",
            )
        return item(self._buffer())

    def tolist(self) -> Any:
        """The elements as nested lists of Python numbers; of shape (), the number."""
        return to_list(self._buffer())

    def __bool__(self) -> bool:
        if value_now(self.numel()) != 1:
            raise ShapeError(
                f"bool: a tensor of shape {spell_shape(self.shape)} is not one truth value",
                self._made(),
                "Use (x).any() or (x).all(), and & | ~ in place of and, or, not.",
            )
        return bool(self.item())

    def __int__(self) -> int:
        return int(self.item())

    def __float__(self) -> float:
        return float(self.item())

    def __complex__(self) -> complex:
        return complex(self.item())

    def __index__(self) -> int:
        self._require("index", self.dtype.is_int, "only integers can be used as an index", "Cast it.")
        return int(self.item())

    # ---- shown

    def __repr__(self) -> str:
        """The values, if they are in memory: nothing is computed."""
        return text_of(self)

    def __str__(self) -> str:
        """Of one element the number, which is computed; else what `repr` gives."""
        if value_now(self.numel()) != 1 or self.device.startswith("NULL"):
            return text_of(self)
        return str(to_numpy(self._buffer()).reshape(-1)[0])

    def _repr_html_(self) -> str:
        return html_of(self)

    def show(self, path: str | PathLike[str] | None = None) -> None:
        """Computes this and draws it: as an image where the shape looks like one, else as a heat map, of one axis as a
        histogram. In a notebook that is HTML, in a terminal blocks of colour; `path` is a file, .png or .html."""
        self.realize()
        show(self, None if path is None else fspath(path))

    def __format__(self, spec: str) -> str:
        """`f"{x.mean():.2f}"`: the one element, formatted as a Python number. Without a format, what `str` gives."""
        if not spec:
            return str(self)
        if value_now(self.numel()) != 1:
            raise ArgumentError(
                f"format: a tensor of shape {spell_shape(self.shape)} is not one number for {spec!r}",
                self._made(),
                "Index or reduce it to one element first, or format the numbers of tolist().",
            )
        return format(self.item(), spec)

    # ---- the same value elsewhere

    def contiguous(self, **_: Any) -> Self:
        """The same value in memory of its own, which users of it read. Writes to one are not seen in the other.

        A part of a file stays one.
        """
        if is_disk(self.uop.device):
            return self
        if self.uop.op is ops.BUFFER:
            return self._same(self.uop)
        result = self._same(self.uop.stage())
        if current() is None:
            store_when_computed(result)
        return result

    def clone(self, device: str | None = None) -> Self:
        """A copy."""
        return self._same(self.uop.stage()) if device is None else self.to(device).contiguous()

    def __copy__(self) -> Self:
        return self.__deepcopy__({})

    def __deepcopy__(self, memo: dict[int, Any]) -> Self:
        """A tensor of its own with the same elements and gradient, which gradients do not flow through. Of a file, the
        same part."""
        from copy import deepcopy  # lazy: who calls this has loaded it

        is_value = is_disk(self.uop.device) or self.uop.op is ops.CONST
        result = self._wrap(self.uop if is_value else self.uop.detach().stage())
        result.requires_grad = self.requires_grad
        result.grad = deepcopy(self.grad, memo)
        mark_leaf(result)
        return result

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickles the elements, the dtype and the device."""
        if is_disk(self.uop.device):
            raise NotSupportedError(
                f"pickle: a tensor of {self.device} is a part of a file",
                self._made(),
                'Pickle x.to("CPU"), or the path.',
            )
        return type(self), (self.numpy(), self.device, self.dtype.name, self.requires_grad)

    def detach(self) -> Self:
        """The same elements, where no gradient flows: a view."""
        return self._view(self.uop.detach())

    def to(self, device: str | DTypeLike | Core | None = HERE, dtype: DTypeLike | None = None) -> Self:
        """The same value on another device, or in another dtype, or both; those of another tensor, if one is given."""
        if isinstance(device, Core):
            dtype = device.dtype if dtype is None else dtype
            device = device.device
        elif dtype is None and (dtype := known_dtype(device)) is not None:
            device = HERE
        moved = self if device == HERE else self._moved(usable(device))  # type: ignore[arg-type]  # checked there
        wanted = moved.dtype if dtype is None else storable("to", dtype)
        return moved if wanted is moved.dtype else moved._wrap(moved.uop.cast(wanted))

    def _moved(self, name: str) -> Self:
        if name == self.device:
            return self
        moved = self._same(placed(self.uop, name) if self.uop.device is None else copy_to(self.uop, name))
        moved._wanted = name
        return moved

    def to_(self, device: str | None) -> Self:
        """`to`, of this very tensor."""
        moved = self.to(device)
        if moved is not self:
            change_all([(self, "uop", moved.uop), (self, "_wanted", moved._wanted), (self, "_family", None)])
        return self

    # ---- files

    def _write_file(self, name: str, x: Any) -> None:
        """Writes the elements of `x` to where this tensor, a view of a file, shows."""
        given = x if isinstance(x, Core) else type(self)(x, "CPU", self.dtype)
        value = given.uop
        if value.dtype is not self.dtype:
            raise DTypeError(
                f"{name}: the file holds {self.dtype.name} and the value is {value.dtype.name}",
                f"the file {self._made()}, the value {given._made()}",
                f"Cast the value: x.cast(dtypes.{self.dtype.name}).",
            )
        if join_shapes(self.shape, value.shape) != self.shape:
            raise ShapeError(
                f"{name}: a value of shape {spell_shape(value.shape)} for {spell_shape(self.shape)}",
                f"the file {self._made()}, the value {given._made()}",
                "It must broadcast to the shape of the part that is written.",
            )
        self.realize()
        write_view(self.uop, expand_to(value, self.shape) if value.shape else broadcast_scalar(value, self.shape))


def _inside(given: Sequence[Any]) -> list[Core]:
    """The tensors of containers."""
    found: list[Core] = []
    for each in given:
        tensors = parts_in(Core, each)
        if not tensors and opened(each) is None:
            raise ArgumentError(
                f"realize: {each!r:.60} is no tensor", fix="Give tensors, or containers of them: Tensor.realize(a, b)."
            )
        found += tensors
    return found


def _stays_in_file(node: UOp) -> bool:
    """Whether this is a view of a file, which stays one: there is nothing to compute. The file is written first, if it
    is not yet."""
    base = without_views(node)
    if not is_disk(node.device) or (base is node and base.op is not ops.BUFFER):
        return False
    if base.op is not ops.BUFFER:
        realize([base], None)
    return True


def _realize_all(batch: list[Core], device: str | None) -> None:
    """Computes tensors together. What they were made of is noted once their graphs are gone: see `Trail`."""
    nodes = [_to_realize(tensor) for tensor in batch]
    buffers = realize(nodes, device)
    below = Trail(nodes)
    nodes.reverse()
    for tensor, buffer in zip(batch, buffers, strict=True):
        node = nodes.pop()
        family = tensor._family
        note_realised(node, buffer)
        if family is None:
            tensor.uop = buffer
        elif family.uop is node and node is not buffer and (tensor.uop is node or node.op is not ops.STAGE):
            family.rebase(buffer)
        if tensor.uop is buffer:
            mark_leaf(tensor)
        del node
    below.note(buffers)


def _settle(tensor: Core) -> None:
    """`realize` while a function is traced: computed later, but from here on a tensor that no gradient goes through."""
    family = tensor._family
    node = tensor.uop if family is None else family.uop
    if (family is not None and tensor.uop is not node and node.op is not ops.AFTER) or node.op is ops.BUFFER:
        return
    if node.op is not ops.LEAF:
        settled = node.detach().leaf()
        Trail([node]).note([settled])
        if family is None:
            tensor.uop = settled
        else:
            family.rebase(settled)
    mark_leaf(tensor)


def _to_realize(tensor: Core) -> UOp:
    """The node to compute for a tensor: for views of what was written to, or copied, the whole of it, which is computed
    anyway."""
    family = tensor._family
    if family is None:
        return tensor.uop
    if tensor.uop is not family.uop and len(family.members()) == 1:
        family = tensor._family = family.without_others(tensor)
    return family.uop if family.uop.op in (ops.AFTER, ops.BUFFER, ops.STAGE) else tensor.uop
