"""Gradients of gathers, writes and running extremes, against central differences."""

import pytest

from tests.grad.test_reverse import check, data
from whit import Tensor
from whit.ir import ops
from whit.ir.uop import UOp


@pytest.mark.parametrize("op", [ops.MAX, ops.MIN], ids=["max", "min"])
def test_gradient_of_a_running_extreme_goes_to_where_it_was_met(op: ops.Op) -> None:
    check(lambda x: Tensor._make(x.uop.scan(op, 1)), data(3, 5))
    check(lambda x: Tensor._make(x.uop.scan(op, 0)), data(3, 5))


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
