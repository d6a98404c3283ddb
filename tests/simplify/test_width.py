"""Which integers index arithmetic is done in: the ends of int32 and int64, and what fits neither."""

from __future__ import annotations

import pytest

from whit.dtype import DType, dtypes
from whit.errors import NotSupportedError
from whit.ir.uop import UOp, const
from whit.simplify import index_dtype


def spread(low: int, high: int) -> UOp:
    return UOp.variable("v", low, high)


@pytest.mark.parametrize(
    "low, high, expected",
    [
        (0, 2**31 - 1, dtypes.int32),
        (0, 2**31, dtypes.int64),
        (-(2**31), 0, dtypes.int32),
        (-(2**31) - 1, 0, dtypes.int64),
        (-(2**31), 2**31 - 1, dtypes.int32),
        (-5, -1, dtypes.int32),
        (0, 2**63 - 1, dtypes.int64),
        (-(2**63), 2**63 - 1, dtypes.int64),
    ],
)
def test_the_ends_of_the_dtypes(low: int, high: int, expected: DType) -> None:
    assert index_dtype(spread(low, high)) is expected


@pytest.mark.parametrize("low, high", [(0, 2**63), (-(2**63) - 1, 0), (-(2**64), 2**64)])
def test_what_fits_neither_is_an_error(low: int, high: int) -> None:
    with pytest.raises(NotSupportedError):
        index_dtype(spread(low, high))


def test_intermediate_values_count() -> None:
    x = spread(0, 2**20)
    assert index_dtype(x * 4096) is dtypes.int64
    assert index_dtype((x * 4096) // 8192) is dtypes.int64
    assert index_dtype(x * 1024) is dtypes.int32


def test_constants_count() -> None:
    assert index_dtype(spread(0, 9) % (2**31)) is dtypes.int64
    assert index_dtype(const(dtypes.weakint, 2**31 - 1)) is dtypes.int32
    with pytest.raises(NotSupportedError):
        index_dtype(spread(0, 9) % (2**63))


def test_values_that_are_no_indices_do_not_count() -> None:
    loaded = UOp.param(0, dtypes.int64, (4,)).index(spread(0, 3))
    assert index_dtype(loaded + 2**40) is dtypes.int32


def test_a_constant_beyond_int64_says_what_and_what_to_do() -> None:
    with pytest.raises(NotSupportedError) as caught:
        index_dtype(spread(-3, 9) * 2**63)
    what, details, fix = str(caught.value).split("\n")
    assert what.startswith("index: ")
    assert "int32 or int64" in details
    assert fix.strip()
    assert str(2**63) in str(caught.value)


def test_an_index_without_bounds_says_so() -> None:
    with pytest.raises(NotSupportedError, match="anything"):
        index_dtype(UOp.param(0, dtypes.weakint) + 1)
