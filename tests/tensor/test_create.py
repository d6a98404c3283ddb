"""Building tensors: from data of every kind, from nothing, and what they say about themselves."""

import math
import pathlib
from typing import Any

import numpy as np
import pytest

from tensor.check import FLOATS, INTS, same, some, value
from whit import Context, Device, Tensor, UOp
from whit.dtype import DType, dtypes
from whit.errors import ArgumentError, DeviceError, DTypeError, ShapeError
from whit.ir import ops
from whit.ir.interpret import numpy_dtype


@pytest.mark.parametrize(
    "data, dtype, expected",
    [
        (True, dtypes.bool, True),
        (3, dtypes.int32, 3),
        (2.5, dtypes.float32, 2.5),
        ([1, 2, 3], dtypes.int32, [1, 2, 3]),
        ([1, 2.5], dtypes.float32, [1, 2.5]),
        ([True, False], dtypes.bool, [True, False]),
        ([True, 2], dtypes.int32, [1, 2]),
        ([[1, 2], [3, 4]], dtypes.int32, [[1, 2], [3, 4]]),
        (((1.0,), (2.0,)), dtypes.float32, [[1], [2]]),
        ([], dtypes.float32, []),
        ([[], []], dtypes.float32, np.zeros((2, 0))),
        (b"\x01\x02", dtypes.uint8, [1, 2]),
        (bytearray(b"\x05"), dtypes.uint8, [5]),
        (np.float64(1.5), dtypes.float32, 1.5),
        (np.int16(4), dtypes.int16, 4),
        (memoryview(b"ab"), dtypes.uint8, [97, 98]),
        ([np.float32(1), 2], dtypes.float32, [1, 2]),
        ([np.array([1, 2]), np.array([3, 4])], dtypes.int32, [[1, 2], [3, 4]]),
    ],
    ids=lambda v: type(v).__name__ if isinstance(v, memoryview) else repr(v)[:30],
)
def test_data_of_many_kinds(data: Any, dtype: DType, expected: Any) -> None:
    same(Tensor(data), np.asarray(expected, numpy_dtype(dtype)), dtype)


@pytest.mark.parametrize("dtype", (*FLOATS, *INTS, dtypes.bool), ids=lambda d: d.name)
def test_arrays_keep_their_dtype(dtype: DType) -> None:
    for array in (some(dtype, (3, 4)), some(dtype, ()), some(dtype, (0, 2)), some(dtype, (4, 6))[::2, ::-3]):
        same(Tensor(array), array, dtype)


@pytest.mark.cpu
def test_an_array_is_copied_unless_sharing_is_asked_for() -> None:
    array = np.array([1.0, 2.0], np.float32)
    own, shared = Tensor(array), Tensor(array, copy=False)
    array[0] = 5
    assert own.tolist() == [1, 2] and shared.tolist() == [5, 2]


def test_a_dtype_can_be_asked_for() -> None:
    same(Tensor([1, 2], dtype=dtypes.half), [1, 2], dtypes.half)
    same(Tensor(np.array([1.7, 300.0]), dtype="uint8"), np.array([1, 255], np.uint8), dtypes.uint8)
    same(Tensor(3, dtype="bfloat16"), 3.0, dtypes.bfloat16)
    same(Tensor([2**24 + 1], dtype=dtypes.float32), [2.0**24], dtypes.float32)
    same(Tensor([2**60 + 2**36 + 1], dtype=dtypes.float32), [2.0**60 + 2.0**37], dtypes.float32)
    same(Tensor(b"\x00\x00\x80\x3f", dtype=dtypes.float32), [1.0])
    same(Tensor([448.0, 1e9, math.nan], dtype=dtypes.fp8e4m3), [448, 448, math.nan], dtypes.fp8e4m3)
    same(Tensor([2**63], dtype=dtypes.uint64), np.array([2**63], np.uint64))
    with dtypes.defaults(float=dtypes.float64, int=dtypes.int64):
        assert Tensor([1.0]).dtype is dtypes.float64
        assert Tensor([1]).dtype is dtypes.int64
        assert Tensor.zeros(2).dtype is dtypes.float64


def test_tensors_of_tensors_and_nodes() -> None:
    x = Tensor([1.0, 2.0])
    assert Tensor(x).uop is x.uop
    assert Tensor(x, dtype=dtypes.half).dtype is dtypes.half
    assert Tensor(UOp.arange(3, dtypes.int32)).tolist() == [0, 1, 2]
    assert Tensor(None).shape == (0,)
    assert Tensor([1.0], requires_grad=True).requires_grad is True
    assert Tensor([1.0]).grad is None


@pytest.mark.parametrize(
    "wrong, error, words",
    [
        (lambda: Tensor([[1], [2, 3]]), ShapeError, "the lists are not of one length: 1 in one place, 2 in another"),
        (lambda: Tensor([[1], 2]), ShapeError, "1 in one place, a number in another"),
        (lambda: Tensor([1, [2]]), ShapeError, "a list stands where a number was expected"),
        (lambda: Tensor([300], dtype=dtypes.uint8), DTypeError, "Tensor: 300 is outside uint8"),
        (lambda: Tensor([2**31]), DTypeError, "2147483648 is outside int32"),
        (lambda: Tensor("abc"), ArgumentError, "cannot build a tensor of 'abc', a str"),
        (lambda: Tensor(["a"]), ArgumentError, "cannot build a tensor of 'a', a str"),
        (lambda: Tensor(object()), ArgumentError, "cannot build a tensor of"),
        (lambda: Tensor([1 + 2j], dtype="float32"), DTypeError, "(1+2j) is complex, and float32 is not"),
        (lambda: Tensor(b"abc", dtype=dtypes.int16), ShapeError, "3 bytes are no whole number of int16"),
        (lambda: Tensor(pathlib.Path("/no/x")), FileNotFoundError, "file: /no/x cannot be opened"),
        (lambda: Tensor([1], dtype="flaot32"), DTypeError, "no dtype named 'flaot32'"),
        (lambda: Tensor([1], dtype=dtypes.weakint), DTypeError, "a tensor cannot be weakint"),
        (lambda: Tensor([1], device="GPUU"), DeviceError, 'no device "GPUU"'),
        (lambda: Tensor.zeros(2, -1), ShapeError, "-1 is no size"),
        (lambda: Tensor.full((2,), Tensor([1, 2])), ShapeError, "the value is not one number"),
        (lambda: Tensor.arange(0, 5, 0), ArgumentError, "the step is 0"),
        (lambda: Tensor.arange(300, dtype=dtypes.uint8), DTypeError, "299 is outside uint8"),
        (lambda: Tensor.linspace(0, 1, -1), ArgumentError, "-1 steps"),
    ],
)
def test_data_that_is_no_tensor(wrong: Any, error: type[Exception], words: str) -> None:
    with pytest.raises(error) as caught:
        wrong()
    assert words in str(caught.value)


@pytest.mark.parametrize("dtype", (*FLOATS, *INTS, dtypes.bool), ids=lambda d: d.name)
def test_constants(dtype: DType) -> None:
    same(Tensor.zeros(2, 3, dtype=dtype), np.zeros((2, 3)), dtype)
    same(Tensor.ones((2, 3), dtype=dtype), np.ones((2, 3)), dtype)
    same(Tensor.full((3,), 1, dtype=dtype), np.ones(3), dtype)
    same(Tensor.eye(3, dtype=dtype), np.eye(3), dtype)
    x = Tensor.zeros(2, dtype=dtype)
    assert x.ones_like().dtype is x.zeros_like().dtype is x.full_like(1).dtype is x.empty_like().dtype is dtype
    assert x.ones_like(dtype=dtypes.half).dtype is dtypes.half


def test_constants_are_a_number_expanded() -> None:
    assert [n.op for n in Tensor.zeros(2, 3).uop.topological()] == [ops.CONST, ops.RESHAPE, ops.EXPAND, ops.LEAF]
    assert Tensor.full((), 3).uop.op is ops.CONST
    assert Tensor.ones(2).uop.src[0] is Tensor.ones(2).uop.src[0]
    assert Tensor.full((2,), 3).dtype is dtypes.int32
    assert Tensor.full((2,), 0.5).dtype is dtypes.float32
    assert Tensor.full(2, True).dtype is dtypes.bool
    same(Tensor.full((2,), Tensor(4.0)), [4, 4])
    assert Tensor.empty(2, 0, dtype="int8").shape == (2, 0)


COUNTS = [
    (5,),
    (0,),
    (-3,),
    (2, 7),
    (7, 2),
    (0, 10, 3),
    (10, 0, -3),
    (-5, 5, 2),
    (5.0,),
    (0, 1, 0.25),
    (0.5, 3),
    (1, 0, -0.3),
]


@pytest.mark.parametrize("arguments", COUNTS, ids=str)
def test_arange(arguments: Any) -> None:
    expected = np.arange(*arguments)
    dtype = dtypes.int32 if expected.dtype.kind == "i" else dtypes.float32
    same(Tensor.arange(*arguments), expected, dtype, ulps=4, scale=1)
    if expected.size and expected.min() >= 0:
        for other in (dtypes.uint8, dtypes.half, dtypes.int64, dtypes.float64):
            same(Tensor.arange(*arguments, dtype=other), expected.astype(numpy_dtype(other)), other, ulps=2, scale=1)  # type: ignore[misc]


def test_small_integers_count_through_their_whole_range() -> None:
    same(Tensor.arange(-128, 128, dtype=dtypes.int8), np.arange(-128, 128).astype(np.int8), dtypes.int8)


def test_an_arange_of_its_own_dtype_is_one_node() -> None:
    assert Tensor.arange(5).uop is UOp.arange(5, dtypes.int32)


@pytest.mark.parametrize("steps", (0, 1, 2, 5, 100))
def test_linspace_includes_both_ends(steps: int) -> None:
    found = Tensor.linspace(-1, 2.5, steps)
    same(found, np.linspace(-1, 2.5, steps), dtypes.float32, ulps=2, scale=1)
    if steps > 1:
        assert value(found)[[0, -1]].tolist() == [-1, 2.5]
    same(Tensor.linspace(0, 10, 5, dtype="int32"), [0, 2, 5, 7, 10], dtypes.int32)


def test_eye_of_any_shape() -> None:
    for n, m in ((3, 3), (2, 4), (4, 2), (0, 3), (1, 1)):
        same(Tensor.eye(n, m), np.eye(n, m))


@pytest.mark.slow
def test_long_chains_are_built_and_shown() -> None:
    x = Tensor([1.0])
    for _ in range(20_000):
        x = x + 1
    assert repr(x) == f"<Tensor (1,) float32 on {Device.DEFAULT}, lazy: add>"


def test_questions() -> None:
    x = Tensor.zeros(2, 3, dtype=dtypes.half)
    assert (x.shape, x.ndim, x.dtype, x.numel(), x.nbytes(), x.element_size()) == ((2, 3), 2, dtypes.half, 6, 12, 2)
    assert x.size() == (2, 3)
    assert x.size(-1) == 3
    assert x.is_floating_point() and not Tensor([1]).is_floating_point()
    assert x.device == Device.DEFAULT
    with Context(DEV="PYTHON"):
        assert x.device == "PYTHON"
    assert Tensor.zeros(2, device="cpu:1").device == "CPU:1"
    assert {x: 1}[x] == 1
