"""Functions with a gradient that the user gives."""

import gc
from typing import Any

import numpy as np
import pytest

from grad.test_reverse import check, data
from whit import Tensor
from whit.errors import ArgumentError, DTypeError, ShapeError
from whit.ir.uop import live_nodes
from whit.transform import formulas


def small(*values: float) -> Tensor:
    return Tensor(list(values), dtype="double", device="PYTHON")


def sine(x: Tensor) -> Tensor:
    """By NumPy: the graph knows nothing of x."""
    return Tensor(np.sin(x.numpy()), device=x.device)


numpy_sine = Tensor.custom_function(sine, lambda dy, y, x: dy * x.cos())
passing = Tensor.custom_function(lambda x: x.round(), lambda dy, y, x: dy)
numpy_exp = Tensor.custom_function(lambda x: Tensor(np.exp(x.numpy()), device=x.device), lambda dy, y, x: dy * y)


def test_the_value_is_forwards_and_the_gradient_the_users() -> None:
    x = small(0.4, 1.6)
    y = passing(x)
    assert y.tolist() == [0.0, 2.0]
    assert (y * small(3.0, 5.0)).sum().gradient(x)[0].tolist() == [3.0, 5.0]


def test_a_function_by_numpy_against_small_steps() -> None:
    check(numpy_sine, data(2, 3))
    check(lambda x: numpy_sine(x * 2) * x, data(2, 3))
    check(lambda x: numpy_sine(numpy_exp(x)), data(5))


def test_gradients_of_gradients_use_the_rule_of_the_result_too() -> None:
    x = small(0.3, -0.5)
    (first,) = numpy_exp(x * 2).sum().gradient(x)
    (second,) = first.sum().gradient(x)
    (third,) = second.sum().gradient(x)
    np.testing.assert_allclose(third.numpy(), 8 * np.exp([0.6, -1.0]))


def polar(r: Tensor, angle: Tensor, *, turns: int) -> tuple[Tensor, Tensor, Tensor]:
    return (
        Tensor(r.numpy() * np.cos(turns * angle.numpy()), device="PYTHON"),
        Tensor(r.numpy() * np.sin(turns * angle.numpy()), device="PYTHON"),
        (angle * 100).int(),
    )


def polar_gradient(dy: Any, y: Any, r: Tensor, angle: Tensor, *, turns: int) -> tuple[Tensor, Tensor]:
    (dx, dh, none), (x, h, _) = dy, y
    assert none is None
    return (dx * x + dh * h) / r, (dh * x - dx * h) * turns


from_polar = Tensor.custom_function(polar, polar_gradient)


def test_several_results_arguments_by_name_and_results_that_are_no_floats() -> None:
    r, angle = data(2, 3, low=0.5), data(2, 3)
    check(lambda r, angle: from_polar(r, angle, turns=2)[0], r, angle)
    check(lambda r, angle: from_polar(r, angle, turns=2)[1], r, angle)

    def both(r: Tensor, angle: Tensor) -> Tensor:
        x, y, _ = from_polar(r, angle, turns=3)
        return x * y + x

    def slope(r: Tensor, angle: Tensor) -> Tensor:
        return both(r, angle).sum().gradient(angle)[0]

    check(both, r, angle)
    check(slope, r, angle)
    assert from_polar(small(1.0), small(0.5), turns=1)[2].tolist() == [50]


def test_the_gradient_is_asked_for_once_for_all_results() -> None:
    calls = []

    def gradient(dy: Any, y: Any, x: Tensor) -> Tensor:
        calls.append(len(dy))
        return dy[0] + dy[1] * 2

    split = Tensor.custom_function(lambda x: (x + 0, x * 2), gradient)
    x = small(1.0, 2.0)
    a, b = split(x)
    assert (a * b).sum().gradient(x)[0].tolist() == [4.0, 8.0]
    assert calls == [2]


def test_arguments_that_are_no_tensors_or_no_floats_and_tensors_in_lists() -> None:
    def pick(tables: list[Tensor], index: Tensor, scale: float) -> Tensor:
        return tables[0][index] * scale + tables[1][index]

    def gradient(dy: Tensor, y: Tensor, tables: list[Tensor], index: Tensor, scale: float) -> Any:
        zeros = Tensor.zeros(4, dtype="double", device="PYTHON")
        found = zeros.scatter(0, index, dy, reduce="add")
        return found * scale, found, None

    picked = Tensor.custom_function(pick, gradient)
    index = Tensor([1, 1, 3], device="PYTHON")
    check(lambda a, b: picked([a, b], index, 3.0), data(4), data(4, low=-1))


def test_no_gradient_is_zeros() -> None:
    stopped = Tensor.custom_function(lambda x, y: x * y, lambda dy, z, x, y: (None, dy * x))
    x, y = small(2.0), small(3.0)
    dx, dy = stopped(x, y).sum().gradient(x, y)
    assert (dx.item(), dy.item()) == (0.0, 2.0)


def test_backward_fills_grad_through_it() -> None:
    x = small(0.0, 1.0)
    numpy_sine(x).sum().backward()
    np.testing.assert_allclose(x.grad.numpy(), np.cos([0.0, 1.0]))


def test_compiled() -> None:
    x = Tensor([0.25, 1.75])
    (dx,) = (passing(x) * numpy_sine(x)).sum().gradient(x)
    np.testing.assert_allclose(dx.numpy(), np.sin([0.25, 1.75]) + np.round([0.25, 1.75]) * np.cos([0.25, 1.75]), 1e-6)


def test_a_call_leaves_nothing_behind() -> None:
    x = small(1.0, 2.0)

    def once() -> None:
        numpy_sine(x).sum().gradient(x)[0].numpy()

    once()
    gc.collect()
    nodes, rules = live_nodes(), len(formulas._own)
    for _ in range(5):
        once()
    assert (live_nodes(), len(formulas._own)) == (nodes, rules)


WRONG: dict[str, tuple[Any, type[Exception], str]] = {
    "too many": (lambda dy, y, x: (dy, dy), ArgumentError, "the gradient of <lambda> gives 2 for 1 tensors"),
    "no tensor": (lambda dy, y, x: 1.0, ArgumentError, "gives 1.0, which is no tensor"),
    "shape": (lambda dy, y, x: dy.sum(), ShapeError, r"gives shape \(\)"),
    "dtype": (lambda dy, y, x: dy.float(), DTypeError, "gives float32"),
}


@pytest.mark.parametrize("name", WRONG)
def test_wrong_gradients_are_errors(name: str) -> None:
    gradient, kind, message = WRONG[name]
    x = small(1.0, 2.0)
    with pytest.raises(kind, match=message) as error:
        Tensor.custom_function(lambda x: x * 2, gradient)(x).sum().gradient(x)
    assert "tensor" in str(error.value) and str(error.value).count("\n") == 3  # what, with what, where, what to do


def test_wrong_functions_and_results_are_errors() -> None:
    with pytest.raises(ArgumentError, match="custom_function: gradient=3 cannot be called"):
        Tensor.custom_function(lambda x: x, 3)  # type: ignore[arg-type]
    with pytest.raises(ArgumentError, match=r"custom_function: <lambda> gives array\(.*which is no tensor"):
        Tensor.custom_function(lambda x: x.numpy(), lambda dy, y, x: dy)(small(1.0))
    x, both = small(1.0), Tensor.custom_function(lambda x, i: x * i, lambda dy, y, x, i: (dy, dy))
    y = both(x, Tensor([2], device="PYTHON")).sum()
    with pytest.raises(DTypeError, match="for one that is no float"):
        y.gradient(x)
