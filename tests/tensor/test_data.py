"""What tensors are built from, and what comes out: every kind of data, and a clear error for everything else."""

from __future__ import annotations

import ctypes
import decimal
import fractions
import gzip
import hashlib
import math
import pathlib
import re
from typing import Any

import ml_dtypes
import numpy as np
import pytest

from whit import Context, Tensor, UOp, Variable, dtypes, fetch
from whit.dtype import DType
from whit.engine.memory.storage import storage
from whit.errors import ArgumentError, BackendError, DTypeError, FileMissingError, ShapeError
from whit.ir.interpret import numpy_dtype

# ---- Python objects


@pytest.mark.parametrize(
    ("data", "dtype", "shape"),
    [
        (3, "int32", ()),
        (True, "bool", ()),
        (2.5, "float32", ()),
        ([], "float32", (0,)),
        ([[], []], "float32", (2, 0)),
        ([[[]]], "float32", (1, 1, 0)),
        ((), "float32", (0,)),
        ([True, False], "bool", (2,)),
        ([True, 2], "int32", (2,)),
        ([1, 2.5], "float32", (2,)),
        ([[1, 2], (3, 4)], "int32", (2, 2)),
        (([1.0], [2.0]), "float32", (2, 1)),
        ([math.inf, math.nan], "float32", (2,)),
        ([np.float32(1), np.int64(2), np.bool_(True)], "float32", (3,)),
        ([np.float64(1.5), 2], "float32", (2,)),
        ([np.array([1, 2]), np.array([3, 4])], "int32", (2, 2)),
        ([np.array(1.0), 2.0], "float32", (2,)),
        ([[np.arange(3)], [[4, 5, 6]]], "int32", (2, 1, 3)),
        (None, "float32", (0,)),
        (b"", "uint8", (0,)),
        (b"ab", "uint8", (2,)),
        (range(3), "int32", (3,)),
    ],
    ids=repr,
)
def test_python_data(data: Any, dtype: str, shape: tuple[int, ...]) -> None:
    x = Tensor(data)
    assert (x.dtype.name, x.shape) == (dtype, shape)
    if data is not None:
        expected = np.array(list(data) if isinstance(data, bytes) else data).astype(numpy_dtype(x.dtype)).reshape(shape)
        np.testing.assert_array_equal(x.numpy(), expected)


def test_tensors_in_lists() -> None:
    a, b = Tensor([1.0, 2.0]), Tensor([3.0, 4.0]) + 1
    assert Tensor([a, b]).tolist() == [[1, 2], [4, 5]]
    assert Tensor([Tensor(1), 2, Tensor([3]).sum()]).tolist() == [1, 2, 3]
    assert Tensor([[a], [[7, 8]]]).shape == (2, 1, 2)


def test_tensors_and_nodes_are_data() -> None:
    x = Tensor([1, 2])
    assert Tensor(x).uop is x.uop
    assert Tensor(x, dtype=dtypes.float32).tolist() == [1, 2]
    assert Tensor(x, device="PYTHON").device == "PYTHON" and Tensor(x, device="PYTHON").tolist() == [1, 2]
    assert Tensor(Tensor.ones(2, device="PYTHON")).device == "PYTHON"
    assert Tensor(x.uop + 1).tolist() == [2, 3]
    assert Tensor(UOp.const(dtypes.float32, 2)).item() == 2
    assert Tensor(Variable("n", 1, 10).bind(3)).dtype is dtypes.int32
    assert (Tensor(Variable("n", 1, 10).bind(3)) + 1).item() == 4


@pytest.mark.parametrize("dtype", dtypes.all, ids=lambda dtype: dtype.name)
def test_lists_of_every_dtype_and_back(dtype: DType) -> None:
    data = [[True, False], [False, True]] if dtype.is_bool else [[0, 1], [2, 3]]
    x = Tensor(data, dtype=dtype)
    assert x.dtype is dtype and x.tolist() == data
    assert Tensor(data, dtype=dtype.name).numpy().tobytes() == np.array(data).astype(numpy_dtype(dtype)).tobytes()
    element = Tensor(data[1][1], dtype=dtype).item()
    assert element == data[1][1]
    assert type(element) is {"bool": bool, "int": int, "uint": int, "float": float, "complex": complex}[dtype.kind]
    assert bytes(x.data()) == x.numpy().tobytes()
    assert Tensor([], dtype=dtype).tolist() == [] and len(bytes(Tensor([], dtype=dtype).data())) == 0


def test_huge_numbers() -> None:
    assert Tensor([2**63, 2**64 - 1], dtype=dtypes.uint64).tolist() == [2**63, 2**64 - 1]
    assert Tensor(-(2**63), dtype=dtypes.int64).item() == -(2**63)
    assert Tensor([10**30], dtype=dtypes.float32).tolist() == [float(np.float32(1e30))]
    assert Tensor([10**400], dtype=dtypes.float64).tolist() == [math.inf]
    assert Tensor([1e300]).tolist() == [math.inf]
    for data in (2**31, [1, 2**40], [[-(2**31) - 1]]):
        with pytest.raises(
            DTypeError, match=r"is outside int32\n  int32 holds -2147483648 to 2147483647\n.*\n  Use a wider"
        ):
            Tensor(data)
    with pytest.raises(DTypeError, match="-1 is outside uint8"):
        Tensor([-1], dtype=dtypes.uint8)


def _generator() -> Any:
    yield 1


@pytest.mark.parametrize(
    ("data", "error", "words"),
    [
        ([[1, 2], [3]], ShapeError, "not of one length: 2 in one place, 1 in another"),
        ([[1], 2], ShapeError, "1 in one place, a number in another"),
        ([1, [2]], ShapeError, "a list stands where a number was expected"),
        ([[], [1]], ShapeError, "0 in one place, 1 in another"),
        ([np.zeros(2), np.zeros(3)], ShapeError, "2 in one place, 3 in another"),
        (_generator(), ArgumentError, "Make a list of it: list(...)"),
        (map(abs, [1]), ArgumentError, "a map\n  Make a list of it"),
        ({1, 2}, ArgumentError, "a set\n  Make a list of it"),
        ({"a": 1}, ArgumentError, "a dict\n  Make a tensor of each value"),
        ("text", ArgumentError, "For a file give a pathlib.Path"),
        (["text"], ArgumentError, "cannot build a tensor of 'text', a str"),
        ([None], ArgumentError, "cannot build a tensor of None, a NoneType"),
        (object, ArgumentError, "cannot build a tensor of <class 'object'>"),
        (decimal.Decimal("1.5"), ArgumentError, "a Decimal"),
        ([fractions.Fraction(1, 2)], ArgumentError, "a Fraction"),
        (b"abc", ShapeError, "3 bytes are no whole number of int16"),
        (np.array(["a"]), DTypeError, "an array of <U1\n  shape (1,)\n  Convert the text to numbers"),
        (np.array([b"a"]), DTypeError, "Convert the text to numbers"),
        (np.array([1, "a"], object), DTypeError, "Its elements are Python objects"),
        (np.zeros(2, [("x", "f4"), ("y", "i4")]), DTypeError, "Make a tensor of each field: array['x']"),
        (np.array(["2020-01-01"], "M8[D]"), DTypeError, ".astype(np.int64)"),
        (np.ma.masked_array([1, 2], [True, False]), DTypeError, "Its mask would be lost. Use .filled(value)."),
        (np.zeros(2, np.longdouble), DTypeError, "there is no dtype for arrays of "),
        (np.zeros(2, ml_dtypes.int4), DTypeError, "there is no dtype for arrays of int4"),
        (memoryview(bytes(8)).cast("P"), (TypeError, ValueError), ""),
    ],
    ids=lambda value: repr(value)[:40].split(" at ")[0] if not isinstance(value, type) else value.__name__,
)
def test_what_is_no_tensor(data: Any, error: type[Exception], words: str) -> None:
    with pytest.raises(error) as caught:
        Tensor(data, dtype=dtypes.int16 if data == b"abc" else None) if isinstance(data, bytes) else Tensor(data)
    message = re.sub(r"\n  called at .*", "", str(caught.value))
    assert words in message


# ---- NumPy


@pytest.mark.parametrize("dtype", dtypes.all, ids=lambda dtype: dtype.name)
def test_arrays_of_any_order_and_layout(dtype: DType) -> None:
    array = np.arange(24).reshape(2, 3, 4).astype(numpy_dtype(dtype))
    frozen = array.copy()
    frozen.flags.writeable = False
    for view in (array[:, ::2], array.T, array[::-1], array[..., 1], np.asfortranarray(array), frozen, array[:0]):
        x = Tensor(view)
        assert x.shape == view.shape and x.dtype is dtype
        assert x.numpy().tobytes() == view.tobytes()
    scalar = Tensor(array[1, 2, 3])
    # np.float64 is a Python float, and is taken as one; so is np.complex128
    taken = {dtypes.float64: dtypes.float32, dtypes.complex128: dtypes.complex64}
    assert scalar.shape == () and scalar.dtype is taken.get(dtype, dtype)
    assert Tensor(np.array(array[1, 2, 3])).item() == array[1, 2, 3]
    if dtype.fmt is not None:
        swapped = array.astype(array.dtype.newbyteorder(">"))
        assert Tensor(swapped).numpy().tobytes() == array.tobytes() and Tensor(swapped).dtype is dtype
    odd = np.frombuffer(b"x" + array.tobytes(), np.uint8)[1:].view(array.dtype)
    assert Tensor(odd).numpy().tobytes() == array.tobytes()


def test_big_endian_memory_without_numpy_arrays() -> None:
    swapped = memoryview(np.array([1, 2, 3], ">i4"))  # type: ignore[arg-type]
    assert swapped.format == ">i"
    assert Tensor(swapped).tolist() == [1, 2, 3]


def test_objects_that_numpy_can_convert() -> None:
    class Arrays:
        def __array__(self, dtype: Any = None, copy: Any = None) -> Any:
            return np.array([1.0, 2.0], np.float64)

    assert Tensor(Arrays()).dtype is dtypes.float64 and Tensor(Arrays()).tolist() == [1, 2]


# ---- addresses and addresses of the network


@pytest.mark.cpu
def test_memory_at_an_address() -> None:
    array = np.arange(6, dtype=np.float32)
    x = Tensor.from_blob(array.ctypes.data, (2, 3))
    assert x.tolist() == [[0, 1, 2], [3, 4, 5]] and storage(x.uop).address == array.ctypes.data
    array[0] = 9
    assert (x + 0).tolist()[0][0] == 9
    assert (
        Tensor.from_blob(array.ctypes.data, [6], dtype="int32", device="PYTHON").tolist() == array.view("i4").tolist()
    )
    assert Tensor.from_blob(0, (0, 3)).shape == (0, 3)
    room = ctypes.create_string_buffer(16)
    with pytest.raises(ArgumentError, match="is not aligned for float64"):
        Tensor.from_blob(ctypes.addressof(room) + 1, (1,), dtype=dtypes.float64)
    with pytest.raises(ArgumentError, match="0 is no address"):
        Tensor.from_blob(0, (1,))
    with pytest.raises(ArgumentError, match="'x' is no address"):
        Tensor.from_blob("x", (1,))  # type: ignore[arg-type]
    with pytest.raises(ShapeError, match="is no shape"):
        Tensor.from_blob(64, (-1,))


def test_urls(tmp_path: pathlib.Path) -> None:
    path, packed = tmp_path / "a file.bin", tmp_path / "x.gz"
    path.write_bytes(b"hello")
    packed.write_bytes(gzip.compress(b"hello" * 1000))
    with Context(CACHE_DIR=str(tmp_path / "cache")):
        x = Tensor.from_url(path.as_uri())
        assert x.device == f"DISK:{path}" and bytes(x.data()) == b"hello"
        assert Tensor.from_url(str(path), device="CPU").device == "CPU"
        y = Tensor.from_url(packed.as_uri(), gunzip=True)
        assert bytes(y.data()) == b"hello" * 1000
        assert y.device.startswith(f"DISK:{tmp_path}/cache/downloads/")
        assert fetch(packed, gunzip=True) == fetch(packed.as_uri(), gunzip=True)
        packed.write_bytes(gzip.compress(b"other"))
        assert fetch(packed, gunzip=True).read_bytes() == b"other"  # the file has changed
        digest = hashlib.sha256(b"hello").hexdigest()
        assert fetch(path, sha256=digest.upper()) == path
        with pytest.raises(BackendError, match=r"is not the file that was expected\n  sha256 is 2cf24d.*, expected 00"):
            fetch(path, sha256="00")
        with pytest.raises(BackendError, match=r"cannot be unpacked\n  Not a gzipped file"):
            fetch(path, gunzip=True)
        with pytest.raises(FileMissingError, match=r'there is no file .*/x.zg. Did you mean "x.gz"\?'):
            Tensor.from_url((tmp_path / "x.zg").as_uri())
        with pytest.raises(BackendError, match="fetch: nonsense://x cannot be downloaded"):
            fetch("nonsense://x")
    left = [path.name for path in (tmp_path / "cache" / "downloads").iterdir()]
    assert len(left) == 2 and all(name.endswith(".gunzip") for name in left)


# ---- one number


def test_one_number_takes_a_format() -> None:
    assert f"{Tensor([1.0, 2.0]).mean():.2f}" == "1.50"
    assert f"{Tensor([[255]]):#x} {Tensor(7):>3} {Tensor(0.25):.0%} {Tensor(True):d}" == "0xff   7 25% 1"


def test_several_numbers_take_no_format() -> None:
    with pytest.raises(TypeError, match=r"format: a tensor of shape \(2,\) is not one number for '.2f'(.|\n)*tolist"):
        f"{Tensor([1.0, 2.0]):.2f}"
