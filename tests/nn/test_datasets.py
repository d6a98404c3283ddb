"""Data sets: the one that comes with whit, and readers of the standard files, on tiny ones."""

from __future__ import annotations

import gzip
import hashlib
import io
import pickle
import struct
import sys
import tarfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from whit import Context, dtypes
from whit.errors import ArgumentError, BackendError, FileMissingError, NotSupportedError, ParseError
from whit.nn import datasets
from whit.nn.datasets import cifar, digits, mnist

# ---- digits


def test_digits() -> None:
    x_train, y_train, x_test, y_test = digits("PYTHON")
    assert x_train.shape == (1442, 1, 8, 8) and y_train.shape == (1442,)
    assert x_test.shape == (355, 1, 8, 8) and y_test.shape == (355,)
    assert {t.dtype for t in (x_train, y_train, x_test, y_test)} == {dtypes.uint8} and x_train.device == "PYTHON"
    images, labels = np.concatenate([x_train.numpy(), x_test.numpy()]), y_train.numpy()
    assert images.min() == 0 and images.max() == 16 and images.sum() == 561718
    assert np.bincount(labels).tolist() == [143, 146, 142, 147, 145, 146, 145, 144, 140, 144]
    assert np.bincount(y_test.numpy()).tolist() == [35, 36, 35, 36, 36, 36, 36, 35, 34, 36]


@pytest.mark.slow
def test_digits_are_those_of_scikit_learn() -> None:
    sklearn = pytest.importorskip("sklearn.datasets")
    expected = sklearn.load_digits()
    x_train, y_train, x_test, y_test = digits()
    for digit in range(10):
        theirs = expected.images[expected.target == digit]
        assert np.array_equal(x_test.numpy()[y_test.numpy() == digit, 0], theirs[4::5])
        assert np.array_equal(x_train.numpy()[y_train.numpy() == digit, 0][:4], theirs[:4])


def test_digits_are_small() -> None:
    assert (Path(datasets.__file__).parent / "digits.npz").stat().st_size < 60_000


@pytest.mark.slow
def test_data_sets_of_scikit_learn(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(ArgumentError, match='Did you mean "iris"'):
        datasets.from_sklearn("irsi")
    monkeypatch.setitem(sys.modules, "sklearn.datasets", None)
    with pytest.raises(NotSupportedError, match=r"pip install whit\[data\]"):
        datasets.from_sklearn("iris")
    monkeypatch.undo()
    pytest.importorskip("sklearn")
    x_train, y_train, x_test, y_test = datasets.from_sklearn("iris")
    assert x_train.shape == (120, 4) and y_train.shape == (120,) and x_test.shape == (30, 4) and y_test.shape == (30,)
    assert x_train.dtype is dtypes.float32 and y_train.dtype is dtypes.int32 and set(y_test.tolist()) == {0, 1, 2}


# ---- MNIST


def idx(array: np.ndarray[Any, Any]) -> bytes:
    return bytes([0, 0, 8, array.ndim]) + struct.pack(f">{array.ndim}I", *array.shape) + array.tobytes()


TRAIN = np.arange(3 * 28 * 28, dtype=np.uint8).reshape(3, 28, 28)
TEST = TRAIN[:2] + 1


def write_mnist(folder: Path, is_packed: bool = True, **changes: bytes) -> None:
    contents = [idx(TRAIN), idx(np.array([1, 2, 3], np.uint8)), idx(TEST), idx(np.array([4, 5], np.uint8))]
    for name, content in zip(datasets.MNIST_FILES, contents, strict=True):
        content = changes.get(name.partition("-idx")[0].replace("-", "_"), content)
        if is_packed:
            (folder / name).write_bytes(gzip.compress(content))
        else:
            (folder / name.removesuffix(".gz")).write_bytes(content)


@pytest.mark.parametrize("is_packed", [True, False])
@pytest.mark.parametrize("fashion", [True, False])
def test_mnist_of_a_folder(is_packed: bool, fashion: bool, tmp_path: Path) -> None:
    write_mnist(tmp_path, is_packed)
    x_train, y_train, x_test, y_test = mnist("PYTHON", fashion, tmp_path)
    assert np.array_equal(x_train.numpy(), TRAIN[:, None]) and np.array_equal(x_test.numpy(), TEST[:, None])
    assert y_train.tolist() == [1, 2, 3] and y_test.tolist() == [4, 5] and x_train.device == "PYTHON"


@pytest.mark.parametrize(
    "content, message",
    [
        (b"", "no IDX file"),
        (idx(TRAIN[0]), "no IDX file of bytes with 3 axes"),
        (idx(TRAIN)[:-1], "should have 2352 elements"),
        (idx(TRAIN) + b"x", "should have 2352 elements"),
        (bytes([0, 0, 8, 3]) + b"\xff" * 12, "elements"),
        (idx(TEST), "2 images have 3 labels"),
    ],
)
def test_bad_files_of_mnist(content: bytes, message: str, tmp_path: Path) -> None:
    write_mnist(tmp_path, train_images=content)
    with pytest.raises(ParseError, match=message):
        mnist(folder=tmp_path)


def test_missing_files_are_named(tmp_path: Path) -> None:
    with pytest.raises(FileMissingError, match=r"there is no train-images-idx3-ubyte\.gz or"):
        mnist(folder=tmp_path)
    with pytest.raises(FileMissingError, match=r"cifar-10-binary\.tar\.gz"):
        cifar(folder=tmp_path)


def test_files_are_downloaded_once_and_compared_with_checksums(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    source, cache = tmp_path / "source", tmp_path / "cache"
    source.mkdir()
    write_mnist(source)
    sums = {name: hashlib.md5((source / name).read_bytes()).hexdigest() for name in datasets.MNIST_FILES}
    asked = []

    def fetch(url: str, name: str, subdir: str) -> Path:
        asked.append(url)
        place = cache / subdir / name
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_bytes((source / name).read_bytes())
        return place

    monkeypatch.setattr(datasets, "fetch", fetch)
    monkeypatch.setattr(datasets, "MNIST_FILES", sums)
    assert mnist()[1].tolist() == [1, 2, 3]
    assert asked == [datasets.MNIST_URL + name for name in sums]
    (source / "t10k-labels-idx1-ubyte.gz").write_bytes(b"other")
    with pytest.raises(BackendError, match="is not the published file"):
        mnist()
    assert not (cache / "mnist" / "t10k-labels-idx1-ubyte.gz").exists()


def test_an_address_of_ones_own(tmp_path: Path) -> None:
    write_mnist(tmp_path)
    with Context(CACHE_DIR=str(tmp_path / "cache")):
        assert mnist(folder=tmp_path.as_uri())[1].tolist() == [1, 2, 3]


# ---- CIFAR

RECORDS = [np.random.default_rng(i).integers(0, 256, (2, 3073), np.uint8) for i in range(6)]
for record in RECORDS:
    record[:, 0] %= 10
NAMES = [*[f"data_batch_{i}" for i in range(1, 6)], "test_batch"]


def batch(records: np.ndarray[Any, Any], is_pickle: bool, protocol: int = 2) -> bytes:
    if not is_pickle:
        return records.tobytes()
    value = {b"data": records[:, 1:].copy(), b"labels": records[:, 0].tolist(), b"batch_label": b"x"}
    return pickle.dumps(value, protocol)


@pytest.mark.parametrize("is_pickle", [True, False])
@pytest.mark.parametrize("is_archive", [True, False])
def test_cifar(is_pickle: bool, is_archive: bool, tmp_path: Path) -> None:
    kind, end = ("py", "") if is_pickle else ("bin", ".bin")
    files = {
        f"cifar-10-batches-{kind}/{name}{end}": batch(r, is_pickle) for name, r in zip(NAMES, RECORDS, strict=True)
    }
    if is_archive:
        name = "cifar-10-python.tar.gz" if is_pickle else "cifar-10-binary.tar.gz"
        with tarfile.open(tmp_path / name, "w:gz") as archive:
            for path, content in files.items():
                entry = tarfile.TarInfo(path)
                entry.size = len(content)
                archive.addfile(entry, io.BytesIO(content))
    else:
        for path, content in files.items():
            (tmp_path / path).parent.mkdir(exist_ok=True)
            (tmp_path / path).write_bytes(content)
    x_train, y_train, x_test, y_test = cifar("PYTHON", tmp_path)
    train = np.concatenate(RECORDS[:5])
    assert np.array_equal(x_train.numpy(), train[:, 1:].reshape(-1, 3, 32, 32))
    assert y_train.tolist() == train[:, 0].tolist() and y_test.tolist() == RECORDS[5][:, 0].tolist()
    assert x_test.shape == (2, 3, 32, 32) and x_test.dtype is dtypes.uint8


@pytest.mark.parametrize(
    "content, message",
    [
        (b"x" * 100, "no whole number of records"),
        (b"\x0a" + bytes(3072), "a label is not 0 to 9"),
        (pickle.dumps({"data": 1, "labels": []}, 2), "no batch of CIFAR-10"),
        (pickle.dumps([1], 2), "no batch of CIFAR-10"),
        (pickle.dumps(print, 2), "print"),
        (pickle.dumps({"data": np.zeros((1, 3072)), "labels": [1]}, 2), "bytes were expected"),
        (pickle.dumps({"data": np.zeros((2, 3072), np.uint8), "labels": [1]}, 2), "no batch of CIFAR-10"),
        (pickle.dumps({"data": np.zeros((1, 3072), np.uint8), "labels": [10]}, 2), "a label is not 0 to 9"),
    ],
    ids=range(8),
)
def test_bad_batches_of_cifar(content: bytes, message: str, tmp_path: Path) -> None:
    (tmp_path / "data_batch_1").write_bytes(content)
    with pytest.raises(ParseError, match=message):
        cifar(folder=tmp_path)


def test_batches_that_are_not_there(tmp_path: Path) -> None:
    (tmp_path / "data_batch_1.bin").write_bytes(bytes(3073))
    with pytest.raises(ParseError, match="no batches to train and to test with"):
        cifar(folder=tmp_path)
