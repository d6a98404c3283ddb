"""GGUF: metadata, every kind of block by hand and against the format's own package, and files that are wrong."""

from __future__ import annotations

import struct
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from whit import GlobalCounters, Tensor, dtypes
from whit.errors import ParseError
from whit.nn.state import gguf_load
from whit.nn.state.gguf import gguf_read
from whit.nn.state.gguf_blocks import KINDS

NUMBER = {kind.name: number for number, kind in KINDS.items()}
PACKED = [kind.name for kind in KINDS.values() if kind.unpack is not None]


def text(value: str | bytes) -> bytes:
    raw = value.encode() if isinstance(value, str) else value
    return struct.pack("<Q", len(raw)) + raw


def pair(key: str, kind: int, raw: bytes) -> bytes:
    return text(key) + struct.pack("<I", kind) + raw


def info(name: str, shape: tuple[int, ...], kind: int, place: int) -> bytes:
    return text(name) + struct.pack(f"<I{len(shape)}QIQ", len(shape), *shape[::-1], kind, place)


def file_of(
    pairs: list[bytes],
    infos: list[bytes],
    data: bytes = b"",
    version: int = 3,
    counts: tuple[int, int] | None = None,
    align: int = 32,
) -> bytes:
    tensors, keys = counts or (len(infos), len(pairs))
    head = b"GGUF" + struct.pack("<IQQ", version, tensors, keys) + b"".join(pairs) + b"".join(infos)
    return head + b"\0" * (-len(head) % align) + data


def one(kind: str, shape: tuple[int, ...], data: bytes) -> bytes:
    return file_of([], [info("x", shape, NUMBER[kind], 0)], data)


# ---- metadata


@pytest.mark.parametrize("version", [2, 3])
def test_metadata_of_every_type(version: int) -> None:
    pairs = [
        pair("u8", 0, struct.pack("<B", 200)),
        pair("i8", 1, struct.pack("<b", -2)),
        pair("u16", 2, struct.pack("<H", 60000)),
        pair("i16", 3, struct.pack("<h", -3)),
        pair("u32", 4, struct.pack("<I", 1 << 31)),
        pair("i32", 5, struct.pack("<i", -4)),
        pair("f32", 6, struct.pack("<f", 1.5)),
        pair("bool", 7, b"\1"),
        pair("text", 8, text("ü")),
        pair("raw", 8, text(b"\xff")),
        pair("u64", 10, struct.pack("<Q", 1 << 63)),
        pair("i64", 11, struct.pack("<q", -5)),
        pair("f64", 12, struct.pack("<d", 0.1)),
        pair("numbers", 9, struct.pack("<IQ3i", 5, 3, 1, 2, 3)),
        pair("texts", 9, struct.pack("<IQ", 8, 2) + text("a") + text("")),
        pair("nested", 9, struct.pack("<IQ", 9, 2) + struct.pack("<IQ2B", 0, 2, 1, 2) + struct.pack("<IQ", 0, 0)),
    ]
    metadata, tensors = gguf_load(file_of(pairs, [], version=version))
    assert metadata == {
        "u8": 200, "i8": -2, "u16": 60000, "i16": -3, "u32": 1 << 31, "i32": -4, "f32": 1.5, "bool": True,
        "text": "ü", "raw": "\udcff", "u64": 1 << 63, "i64": -5, "f64": 0.1, "numbers": [1, 2, 3],
        "texts": ["a", ""], "nested": [[1, 2], []],
    }  # fmt: skip
    assert tensors == {}


# ---- tensors


@pytest.mark.parametrize("kind", [kind.name for kind in KINDS.values() if kind.unpack is None])
def test_elements_that_are_not_packed(kind: str, tmp_path: Path) -> None:
    dtype = KINDS[NUMBER[kind]].dtype
    value = Tensor([[1, 2, 3], [4, 5, 6]], dtype=dtype)
    (tmp_path / "x").write_bytes(one(kind, (2, 3), value.data().tobytes()))
    _, tensors = gguf_load(tmp_path / "x", "PYTHON")
    assert tensors["x"].dtype is dtype and tensors["x"].shape == (2, 3) and tensors["x"].tolist() == value.tolist()


def test_several_tensors_and_alignment() -> None:
    infos = [info("a", (2,), 0, 64), info("b", (), 0, 0), info("none", (0, 3), 0, 0)]
    data = struct.pack("<f", 5.0).ljust(64, b"\0") + struct.pack("<2f", 1, 2)
    pairs = [pair("general.alignment", 4, struct.pack("<I", 64))]
    _, tensors = gguf_load(file_of(pairs, infos, data, align=64))
    assert {name: t.tolist() for name, t in tensors.items()} == {"a": [1, 2], "b": 5, "none": []}


def block(kind: str) -> tuple[bytes, list[float]]:
    """A block and its elements, written down after the description of the format."""
    half = np.float16(0.5).tobytes()
    q = list(range(16))
    both = bytes(q[i] | (15 - q[i]) << 4 for i in range(16))  # 0..15, then 15..0
    ramp = [float(x) for x in [*q, *q[::-1]]]
    if kind == "Q4_0":
        return half + both, [(x - 8) / 2 for x in ramp]
    if kind == "Q4_1":
        return half + np.float16(3).tobytes() + both, [x / 2 + 3 for x in ramp]
    if kind == "Q5_0":  # the fifth bits of elements 0 and 31 are set
        return half + struct.pack("<I", 1 | 1 << 31) + both, [
            (x + 16 * (i in (0, 31)) - 16) / 2 for i, x in enumerate(ramp)
        ]
    if kind == "Q8_0":
        return half + struct.pack("<32b", *range(-16, 16)), [x / 2 for x in range(-16, 16)]
    if kind == "MXFP4":  # e = 127 is 2**-1, for values that are twice as large
        values = [0, 1, 2, 3, 4, 6, 8, 12, 0, -1, -2, -3, -4, -6, -8, -12]
        return bytes([127]) + both, [x / 2 for x in [*values, *values[::-1]]]
    if kind == "Q8_K":
        numbers = [i % 256 - 128 for i in range(256)]
        return struct.pack("<f256b", 0.25, *numbers) + bytes(32), [x / 4 for x in numbers]
    raise AssertionError(kind)


@pytest.mark.parametrize("kind", ["Q4_0", "Q4_1", "Q5_0", "Q8_0", "MXFP4", "Q8_K"])
def test_blocks_by_hand(kind: str) -> None:
    raw, expected = block(kind)
    _, tensors = gguf_load(one(kind, (len(expected),), raw), "PYTHON")
    assert tensors["x"].dtype is dtypes.float32 and tensors["x"].tolist() == expected


@pytest.mark.parametrize("kind", [kind for kind in PACKED if kind != "Q8_K"])
def test_blocks_equal_the_package(kind: str) -> None:
    gguf = pytest.importorskip("gguf")
    found = KINDS[NUMBER[kind]]
    assert gguf.GGML_QUANT_SIZES[gguf.GGMLQuantizationType[kind]] == (found.elements, found.nbytes)
    raw = np.random.default_rng(NUMBER[kind]).integers(0, 256, (3, found.nbytes), np.uint8)
    if kind == "MXFP4":
        raw[0, 0], raw[1, 0] = 0, 1  # the scales that are no normal numbers
    with np.errstate(all="ignore"):
        expected = gguf.dequantize(raw, gguf.GGMLQuantizationType[kind])
    # Three rows, each of one block.
    _, tensors = gguf_load(one(kind, (3, found.elements), raw.tobytes()), "PYTHON")
    assert np.array_equal(tensors["x"].numpy(), expected, equal_nan=True)


def test_packed_tensors_are_unpacked_in_the_kernel_that_uses_them(tmp_path: Path) -> None:
    raw, expected = block("Q4_0")
    (tmp_path / "x").write_bytes(one("Q4_0", (4, 32), raw * 4))
    _, tensors = gguf_load(tmp_path / "x", "CPU")
    GlobalCounters.reset()
    assert (tensors["x"] * 2).sum(1).tolist() == [sum(expected) * 2] * 4
    assert GlobalCounters.kernel_count == 1


def test_packed_bytes_can_be_had(tmp_path: Path) -> None:
    (tmp_path / "x").write_bytes(one("Q4_0", (2, 32), bytes(36)))
    _, packed = gguf_read(tmp_path / "x")
    assert packed["x"].bytes().shape == (2, 18) and packed["x"].kind.name == "Q4_0"


def test_files_of_the_package(tmp_path: Path) -> None:
    gguf = pytest.importorskip("gguf")
    writer = gguf.GGUFWriter(tmp_path / "x", "llama")
    writer.add_string("general.name", "tiny")
    writer.add_array("tokenizer.ggml.tokens", ["a", "b"])
    array = np.arange(64, dtype=np.float32).reshape(2, 32)
    writer.add_tensor("plain", array)
    packed = gguf.quantize(array, gguf.GGMLQuantizationType.Q8_0)
    writer.add_tensor("packed", packed, raw_dtype=gguf.GGMLQuantizationType.Q8_0)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    metadata, tensors = gguf_load(tmp_path / "x", "PYTHON")
    assert metadata["general.name"] == "tiny" and metadata["tokenizer.ggml.tokens"] == ["a", "b"]
    assert tensors["plain"].tolist() == array.tolist() and tensors["packed"].shape == (2, 32)
    assert np.array_equal(tensors["packed"].numpy(), gguf.dequantize(packed, gguf.GGMLQuantizationType.Q8_0))


# ---- files that are wrong

F = info("x", (2,), 0, 0)
BAD: dict[str, tuple[bytes, str]] = {
    "empty": (b"", "no GGUF file"),
    "another format": (b"PK\3\4....", "no GGUF file"),
    "version 1": (file_of([], [], version=1), "version 1"),
    "big-endian": (b"GGUF\0\0\0\3" + bytes(40), "big-endian"),
    "cut in the header": (b"GGUF\3\0\0\0", "ends at byte 8"),
    "too many tensors": (file_of([], [], counts=(1 << 60, 0)), "do not fit"),
    "too many keys": (file_of([], [], counts=(0, 1 << 60)), "do not fit"),
    "a key longer than the file": (file_of([struct.pack("<QIB", 1 << 50, 0, 0)], []), "ends at byte"),
    "an unknown type": (file_of([pair("a", 77, b"\0")], []), "unknown type 77"),
    "an array longer than the file": (file_of([pair("a", 9, struct.pack("<IQ", 0, 1 << 60))], []), "ends at byte"),
    "texts longer than the file": (file_of([pair("a", 9, struct.pack("<IQ", 8, 1 << 60))], []), "does not fit"),
    "deep arrays": (file_of([pair("a", 9, struct.pack("<IQ", 9, 1) * 100)], []), "too deeply"),
    "a key twice": (file_of([pair("a", 0, b"\0")] * 2, []), "'a' is there twice"),
    "a tensor twice": (file_of([], [F, F], bytes(8)), "'x' is there twice"),
    "five axes": (file_of([], [info("x", (1,) * 5, 0, 0)], bytes(4)), "5 axes"),
    "an unknown kind": (file_of([], [info("x", (2,), 99, 0)], bytes(8)), "of kind 99"),
    "a part of a block": (file_of([], [info("x", (33,), 2, 0)], bytes(99)), "packs 32 at a time"),
    "a huge shape": (file_of([], [info("x", (1 << 40, 1 << 40), 0, 0)]), "too large"),
    "outside": (file_of([], [F], bytes(4)), "outside"),
    "far outside": (file_of([], [info("x", (2,), 0, 1 << 63)], bytes(8)), "outside"),
    "overlapping": (file_of([], [F, info("y", (2,), 0, 4)], bytes(32)), "'x' and 'y' overlap"),
    "no alignment": (file_of([pair("general.alignment", 4, bytes(4))], []), "alignment"),
}


@pytest.mark.parametrize("name", BAD)
def test_bad_files_are_refused(name: str) -> None:
    data, message = BAD[name]
    with pytest.raises(ParseError, match=message) as caught:
        gguf_load(data)
    assert caught.value.fix


def test_a_text_of_all_kinds_names_them() -> None:
    message: Any = BAD["an unknown kind"][0]
    with pytest.raises(ParseError, match=r"F32, F16, Q4_0.*MXFP4"):
        gguf_load(message)
