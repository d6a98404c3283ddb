"""Stores to parts of params and scatters: the schedule does what the graph says, in as few kernels as it should."""

from collections.abc import Callable

import numpy as np
import pytest

from whit.dtype import DType, dtypes
from whit.errors import ArgumentError, NotSupportedError, ShapeError
from whit.ir import ops
from whit.ir.check.verify import verify
from whit.ir.interpret import numpy_dtype, run
from whit.ir.op import KERNEL, SCHEDULE
from whit.ir.uop import UOp, const
from whit.schedule import schedule
from whit.schedule.writes.effects import views_of


def param(slot: int, *shape: int, dtype: DType = dtypes.float32) -> UOp:
    return UOp.param(slot, dtype, shape)


def data_for(graph: UOp) -> dict[UOp, np.ndarray]:
    generator = np.random.default_rng(1)
    found = {}
    for node in graph.topological():
        if node.op is ops.PARAM:
            if node.dtype.is_float:
                found[node] = generator.standard_normal(node.shape).astype(numpy_dtype(node.dtype))
            else:
                found[node] = generator.integers(0, 3, node.shape).astype(numpy_dtype(node.dtype))
    return found


def compared(*stores: UOp, tolerance: float = 0.0) -> UOp:
    """The schedule, which does what the graph does, and changes nothing but its targets."""
    graph = UOp.group(*stores)
    linear = schedule(graph)
    verify(linear, SCHEDULE)
    for call in linear.src:
        verify(call.src[0].src[0], KERNEL)
    expected = data_for(graph)
    found = {node: array.copy() for node, array in expected.items()}
    before = {node: array.copy() for node, array in expected.items()}
    targets = {views_of(store.src[0])[1] for store in stores}
    run(graph, expected)
    run(linear, found)
    for node, array in expected.items():
        wanted = array if node in targets else before[node]
        np.testing.assert_allclose(found[node], wanted, rtol=tolerance, atol=tolerance, err_msg=node.short())
    return linear


def check(*stores: UOp) -> int:
    """Compares the schedule with the graph; the number of kernels."""
    return len(compared(*stores).src)


def every(x: UOp, step: int) -> UOp:
    """x[::step]"""
    (size,) = x.shape
    count = -(-size // step)
    padded = x.shrink([(0, (count - 1) * step + 1)]).pad([(0, count * step - (count - 1) * step - 1)])
    return padded.reshape((count, step)).shrink([(0, count), (0, 1)]).reshape((count,))


X, Y = param(0, 12), param(1, 12)
A = param(2, 4, 6)

VIEWS: dict[str, Callable[[UOp], UOp]] = {
    "all": lambda x: x,
    "part": lambda x: x.shrink([(2, 5)]),
    "one": lambda x: x.shrink([(7, 1)]),
    "flipped": lambda x: x.flip((0,)).shrink([(1, 4)]),
    "every third": lambda x: every(x, 3),
    "every fifth": lambda x: every(x, 5),
    "column": lambda x: x.reshape((3, 4)).shrink([(0, 3), (2, 1)]),
    "transposed": lambda x: x.reshape((3, 4)).permute((1, 0)),
    "split": lambda x: x.reshape((2, 3, 2)).shrink([(0, 2), (1, 2), (0, 1)]),
    "bits": lambda x: x.bitcast(dtypes.int32).shrink([(3, 4)]),
    "nothing": lambda x: x.shrink([(3, 0)]),
    "scalar": lambda x: x.shrink([(3, 1)]).reshape(()),
}


@pytest.mark.parametrize("name", list(VIEWS))
def test_a_store_to_a_view(name: str) -> None:
    target = VIEWS[name](X)
    value = UOp.param(5, target.dtype, target.shape)
    assert check(target.store(value + value)) == (0 if name == "nothing" else 1)


@pytest.mark.parametrize("name", [name for name in VIEWS if name != "nothing"])
def test_an_update_of_a_view_by_itself_is_one_kernel(name: str) -> None:
    target = VIEWS[name](X)
    assert check(target.store(target + const(target.dtype, 1))) == 1


@pytest.mark.parametrize("name", [name for name in VIEWS if name != "bits"])
def test_a_combining_store_to_a_view(name: str) -> None:
    target = VIEWS[name](X)
    value = UOp.param(5, target.dtype, target.shape)
    assert check(target.store(value, combine=ops.ADD)) <= 1


def test_a_number_into_a_view_and_under_a_mask() -> None:
    assert check(X.shrink([(2, 5)]).store(const(dtypes.float32, 3))) == 1
    assert check(X.store(const(dtypes.float32, 3), gate=Y < 0.0)) == 1
    assert check(X.shrink([(2, 5)]).store(Y.shrink([(0, 5)]), gate=Y.shrink([(7, 5)]) < 0.0)) == 1
    assert check(X.store(X * 2, gate=X < 0.0, combine=ops.ADD)) == 1


def test_what_is_read_elsewhere_is_kept_first() -> None:
    assert check(X.shrink([(1, 11)]).store(X.shrink([(0, 11)]))) == 2
    assert check(X.store(X.flip((0,)))) == 2
    assert check(A.shrink([(0, 4), (0, 4)]).store(A.shrink([(0, 4), (1, 4)]).permute((1, 0)))) == 2
    assert check(X.store(X.reduce(ops.ADD, (0,)).reshape((1,)).expand((12,)) + X)) == 2


def test_what_is_read_beside_the_target_needs_no_copy() -> None:
    assert check(X.shrink([(0, 6)]).store(X.shrink([(6, 6)]))) == 1
    assert check(every(X, 2).store(every(X.shrink([(1, 11)]).pad([(0, 1)]), 2))) <= 2
    assert check(A.shrink([(0, 4), (0, 1)]).store(A.shrink([(0, 4), (1, 1)]) * 2)) == 1


def test_swaps() -> None:
    first, last = X.shrink([(0, 6)]), X.shrink([(6, 6)])
    assert check(first.store(last), last.store(first)) == 2
    assert check(X.store(Y), Y.store(X)) == 3
    assert check(X.store(Y + 1.0), Y.store(X + Y)) == 3


def test_others_read_what_was_there_before() -> None:
    out = param(7, 12)
    assert check(X.shrink([(2, 5)]).store(Y.shrink([(0, 5)])), out.store(X * 2)) == 2
    assert check(out.store(X * 2), X.store(X + 1.0)) == 2
    assert check(X.store(Y + 1.0), out.store(X)) == 2
    total = param(8)
    assert check(X.store(X * 2), total.store(X.reduce(ops.ADD, (0,)))) == 2


def test_a_store_after_a_store() -> None:
    once = X.after(X.shrink([(0, 4)]).store(Y.shrink([(0, 4)])))
    twice = once.after(once.shrink([(2, 4)]).store(once.shrink([(0, 4)]) + 1.0))
    assert check(X.store(twice)) == 3
    out = param(7, 12)
    assert check(out.store(once * 2)) == 1
    assert check(out.store(twice)) <= 2
    assert check(X.store(twice), out.store(once)) <= 4
    assert check(X.store(once), out.store(once + X)) <= 3


def ten_slices(x: UOp, y: UOp, sizes: list[int]) -> UOp:
    start = 0
    for i, size in enumerate(sizes):
        x = x.after(x.shrink([(start, size)]).store(y.shrink([(start, size)]) * float(i + 3)))
        start += size
    return x


def test_ten_slices_are_one_kernel() -> None:
    x, y = param(0, 100), param(1, 100)
    out = param(2, 100)
    for sizes in ([10] * 10, [3, 7, 10, 10, 5, 15, 20, 1, 9, 10], [1] * 10):
        assert check(x.store(ten_slices(x, y, sizes))) == 1
        assert check(out.store(ten_slices(x, y, sizes))) <= 2


def test_slices_that_overlap() -> None:
    x, y = param(0, 40), param(1, 40)
    new = x
    for i in range(10):
        new = new.after(new.shrink([(3 * i, 8)]).store(y.shrink([(i, 8)])))
    assert check(x.store(new)) <= 2
    assert check(param(2, 40).store(new)) <= 2


@pytest.mark.parametrize("combine", [None, ops.ADD, ops.MUL, ops.MAX, ops.MIN], ids=str)
def test_scatter(combine: ops.Op | None) -> None:
    rows, value = param(3, 9, dtype=dtypes.int32), param(4, 9, 6)
    assert check(A.store(value, rows, combine=combine)) == 1
    assert check(A.store(value, rows, combine=combine, gate=value.shrink([(0, 9), (0, 1)]).reshape((9,)) < 0.0)) == 1
    out = param(7, 4, 6)
    assert check(out.store(A.after(A.store(value, rows, combine=combine)))) == 2
    zeros = const(dtypes.float32, 0).reshape((1, 1)).expand((4, 6))
    assert check(out.store(zeros.after(zeros.store(value, rows, combine=combine)))) == 2
    columns = A.permute((1, 0))
    assert check(columns.store(param(5, 9, 4), rows, combine=combine)) == 1
    both = param(6, 9, dtype=dtypes.int32)
    assert check(A.store(param(5, 9), rows, both, combine=combine)) == 1
    assert check(A.store(const(dtypes.float32, 2), rows, combine=combine)) == 1


def test_scatter_of_what_is_read_there() -> None:
    rows = param(3, 9, dtype=dtypes.int32)
    assert check(A.store(A.index(rows) + 1.0, rows)) == 2
    values = param(3, 9, dtype=dtypes.int32)
    assert check(values.store(values * 2, values)) == 2


def test_the_rest_of_a_scatter_and_a_reduction() -> None:
    rows, value = param(3, 9, dtype=dtypes.int32), param(4, 9, 6, 5)
    out = param(7, 4)
    changed = A.after(A.store(value.reduce(ops.ADD, (2,)), rows, combine=ops.ADD))
    assert check(out.store(changed.reduce(ops.ADD, (1,)))) <= 4


def test_targets_that_are_none() -> None:
    with pytest.raises(ArgumentError, match="repeats elements"):
        schedule(UOp.group(X.reshape((1, 12)).expand((2, 12)).store(param(5, 2, 12))))
    with pytest.raises(ArgumentError, match="not in memory"):
        schedule(UOp.group(X.pad([(1, 1)]).store(param(5, 14))))
    with pytest.raises(ShapeError, match="a value of shape"):
        schedule(UOp.group(A.store(param(5, 3, 5), param(3, 3, dtype=dtypes.int32))))
    with pytest.raises(NotSupportedError, match="in memory of float32"):
        schedule(UOp.group(X.bitcast(dtypes.int32).store(param(5, 12, dtype=dtypes.int32), combine=ops.ADD)))


@pytest.mark.slow
def test_a_thousand_stores_take_linear_time() -> None:
    x, y = param(0, 1000), param(1, 1000)
    new = x
    for i in range(1000):
        new = new.after(new.shrink([(i, 1)]).store(y.shrink([(999 - i, 1)])))
    assert check(x.store(new)) == 42
