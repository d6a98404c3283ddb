"""Messages name the user's lines, and mistakes are raised at the call."""

import inspect
from typing import Any

import pytest

from whit import Tensor
from whit.dtype import dtypes
from whit.errors import ArgumentError, DeviceError, DTypeError, ShapeError


def line() -> int:
    frame: Any = inspect.currentframe()
    return int(frame.f_back.f_lineno)


def test_shapes_that_do_not_broadcast() -> None:
    left, first = Tensor.ones(4, 3), line()
    right, second = (
        Tensor.ones(4, 2),
        line(),
    )
    with pytest.raises(ShapeError) as caught:
        left + right
    assert str(caught.value) == (
        "add: shapes (4, 3) and (4, 2) do not broadcast: axis 1 is 3 on the left and 2 on the right\n"
        f"  left made at test_errors.py:{first}, right made at test_errors.py:{second - 1}\n"
        "  Sizes on an axis must be equal, or one of them 1. Reshape or expand one side."
    )


def test_reflected_operands_keep_their_sides() -> None:
    with pytest.raises(ShapeError, match="axis 0 is 2 on the left and 3 on the right"):
        Tensor([1, 2, 3]).add([1, 2], reverse=True)
    with pytest.raises(ShapeError, match=r"where: shapes \(2,\) and \(3,\) do not broadcast: axis 0 is 2 in the cond"):
        Tensor([True, False]).where(Tensor([1, 2, 3]), 0)


def test_the_place_is_where_the_user_called() -> None:
    x = Tensor([[1.0, 2.0]])
    y, wanted = (x * 2).softmax().sum(1).exp(), line()
    with pytest.raises(ShapeError) as caught:
        y.reshape(7)
    assert f"made at test_errors.py:{wanted}" in str(caught.value)


def test_devices_must_be_one() -> None:
    x, y = Tensor([1.0], device="CPU"), Tensor([1.0], device="PYTHON")
    with pytest.raises(DeviceError) as caught:
        x + y
    what, where, fix = str(caught.value).splitlines()
    assert what == "add: operands are on CPU and PYTHON"
    assert "the one on CPU made at test_errors.py:" in where
    assert fix == '  Move one of them: x.to("CPU").'
    for wrong in (lambda: x @ y, lambda: x.cat(y), lambda: x.maximum(y), lambda: (x > 0).where(y, 0)):
        with pytest.raises(DeviceError, match="operands are on CPU and PYTHON"):
            wrong()
    assert (x + Tensor.ones(1, device="PYTHON")).device == "CPU"  # constants are nowhere


@pytest.mark.parametrize(
    "wrong, error, words",
    [
        (lambda x: bool(x), ShapeError, "bool: a tensor of shape (2,) is not one truth value"),
        (lambda x: x.item(), ShapeError, "item: a tensor of shape (2,) is not one number"),
        (lambda x: int(x), ShapeError, "item: a tensor of shape (2,)"),
        (lambda x: len(Tensor(1)), ArgumentError, "len: a tensor of shape () has no length"),
        (lambda x: list(Tensor(1)), ArgumentError, "iter: a tensor of shape ()"),
        (lambda x: range(3)[Tensor(1.0)], DTypeError, "only integers can be used as an index"),
        (lambda x: x & 1, DTypeError, "operands must be integers or bools, and these meet in float32"),
        (lambda x: ~x, DTypeError, "bitwise_not: needs integers or bools, and this is float32(2,)"),
        (lambda x: x.clamp(), ArgumentError, "clamp: neither min_ nor max_ is given"),
        (lambda x: x.div(2, rounding_mode="up"), ArgumentError, "div: there is no rounding_mode 'up'"),
        (lambda x: x + None, ArgumentError, "add: cannot combine a tensor with None"),
        (lambda x: x.pow("a"), ArgumentError, "pow: cannot combine"),
    ],
)
def test_mistakes(wrong: Any, error: type[Exception], words: str) -> None:
    with pytest.raises(error) as caught:
        wrong(Tensor([1.0, 2.0]))
    assert words in str(caught.value)


def test_an_axis_of_a_scalar() -> None:
    with pytest.raises(IndexError, match=r"sum: there is no axis 1 in shape \(\)"):
        Tensor(1.0).sum(1)
    assert Tensor(1.0, dtype=dtypes.half).sum(-1).shape == ()
    x = Tensor(1.0)
    for wrong in (
        lambda: x.size(0),
        lambda: x.split(1),
        lambda: x.chunk(2),
        lambda: x.unflatten(0, (1,)),
        lambda: x.cat(x),
    ):
        with pytest.raises(IndexError, match="there is no axis 0 in shape"):
            wrong()
