"""`x[...]` on both sides of `=` against NumPy, over generated index expressions."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tensor.check import some
from tensor.interpreted import interpreted
from whit import Context, Tensor
from whit.dtype import DType, dtypes
from whit.engine.report.counters import GlobalCounters
from whit.errors import ArgumentError, DTypeError, OutOfRangeError, ShapeError
from whit.ir import ops
from whit.ir.uop import UOp

X = np.arange(60, dtype=np.float32).reshape(3, 4, 5)
DTYPES = (dtypes.float32, dtypes.float16, dtypes.int8, dtypes.uint64, dtypes.bool)


@pytest.fixture(autouse=True, scope="module")
def _on_python() -> Iterator[None]:
    with interpreted():
        yield


@st.composite
def indices(draw: Any, shape: tuple[int, ...] = X.shape) -> Any:
    """Any index: integers, slices, None, ..., arrays that broadcast together, masks."""
    entries: list[Any] = []
    lead = draw(st.sampled_from(((), (2,), (3, 1))))
    axis, dots = 0, False
    while axis < len(shape) and draw(st.integers(0, 5)):
        size = shape[axis]
        kind = draw(st.integers(0, 7))
        if kind == 0:
            entries.append(None)
            continue
        if kind == 1 and not dots:
            entries.append(Ellipsis)
            dots = True
            continue
        if kind == 2:
            count = draw(st.integers(1, len(shape) - axis))
            if lead and lead[-1] != 1:  # its length is data and must broadcast with the others
                bits = np.zeros(shape[axis : axis + count], np.bool_)
                bits.reshape(-1)[draw(st.integers(0, bits.size - 1))] = True
            else:
                bits = np.array(draw(st.lists(st.booleans(), min_size=60, max_size=60)))[
                    : int(np.prod(shape[axis : axis + count]))
                ].reshape(shape[axis : axis + count])
                lead = (1,)
            entries.append(bits)
            axis += count
            continue
        if kind == 3:
            own = draw(st.sampled_from((lead, lead[-1:], ())))
            flat = draw(st.lists(st.integers(-size, size - 1), min_size=6, max_size=6))
            entries.append(np.array(flat, np.int64)[: int(np.prod(own))].reshape(own))
        elif kind <= 5:
            ends = st.none() | st.integers(-size - 1, size + 1)
            entries.append(slice(draw(ends), draw(ends), draw(st.sampled_from((None, 1, -1, 2, -3)))))
        else:
            entries.append(draw(st.integers(-size, size - 1)))
        axis += 1
    return tuple(entries)


def as_tensors(index: tuple[Any, ...]) -> tuple[Any, ...]:
    return tuple(Tensor(entry) if isinstance(entry, np.ndarray) and entry.ndim else entry for entry in index)


def as_lists(index: tuple[Any, ...]) -> tuple[Any, ...]:
    return tuple(entry.tolist() if isinstance(entry, np.ndarray) else entry for entry in index)


def numpys(index: tuple[Any, ...]) -> Any:
    """What NumPy gives; None if it refuses."""
    try:
        return X[index]
    except IndexError:
        return None


@pytest.mark.slow
@settings(max_examples=200, derandomize=True)
@given(indices(), st.integers(0, 2))
def test_reading_is_numpys(index: Any, kind: int) -> None:
    given_index = (index, as_tensors(index), as_lists(index))[kind]
    expected = numpys(index)
    if expected is None:
        with pytest.raises((IndexError, ShapeError)):
            Tensor(X)[given_index].numpy()
        return
    found = Tensor(X)[given_index].numpy()
    assert found.shape == expected.shape
    np.testing.assert_array_equal(found, expected)


@pytest.mark.slow
@settings(max_examples=200, derandomize=True)
@given(indices(), st.integers(0, 2), st.integers(0, 3))
def test_writing_is_numpys(index: Any, kind: int, of: int) -> None:
    old = numpys(index)
    if old is None:
        return
    given_index = (index, as_tensors(index), as_lists(index))[kind]
    array, tensor = X.copy(), Tensor(X.copy())
    full = -1 - np.arange(old.size, dtype=np.float32).reshape(old.shape)
    value = (7.0, full, full[..., :1] if full.ndim else full, full[:1] if full.ndim else full)[of]
    array[index] = value
    tensor[given_index] = value if of == 0 else Tensor(np.ascontiguousarray(value).reshape(np.shape(value)))
    np.testing.assert_array_equal(tensor.numpy(), array)
    before = array.copy()
    array[index] += 1
    tensor[given_index] += 1
    np.testing.assert_array_equal(tensor.numpy(), array)
    assert before.shape == array.shape


@pytest.mark.parametrize("dtype", DTYPES, ids=lambda d: d.name)
def test_every_dtype(dtype: DType) -> None:
    array = some(dtype, (4, 5))
    tensor = Tensor(array.copy())
    rows, mask = np.array([2, 0, 2]), array[:, 0] != array[1, 0]
    np.testing.assert_array_equal(tensor[Tensor(rows)].numpy(), array[rows])
    np.testing.assert_array_equal(tensor[Tensor(mask)].numpy(), array[mask])
    array[1:, ::2], array[rows] = array[0, 0], array[3]
    tensor[1:, ::2] = tensor[0, 0]
    tensor[Tensor(rows)] = tensor[3]
    np.testing.assert_array_equal(tensor.numpy(), array)


@pytest.mark.parametrize("dtype", (dtypes.int8, dtypes.uint8, dtypes.int64, dtypes.uint64), ids=lambda d: d.name)
def test_index_tensors_of_every_width(dtype: DType) -> None:
    long = np.arange(300, dtype=np.float32)
    places = np.array([0, 5, 100], np.int64)
    assert Tensor(long)[Tensor(places).cast(dtype)].tolist() == [0, 5, 100]
    if not dtype.is_unsigned:
        assert Tensor(long)[Tensor(-1 - places).cast(dtype)].tolist() == [299, 294, 199]


def test_outside_is_nan_or_zero_and_raises_where_it_is_known() -> None:
    x, far = Tensor([1.0, 2.0]), Tensor([1, 2, -3])
    np.testing.assert_array_equal(x[far].numpy(), [2, np.nan, np.nan])
    assert Tensor([1, 2])[far].tolist() == [2, 0, 0]
    x[far] = 9.0
    assert x.tolist() == [1, 9]
    for known in ([0, 2], np.array([-3]), 2, (..., -3)):
        with pytest.raises(IndexError, match="is outside axis 0 of"):
            x[known]
        with pytest.raises(OutOfRangeError):
            x[known] = 1.0
    with Context(CHECK_INDEX=1), pytest.raises(OutOfRangeError, match="getitem: 2 is outside axis 0 of"):
        x[far]
    with Context(CHECK_INDEX=1), pytest.raises(OutOfRangeError, match="gather: 2 is outside axis 0"):
        x.gather(0, far)


def test_bound_variables_are_integers() -> None:
    i = UOp.variable("i", 0, 2)
    x = Tensor(X.copy())
    assert x[i.bind(2)].tolist() == X[2].tolist()
    x[i.bind(1)] = 0.0
    assert x.sum().item() == X[[0, 2]].sum()
    with pytest.raises(OutOfRangeError, match="may be outside axis 0"):
        x[UOp.variable("j", 0, 9)]


def test_a_row_lookup_reads_its_rows_only() -> None:
    with Context(DEV="CPU"):
        table, rows = Tensor(np.ones((1000, 64), np.float32)), Tensor(np.array([5, 999, 0], np.int32))
        Tensor.realize(table, rows)
        GlobalCounters.reset()
        table[rows].realize()
        assert GlobalCounters.kernel_count == 1
        assert GlobalCounters.global_mem <= 3 * 64 * 4 * 2 + 3 * 4


@pytest.mark.parametrize(
    "wrong, error, words",
    [
        (lambda y: y[[0, 1], [0, 1, 2]], ShapeError, "shapes (2,) and (3,) of index tensors do not broadcast"),
        (lambda y: y[Tensor([0.5])], ArgumentError, "a tensor of float32 is no index"),
        (lambda y: y[[0.5]], ArgumentError, "is no index, it holds float64"),
        (lambda y: y["a"], ArgumentError, "is no index, it is a str"),
        (lambda y: y[[[0], [1, 2]]], ArgumentError, "lists in an index are not of one length"),
        (lambda y: y[1.0:], ArgumentError, "1.0 in a slice is a float"),
        (lambda y: y[[True, False, True]], OutOfRangeError, "a mask (3,) for axes of sizes (2,)"),
        (lambda y: y.__setitem__(0, [1, 2]), ShapeError, "setitem: a value of shape (2,) does not broadcast to (3,)"),
        (lambda y: y.__setitem__(y > 1, [1, 2, 9]), ShapeError, "setitem: 3 values where the mask holds 5 times"),
        (lambda y: y.expand(4, 2, 3).__setitem__(0, 1), ArgumentError, "repeats elements by expand()"),
        (lambda y: y.assign(Tensor([1])), DTypeError, "assign: the value is int32, and the tensor is float32"),
        (lambda y: y.assign(Tensor.ones(4)), ShapeError, "assign: a value of shape (4,) does not broadcast to (2, 3)"),
        (lambda y: y.int().__iadd__(0.5), DTypeError, "+=: the result is float32, and the tensor is int32"),
        (lambda y: y[0].__iadd__(y), ShapeError, "+=: the result has shape (2, 3), and the tensor (3,)"),
        (lambda y: y.replace(y.T), ShapeError, "replace: shapes (2, 3) and (3, 2) differ"),
        (lambda y: Tensor([1], dtype="int8").__setitem__(0, 300), DTypeError, "setitem: 300 is outside int8"),
    ],
)
def test_mistakes(wrong: Any, error: type[Exception], words: str) -> None:
    y = Tensor([[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]])
    with pytest.raises(error) as caught:
        wrong(y)
    assert words in str(caught.value)


def test_a_slice_is_one_shrink() -> None:
    y = Tensor.empty(8, 8)
    assert y[1:5].uop.op is ops.SHRINK and y[1:5].uop.src[0] is y.uop


@pytest.mark.slow
def test_a_loop_of_masks_does_not_compute_its_past_again() -> None:
    def kernels(steps: int) -> int:
        x, step = np.array([0.1, 0.5, 0.9], np.float32), np.array([0.03, 0.1, 0.2], np.float32)
        mine, my_step = Tensor(x.copy()), Tensor(step)
        GlobalCounters.reset()
        for _ in range(steps):
            x[x < 1] = (x + step)[x < 1]
            low = mine < 1
            mine[low] = (mine + my_step)[low]
        np.testing.assert_array_equal(mine.numpy(), x)
        return GlobalCounters.kernel_count

    assert kernels(24) - kernels(16) == kernels(16) - kernels(8)


@pytest.mark.parametrize("offset", [-1, 0, 2])
@pytest.mark.parametrize("shape", [(4, 5), (3, 2, 4), (4, 3, 2), (1, 3), (2, 2)], ids=str)
@pytest.mark.parametrize("kind", ["plain", "permuted", "flipped", "part"])
def test_a_diagonal_is_reshaped_without_a_copy_where_numpy_does_it(
    offset: int, shape: tuple[int, ...], kind: str
) -> None:
    base = np.arange(np.prod(shape)).reshape(shape).astype(np.int32)
    x = Tensor(base.copy())
    if kind == "permuted":
        base, x = base.swapaxes(0, 1), x.transpose(0, 1)
    elif kind == "flipped":
        base, x = np.flip(base, 1), x.flip(1)
    elif kind == "part":
        base, x = base[:, 1:], x[:, 1:]
    window, mine = np.diagonal(base, offset), x.diagonal(offset)
    for new in ((*window.shape, 1), (1, *window.shape), (window.size,), (window.shape[0], 1, *window.shape[1:])):
        expected, changed = window.reshape(new), mine.reshape(new)
        assert changed.tolist() == expected.tolist()
        if window.size > 1 and changed is not mine:
            assert (changed._family is mine._family) == np.shares_memory(expected, base)
    if window.size:
        mine.unsqueeze(-1)[0] = -7
        window.setflags(write=True)
        window[0] = -7
        assert x.tolist() == base.tolist()
