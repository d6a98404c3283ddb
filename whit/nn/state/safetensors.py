"""Safetensors: a JSON header with names, dtypes, shapes and places, then the elements.

    8 bytes: the length of the header | the header, padded with spaces to a multiple of 8 | elements

Loading reads the header alone. Each tensor is a part of the file, until it is used.
"""

from __future__ import annotations

import json
import os
import struct
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from math import prod
from pathlib import Path
from typing import Any, BinaryIO

from whit.containers import opened
from whit.dtype import DType, dtypes
from whit.errors import ArgumentError, DTypeError, UserError, WhitError
from whit.nn.state.model import parts_of
from whit.tensor import Tensor
from whit.tensor.source import CUT_OFF, Source, checked_shape, open_source

DTYPES: dict[str, DType] = {
    "BOOL": dtypes.bool,
    "U8": dtypes.uint8,
    "I8": dtypes.int8,
    "F8_E5M2": dtypes.fp8e5m2,
    "F8_E4M3": dtypes.fp8e4m3,
    "I16": dtypes.int16,
    "U16": dtypes.uint16,
    "F16": dtypes.float16,
    "BF16": dtypes.bfloat16,
    "I32": dtypes.int32,
    "U32": dtypes.uint32,
    "F32": dtypes.float32,
    "F64": dtypes.float64,
    "I64": dtypes.int64,
    "U64": dtypes.uint64,
    "C64": dtypes.complex64,
}
NAMES = {dtype: name for name, dtype in DTYPES.items()}
MOST_HEADER_BYTES = 100_000_000  # bytes, as in the format's own library
INDEX_END = ".index.json"


def safe_load(fn: Any) -> dict[str, Tensor]:
    """The tensors of a file by name, each a part of the file that is read when it is needed.

    `fn` is a path, a tensor of bytes, or bytes. A path may also name the index of a model in several files
    (`model.safetensors.index.json`), or the folder of a model: then all of its files are loaded.
    """
    if isinstance(fn, str | os.PathLike):
        path = Path(os.fspath(fn))
        if path.is_dir():
            return _load_folder(path)
        if path.name.endswith(INDEX_END):
            return _load_index(path)
    return _load_file(fn)


def _load_file(fn: Any) -> dict[str, Tensor]:
    source = open_source("safe_load", fn)
    start, entries, _ = _header(source)
    return {name: source.tensor(start + first, dtype, shape) for name, (dtype, shape, first, _) in entries.items()}


def safe_load_metadata(fn: Any) -> dict[str, str]:
    """The text that a file carries beside its tensors; empty if there is none. Of an index, its metadata."""
    if isinstance(fn, str | os.PathLike) and os.fspath(fn).endswith(INDEX_END):
        found = _read_index(Path(os.fspath(fn))).get("metadata", {})
        return {str(key): str(value) for key, value in found.items()} if isinstance(found, dict) else {}
    return _header(open_source("safe_load_metadata", fn))[2]


# ---- the header

Entry = tuple[DType, tuple[int, ...], int, int]


def _header(source: Source) -> tuple[int, dict[str, Entry], dict[str, str]]:
    """Where the elements begin; dtype, shape, first and last byte of each tensor; the metadata."""
    if source.size < 8:
        raise source.error("too short for safetensors", f"{source.size} bytes, at least 8 are needed", CUT_OFF)
    (length,) = struct.unpack("<Q", source.read(0, 8))
    if length > min(MOST_HEADER_BYTES, source.size - 8):
        raise source.error(
            "this is no safetensors file, or it is cut off",
            f"the header would have {length} bytes, and the file has {source.size}",
            "Check what the file is: checkpoints of PyTorch load with torch_load, .gguf with gguf_load.",
        )
    header = _parse(source, source.read(8, length))
    metadata = header.pop("__metadata__", {})
    if not isinstance(metadata, dict) or not all(isinstance(value, str) for value in metadata.values()):
        raise source.error("the metadata is not text by name", f"{metadata!r:.200}", CUT_OFF)
    entries = {name: _entry(source, name, entry) for name, entry in header.items()}
    _check_places(source, entries, source.size - 8 - length)
    return 8 + length, entries, metadata


def _parse(source: Source, raw: bytes) -> dict[str, Any]:
    try:
        header = json.loads(raw.decode("utf-8"), object_pairs_hook=_each_once)
    except (ValueError, RecursionError) as error:
        raise source.error("the header is not JSON", f"{error}", CUT_OFF) from None
    if not isinstance(header, dict):
        raise source.error("the header is no JSON object", f"it is a {type(header).__name__}", CUT_OFF)
    return header


def _each_once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for name, value in pairs:
        if name in found:
            raise ValueError(f"a name is there twice: {name!r:.100}")
        found[name] = value
    return found


def _entry(source: Source, name: str, entry: Any) -> Entry:
    if not isinstance(entry, dict) or not {"dtype", "shape", "data_offsets"} <= entry.keys():
        raise source.error(f'"{name}" has no dtype, shape and data_offsets', f"{entry!r:.200}", CUT_OFF)
    dtype = DTYPES.get(entry["dtype"]) if isinstance(entry["dtype"], str) else None
    if dtype is None:
        raise source.error(
            f'"{name}" has the dtype {entry["dtype"]!r:.40}',
            f"known: {', '.join(DTYPES)}",
            "Convert the tensor with the program that wrote the file.",
        )
    shape = checked_shape(source, name, entry["shape"])
    places = entry["data_offsets"]
    if not isinstance(places, list) or len(places) != 2 or not all(type(place) is int for place in places):
        raise source.error(f'the data_offsets of "{name}" are no two numbers', f"{places!r:.200}", CUT_OFF)
    first, last = places
    needed = prod(shape) * dtype.itemsize
    if first < 0 or last - first != needed:
        raise source.error(
            f'"{name}" has {last - first} bytes from {first} on', f"{dtype.name}{list(shape)} takes {needed}", CUT_OFF
        )
    return dtype, shape, first, last


def _check_places(source: Source, entries: dict[str, Entry], size: int) -> None:
    """The tensors must fill the rest of the file, without gaps and without sharing bytes."""
    place = 0
    for name, (_, _, first, last) in sorted(entries.items(), key=lambda item: item[1][2:]):
        if first != place:
            problem = "overlaps the tensor before it" if first < place else "leaves a gap before it"
            raise source.error(f'"{name}" {problem}', f"it begins at {first}, and {place} was expected", CUT_OFF)
        place = last
    if place != size:
        problem = "it is cut off" if place > size else "bytes are left over"
        raise source.error(problem, f"the tensors have {place} bytes, and {size} follow the header", CUT_OFF)


# ---- models in several files


def _load_folder(folder: Path) -> dict[str, Tensor]:
    found = sorted(folder.glob(f"*{INDEX_END}")) or sorted(folder.glob("*.safetensors"))
    if len(found) == 1:
        return safe_load(found[0])
    listed = ", ".join(path.name for path in found) or "none"
    raise ArgumentError(
        f"safe_load: {folder} is a folder without one index or one .safetensors file", f"found: {listed}", "Name one."
    )


def _read_index(path: Path) -> dict[str, Any]:
    source = open_source("safe_load", path)
    if source.size > MOST_HEADER_BYTES:
        raise source.error("too long for an index", f"{source.size} bytes", "Check what the file is.")
    index = _parse(source, source.read(0, source.size))
    weights = index.get("weight_map")
    if not isinstance(weights, dict) or not all(isinstance(file, str) for file in weights.values()):
        raise source.error("the index has no weight_map of names and files", f"{weights!r:.200}", CUT_OFF)
    return index


def _load_index(path: Path) -> dict[str, Tensor]:
    weights = _read_index(path)["weight_map"]
    source = open_source("safe_load", path)
    files: dict[str, dict[str, Tensor]] = {}
    for file in sorted(set(weights.values())):
        if file in ("", ".", "..") or "/" in file or "\\" in file or "\0" in file:
            raise source.error(
                f"the index names the file {file!r:.100}", "files must lie in the folder of the index", "Do not use it."
            )
        if file.endswith(INDEX_END) or (path.parent / file).is_dir():
            raise source.error(
                f"the index names {file!r:.100}", "an index names files with tensors, no indices or folders", CUT_OFF
            )
        files[file] = _load_file(path.parent / file)
    for name, file in weights.items():
        if name not in files[file]:
            raise source.error(f'"{name}" should be in {file}, and is not', "", CUT_OFF)
    return {name: files[file][name] for name, file in weights.items()}


# ---- saving


def safe_save(tensors: Any, fn: str | os.PathLike[str], metadata: Mapping[str, str] | None = None) -> None:
    """Writes tensors by name to a file. The path holds the old file or the new one, never a part of it.

    Tensors in nested containers have the names that `get_state_dict` gives them, as "layers.0.weight", under which
    `load_state_dict` finds them again.
    """
    path = Path(os.fspath(fn))
    # Larger elements first, so that all are aligned; as in the format's own library.
    ordered = sorted(_named(tensors).items(), key=lambda item: (-_dtype_of(*item).itemsize, item[0]))
    header: dict[str, Any] = {"__metadata__": _text(metadata)} if metadata else {}
    place = 0
    for name, tensor in ordered:
        size = tensor.numel() * tensor.dtype.itemsize
        entry = {"dtype": NAMES[tensor.dtype], "shape": list(tensor.shape), "data_offsets": [place, place + size]}
        header[name] = entry
        place += size
    text = json.dumps(header, separators=(",", ":"), ensure_ascii=False).encode()
    text += b" " * (-len(text) % 8)
    if len(text) > MOST_HEADER_BYTES:
        raise UserError(
            f"safe_save: the header has {len(text)} bytes", f"at most {MOST_HEADER_BYTES}", "Save fewer tensors."
        )
    parts = _parts(struct.pack("<Q", len(text)) + text, ordered)
    write_safely(path, 8 + len(text) + place, lambda file: file.writelines(parts))


def _named(tensors: Any) -> Mapping[str, Tensor]:
    """Tensors by name, of any container. What would be lost is an error."""
    if isinstance(tensors, Mapping) and not any(opened(value) for value in tensors.values()):
        return tensors
    if opened(tensors) is None:
        raise ArgumentError(
            f"safe_save: a {type(tensors).__name__} is no container of tensors",
            fix="nn.state.get_state_dict(model) gives the tensors of a model by name.",
        )
    found: dict[str, Tensor] = {}
    for name, value in _inside("", tensors):
        if name in found:
            raise ArgumentError(f'safe_save: two tensors are called "{name}"', fix="Rename one of them.")
        found[name] = value
    return found


def _inside(name: str, value: Any) -> Iterator[tuple[str, Any]]:
    """What is in a container, each under the names of the places on the way."""
    if isinstance(value, Tensor) or opened(value) is None:
        yield name, value
        return
    for place, part in parts_of(value):
        yield from _inside(f"{name}.{place}" if name else place, part)


def _parts(header: bytes, tensors: list[tuple[str, Tensor]]) -> Iterator[bytes | memoryview]:
    """The file piece by piece: one tensor at a time is in memory."""
    yield header
    for _, tensor in tensors:
        if tensor.numel():
            yield tensor.data().cast("B")


def _dtype_of(name: str, tensor: Any) -> DType:
    if not isinstance(name, str) or name == "__metadata__":
        raise ArgumentError(f"safe_save: {name!r} cannot be the name of a tensor", fix="Use another one.")
    if not isinstance(tensor, Tensor):
        raise ArgumentError(
            f'safe_save: "{name}" is a {type(tensor).__name__}',
            fix="Only tensors can be saved; texts go into `metadata`.",
        )
    if tensor.dtype not in NAMES:
        raise DTypeError(
            f'safe_save: "{name}" is {tensor.dtype.name}', f"known: {', '.join(NAMES.values())}", "Cast it."
        )
    if not all(isinstance(size, int) for size in tensor.shape):
        raise ArgumentError(f'safe_save: "{name}" has a symbolic shape', fix="Save it with known sizes.")
    return tensor.dtype


def _text(metadata: Mapping[str, str]) -> dict[str, str]:
    if not all(isinstance(key, str) and isinstance(value, str) for key, value in metadata.items()):
        raise ArgumentError("safe_save: metadata is text by name", fix="Convert the values with json.dumps().")
    return dict(metadata)


def write_safely(path: Path, size: int, write: Callable[[BinaryIO], object]) -> None:
    """Writes beside the path and renames, so that what fails leaves the old file and nothing else. `size`: its bytes,
    where they are known, to be reserved."""
    import tempfile  # lazy: it loads a dozen modules

    from whit.runtime.disk import file_error  # lazy: it loads the runtime

    try:
        descriptor, temporary = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    except OSError as error:
        raise file_error("written", str(path), error) from error
    try:
        with os.fdopen(descriptor, "wb") as file:
            if hasattr(os, "posix_fallocate") and size:
                os.posix_fallocate(descriptor, 0, size)  # a full disk is known before anything is computed
            write(file)
            file.flush()
            os.fsync(descriptor)
        os.chmod(temporary, _mode(path))
        os.replace(temporary, path)
    except OSError as error:
        raise error if isinstance(error, WhitError) else file_error("written", str(path), error) from error
    finally:
        with suppress(OSError):
            os.remove(temporary)


def _mode(path: Path) -> int:
    """Who may read and write: as of the old file, or as a new one would have."""
    with suppress(OSError):
        return path.stat().st_mode & 0o777
    mask = os.umask(0)
    os.umask(mask)
    return 0o666 & ~mask
