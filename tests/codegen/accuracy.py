"""How far a result is from the truth: references, inputs, and distances in units in the last place.

References are computed in a wider type: float64 for float32 and smaller, extended precision (`numpy.longdouble`) for
float64 where the machine has it. Their own errors are thousandths of an ulp of what is tested.
"""

import functools
from collections.abc import Callable
from typing import Any

import numpy as np

from codegen.compiled import compile
from whit.codegen.math.expand import EXPAND_MATH
from whit.dtype import DType, dtypes
from whit.ir import ops
from whit.ir.interpret import numpy_dtype
from whit.ir.interpret.values import rounded
from whit.ir.rewrite import rewrite
from whit.ir.uop import UOp
from whit.tensor.graphs import formulas, trigonometry

HAS_EXTENDED = np.finfo(np.longdouble).nmant >= 63


def _sigmoid(x: Any) -> Any:
    small = np.exp(-np.abs(x))
    return np.where(x < 0, small, 1) / (1 + small)


def _erf(x: Any) -> Any:
    """2/sqrt(pi) e**-x² (x + x³ 2/3 + x⁵ 4/15 + ...): all terms have one sign, so nothing cancels."""
    bounded = np.clip(x, -7, 7)
    term = total = bounded
    for n in range(1, 220):
        term = term * bounded * bounded * 2 / (2 * n + 1)
        total = total + term
    # e**-x² in two factors, because x² has twice the digits of x
    high = bounded.astype(np.float32 if x.dtype == np.float64 else np.float64).astype(x.dtype)
    power = np.exp(-high * high) * np.exp(-(bounded - high) * (bounded + high))
    return total * power * (2 / np.sqrt(np.arccos(x.dtype.type(-1))))


REFERENCES: dict[str, Callable[..., Any]] = {
    "exp2": np.exp2,
    "log2": np.log2,
    "sin": np.sin,
    "pow": np.power,
    "exp": np.exp,
    "log": np.log,
    "cos": np.cos,
    "tan": np.tan,
    "log10": np.log10,
    "expm1": np.expm1,
    "log1p": np.log1p,
    "asin": np.arcsin,
    "acos": np.arccos,
    "atan": np.arctan,
    "sinh": np.sinh,
    "cosh": np.cosh,
    "asinh": np.arcsinh,
    "acosh": np.arccosh,
    "atanh": np.arctanh,
    "cbrt": np.cbrt,
    "tanh": np.tanh,
    "sigmoid": _sigmoid,
    "erf": _erf,
}
_NODES = {"exp2": UOp.exp2, "log2": UOp.log2, "sin": UOp.sin, "cos": UOp.cos, "pow": UOp.__pow__}


def without_names(graph: UOp) -> UOp:
    """The ops alone: a name (FORMULA) only says which gradient a value has."""
    names = {node: node.src[0] for node in graph.topological() if node.op is ops.FORMULA}
    for node in names:  # inner ones first
        names[node] = node.src[0].substitute({k: v for k, v in names.items() if k is not node})
    return graph.substitute(names)


def _named(name: str, *operands: UOp) -> UOp:
    """The function as whoever calls it builds it."""
    places = [m for m in (formulas, trigonometry) if hasattr(m, name)]
    build: Any = _NODES.get(name) or getattr(places[0], name)
    result: UOp = build(*operands)
    return result


def node_of(name: str, *operands: UOp) -> UOp:
    """The function of nodes, as `Tensor` builds it."""
    return without_names(_named(name, *operands))


def expanded(name: str, dtype: DType) -> tuple[UOp, list[UOp]]:
    """The function in simple ops, and its params."""
    params = [UOp.param(i, dtype) for i in range(2 if name == "pow" else 1)]
    return rewrite(node_of(name, *params), EXPAND_MATH), params


@functools.cache
def compiled(name: str, dtype: DType) -> Callable[..., np.ndarray]:
    """The function of arrays, through LLVM."""
    function: Callable[..., np.ndarray] = compile(*expanded(name, dtype))
    return function


def compute_small(name: str, dtype: DType, values: np.ndarray) -> np.ndarray:
    """The function of a dtype that is computed in a wider one: all but the casts at both ends through LLVM."""
    x = UOp.param(0, dtype)
    graph = rewrite(node_of(name, x), EXPAND_MATH)
    (widened,) = (node for node in graph.topological() if x in node.src)
    assert graph.op is widened.op is ops.CAST
    (inner,) = graph.src
    wide = UOp.param(0, widened.dtype)
    result = compile(inner.substitute({widened: wide}), [wide])(values.astype(numpy_dtype(wide.dtype)))
    return rounded(dtype, result.astype(np.float64))


def reference(name: str, dtype: DType, *arrays: np.ndarray) -> np.ndarray:
    """The truth, in a wider type."""
    wide = np.longdouble if dtype is dtypes.float64 else np.float64
    with np.errstate(all="ignore"):
        return np.asarray(REFERENCES[name](*(a.astype(wide) for a in arrays)))


def distance(result: np.ndarray, truth: np.ndarray, dtype: DType) -> np.ndarray:
    """|result - truth| in ulps of the truth; infinite where only one is NaN or infinite, or zeros differ in sign."""
    with np.errstate(all="ignore"):
        nearest = truth.astype(np.float64) if dtype is dtypes.float64 else rounded(dtype, truth)
        ordinary = np.isfinite(truth) & (truth != 0)
        _, exponent = np.frexp(np.where(ordinary, truth, 1))
        unit = np.maximum(exponent - dtype.mantissa_bits - 1, 1 - dtype.bias - dtype.mantissa_bits)
        ulps = np.abs(np.ldexp(result.astype(truth.dtype) - truth, -unit))
        nearest, result = nearest.astype(np.float64), result.astype(np.float64)
        exact = (result == nearest) & (np.signbit(result) == np.signbit(nearest)) | (
            np.isnan(result) & np.isnan(nearest)
        )
        ulps = np.where(exact, np.minimum(np.where(np.isnan(ulps), 0, ulps), 0.5), ulps)
        wrong = ~exact & (np.isnan(ulps) | ~ordinary)
        return np.where(wrong, np.inf, ulps).astype(np.float64)


def worst(name: str, dtype: DType, *arrays: np.ndarray) -> tuple[float, tuple[float, ...]]:
    """The largest distance over all elements, and where it is."""
    ulps = distance(compiled(name, dtype)(*arrays), reference(name, dtype, *arrays), dtype)
    place = int(np.argmax(ulps))
    return float(ulps[place]), tuple(float(a[place]) for a in arrays)


def every_float32(step: int) -> np.ndarray:
    """Every `step`-th bit pattern, NaNs included."""
    return np.arange(0, 2**32, step, dtype=np.uint64).astype(np.uint32).view(np.float32)


def all_values(dtype: DType) -> np.ndarray:
    """Every bit pattern of a small dtype."""
    return np.arange(2**dtype.bitsize).astype(f"u{dtype.itemsize}").view(numpy_dtype(dtype))


def float64_inputs(count: int, seed: int = 0) -> np.ndarray:
    """Random bit patterns, and values from every region where something happens."""
    random = np.random.default_rng(seed)
    bits = random.integers(0, 2**64, count, dtype=np.uint64).view(np.float64)
    normal = random.normal(0, 1, count)
    regions = [
        (0.5, 2),
        (0.99, 1.01),
        (-30, 30),
        (-1080, 1030),  # exp2 from 0 to infinity
        (-750, 715),  # exp the same
        (-1e5, 1e5),
        (0, 2.0**32),  # where the reduction of sin changes
    ]
    uniform = [random.uniform(low, high, count) for low, high in regions]
    return np.concatenate([bits, normal, *uniform, np.ldexp(random.uniform(0.5, 2, count), -1055)])


def pow_inputs(dtype: DType, count: int, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Pairs with powers all over the range; bases near 1 with large exponents; and any two bit patterns."""
    random = np.random.default_rng(seed)
    storage = numpy_dtype(dtype)
    bits = random.integers(0, 2**dtype.bitsize, (3, count), dtype=f"u{dtype.itemsize}").view(storage)
    near_one = (1 + random.normal(0, 0.1, count)).astype(storage)
    lowest, highest = 1 - dtype.bias - dtype.mantissa_bits - 2, dtype.bias + 2
    with np.errstate(all="ignore"):
        logarithms = [np.log2(np.abs(base.astype(np.float64))) for base in (bits[0], near_one)]
        exponents = [random.uniform(lowest, highest, count) / logarithm for logarithm in logarithms]
        integers = np.rint(random.normal(0, 40, count))
        x = np.concatenate([np.abs(bits[0]), near_one, bits[1], -np.abs(near_one)])
        return x, np.concatenate([*exponents, bits[2], integers]).astype(storage)
