"""Movement and indexing against NumPy, on views too, and what nodes they are made of."""

import itertools
from typing import Any

import numpy as np
import pytest

from tensor.check import FLOATS, INTS, same, some, value
from whit import Tensor
from whit.dtype import DType, dtypes
from whit.errors import OutOfRangeError, ShapeError
from whit.ir import ops

X = np.arange(24, dtype=np.int32).reshape(2, 3, 4)
# The same elements behind views: non-contiguous, flipped, padded and cut.
VIEWS = {
    "plain": (lambda: Tensor(X), X),
    "permuted": (lambda: Tensor(np.ascontiguousarray(X.transpose(2, 0, 1))).permute(1, 2, 0), X),
    "flipped": (lambda: Tensor(X[::-1, :, ::-1].copy()).flip((0, 2)), X),
    "cut": (lambda: Tensor(np.pad(X, 1)).shrink(((1, 3), (1, 4), (1, 5))), X),
    "strided array": (lambda: Tensor(np.repeat(X, 2, axis=1)[:, ::2]), X),
}


@pytest.fixture(params=VIEWS)
def x(request: Any) -> Tensor:
    make, array = VIEWS[request.param]
    tensor = make()
    np.testing.assert_array_equal(value(tensor), array)
    return tensor


@pytest.mark.parametrize("shape", [(24,), (4, 6), (1, 24, 1), (2, -1), (-1,), (2, 2, 3, 2), (6, 1, -1)], ids=str)
def test_reshape(x: Tensor, shape: tuple[int, ...]) -> None:
    same(x.reshape(shape), X.reshape(shape))
    same(x.view(*shape), X.reshape(shape))


def test_reshape_of_empty_tensors_and_scalars() -> None:
    same(Tensor.zeros(0, 3).reshape(3, 0, 5), np.zeros((3, 0, 5)))
    same(Tensor.zeros(0, 3).reshape(-1, 3), np.zeros((0, 3)))
    same(Tensor(2.0).reshape(1, 1), [[2.0]])
    same(Tensor([2.0]).reshape(()), 2.0)
    y = Tensor([1, 2])
    assert y.reshape(2) is y


def test_axes_move(x: Tensor) -> None:
    for order in itertools.permutations(range(3)):
        same(x.permute(order), X.transpose(order))
    same(x.permute(0, -1, 1), X.transpose(0, 2, 1))
    same(x.transpose(0, 1), X.swapaxes(0, 1))
    same(x[0].transpose(), X[0].T)
    same(x.transpose(-1, 0), X.swapaxes(-1, 0))
    same(x.T, X.T)
    same(x.flip(1), X[:, ::-1])
    same(x.flip((0, -1)), X[::-1, :, ::-1])


def test_expand() -> None:
    y = Tensor([[1], [2]])
    same(y.expand(2, 3), [[1, 1, 1], [2, 2, 2]])
    same(y.expand((4, -1, 2)), np.broadcast_to([[1], [2]], (4, 2, 2)))
    same(y.expand(2, 0), np.zeros((2, 0), np.int32))
    same(Tensor(5).expand(2, 2), [[5, 5], [5, 5]])


@pytest.mark.parametrize("pads", [((1, 0), (0, 2), (3, 1)), ((0, 0), (-1, 1), (-1, -2)), (None, (1, 1), None)], ids=str)
@pytest.mark.parametrize("fill", (0, 7))
def test_pad(x: Tensor, pads: Any, fill: int) -> None:
    inner = X
    grow = []
    for axis, pair in enumerate(pads):
        before, after = pair or (0, 0)
        inner = inner.take(range(max(-before, 0), inner.shape[axis] - max(-after, 0)), axis)
        grow.append((max(before, 0), max(after, 0)))
    same(x.pad(pads, value=fill), np.pad(inner, grow, constant_values=fill))


def test_pad_in_pytorchs_form_and_with_special_values() -> None:
    same(Tensor([[1, 2]]).pad((1, 2)), [[0, 1, 2, 0, 0]])
    same(Tensor([[1, 2]]).pad((0, 1, 1, 0)), [[0, 0, 0], [1, 2, 0]])
    same(Tensor([1.0]).pad((1, 0), value=-np.inf), [-np.inf, 1])
    same(Tensor([1]).pad((1, 0), value=0.5), [0.5, 1], dtypes.float32)
    same(Tensor([True]).pad((1, 1), value=True), [True, True, True])


def test_axes_come_and_go(x: Tensor) -> None:
    same(x.flatten(), X.reshape(-1))
    same(x.flatten(1), X.reshape(2, 12))
    same(x.flatten(0, 1), X.reshape(6, 4))
    same(Tensor(3).flatten(), [3])
    same(x.unflatten(2, (2, -1)), X.reshape(2, 3, 2, 2))
    same(x.unsqueeze(1), X[:, None])
    same(x.unsqueeze(-1), X[..., None])
    same(Tensor.ones(1, 3, 1).squeeze(), np.ones(3))
    same(Tensor.ones(1, 3, 1).squeeze(0), np.ones((3, 1)))
    same(Tensor.ones(1, 3, 1).squeeze(1), np.ones((1, 3, 1)))


def test_splitting(x: Tensor) -> None:
    for found, expected in zip(x.split(2, dim=1), (X[:, :2], X[:, 2:]), strict=True):
        same(found, expected)
    for found, expected in zip(x.split([1, 3], dim=-1), np.split(X, [1], axis=-1), strict=True):
        same(found, expected)
    assert [piece.shape for piece in Tensor.zeros(7).chunk(3)] == [(3,), (3,), (1,)]
    assert [piece.shape for piece in Tensor.zeros(0).split(2)] == [(0,)]


@pytest.mark.parametrize("dim", (0, 1, 2, -1))
def test_joining(x: Tensor, dim: int) -> None:
    y = X[:, :, :] + 100
    same(x.cat(Tensor(y), dim=dim), np.concatenate([X, y], dim))
    same(Tensor.cat(x, Tensor(y), x, dim=dim), np.concatenate([X, y, X], dim))
    same(x.stack(Tensor(y), x, dim=dim), np.stack([X, y, X], dim))
    part = y.take([0], dim)
    same(Tensor(part).cat(x, Tensor(part), dim=dim), np.concatenate([part, X, part], dim))


def test_joining_keeps_bits_and_promotes() -> None:
    joined = value(Tensor([-0.0]).cat(Tensor([-0.0, 1.0]), Tensor([])))
    assert np.signbit(joined).tolist() == [True, True, False]
    assert Tensor([1]).cat(Tensor([0.5])).dtype is dtypes.float32
    assert Tensor([1], dtype=dtypes.uint8).stack(Tensor([1], dtype=dtypes.int8)).dtype is dtypes.int16


def test_repeat(x: Tensor) -> None:
    same(x.repeat(2, 1, 3), np.tile(X, (2, 1, 3)))
    same(x.repeat((2, 1, 1, 2)), np.tile(X, (2, 1, 1, 2)))
    same(Tensor([1, 2]).repeat(0), np.zeros(0, np.int32))


INDICES = [
    0,
    -1,
    (1, 2),
    (1, 2, 3),
    slice(1, None),
    slice(None, None, -1),
    (slice(None), slice(None, None, 2)),
    (Ellipsis, slice(None, None, 3)),
    (Ellipsis, slice(-1, None, -2)),
    (slice(None), slice(2, 0, -1), slice(1, 4, 2)),
    (None, 0, None, Ellipsis, None),
    (Ellipsis, 1),
    (slice(5, 9), 1),
    (slice(1, 1), slice(None, None, 2)),
    (slice(None, None, 7), slice(None, None, -5)),
    (slice(-100, 100), slice(100, -100, -1)),
    Ellipsis,
    (),
    None,
    (slice(0, 2, 1), slice(0, 3, 2), slice(3, None, -3)),
    (np.int64(1), np.int32(-1)),
]


@pytest.mark.parametrize("index", INDICES, ids=str)
def test_basic_indexing(x: Tensor, index: Any) -> None:
    same(x[index], X[index])


def test_random_slices() -> None:
    generator = np.random.default_rng(5)
    array = np.arange(7 * 9).reshape(7, 9).astype(np.int32)
    tensor = Tensor(array)
    for _ in range(150):
        ends = [[None, *range(-12, 13)][i] for i in generator.integers(0, 26, 4)]
        steps = [int(s) or 1 for s in generator.integers(-4, 5, 2)]
        index = slice(ends[0], ends[1], steps[0]), slice(ends[2], ends[3], steps[1])
        same(tensor[index], array[index])


def test_a_slice_is_one_shrink() -> None:
    y = Tensor.empty(8, 8)
    assert y[1:5].uop.op is ops.SHRINK and y[1:5].uop.src[0] is y.uop
    assert [n.op for n in y[2, 3].uop.topological()] == [ops.BUFFER, ops.SHRINK, ops.RESHAPE]
    assert y[:, :].uop is y.uop


def test_iteration_and_length() -> None:
    y = Tensor([[1, 2], [3, 4], [5, 6]])
    assert len(y) == 3
    assert [value(row).tolist() for row in y] == [[1, 2], [3, 4], [5, 6]]
    a, b = Tensor([1, 2])
    assert (a.item(), b.item()) == (1, 2)


@pytest.mark.parametrize("dim", (0, 1, -1))
@pytest.mark.parametrize("dtype", (dtypes.int64, dtypes.uint8), ids=lambda d: d.name)
def test_gather(dim: int, dtype: DType) -> None:
    generator = np.random.default_rng(1)
    shape = [2, 2, 3]
    index = generator.integers(0, X.shape[dim], shape)
    part = tuple(slice(None) if axis == dim % 3 else slice(size) for axis, size in enumerate(shape))
    picked = np.take_along_axis(X[part], index, dim)
    same(Tensor(X).gather(dim, Tensor(index).cast(dtype)), picked)


def test_gather_outside_is_nan_and_negative_counts_from_the_end() -> None:
    y = Tensor([10.0, 20.0, 30.0])
    same(y.gather(0, Tensor([-1, 3, 0, -4])), [30, np.nan, 10, np.nan])
    same(Tensor([10, 20]).gather(0, Tensor([-1, 7])), [20, 0])


def test_masks() -> None:
    y = Tensor([[1.0, 2.0], [3.0, 4.0]])
    same(y.masked_fill(y > 2, -np.inf), [[1, 2], [-np.inf, -np.inf]])
    same(y.masked_fill(Tensor([True, False]), 0), [[0, 2], [0, 4]])
    same(Tensor([0, 2, 1]).one_hot(3), np.eye(3, dtype=np.int32)[[0, 2, 1]])
    same(Tensor([[1], [5]]).one_hot(2), [[[0, 1]], [[0, 0]]])


@pytest.mark.parametrize("diagonal", (-3, -1, 0, 1, 5))
@pytest.mark.parametrize("shape", [(3, 3), (2, 3, 5), (4, 2), (0, 3)], ids=str)
def test_triangles(shape: tuple[int, ...], diagonal: int) -> None:
    y = some(dtypes.float32, shape)
    same(Tensor(y).tril(diagonal), np.tril(y, diagonal))
    same(Tensor(y).triu(diagonal), np.triu(y, diagonal))


@pytest.mark.parametrize("dtype", (*INTS, *FLOATS, dtypes.bool), ids=lambda d: d.name)
def test_movement_keeps_the_dtype(dtype: DType) -> None:
    array = some(dtype, (3, 4))
    y = Tensor(array)
    same(y[::-1, 1:].T.reshape(-1), array[::-1, 1:].T.reshape(-1), dtype)
    same(y.cat(y[:1]), np.concatenate([array, array[:1]]), dtype)


@pytest.mark.parametrize(
    "wrong, error, words",
    [
        (lambda y: y.reshape(5), ShapeError, "reshape: (2, 3) has 6 elements and (5,) has 5"),
        (lambda y: y.reshape(-1, 4), ShapeError, "which (-1, 4) cannot hold"),
        (lambda y: y.reshape(-1, -1), ShapeError, "more than one size is -1"),
        (lambda y: y.expand(4, 3), ShapeError, "expand: (2, 3) does not become (4, 3)"),
        (lambda y: y.expand(3), ShapeError, "does not become (3,)"),
        (lambda y: y.permute(0, 0), ShapeError, "permute: (0, 0) is not an order of the 2 axes of (2, 3)"),
        (lambda y: y.transpose(0, 2), OutOfRangeError, "transpose: there is no axis 2 in shape (2, 3)"),
        (lambda y: y.flip(5), OutOfRangeError, "flip: there is no axis 5"),
        (lambda y: y.flip(0, -2), OutOfRangeError, "names an axis twice"),
        (lambda y: y.shrink(((0, 3), None)), ShapeError, "shrink: (0, 3) is not inside axis 0 of (2, 3)"),
        (lambda y: y.pad((1, 2, 3)), ShapeError, "pad: (1, 2, 3) does not fit the 2 axes of (2, 3)"),
        (lambda y: y.unflatten(1, (2, 2)), ShapeError, "axis 1 has size 3, and (2, 2) holds 4"),
        (lambda y: y.unsqueeze(4), OutOfRangeError, "there is no place 4"),
        (lambda y: y.split([1, 1], 1), ShapeError, "split: sizes [1, 1] for axis 1 of (2, 3)"),
        (lambda y: y.repeat(2), ShapeError, "repeat: (2,) for the 2 axes of (2, 3)"),
        (lambda y: y.cat(y.T), ShapeError, "cat: shapes (2, 3) and (3, 2) differ beside axis 0"),
        (lambda y: y.stack(y.T), ShapeError, "stack: shapes (2, 3) and (3, 2) differ"),
        (lambda y: y[2], OutOfRangeError, "getitem: 2 is outside axis 0 of (2, 3)"),
        (lambda y: y[0, 0, 0], OutOfRangeError, "getitem: 3 indices for the 2 axes of (2, 3)"),
        (lambda y: y[..., ...], OutOfRangeError, "getitem: ... stands 2 times"),
        (lambda y: y[::0], TypeError, "the step of a slice is 0"),
        (lambda y: y[1.5], TypeError, "getitem: 1.5 is no index, it is a float"),
        (lambda y: y.gather(0, Tensor([1])), ShapeError, "gather: an index (1,) for (2, 3) along axis 0"),
        (lambda y: y.gather(0, y), TypeError, "positions are integers, and this is float32(2, 3)"),
        (lambda y: y.one_hot(3), TypeError, "classes are integers"),
        (lambda y: y.masked_fill(y, 0), TypeError, "the mask is float32"),
        (lambda y: y[0].tril(), ShapeError, "tril: (3,) has fewer than 2 axes"),
    ],
)
def test_mistakes_say_what_where_and_what_to_do(wrong: Any, error: type[Exception], words: str) -> None:
    y = Tensor([[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]])
    with pytest.raises(error) as caught:
        wrong(y)
    what, *rest = str(caught.value).splitlines()
    assert words in what
    assert "test_movement.py:" in "\n".join(rest)
