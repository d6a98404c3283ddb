"""exp2, log2, sin, pow and what is built of them: within the ulps that docs/accuracy.md promises, everywhere."""

import math
from typing import Any

import numpy as np
import pytest

from codegen.accuracy import (
    HAS_EXTENDED,
    all_values,
    compiled,
    compute_small,
    distance,
    every_float32,
    expanded,
    float64_inputs,
    node_of,
    pow_inputs,
    reference,
    worst,
)
from whit.codegen.math.expand import (
    EXPAND_MATH,
    EXPAND_MATH_ON_GPU,
    FUNCTIONS,
    compute_functions_in_float32,
    compute_in_float32,
    expand_erf,
    expand_exp,
    expand_log,
    expand_pow,
    expand_sigmoid,
    expand_tanh,
)
from whit.dtype import DType, dtypes
from whit.errors import DTypeError
from whit.ir import ops
from whit.ir.interpret import evaluate, numpy_dtype
from whit.ir.op import Op
from whit.ir.rewrite import rewrite
from whit.ir.rules import Rules
from whit.ir.uop import UOp
from whit.schedule.values import weigh

pytestmark = pytest.mark.slow  # dense inputs

inf, nan = math.inf, math.nan
needs_extended = pytest.mark.skipif(not HAS_EXTENDED, reason="no float wider than float64 to compare with")

# docs/accuracy.md has these numbers too
BOUNDS = {
    "exp2": (1.0, 1.1),
    "log2": (1.0, 1.2),
    "sin": (0.51, 1.0),
    "pow": (1.2, 1.2),
    "exp": (1.5, 1.6),
    "log": (1.5, 1.7),
    "cos": (0.51, 1.0),
    "tan": (2.2, 2.3),
    "tanh": (2.0, 2.0),
    "sigmoid": (3.0, 3.2),
    "erf": (1.2, 1.2),
    "log10": (2.0, 2.0),
    "expm1": (3.6, 3.6),
    "log1p": (3.4, 3.2),
    "cbrt": (1.0, 1.0),
    "asin": (4.0, 3.5),
    "acos": (3.5, 3.5),
    "atan": (3.2, 3.0),
    "sinh": (4.2, 4.2),
    "cosh": (4.2, 4.2),
    "asinh": (3.8, 3.4),
    "acosh": (4.0, 4.2),
    "atanh": (3.8, 3.5),
}
UNARY = [name for name in BOUNDS if name != "pow"]


@pytest.mark.parametrize("name", UNARY)
def test_float32_over_the_whole_range(name: str) -> None:
    x = every_float32(step=40009 if name == "erf" else 1001)
    error, place = worst(name, dtypes.float32, x)
    assert error <= BOUNDS[name][0], f"{name}({place})"


@pytest.mark.parametrize("name", UNARY)
@needs_extended
def test_float64_on_every_region(name: str) -> None:
    error, place = worst(name, dtypes.float64, float64_inputs(2000 if name == "erf" else 30000))
    assert error <= BOUNDS[name][1], f"{name}({place})"


@pytest.mark.parametrize("dtype, count", [(dtypes.float32, 400_000), (dtypes.float64, 60_000)])
def test_pow_on_random_pairs(dtype: DType, count: int) -> None:
    if dtype is dtypes.float64 and not HAS_EXTENDED:
        pytest.skip("no float wider than float64 to compare with")
    error, place = worst("pow", dtype, *pow_inputs(dtype, count))
    assert error <= BOUNDS["pow"][dtype is dtypes.float64], f"pow{place}"


@pytest.mark.parametrize("name", ["exp2", "log2", "sin", "exp", "log", "cos", "tanh", "erf"])
@pytest.mark.parametrize("dtype", [dtypes.float16, dtypes.bfloat16, *dtypes.fp8s], ids=str)
def test_small_dtypes_on_every_value(name: str, dtype: DType) -> None:
    values = all_values(dtype)
    if dtype is dtypes.fp8e5m2:  # foreign infinities become finite in the first op; see docs/semantics.md
        values = values[np.isfinite(values.astype(np.float32)) | np.isnan(values.astype(np.float32))]
    result = compute_small(name, dtype, values)
    ulps = distance(result, reference(name, dtype, values), dtype)
    assert ulps.max() <= 0.51, values[np.argmax(ulps)]


# The float64 that come closest to multiples of pi/2, found with continued fractions; sine and cosine from mpmath.
NEAR_QUARTERS = [
    ("0x1.6ac5b262ca1ffp+849", 1.0, -4.687165924254628e-19),
    ("0x1.6c6cbc45dc8dep+5", 1.0, -6.189806365883577e-19),
    ("0x1.6ac5b262ca1ffp+850", -9.374331848509255e-19, -1.0),
    ("0x1.6c6cbc45dc8dep+6", -1.2379612731767154e-18, -1.0),
    ("0x1.b951f1572eba5p+23", -1.0, -1.6985038298986004e-18),
    ("0x1.504cac51f1eafp+131", -1.0, -1.8208566377382172e-18),
    ("0x1.e009c53148be1p+991", 1.0, 2.0149386674952238e-18),
    ("0x1.4c96c11134d36p+577", -1.0, 2.4853662876185346e-18),
]


@pytest.mark.parametrize("name, column", [("sin", 1), ("cos", 2)])
def test_float64_closest_to_multiples_of_a_quarter_turn(name: str, column: int) -> None:
    x = np.array([float.fromhex(str(row[0])) for row in NEAR_QUARTERS])
    truth = np.array([row[column] for row in NEAR_QUARTERS], np.float64)
    result = compiled(name, dtypes.float64)(x)
    assert np.all(np.abs(result - truth) <= np.spacing(np.abs(truth)))


@pytest.mark.parametrize("dtype", [dtypes.float32, dtypes.float64], ids=str)
@pytest.mark.parametrize(
    "name, x, result",
    [
        ("exp2", -inf, 0.0),
        ("exp2", inf, inf),
        ("exp2", nan, nan),
        ("exp2", -0.0, 1.0),
        ("exp2", 3.0, 8.0),
        ("exp2", -126.0, 2.0**-126),
        ("exp2", 2000.0, inf),
        ("exp2", -2000.0, 0.0),
        ("log2", 0.0, -inf),
        ("log2", -0.0, -inf),
        ("log2", -1.0, nan),
        ("log2", -inf, nan),
        ("log2", inf, inf),
        ("log2", nan, nan),
        ("log2", 1.0, 0.0),
        ("log2", 2.0**-140, -140.0),
        ("log2", 8.0, 3.0),
        ("sin", 0.0, 0.0),
        ("sin", -0.0, -0.0),
        ("sin", inf, nan),
        ("sin", -inf, nan),
        ("sin", nan, nan),
        ("sin", 1e-40, 1e-40),
        ("cos", -0.0, 1.0),
        ("cos", inf, nan),
        ("cos", nan, nan),
        ("tan", -0.0, -0.0),
        ("tan", inf, nan),
        ("exp", -inf, 0.0),
        ("exp", inf, inf),
        ("exp", nan, nan),
        ("exp", 0.0, 1.0),
        ("exp", 3e38, inf),
        ("exp", -3e38, 0.0),
        ("log", 0.0, -inf),
        ("log", inf, inf),
        ("log", -2.0, nan),
        ("log", 1.0, 0.0),
        ("tanh", -0.0, -0.0),
        ("tanh", inf, 1.0),
        ("tanh", -inf, -1.0),
        ("tanh", nan, nan),
        ("sigmoid", inf, 1.0),
        ("sigmoid", -inf, 0.0),
        ("sigmoid", 0.0, 0.5),
        ("sigmoid", nan, nan),
        ("erf", -0.0, -0.0),
        ("erf", inf, 1.0),
        ("erf", -inf, -1.0),
        ("erf", nan, nan),
    ],
)
def test_special_values(name: str, dtype: DType, x: float, result: float) -> None:
    argument, wanted = (np.array([v]).astype(numpy_dtype(dtype)) for v in (x, result))
    assert_same(compiled(name, dtype)(argument), wanted)


@pytest.mark.parametrize("dtype", [dtypes.float32, dtypes.float64], ids=str)
def test_powers_of_two_are_exact(dtype: DType) -> None:
    storage = numpy_dtype(dtype)
    exponents = np.arange(1 - dtype.bias - dtype.mantissa_bits, dtype.bias + 1)
    powers = np.ldexp(storage.type(1), exponents)
    assert_same(compiled("exp2", dtype)(exponents.astype(storage)), powers)
    assert_same(compiled("log2", dtype)(powers), exponents.astype(storage))


# ISO C, F.10.4.4, and what follows from it
POW_CORNERS = [
    (0.0, -3.0, inf),
    (-0.0, -3.0, -inf),
    (0.0, -2.5, inf),
    (-0.0, -2.5, inf),
    (-0.0, -2.0, inf),
    (0.0, -inf, inf),
    (-0.0, -inf, inf),
    (0.0, 3.0, 0.0),
    (-0.0, 3.0, -0.0),
    (0.0, 2.5, 0.0),
    (-0.0, 2.5, 0.0),
    (-0.0, 2.0, 0.0),
    (0.0, inf, 0.0),
    (0.0, 1e-40, 0.0),
    (-1.0, inf, 1.0),
    (-1.0, -inf, 1.0),
    (1.0, nan, 1.0),
    (1.0, inf, 1.0),
    (1.0, 1e30, 1.0),
    (-1.0, 1e30, 1.0),
    (nan, 0.0, 1.0),
    (nan, -0.0, 1.0),
    (0.0, 0.0, 1.0),
    (inf, -0.0, 1.0),
    (-5.0, 0.0, 1.0),
    (-8.0, 0.5, nan),
    (-8.0, -1.5, nan),
    (-8.0, 3.0, -512.0),
    (-8.0, 2.0, 64.0),
    (-2.0, 16777217.0, None),
    (-0.5, 3e7, 0.0),
    (0.5, -inf, inf),
    (-0.5, -inf, inf),
    (2.0, -inf, 0.0),
    (-2.0, -inf, 0.0),
    (0.5, inf, 0.0),
    (2.0, inf, inf),
    (-inf, -3.0, -0.0),
    (-inf, -2.0, 0.0),
    (-inf, -2.5, 0.0),
    (-inf, 3.0, -inf),
    (-inf, 2.0, inf),
    (-inf, 2.5, inf),
    (-inf, inf, inf),
    (inf, -1.0, 0.0),
    (inf, 1e-40, inf),
    (inf, nan, nan),
    (0.0, nan, nan),
    (nan, 1.0, nan),
    (nan, nan, nan),
    (2.0, nan, nan),
    (-2.0, nan, nan),
    (2.0, 10.0, 1024.0),
    (10.0, -2.0, 0.01),
    (1e-40, -2.0, None),
    (3e38, 3e38, None),
    (1e-45, 1e-45, None),
]


@pytest.mark.parametrize("dtype", [dtypes.float32, dtypes.float64], ids=str)
def test_pow_has_the_special_values_of_c(dtype: DType) -> None:
    storage = numpy_dtype(dtype)
    with np.errstate(all="ignore"):
        x, y = (np.array([row[i] for row in POW_CORNERS]).astype(storage) for i in (0, 1))
        truth = np.power(x.astype(np.longdouble), y.astype(np.longdouble)).astype(storage)
    result = compiled("pow", dtype)(x, y)
    for i, (_, _, wanted) in enumerate(POW_CORNERS):
        assert_same(result[i], truth[i] if wanted is None else storage.type(wanted), f"pow({x[i]}, {y[i]})")


@pytest.mark.parametrize("dtype", [dtypes.float32, dtypes.float64], ids=str)
def test_pow_agrees_with_the_interpreter_at_every_pair_of_corners(dtype: DType) -> None:
    corners = [0.0, -0.0, 1.0, -1.0, 0.5, -0.5, 2.0, -3.0, 1e-40, inf, -inf, nan]
    pairs = np.array([(a, b) for a in corners for b in corners]).astype(numpy_dtype(dtype))
    x, y = UOp.buffer(0, dtype, (len(pairs),)), UOp.buffer(1, dtype, (len(pairs),))
    truth = evaluate(x**y, {x: pairs[:, 0], y: pairs[:, 1]})
    result = compiled("pow", dtype)(pairs[:, 0], pairs[:, 1])
    assert distance(result, truth.astype(np.float64), dtype).max() <= 1
    numbers = ~np.isnan(truth)
    assert_same(np.signbit(result[numbers]), np.signbit(truth[numbers]))


@pytest.mark.parametrize("exponent", [-1.0, 0.5, 1.0, 2.0, 3.0])
def test_simple_exponents_need_no_logarithm(exponent: float) -> None:
    x = UOp.buffer(0, dtypes.float32, (12,))
    power = expand_pow(x, x.constant(exponent))
    assert len(power.topological()) <= 8
    values = np.array([0.0, -0.0, 1.0, -1.0, 2.0, 3.0, 1e-40, -1e20, 1e30, inf, -inf, nan], np.float32)
    y = UOp.buffer(1, dtypes.float32, (12,))
    assert_same(evaluate(power, {x: values}), evaluate(x**y, {x: values, y: np.full_like(values, exponent)}))


@pytest.mark.parametrize("name", [*BOUNDS])
@pytest.mark.parametrize("dtype", [dtypes.float32, dtypes.float64], ids=str)
def test_interpreter_and_machine_code_agree_to_the_last_bit(name: str, dtype: DType) -> None:
    graph, params = expanded(name, dtype)
    x, y = pow_inputs(dtype, 20)
    arrays = [x, y][: len(params)]
    buffers = [UOp.buffer(i, dtype, (len(x),)) for i in range(len(params))]
    inputs = dict(zip(buffers, arrays, strict=True))
    on_buffers = rewrite(node_of(name, *buffers), EXPAND_MATH)
    assert_same(compiled(name, dtype)(*arrays), evaluate(on_buffers, inputs))
    assert (on_buffers.dtype, on_buffers.shape) == (graph.dtype, (len(x),))


SIMPLE = {
    *(ops.ADD, ops.SUB, ops.MUL, ops.FDIV, ops.FMA, ops.NEG, ops.ABS, ops.MAX, ops.MIN, ops.FLOOR, ops.SQRT),
    *(ops.AND, ops.OR, ops.XOR, ops.NOT, ops.SHL, ops.SHR, ops.LT, ops.LE, ops.EQ, ops.NE, ops.WHERE),
    *(ops.CAST, ops.BITCAST, ops.CONST, ops.PARAM),
}
# Operations, where a bitcast is none. A larger number is a slower kernel: raise it only for a reason.
OPERATIONS = {
    "exp2": (18, 25),
    "log2": (33, 47),
    "sin": (29, 165),
    "pow": (106, 116),
    "exp": (29, 36),
    "log": (35, 49),
    "cos": (31, 165),
    "tan": (46, 175),
    "tanh": (47, 57),
    "sigmoid": (31, 38),
    "erf": (40, 68),
    "log10": (35, 48),
    "expm1": (72, 91),
    "log1p": (43, 56),
    "cbrt": (121, 132),
    "asin": (34, 46),
    "acos": (34, 46),
    "atan": (29, 41),
    "sinh": (115, 140),
    "cosh": (36, 43),
    "asinh": (95, 120),
    "acosh": (91, 116),
    "atanh": (56, 68),
}


@pytest.mark.parametrize("name", [*BOUNDS])
@pytest.mark.parametrize("dtype", [dtypes.float32, dtypes.float64], ids=str)
def test_expansions_are_short_and_of_simple_ops(name: str, dtype: DType) -> None:
    nodes = expanded(name, dtype)[0].topological()
    assert {node.op for node in nodes} <= SIMPLE
    operations = [node for node in nodes if node.op not in (ops.CONST, ops.PARAM, ops.BITCAST)]
    assert len(operations) <= OPERATIONS[name][dtype is dtypes.float64]


@pytest.mark.parametrize("op", FUNCTIONS, ids=str)
def test_a_function_costs_what_it_becomes(op: Op) -> None:
    """What fuses, and how a kernel is tiled, is decided while it is one op."""
    expand = {"exp": expand_exp, "log": expand_log, "sigmoid": expand_sigmoid, "tanh": expand_tanh, "erf": expand_erf}
    graph = expand[op.name](UOp.param(0, dtypes.float32))
    assert op.operations == sum(node.op.elementwise for node in graph.topological())
    assert weigh(UOp.param(0, dtypes.float32).alu(op), set()) == weigh(graph, set())


def test_sigmoids_of_opposite_numbers_share_their_power() -> None:
    x = UOp.param(0, dtypes.float32)
    both = rewrite(x.alu(ops.SIGMOID) * (-x).alu(ops.SIGMOID), EXPAND_MATH_ON_GPU)
    assert sum(node.op is ops.EXP2 for node in both.topological()) == 1


@pytest.mark.parametrize("dtype", [dtypes.float32, dtypes.float64], ids=str)
@pytest.mark.parametrize("x", [-math.inf, -1000.0])
def test_exp_of_a_masked_score_multiplies_nothing_into_the_smallest_numbers(x: float, dtype: DType) -> None:
    buffer = UOp.buffer(0, dtype, (1,))
    given = {buffer: np.array([x], numpy_dtype(dtype))}
    products = [n for n in rewrite(node_of("exp", buffer), EXPAND_MATH).topological() if n.op in (ops.MUL, ops.FMA)]
    assert len(products) > 5
    for node in products:
        factors = [evaluate(s, given) for s in node.src[:2]]
        assert any(np.all(f == 0) for f in factors) or abs(evaluate(node, given)) >= np.finfo(numpy_dtype(dtype)).tiny


@pytest.mark.parametrize("op", [*FUNCTIONS, ops.EXP2, ops.LOG2, ops.SIN, ops.COS, ops.POW, ops.LOGADDEXP], ids=str)
def test_small_dtypes_are_computed_in_float32(op: Any) -> None:
    sources = tuple(UOp.param(i, dtypes.bfloat16, (3,)) for i in range(op.least))
    wide = sources[0].cast(dtypes.float32).alu(op, *(s.cast(dtypes.float32) for s in sources[1:]))
    widen = Rules("widen", (compute_functions_in_float32, compute_in_float32))
    assert rewrite(sources[0].alu(op, *sources[1:]), widen) is wide.cast(dtypes.bfloat16)


@pytest.mark.parametrize("op", FUNCTIONS, ids=str)
@pytest.mark.parametrize("dtype", [dtypes.int8, dtypes.int32, dtypes.weakint], ids=str)
def test_functions_refuse_what_is_no_float(op: Op, dtype: DType) -> None:
    with pytest.raises(DTypeError, match=f"{op.name}: operands must have the same float dtype"):
        node_of(op.name, UOp.const(dtype, 1))


def assert_same(result: Any, wanted: Any, message: str = "") -> None:
    """Equal bits, but for NaNs, which are all alike."""
    result, wanted = np.atleast_1d(result), np.atleast_1d(wanted)
    assert result.dtype == wanted.dtype
    same = (
        (result == wanted) & (np.signbit(result) == np.signbit(wanted))
        if result.dtype.kind == "f"
        else result == wanted
    )
    same |= (result != result) & (wanted != wanted)
    assert np.all(same), f"{message} {result[~same][:5]}, not {wanted[~same][:5]}"
