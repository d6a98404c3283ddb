"""Rearranging, padding, rolling, windows, diagonals, grids: against NumPy, which knows most of them."""

import itertools
from typing import Any

import numpy as np
import pytest

from tensor.check import same, some, value
from whit import Tensor
from whit.dtype import dtypes
from whit.engine.report.counters import GlobalCounters
from whit.errors import ArgumentError, OutOfRangeError, ShapeError

pytestmark = pytest.mark.slow  # many

X = np.arange(24, dtype=np.int32).reshape(2, 3, 4)

NUMPY_MODES = {"reflect": "reflect", "replicate": "edge", "circular": "wrap"}


@pytest.mark.parametrize("mode", NUMPY_MODES)
@pytest.mark.parametrize("size", (1, 2, 3, 4))
@pytest.mark.parametrize("pads", [(0, 1), (1, 0), (2, 2), (3, 1), (5, 9), (1, 8), (11, 0)], ids=str)
def test_pad_modes_are_numpys_for_any_length(mode: str, size: int, pads: Any) -> None:
    x = np.arange(2 * size).reshape(2, size)
    same(Tensor(x).pad(((0, 0), pads), mode), np.pad(x, ((0, 0), pads), NUMPY_MODES[mode]))
    same(Tensor(x.T).pad((pads, (1, 1)), mode), np.pad(x.T, (pads, (1, 1)), NUMPY_MODES[mode]))


@pytest.mark.parametrize("mode", ("constant", *NUMPY_MODES))
def test_negative_padding_cuts_off_first(mode: str) -> None:
    x = np.arange(6)
    kwargs = {"mode": NUMPY_MODES[mode]} if mode != "constant" else {}
    same(Tensor(x).pad((-2, 3), mode), np.pad(x[2:], (0, 3), **kwargs))
    same(Tensor(x).pad((1, -1), mode), np.pad(x[:-1], (1, 0), **kwargs))
    same(Tensor(x).pad((-2, -4), mode), x[2:2])
    with pytest.raises(ShapeError, match="takes more than axis 0"):
        Tensor(x).pad((-4, -3), mode)


def test_pad_of_nothing_and_of_unknown_modes() -> None:
    for mode in NUMPY_MODES:
        with pytest.raises(ShapeError, match="which has no elements"):
            Tensor.zeros(0).pad((1, 1), mode)
        same(Tensor.zeros(0).pad((0, 0), mode), np.zeros(0))
    with pytest.raises(ArgumentError, match="there is no mode 'mirror'"):
        Tensor([1]).pad((1, 1), "mirror")


@pytest.mark.parametrize("mode", ("constant", *NUMPY_MODES))
def test_pad_is_one_kernel(mode: str) -> None:
    x = Tensor.ones(4, 5).contiguous().realize()
    GlobalCounters.reset()
    x.pad(((1, 2), (3, 1)), mode).realize()
    assert GlobalCounters.kernel_count == 1


REARRANGED: list[tuple[str, dict[str, int], Any]] = [
    ("a b c -> a b c", {}, X),
    ("a b c -> c a b", {}, X.transpose(2, 0, 1)),
    ("a b c -> (a b) c", {}, X.reshape(6, 4)),
    ("a b c -> a (c b)", {}, X.transpose(0, 2, 1).reshape(2, 12)),
    ("a b (c d) -> a b c d", {"c": 2}, X.reshape(2, 3, 2, 2)),
    ("a b (c d) -> d (a c) b", {"d": 2}, X.reshape(2, 3, 2, 2).transpose(3, 0, 2, 1).reshape(2, 4, 3)),
    ("a b c -> a 1 b 1 c", {}, X.reshape(2, 1, 3, 1, 4)),
    ("a ... -> ... a", {}, X.transpose(1, 2, 0)),
    ("... c -> (...) c", {}, X.reshape(6, 4)),
    ("a ... c -> c (a ...)", {}, X.transpose(2, 0, 1).reshape(4, 6)),
    ("(a z) b c -> a b c z ", {"z": 1}, X.reshape(2, 3, 4, 1)),
    ("(b1 b2) h_1 w -> (b2 b1) h_1 w", {"b1": 2}, X),
    ("a b c -> (a b c)", {}, X.reshape(24)),
    ("... -> ...", {}, X),
]


@pytest.mark.parametrize("formula, sizes, expected", REARRANGED, ids=lambda v: v if isinstance(v, str) else "")
def test_rearrange(formula: str, sizes: dict[str, int], expected: Any) -> None:
    same(Tensor(X).rearrange(formula, **sizes), expected)


def test_rearrange_removes_and_adds_axes_of_one() -> None:
    same(Tensor(X).unsqueeze(1).rearrange("a 1 b c -> b (a c)"), X.transpose(1, 0, 2).reshape(3, 8))
    same(Tensor(5).rearrange("-> 1 1"), [[5]])
    same(Tensor([[5]]).rearrange("1 () -> "), 5)


@pytest.mark.parametrize(
    "formula, sizes, words",
    [
        ("a b c", {}, "there is not one arrow"),
        ("a b c -> a -> b", {}, "there is not one arrow"),
        ("a b -> b a", {}, "2 axes are named for a tensor of 3"),
        ("a b c d -> a b c d", {}, "4 axes are named for a tensor of 3"),
        ("a b c -> a b", {}, "c stands on one side only"),
        ("a b c -> a b c d", {}, "d stands on one side only"),
        ("a a b -> a b", {}, "a name stands twice"),
        ("a (b c -> a b c", {}, "a parenthesis is not closed"),
        ("a b) c -> a b c", {}, "closed and not opened"),
        ("a (b (c)) -> a b c", {}, "parentheses are nested"),
        ("a b c -> a b ?", {}, "'?' is no name"),
        ("(a ...) b -> a b ...", {}, "in parentheses on the left"),
        ("a b (c d) -> a b c d", {}, "for an axis of size 4"),
        ("a b (c d) -> a b c d", {"c": 3}, "for an axis of size 4"),
        ("a b c -> a b c", {"c": 3}, "for an axis of size 4"),
        ("a b c -> a b c", {"e": 3}, "e=3 is no axis on the left"),
        ("a 1 c -> a c", {}, "for an axis of size 3"),
    ],
)
def test_wrong_formulas(formula: str, sizes: dict[str, int], words: str) -> None:
    with pytest.raises(ValueError, match="rearrange: ") as caught:
        Tensor(X).rearrange(formula, **sizes)
    assert words in str(caught.value)
    assert "made at test_arrange.py" in str(caught.value)


@pytest.mark.parametrize("shift", (-5, -1, 0, 1, 2, 7))
@pytest.mark.parametrize("dims", (None, 0, 1, -1, (0, 2)), ids=str)
def test_roll(shift: int, dims: Any) -> None:
    same(Tensor(X).roll(shift, dims), np.roll(X, shift, dims))


def test_roll_by_several_and_of_nothing() -> None:
    same(Tensor(X).roll((1, 2), (0, 2)), np.roll(X, (1, 2), (0, 2)))
    same(Tensor(X).roll((1, 1), (2, 2)), np.roll(X, 2, 2))
    same(Tensor.zeros(0, 2).roll(1, 0), np.zeros((0, 2)))
    with pytest.raises(ArgumentError, match="2 shifts for 1 axes"):
        Tensor(X).roll((1, 2), 0)


@pytest.mark.parametrize("dim", (None, 0, 1, -1), ids=str)
def test_repeat_interleave(dim: Any) -> None:
    for count in (0, 1, 3):
        same(Tensor(X).repeat_interleave(count, dim), np.repeat(X, count, dim))
    counts = [i % 3 for i in range(X.size if dim is None else X.shape[dim])]
    same(Tensor(X).repeat_interleave(counts, dim), np.repeat(X, counts, dim))
    same(Tensor(X).repeat_interleave(Tensor(counts), dim), np.repeat(X, counts, dim))
    zeros = [0] * len(counts)
    same(Tensor(X).repeat_interleave(zeros, dim), np.repeat(X, zeros, dim))
    with pytest.raises(ArgumentError, match=r"repeats \[1, 2\] for axis"):
        Tensor(X).repeat_interleave([1, 2], 1)


@pytest.mark.parametrize("dim", (0, 1, -1))
def test_unfold_has_all_windows_in_the_last_axis(dim: int) -> None:
    x = np.arange(5 * 6 * 7).reshape(5, 6, 7)
    for size, step in itertools.product((1, 2, 3, 5), (1, 2, 3)):
        view = np.lib.stride_tricks.sliding_window_view(x, size, axis=dim)
        starts = [slice(None)] * 4
        starts[dim % 3] = slice(None, None, step)
        same(Tensor(x).unfold(dim, size, step), view[tuple(starts)])
    for size, step in ((0, 1), (9, 1), (2, 0)):
        with pytest.raises(ShapeError, match=f"unfold: windows of {size}, {step} apart"):
            Tensor(x).unfold(dim, size, step)


@pytest.mark.parametrize("offset", range(-5, 6))
@pytest.mark.parametrize("shape", [(3, 3), (2, 5), (5, 2), (1, 1), (0, 3), (2, 3, 4)], ids=str)
def test_diagonal(shape: Any, offset: int) -> None:
    x = np.arange(np.prod(shape)).reshape(shape)
    for first, second in itertools.permutations(range(len(shape)), 2):
        same(Tensor(x).diagonal(offset, first, second), np.diagonal(x, offset, first, second))


@pytest.mark.parametrize("offset", (-2, -1, 0, 1, 3))
@pytest.mark.parametrize("size", (0, 1, 4))
def test_diag_makes_a_matrix_and_takes_a_diagonal(size: int, offset: int) -> None:
    x = np.arange(1, size + 1)
    same(Tensor(x).diag(offset), np.diag(x, offset))
    y = np.arange(12).reshape(3, 4)
    same(Tensor(y).diag(offset), np.diag(y, offset))


@pytest.mark.parametrize("indexing", ("ij", "xy"))
def test_meshgrid(indexing: Any) -> None:
    vectors = [np.arange(2), np.arange(3) * 10, np.arange(4) * 100]
    for count in (1, 2, 3):
        given = [Tensor(v) for v in vectors[:count]]
        grids = np.meshgrid(*vectors[:count], indexing=indexing)
        for found, expected in zip(given[0].meshgrid(*given[1:], indexing=indexing), grids, strict=True):
            same(found, expected)
    with pytest.raises(ArgumentError, match="there is no indexing 'yx'"):
        Tensor([1]).meshgrid(indexing="yx")
    with pytest.raises(ShapeError, match="is no vector"):
        Tensor([[1]]).meshgrid()


def test_orders_of_axes() -> None:
    t = Tensor(X)
    same(t.ravel(), X.ravel())
    same(Tensor.zeros(0, 3).ravel(), np.zeros(0))
    same(t.swapaxes(0, -1), X.swapaxes(0, -1))
    same(t.moveaxis(0, -1), np.moveaxis(X, 0, -1))
    same(t.moveaxis((0, 1), (-1, 0)), np.moveaxis(X, (0, 1), (-1, 0)))
    same(t.movedim(2, 0), np.moveaxis(X, 2, 0))
    same(t[0, 0].broadcast_to(2, 4), np.broadcast_to(X[0, 0], (2, 4)))
    for k in range(-1, 6):
        same(t.rot90(k), np.rot90(X, k))
        same(t.rot90(k, (2, 1)), np.rot90(X, k, (2, 1)))
    for axis in (0, 1, -1):
        for found, expected in zip(t.unbind(axis), np.moveaxis(X, axis, 0), strict=True):
            same(found, expected)
    with pytest.raises(ArgumentError, match="2 axes to 1 places"):
        t.moveaxis((0, 1), 0)
    with pytest.raises(OutOfRangeError, match="names an axis twice"):
        t.moveaxis((0, 0), (0, 1))


@pytest.mark.parametrize("repeats", [2, (2,), (1, 3), (2, 1, 2), (2, 1, 1, 2), (0, 1)], ids=str)
def test_tile(repeats: Any) -> None:
    same(Tensor(X).tile(repeats), np.tile(X, repeats))


def test_lists_of_tensors_are_tensors_to_join() -> None:
    a, b = Tensor([1, 2]), Tensor([3, 4])
    same(Tensor.cat([a, b]), [1, 2, 3, 4])
    same(Tensor.stack((a, b), dim=1), [[1, 3], [2, 4]])
    same(Tensor.cat(a, b), [1, 2, 3, 4])


@pytest.mark.parametrize("dtype", dtypes.scalars, ids=str)
def test_bits_stay_as_they_are(dtype: Any) -> None:
    x = some(dtype, (3, 4))
    t = Tensor(x)
    for moved, expected in (
        (t.roll(1, 1), np.roll(x, 1, 1)),
        (t.pad((1, 2), "reflect"), np.pad(x, ((0, 0), (1, 2)), "reflect")),
        (t.diagonal(), np.diagonal(x)),
        (t.rearrange("a b -> (b a)"), x.T.ravel()),
    ):
        assert moved.dtype is dtype
        assert value(moved).tobytes() == np.ascontiguousarray(expected).tobytes()


def test_axes_are_spelled_both_ways() -> None:
    a, b = Tensor(X), Tensor(X + 100)
    same(a.cat(b, axis=1), np.concatenate([X, X + 100], 1))
    same(a.stack(b, axis=2), np.stack([X, X + 100], 2))
    same(Tensor.cat([a, b], axis=-1), np.concatenate([X, X + 100], -1))
    same(a.roll(1, axis=2), np.roll(X, 1, 2))
    same(a[:1].squeeze(axis=0), X[0])
    same(a.split(1, axis=2)[1], X[:, :, 1:2])
    with pytest.raises(ArgumentError, match="both axis=0 and dim=1"):
        a.squeeze(1, axis=0)
