"""A number that changes from one step to the next is passed to the same kernels, also where it is only stored."""

import math
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

from whit import Tensor, clear_caches, dtypes
from whit.dtype import DType, convert, decode, encode
from whit.engine.compile import compile as compile_module
from whit.errors import DTypeError
from whit.ir.uop import UOp

MANY = [1.5, -3.25, 7.0, 1e10, 1e-30, 42.0, 0.1]
COMMON = [0.0, -0.0, 1.0, -1.0, 2.0, 0.5, math.inf, -math.inf, math.nan]
INTEGERS = [3, 4, 5, 100, 7]
COMMON_INTEGERS = [0, 1, 2]
MASK = [True, False, True, True] * 4

Step = Callable[[Tensor, Any], Any]


@pytest.fixture
def kernels(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[UOp]]:
    """Every kernel that is compiled, or found on disk: what is not known yet in this process."""
    found: list[UOp] = []
    for name in ("_find_or_compile", "_compile_together"):
        original = getattr(compile_module, name)

        def noting(functions: Any, *rest: Any, original: Any = original) -> Any:
            found.extend([functions] if isinstance(functions, UOp) else [function for function, _ in functions])
            return original(functions, *rest)

        monkeypatch.setattr(compile_module, name, noting)
    clear_caches()
    yield found
    clear_caches()


def memory(dtype: str) -> Tensor:
    return Tensor(np.arange(16).astype(dtype)).clone().realize()


def set_at(index: Any) -> Step:
    def step(x: Tensor, number: Any) -> None:
        x[index] = number
        x.realize()

    return step


def add_in_place(x: Tensor, number: Any) -> None:
    x += number
    x.realize()


def two_writes(x: Tensor, number: Any) -> None:
    x[1] = number
    x[4:9] = 77
    x.realize()


WRITES: dict[str, Step] = {
    "an element": set_at(3),
    "the last element": set_at(-1),
    "a slice": set_at(slice(2, 5)),
    "every second": set_at(slice(None, None, 2)),
    "positions": set_at([1, 5, 6]),
    "a tensor of positions": lambda x, n: set_at(Tensor([1, 5, 6]))(x, n),
    "two parts": two_writes,
    "assign": lambda x, n: x.assign(Tensor.full(x.shape, n, dtype=x.dtype)).realize(),
}
FOLDED: dict[str, Step] = {  # 0, 1 and their like are folded here: the kernel is another one
    "in place": add_in_place,
    "part in place": lambda x, n: (x[2:5].assign(x[2:5] + n), x.realize()),
    "a mask": lambda x, n: set_at(Tensor(MASK))(x, n),
    "masked_fill": lambda x, n: x.masked_fill(Tensor(MASK), n).realize(),
    "where": lambda x, n: Tensor(MASK).where(n, x).realize(),
    "a tensor of one number": lambda x, n: (x * Tensor(n, dtype=x.dtype)).realize(),
    "pad": lambda x, n: x.pad((1, 2), value=n).realize(),
    "stack": lambda x, n: (Tensor.stack(Tensor(n, dtype=x.dtype), Tensor(n, dtype=x.dtype)) * x[:2]).realize(),
}


def count(kernels: list[UOp], step: Step, dtype: str, numbers: list[Any]) -> int:
    """How many kernels all but the first number need."""
    start = [memory(dtype) for _ in numbers]
    for x, number in zip(start, numbers, strict=True):
        step(x, number)
        if number is numbers[0]:
            kernels.clear()
    return len(kernels)


@pytest.mark.parametrize("dtype", ["float32", "float64", "float16"])
@pytest.mark.parametrize("name", WRITES)
def test_another_number_in_a_write_is_the_same_kernel(name: str, dtype: str, kernels: list[UOp]) -> None:
    assert count(kernels, WRITES[name], dtype, MANY + COMMON) == 0


@pytest.mark.parametrize("dtype", ["int32", "uint8", "int64"])
@pytest.mark.parametrize("name", WRITES)
def test_another_integer_in_a_write_is_the_same_kernel(name: str, dtype: str, kernels: list[UOp]) -> None:
    assert count(kernels, WRITES[name], dtype, INTEGERS + COMMON_INTEGERS) == 0


@pytest.mark.parametrize("name", FOLDED)
@pytest.mark.parametrize(("dtype", "numbers"), [("float32", MANY), ("int32", INTEGERS)])
def test_another_number_beside_data_is_the_same_kernel(
    name: str, dtype: str, numbers: list[Any], kernels: list[UOp]
) -> None:
    if name == "stack" and dtype == "int32":
        pytest.skip("integers without data are part of index arithmetic")
    assert count(kernels, FOLDED[name], dtype, numbers) == 0


def test_large_fills_are_one_kernel(kernels: list[UOp]) -> None:
    def fill(x: Tensor, number: Any) -> None:
        Tensor.full((100_000,), number, dtype=x.dtype).contiguous().realize()

    assert count(kernels, fill, "float32", MANY + COMMON) == 0
    assert count(kernels, fill, "int32", INTEGERS + COMMON_INTEGERS) == 0
    assert count(kernels, fill, "bool", [True, False]) == 0


def test_booleans_and_moving_positions_are_one_kernel(kernels: list[UOp]) -> None:
    assert count(kernels, WRITES["an element"], "bool", [True, False]) == 0
    assert count(kernels, lambda x, n: set_at(n)(x, n * 1.5), "float32", list(range(16))) == 0


def test_what_floats_are_compared_to_may_change(kernels: list[UOp]) -> None:
    assert count(kernels, lambda x, n: (x < n).realize(), "float32", MANY) == 0
    assert count(kernels, lambda x, n: (x < n).where(x, n).sum().realize(), "float32", MANY) == 0


# ---- the values


def bits_of(x: Tensor) -> list[int]:
    raw = bytes(x.bitcast(f"uint{8 * x.dtype.itemsize}").numpy().tobytes())
    width = x.dtype.itemsize
    return [int.from_bytes(raw[at : at + width], "little") for at in range(0, len(raw), width)]


FLOATS = (dtypes.float64, dtypes.float32, dtypes.float16, dtypes.bfloat16, *dtypes.fp8s)


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
@pytest.mark.parametrize("number", [*MANY, *COMMON, 1e-45, 65504.0, 448.0, 1e39, -1e300])
def test_stored_floats_are_those_of_the_dtype(dtype: DType, number: float) -> None:
    expected = int(encode(dtype, convert(dtype, number)))  # what a cast gives, in docs/semantics.md
    for index in (3, slice(3, 4), [3]):
        x = Tensor.zeros(6, dtype=dtype).contiguous().realize()
        x[index] = number
        assert bits_of(x) == [0, 0, 0, expected, 0, 0]


@pytest.mark.parametrize("payload", [0x7FC00000, 0x7FC12345, 0xFFC00001])
def test_nans_keep_their_payload(payload: int) -> None:
    nan = Tensor(UOp.const(dtypes.float32, decode(dtypes.float32, payload)))
    x = Tensor.zeros(4).contiguous().realize()
    x[2] = nan
    assert bits_of(x) == [0, 0, payload, 0]
    large = Tensor.zeros(5000).contiguous().realize()
    large.assign(nan.expand(5000))
    assert set(bits_of(large)) == {payload}


INTEGER_DTYPES = [dtypes.int8, dtypes.uint8, dtypes.int16, dtypes.uint16, dtypes.int32, dtypes.uint32, dtypes.int64]


@pytest.mark.parametrize("dtype", [*INTEGER_DTYPES, dtypes.uint64], ids=str)
@pytest.mark.parametrize("number", [0, -1, 5, 127, 128, 300, -129, 2**31, -(2**31) - 1, 2**63 - 1, 2**40 + 3])
def test_stored_integers_are_those_of_the_dtype(dtype: DType, number: int) -> None:
    for index in (1, slice(1, 2), [1]):
        x = Tensor.zeros(3, dtype=dtype).contiguous().realize()
        if not dtype.min <= number <= dtype.max:
            with pytest.raises(DTypeError, match="is outside"):
                x[index] = number
            continue
        x[index] = number
        assert bits_of(x) == [0, number % 2**dtype.bitsize, 0]


@pytest.mark.parametrize("number", [True, False, 0, 1, 2, 0.0, 0.25, math.nan])
def test_stored_booleans_are_whether_it_is_not_zero(number: Any) -> None:
    x = Tensor([False, True, False]).contiguous().realize()
    x[1] = number
    assert x.tolist() == [False, bool(number), False]


def test_a_float_written_to_integers_is_cut() -> None:
    x = Tensor([1, 2, 3]).contiguous().realize()
    x[1] = 2.75
    assert x.tolist() == [1, 2, 3]
