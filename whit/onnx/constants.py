"""What a model knows before it runs: tensors of its file, and what is computed of them alone.

    constant.array()            on the host; for shapes, axes, text, scalars
    constant.tensor("CPU")      on a device, read from the file once

A constant that nobody asks for is never read. Each has a number, which is the same whenever the model is loaded, and
knows whether it depends on large data of the file: programs are found again for a model whose weights are others
(`whit.onnx.kept`), if none of these was read on the host.
"""

from __future__ import annotations

from collections.abc import Callable
from math import prod
from typing import Any, Final

import numpy as np

from whit.errors import ArgumentError
from whit.onnx import types
from whit.onnx.operators.registry import as_tensor
from whit.onnx.proto import SparseTensorProto, TensorProto
from whit.onnx.tensors import Array, Store
from whit.onnx.values import untraced
from whit.tensor import Tensor

MOST_HOST_INTEGERS: Final = 4096  # elements of what is computed on the host: shapes, axes, tables of indices
MOST_HOST_FLOATS: Final = 16  # the same of floats: scales of a resize, limits; weights belong on the device


def is_small(dtype_kind: str, count: int) -> bool:
    """Whether the host computes with a value of this many elements. `dtype_kind` is NumPy's."""
    if dtype_kind in "OUS":
        return True
    return count <= (MOST_HOST_INTEGERS if dtype_kind in "biu" else MOST_HOST_FLOATS)


class Constant:
    """A value that is the same in all runs. `element` is the number of its type, 0 where it is not known; `is_data`
    says whether it depends on large data of the file."""

    __slots__ = ("_array", "_store", "_tensors", "element", "is_data", "is_open", "name", "number")

    def __init__(self, store: Store, name: str, element: int, is_data: bool) -> None:
        self.name = name
        self.element = element
        self.is_data = is_data
        self.number = store.new_number()
        self._store = store
        self.is_open = False
        self._array: Array | None = None
        self._tensors: dict[str, Tensor] = {}

    def is_small(self) -> bool:
        """Whether the host computes with it."""
        raise NotImplementedError

    def array(self) -> Array:
        """The value on the host."""
        if self._array is None:
            self._array = self._make_array()
            if self.is_data:
                self._store.note_read(self.number, self._array)
        return self._array

    def tensor(self, device: str) -> Tensor:
        """The value on a device: one tensor, always the same."""
        found = self._tensors.get(device)
        if found is None:
            found = self._tensors[device] = untraced(lambda: self._make_tensor(device))
        return found

    def tensors(self) -> list[Tensor]:
        """The tensors there are, one for each device that asked."""
        return list(self._tensors.values())

    def _make_array(self) -> Array:
        raise NotImplementedError

    def _make_tensor(self, device: str) -> Tensor:
        raise NotImplementedError


class Stored(Constant):
    """A tensor of the file. If `is_open`, it was given away as a weight, and may change at any time."""

    __slots__ = ("_now", "_proto", "shape")

    def __init__(self, store: Store, proto: TensorProto) -> None:
        super().__init__(store, proto.name, proto.data_type, store.leave_out(proto))
        self._proto = proto
        self._now: Tensor | None = None  # what it is instead of what the file says
        self.shape = store.shape(proto)

    @property
    def key(self) -> int:
        """What the same tensor has when the graph is built again."""
        return id(self._proto)

    def array(self) -> Array:
        """The value on the host; of an open one as it is now."""
        for tensor in self.tensors() if self.is_open else ():
            return tensor.numpy()
        return super().array()

    def hold(self, other: Stored) -> None:
        """Becomes an open weight, with the tensors of the same one in a graph that was built before."""
        self.is_open = True
        self._tensors = other._tensors

    def keep(self, tensor: Tensor, device: str) -> None:
        """Takes a tensor for what the file has, from now on."""
        self.is_open = False
        self._tensors = {device: tensor}
        self._now = tensor

    def is_small(self) -> bool:
        """Whether the host computes with it."""
        if self.is_open:
            return False
        if self.element == types.STRING:
            return True
        dtype = types.dtype_of(self.element)
        return dtype is not None and is_small("f" if dtype.is_float else "i", prod(self.shape))

    def _make_array(self) -> Array:
        return self._store.array(self._proto) if self._now is None else self._now.numpy()

    def _make_tensor(self, device: str) -> Tensor:
        return self._store.tensor(self._proto, device) if self._now is None else self._now.to(device).realize()


class Sparse(Constant):
    """A tensor of the file of which the elements that are not 0 are written down; it is dense once somebody asks."""

    __slots__ = ("_proto", "shape")

    def __init__(self, store: Store, proto: SparseTensorProto) -> None:
        super().__init__(store, proto.values.name, proto.values.data_type, False)
        self._proto = proto
        self.shape = store.dense_shape(proto)

    def is_small(self) -> bool:
        """Whether the host computes with it."""
        return is_small("f", prod(self.shape))

    def _make_array(self) -> Array:
        return self._store.dense(self._proto)

    def _make_tensor(self, device: str) -> Tensor:
        found: Tensor = as_tensor(self.array(), device).to(device).realize()
        return found


class Given(Constant):
    """A small value out of an attribute."""

    __slots__ = ()

    def __init__(self, store: Store, name: str, element: int, array: Array) -> None:
        super().__init__(store, name, element, False)
        self._array = array

    def is_small(self) -> bool:
        """Whether the host computes with it."""
        array = self.array()
        return is_small(array.dtype.kind, array.size)

    def _make_tensor(self, device: str) -> Tensor:
        found: Tensor = as_tensor(self.array(), device).to(device).realize()
        return found


class Derived(Constant):
    """One output of a node all of whose inputs are constants: computed when somebody asks, once."""

    __slots__ = ("_compute", "_output", "_value", "sources")

    def __init__(
        self,
        store: Store,
        name: str,
        element: int,
        sources: tuple[Constant, ...],
        compute: Callable[[], tuple[Any, ...]],
        output: int,
    ) -> None:
        super().__init__(store, name, element, any(source.is_data for source in sources))
        self.sources = sources
        self._compute: Callable[[], tuple[Any, ...]] | None = compute
        self._output = output
        self._value: Any = None

    def value(self) -> Any:
        """Whatever it is: a sequence, too. What it is computed of comes first: chains of constants may be long."""
        waiting = [self]
        while waiting:
            missing = [s for s in waiting[-1].sources if isinstance(s, Derived) and s._compute is not None]
            if missing:
                waiting += missing
            else:
                waiting.pop()._settle()
        return self._value

    def _settle(self) -> None:
        compute = self._compute
        if compute is not None:

            def computed() -> Any:
                results = compute()
                if self._output >= len(results):
                    raise ArgumentError(
                        f'onnx: nothing makes "{self.name}"',
                        f"its node has {len(results)} outputs",
                        "The model is wrong.",
                    )
                value = results[self._output]
                return value.realize() if isinstance(value, Tensor) else value

            self._value = untraced(computed)
            self._compute = None
            if self.is_data and not isinstance(self._value, Tensor):
                self._store.note_read(self.number, self._value if isinstance(self._value, np.ndarray) else None)

    def is_small(self) -> bool:
        """Whether the host has it: a value that a device computed stays there."""
        return not isinstance(self.value(), Tensor)

    def _make_array(self) -> Array:
        value = self.value()
        return value.numpy() if isinstance(value, Tensor) else value

    def _make_tensor(self, device: str) -> Tensor:
        found: Tensor = as_tensor(self.value(), device).to(device).realize()
        return found


def host_value(value: Any) -> Any:
    """The array of a small value that the host knows; None of others."""
    if isinstance(value, Constant):
        if not value.is_small():
            return None
        value = value.value() if isinstance(value, Derived) else value.array()
    if isinstance(value, np.ndarray) and is_small("i", value.size):
        return value
    return None
