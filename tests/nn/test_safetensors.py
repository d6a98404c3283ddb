"""Safetensors: files byte by byte, every dtype, lazy reads, several files, saving that never leaves half a file."""

from __future__ import annotations

import errno
import json
import os
import struct
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from whit import GlobalCounters, Tensor, dtypes
from whit.errors import ArgumentError, DTypeError, FileError, FileMissingError, ParseError
from whit.nn.state import safe_load, safe_load_metadata, safe_save
from whit.nn.state.safetensors import DTYPES


def file_of(header: Any, data: bytes = b"") -> bytes:
    """A file with this header, whatever it says."""
    text = header if isinstance(header, bytes) else json.dumps(header).encode()
    return struct.pack("<Q", len(text)) + text + data


def entry(dtype: str = "F32", shape: Any = (1,), offsets: Any = (0, 4)) -> dict[str, Any]:
    return {"dtype": dtype, "shape": shape, "data_offsets": offsets}


ONE = file_of({"x": entry()}, struct.pack("<f", 1.5))


def test_a_file_is_what_the_format_says(tmp_path: Path) -> None:
    path = tmp_path / "x"
    safe_save({"b": Tensor([1, 2], dtype=dtypes.int16), "a": Tensor([[1.5]])}, path, {"k": "v"})
    header = (
        b'{"__metadata__":{"k":"v"},"a":{"dtype":"F32","shape":[1,1],"data_offsets":[0,4]},'
        b'"b":{"dtype":"I16","shape":[2],"data_offsets":[4,8]}}'
    )
    header += b" " * (-len(header) % 8)
    assert path.read_bytes() == struct.pack("<Q", len(header)) + header + struct.pack("<fhh", 1.5, 1, 2)


@pytest.mark.parametrize("name", DTYPES)
def test_every_dtype_goes_there_and_back(name: str, tmp_path: Path) -> None:
    dtype = DTYPES[name]
    value = Tensor([[0, 1, 1], [0, 0, 1]], dtype=dtype)
    safe_save({"x": value}, tmp_path / "x")
    (found,) = safe_load(tmp_path / "x").values()
    assert found.dtype is dtype and found.shape == (2, 3) and found.device.startswith("DISK:")
    assert found.tolist() == value.tolist()
    assert safe_load((tmp_path / "x").read_bytes())["x"].tolist() == value.tolist()


@pytest.mark.parametrize("shape", [(), (0,), (3, 0, 2), (1, 1), (2, 1, 3)])
def test_every_kind_of_shape_goes_there_and_back(shape: tuple[int, ...], tmp_path: Path) -> None:
    safe_save({"x": Tensor(np.ones(shape, np.float32)), "y": Tensor([2.0])}, tmp_path / "x")
    found = safe_load(tmp_path / "x")
    assert found["x"].shape == shape and found["x"].numpy().sum() == np.ones(shape).sum() and found["y"].item() == 2


def test_views_and_lazy_tensors_are_saved_as_their_values(tmp_path: Path) -> None:
    x = Tensor(np.arange(6, dtype=np.float32).reshape(2, 3), "PYTHON")
    safe_save({"t": x.permute(1, 0), "sum": x + 1}, tmp_path / "x")
    found = safe_load(tmp_path / "x")
    assert found["t"].tolist() == [[0, 3], [1, 4], [2, 5]] and found["sum"].tolist() == [[1, 2, 3], [4, 5, 6]]


def test_bytes_that_are_no_bools_load_as_true() -> None:
    assert safe_load(file_of({"x": entry("BOOL", [3], [0, 3])}, b"\0\2\xff"))["x"].tolist() == [False, True, True]


def test_only_what_is_used_is_read(tmp_path: Path) -> None:
    safe_save({"small": Tensor([1.0]), "large": Tensor(np.zeros(100_000, np.float32))}, tmp_path / "x")
    GlobalCounters.reset()
    found = safe_load(tmp_path / "x")
    assert GlobalCounters.global_mem < 400
    assert found["small"].tolist() == [1]
    assert GlobalCounters.global_mem < 400


def test_tensors_of_bytes_can_be_loaded(tmp_path: Path) -> None:
    assert safe_load(Tensor(ONE))["x"].tolist() == [1.5]
    (tmp_path / "x").write_bytes(b"head" + ONE)
    found = safe_load(Tensor(tmp_path / "x")[4:])["x"]
    assert found.device.startswith("DISK:") and found.tolist() == [1.5]
    with pytest.raises(ArgumentError, match=r"float32\(1,\) is not the bytes of a file"):
        safe_load(Tensor([1.0]))
    with pytest.raises(ArgumentError, match="cannot read a int"):
        safe_load(3)


def test_metadata(tmp_path: Path) -> None:
    safe_save({}, tmp_path / "x", {"format": "pt", "ü": "ß"})
    assert safe_load_metadata(tmp_path / "x") == {"format": "pt", "ü": "ß"} and safe_load(tmp_path / "x") == {}
    assert safe_load_metadata(ONE) == {}


def test_a_model_in_several_files(tmp_path: Path) -> None:
    safe_save({"a": Tensor([1.0])}, tmp_path / "m-1.safetensors")
    safe_save({"b": Tensor([2.0]), "unused": Tensor([3.0])}, tmp_path / "m-2.safetensors")
    index = tmp_path / "model.safetensors.index.json"
    weights = {"b": "m-2.safetensors", "a": "m-1.safetensors"}
    index.write_text(json.dumps({"metadata": {"total_size": 8}, "weight_map": weights}))
    found = safe_load(index)
    assert {name: tensor.item() for name, tensor in found.items()} == {"b": 2, "a": 1}
    assert list(safe_load(tmp_path)) == ["b", "a"] and safe_load_metadata(index) == {"total_size": "8"}
    index.write_text(json.dumps({"weight_map": {"b": "m-1.safetensors"}}))
    with pytest.raises(ParseError, match=r'"b" should be in m-1\.safetensors'):
        safe_load(index)
    index.write_text(json.dumps({"weight_map": {"b": "missing.safetensors"}}))
    with pytest.raises(FileMissingError):
        safe_load(index)


@pytest.mark.parametrize("name", ["../m.safetensors", "/etc/passwd", "a/b", "..", "", "a\\b", "x\0"])
def test_an_index_cannot_lead_out_of_its_folder(name: str, tmp_path: Path) -> None:
    index = tmp_path / "model.safetensors.index.json"
    index.write_text(json.dumps({"weight_map": {"a": name}}))
    with pytest.raises(ParseError, match="the index names the file"):
        safe_load(index)


def test_a_folder_needs_one_model(tmp_path: Path) -> None:
    with pytest.raises(ArgumentError, match="found: none"):
        safe_load(tmp_path)
    safe_save({"a": Tensor([1.0])}, tmp_path / "model.safetensors")
    assert safe_load(tmp_path)["a"].item() == 1


BAD = [
    (b"", "too short"),
    (b"\0" * 7, "too short"),
    (struct.pack("<Q", 1 << 62), "no safetensors file"),
    (struct.pack("<Q", 9) + b"{}", "no safetensors file"),
    (file_of(b"{"), "not JSON"),
    (file_of(b"[" * 5000), "not JSON"),
    (file_of(b"\xff\xfe{}"), "not JSON"),
    (file_of([]), "no JSON object"),
    (file_of(b'{"x":1,"x":1}'), "a name is there twice: 'x'"),
    (file_of({"x": 3}), "no dtype, shape and data_offsets"),
    (file_of({"x": entry("F4")}), "has the dtype 'F4'"),
    (file_of({"x": entry(3)}), "has the dtype 3"),  # type: ignore[arg-type]
    (file_of({"x": entry(shape=[-1])}), "no sizes"),
    (file_of({"x": entry(shape=[1.0])}), "no sizes"),
    (file_of({"x": entry(shape=[True])}), "no sizes"),
    (file_of({"x": entry(shape="a")}), "no sizes"),
    (file_of({"x": entry(shape=[1] * 65)}), "no sizes"),
    (file_of({"x": entry(shape=[1 << 40, 1 << 40])}), "too large"),
    (file_of({"x": entry(offsets=[0])}), "no two numbers"),
    (file_of({"x": entry(offsets=[0, 8])}), "has 8 bytes"),
    (file_of({"x": entry(offsets=[8, 4])}), "has -4 bytes"),
    (file_of({"x": entry(offsets=[-4, 0])}), "has 4 bytes from -4"),
    (file_of({"x": entry()}), "cut off"),
    (file_of({"x": entry(offsets=[4, 8])}, bytes(8)), "leaves a gap"),
    (file_of({"x": entry(), "y": entry(offsets=[2, 6])}, bytes(8)), "overlaps"),
    (file_of({"x": entry()}, bytes(8)), "left over"),
    (file_of({"x": entry(), "__metadata__": {"a": 1}}, bytes(4)), "metadata"),
    (file_of({"x": entry(), "__metadata__": []}, bytes(4)), "metadata"),
]


@pytest.mark.parametrize("data, message", BAD, ids=[str(i) for i in range(len(BAD))])
def test_bad_files_are_refused(data: bytes, message: str, tmp_path: Path) -> None:
    (tmp_path / "x").write_bytes(data)
    for given in (data, tmp_path / "x"):
        with pytest.raises(ParseError, match=message) as caught:
            safe_load(given)
        assert isinstance(caught.value, ValueError) and caught.value.fix


# ---- saving


def test_what_cannot_be_saved(tmp_path: Path) -> None:
    with pytest.raises(ArgumentError, match=r'"x\.0" is a int'):
        safe_save({"x": [1]}, tmp_path / "x")
    with pytest.raises(ArgumentError, match="cannot be the name"):
        safe_save({"__metadata__": Tensor([1.0])}, tmp_path / "x")
    with pytest.raises(ArgumentError, match="metadata is text"):
        safe_save({}, tmp_path / "x", {"a": 1})  # type: ignore[dict-item]
    assert os.listdir(tmp_path) == [] and issubclass(DTypeError, TypeError)


def test_a_folder_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(FileMissingError, match="cannot be written"):
        safe_save({"x": Tensor([1.0])}, tmp_path / "no" / "x")


@pytest.mark.parametrize("where", ["posix_fallocate", "fsync", "replace"])
def test_a_full_disk_leaves_the_old_file(where: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "x"
    safe_save({"x": Tensor([1.0])}, path)
    before = path.read_bytes()

    def fail(*_: Any) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, where, fail)
    with pytest.raises(FileError, match="Make room on the disk") as caught:
        safe_save({"x": Tensor([2.0])}, path)
    monkeypatch.undo()
    assert caught.value.errno == errno.ENOSPC and path.read_bytes() == before and os.listdir(tmp_path) == ["x"]


def test_a_tensor_that_cannot_be_computed_leaves_the_old_file(tmp_path: Path) -> None:
    path, gone = tmp_path / "x", tmp_path / "gone"
    safe_save({"x": Tensor([1.0])}, path)
    before = path.read_bytes()
    gone.write_bytes(b"1234")
    cut = Tensor(gone)
    os.truncate(gone, 0)
    with pytest.raises(FileError, match="ends at byte 0"):
        safe_save({"x": cut}, path)
    assert path.read_bytes() == before and sorted(os.listdir(tmp_path)) == ["gone", "x"]


def test_a_file_can_be_saved_over_itself(tmp_path: Path) -> None:
    path = tmp_path / "x"
    safe_save({"x": Tensor([1.0, 2.0])}, path)
    path.chmod(0o640)
    found = safe_load(path)
    safe_save({"y": found["x"]}, path)
    assert safe_load(path)["y"].tolist() == [1, 2] and found["x"].tolist() == [1, 2]
    assert path.stat().st_mode & 0o777 == 0o640


# ---- against the format's own library


def test_files_of_the_library(tmp_path: Path) -> None:
    library = pytest.importorskip("safetensors.numpy")
    arrays: dict[str, Any] = {
        "a": np.arange(6, dtype=np.float16).reshape(2, 3),
        "b": np.array(3, np.int64),
        "c": np.zeros(0, np.uint8),
    }
    library.save_file(arrays, tmp_path / "theirs", {"k": "v"})
    found = safe_load(tmp_path / "theirs")
    assert {name: t.tolist() for name, t in found.items()} == {name: a.tolist() for name, a in arrays.items()}
    safe_save(found, tmp_path / "ours", {"k": "v"})
    back = library.load_file(tmp_path / "ours")
    assert all(np.array_equal(back[name], array) for name, array in arrays.items())
    assert (tmp_path / "ours").read_bytes() == (tmp_path / "theirs").read_bytes()
