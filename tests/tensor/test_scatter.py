"""Gather, scatter, counting, searching: against NumPy and, where it is installed, PyTorch."""

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from tensor.check import some
from tensor.interpreted import interpreted
from whit import Tensor
from whit.dtype import dtypes


@pytest.fixture(autouse=True, scope="module")
def _on_python() -> Iterator[None]:
    with interpreted():
        yield


X = some(dtypes.float32, (3, 4))
I = np.array([[0, 2, 1, 0], [2, 2, 0, 1]], np.int64)  # noqa: E741
SRC = some(dtypes.float32, (3, 4), seed=1)


@pytest.mark.parametrize("reduce", (None, "add", "multiply"))
@pytest.mark.parametrize("dim", (0, 1))
def test_scatter(dim: int, reduce: Any) -> None:
    expected = X.copy()
    for i, j in np.ndindex(I.shape):
        place = (I[i, j], j) if dim == 0 else (i, I[i, j])
        old, new = expected[place], SRC[i, j]
        expected[place] = {None: new, "add": old + new, "multiply": old * new}[reduce]
    np.testing.assert_allclose(Tensor(X).scatter(dim, Tensor(I), Tensor(SRC), reduce).numpy(), expected, rtol=1e-5)


@pytest.mark.parametrize("include_self", (True, False))
@pytest.mark.parametrize("reduce", ("sum", "prod", "mean", "amax", "amin"))
def test_scatter_reduce_is_torchs(reduce: str, include_self: bool) -> None:
    torch = pytest.importorskip("torch")
    for array in (X, np.arange(12, dtype=np.int32).reshape(3, 4)):
        values = SRC if array is X else (np.arange(12, dtype=np.int32).reshape(3, 4) * 5 - 20)
        wanted = torch.tensor(array).scatter_reduce(
            0, torch.tensor(I), torch.tensor(values), reduce, include_self=include_self
        )
        found = Tensor(array).scatter_reduce(0, Tensor(I), Tensor(values), reduce, include_self)
        np.testing.assert_allclose(found.numpy(), wanted.numpy(), rtol=1e-5)


def test_index_add_take_and_relatives() -> None:
    rows = np.array([1, 1, 2])
    expected = X.copy()
    np.add.at(expected, rows, SRC)
    np.testing.assert_allclose(Tensor(X).index_add(0, Tensor(rows), Tensor(SRC)).numpy(), expected, rtol=1e-6)
    np.testing.assert_array_equal(Tensor(X).take([0, 5, -1]).numpy(), X.take([0, 5, -1]))
    np.testing.assert_array_equal(Tensor(X).take([[0], [3]], axis=1).numpy(), X.take([[0], [3]], axis=1))
    np.testing.assert_array_equal(Tensor(X).index_select(1, Tensor([3, 0])).numpy(), X[:, [3, 0]])
    order = X.argsort(1)
    np.testing.assert_array_equal(Tensor(X).take_along_axis(Tensor(order), 1).numpy(), np.take_along_axis(X, order, 1))
    y, array = Tensor(X.copy()), X.copy()
    y.put_along_axis(Tensor(order[:, :1]), 0.0, 1)
    np.put_along_axis(array, order[:, :1], 0.0, 1)
    np.testing.assert_array_equal(y.numpy(), array)


@pytest.mark.parametrize("shape", [(7,), (3, 4), (2, 0), (2, 3, 2)], ids=str)
def test_nonzero_and_masked_select(shape: tuple[int, ...]) -> None:
    array = some(dtypes.int32, shape) * (some(dtypes.int32, shape, seed=2) > 0)
    expected = np.argwhere(array)
    assert Tensor(array).nonzero().tolist() == expected.tolist()
    assert Tensor(array).nonzero(size=len(expected) + 2, fill_value=-1).tolist() == [
        *expected.tolist(),
        *[[-1] * len(shape)] * 2,
    ]
    assert Tensor(array).masked_select(Tensor(array > 0)).tolist() == array[array > 0].tolist()
    assert (
        Tensor(array).masked_select(Tensor(array > 0), size=2, fill_value=9).tolist()
        == ([*array[array > 0].tolist(), 9, 9][:2])
    )


@pytest.mark.parametrize("side", ("left", "right"))
@pytest.mark.parametrize("size", (0, 1, 2, 7, 8, 33))
def test_searchsorted(size: int, side: Any) -> None:
    row = np.sort(np.random.default_rng(size).integers(0, 20, size)).astype(np.float32)
    values = np.array([*np.arange(-1, 21), np.nan, np.inf], np.float32)
    assert Tensor(row).searchsorted(Tensor(values), side=side).tolist() == row.searchsorted(values, side).tolist()
    if size > 2:
        row[-2:] = np.nan
        assert Tensor(row).searchsorted(Tensor(values), side).tolist() == row.searchsorted(values, side).tolist()


def test_counting() -> None:
    array = np.array([3, 1, 1, 0, 7])
    assert Tensor(array).bincount().tolist() == np.bincount(array).tolist()
    assert Tensor(array).bincount(minlength=12).tolist() == np.bincount(array, minlength=12).tolist()
    weights = np.array([0.5, 1, 2, 4, 8], np.float32)
    assert Tensor(array).bincount(Tensor(weights)).tolist() == np.bincount(array, weights).tolist()
    with pytest.raises(IndexError, match="bincount: -1 is negative"):
        Tensor([-1]).bincount()
    data = some(dtypes.float32, (50,))
    found, edges = Tensor(data).histogram(8)
    expected, places = np.histogram(data, 8)
    np.testing.assert_allclose(edges.numpy(), places, rtol=1e-5)
    assert found.tolist() == expected.tolist()
    assert Tensor(data).histogram(4, range=(-1, 2))[0].tolist() == np.histogram(data, 4, (-1, 2))[0].tolist()
    assert Tensor(data).histogram([-4, 0, 1, 4])[0].tolist() == np.histogram(data, [-4, 0, 1, 4])[0].tolist()


@pytest.mark.parametrize("offset", (-3, -1, 0, 2, 9))
def test_diagonals(offset: int) -> None:
    cube = some(dtypes.float32, (2, 3, 4))
    np.testing.assert_array_equal(Tensor(X).diagonal(offset).numpy(), X.diagonal(offset))
    np.testing.assert_array_equal(Tensor(cube).diagonal(offset, 2, 0).numpy(), cube.diagonal(offset, 2, 0))
    np.testing.assert_array_equal(Tensor(X).diag(offset).numpy(), np.diag(X, offset))
    np.testing.assert_array_equal(Tensor(X[0]).diag(offset).numpy(), np.diag(X[0], offset))
    np.testing.assert_allclose(Tensor(X).trace(offset).numpy(), np.trace(X, offset), rtol=1e-5)
