"""Several reductions in one kernel, over views of shared tensors: results are those of NumPy, to the bit."""

import numpy as np
import pytest

from fuzz.reductions import make_program, problem_of
from whit import Tensor

BATCH, COUNT = 40, 160


def test_sum_of_inserted_zeros_beside_another_sum() -> None:
    g, z = Tensor.ones(4, 2, 2).contiguous().realize(), Tensor.ones(4, 4, 4).contiguous().realize()
    y = g.reshape(4, 2, 1, 2, 1).pad((None, None, (0, 1), None, (0, 1))).reshape(4, 4, 4)
    a, b = z.sum((1, 2)), y.sum((1, 2))
    Tensor.realize(a, b)
    assert (a.tolist(), b.tolist()) == ([16.0] * 4, [4.0] * 4)


def test_sums_of_joined_and_of_repeated_columns_in_one_number() -> None:
    numbers = np.random.default_rng(0)
    x, y, a, b = (numbers.integers(-3, 4, s).astype(np.float32) for s in ((8, 8), (8, 8), (8, 16), (8, 16)))
    tx, ty, ta, tb = (Tensor(each) for each in (x, y, a, b))
    found = ((tx.cat(tx, dim=1) * ta).sum() + (ty.repeat_interleave(2, 1) * tb).sum()).item()
    assert found == (np.concatenate([x, x], 1) * a).sum() + (np.repeat(y, 2, 1) * b).sum()


def test_a_reduction_of_reductions_shares_a_range_with_one_that_has_lanes() -> None:
    x, w = np.arange(8, dtype=np.float32).reshape(2, 4), np.array([3, -1], np.float32)
    tx, tw = Tensor(x).realize(), Tensor(w).realize()
    found = (tx.max(1).sum() + (tw * (tw.sum() + tx.sum())).max().reshape(1).expand(2).sum()).item()
    assert found == x.max(1).sum() + 2 * (w * (w.sum() + x.sum())).max()


def test_ranges_are_not_merged_for_one_reduction_where_another_has_one_of_them() -> None:
    x = np.arange(288, dtype=np.float32).reshape(24, 12) % 5 + 3
    y = (np.arange(72, dtype=np.float32) % 5 + 1).reshape(6, 2, 6)
    tx, ty = Tensor(x).realize(), Tensor(y).realize()
    least = tx.min().reshape(1)
    found = (least.cat(least).sum() + (ty * ty).min(0).sum()).item()
    assert found == 2 * x.min() + (y * y).min(0).sum()


@pytest.mark.slow
@pytest.mark.parametrize("first", range(0, COUNT, BATCH))
def test_programs(first: int) -> None:
    assert not [p for p in map(problem_of, map(make_program, range(first, first + BATCH))) if p]
