"""Functions and activations against NumPy in float64; each is rounded about once."""

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from tensor.check import FLOATS, INTS, same, some, value, wide
from whit import Tensor
from whit.dtype import DType, dtypes
from whit.errors import ArgumentError


def sigmoid(x: Any) -> Any:
    return 1 / (1 + np.exp(-x))


def elu(x: Any) -> Any:
    return np.where(x > 0, x, np.expm1(np.minimum(x, 0)))


erf = np.vectorize(math.erf, otypes=[np.float64])

# name, NumPy's function, the interval of arguments, units in the last place
CASES: list[tuple[str, Callable[[Any], Any], float, float, float]] = [
    ("neg", np.negative, -4, 4, 0),
    ("abs", np.abs, -4, 4, 0),
    ("sign", np.sign, -4, 4, 0),
    ("square", np.square, -4, 4, 1),
    ("sqrt", np.sqrt, 0, 9, 1),
    ("rsqrt", lambda x: 1 / np.sqrt(x), 0.1, 9, 2),
    ("reciprocal", np.reciprocal, 0.1, 9, 1),
    ("exp", np.exp, -9, 9, 4),
    ("exp2", np.exp2, -9, 9, 4),
    ("log", np.log, 0.01, 9, 4),
    ("log2", np.log2, 0.01, 9, 4),
    ("log10", np.log10, 0.01, 9, 4),
    ("sin", np.sin, -9, 9, 4),
    ("cos", np.cos, -1, 1, 4),
    ("tan", np.tan, -1, 1, 6),
    ("asin", np.arcsin, -1, 1, 4),
    ("acos", np.arccos, -1, 1, 4),
    ("atan", np.arctan, -9, 9, 4),
    ("sinh", np.sinh, -9, 9, 8),
    ("cosh", np.cosh, -9, 9, 8),
    ("tanh", np.tanh, -9, 9, 4),
    ("asinh", np.arcsinh, -9, 9, 6),
    ("acosh", np.arccosh, 1, 9, 6),
    ("atanh", np.arctanh, -0.99, 0.99, 6),
    ("erf", erf, -4, 4, 4),
    ("floor", np.floor, -4, 4, 0),
    ("ceil", np.ceil, -4, 4, 0),
    ("trunc", np.trunc, -4, 4, 0),
    ("round", np.rint, -4, 4, 0),
    ("isnan", np.isnan, -4, 4, 0),
    ("isinf", np.isinf, -4, 4, 0),
    ("isfinite", np.isfinite, -4, 4, 0),
    ("logical_not", np.logical_not, -4, 4, 0),
    ("relu", lambda x: np.maximum(x, 0), -4, 4, 0),
    ("relu6", lambda x: np.clip(x, 0, 6), -9, 9, 0),
    ("leaky_relu", lambda x: np.where(x < 0, x * 0.01, x), -4, 4, 2),
    ("elu", elu, -4, 4, 6),
    ("celu", elu, -4, 4, 6),
    ("selu", lambda x: 1.0507009873554805 * np.where(x > 0, x, 1.6732632423543772 * np.expm1(x)), -4, 4, 6),
    ("quick_gelu", lambda x: x * sigmoid(1.702 * x), -4, 4, 6),
    ("sigmoid", sigmoid, -9, 9, 4),
    ("logsigmoid", lambda x: -np.logaddexp(0, -x), -9, 9, 6),
    ("hardsigmoid", lambda x: np.clip(x / 6 + 0.5, 0, 1), -4, 4, 4),
    ("hardswish", lambda x: x * np.clip(x + 3, 0, 6) / 6, -4, 4, 8),
    ("hardtanh", lambda x: np.clip(x, -1, 1), -4, 4, 0),
    ("silu", lambda x: x * sigmoid(x), -9, 9, 6),
    ("swish", lambda x: x * sigmoid(x), -9, 9, 6),
    ("mish", lambda x: x * np.tanh(np.logaddexp(0, x)), -4, 4, 8),
    ("softplus", lambda x: np.logaddexp(0, x), -9, 9, 6),
    ("softsign", lambda x: x / (1 + np.abs(x)), -4, 4, 2),
]


@pytest.mark.parametrize("dtype", FLOATS, ids=lambda d: d.name)
@pytest.mark.parametrize("name, reference, low, high, ulps", CASES, ids=lambda v: v if isinstance(v, str) else "")
def test_values(name: str, reference: Any, low: float, high: float, ulps: float, dtype: DType) -> None:
    x = some(dtype, (7, 9), 3, low, high)
    result = getattr(Tensor(x), name)()
    once = 0.51 if dtype.mantissa_bits < 23 and ulps else ulps  # float32 inside, rounded once
    with np.errstate(all="ignore"):
        expected = reference(wide(x))
    assert result.dtype is (dtypes.bool if expected.dtype == np.bool_ else dtype)
    cancels = name in ("hardswish", "hardsigmoid")  # near their zeros the error is one of the terms
    same(result, expected, ulps=once, scale=(1.0 if cancels else 1e-3) if ulps else 0.0)


EXACT = ("neg", "abs", "sign", "square", "floor", "ceil", "trunc", "round", "relu")


@pytest.mark.parametrize("name", [case[0] for case in CASES])
def test_integers_become_floats_where_the_result_is_real(name: str) -> None:
    result = getattr(Tensor([1, 1, 1], dtype=dtypes.int16), name)()
    if name in (*EXACT, "relu6", "hardtanh"):
        assert result.dtype is dtypes.int16
    elif name in ("isnan", "isinf", "isfinite", "logical_not"):
        assert result.dtype is dtypes.bool
    else:
        assert result.dtype is dtypes.float32
    assert value(result).shape == (3,)


@pytest.mark.parametrize("dtype", INTS, ids=lambda d: d.name)
@pytest.mark.parametrize("name", EXACT)
def test_functions_that_keep_integers(name: str, dtype: DType) -> None:
    x = some(dtype, (9,), 1)
    reference: Any = next(case[1] for case in CASES if case[0] == name)
    same(getattr(Tensor(x), name)(), reference(x).astype(x.dtype), dtype)


def test_gelu_in_both_forms() -> None:
    x = np.linspace(-5, 5, 41)
    same(Tensor(x).gelu("none"), x * 0.5 * (1 + erf(x / math.sqrt(2))), ulps=20, scale=1)
    expected = 0.5 * x * (1 + np.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3)))
    same(Tensor(x).gelu(), expected, ulps=20, scale=1)
    with pytest.raises(ArgumentError, match="no approximation"):
        Tensor(x).gelu("best")


SPECIAL = np.array([0.0, -0.0, math.inf, -math.inf, math.nan, 1.0, -1.0, 1e-30, -1e-30, 1e5, -1e5, 100.0, -100.0])


@pytest.mark.parametrize("dtype", (dtypes.float32, dtypes.float64), ids=lambda d: d.name)
@pytest.mark.parametrize(
    "name", ["exp", "log", "asin", "acos", "atan", "sinh", "cosh", "tanh", "asinh", "acosh", "atanh", "log10", "erf"]
)
def test_special_values(name: str, dtype: DType) -> None:
    reference: Any = next(case[1] for case in CASES if case[0] == name)
    x = SPECIAL.astype(np.float32).astype(np.float64)
    with np.errstate(all="ignore"):
        expected = reference(x.astype(np.float64 if dtype is dtypes.float64 else np.float32))
    same(getattr(Tensor(x).cast(dtype), name)(), expected, dtype, ulps=20)


@pytest.mark.parametrize(
    "name, expected",
    [
        ("sigmoid", [0, 0.5, 1]),
        ("softplus", [0, math.log(2), math.inf]),
        ("logsigmoid", [-math.inf, -math.log(2), 0]),
        ("elu", [-1, 0, math.inf]),
        ("silu", [0, 0, math.inf]),
        ("mish", [0, 0, math.inf]),
        ("gelu", [0, 0, math.inf]),
        ("quick_gelu", [0, 0, math.inf]),
        ("hardswish", [0, 0, math.inf]),
        ("hardsigmoid", [0, 0.5, 1]),
        ("softsign", [-1, 0, 1]),
        ("tanh", [-1, 0, 1]),
        ("relu", [0, 0, math.inf]),
    ],
)
def test_activations_at_infinity(name: str, expected: list[float]) -> None:
    same(getattr(Tensor([-math.inf, 0.0, math.inf]), name)(), expected, ulps=2)


@pytest.mark.parametrize("dtype", (*FLOATS, *dtypes.fp8s), ids=lambda d: d.name)
def test_what_is_finite(dtype: DType) -> None:
    x = Tensor([dtype.largest, -1.0, math.inf, -math.inf, math.nan], dtype="float64").cast(dtype)
    finite = [True, True, dtype.saturates, dtype.saturates, False]
    infinite = [False, False, not dtype.saturates, not dtype.saturates, False]
    same(x.isfinite(), finite)
    same(x.isinf(), infinite)
    same(x.isinf(detect_negative=False), [False, False, infinite[2], False, False])
    same(x.isinf(detect_positive=False), [False, False, False, infinite[3], False])
    same(x.isnan(), [False, False, False, False, True])


def test_trigonometry_of_large_arguments() -> None:
    x = np.array([1e3, 12345.678, -1e6, 3e7], np.float32)
    same(Tensor(x).cos(), np.cos(x.astype(np.float64)), ulps=4, scale=1)
    same(Tensor(x).tan(), np.tan(x.astype(np.float64)), ulps=30, scale=1)


def test_small_arguments_keep_their_accuracy() -> None:
    x = np.array([1e-10, -1e-7, 1e-4, 1e-3], np.float32)
    for name in ("sinh", "tanh", "asinh", "atanh", "elu", "atan", "asin", "erf"):
        reference: Any = next(case[1] for case in CASES if case[0] == name)
        same(getattr(Tensor(x), name)(), reference(x.astype(np.float64)), ulps=6)


def test_logaddexp() -> None:
    x, y = np.array([1000.0, -1000.0, 1.0, -math.inf, math.inf]), np.array([1000.0, 2.0, -1.0, -math.inf, 1.0])
    same(Tensor(x).logaddexp(Tensor(y)), np.logaddexp(x, y), ulps=4)


def test_casts_and_their_short_names() -> None:
    x = Tensor([1.7, -1.0, 300.0])
    for name, dtype in (
        ("bool", dtypes.bool),
        ("int", dtypes.int32),
        ("short", dtypes.int16),
        ("long", dtypes.int64),
        ("half", dtypes.float16),
        ("float", dtypes.float32),
        ("double", dtypes.float64),
        ("bfloat16", dtypes.bfloat16),
    ):
        assert getattr(x, name)().dtype is dtype
    same(x.cast("uint8"), np.array([1, 0, 255], np.uint8))
    assert x.cast("float32") is x
    same(Tensor([1.0]).bitcast("int32"), [0x3F800000])
    with pytest.raises(ArgumentError, match="float32 has 32 bits and bool 1"):
        x.bitcast(dtypes.bool)
    with pytest.raises(TypeError, match="a tensor cannot be weakint"):
        x.cast("weakint")
