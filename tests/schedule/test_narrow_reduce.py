"""Reductions that are the same along an axis are computed once."""

from __future__ import annotations

import numpy as np
import pytest

from whit import Tensor, nn
from whit.dtype import dtypes
from whit.ir import ops
from whit.ir.interpret import evaluate
from whit.ir.rewrite import rewrite
from whit.ir.uop import UOp, const
from whit.schedule.rewrites.narrow_reduce import LEAST, LEAST_SAVED, NARROW_REDUCE

K, N, M = 64, 32, 48


def param(slot: int, *shape: int) -> UOp:
    return UOp.param(slot, dtypes.float32, shape)


def narrowed(value: UOp, *axes: int) -> UOp:
    """The reduction that is left, and values as before."""
    node = value.reduce(ops.ADD, axes)
    found = rewrite(node, NARROW_REDUCE, once=True)
    params = [n for n in node.topological() if n.op is ops.PARAM]
    given = {p: np.random.default_rng(p.arg.slot).integers(-9, 9, p.shape).astype(np.float32) for p in params}
    np.testing.assert_array_equal(evaluate(found, given), evaluate(node, given))
    return found


def reduced_elements(graph: UOp) -> int:
    (reduction,) = [node for node in graph.topological() if node.op is ops.REDUCE]
    return int(np.prod(reduction.src[0].shape))


def test_a_sum_of_what_is_repeated_is_repeated() -> None:
    rows = param(0, K, N).reshape((1, K, N)).expand((M, K, N))
    assert reduced_elements(narrowed(rows, 1)) == K * N
    ones = const(dtypes.float32, 2.0).reshape((1, 1, 1)).expand((M, K, N))
    assert reduced_elements(narrowed(rows * ones + 1.0, 1)) == K * N


def test_views_are_looked_through() -> None:
    x = param(0, K, N)
    turned = x.reshape((K, 1, N)).expand((K, M, N)).permute((1, 2, 0))
    assert reduced_elements(narrowed(turned, 2)) == K * N
    apart = x.reshape((K, 1, N)).expand((K, M, N)).reshape((8, 8, M, 4, 8)).permute((2, 0, 1, 3, 4))
    assert reduced_elements(narrowed(apart, 1, 2)) == K * N
    both = x.reshape((1, 1, K, N)).expand((6, 8, K, N)).cast(dtypes.float64)
    assert reduced_elements(narrowed(both, 2)) == K * N


def test_what_differs_is_left() -> None:
    rows, columns = param(0, 1, K, N).expand((M, K, N)), param(1, M, K, 1).expand((M, K, N))
    for value in (rows * columns, rows.pad([(1, 0), (0, 0), (0, 0)]), rows.reshape((M * K, N)).reshape((K, M, N))):
        assert narrowed(value, 1).op is ops.REDUCE
    few = param(0, 1, K, N).expand((LEAST - 1, K, N))
    assert narrowed(few, 1).op is ops.REDUCE
    small = param(0, 1, 8, 8).expand((LEAST_SAVED // 64, 8, 8))
    assert narrowed(small, 1).op is ops.REDUCE


def test_only_axes_that_are_the_same_are_narrowed() -> None:
    value = param(0, 1, K, N, 1).expand((8, K, N, 16)) * param(1, 1, 1, 1, 16).expand((8, K, N, 16))
    assert reduced_elements(narrowed(value, 1)) == K * N * 16


@pytest.mark.parametrize("layer", [nn.Linear(32, 24), nn.Conv2d(32, 24, 1)], ids=["linear", "convolution"])
def test_the_gradient_of_a_weight_under_a_sum_is_summed_once(layer: nn.Linear | nn.Conv2d) -> None:
    x = Tensor.rand(64, 32) if isinstance(layer, nn.Linear) else Tensor.rand(4, 32, 8, 8)
    (dw,) = layer(x).sum().gradient(layer.weight)
    wanted = x.numpy().sum(0) if isinstance(layer, nn.Linear) else x.numpy().sum((0, 2, 3)).reshape(32, 1, 1)
    np.testing.assert_allclose(dw.numpy(), np.broadcast_to(wanted, dw.shape), rtol=1e-5)
