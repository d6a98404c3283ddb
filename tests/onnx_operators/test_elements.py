"""Elements, reductions, shapes and indices."""

import numpy as np
import pytest

from onnx_operators.nodes import run
from whit.errors import ArgumentError, UserError

RNG = np.random.default_rng(0)
X = RNG.standard_normal((2, 3, 4)).astype(np.float32)


def close(got, want):
    np.testing.assert_allclose(got, want, rtol=1e-5, atol=1e-6)


def test_integers_are_divided_towards_zero():
    a, b = np.array([-7, 7, -8], np.int32), np.array([2, -2, 3], np.int32)
    assert run("Div", a, b).tolist() == [-3, -3, -2]
    assert run("Mod", a, b).tolist() == [1, -1, 1]
    assert run("Mod", a, b, fmod=1).tolist() == [-1, 1, -2]


def test_pow_has_the_type_of_its_base():
    got = run("Pow", np.array([2, 3], np.int32), np.array([3, 2], np.float32))
    assert (got.dtype, got.tolist()) == (np.int32, [8, 9])


def test_old_versions_broadcast_from_the_axis_that_is_named():
    a, b = np.zeros((2, 3, 4), np.float32), np.arange(3, dtype=np.float32)
    close(run("Add", a, b, version=6, axis=1, broadcast=1), a + b[:, None])


def test_clip_with_limits_that_cross_gives_the_upper_one():
    x = np.array([-2.0, 0.0, 2.0], np.float32)
    assert run("Clip", x, np.array(1, np.float32), np.array(-1, np.float32)).tolist() == [-1, -1, -1]
    assert run("Clip", x, None, np.array(1, np.float32)).tolist() == [-2, 0, 1]
    assert run("Clip", x, version=6, max=1.0).tolist() == [-2, 0, 1]


def test_softmax_of_old_versions_takes_all_axes_from_one_on():
    rows = X.reshape(2, 12)
    want = np.exp(rows) / np.exp(rows).sum(1, keepdims=True)
    close(run("Softmax", X, version=11, axis=1), want.reshape(X.shape))
    close(run("Softmax", X).sum(-1), np.ones((2, 3)))
    assert run("Hardmax", np.array([[1.0, 3, 3]], np.float32)).tolist() == [[0, 1, 0]]


@pytest.mark.parametrize("axes", [None, [], [1], [-1, 0]])
def test_reductions_take_axes_as_inputs_or_attributes(axes):
    chosen = tuple(axes) if axes else None
    close(run("ReduceL2", X, version=13, axes=axes), np.sqrt((X**2).sum(chosen, keepdims=True)))
    given = None if axes is None else np.array(axes, np.int64)
    close(run("ReduceMax", X, given, keepdims=0), X.max(chosen))
    if not axes:
        close(run("ReduceSum", X, given, noop_with_empty_axes=1), X)
        close(run("ReduceSumSquare", X, given, noop_with_empty_axes=1), X**2)


def test_the_largest_of_nothing_is_the_smallest_number():
    empty = np.zeros((2, 0, 4), np.float32)
    assert run("ReduceMax", empty, np.array([1]), keepdims=0).tolist() == [[-np.inf] * 4] * 2
    assert run("ReduceMin", empty.astype(np.int8), np.array([1])).tolist() == [[[127] * 4]] * 2


def test_the_last_of_equal_places():
    x = np.array([[3, 1, 3], [0, 0, 0]], np.float32)
    assert run("ArgMax", x, axis=1, keepdims=0).tolist() == [0, 0]
    assert run("ArgMax", x, axis=1, keepdims=0, select_last_index=1).tolist() == [2, 2]


def test_running_sums_without_the_element_itself_and_from_the_back():
    x = np.array([1, 2, 3], np.int32)
    axis = np.array(0)
    assert run("CumSum", x, axis, exclusive=1).tolist() == [0, 1, 3]
    assert run("CumSum", x, axis, exclusive=1, reverse=1).tolist() == [5, 3, 0]
    assert run("CumProd", x, axis, version=26, exclusive=1).tolist() == [1, 1, 2]


@pytest.mark.parametrize(
    ("start", "stop", "step", "want"),
    [
        (0, 3, 1, [0, 1, 2]),
        (-2, 1 << 60, 1, [2, 3]),
        (3, -(1 << 60), -1, [3, 2, 1, 0]),
        (-9, -9, -1, [0]),
        (5, 9, 2, []),
    ],
)
def test_slices_are_brought_inside(start, stop, step, want):
    x = np.arange(4, dtype=np.float32)
    got = run("Slice", x, *(np.array([number]) for number in (start, stop, 0, step)))
    assert got.tolist() == want


def test_shapes_of_old_and_new_versions():
    assert run("Reshape", X, np.array([0, -1])).shape == (2, 12)
    assert run("Reshape", X, version=1, shape=[4, 6]).shape == (4, 6)
    assert run("Reshape", np.zeros((0, 3), np.float32), np.array([3, 0]), allowzero=1).shape == (3, 0)
    assert run("Unsqueeze", X, np.array([0, -1])).shape == (1, 2, 3, 4, 1)
    assert run("Squeeze", X[:, :1], version=11, axes=[1]).shape == (2, 4)
    assert run("Flatten", X, axis=-1).shape == (6, 4)
    assert [part.shape for part in run("Split", X, axis=2, num_outputs=3, outputs=3)] == [
        (2, 3, 2),
        (2, 3, 2),
        (2, 3, 0),
    ]
    assert run("Shape", X, start=1).tolist() == [3, 4]
    with pytest.raises(ArgumentError, match="not all of size 1"):
        run("Squeeze", X, np.array([0]))
    with pytest.raises(ArgumentError, match="axis 3 of a tensor of 3 axes"):
        run("Concat", X, X, axis=3)


@pytest.mark.parametrize(("mode", "name"), [("reflect", "reflect"), ("edge", "edge"), ("wrap", "wrap")])
def test_padding_of_any_length(mode, name):
    x = np.arange(6, dtype=np.float32).reshape(2, 3)
    pads = np.array([1, 5, 3, 7])
    close(run("Pad", x, pads, mode=mode), np.pad(x, [(1, 3), (5, 7)], name))


def test_padding_cuts_off_where_it_is_negative():
    x = np.arange(6, dtype=np.float32).reshape(2, 3)
    assert run("Pad", x, np.array([0, -1, 1, 0]), np.array(7, np.float32)).tolist() == [[1, 2], [4, 5], [7, 7]]


def test_positions_count_from_the_end_where_they_are_negative():
    assert run("Gather", X, np.array([[-1, 0]]), axis=1).tolist() == X[:, [[-1, 0]]].tolist()
    assert run("Gather", X, np.zeros((0,), np.int64), axis=2).shape == (2, 3, 0)
    assert run("GatherElements", X, np.full((2, 3, 1), -1), axis=2).tolist() == X[:, :, -1:].tolist()
    places = np.array([[0, -1], [1, 0]])
    assert run("GatherND", X, places).tolist() == X[places[:, 0], places[:, 1]].tolist()
    assert run("GatherND", X, np.array([[-1], [0]]), batch_dims=1).tolist() == np.stack([X[0, -1], X[1, 0]]).tolist()
    added = X.copy()
    added[0, -1] += 1
    close(run("ScatterND", X, np.array([[0, -1]]), np.ones((1, 4), np.float32), reduction="add"), added)
    put = X.copy()
    put[:, -1, :] = 5
    close(run("ScatterElements", X, np.full((2, 1, 4), -1), np.full((2, 1, 4), 5, np.float32), axis=1), put)


def test_one_hot_of_what_is_outside_is_off_everywhere():
    got = run("OneHot", np.array([1, -1, 7]), np.array(3), np.array([0, 9], np.int32))
    assert got.tolist() == [[0, 9, 0], [0, 0, 9], [0, 0, 0]]


def test_data_dependent_sizes():
    assert run("NonZero", np.array([[0, 1], [2, 0]])).tolist() == [[0, 1], [1, 0]]
    assert run("Compress", X, np.array([True, False]), axis=1).tolist() == X[:, :1].tolist()
    values, first, inverse, counts = run("Unique", np.array([2, 1, 1, 3]), sorted=0, outputs=4)
    assert [values.tolist(), first.tolist(), inverse.tolist(), counts.tolist()] == [
        [2, 1, 3],
        [0, 1, 3],
        [0, 1, 1, 2],
        [1, 2, 1],
    ]


def test_top_k_of_more_than_there_are_is_an_error():
    values, places = run("TopK", np.array([[1.0, 3, 3]], np.float32), np.array([2]), outputs=2)
    assert (values.tolist(), places.tolist()) == ([[3, 3]], [[1, 2]])
    with pytest.raises(UserError, match="the 9 largest of 3"):
        run("TopK", np.array([[1.0, 3, 3]], np.float32), np.array([9]), outputs=2)


def test_caches_are_written_in_a_circle():
    cache, update = np.zeros((1, 4, 2), np.float32), np.ones((1, 3, 2), np.float32)
    got = run("TensorScatter", cache, update, np.array([2]), mode="circular")
    assert got[0, :, 0].tolist() == [1, 0, 1, 1]
