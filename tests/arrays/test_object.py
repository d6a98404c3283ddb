"""Arrays themselves: operators on both sides and in place, indexing, writing, Python numbers, data in and out."""

from __future__ import annotations

import operator
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as nps

import whit.numpy as xp
from arrays.draws import array_of
from arrays.strict import ALL, COMPLEX, FLOATS, INTEGERS, NUMERIC, REAL, TRIED, assert_close, samples
from whit import Tensor

pytestmark = pytest.mark.slow

SOME = settings(max_examples=max(settings.default.max_examples // 4, 4))
OPERATORS = {
    **dict.fromkeys(("add", "sub", "mul", "pow"), NUMERIC),
    **dict.fromkeys(("floordiv", "mod"), REAL),
    **dict.fromkeys(("and_", "or_", "xor"), ("bool", *INTEGERS)),
    **dict.fromkeys(("lshift", "rshift"), INTEGERS),
    "truediv": FLOATS + COMPLEX,
}
CALLS = [(name, dtype) for name in OPERATORS for dtype in OPERATORS[name] if dtype in TRIED]
COMPARISONS = ("eq", "ne", "lt", "le", "gt", "ge")


def small(dtype: str, shape: tuple[int, ...] = (2, 3)) -> Any:
    """Numbers with which every operator means something."""
    count = int(np.prod(shape))
    if dtype == "bool":
        return (np.arange(count) % 2 == 0).reshape(shape)
    return (np.arange(count) % 3 + 1).astype(dtype).reshape(shape)


def same(mine: Any, other: Any) -> None:
    assert isinstance(mine, Tensor)
    assert mine.dtype.name == other.dtype.name
    assert mine.shape == other.shape
    assert_close(mine.numpy(), np.asarray(other), 4.0)


@pytest.mark.parametrize(("name", "dtype"), CALLS)
def test_operators(name: str, dtype: str) -> None:
    function = getattr(operator, name)
    left, right = small(dtype), small(dtype, (3,))[::-1].copy()
    same(function(Tensor(left), Tensor(right)), function(left, right))
    number = left.reshape(-1)[1].item()
    same(function(Tensor(left), number), function(left, number).astype(dtype))
    same(function(number, Tensor(left)), function(number, left).astype(dtype))
    in_place = getattr(operator, f"i{name.strip('_')}")
    mine, copied = Tensor(left), left.copy()
    view = mine[0]
    result, other = in_place(mine, Tensor(right)), in_place(copied, right)
    assert result is mine
    same(mine, other)
    same(view, other[0])


@pytest.mark.parametrize("dtype", TRIED)
def test_comparisons_and_signs(dtype: str) -> None:
    left, right = small(dtype), small(dtype)[::-1].copy()
    for name in COMPARISONS[: 2 if dtype in ("bool", *COMPLEX) else 6]:
        function = getattr(operator, name)
        same(function(Tensor(left), Tensor(right)), function(left, right))
        same(function(Tensor(left), left[0, 1].item()), function(left, left[0, 1].item()))
    if dtype != "bool":
        for name in ("neg", "pos", "abs"):
            same(getattr(operator, name)(Tensor(left)), getattr(operator, name)(left))
    if dtype in ("bool", *INTEGERS):
        same(~Tensor(left), ~left)


def test_matrix_products_by_operator() -> None:
    left, right = small("float32", (2, 2)), small("float32", (2, 2))
    same(Tensor(left) @ Tensor(right), left @ right)
    mine = Tensor(left)
    mine @= Tensor(right)
    same(mine, left @ right)


# ---- Python numbers


@pytest.mark.parametrize("dtype", REAL)
def test_an_array_of_one_element_is_a_python_number(dtype: str) -> None:
    x = xp.asarray(3, dtype=getattr(xp, dtype))
    assert (int(x), float(x), complex(x), bool(x)) == (3, 3.0, 3 + 0j, True)
    if dtype in INTEGERS:
        assert operator.index(x) == 3
        assert [1, 2, 3, 4][x] == 4
    else:
        with pytest.raises(TypeError, match="only integers"):
            operator.index(x)


def test_what_is_not_one_number_is_an_error() -> None:
    for convert in (int, float, complex, bool):
        with pytest.raises(ValueError, match="is not one"):
            convert(xp.ones(2))
    with pytest.raises(OverflowError):
        int(xp.asarray(xp.inf))
    with pytest.raises(ValueError, match="NaN"):
        int(xp.asarray(xp.nan))


# ---- indexing


@st.composite
def _indexed(draw: Any) -> tuple[Any, Any]:
    shape = draw(nps.array_shapes(min_dims=1, max_dims=3, min_side=1, max_side=3))
    x = np.arange(np.prod(shape), dtype=draw(st.sampled_from(["int8", "float32", "float64", "uint16"]))).reshape(shape)
    return x, draw(nps.basic_indices(shape, allow_newaxis=True))


@SOME
@given(_indexed())
def test_reading_parts(both: tuple[Any, Any]) -> None:
    x, key = both
    same(Tensor(x)[key], x[key])


@SOME
@given(_indexed(), st.booleans())
def test_writing_parts(both: tuple[Any, Any], is_array: bool) -> None:
    x, key = both
    if None in key if isinstance(key, tuple) else key is None:
        return
    mine = Tensor(x)
    value = np.full(x[key].shape, 7, x.dtype)
    mine[key] = Tensor(value) if is_array else 7
    x[key] = value
    same(mine, x)


@SOME
@given(st.data())
def test_masks_read_and_write(data: Any) -> None:
    shape = data.draw(st.sampled_from([(), (3,), (2, 3), (0,), (2, 0)]))
    dtype = data.draw(st.sampled_from(ALL))
    x = array_of(data.draw, shape, dtype)
    mask = array_of(data.draw, data.draw(st.sampled_from([shape, shape[:1]])), "bool")
    same(Tensor(x)[Tensor(mask)], x[mask])
    mine = Tensor(x)
    mine[Tensor(mask)] = 1
    x[mask] = 1
    same(mine, x)


@SOME
@given(st.data())
def test_integer_arrays_and_integers_read(data: Any) -> None:
    x = np.arange(24.0).reshape(2, 3, 4)
    common = data.draw(st.sampled_from([(2,), (1, 2), (0,), ()]))
    key = tuple(
        data.draw(
            st.one_of(st.integers(-size, size - 1), st.just(array_of(data.draw, common, "int64", -size, size - 1)))
        )
        for size in x.shape
    )
    mine = tuple(Tensor(each) if isinstance(each, np.ndarray) else each for each in key)
    same(Tensor(x)[mine], np.asarray(x[key]))


def test_positions_outside_are_errors() -> None:
    x = xp.ones((2, 3))
    with pytest.raises(IndexError, match="outside"):
        x[2]
    with pytest.raises(IndexError):
        x[0, 0, 0]
    with pytest.raises(IndexError):
        x[xp.ones(3, dtype=xp.bool)]
    with pytest.raises(TypeError):
        x[1.0]


# ---- data


@pytest.mark.parametrize("dtype", TRIED)
def test_arrays_of_data(dtype: str) -> None:
    wanted = getattr(xp, dtype)
    values = samples(dtype)
    same(xp.asarray(values.tolist(), dtype=wanted), values)
    same(xp.asarray([values.tolist(), values.tolist()], dtype=wanted), np.stack([values, values]))
    same(xp.asarray(values), values)
    same(xp.asarray(values[0].item(), dtype=wanted), values[0])
    same(xp.asarray([xp.asarray(values), values.tolist()], dtype=wanted), np.stack([values, values]))
    assert xp.asarray([xp.asarray(values), xp.asarray(values)]).dtype is wanted


@pytest.mark.cpu
def test_a_copy_is_made_where_it_is_asked_for() -> None:
    x = xp.ones(3)
    assert xp.asarray(x) is xp.asarray(x, copy=False) is x
    copied = xp.asarray(x, copy=True)
    x[0] = 5
    assert copied.tolist() == [1.0, 1.0, 1.0]
    assert xp.asarray(x, dtype=xp.float64).dtype is xp.float64
    for wrong in ([1, 2], 3, 2.5):
        with pytest.raises(ValueError, match="no memory to share"):
            xp.asarray(wrong, copy=False)
    with pytest.raises(ValueError, match="it is a copy"):
        xp.asarray(x, dtype=xp.float64, copy=False)
    with pytest.raises(ValueError, match="not row-major"):
        xp.asarray(np.ones((2, 3)).T, copy=False)
    array = np.arange(3.0)
    shared = xp.asarray(array, copy=False)
    array[0] = 9
    assert shared.tolist() == [9.0, 1.0, 2.0]
    assert xp.asarray([2**40]).dtype is xp.int64
    with pytest.raises(ValueError, match="outside int8"):
        xp.asarray([300], dtype=xp.int8)
    assert xp.reshape(x, (3, 1), copy=True).shape == (3, 1)
    with pytest.raises(ValueError, match="cannot build"):
        xp.asarray("text")


@pytest.mark.cpu
@pytest.mark.parametrize("dtype", TRIED)
def test_memory_goes_to_other_libraries_and_back(dtype: str) -> None:
    x = Tensor(samples(dtype))
    same(x, np.from_dlpack(x))
    same(xp.from_dlpack(np.from_dlpack(x)), samples(dtype))
    same(xp.from_dlpack(samples(dtype), copy=True), samples(dtype))
    assert xp.from_dlpack(x) is x
    assert xp.from_dlpack(x, copy=True) is not x
    assert x.__dlpack_device__() == (1, 0)
    assert np.from_dlpack(x, copy=True).flags.writeable
    x.__dlpack__(stream=None, max_version=(1, 0), dl_device=(1, 0), copy=None)
    with pytest.raises(BufferError):
        x.__dlpack__(dl_device=(2, 0))


def test_constructors_refuse_what_has_no_meaning() -> None:
    for wrong in (
        lambda: xp.zeros(-1),
        lambda: xp.arange(0, 1, 0),
        lambda: xp.linspace(0, 1, -2),
        lambda: xp.concat([]),
        lambda: xp.stack([xp.ones(2), xp.ones(3)]),
        lambda: xp.squeeze(xp.ones((2, 1)), 0),
        lambda: xp.broadcast_to(xp.ones(3), (2,)),
        lambda: xp.expand_dims(xp.ones(3), axis=3),
        lambda: xp.cumulative_sum(xp.ones((2, 2))),
        lambda: xp.nonzero(xp.asarray(1)),
        lambda: xp.searchsorted(xp.ones(2), xp.ones(2), side="middle"),
        lambda: xp.max(xp.ones(0)),
        lambda: xp.var(xp.ones(3), correction=1, ddof=1),
        lambda: xp.split(xp.ones(3), 2),
        lambda: xp.meshgrid(xp.ones(3), indexing="yx"),
        lambda: xp.reshape(xp.ones(3), (2, 2)),
        lambda: xp.matmul(xp.ones(3), xp.ones(2)),
        lambda: xp.sum(xp.ones((2, 2)), axis=2),
        lambda: xp.permute_dims(xp.ones((2, 2)), (0, 0)),
    ):
        with pytest.raises(ValueError, match=r".+"):
            wrong()


def test_messages_name_the_function_and_the_line() -> None:
    with pytest.raises(ValueError, match=r"in expand_dims, called at test_object\.py"):
        xp.expand_dims(xp.ones(3), axis=3)
    with pytest.raises(ValueError, match=r"add: shapes \(2,\) and \(3,\) do not broadcast"):
        xp.add(xp.ones(2), xp.ones(3))


@pytest.mark.parametrize("shape", [(0,), (2, 0), (0, 3), (0, 0)])
def test_a_mask_of_size_zero_stands_for_any_size(shape: tuple[int, ...]) -> None:
    x, mask = np.ones((2, 3)), np.zeros(shape, bool)
    same(Tensor(x)[Tensor(mask)], x[mask])
    mine = Tensor(x)
    mine[Tensor(mask)] = 5.0
    same(mine, x)
    with pytest.raises(IndexError, match="a mask"):
        mine[Tensor(np.zeros((0, 2), bool))]
