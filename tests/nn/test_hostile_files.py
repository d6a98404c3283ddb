"""Files with random damage: a clear error or a result, never a crash, and never more memory than the file is worth."""

from __future__ import annotations

import gzip
import io
import pickle
import random
import struct
import tracemalloc
import zipfile
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

from tests.nn import test_archives, test_gguf, test_safetensors, test_torch_files
from whit import Tensor
from whit.errors import UserError
from whit.ir import ops
from whit.nn.state import gguf_load, npy_load, safe_load, tar_extract, torch_load, zip_extract

pytestmark = pytest.mark.slow  # many

MUTATIONS = 300  # of each format
MOST_MEMORY = 4 << 20  # bytes; the files have a few thousand
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
            found[place : place + size] = number.to_bytes(size, random_.choice(("little", "big")))  # type: ignore[arg-type]
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
