"""Functions of float64 are as exact as float64: no constant of theirs is a rounded one."""

import math
from collections.abc import Callable

import numpy as np
import pytest

from whit import Tensor

ALPHA, GAMMA = 1.6732632423543772848, 1.0507009873554804934  # of Klambauer et al., 2017
X = [-37.5, -20.0, -5.0, -2.5, -1.0, -0.5, -1e-3, -1e-9, 0.0, 1e-9, 1e-3, 0.3, 0.5, 1.0, 2.0, 3.5, 9.0, 20.0, 30.0]


def sigmoid(x: float) -> float:
    return 1 / (1 + math.exp(-x)) if x >= 0 else math.exp(x) / (1 + math.exp(x))


def softplus(x: float) -> float:
    return max(x, 0.0) + math.log1p(math.exp(-abs(x)))


FUNCTIONS: dict[str, tuple[Callable[[Tensor], Tensor], Callable[[float], float]]] = {
    "selu": (Tensor.selu, lambda x: GAMMA * (x if x > 0 else ALPHA * math.expm1(x))),
    "elu": (Tensor.elu, lambda x: x if x > 0 else math.expm1(x)),
    "celu": (lambda x: x.celu(1.3), lambda x: max(x, 0.0) + min(0.0, 1.3 * math.expm1(x / 1.3))),
    "gelu": (
        lambda x: x.gelu(approximate="tanh"),
        lambda x: x * sigmoid(2 * math.sqrt(2 / math.pi) * (x + 0.044715 * x**3)),
    ),
    "exact gelu": (lambda x: x.gelu(approximate="none"), lambda x: x * 0.5 * math.erfc(-x / math.sqrt(2))),
    "quick_gelu": (Tensor.quick_gelu, lambda x: x * sigmoid(1.702 * x)),
    "silu": (Tensor.silu, lambda x: x * sigmoid(x)),
    "mish": (Tensor.mish, lambda x: x * math.tanh(softplus(x))),
    "softplus": (Tensor.softplus, softplus),
    "logsigmoid": (Tensor.logsigmoid, lambda x: -softplus(-x)),
    "sigmoid": (Tensor.sigmoid, sigmoid),
    "tanh": (Tensor.tanh, math.tanh),
    "erf": (Tensor.erf, math.erf),
    "exp": (Tensor.exp, math.exp),
    "exp2": (Tensor.exp2, lambda x: math.pow(2.0, x)),
    "expm1": (Tensor.expm1, math.expm1),
    "log": (lambda x: (x.abs() + 0.25).log(), lambda x: math.log(abs(x) + 0.25)),
    "log2": (lambda x: (x.abs() + 0.25).log2(), lambda x: math.log2(abs(x) + 0.25)),
    "log10": (lambda x: (x.abs() + 0.25).log10(), lambda x: math.log10(abs(x) + 0.25)),
    "hardswish": (Tensor.hardswish, lambda x: x * min(max(x + 3, 0.0), 6.0) / 6),
    "sinh": (Tensor.sinh, math.sinh),
    "asinh": (Tensor.asinh, math.asinh),
    "atan": (Tensor.atan, math.atan),
    "deg2rad": (Tensor.deg2rad, math.radians),
    "rad2deg": (Tensor.rad2deg, math.degrees),
}


@pytest.mark.parametrize("name", FUNCTIONS)
def test_functions_of_float64(name: str) -> None:
    ours, meant = FUNCTIONS[name]
    found = ours(Tensor(np.array(X))).tolist()
    for x, y in zip(X, found, strict=True):
        wanted = meant(x)
        scale = max(abs(wanted), abs(x) * 0.1 if name == "exact gelu" else 0.0)  # whose tail is a difference of ones
        assert abs(y - wanted) <= 4e-15 * scale, (x, y, wanted)


@pytest.mark.parametrize("name", ["selu", "elu", "gelu", "silu", "mish", "softplus", "erf", "exp2", "log2", "log10"])
def test_gradients_of_float64(name: str) -> None:
    """Against a difference of high order, which is exact to 1e-10 or so: a rounded constant is off by 1e-6."""
    ours, meant = FUNCTIONS[name]
    points = [x for x in X if 1e-2 < abs(x) < 10]
    x = Tensor(np.array(points))
    (found,) = ours(x).sum().gradient(x)
    h, weights = 1e-3, ((1, 4 / 5), (2, -1 / 5), (3, 4 / 105), (4, -1 / 280))
    for point, slope in zip(points, found.tolist(), strict=True):
        wanted = sum(w * (meant(point + k * h) - meant(point - k * h)) for k, w in weights) / h
        assert slope == pytest.approx(wanted, rel=1e-9, abs=1e-10)
