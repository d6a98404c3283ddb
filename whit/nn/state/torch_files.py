"""Checkpoints of PyTorch, read without PyTorch and without running code that is in them.

    zip (1.6 and later)     archive/data.pkl, archive/data/0, archive/data/1, ...
    legacy                  five pickles (magic number, version, system, the object, names of storages), then storages

A storage is a run of elements that several tensors may share; a tensor is a storage, an offset, a shape and steps.
Tensors are parts of the file, read when they are needed.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Mapping
from typing import Any

from whit.dtype import DType, dtypes
from whit.nn.state.archives import zip_members
from whit.nn.state.pickles import Build, Global, Unpickler
from whit.nn.state.strided import is_row_major, strided
from whit.records import dataclass
from whit.tensor import Tensor
from whit.tensor.source import CUT_OFF, Reader, Source, checked_numbers, checked_shape, open_source, shown

MAGIC = 0x1950A86A20F9469CFC6C
PROTOCOL = 1001
STORAGES = {
    "DoubleStorage": dtypes.float64,
    "FloatStorage": dtypes.float32,
    "HalfStorage": dtypes.float16,
    "ComplexFloatStorage": dtypes.complex64,
    "ComplexDoubleStorage": dtypes.complex128,
    "BFloat16Storage": dtypes.bfloat16,
    "LongStorage": dtypes.int64,
    "IntStorage": dtypes.int32,
    "ShortStorage": dtypes.int16,
    "CharStorage": dtypes.int8,
    "ByteStorage": dtypes.uint8,
    "BoolStorage": dtypes.bool,
}
TYPES = {
    "float64": dtypes.float64,
    "double": dtypes.float64,
    "float32": dtypes.float32,
    "float": dtypes.float32,
    "float16": dtypes.float16,
    "half": dtypes.float16,
    "complex64": dtypes.complex64,
    "cfloat": dtypes.complex64,
    "complex128": dtypes.complex128,
    "cdouble": dtypes.complex128,
    "bfloat16": dtypes.bfloat16,
    "float8_e4m3fn": dtypes.fp8e4m3,
    "float8_e5m2": dtypes.fp8e5m2,
    "int64": dtypes.int64,
    "int32": dtypes.int32,
    "int16": dtypes.int16,
    "int8": dtypes.int8,
    "uint64": dtypes.uint64,
    "uint32": dtypes.uint32,
    "uint16": dtypes.uint16,
    "uint8": dtypes.uint8,
    "bool": dtypes.bool,
}


@dataclass(frozen=True)
class Storage:
    """Bytes in a source; `dtype` is None where only the tensor says what they are. No source: not known yet."""

    source: Source | None
    start: int
    nbytes: int
    dtype: DType | None


def torch_load(fn: Any) -> Any:
    """What a checkpoint holds: dictionaries, lists, numbers, text and tensors. `fn` is a path, a tensor or bytes.

    Files that ask for anything else are refused: to build it, code that the file names would have to run.
    """
    source = open_source("torch_load", fn)
    if source.read_up_to(0, 4) == b"PK\3\4":
        return _load_zip(source)
    if source.read_up_to(257, 5) == b"ustar":
        raise source.error("a checkpoint of PyTorch before 0.1.10", "a tar archive", "Save it again with PyTorch 1.")
    return _load_legacy(source)


# ---- zip


def _load_zip(source: Source) -> Any:
    members = zip_members(source)
    found = [name for name in members if name.endswith("/data.pkl") or name == "data.pkl"]
    if len(found) != 1:
        raise source.error("no checkpoint of PyTorch", "a zip archive without one data.pkl", "Use zip_extract.")
    folder = found[0].removesuffix("data.pkl")
    order = members.get(f"{folder}byteorder")
    if order is not None and order.read_up_to(0, 16) != b"little":
        raise source.error("it is not little-endian", f"{order.read_up_to(0, 16)!r}", "Save it on another machine.")

    def storage(key: Any) -> Storage:
        kind, dtype, name, _, count = _storage_key(source, key, 5)
        member = members.get(f"{folder}data/{name}")
        if kind != "storage" or member is None:
            raise source.error(f"the storage {name!r:.80} is not in it", "", CUT_OFF)
        nbytes = count * (dtype.itemsize if dtype is not None else 1)
        if nbytes > member.size:
            raise source.error(f"the storage {name!r:.80} is cut off", f"{member.size} of {nbytes} bytes", CUT_OFF)
        return Storage(member, 0, nbytes, dtype)

    return Unpickler(Reader(members[found[0]]), _globals(source), storage).load()


def _storage_key(source: Source, key: Any, length: int) -> Any:
    """("storage", type, name, location, number of elements, ...), with the dtype in place of the type."""
    fits = isinstance(key, tuple) and len(key) == length and isinstance(key[2], str) and type(key[4]) is int
    if not fits or key[4] < 0:
        raise source.error("it refers to something that is no storage", f"a {type(key).__name__}", CUT_OFF)
    kind = key[1]
    if not isinstance(kind, Global) or not isinstance(kind.value, _StorageType):
        raise source.error("it refers to a storage of no known type", "", CUT_OFF)
    return (key[0], kind.value.dtype, *key[2:])


# ---- legacy


def _places_of_storages(
    source: Source, reader: Reader, names: list[str], sizes: Mapping[Any, int]
) -> dict[str, tuple[int, int]]:
    """Where each storage begins, and its bytes; they follow one another, each after its number of elements."""
    places: dict[str, tuple[int, int]] = {}
    for name in names:
        count = reader.number("q")
        nbytes = count * sizes.get(name, 1)
        if count < 0 or nbytes > reader.left:
            raise source.error(f"the storage {name!r:.80} is cut off", f"{reader.left} of {nbytes} bytes", CUT_OFF)
        places[name] = reader.place, nbytes
        reader.place += nbytes
    return places


def _load_legacy(source: Source) -> Any:
    reader = Reader(source)
    if source.read_up_to(0, 1) != b"\x80" or Unpickler(reader, {}).load() != MAGIC:
        raise source.error(
            "no checkpoint of PyTorch",
            f"it begins with {source.read_up_to(0, 8)!r}",
            "Check what the file is: .safetensors loads with safe_load, .gguf with gguf_load.",
        )
    version, system = Unpickler(reader, {}).load(), Unpickler(reader, {}).load()
    if version != PROTOCOL or not isinstance(system, dict) or system.get("little_endian") is not True:
        raise source.error("a checkpoint of an unknown kind", f"version {shown(version)}", "Save it again.")
    first = reader.place
    sizes: dict[Any, int] = {}  # bytes of an element, by storage

    def unknown(key: Any) -> Storage:
        _, dtype, name, _, _, _ = _storage_key(source, key, 6)
        sizes[name] = dtype.itemsize if dtype is not None else 1
        return Storage(None, 0, 0, dtype)

    # Twice: where the storages are is known only after the object was read.
    Unpickler(reader, _globals(source), unknown).load()
    names = Unpickler(reader, {}).load()
    is_list = isinstance(names, list) and all(isinstance(name, str) for name in names)
    if not is_list or set(sizes) - set(names):
        raise source.error("its storages are not those that it refers to", "", CUT_OFF)
    places = _places_of_storages(source, reader, names, sizes)

    def storage(key: Any) -> Storage:
        _, dtype, name, _, _, part = _storage_key(source, key, 6)
        start, nbytes = places[name]
        if part is None:
            return Storage(source, start, nbytes, dtype)
        _, offset, count = part
        size = sizes[name]
        if offset < 0 or count < 0 or (offset + count) * size > nbytes:
            raise source.error(f"a part of the storage {name!r:.80} lies outside of it", shown(part), CUT_OFF)
        return Storage(source, start + offset * size, count * size, dtype)

    return Unpickler(Reader(source, first), _globals(source), storage).load()


# ---- what files may build


@dataclass(frozen=True)
class _StorageType:
    """The class of a storage, as files name it."""

    dtype: DType | None


def _globals(source: Source) -> dict[str, Global]:
    """The names that checkpoints use, and what they build."""

    def tensor(storage: Any, offset: Any, shape: Any, steps: Any, *_: Any) -> Tensor:
        if not isinstance(storage, Storage) or storage.dtype is None:
            raise source.error("a tensor has no storage", "", CUT_OFF)
        return _tensor(source, storage, storage.dtype, offset, shape, steps)

    def tensor_of_type(
        storage: Any, offset: Any, shape: Any, steps: Any, _grad: Any, _hooks: Any, dtype: Any, *_: Any
    ) -> Tensor:
        if not isinstance(storage, Storage) or not isinstance(dtype, DType):
            raise source.error("a tensor has no storage or no dtype", "", CUT_OFF)
        return _tensor(source, storage, dtype, offset, shape, steps)

    def parameter(value: Any, *_: Any) -> Any:
        return value

    def of_type(function: Any, _type: Any, arguments: Any, _state: Any) -> Any:
        if not isinstance(function, Global) or function.build is None or not isinstance(arguments, tuple):
            raise source.error("a tensor is built by no function", "", CUT_OFF)
        return function.build(*arguments)

    builders: dict[str, Build] = {
        "torch._utils._rebuild_tensor": tensor,
        "torch._utils._rebuild_tensor_v2": tensor,
        "torch._utils._rebuild_tensor_v3": tensor_of_type,
        "torch._utils._rebuild_parameter": parameter,
        "torch._utils._rebuild_parameter_with_state": parameter,
        "torch._tensor._rebuild_from_type_v2": of_type,
        "torch.nn.parameter.Parameter": parameter,
        "torch.Tensor": parameter,
        "torch.Size": lambda sizes=(): tuple(_container(sizes)),
        "torch.device": lambda *parts: ":".join(map(str, parts)),
        "torch.serialization._get_layout": lambda name: str(name),
        "collections.OrderedDict": _ordered,
        "_codecs.encode": _encoded,
    }
    for name in ("set", "frozenset", "list", "tuple", "dict", "bytearray", "complex", "slice"):
        for module in ("builtins", "__builtin__"):
            builders[f"{module}.{name}"] = _PLAIN[name]
    found = {name: Global(name, build=build) for name, build in builders.items()}
    for name, dtype in TYPES.items():
        found[f"torch.{name}"] = Global(name, dtype)
    for name, kind in [*STORAGES.items(), ("UntypedStorage", None)]:
        for module in ("torch", "torch.storage", "torch.cuda"):
            found[f"{module}.{name}"] = Global(name, _StorageType(kind), _no_build)
    return found


def _no_build(*_: Any) -> Any:
    raise TypeError("a storage is named, not built")


def _container(values: Any) -> Any:
    """Not a tensor: a small file can have one of a billion rows, all the same."""
    if not isinstance(values, list | tuple | set | frozenset | dict):
        raise TypeError(f"a {type(values).__name__} is not a container")
    return values


def _ordered(pairs: Any = ()) -> OrderedDict[Any, Any]:
    """Flat keys only, as everywhere in a pickle."""
    pairs = list(_container(pairs))
    if not all(isinstance(pair, list | tuple) and len(pair) == 2 for pair in pairs):
        raise TypeError("an OrderedDict is not made of pairs")
    if not all(isinstance(key, str | int | float | bool) for key, _ in pairs):
        raise TypeError("an OrderedDict has keys that are no text and no numbers")
    return OrderedDict(pairs)


def _encoded(text: Any, encoding: Any = "latin1") -> bytes:
    """How protocol 2 writes bytes."""
    if not isinstance(text, str) or encoding not in ("latin1", "latin-1", "utf-8"):
        raise TypeError("only text can be encoded, as latin1 or utf-8")
    return text.encode(encoding)


def _flat(values: Any = ()) -> list[Any]:
    found = list(_container(values))
    if not all(isinstance(value, str | bytes | int | float | bool) for value in found):
        raise TypeError("a set may hold numbers and text")
    return found


def _bytearray(text: Any = b"", encoding: Any = "latin1") -> bytearray:
    return bytearray(text if isinstance(text, bytes) else _encoded(text, encoding))


_PLAIN: dict[str, Any] = {
    "set": lambda values=(): set(_flat(values)),
    "frozenset": lambda values=(): frozenset(_flat(values)),
    "list": lambda values=(): list(_container(values)),
    "tuple": lambda values=(): tuple(_container(values)),
    "dict": lambda pairs=(): dict(_ordered(pairs)),
    "bytearray": _bytearray,
    "complex": lambda real=0.0, imag=0.0: complex(float(real), float(imag)),
    "slice": lambda start, stop, step=None: slice(start, stop, step),
}


def _tensor(source: Source, storage: Storage, dtype: DType, offset: Any, shape: Any, steps: Any) -> Tensor:
    sizes = checked_shape(source, "a tensor", shape)
    steps = checked_numbers(source, "the steps of a tensor", steps)
    if type(offset) is not int or offset < 0 or len(steps) != len(sizes):
        raise source.error("a tensor has no offset, or not as many steps as sizes", f"{sizes}, {steps}", CUT_OFF)
    if storage.source is None or 0 in sizes:
        return Tensor.empty(0, dtype=dtype).reshape(sizes if 0 in sizes else (0,))
    count = storage.nbytes // dtype.itemsize
    last = offset + sum((size - 1) * step for size, step in zip(sizes, steps, strict=True))
    if last >= count:
        raise source.error(
            "a tensor lies outside of its storage", f"element {last} of {count}, shape {sizes}, steps {steps}", CUT_OFF
        )
    place, start = storage.source, storage.start
    if is_row_major(sizes, steps):
        return place.tensor(start + offset * dtype.itemsize, dtype, sizes)

    def take(first: int, number: int) -> Tensor:
        return place.tensor(start + first * dtype.itemsize, dtype, (number,))

    return strided(take, count, offset, sizes, steps)
