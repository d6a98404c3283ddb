"""Small data sets of images: `digits` comes with whit, the others are read from files that are downloaded once.

    x_train, y_train, x_test, y_test = digits()         # uint8 (n, channels, height, width) and uint8 (n,)

`folder=` names a folder of this machine that has the files, packed or not, or an address to download them from. Without
it they come from where they are published, are compared with the published checksums, and are kept in the
cache folder (setting CACHE_DIR).

`digits` is the test part of "Optical Recognition of Handwritten Digits" by E. Alpaydin and C. Kaynak (1998), UCI
Machine Learning Repository, https://doi.org/10.24432/C50P49, under the licence CC BY 4.0; only the file format differs.
"""

from __future__ import annotations

import os
import struct
from pathlib import Path
from typing import Any

from whit.errors import ArgumentError, BackendError, FileMissingError, NotSupportedError, ParseError, nearest
from whit.helpers import fetch
from whit.nn.state.archives import LIMIT_BYTES, gunzip, tar_extract
from whit.nn.state.numpy_files import npy_load
from whit.nn.state.pickles import Global, Stateful, Unpickler
from whit.tensor import Tensor
from whit.tensor.source import CUT_OFF, Reader, Source, open_source

Four = tuple[Tensor, Tensor, Tensor, Tensor]  # images and labels to train with, images and labels to test with
Folder = str | os.PathLike[str] | None

MNIST_URL = "https://ossci-datasets.s3.amazonaws.com/mnist/"
FASHION_URL = "http://fashion-mnist.s3-website.eu-central-1.amazonaws.com/"
CIFAR_URL = "https://www.cs.toronto.edu/~kriz/"
# MD5, as published with the files.
MNIST_FILES = {
    "train-images-idx3-ubyte.gz": "f68b3c2dcbeaaa9fbdd348bbdeb94873",
    "train-labels-idx1-ubyte.gz": "d53e105ee54ea40749a09fcbcd1e9432",
    "t10k-images-idx3-ubyte.gz": "9fb629c4189551a2d022fa330f9573f3",
    "t10k-labels-idx1-ubyte.gz": "ec29112dd5afa0611ce80d1b7f02629c",
}
FASHION_FILES = {
    "train-images-idx3-ubyte.gz": "8d4fb7e6c68d591d4c3dfef9ec88bf0d",
    "train-labels-idx1-ubyte.gz": "25c81989df183df01b3e8a0aad5dffbe",
    "t10k-images-idx3-ubyte.gz": "bef4ecab320f06d8554ea6380940ec79",
    "t10k-labels-idx1-ubyte.gz": "bb300cfdad3c16e7a12a480ee83cd310",
}
SKLEARN = ("iris", "wine", "breast_cancer", "diabetes")
CIFAR_ARCHIVE = "cifar-10-binary.tar.gz"
CIFAR_MD5 = "c32a1d4ab5d03f1284b67883e8d87530"


def digits(device: str | None = None) -> Four:
    """1,797 handwritten digits, 8 by 8, pixels 0 to 16: 1,442 to train with and 355, every fifth of each, to test."""
    found = npy_load(Path(__file__).parent / "digits.npz")
    images, labels = found["images"].numpy(), found["labels"].numpy()
    return _split(device, images.reshape(-1, 1, 8, 8), labels, labels.tolist())


def from_sklearn(name: str, device: str | None = None) -> Four:
    """A small data set that comes with scikit-learn (`pip install whit[data]`): iris, wine, breast_cancer, diabetes.

    Numbers are float32, classes int32. Every fifth row of each class is to test with.
    """
    if name not in SKLEARN:
        raise ArgumentError(
            f"from_sklearn: there is no {name!r}.{nearest(name, SKLEARN)}", f"known: {', '.join(SKLEARN)}", "Use one."
        )
    try:
        import sklearn.datasets as sets  # lazy: an optional package
    except ImportError:
        raise NotSupportedError(
            f"from_sklearn: {name} comes with scikit-learn, which is not installed", fix="pip install whit[data]"
        ) from None
    rows, targets = getattr(sets, f"load_{name}")(return_X_y=True)
    rows, targets = rows.astype("float32"), targets.astype("float32" if name == "diabetes" else "int32")
    return _split(device, rows, targets, [0] * len(targets) if name == "diabetes" else targets.tolist())


def mnist(device: str | None = None, fashion: bool = False, folder: Folder = None) -> Four:
    """60,000 and 10,000 handwritten digits, or pieces of clothing (`fashion`), 28 by 28, with pixels 0 to 255."""
    files = FASHION_FILES if fashion else MNIST_FILES
    url = FASHION_URL if fashion else MNIST_URL
    subdir = "fashion-mnist" if fashion else "mnist"
    arrays = []
    for name, md5 in files.items():
        source = open_source("mnist", _find(folder, (name, name.removesuffix(".gz")), url, md5, subdir))
        arrays.append(_idx(source, 3 if "images" in name else 1))
    for images, labels in (arrays[:2], arrays[2:]):
        if len(images) != len(labels):
            raise ParseError(f"mnist: {len(images)} images have {len(labels)} labels", fix="Get the files again.")
    x_train, y_train, x_test, y_test = arrays
    return _tensors(device, x_train[:, None], y_train, x_test[:, None], y_test)


def cifar(device: str | None = None, folder: Folder = None) -> Four:
    """CIFAR-10: 50,000 and 10,000 photographs of ten kinds of things, three colours, 32 by 32, pixels 0 to 255.

    Reads the binary archive, the one for Python, and folders of their files.
    """
    import numpy as np  # lazy: `import whit` must not load it

    batches = _cifar_sources(folder)
    parts = {name: _cifar_batch(source) for name, source in sorted(batches.items())}
    train = [part for name, part in parts.items() if name.startswith("data_batch_")]
    test = [part for name, part in parts.items() if name.startswith("test_batch")]
    if not train or not test:
        raise ParseError(
            "cifar: there are no batches to train and to test with",
            f"found: {', '.join(parts)}",
            "Get the files again.",
        )
    x_train, y_train = (np.concatenate([part[i] for part in train]) for i in range(2))
    x_test, y_test = (np.concatenate([part[i] for part in test]) for i in range(2))
    return _tensors(device, x_train, y_train, x_test, y_test)


def _split(device: str | None, rows: Any, targets: Any, classes: list[int]) -> Four:
    """Every fifth of each class is to test with."""
    seen = dict.fromkeys(classes, 0)
    is_test = []
    for kind in classes:
        seen[kind] += 1
        is_test.append(seen[kind] % 5 == 0)
    is_train = [not test for test in is_test]
    return _tensors(device, rows[is_train], targets[is_train], rows[is_test], targets[is_test])


def _tensors(device: str | None, *arrays: Any) -> Four:
    x_train, y_train, x_test, y_test = (Tensor(array.copy(), device) for array in arrays)
    return x_train, y_train, x_test, y_test


# ---- finding the files


def _find(folder: Folder, names: tuple[str, ...], url: str, md5: str | None, subdir: str) -> Path:
    """A file under one of its names in a folder, or downloaded. What is downloaded from elsewhere is not checked."""
    if folder is not None and "://" not in os.fspath(folder):
        for name in names:
            path = Path(folder) / name
            if path.is_file():
                return path
        raise FileMissingError(f"there is no {' or '.join(names)} in {folder}", fix="Check the folder.")
    if folder is not None:
        base = os.fspath(folder)
        return fetch(f"{base.rstrip('/')}/{names[0]}", subdir=subdir)
    path = fetch(url + names[0], name=names[0], subdir=subdir)
    if md5 is not None:
        _check(path, md5)
    return path


def _check(path: Path, md5: str) -> None:
    with open(path, "rb") as file:
        import hashlib  # lazy: 2 ms, and few programs load data

        found = hashlib.file_digest(file, lambda: hashlib.md5(usedforsecurity=False)).hexdigest()
    if found != md5:
        path.unlink()  # so that the next call downloads it again
        raise BackendError(f"{path.name} is not the published file", f"MD5 {found}, expected {md5}", "Try again.")


# ---- MNIST


def _idx(source: Source, axes: int) -> Any:
    """An array of bytes in the format IDX: 0, 0, type, number of axes, sizes, elements."""
    import numpy as np  # lazy: `import whit` must not load it

    if source.read_up_to(0, 2) == b"\x1f\x8b":
        source = Source(source.reader, source.name, memoryview(gunzip(source)))
    start = 4 + 4 * axes
    if source.size < start or source.read(0, 4) != bytes([0, 0, 8, axes]):
        raise source.error(
            f"no IDX file of bytes with {axes} axes", f"it begins with {source.read_up_to(0, 4)!r}", CUT_OFF
        )
    shape = struct.unpack(f">{axes}I", source.read(4, 4 * axes))
    count = 1
    for size in shape:
        count *= size
    if source.size - start != count:
        raise source.error(f"it should have {count} elements", f"{source.size - start} bytes follow", CUT_OFF)
    return np.frombuffer(source.read(start, count), np.uint8).reshape(shape)


# ---- CIFAR


def _cifar_sources(folder: Folder) -> dict[str, Source]:
    """The files of batches by name, of a folder or of an archive."""
    if folder is not None and "://" not in os.fspath(folder):
        for place in (Path(folder), Path(folder) / "cifar-10-batches-bin", Path(folder) / "cifar-10-batches-py"):
            found = [*place.glob("data_batch_*"), *place.glob("test_batch*")] if place.is_dir() else []
            if found:
                return {path.name: open_source("cifar", path) for path in found}
    names = (CIFAR_ARCHIVE, "cifar-10-python.tar.gz")
    archive = _find(folder, names, CIFAR_URL, CIFAR_MD5, "cifar")
    members = {name.rpartition("/")[2]: tensor for name, tensor in tar_extract(archive, LIMIT_BYTES).items()}
    return {
        name: open_source("cifar", tensor)
        for name, tensor in members.items()
        if name.startswith(("data_batch_", "test_batch"))
    }


def _cifar_batch(source: Source) -> tuple[Any, Any]:
    """Images (n, 3, 32, 32) and labels of one file: records of a label and 3,072 bytes, or a pickle."""
    import numpy as np  # lazy: `import whit` must not load it

    if source.read_up_to(0, 1) == b"\x80":  # no label is that large
        return _cifar_pickle(source)
    if source.size % 3073:
        raise source.error("no batch of CIFAR-10", f"{source.size} bytes are no whole number of records", CUT_OFF)
    records = np.frombuffer(source.read(0, source.size), np.uint8).reshape(-1, 3073)
    if source.size and records[:, 0].max() > 9:
        raise source.error("a label is not 0 to 9", f"{records[:, 0].max()}", CUT_OFF)
    return records[:, 1:].reshape(-1, 3, 32, 32), records[:, 0]


class _Array(Stateful):
    """An array of bytes, as NumPy pickles it: built empty, then told (version, shape, dtype, order, bytes)."""

    shape: Any = ()
    data: Any = b""

    def set_state(self, state: Any) -> None:
        """Takes shape and bytes."""
        _, shape, _, is_transposed, data = state
        if is_transposed or not isinstance(data, bytes | str):
            raise TypeError("not the plain bytes of an array")
        self.shape, self.data = shape, data


class _DType(Stateful):
    def set_state(self, state: Any) -> None:
        """Bytes have no order."""


def _bytes_dtype(name: Any = "", *_: Any) -> _DType:
    if name not in ("u1", b"u1"):
        raise TypeError(f"an array of {name!r:.20}, and bytes were expected")
    return _DType()


def _cifar_pickle(source: Source) -> tuple[Any, Any]:
    import numpy as np  # lazy: `import whit` must not load it

    names = {"numpy.dtype": _bytes_dtype, "_codecs.encode": lambda text, _="latin1": text.encode("latin-1")}
    for module in ("numpy.core.multiarray", "numpy._core.multiarray"):
        names[f"{module}._reconstruct"] = lambda *_: _Array()
    table = {name: Global(name, build=build) for name, build in names.items()}
    table["numpy.ndarray"] = Global("numpy.ndarray", None)
    batch = Unpickler(Reader(source), table).load()
    pairs = batch.items() if isinstance(batch, dict) else ()
    plain = {key.decode("latin-1") if isinstance(key, bytes) else key: value for key, value in pairs}
    images, labels = plain.get("data"), plain.get("labels")
    if (
        not isinstance(images, _Array)
        or not isinstance(labels, list)
        or images.shape != (len(labels), 3072)
        or len(images.data) != len(labels) * 3072
    ):
        raise source.error("no batch of CIFAR-10", "it has no data of 3,072 bytes for each of its labels", CUT_OFF)
    if not all(type(label) is int and 0 <= label <= 9 for label in labels):
        raise source.error("a label is not 0 to 9", "", CUT_OFF)
    raw = images.data if isinstance(images.data, bytes) else images.data.encode("latin-1")
    return np.frombuffer(raw, np.uint8).reshape(-1, 3, 32, 32), np.array(labels, np.uint8)
