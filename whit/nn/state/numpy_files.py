"""NumPy's files: .npy is a header and the elements of one array, .npz is a zip archive of those.

"\\x93NUMPY" | version | length of the header | {'descr': '<f4', 'fortran_order': False, 'shape': (3, 4)} | elements
"""

from __future__ import annotations

import ast
import os
import re
import struct
from collections.abc import Mapping
from pathlib import Path
from typing import Any, BinaryIO

from whit.dtype import DType, dtypes, part_dtype
from whit.errors import ArgumentError, DTypeError
from whit.nn.state.archives import LIMIT_BYTES, zip_members
from whit.nn.state.safetensors import write_safely
from whit.tensor import Tensor
from whit.tensor.source import CUT_OFF, Source, checked_shape, open_source

MAGIC = b"\x93NUMPY"
MOST_HEADER_BYTES = 10_000  # bytes; NumPy's own limit
DTYPES: dict[str, DType] = {
    "b1": dtypes.bool,
    "i1": dtypes.int8,
    "i2": dtypes.int16,
    "i4": dtypes.int32,
    "i8": dtypes.int64,
    "u1": dtypes.uint8,
    "u2": dtypes.uint16,
    "u4": dtypes.uint32,
    "u8": dtypes.uint64,
    "f2": dtypes.float16,
    "f4": dtypes.float32,
    "f8": dtypes.float64,
    "c8": dtypes.complex64,
    "c16": dtypes.complex128,
}
NAMES = {dtype: name for name, dtype in DTYPES.items()}


def npy_load(fn: Any, limit: int = LIMIT_BYTES) -> Any:
    """The array of an .npy file, or a dictionary of those of an .npz file. Elements are read when they are needed.

    `fn` is a path, a tensor of bytes, or bytes. `limit`: bytes that may be unpacked, of a compressed .npz.
    """
    source = open_source("npy_load", fn)
    if source.read_up_to(0, 4) in (b"PK\3\4", b"PK\5\6"):
        members = zip_members(source, limit)
        return {name.removesuffix(".npy"): _load(part) for name, part in members.items()}
    return _load(source)


def _load(source: Source) -> Tensor:
    if source.read_up_to(0, 6) != MAGIC:
        raise source.error("no .npy file", f"it begins with {source.read_up_to(0, 6)!r}", "Check what the file is.")
    major = source.read(6, 1)[0]
    if major not in (1, 2, 3):
        raise source.error(f"version {major} of .npy", "versions 1 to 3 can be read", "Save it again with NumPy.")
    size = 2 if major == 1 else 4
    (length,) = struct.unpack("<H" if size == 2 else "<I", source.read(8, size))
    if length > MOST_HEADER_BYTES:
        raise source.error("the header is too long", f"{length} bytes, at most {MOST_HEADER_BYTES}", CUT_OFF)
    start = 8 + size + length
    order, dtype, is_transposed, shape = _header(source, source.read(8 + size, length))
    stored = shape[::-1] if is_transposed else shape
    value = source.tensor(start, dtype, stored)
    if order == ">" and dtype.itemsize > 1:
        part = part_dtype(dtype)
        count = dtype.itemsize // part.itemsize
        value = _swapped(source.tensor(start, dtypes.uint8, (*stored, count, part.itemsize)), part)
        value = value.view_as_complex() if dtype.is_complex else value.squeeze(-1)
    return value.permute(tuple(reversed(range(len(shape))))) if is_transposed and len(shape) > 1 else value


def _header(source: Source, raw: bytes) -> tuple[str, DType, bool, tuple[int, ...]]:
    try:
        header = ast.literal_eval(raw.decode("utf-8").strip())
    except (ValueError, SyntaxError, RecursionError, MemoryError, TypeError) as error:
        raise source.error("the header cannot be read", f"{type(error).__name__}: {error!s:.100}", CUT_OFF) from None
    if not isinstance(header, dict) or set(header) != {"descr", "fortran_order", "shape"}:
        raise source.error("the header has no descr, fortran_order and shape", f"{header!r:.200}", CUT_OFF)
    descr, is_transposed = header["descr"], header["fortran_order"]
    found = re.fullmatch(r"([<>|=])([a-zA-Z]\d+)", descr) if isinstance(descr, str) else None
    dtype = DTYPES.get(found[2]) if found else None
    if found is None or dtype is None:
        fix = "Convert the array with astype(), and save it again."
        if isinstance(descr, str) and "O" in descr:
            fix = "It holds Python objects, and reading those could run code. " + fix
        raise source.error(f"an array of {descr!r:.80}", f"known: {', '.join(DTYPES)}", fix)
    if type(is_transposed) is not bool:
        raise source.error("fortran_order is no bool", f"{is_transposed!r:.40}", CUT_OFF)
    return found[1], dtype, is_transposed, checked_shape(source, source.name, header["shape"])


def _swapped(raw: Tensor, dtype: DType) -> Tensor:
    """Big-endian elements: their bytes are turned in memory."""
    if 0 in raw.shape:
        return Tensor.empty(*raw.shape[:-1], dtype=dtype)
    return raw.to("CPU").flip(-1).contiguous().bitcast(dtype).squeeze(-1)


# ---- saving


def npy_save(value: Tensor | Mapping[str, Tensor], fn: str | os.PathLike[str]) -> None:
    """Writes a tensor as an .npy file, or tensors by name as an .npz file; the path has the old file or the new one."""
    path = Path(os.fspath(fn))
    if isinstance(value, Tensor):
        data = _packed("", value)
        write_safely(path, sum(map(len, data)), lambda file: file.writelines(data))
        return
    if not isinstance(value, Mapping):
        raise ArgumentError(f"npy_save: cannot save a {type(value).__name__}", fix="Give a tensor, or tensors by name.")
    write_safely(path, 0, lambda file: _write_zip(file, value))


def _write_zip(file: BinaryIO, tensors: Mapping[str, Tensor]) -> None:
    """Arrays one after the other: one at a time is in memory."""
    import zipfile  # lazy: few programs write .npz

    with zipfile.ZipFile(file, "w", zipfile.ZIP_STORED) as archive:
        for name, tensor in tensors.items():
            with archive.open(zipfile.ZipInfo(f"{name}.npy"), "w", force_zip64=True) as member:
                for part in _packed(name, tensor):
                    member.write(part)


def _packed(name: str, tensor: Any) -> list[Any]:
    """The header, a multiple of 64 bytes as NumPy makes it, and the elements."""
    if not isinstance(tensor, Tensor):
        raise ArgumentError(f'npy_save: "{name}" is a {type(tensor).__name__}', fix="Only tensors can be saved.")
    if tensor.dtype not in NAMES:
        raise DTypeError(
            f"npy_save: NumPy has no {tensor.dtype.name}",
            f"known: {', '.join(dtype.name for dtype in NAMES)}",
            "Cast it, or use safe_save.",
        )
    order = "|" if tensor.dtype.itemsize == 1 else "<"
    text = f"{{'descr': '{order}{NAMES[tensor.dtype]}', 'fortran_order': False, 'shape': {tensor.shape}, }}"
    padded = text + " " * (-(len(text) + 11) % 64) + "\n"
    header = MAGIC + b"\1\0" + struct.pack("<H", len(padded)) + padded.encode()
    return [header, tensor.data().cast("B") if tensor.numel() else b""]
