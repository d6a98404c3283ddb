"""Gradients of gathers, writes and running extremes, against central differences."""

import pytest

from grad.test_reverse import check, data
from whit import Tensor, dtypes
from whit.ir import ops
from whit.ir.uop import UOp


@pytest.mark.parametrize("op", [ops.MAX, ops.MIN], ids=["max", "min"])
def test_gradient_of_a_running_extreme_goes_to_where_it_was_met(op: ops.Op) -> None:
    check(lambda x: Tensor._make(x.uop.scan(op, 1)), data(3, 5))
    check(lambda x: Tensor._make(x.uop.scan(op, 0)), data(3, 5))
    check(lambda x: Tensor._make(x.uop.scan(op, 1)), data(3, 0))


def test_gradient_of_a_gather_adds_up() -> None:
    places = UOp.stack(*(UOp.const(UOp.arange(1).dtype, i) for i in (2, 0, 2)))
    check(lambda x: Tensor._make(x.uop.index(places)), data(4, 2))


@pytest.mark.parametrize("combine", [None, "add", "mul", "max", "min"])
def test_gradient_of_a_write(combine: str | None) -> None:
    def write(x: Tensor, v: Tensor) -> Tensor:
        place = x.uop.shrink([(1, 2), (0, 2)])
        return Tensor._make(x.uop.after(place.store(v.uop, combine=ops.OPS[combine] if combine else None)))

    check(write, data(4, 2), data(2, 2, low=-1.9))


@pytest.mark.parametrize("combine", ["add", "mul", "max", "min"])
def test_gradient_of_a_scatter_with_equal_positions(combine: str) -> None:
    places = UOp.stack(*(UOp.const(UOp.arange(1).dtype, i) for i in (2, 0, 2)))

    def scatter(x: Tensor, v: Tensor) -> Tensor:
        return Tensor._make(x.uop.after(x.uop.store(v.uop, places, combine=ops.OPS[combine])))

    check(scatter, data(4, 2), data(3, 2, low=-1.7, high=1.7))


def test_of_values_written_to_one_place_the_last_one_gets_the_gradient() -> None:
    places = UOp.stack(*(UOp.const(UOp.arange(1).dtype, i) for i in (2, 0, 2)))

    def write(x: Tensor, v: Tensor) -> Tensor:
        return Tensor._make(x.uop.after(x.uop.store(v.uop, places)))

    check(write, data(4, 2), data(3, 2, low=-1.7))
    check(write, data(4, 2), data())  # one number, written to all of them
    gate = UOp.stack(*(UOp.const(dtypes.bool, yes) for yes in (True, True, False)))

    def gated(x: Tensor, v: Tensor) -> Tensor:
        return Tensor._make(x.uop.after(x.uop.store(v.uop, places, gate=gate)))

    check(gated, data(4, 2), data(3, 2, low=-1.7))


def test_of_elements_set_twice_the_last_one_gets_the_gradient() -> None:
    x, v = Tensor.zeros(4), Tensor([1.0, 2.0, 3.0])
    x[[1, 3, 1]] = v
    assert (x * Tensor([1.0, 10.0, 100.0, 1000.0])).sum().gradient(v)[0].tolist() == [0.0, 1000.0, 10.0]
