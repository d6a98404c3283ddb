"""Devices, shapes without values, and what else `jax` has by itself."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import SimpleNamespace
from typing import Any

from whit.cache import clear_caches as clear_caches
from whit.device import Device, canonicalize
from whit.dtype import DType, dtypes, to_dtype
from whit.errors import ArgumentError
from whit.jax import tree
from whit.jax.transforms import as_arrays, transforming
from whit.tensor import Tensor

Array = Tensor


class ShapeDtypeStruct:
    """A shape and a dtype, without values. It is a leaf, no container, so it is no dataclass."""

    __slots__ = ("dtype", "shape")

    def __init__(self, shape: Any, dtype: Any, **options: Any) -> None:
        self.shape: tuple[Any, ...] = tuple(shape)
        self.dtype: DType = to_dtype(dtype)

    @property
    def ndim(self) -> int:
        """The number of axes."""
        return len(self.shape)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, ShapeDtypeStruct) and (self.shape, self.dtype) == (other.shape, other.dtype)

    def __hash__(self) -> int:
        return hash((self.shape, self.dtype))

    def __repr__(self) -> str:
        return f"ShapeDtypeStruct(shape={self.shape}, dtype={self.dtype.name})"


def eval_shape(fun: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    """The shapes and dtypes of what a function gives; nothing is computed."""

    def stand_in(leaf: Any) -> Any:
        return Tensor.empty(*leaf.shape, dtype=leaf.dtype) if isinstance(leaf, ShapeDtypeStruct) else leaf

    def shape_of(leaf: Any) -> Any:
        return ShapeDtypeStruct(leaf.shape, leaf.dtype) if isinstance(leaf, Tensor) else leaf

    with transforming():
        found = fun(*[as_arrays(tree.map(stand_in, arg)) for arg in args], **kwargs)
    return tree.map(shape_of, as_arrays(found))


def _kind(name: str) -> str:
    kind = name.partition(":")[0].lower()
    return {"cuda": "gpu"}.get(kind, kind)


def default_backend() -> str:
    """Where arrays are made: "cpu", "gpu"."""
    return _kind(Device.DEFAULT)


def devices(backend: str | None = None) -> list[str]:
    """The devices of a kind, by name: one."""
    name = Device.DEFAULT if backend is None else {"gpu": "CUDA"}.get(backend, backend)
    return [canonicalize(name)]


local_devices = devices


def device_count(backend: str | None = None) -> int:
    """How many there are."""
    return len(devices(backend))


local_device_count = device_count


def process_index() -> int:
    """There is one process."""
    return 0


def process_count() -> int:
    """The same."""
    return 1


def device_put(x: Any, device: Any = None, **options: Any) -> Any:
    """Arrays on a device."""
    moved = as_arrays(x)
    return moved if device is None else tree.map(lambda leaf: leaf.to(str(device)), moved)


def device_get(x: Any) -> Any:
    """Arrays of NumPy."""
    return tree.map(lambda leaf: leaf.numpy() if isinstance(leaf, Tensor) else leaf, x)


def block_until_ready(x: Any) -> Any:
    """The same, computed."""
    found = [leaf for leaf in tree.leaves(x) if isinstance(leaf, Tensor)]
    if found:
        Tensor.realize(*found)
        Device.synchronize()
    return x


@contextmanager
def named_scope(name: str) -> Iterator[None]:
    """A name for what is computed in this block: for who reads the program."""
    yield


@contextmanager
def disable_jit(disable: bool = True) -> Iterator[None]:
    """Functions under `jit` run as they stand."""
    if not disable:
        yield
        return
    with transforming():
        yield


def typeof(x: Any) -> ShapeDtypeStruct:
    """The shape and dtype of an array."""
    return ShapeDtypeStruct(x.shape, x.dtype)


class _Config:
    """`jax.config`: of its settings, that of 64 bits means something here."""

    jax_enable_x64 = False

    def update(self, name: str, value: Any) -> None:
        """Changes a setting."""
        if name == "jax_enable_x64":
            self.jax_enable_x64 = bool(value)
            dtypes.default_float = dtypes.float64 if value else dtypes.float32
            dtypes.default_int = dtypes.int64 if value else dtypes.int32
        elif name == "jax_platform_name":
            Device.DEFAULT = canonicalize({"gpu": "CUDA"}.get(value, value))
        elif not name.startswith("jax_"):
            raise ArgumentError(f"config.update: there is no setting {name!r}", fix='As in "jax_enable_x64".')


config = _Config()


def _printed(fmt: str, *args: Any, ordered: bool = False, **kwargs: Any) -> None:
    """Prints values: inside of `jit` while the function is captured, where they have none."""
    print(fmt.format(*args, **kwargs))


debug = SimpleNamespace(print=_printed)


@contextmanager
def default_device(device: Any) -> Iterator[None]:
    """Arrays of this block are made on a device."""
    before = Device.DEFAULT
    Device.DEFAULT = canonicalize(None if device is None else str(device))
    try:
        yield
    finally:
        Device.DEFAULT = before


@contextmanager
def enable_x64(new_val: bool = True) -> Iterator[None]:
    """Floats and integers of 64 bits in this block."""
    before = config.jax_enable_x64
    config.update("jax_enable_x64", new_val)
    try:
        yield
    finally:
        config.update("jax_enable_x64", before)
