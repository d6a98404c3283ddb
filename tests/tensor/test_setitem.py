"""Who sees a write: views do, copies and lazy values do not."""

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from tensor.interpreted import interpreted
from whit import Tensor
from whit.dtype import dtypes
from whit.errors import ArgumentError
from whit.ir.uop import UOp
from whit.tensor.family import regroup


@pytest.fixture(autouse=True, scope="module")
def _on_python() -> Iterator[None]:
    with interpreted():
        yield


VIEWS: dict[str, Any] = {
    "slice": lambda x: x[1:],
    "step": lambda x: x[::-2],
    "integer": lambda x: x[1],
    "new axis": lambda x: x[None],
    "dots": lambda x: x[..., 0],
    "all": lambda x: x[:],
    "T": lambda x: x.T,
    "permute": lambda x: x.permute(1, 0),
    "flip": lambda x: x.flip(0),
    "reshape": lambda x: x.reshape(-1),
    "flatten": lambda x: x.flatten(),
    "unsqueeze": lambda x: x.unsqueeze(1),
    "squeeze": lambda x: x.unsqueeze(1).squeeze(),
    "split": lambda x: x.split(1)[2],
    "chunk": lambda x: x.chunk(2, dim=1)[0],
    "diagonal": lambda x: x.diagonal(),
    "detach": lambda x: x.detach(),
    "view of views": lambda x: x.T[1:].flip(1)[0].reshape(3, 1),
}
COPIES: dict[str, Any] = {
    "arithmetic": lambda x: x + 0,
    "clone": lambda x: x.clone(),
    "contiguous": lambda x: x.contiguous(),
    "Tensor": lambda x: Tensor(x),
    "cast": lambda x: x.double(),
    "pad": lambda x: x.pad((1, 0)),
    "negative pad": lambda x: x.pad((-1, 0)),
    "repeat": lambda x: x.repeat(1, 1),
    "cat": lambda x: x.cat(Tensor.ones(0, 2)),
    "positions": lambda x: x[[0, 1]],
    "mask": lambda x: x[x > -1],
    "plus": lambda x: +x,
    "reshape that mixes": lambda x: x.T.reshape(-1),
    "diag": lambda x: x.diag(),
}


@pytest.mark.parametrize("name", VIEWS)
def test_a_view_sees_writes_and_is_seen(name: str) -> None:
    x = Tensor(np.arange(6, dtype=np.float32).reshape(3, 2))
    view = VIEWS[name](x)
    x += 10
    assert min(view.flatten().tolist()) >= 10
    view[...] = -1.0
    assert x.sum().item() == np.sum(x.numpy()) and (x == -1).sum().item() == view.numel()


@pytest.mark.parametrize("name", COPIES)
def test_a_copy_keeps_what_it_has(name: str) -> None:
    x = Tensor(np.arange(6, dtype=np.float32).reshape(3, 2))
    copy = COPIES[name](x)
    before = copy.numpy()
    x += 10
    np.testing.assert_array_equal(copy.numpy(), before)
    copy += 100
    assert x.tolist() == [[10, 11], [12, 13], [14, 15]]


def test_lazy_values_keep_the_old_content() -> None:
    x = Tensor([1, 2, 3])
    double = x * 2
    x[1] = 9
    later = x * 2
    assert (double.tolist(), later.tolist()) == ([2, 4, 6], [2, 18, 6])


def test_overlaps_and_swaps() -> None:
    x = Tensor([1, 2, 3, 4])
    x[1:] = x[:-1]
    assert x.tolist() == [1, 1, 2, 3]
    x[:2], x[2:] = x[2:], x[:2] + 0
    assert x.tolist() == [2, 3, 1, 1]


def test_duplicates_are_not_added_up_but_accumulate_in_index_put() -> None:
    x = Tensor([0, 0, 0])
    x[[1, 1, 2]] += 1
    assert x.tolist() == [0, 1, 1]
    assert x.index_put(([1, 1, 2],), 1, accumulate=True).tolist() == [0, 3, 2]
    x[[0, 0]] = Tensor([5, 6])
    assert x.tolist() == [6, 1, 1]


def test_operators_in_place() -> None:
    x = Tensor([7, 8])
    part = x[1:]
    for change in ("x += 2", "x -= 1", "x *= 3", "x //= 2", "x %= 7", "x **= 2", "x <<= 2", "x >>= 1", "x &= 62",
                   "x |= 1", "x ^= 3"):  # fmt: skip
        array = x.numpy()
        names = {"x": array}
        exec(change, names)
        owner = {"x": x}
        exec(change, owner)
        assert owner["x"] is x
        assert x.tolist() == names["x"].tolist()
        assert part.tolist() == x.tolist()[1:]
    y = Tensor([3.0], dtype=dtypes.half)
    y /= Tensor([2.0])
    assert y.dtype is dtypes.half and y.tolist() == [1.5]
    z = Tensor([[1.0, 1.0], [0.0, 1.0]])
    z @= z
    assert z.tolist() == [[1, 2], [0, 1]]


def test_assign_and_replace() -> None:
    x = Tensor([[1.0, 2.0], [3.0, 4.0]])
    row = x[0]
    assert x.assign(5) is x and row.tolist() == [5, 5]
    x.assign(Tensor([1.0, 2.0]))
    assert x.tolist() == [[1, 2], [1, 2]]
    assert x.replace(Tensor.zeros(2, 2)) is x
    assert x.tolist() == [[0, 0], [0, 0]] and row.tolist() == [1, 2]
    x += 1
    assert row.tolist() == [1, 2]


def test_an_expanded_tensor_is_read_only() -> None:
    x = Tensor([1.0])
    wide = x.expand(3)
    x += 1
    assert wide.tolist() == [2, 2, 2]
    with pytest.raises(ArgumentError, match="repeats elements"):
        wide += 1
    wide.realize()
    del x
    wide.realize()
    with pytest.raises(ArgumentError, match="repeats elements"):
        wide[0] = 1


def test_realising_keeps_views_together() -> None:
    x = Tensor([1.0, 2.0, 3.0]) * 2
    y = x[1:]
    y.realize()
    y[0] = 0
    y.realize()
    x.realize()
    x[2] = 1
    assert (x.tolist(), y.tolist()) == ([2, 0, 1], [0, 1])


def test_many_dead_views_take_no_room() -> None:
    x = Tensor([1.0, 2.0])
    for _ in range(1000):
        x[0]
    assert x._family is not None and len(x._family._members) < 40


@pytest.mark.parametrize("seed", range(300))
def test_reshape_is_a_view_where_numpys_is(seed: int) -> None:
    generator = np.random.default_rng(seed)
    base = np.zeros((2, 3, 4), np.int8)
    view = base.transpose(generator.permutation(3))
    if seed % 3:
        view = view[:, :: generator.choice([1, 2, -1]), generator.integers(0, 2) :]
    shapes = [s for s in ((24,), (6, 4), (4, 6), (2, 12), (3, 8), (12,), (2, 6), (3, 4), (18,), (9, 2), (1, 6), (6,))
              if np.prod(s) == view.size]  # fmt: skip
    for shape in [*shapes, (*view.shape, 1), (1, *view.shape)]:
        found = regroup(view.shape, view.strides, tuple(int(n) for n in shape))
        assert (found is not None) == np.shares_memory(view.reshape(shape), base)


@pytest.mark.parametrize("offset", (-1, 0, 1))
def test_a_reshaped_diagonal_of_repeated_rows_sees_writes(offset: int) -> None:
    array = np.arange(4, dtype=np.int32)
    x = Tensor(array.copy())
    expected = np.diagonal(np.broadcast_to(array, (3, 4)), offset).reshape(-1, 1)
    column = x.expand(3, 4).diagonal(offset).reshape(-1, 1)
    x += 10
    array += 10
    np.testing.assert_array_equal(column.numpy(), expected)


@pytest.mark.parametrize("device", ["CPU", "PYTHON"])
def test_a_write_through_a_reshaped_diagonal(device: str) -> None:
    x = Tensor(np.zeros((3, 4), np.int32), device=device)
    column = x.T.diagonal().reshape(3, 1)
    column[1:] = Tensor(np.array([[5], [6]], np.int32), device=device)
    assert x.tolist() == [[0, 0, 0, 0], [0, 5, 0, 0], [0, 0, 6, 0]]
    column.flip(0).reshape(3).assign(Tensor(np.array([1, 2, 3], np.int32), device=device))
    assert x.tolist() == [[3, 0, 0, 0], [0, 2, 0, 0], [0, 0, 1, 0]]


def test_a_reshaped_part_of_a_diagonal_that_begins_at_a_variable() -> None:
    x = Tensor(np.zeros((3, 4), np.int32))
    start = UOp.variable("start", 0, 1).bind(1)
    part = x.T.diagonal()[start : start + 2].reshape(2, 1)
    part[0] = 5
    assert x.tolist() == [[0, 0, 0, 0], [0, 5, 0, 0], [0, 0, 0, 0]]


@pytest.mark.parametrize("device", ["CPU", "PYTHON"])
def test_a_write_through_a_flip_of_what_was_written_through_it(device: str) -> None:
    x = Tensor(np.array([-1, 0, 1], np.int32), device=device)
    back = x[::-1]
    back += Tensor(np.array([-1, 0, 1], np.int32), device=device)
    back[2] = Tensor(np.array(1, np.int32), device=device)
    assert x.tolist() == [1, 0, 0]


def test_an_expression_whose_memory_was_written_over_is_computed_again() -> None:
    x = Tensor([1, 2, 3]) * 2
    y = x.contiguous()
    assert y.tolist() == [2, 4, 6]
    y[0] = y[2] + 0
    assert y.tolist() == [6, 4, 6]
    assert x.clone().tolist() == [2, 4, 6]


def test_a_change_of_a_realised_view_keeps_its_direction() -> None:
    x = Tensor(np.arange(6, dtype=np.int32).reshape(2, 3), device="PYTHON") * 2
    x[1:] = 1
    back = Tensor(x.flip(1))
    assert back.tolist() == [[4, 2, 0], [1, 1, 1]]
    last, first = back[-1] + 0, back[0] + 0
    back[0] = last
    back[-1] = first
    del last, first
    assert back.tolist() == [[1, 1, 1], [4, 2, 0]]


def test_what_is_kept_for_nothing_is_not_computed() -> None:
    x = Tensor([[1, 2], [3, 4]])
    kept = (x.sum() + 1).contiguous().reshape(1, 1)[:0]
    assert (kept.sum(0) + 1).tolist() == [1]


@pytest.mark.parametrize("key", [(0, slice(None, 0)), slice(0, 0)])
def test_writing_to_no_elements_changes_nothing(key: object) -> None:
    x = Tensor([[1]], dtype="int8")
    x[key] = 7
    x[key] = Tensor.zeros(0, dtype="int8") if isinstance(key, tuple) else Tensor.zeros(0, 1, dtype="int8")
    assert x.tolist() == [[1]]
