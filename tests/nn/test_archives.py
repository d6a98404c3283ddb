"""Tar and zip as tensors, tensors as files, NumPy's files."""

from __future__ import annotations

import gzip
import io
import os
import struct
import tarfile
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from whit import Tensor, dtypes
from whit.errors import ArgumentError, DTypeError, ParseError
from whit.nn.state import TensorIO, npy_load, npy_save, tar_extract, zip_extract

FILES = {"a.txt": b"hello", "b/c.bin": bytes(range(256)) * 5, "empty": b"", "x" * 150 + "/ü": b"long name"}


def contents(found: dict[str, Tensor]) -> dict[str, bytes]:
    assert all(tensor.dtype is dtypes.uint8 and tensor.ndim == 1 for tensor in found.values())
    return {name: tensor.data().tobytes() for name, tensor in found.items()}


# ---- zip


def zipped(files: dict[str, bytes], method: int = zipfile.ZIP_STORED) -> bytes:
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", method) as archive:
        archive.writestr(zipfile.ZipInfo("folder/"), b"")
        for name, data in files.items():
            archive.writestr(zipfile.ZipInfo(name), data, method)  # no time of day, so that every run is the same
    return file.getvalue()


METHODS = (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED, zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA)


@pytest.mark.parametrize("method", METHODS)
def test_zip_archives(method: int, tmp_path: Path) -> None:
    (tmp_path / "x").write_bytes(b"before" + zipped(FILES, method))  # zip archives may begin anywhere
    found = zip_extract(tmp_path / "x")
    assert contents(found) == FILES and contents(zip_extract(zipped(FILES, method))) == FILES
    is_lazy = {tensor.device.startswith("DISK:") for tensor in found.values()}
    assert is_lazy == {method == zipfile.ZIP_STORED}


def test_zip_bombs_are_not_unpacked() -> None:
    bomb = zipped({"a": bytes(1 << 20), "b": bytes(1 << 20)}, zipfile.ZIP_DEFLATED)
    assert len(bomb) < 5000
    with pytest.raises(ParseError, match="unpacks to too much"):
        zip_extract(bomb, limit=(2 << 20) - 1)
    assert len(zip_extract(bomb, limit=2 << 20)) == 2
    # A size that lies: the archive says 10 bytes, and more come out.
    place = bomb.rindex(b"PK\1\2")
    lying = bomb[: place + 24] + struct.pack("<I", 10) + bomb[place + 28 :]
    with pytest.raises(ParseError, match="zip archive"):
        zip_extract(lying)


@pytest.mark.parametrize("name", ["../x", "/etc/x", "a/../../x", "C:x", "a\\..\\x"])
def test_names_that_lead_out_are_refused(name: str) -> None:
    with pytest.raises(ParseError, match="leads out of the archive"):
        zip_extract(zipped({name: b""}))
    with pytest.raises(ParseError, match="leads out of the archive"):
        tar_extract(tarred({name: b""}))


def test_bad_zip_archives() -> None:
    good = zipped(FILES)
    for data, message in (
        (b"", "no readable zip archive"),
        (good[:-30], "zip archive"),
        (good[100:], "ends at byte"),
        (good.replace(b"PK\3\4", b"PK\3\5"), "no header"),
        (good.replace(b"a.txt", b"empty"), "twice"),
    ):
        with pytest.raises(ParseError, match=message):
            zip_extract(data)
    place = good.rindex(b"PK\1\2")
    with pytest.raises(ParseError, match="encrypted"):
        zip_extract(good[: place + 8] + b"\1" + good[place + 9 :])


# ---- tar


def tarred(files: dict[str, bytes], mode: Any = "w", form: int = tarfile.PAX_FORMAT) -> bytes:
    file = io.BytesIO()
    with tarfile.open(fileobj=file, mode=mode, format=form) as archive:
        folder = tarfile.TarInfo("folder")
        folder.type = tarfile.DIRTYPE
        archive.addfile(folder)
        link = tarfile.TarInfo("link")
        link.type, link.linkname = tarfile.SYMTYPE, "/etc/passwd"
        archive.addfile(link)
        for name, data in files.items():
            entry = tarfile.TarInfo(name)
            entry.size = len(data)
            archive.addfile(entry, io.BytesIO(data))
    return file.getvalue()


@pytest.mark.parametrize("form", [tarfile.USTAR_FORMAT, tarfile.GNU_FORMAT, tarfile.PAX_FORMAT])
def test_tar_archives(form: int, tmp_path: Path) -> None:
    (tmp_path / "x.tar").write_bytes(tarred(FILES, form=form))
    found = tar_extract(tmp_path / "x.tar")
    assert contents(found) == FILES
    assert all(tensor.device.startswith("DISK:") for tensor in found.values())
    assert contents(tar_extract(Tensor(tmp_path / "x.tar"))) == FILES


@pytest.mark.parametrize("mode", ["w:gz", "w:bz2", "w:xz"])
def test_compressed_tar_archives(mode: str) -> None:
    data = tarred(FILES, mode)
    assert contents(tar_extract(data)) == FILES
    with pytest.raises(ParseError, match="unpacks to too much"):
        tar_extract(data, limit=1000)
    with pytest.raises(ParseError, match="cannot be unpacked"):
        tar_extract(data[: len(data) // 2])


def with_checksum(header: bytes) -> bytes:
    total = sum(header[:148]) + sum(header[156:]) + 8 * 32
    return header[:148] + b"%06o\0 " % total + header[156:]


def test_bad_tar_archives() -> None:
    good = tarred({"a": b"12345"}, form=tarfile.USTAR_FORMAT)
    last = good.index(b"a\0\0")
    header = good[last : last + 512]

    def changed(size: bytes) -> bytes:
        return with_checksum(header[:124] + size.ljust(12, b"\0") + header[136:])

    for data, message in (
        (b"", "no tar archive"),
        (b"x" * 1024, "no tar archive"),
        (changed(b"77777777777"), "larger than the archive"),
        (changed(b"\x80" + b"\xff" * 11), "larger than the archive"),
        (changed(b"\xff" * 12), "larger than the archive"),
        (changed(b"-1"), "larger than the archive"),
        (changed(b"9"), "larger than the archive"),
        (changed(b"400") + b"12", "is cut off"),
        (header[:20] + b"y" + header[21:], "checksum"),
    ):
        with pytest.raises(ParseError, match=message):
            tar_extract(data)


def test_extended_headers_have_a_limit() -> None:
    entry = tarfile.TarInfo("x")
    entry.type, entry.size = tarfile.XHDTYPE, 2 << 20
    with pytest.raises(ParseError, match="too long"):
        tar_extract(entry.tobuf(tarfile.USTAR_FORMAT) + bytes(2 << 20))


@pytest.mark.parametrize("record", [b"9 size=1\n", b"99 path=x\n", b"x path=x\n", b"9 path=\n ", b"7 patx\n"])
def test_bad_extended_headers(record: bytes) -> None:
    entry = tarfile.TarInfo("x")
    entry.type, entry.size = tarfile.XHDTYPE, len(record)
    data = entry.tobuf(tarfile.USTAR_FORMAT) + record.ljust(512, b"\0") + tarred({"a": b""})
    if record == b"9 size=1\n":  # a size that fits is taken
        record = b"20 size=99999999999\n"
        entry.size = len(record)
        data = entry.tobuf(tarfile.USTAR_FORMAT) + record.ljust(512, b"\0") + tarred({"a": b""})
    with pytest.raises(ParseError):
        tar_extract(data)


# ---- a tensor as a file


@pytest.mark.parametrize("where", ["disk", "memory", "PYTHON"])
def test_tensors_are_files(where: str, tmp_path: Path) -> None:
    data = bytes(range(100))
    (tmp_path / "x").write_bytes(data)
    tensor = Tensor(tmp_path / "x") if where == "disk" else Tensor(data, None if where == "memory" else where)
    file = TensorIO(tensor)
    assert file.read(3) == data[:3] and file.tell() == 3 and file.read(0) == b""
    assert file.seek(-2, os.SEEK_END) == 98 and file.read() == data[98:] and file.read(5) == b""
    assert file.seek(10) == 10 and file.seek(5, os.SEEK_CUR) == 15
    target = bytearray(4)
    assert file.readinto(target) == 4 and bytes(target) == data[15:19]
    file.seek(98)
    assert file.readinto(target) == 2 and file.seek(1000) == 100 and file.read() == b""
    assert file.seekable() and file.readable() and not file.writable()
    assert file.seek(-1) == 0 and file.seek(-500, os.SEEK_CUR) == 0
    with pytest.raises(ArgumentError, match="whence"):
        file.seek(0, 7)
    assert io.BufferedReader(TensorIO(tensor)).read() == data
    assert list(io.TextIOWrapper(TensorIO(Tensor(b"a\nb\n")))) == ["a\n", "b\n"]  # type: ignore[type-var]


def test_gzip_reads_tensors() -> None:
    assert gzip.GzipFile(fileobj=TensorIO(Tensor(gzip.compress(b"x" * 1000)))).read() == b"x" * 1000


# ---- NumPy


ARRAYS: dict[str, Any] = {
    "matrix": np.arange(6, dtype=np.float32).reshape(2, 3),
    "columns": np.asfortranarray(np.arange(24, dtype=np.int16).reshape(2, 3, 4)),
    "big": np.arange(4, dtype=">i4").reshape(2, 2),
    "big columns": np.asfortranarray(np.arange(6, dtype=">f8").reshape(2, 3)),
    "scalar": np.array(1.5),
    "none": np.zeros((0, 3), np.uint8),
    "big none": np.zeros((0, 3), ">u2"),
    "bools": np.array([True, False]),
    "half": np.array([1.5], np.float16),
}


@pytest.mark.parametrize("name", ARRAYS)
def test_arrays_of_numpy(name: str, tmp_path: Path) -> None:
    array = ARRAYS[name]
    np.save(tmp_path / "x.npy", array)
    found = npy_load(tmp_path / "x.npy")
    assert found.shape == array.shape and found.dtype.itemsize == array.dtype.itemsize
    assert found.tolist() == array.tolist()


@pytest.mark.parametrize("version", [(1, 0), (2, 0), (3, 0)])
def test_versions_of_npy(version: tuple[int, int]) -> None:
    file = io.BytesIO()
    np.lib.format.write_array(file, ARRAYS["matrix"], version)
    assert npy_load(file.getvalue()).tolist() == ARRAYS["matrix"].tolist()


@pytest.mark.parametrize("save", [np.savez, np.savez_compressed])
def test_npz(save: Any, tmp_path: Path) -> None:
    save(tmp_path / "x.npz", a=ARRAYS["matrix"], b=ARRAYS["scalar"])
    found = npy_load(tmp_path / "x.npz")
    assert {name: t.tolist() for name, t in found.items()} == {"a": ARRAYS["matrix"].tolist(), "b": 1.5}


def test_what_is_saved_is_what_numpy_saves(tmp_path: Path) -> None:
    for name in ("matrix", "scalar", "none", "bools", "half"):
        npy_save(Tensor(ARRAYS[name]), tmp_path / "x.npy")
        file = io.BytesIO()
        np.save(file, ARRAYS[name].astype(np.float32) if name == "scalar" else ARRAYS[name])
        assert np.array_equal(np.load(tmp_path / "x.npy"), ARRAYS[name])
        if name != "scalar":
            assert (tmp_path / "x.npy").read_bytes() == file.getvalue()
    npy_save({"a": Tensor([1, 2]), "b/c": Tensor([[0.5]])}, tmp_path / "x.npz")
    with np.load(tmp_path / "x.npz") as found:
        assert found["a"].tolist() == [1, 2] and found["b/c"].tolist() == [[0.5]]
    with pytest.raises(DTypeError, match="NumPy has no bfloat16"):
        npy_save(Tensor([1.0]).bfloat16(), tmp_path / "x.npy")
    with pytest.raises(ArgumentError, match="cannot save a list"):
        npy_save([1], tmp_path / "x.npy")  # type: ignore[arg-type]


def npy(header: str, data: bytes = b"", version: int = 1) -> bytes:
    text = header.encode()
    return b"\x93NUMPY" + bytes([version, 0]) + struct.pack("<H" if version == 1 else "<I", len(text)) + text + data


def described(descr: str = "'<f4'", order: str = "False", shape: str = "(1,)") -> str:
    return f"{{'descr': {descr}, 'fortran_order': {order}, 'shape': {shape}}}"


BAD_NPY = {
    "empty": (b"", "no .npy file"),
    "version": (npy(described(), bytes(4), 9), "version 9"),
    "objects": (npy(described("'|O'"), bytes(8)), "could run code"),
    "structured": (npy(described("[('a', '<f4')]"), bytes(8)), "an array of"),
    "long complex": (npy(described("'<c32'"), bytes(32)), "an array of '<c32'"),
    "call": (npy("__import__('os').system('true')"), "cannot be read"),
    "nested": (npy("(" * 5000), "cannot be read"),
    "long": (npy(" " * 20_000), "too long"),
    "keys": (npy("{'descr': '<f4'}"), "has no descr"),
    "order": (npy(described(order="3"), bytes(4)), "no bool"),
    "negative": (npy(described(shape="(-1,)"), bytes(4)), "no sizes"),
    "huge": (npy(described(shape=f"({1 << 40}, {1 << 40})"), bytes(4)), "too large"),
    "cut off": (npy(described(shape="(1000000000000,)"), bytes(4)), "ends at byte"),
}


@pytest.mark.parametrize("name", BAD_NPY)
def test_bad_npy_files(name: str) -> None:
    data, message = BAD_NPY[name]
    with pytest.raises(ParseError, match=message):
        npy_load(data)
