"""Checkpoints in PyTorch's format, written without PyTorch: what `torch_load` reads, and `torch.load` of PyTorch too.

    torch_save({"model": model.state_dict(), "epoch": 3}, "checkpoint.pt")

A zip file: `archive/data.pkl` is a pickle of dictionaries, lists, tuples, numbers, text and tensors; the elements of
tensor number n are `archive/data/n`. The pickle is written here, opcode by opcode: Python's own pickler would have to
import the functions of PyTorch that the file names.
"""

from __future__ import annotations

import io
import struct
import zipfile
from collections import OrderedDict
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from whit.dtype import DType
from whit.errors import ArgumentError, DTypeError
from whit.nn.state.torch_files import STORAGES, TYPES
from whit.tensor import Tensor

_STORAGE_NAMES = {dtype: name for name, dtype in STORAGES.items()}
_TYPE_NAMES = {dtype: name for name, dtype in reversed(TYPES.items())}
_REBUILD = b"ctorch._utils\n_rebuild_tensor_v2\n"
_ORDERED = b"ccollections\nOrderedDict\n"


def torch_save(obj: Any, fn: Any) -> None:
    """Writes an object to a path, or to a file that is open for writing bytes."""
    writer = _Writer()
    writer.value(obj)
    pickle = b"\x80\x02" + b"".join(writer.parts) + b"."
    target = fn if hasattr(fn, "write") else Path(fn)
    with zipfile.ZipFile(target, "w", zipfile.ZIP_STORED) as archive:
        archive.writestr("archive/data.pkl", pickle)
        archive.writestr("archive/byteorder", "little")
        for number, tensor in enumerate(writer.tensors):
            archive.writestr(f"archive/data/{number}", bytes(tensor.data()))
        archive.writestr("archive/version", "3\n")


def torch_saved(obj: Any) -> bytes:
    """The same, as bytes."""
    file = io.BytesIO()
    torch_save(obj, file)
    return file.getvalue()


class _Writer:
    """The opcodes of a pickle, and the tensors that it names."""

    def __init__(self) -> None:
        self.parts: list[bytes] = []
        self.tensors: list[Tensor] = []
        self._numbers: dict[int, int] = {}  # by identity of tensors

    def value(self, value: Any) -> None:
        """One value, whatever it is."""
        if isinstance(value, Tensor):
            self._tensor(value)
        elif value is None or isinstance(value, bool | int | float | str | DType):
            self.parts.append(_plain(value))
        elif isinstance(value, dict):
            self._dictionary(value)
        elif isinstance(value, list):
            self._sequence(b"](", value, b"e")
        elif isinstance(value, tuple):
            self._sequence(b"(", value, b"t")
        else:
            raise ArgumentError(
                f"torch_save: {value!r:.60} is a {type(value).__name__}",
                "a checkpoint has dictionaries, lists, tuples, numbers, text and tensors",
                "Of a model, save model.state_dict().",
            )

    def _sequence(self, begin: bytes, values: Iterable[Any], end: bytes) -> None:
        self.parts.append(begin)
        for value in values:
            self.value(value)
        self.parts.append(end)

    def _dictionary(self, value: dict[Any, Any]) -> None:
        begin = _ORDERED + b")R(" if isinstance(value, OrderedDict) else b"}("
        self._sequence(begin, (part for item in value.items() for part in item), b"u")

    def _tensor(self, tensor: Tensor) -> None:
        dtype = tensor.dtype
        if dtype not in _STORAGE_NAMES:
            raise DTypeError(
                f"torch_save: PyTorch's files have no {dtype.name}", fix="Cast it, or use nn.state.safe_save."
            )
        number = self._numbers.setdefault(id(tensor), len(self.tensors))
        if number == len(self.tensors):
            self.tensors.append(tensor)
        shape = tuple(int(size) for size in tensor.shape)
        steps = []
        size = 1
        for each in reversed(shape):
            steps.append(size)
            size *= each
        storage = f"ctorch\n{_STORAGE_NAMES[dtype]}\n".encode()
        self.parts += [_REBUILD, b"((", _plain("storage"), storage, _plain(str(number)), _plain("cpu"), _plain(size)]
        self.parts += [b"tQ", _plain(0)]
        self.value(shape)
        self.value(tuple(reversed(steps)))
        self.parts += [_plain(bool(tensor.requires_grad)), _ORDERED, b")RtR"]


def _plain(value: Any) -> bytes:
    """The opcode of a value without parts."""
    if value is None:
        return b"N"
    if isinstance(value, bool):
        return b"\x88" if value else b"\x89"
    if isinstance(value, int):
        if -(2**31) <= value < 2**31:
            return b"J" + struct.pack("<i", value)
        text = value.to_bytes(value.bit_length() // 8 + 1, "little", signed=True)
        return b"\x8a" + bytes([len(text)]) + text
    if isinstance(value, float):
        return b"G" + struct.pack(">d", value)
    if isinstance(value, DType):
        return f"ctorch\n{_TYPE_NAMES[value]}\n".encode()
    encoded = str(value).encode()
    return b"X" + struct.pack("<I", len(encoded)) + encoded
