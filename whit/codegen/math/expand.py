"""exp, log, sigmoid, sin, pow ... in ops that every target has: rules for targets without these instructions.

    exp2(x: float32)    ->    n = round(x), f = x - n, (1 + f p(f)) * 2**n       17 operations, no branches, no tables
    exp2(x: float16)    ->    cast(exp2(cast(x, float32)), float16)

Goes in: graphs with EXP, LOG, SIGMOID, TANH, ERF, EXP2, LOG2, SIN, COS, POW or LOGADDEXP. Comes out: the same graphs
with additions, fused multiply-adds, bit operations and choices, elementwise on any shape. FMA must round once: the
errors of products are computed with it.
float32 and float64 are computed in themselves (float32's sine in float64), everything smaller in float32.

docs/accuracy.md lists the errors, which bench/ulp.py measures.
"""

from __future__ import annotations

import math

from whit.codegen.math.functions import expand_erf, expand_exp, expand_log, expand_sigmoid, expand_tanh
from whit.codegen.math.parts import fma, polynomial, scale_by_rounded, split_exponent, two_product, two_sum
from whit.codegen.math.tables import FORMATS, SMALL_FLOATS, Format, format_of
from whit.codegen.math.trig import cos_of_small, expand_cos, expand_sin, sin_of_small
from whit.dtype import dtypes
from whit.ir import ops
from whit.ir.rules import Rules, function_rule
from whit.ir.uop import UOp, make

__all__ = [
    "EXPAND_MATH",
    "EXPAND_MATH_ON_GPU",
    "FUNCTIONS",
    "WIDEN_FUNCTIONS",
    "compute_functions_in_float32",
    "compute_in_float32",
    "expand_cos",
    "expand_erf",
    "expand_exp",
    "expand_exp2",
    "expand_log",
    "expand_log2",
    "expand_logaddexp",
    "expand_pow",
    "expand_sigmoid",
    "expand_sin",
    "expand_tanh",
]


def expand_exp2(x: UOp) -> UOp:
    """2**x for float32 and float64."""
    numbers = format_of("exp2", x)
    end = float(numbers.dtype.bias + numbers.mantissa + 10)  # beyond +-end the result is 0 or infinity
    x = x.maximum(-end).minimum(end)
    shifted = x + numbers.magic
    f = x - (shifted - numbers.magic)
    return scale_by_rounded(numbers, _exp2_of_fraction(numbers, f), x, shifted)


def _exp2_of_fraction(numbers: Format, f: UOp) -> UOp:
    """2**f for |f| <= 1/2; exactly 1 at 0."""
    return fma(f, polynomial(f, numbers.exp2), 1.0)


def expand_log2(x: UOp) -> UOp:
    """The logarithm to base 2 for float32 and float64.

    log2(x) = k + f/ln 2 + f**2 p(f) where x = 2**k (1 + f). The first two terms are added exactly, as a float and the
    error of the sum, so that little more than the last rounding is left.
    """
    numbers = format_of("log2", x)
    log2_e, log2_e_rest = numbers.log2_e
    k, m = split_exponent(numbers, x, 2 / 3)
    f = m - 1.0
    total = fma(f, log2_e, k)
    error = fma(f, log2_e, k - total)
    tail = fma(f, log2_e_rest, f * f * polynomial(f, numbers.log2))
    result = total + (error + tail)
    below = x.eq(0.0).where(x.constant(-math.inf), math.nan)
    return (x > 0.0).where((x < math.inf).where(result, x), below)


def expand_pow(x: UOp, y: UOp) -> UOp:
    """x**y as C's pow for float32 and float64: 2**(y log2|x|), the logarithm and the product as sums of two floats."""
    numbers = format_of("pow", x)
    if y.op is ops.CONST:
        simple = _pow_of_simple_exponent(x, float(y.arg))
        if simple is not None:
            return simple
    magnitude = abs(x)
    high, low = _log2_in_two_parts(numbers, magnitude)
    # |log2 x| is 0 or more than an ulp of 1: past this y changes nothing, and the products below stay finite.
    end = 2.0 ** (numbers.mantissa + 14)
    bounded = y.maximum(-end).minimum(end)
    result = _exp2_of_product(numbers, bounded, high, low)
    return _pow_special_values(numbers, x, y, magnitude, result)


def _pow_of_simple_exponent(x: UOp, y: float) -> UOp | None:
    """The powers that are a few multiplications or a root, as close as the general way or closer."""
    if y == 0.5:  # the root of -0.0 is -0.0 and that of -inf NaN, but these powers are 0.0 and inf
        return x.eq(-math.inf).where(x.constant(math.inf), (x + 0.0).sqrt())
    powers = {-1.0: lambda: 1.0 / x, 1.0: lambda: x, 2.0: lambda: x * x, 3.0: lambda: x * x * x}
    build = powers.get(y)
    return None if build is None else build()


def _log2_in_two_parts(numbers: Format, x: UOp) -> tuple[UOp, UOp]:
    """log2(x) for finite x above 0, about 12 bits longer than the dtype.

    x = 2**k m and s = (m - 1) / (m + 1): log2(m) = s (2/ln 2 + s**2 (2/(3 ln 2) + s**2 R(s**2))). What stands outside
    of R is computed in two parts; the term with R is below 2**-12 of the sum, so there one float is enough.
    """
    k, m = split_exponent(numbers, x, math.sqrt(0.5))
    numerator = m - 1.0
    denominator, denominator_rest = two_sum(m.constant(1.0), m)
    inverse = 1.0 / denominator
    s = numerator * inverse
    remainder = fma(-s, denominator_rest, fma(-s, denominator, numerator))
    s_rest = remainder * inverse
    square, square_error = two_product(s, s)
    square_rest = fma(s + s, s_rest, square_error)

    third, third_rest = numbers.two_thirds_over_ln_2
    inner, inner_error = two_sum(x.constant(third), square * polynomial(square, numbers.pow))
    inner_rest = inner_error + third_rest
    product, product_error = two_product(square, inner)
    product_rest = fma(square, inner_rest, fma(square_rest, inner, product_error))

    first, first_rest = numbers.two_over_ln_2
    outer, outer_error = two_sum(x.constant(first), product)
    outer_rest = outer_error + (product_rest + first_rest)
    log_m, log_m_error = two_product(s, outer)
    log_m_rest = fma(s, outer_rest, fma(s_rest, outer, log_m_error))
    total, total_error = two_sum(k, log_m)
    return total, total_error + log_m_rest


def _exp2_of_product(numbers: Format, y: UOp, high: UOp, low: UOp) -> UOp:
    """2**(y (high + low))."""
    product, product_error = two_product(y, high)
    end = float(numbers.dtype.bias + numbers.mantissa + 10)
    bounded = product.maximum(-end).minimum(end)
    rest = bounded.eq(product).where(fma(y, low, product_error), 0.0)
    shifted = bounded + numbers.magic
    f = (bounded - (shifted - numbers.magic)) + rest
    return scale_by_rounded(numbers, _exp2_of_fraction(numbers, f), bounded, shifted)


def _pow_special_values(numbers: Format, x: UOp, y: UOp, magnitude: UOp, result: UOp) -> UOp:
    """C's pow from 2**(y log2|x|), which is right for finite |x| above 0."""
    sign_bit = numbers.integer.min
    infinity = numbers.bits(math.inf)
    is_integer = y.floor().eq(y)
    half = y * 0.5
    is_odd = is_integer & half.floor().ne(half)
    is_nan = ((x < 0.0) & ~is_integer) | x.ne(x)
    result = is_nan.where(x.constant(math.nan), result)
    # 0 and infinity are their own powers, or for y < 0 each other's: their bits differ by those of infinity.
    bits = magnitude.bitcast(numbers.integer)
    swap = (y < 0.0).where(bits.constant(infinity), 0)
    is_extreme = (magnitude + magnitude).eq(magnitude) & y.eq(y)
    result = is_extreme.where((bits ^ swap).bitcast(numbers.dtype), result)
    sign = is_odd.where(x.bitcast(numbers.integer) & sign_bit, 0)
    result = (result.bitcast(numbers.integer) ^ sign).bitcast(numbers.dtype)
    return (y.eq(0.0) | x.eq(1.0)).where(x.constant(1.0), result)


def expand_logaddexp(x: UOp, y: UOp) -> UOp:
    """The larger + log(1 + t) for t = e**-|x - y|, at most 1; the rounding of 1 + t is divided out again."""
    high = x.maximum(y)
    t = expand_exp(-abs(x - y))
    u = t + 1.0
    more = u.eq(1.0).where(t, expand_log(u) * (t / (u - 1.0)))
    return (abs(high) < math.inf).where(high + more, high)


# ---- rules

_WIDE = frozenset(FORMATS)
_BELOW_65536 = SMALL_FLOATS - {dtypes.bfloat16}
FUNCTIONS = (ops.EXP, ops.LOG, ops.SIGMOID, ops.TANH, ops.ERF)


def _in_float32(node: UOp) -> UOp:
    wide = tuple(s.cast(dtypes.float32) for s in node.src)
    return make(node.op, wide).cast(node.dtype)


@function_rule(*FUNCTIONS, on=SMALL_FLOATS)
def compute_functions_in_float32(node: UOp) -> UOp:
    """exp(x: half) -> cast(exp(cast(x, float)), half), and so on."""
    return _in_float32(node)


@function_rule(ops.EXP2, ops.LOG2, ops.SIN, ops.COS, ops.POW, ops.LOGADDEXP, on=SMALL_FLOATS)
def compute_in_float32(node: UOp) -> UOp:
    """exp2(x: half) -> cast(exp2(cast(x, float)), half), and so on."""
    return _in_float32(node)


@function_rule(ops.EXP, on=_WIDE)
def expand_exp_node(node: UOp) -> UOp:
    """exp(x) -> exp2(h) + exp2(h) * l ln 2"""
    return expand_exp(*node.src)


@function_rule(ops.LOG, on=_WIDE)
def expand_log_node(node: UOp) -> UOp:
    """log(x) -> log2(x) * ln 2"""
    return expand_log(*node.src)


@function_rule(ops.SIGMOID, on=_WIDE)
def expand_sigmoid_node(node: UOp) -> UOp:
    """sigmoid(x) -> (x < 0 ? t : 1) / (t + 1), t = exp(-|x|)"""
    return expand_sigmoid(node.src[0])


@function_rule(ops.SIGMOID, on=frozenset({dtypes.float32}))
def expand_sigmoid_without_branches(node: UOp) -> UOp:
    """sigmoid(x: float) -> normal_div(x < 0 ? t : 1, t + 1), t = exp(-|x|)"""
    return expand_sigmoid(node.src[0], divide=lambda x, y: make(ops.NORMAL_DIV, (x, y)))


@function_rule(ops.TANH, on=_WIDE)
def expand_tanh_node(node: UOp) -> UOp:
    """tanh(x) -> 1 - 2 / (exp(2x) + 1), or a fraction of polynomials near 0"""
    return expand_tanh(node.src[0])


@function_rule(ops.ERF, on=_WIDE)
def expand_erf_node(node: UOp) -> UOp:
    """erf(x) -> 1 - 2**polynomial(x), or x + x * polynomial(x**2) near 0"""
    return expand_erf(*node.src)


@function_rule(ops.SIN, on=_BELOW_65536)
def expand_sin_of_small(node: UOp) -> UOp:
    """sin(x: half) -> cast(polynomial of cast(x, double)): no large arguments to care for."""
    (x,) = node.src
    return sin_of_small(x)


@function_rule(ops.COS, on=_BELOW_65536)
def expand_cos_of_small(node: UOp) -> UOp:
    """cos(x: half) -> cast(polynomial of cast(x, double)): no large arguments to care for."""
    (x,) = node.src
    return cos_of_small(x)


@function_rule(ops.EXP2, on=_WIDE)
def expand_exp2_node(node: UOp) -> UOp:
    """exp2(x) -> 2**round(x) * polynomial(x - round(x))"""
    return expand_exp2(*node.src)


@function_rule(ops.EXP2, on=_WIDE - {dtypes.float32})
def expand_exp2_of_double(node: UOp) -> UOp:
    """exp2(x: double) -> 2**round(x) * polynomial(x - round(x))"""
    return expand_exp2(*node.src)


@function_rule(ops.LOG2, on=_WIDE)
def expand_log2_node(node: UOp) -> UOp:
    """log2(x) -> exponent(x) + polynomial(mantissa(x))"""
    return expand_log2(*node.src)


@function_rule(ops.SIN, on=_WIDE)
def expand_sin_node(node: UOp) -> UOp:
    """sin(x) -> +-polynomial(x - n pi)"""
    return expand_sin(*node.src)


@function_rule(ops.COS, on=_WIDE)
def expand_cos_node(node: UOp) -> UOp:
    """cos(x) -> +-polynomial(x - (n + 1/2) pi)"""
    return expand_cos(*node.src)


@function_rule(ops.POW, on=_WIDE)
def expand_pow_node(node: UOp) -> UOp:
    """x**y -> 2**(y log2(x)), with C's special values"""
    return expand_pow(*node.src)


@function_rule(ops.LOGADDEXP, on=_WIDE)
def expand_logaddexp_node(node: UOp) -> UOp:
    """logaddexp(x, y) -> max(x, y) + log(1 + exp(-|x - y|))"""
    return expand_logaddexp(*node.src)


# So that there are functions of float32 alone, before their expansion.
WIDEN_FUNCTIONS = Rules("widen_functions", (compute_functions_in_float32,))

_EVERYWHERE = (
    compute_functions_in_float32,
    expand_exp_node,
    expand_log_node,
    expand_tanh_node,
    expand_erf_node,
    expand_sin_of_small,
    expand_cos_of_small,
    compute_in_float32,
    expand_log2_node,
    expand_sin_node,
    expand_cos_node,
    expand_pow_node,
    expand_logaddexp_node,
)
EXPAND_MATH = Rules("expand_math", (*_EVERYWHERE, expand_sigmoid_node, expand_exp2_node))
# For targets with an instruction for 2**x in float32, 2 ulps off at most: 4 instructions for 18 (ex2.approx of PTX);
# and with a division in few instructions where it is known to be an ordinary one.
EXPAND_MATH_ON_GPU = Rules(
    "expand_math_on_gpu",
    (*_EVERYWHERE, expand_sigmoid_without_branches, expand_sigmoid_node, expand_exp2_of_double),
)
