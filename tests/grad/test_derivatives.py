"""Derivatives of named functions: against small steps, and finite at the ends of the numbers (see test_extremes.py)."""

import math

import numpy as np
import pytest

from grad.test_reverse import check, data
from whit import Tensor
from whit.transform import FORMULAS

pytestmark = pytest.mark.slow  # many

INSIDE = {
    "erfinv": (-0.9, 0.9),
    "logit": (0.1, 0.9),
    "acosh": (1.2, 4.0),
    "atanh": (-0.8, 0.8),
    "asin": (-0.8, 0.8),
    "acos": (-0.8, 0.8),
}
POSITIVE = ("lgamma", "digamma", "log", "log2", "log10", "sqrt", "rsqrt")
FUNCTIONS = [
    "exp",
    "exp2",
    "expm1",
    "log",
    "log2",
    "log10",
    "log1p",
    "sin",
    "cos",
    "tan",
    "asin",
    "acos",
    "atan",
    "sinh",
    "cosh",
    "tanh",
    "asinh",
    "acosh",
    "atanh",
    "erf",
    "erfc",
    "erfinv",
    "i0",
    "lgamma",
    "digamma",
    "logit",
    "sinc",
    "cbrt",
    "sqrt",
    "rsqrt",
    "sigmoid",
    "logsigmoid",
    "softplus",
    "gelu",
    "silu",
    "mish",
    "relu",
    "relu6",
    "leaky_relu",
    "elu",
    "celu",
    "selu",
    "quick_gelu",
    "hardsigmoid",
    "hardswish",
    "hardtanh",
    "softsign",
    "abs",
    "square",
]


@pytest.mark.parametrize("name", FUNCTIONS)
def test_functions_of_one_number(name: str) -> None:
    low, high = INSIDE.get(name, (0.3, 2.0) if name in POSITIVE else (-0.9, 2.1))
    check(getattr(Tensor, name), data(3, 4, low=low, high=high))


@pytest.mark.parametrize("name", ["exp", "tanh", "sigmoid", "gelu", "softplus", "silu", "log"])
def test_second_derivatives(name: str) -> None:
    def slope(x: Tensor) -> Tensor:
        return getattr(x, name)().sum().gradient(x)[0]

    check(slope, data(5, low=0.3, high=2.0), tolerance=1e-4)


TWO = [
    "logaddexp",
    "logaddexp2",
    "atan2",
    "hypot",
    "xlogy",
    "copysign",
    "fmod",
    "mod",
    "pow",
    "maximum",
    "minimum",
    "div",
]


@pytest.mark.parametrize("name", TWO)
def test_functions_of_two_numbers(name: str) -> None:
    check(getattr(Tensor, name), data(3, 4, low=0.5, high=2.0), data(1, 4, low=0.6, high=1.9))


def test_gelu_of_both_kinds() -> None:
    check(lambda x: x.gelu(approximate="none"), data(6, low=-3.0, high=3.0))
    check(lambda x: x.gelu(approximate="tanh"), data(6, low=-3.0, high=3.0))


# (function, x, value, slope) where a careless formula gives NaN or infinity
EXTREMES = [
    ("gelu", 1e4, 1e4, 1.0),
    ("gelu", -1e4, 0.0, 0.0),
    ("mish", 1e4, 1e4, 1.0),
    ("mish", -1e4, 0.0, 0.0),
    ("elu", 1e4, 1e4, 1.0),
    ("elu", -1e4, -1.0, 0.0),
    ("erf", 1e4, 1.0, 0.0),
    ("atan", 1e30, math.pi / 2, 0.0),
    ("asinh", 1e30, math.log(2e30), 1e-30),
    ("abs", 0.0, 0.0, 0.0),
    ("relu", 0.0, 0.0, 0.0),
    ("exp", -1e4, 0.0, 0.0),
]


@pytest.mark.parametrize(("name", "x", "value", "slope"), EXTREMES, ids=[f"{n}({x})" for n, x, _, _ in EXTREMES])
def test_extreme_values_and_slopes(name: str, x: float, value: float, slope: float) -> None:
    point = Tensor([x], device="PYTHON")
    result = getattr(point, name)()
    (found,) = result.gradient(point, gradient=Tensor([1.0], device="PYTHON"))
    np.testing.assert_allclose(result.numpy(), [value], rtol=1e-6)
    np.testing.assert_allclose(found.numpy(), [slope], rtol=1e-6)


def test_losses_of_probabilities() -> None:
    labels = data(6, low=0.0, high=1.0)
    check(lambda x, y: x.binary_crossentropy_logits(y, "none"), data(6), labels)
    check(lambda p, y: p.binary_crossentropy(y, "none"), data(6, low=0.1, high=0.9), labels)


# those of expressions, which test_restate.py writes in all ways, and those of the losses above
OTHERS = {
    "logaddexp2",
    "xlog1py",
    "times_log",
    "root_of_squares",
    "power_of_squares",
    "crossentropy",
    "crossentropy_logits",
}


def test_second_derivatives_of_powers() -> None:
    """Also where the first one goes on to a function of the power, and at y = 0, where d/dy dx = 1 / x."""
    check(lambda x, y: (x**y).sin().sum().gradient(y)[0], data(3, low=0.5), data(3, low=-1.0), tolerance=1e-4)
    x, y = Tensor([2.0, 0.0, 3.0], device="PYTHON"), Tensor([0.0, 0.0, 1.0], device="PYTHON")
    (dx,) = (x**y).sum().gradient(x)
    assert dx.tolist() == [0.0, 0.0, 1.0]
    np.testing.assert_allclose(dx.sum().gradient(y)[0].numpy()[::2], [0.5, 1 + math.log(3)], rtol=1e-6)


def test_every_formula_is_tested() -> None:
    named = {"truncating_modulo": "fmod", "floor_modulo": "mod", "gelu_tanh": "gelu", "floor_divide": "div"}
    named |= {"bessel_i0": "i0", "bessel_i1": "i0"}
    named |= {"at_least": "clamp", "at_most": "clamp", "saturated": "hardtanh"}  # clamp: test_subgradients.py
    tested = {*FUNCTIONS, *TWO, *OTHERS, "clamp"}
    ours = {name for name, rule in FORMULAS.items() if rule.__module__ == "whit.tensor.graphs.derivatives"}
    assert {named.get(name, name) for name in ours} <= tested
