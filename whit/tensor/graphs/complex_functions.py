"""Functions of complex numbers, in terms of those of their parts.

    exp(z)  ->  complex(exp(re z) * cos(im z), exp(re z) * sin(im z))

Goes in: nodes of complex64 or complex128. Comes out: such a node, or one of their parts' dtype. Values at infinities,
NaNs and signed zeros are those of C's annex G where a line or two give them; branch cuts are where C and NumPy have
them, continuous with the side that the sign of a zero names. What is holomorphic is known by name (FORMULA), so that
its gradient is that of the function (docs/gradients.md).

Kahan, Branch cuts for complex elementary functions (1987), has the formulas of square roots and inverses.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable

from whit.ir import ops
from whit.ir.gradients.rules import conjugate
from whit.ir.uop import UOp, make
from whit.tensor.graphs import formulas, trigonometry
from whit.tensor.graphs.formulas import copysign, exp, expm1, isfinite, isinf, log, log1p
from whit.transform import Form, complex_derivative, derivative

Function = Callable[..., UOp]
Parts = tuple[UOp, UOp]
LN2, LN10 = math.log(2), math.log(10)


def parts_of(z: UOp) -> Parts:
    """The real and the imaginary part."""
    if z.op is ops.COMPLEX:
        real, imaginary = z.src
        return real, imaginary
    return z.alu(ops.REAL), z.alu(ops.IMAG)


def complex_of(real: UOp, imaginary: UOp) -> UOp:
    """The number of two parts."""
    return real.alu(ops.COMPLEX, imaginary)


def as_parts(z: UOp) -> UOp:
    """(...) complex -> (..., 2) floats."""
    shape = z.shape
    parts = make(ops.STACK, parts_of(z))
    return parts.permute((*range(1, len(shape) + 1), 0))


def from_parts(x: UOp) -> UOp:
    """(..., 2) floats -> (...) complex."""
    shape = x.shape[:-1]
    whole = [(0, size) for size in shape]
    real, imaginary = (x.shrink([*whole, (place, 1)]).reshape(shape) for place in (0, 1))
    return complex_of(real, imaginary)


def holomorphic(slope: Function) -> Callable[[Function], Function]:
    """A function of one number that is known by its name; `slope` is its derivative, of its value and the number."""

    def register(formula: Function) -> Function:
        name = f"complex_{formula.__name__}"
        complex_derivative(name)(lambda y, dy, z: (dy * slope(y, z),))

        @functools.wraps(formula)
        def compute(z: UOp) -> UOp:
            return formula(z).formula(name, z)

        return compute

    return register


# ---- questions, and functions that are no derivatives' business


def absolute(z: UOp) -> UOp:
    """The distance from 0, without overflow; its gradient is the direction, 0 at 0."""
    return formulas.hypot(*parts_of(z))


def angle(z: UOp) -> UOp:
    """In [-pi, pi], from the positive real numbers on."""
    real, imaginary = parts_of(z)
    return trigonometry.atan2(imaginary, real).formula("angle", imaginary, real)


@derivative("angle", Form.POINTWISE)
def _angle_gradients(found: UOp, dy: UOp, imaginary: UOp, real: UOp) -> tuple[UOp | None, ...]:
    """Those of atan2, and 0 at 0."""
    size = formulas.hypot(real, imaginary)
    is_zero = size.eq(0.0)
    divisor = is_zero.where(size.constant(1.0), size)
    return dy * (real / divisor / divisor), -(dy * (imaginary / divisor / divisor))


def sign(z: UOp) -> UOp:
    """z / |z|, and 0 at 0."""
    real, imaginary = parts_of(z)
    size = absolute(z)
    is_zero = size.eq(0.0)
    divisor = is_zero.where(size.constant(1.0), size)
    return complex_of(*[is_zero.where(size.constant(0.0), part / divisor) for part in (real, imaginary)])


def either_part(question: Function, z: UOp) -> UOp:
    """Whether it holds for one part at least."""
    real, imaginary = parts_of(z)
    return question(real) | question(imaginary)


def finite(z: UOp) -> UOp:
    """Whether both parts are finite."""
    real, imaginary = parts_of(z)
    return isfinite(real) & isfinite(imaginary)


def polar(size: UOp, angle_: UOp) -> UOp:
    """size * e ** (i angle)."""
    return complex_of(size * angle_.cos(), size * angle_.sin())


def _turned(z: UOp) -> UOp:
    """i z."""
    real, imaginary = parts_of(z)
    return complex_of(-imaginary, real)


def _turned_back(z: UOp) -> UOp:
    """-i z."""
    real, imaginary = parts_of(z)
    return complex_of(imaginary, -real)


def _scaled(z: UOp, factor: float) -> UOp:
    """z times a real number."""
    real, imaginary = parts_of(z)
    return complex_of(real * factor, imaginary * factor)


def _kept_zero(size: UOp, small: UOp) -> UOp:
    """size * small, and a zero of the right sign where small is 0, whatever size is."""
    return small.eq(0.0).where(formulas.is_negative(size).where(-small, small), size * small)


# ---- exponentials and logarithms


def _times_power(real: UOp, factor: UOp) -> UOp:
    """e ** real * factor, |factor| <= 1, where the power alone may overflow; 0 of e ** -inf, whatever the factor is."""
    half = exp(real * 0.5)
    product = _kept_zero(half, factor)
    return real.eq(-math.inf).where(real.constant(0.0), _kept_zero(half, product))


@holomorphic(lambda y, z: y)
def power_of_e(z: UOp) -> UOp:
    """e ** z."""
    real, imaginary = parts_of(z)
    cosine, sine = imaginary.cos(), imaginary.sin()
    is_far = real.eq(math.inf) & ~isfinite(imaginary)
    return complex_of(
        is_far.where(real, _times_power(real, cosine)),
        imaginary.eq(0.0).where(imaginary, _times_power(real, sine)),
    )


@holomorphic(lambda y, z: y + y.constant(1.0))
def power_of_e_less_1(z: UOp) -> UOp:
    """e ** z - 1, also where that is small."""
    real, imaginary = parts_of(z)
    half = (imaginary * 0.5).sin()
    near = expm1(real) * imaginary.cos() - half * half * 2.0
    far = parts_of(power_of_e(z))
    return complex_of((abs(real) < 1.0).where(near, far[0] - 1.0), far[1])


def _log_of_size(real: UOp, imaginary: UOp) -> UOp:
    """log |z|: of what is near 1 by the distance from there, of what is far from 0 without overflow."""
    a, b = abs(real), abs(imaginary)
    large, small = a.maximum(b), a.minimum(b)
    ratio = large.eq(0.0).where(large, small / large)
    far = log(large) + log1p(ratio * ratio) * 0.5
    is_near = (large > 0.5) & (large < 2.0)
    inside = is_near.where(large, 1.0)
    near = log1p((inside - 1.0) * (inside + 1.0) + small * small) * 0.5
    found = is_near.where(near, far)
    return (a.eq(math.inf) | b.eq(math.inf)).where(real.constant(math.inf), found)


@holomorphic(lambda y, z: z.reciprocal())
def logarithm(z: UOp) -> UOp:
    """The natural logarithm, with the angle in [-pi, pi]."""
    return complex_of(_log_of_size(*parts_of(z)), angle(z))


@holomorphic(lambda y, z: (z + z.constant(1.0)).reciprocal())
def logarithm_of_1_more(z: UOp) -> UOp:
    """log(1 + z), also where z is small."""
    real, imaginary = parts_of(z)
    more = real + 1.0
    is_small = (abs(real) < 0.5) & (abs(imaginary) < 0.5)
    a, b = (is_small.where(part, 0.0) for part in (real, imaginary))
    near = log1p(a * (a + 2.0) + b * b) * 0.5
    return complex_of(is_small.where(near, _log_of_size(more, imaginary)), trigonometry.atan2(imaginary, more))


def power_of_2(z: UOp) -> UOp:
    """2 ** z."""
    return power_of_e(_scaled(z, LN2))


def binary_logarithm(z: UOp) -> UOp:
    """The logarithm to base 2."""
    return _scaled(logarithm(z), 1 / LN2)


def decimal_logarithm(z: UOp) -> UOp:
    """The logarithm to base 10."""
    return _scaled(logarithm(z), 1 / LN10)


@holomorphic(lambda y, z: y * (y.constant(1.0) - y))
def sigmoid(z: UOp) -> UOp:
    """1 / (1 + e ** -z), by the exponential that does not overflow."""
    real, _ = parts_of(z)
    is_right = real > 0.0
    power = power_of_e(is_right.where(-z, z))
    one = power.constant(1.0)
    return is_right.where(one, power) / (one + power)


# ---- powers


@holomorphic(lambda y, z: y.constant(0.5) / y)
def square_root(z: UOp) -> UOp:
    """The root on the right side; its imaginary part has the sign of z's."""
    real, imaginary = parts_of(z)
    large = abs(real).maximum(abs(imaginary))
    tiny, huge = _ENDS[z.dtype.itemsize]
    up, down = large < tiny, large > huge
    scale = up.where(large.constant(1 / tiny), down.where(large.constant(2.0**-4), 1.0))
    back = up.where(large.constant(math.sqrt(tiny)), down.where(large.constant(4.0), 1.0))
    a, b = real * scale, imaginary * scale
    half = ((formulas.hypot(a, b) + abs(a)) * 0.5).sqrt()
    other = half.eq(0.0).where(half, abs(b) / (half * 2.0))
    is_right = ~formulas.is_negative(real)
    first, second = is_right.where(half, other) * back, is_right.where(other, half) * back
    infinite = real.constant(math.inf)
    is_up, is_far = isinf(imaginary), isinf(real)
    first = is_up.where(infinite, is_far.where(is_right.where(infinite, (imaginary - imaginary)), first))
    second = is_up.where(infinite, is_far.where(is_right.where(imaginary - imaginary, infinite), second))
    return complex_of(first, copysign(second, imaginary))


_ENDS = {8: (2.0**-100, 2.0**124), 16: (2.0**-1000, 2.0**1020)}  # even powers: their roots are exact


def whole_power(z: UOp, exponent: int) -> UOp:
    """z to a small whole power, by products."""
    result, factor, rest = None, z, abs(exponent)
    while rest:
        if rest & 1:
            result = factor if result is None else result * factor
        rest >>= 1
        if rest:
            factor = factor * factor
    if result is None:
        return z.constant(1.0).reshape((1,) * len(z.shape)).expand(z.shape)
    return result if exponent > 0 else result.reciprocal()


MOST_PRODUCTS = 16


def power(x: UOp, y: UOp) -> UOp:
    """x ** y; 1 where y is 0, and 0 ** y is 0 to the right of that."""
    if y.op is ops.CONST and y.arg.imag == 0.0:
        exponent = y.arg.real
        if exponent == int(exponent) if math.isfinite(exponent) else False:
            if abs(exponent) <= MOST_PRODUCTS:
                return whole_power(x, int(exponent))
        elif exponent == 0.5:
            return square_root(x)
    return general_power(x, y)


def general_power(x: UOp, y: UOp) -> UOp:
    """e ** (y log x), known by its name."""
    is_zero = x.eq(0.0)
    one = x.constant(1.0)
    found = power_of_e(y * logarithm(is_zero.where(one, x)))
    real, imaginary = parts_of(y)
    nan = complex_of(real.constant(math.nan), real.constant(math.nan))
    of_zero = (real > 0.0).where(x.constant(0.0), (real.eq(0.0) & imaginary.eq(0.0)).where(one, nan))
    return is_zero.where(of_zero, found).formula("complex_power", x, y)


@complex_derivative("complex_power")
def _power_gradients(z: UOp, dy: UOp, x: UOp, y: UOp) -> tuple[UOp | None, ...]:
    """y x ** (y - 1), and x ** y log x, 0 where x is 0."""
    is_zero = x.eq(0.0)
    safe = is_zero.where(x.constant(1.0), x)
    by_base = y.eq(0.0).where(x.constant(0.0), dy * y * general_power(x, y - y.constant(1.0)))
    return by_base, is_zero.where(x.constant(0.0), dy * z * logarithm(safe))


# ---- angles and hyperbolic functions


@holomorphic(lambda y, z: hyperbolic_sine(z))
def hyperbolic_cosine(z: UOp) -> UOp:
    """cosh."""
    real, imaginary = parts_of(z)
    cosine = _kept_zero(trigonometry.cosh(real), imaginary.cos())
    cosine = (isinf(real) & ~isfinite(imaginary)).where(abs(real), cosine)
    flat = real.eq(0.0) | imaginary.eq(0.0)
    sine = flat.where(_zero_of(real, imaginary), trigonometry.sinh(real) * imaginary.sin())
    return complex_of(cosine, sine)


def _zero_of(x: UOp, y: UOp) -> UOp:
    """0 with the sign of x * y, of which one is 0."""
    return (formulas.is_negative(x) ^ formulas.is_negative(y)).where(x.constant(-0.0), x.constant(0.0))


@holomorphic(lambda y, z: hyperbolic_cosine(z))
def hyperbolic_sine(z: UOp) -> UOp:
    """sinh."""
    real, imaginary = parts_of(z)
    cosine = _kept_zero(imaginary.cos(), trigonometry.sinh(real))
    far = isinf(real) & (imaginary.eq(0.0) | ~isfinite(imaginary))
    cosine = far.where(real, cosine)
    sine = imaginary.eq(0.0).where(imaginary, trigonometry.cosh(real) * imaginary.sin())
    return complex_of(cosine, sine)


@holomorphic(lambda y, z: y.constant(1.0) - y * y)
def hyperbolic_tangent(z: UOp) -> UOp:
    """tanh; where it is almost 1 or -1 by the exponential alone."""
    real, imaginary = parts_of(z)
    limit = 11.0 if z.dtype.itemsize == 8 else 22.0
    is_far = abs(real) > limit
    inside = is_far.where(real.constant(0.0), real)
    tangent = trigonometry.tan(imaginary)
    growth = tangent * tangent + 1.0
    sine = trigonometry.sinh(inside)
    cosine = (sine * sine + 1.0).sqrt()
    divisor = growth * sine * sine + 1.0
    decay = exp(-abs(real) * 2.0) * 4.0
    wave = imaginary.sin() * imaginary.cos()
    is_whole = isfinite(imaginary)
    far_imaginary = copysign(is_whole.where(decay * wave, 0.0), is_whole.where(wave, 0.0))
    return complex_of(
        is_far.where(copysign(real.constant(1.0), real), growth * cosine * sine / divisor),
        is_far.where(far_imaginary, imaginary.eq(0.0).where(imaginary, tangent / divisor)),
    )


def sine(z: UOp) -> UOp:
    """sin(z) = -i sinh(i z)."""
    return _turned_back(hyperbolic_sine(_turned(z)))


def cosine(z: UOp) -> UOp:
    """cos(z) = cosh(i z)."""
    return hyperbolic_cosine(_turned(z))


def tangent(z: UOp) -> UOp:
    """tan(z) = -i tanh(i z)."""
    return _turned_back(hyperbolic_tangent(_turned(z)))


def _less_and_more(z: UOp) -> tuple[Parts, Parts]:
    """The roots of 1 - z and 1 + z, whose imaginary parts keep the sign of a zero."""
    real, imaginary = parts_of(z)
    return (
        parts_of(square_root(complex_of(1.0 - real, -imaginary))),
        parts_of(square_root(complex_of(real + 1.0, imaginary))),
    )


def _root_of_rest(z: UOp) -> UOp:
    """sqrt(1 - z**2), as two roots."""
    less, more = _less_and_more(z)
    return complex_of(*less) * complex_of(*more)


def _or_far(z: UOp, near: Parts, far: Callable[[UOp, UOp, UOp], Parts]) -> UOp:
    """The parts of an inverse; of what is so far from 0 that 1 does not matter, those of log(2 z), turned: `far` of the
    parts of z and log |2 z|."""
    real, imaginary = parts_of(z)
    is_far = abs(real).maximum(abs(imaginary)) > _FAR
    others = far(real, imaginary, _log_of_size(real, imaginary) + LN2)
    return complex_of(*[is_far.where(a, b) for a, b in zip(others, near, strict=True)])


_FAR = 2.0**60


@holomorphic(lambda y, z: _root_of_rest(z).reciprocal())
def inverse_sine(z: UOp) -> UOp:
    """asin."""
    real, _ = parts_of(z)
    (a, b), (c, d) = _less_and_more(z)
    near = trigonometry.atan2(real, a * c - b * d), trigonometry.asinh(a * d - b * c)
    return _or_far(z, near, lambda x, y, size: (trigonometry.atan2(x, abs(y)), copysign(size, y)))


@holomorphic(lambda y, z: -_root_of_rest(z).reciprocal())
def inverse_cosine(z: UOp) -> UOp:
    """acos."""
    (a, b), (c, d) = _less_and_more(z)
    near = trigonometry.atan2(a, c) * 2.0, trigonometry.asinh(c * b - d * a)
    return _or_far(z, near, lambda x, y, size: (trigonometry.atan2(abs(y), x), copysign(size, -y)))


@holomorphic(lambda y, z: (square_root(z - z.constant(1.0)) * square_root(z + z.constant(1.0))).reciprocal())
def inverse_hyperbolic_cosine(z: UOp) -> UOp:
    """acosh."""
    real, imaginary = parts_of(z)
    a, b = parts_of(square_root(complex_of(real - 1.0, imaginary)))
    c, d = parts_of(square_root(complex_of(real + 1.0, imaginary)))
    near = trigonometry.asinh(a * c + b * d), trigonometry.atan2(b, c) * 2.0
    return _or_far(z, near, lambda x, y, size: (size, trigonometry.atan2(y, x)))


def inverse_hyperbolic_sine(z: UOp) -> UOp:
    """asinh(z) = -i asin(i z)."""
    return _turned_back(inverse_sine(_turned(z)))


@holomorphic(lambda y, z: ((z.constant(1.0) - z) * (z.constant(1.0) + z)).reciprocal())
def inverse_hyperbolic_tangent(z: UOp) -> UOp:
    """atanh; of what is far from 0, its reciprocal and a quarter of a turn."""
    x, y = parts_of(z)
    is_far = abs(x).maximum(abs(y)) > (1e12 if z.dtype.itemsize == 16 else 1e6)
    a, b = (is_far.where(part.constant(0.0), part) for part in (x, y))
    near = copysign(log1p(abs(a) * 4.0 / ((1.0 - abs(a)) * (1.0 - abs(a)) + b * b)) * 0.25, x)
    turn = trigonometry.atan2(b * 2.0, (1.0 - a) * (a + 1.0) - b * b) * 0.5
    size = formulas.hypot(x, y)
    far = isinf(size).where(copysign(x.constant(0.0), x), x / size / size)
    return complex_of(is_far.where(far, near), is_far.where(copysign(y.constant(math.pi / 2), y), turn))


def inverse_tangent(z: UOp) -> UOp:
    """atan(z) = -i atanh(i z)."""
    return _turned_back(inverse_hyperbolic_tangent(_turned(z)))


def conjugate_of(z: UOp) -> UOp:
    """re z - i im z."""
    return conjugate(z)
