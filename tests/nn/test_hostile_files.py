"""Files with random damage: a clear error or a result, never a crash, and never more memory than the file is worth."""

from __future__ import annotations

import gzip
import io
import json
import pickle
import random
import struct
import tracemalloc
import zipfile
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

from nn import test_archives, test_gguf, test_safetensors, test_torch_files
from whit import Tensor
from whit.errors import UserError
from whit.ir import ops
from whit.nn.state import gguf_load, npy_load, safe_load, tar_extract, torch_load, zip_extract

pytestmark = pytest.mark.slow  # many

MUTATIONS = 300  # of each format
MOST_MEMORY = 16 << 20  # bytes; the files have a few thousand, and the table of all nodes may grow meanwhile
EXTREMES = [
    0,
    1,
    0x7F,
    0x80,
    0xFF,
    1 << 31,
    (1 << 32) - 1,
    1 << 40,
    (1 << 62) + 1,
    (1 << 63) - 1,
    1 << 63,
    (1 << 64) - 1,
]


def mutated(data: bytes, seed: int) -> bytes:
    """One to four changes: bits, bytes, numbers of extreme size, cuts, repeated and moved parts."""
    random_ = random.Random(seed)
    found = bytearray(data)
    for _ in range(random_.randint(1, 4)):
        place = random_.randrange(len(found) or 1)
        kind = random_.randrange(7)
        if kind == 0 and found:
            found[place] ^= 1 << random_.randrange(8)
        elif kind == 1 and found:
            found[place] = random_.randrange(256)
        elif kind == 2:
            size = random_.choice((1, 2, 4, 8))
            number = random_.choice(EXTREMES) & ((1 << 8 * size) - 1)
            found[place : place + size] = number.to_bytes(size, random_.choice(("little", "big")))
        elif kind == 3:
            del found[place:]
        elif kind == 4:
            del found[place : place + random_.randint(1, 40)]
        elif kind == 5:
            found[place:place] = found[place : place + random_.randint(1, 40)]
        else:
            other = random_.randrange(len(found) or 1)
            found[place : place + 8] = found[other : other + 8]
    return bytes(found)


def _zip_checkpoint() -> bytes:
    return test_torch_files.checkpoint(
        b"K\0" + test_torch_files.numbers(2, 2) + test_torch_files.numbers(1, 2) + test_torch_files.REST
    )


def _legacy_checkpoint() -> bytes:
    parts = [pickle.dumps(v, 2) for v in (0x1950A86A20F9469CFC6C, 1001, {"little_endian": True, "x": [1, 2.5, None]})]
    storage = b"(X\x07\0\0\0storagectorch\nFloatStorage\nX\x01\0\0\x000X\x03\0\0\0cpuK\x04NtQ"
    tensor = b"ctorch._utils\n_rebuild_tensor_v2\n(" + storage + b"K\0K\x04\x85K\x01\x85\x89NtR"
    return (
        b"".join(parts)
        + b"\x80\x02}X\x01\0\0\0w"
        + tensor
        + b"s."
        + pickle.dumps(["0"], 2)
        + struct.pack("<q4f", 4, 1, 2, 3, 4)
    )


def _gguf() -> bytes:
    pairs = [
        test_gguf.pair("general.alignment", 4, struct.pack("<I", 32)),
        test_gguf.pair("texts", 9, struct.pack("<IQ", 8, 2) + test_gguf.text("a") + test_gguf.text("bc")),
        test_gguf.pair("nested", 9, struct.pack("<IQ", 9, 1) + struct.pack("<IQ2B", 0, 2, 1, 2)),
    ]
    infos = [test_gguf.info("a", (2, 3), 0, 0), test_gguf.info("b", (2, 32), 2, 32)]
    return test_gguf.file_of(pairs, infos, bytes(24 + 8 + 36))


def _npz() -> bytes:
    file = io.BytesIO()
    np.savez_compressed(file, a=np.arange(10), b=np.zeros((2, 3), np.float32))
    return file.getvalue()


def _npy() -> bytes:
    file = io.BytesIO()
    np.save(file, np.asfortranarray(np.arange(6, dtype=">f4").reshape(2, 3)))
    return file.getvalue()


SAFE = test_safetensors.file_of(
    {
        "__metadata__": {"k": "v"},
        "a": test_safetensors.entry("F32", [2, 3], [0, 24]),
        "b": test_safetensors.entry("BOOL", [], [24, 25]),
    },
    bytes(25),
)
FORMATS: dict[str, tuple[Callable[[Any], Any], Callable[[], bytes]]] = {
    "safetensors": (safe_load, lambda: SAFE),
    "torch zip": (torch_load, _zip_checkpoint),
    "torch legacy": (torch_load, _legacy_checkpoint),
    "gguf": (lambda data: gguf_load(data, "PYTHON")[1], _gguf),
    "npy": (npy_load, _npy),
    "npz": (npy_load, _npz),
    "zip": (zip_extract, lambda: test_archives.zipped({"a": b"12345", "b": bytes(50)})),
    "zip deflated": (zip_extract, lambda: test_archives.zipped({"a": b"12345", "b": bytes(50)}, zipfile.ZIP_DEFLATED)),
    "tar": (tar_extract, lambda: test_archives.tarred({"a": b"12345", "x" * 120: bytes(50)})),
    "tar.gz": (tar_extract, lambda: gzip.compress(test_archives.tarred({"a": b"12345"}), mtime=0)),
}


def tensors_in(value: Any, depth: int = 5) -> Iterator[Tensor]:
    if isinstance(value, Tensor):
        yield value
    elif isinstance(value, dict | list | tuple) and depth:
        for part in value.values() if isinstance(value, dict) else value:
            yield from tensors_in(part, depth - 1)


@pytest.mark.parametrize("name", FORMATS)
def test_damaged_files(name: str) -> None:
    load, make = FORMATS[name]
    good = make()
    assert list(tensors_in(load(good)))
    refusals = []
    for seed in range(MUTATIONS):
        data = mutated(good, seed)
        found = None
        tracemalloc.start()
        try:
            found = load(data)
        except UserError as error:
            refusals.append(error)
        for tensor in tensors_in(found):
            if tensor.uop.op is ops.BUFFER:  # parts of memory: whatever they are, they can be read
                assert len(tensor.data().tobytes()) == tensor.nbytes() <= len(data) * 1100, f"seed {seed}"
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        assert peak < MOST_MEMORY, f"seed {seed}: {peak} bytes"
    assert len(refusals) > MUTATIONS // 10
    assert all(error.details or error.fix for error in refusals)


def test_damage_is_the_same_on_every_run() -> None:
    assert mutated(SAFE, 7) == mutated(SAFE, 7) != mutated(SAFE, 8)


# ---- files that are small, and ask for much


def _laughs(depth: int = 60, width: int = 10) -> bytes:
    """A list of ten times the same list, of ten times the same list, ..."""
    found = b"]q\0"
    for level in range(depth):
        found += b"](" + b"h%c" % level * width + b"eq%c" % (level + 1)
    return found


def _checkpoint_of(value: bytes) -> bytes:
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w") as archive:
        archive.writestr("archive/data.pkl", b"\x80\x02" + value + b".")
        archive.writestr("archive/byteorder", b"little")
    return file.getvalue()


_REBUILD = b"ctorch._utils\n_rebuild_tensor_v2\n("
_STORAGE = b"(X\x07\0\0\0storagectorch\nFloatStorage\nX\x01\0\0\x000X\x03\0\0\0cpuK\x04tQ"
LAUGHS: dict[str, bytes] = {
    "the result": _laughs(),
    "in a dictionary": b"}X\x01\0\0\0w" + _laughs() + b"s",
    "in a tuple": _laughs() + b"\x85",
    "a name": b"X\x01\0\0\0m" + _laughs() + b"\x93",
    "a storage": _laughs() + b"Q",
    "a key": b"}" + _laughs() + b"Ns",
    "arguments": b"ccollections\nOrderedDict\n" + _laughs() + b"\x85R",
    "a call": _laughs() + b")R",
    "a state": _laughs() + b"}b",
    "sizes": _REBUILD + _laughs() + b"K\0" + _laughs() + _laughs() + b"\x89NtR",
}


@pytest.mark.parametrize("where", LAUGHS)
def test_pickles_of_the_same_again_and_again(where: str) -> None:
    with pytest.raises(UserError) as error:
        torch_load(_checkpoint_of(LAUGHS[where]))
    assert len(str(error.value)) < 1000


def test_pickles_may_refer_to_a_value_twice() -> None:
    found = torch_load(_checkpoint_of(b"(lq\0K\x01aq\1(h\1h\1h\1tq\2h\2h\2\x86"))
    assert found == (([1],) * 3,) * 2


def test_an_index_that_names_itself_or_another_index(tmp_path: Any) -> None:
    (tmp_path / "folder").mkdir()
    for file in ("a.safetensors.index.json", "b.safetensors.index.json", "folder"):
        (tmp_path / "a.safetensors.index.json").write_text(json.dumps({"weight_map": {"w": file}}))
        (tmp_path / "b.safetensors.index.json").write_text(
            json.dumps({"weight_map": {"w": "a.safetensors.index.json"}})
        )
        with pytest.raises(UserError, match=f"the index names '{file}'"):
            safe_load(tmp_path / "a.safetensors.index.json")


@pytest.mark.parametrize("size", [1 << 57, 1 << 58, 1 << 59, 1 << 61, 1 << 62, 1 << 63, 1 << 70])
def test_no_elements_of_a_huge_shape(size: int) -> None:
    numbers = b"\x8a\x0a" + size.to_bytes(10, "little", signed=True)
    header = f"{{'descr': '<f8', 'fortran_order': False, 'shape': (0, {size}), }}".encode()
    file = b"\x93NUMPY\1\0" + struct.pack("<H", len(header)) + header
    shape = b"(K\0" + numbers + b"t"
    tensor = _REBUILD + _STORAGE.replace(b"K\x04tQ", b"K\0tQ") + b"K\0" + shape + b"(K\1K\1t\x89NtR"
    archive = io.BytesIO()
    with zipfile.ZipFile(archive, "w") as members:
        members.writestr("archive/data.pkl", b"\x80\x02" + tensor + b".")
        members.writestr("archive/data/0", b"")
    safe = test_safetensors.file_of({"a": test_safetensors.entry("F64", [0, size], [0, 0])}, b"")
    loads: list[tuple[Callable[[Any], Any], bytes]] = [
        (safe_load, safe),
        (npy_load, file),
        (torch_load, archive.getvalue()),
    ]
    if size < 1 << 64:
        infos = [test_gguf.info("a", (size, 0), 0, 0)]
        loads.append((lambda data: gguf_load(data, "PYTHON")[1], test_gguf.file_of([], infos, b"")))
    for load, data in loads:
        try:
            found = load(data)
        except UserError:
            assert size > 1 << 57
        else:
            for empty in tensors_in(found):
                assert empty.numpy().size == 0 == empty.numel()
