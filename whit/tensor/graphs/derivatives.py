"""The derivatives of the functions in `formulas` and `trigonometry`, by the names under which they mark their results.

Goes in: the value y, its gradient dy and the operands, of one float dtype. Comes out: the gradient of each operand.
Each is right where the function is flat or steep: no infinity is multiplied by a zero that underflowed.
"""

from __future__ import annotations

import math
from collections.abc import Callable

from whit.dtype import dtypes
from whit.ir.uop import UOp
from whit.tensor.graphs import formulas, trigonometry
from whit.transform import Form, derivative

Slope = Callable[..., UOp]
POINTWISE = Form.POINTWISE


def slope(name: str) -> Callable[[Slope], Slope]:
    """Registers dy/dx of a function of one operand, given as slope(y, x); computed in float32 at least."""

    def register(rule: Slope) -> Slope:
        def gradient(y: UOp, dy: UOp, x: UOp) -> tuple[UOp | None, ...]:
            if x.dtype.itemsize >= 4:
                return (dy * rule(y, x),)
            wide = rule(y.cast(dtypes.float32), x.cast(dtypes.float32))
            return ((dy.cast(dtypes.float32) * wide).cast(x.dtype),)

        derivative(name, POINTWISE)(gradient)
        return rule

    return register


slope("exp")(lambda y, x: y)
slope("log10")(lambda y, x: (x * math.log(10)).reciprocal())
slope("expm1")(lambda y, x: y + 1.0)
slope("log1p")(lambda y, x: (x + 1.0).reciprocal())
slope("tan")(lambda y, x: y * y + 1.0)
slope("atan")(lambda y, x: (x * x + 1.0).reciprocal())
slope("asin")(lambda y, x: ((1.0 - x) * (x + 1.0)).sqrt().reciprocal())
slope("acos")(lambda y, x: -((1.0 - x) * (x + 1.0)).sqrt().reciprocal())
slope("sinh")(lambda y, x: trigonometry.cosh(x))
slope("cosh")(lambda y, x: trigonometry.sinh(x))
slope("asinh")(lambda y, x: (abs(x) < 1e10).where((x * x + 1.0).sqrt(), abs(x)).reciprocal())
slope("acosh")(lambda y, x: ((abs(x) - 1.0).sqrt() * (abs(x) + 1.0).sqrt()).reciprocal())  # below -1 as PyTorch
slope("atanh")(lambda y, x: ((1.0 - x) * (x + 1.0)).reciprocal())
slope("softplus")(lambda y, x: formulas.sigmoid(x))


derivative("relu", POINTWISE)(lambda y, dy, x: ((x > 0.0).where(dy, 0.0),))
derivative("at_least", POINTWISE)(lambda y, dy, x, low: ((x < low).where(0.0, dy), (x < low).where(dy, 0.0)))
derivative("at_most", POINTWISE)(lambda y, dy, x, high: ((high < x).where(0.0, dy), (high < x).where(dy, 0.0)))
derivative("saturated", POINTWISE)(lambda y, dy, x, low, high: (((low < x) & (x < high)).where(dy, 0.0), None, None))


@slope("silu")
def _silu(y: UOp, x: UOp) -> UOp:
    """s (1 + x (1 - s)), s = sigmoid(x) being 0 or 1 long before the bounds."""
    bounded = x.maximum(formulas.LOWEST).minimum(-formulas.LOWEST)
    return formulas.sigmoid(x) * (bounded * formulas.sigmoid(-x) + 1.0)


@slope("gelu")
def _gelu(y: UOp, x: UOp) -> UOp:
    """Phi(x) + x phi(x). The density is 0 long before x * x overflows."""
    near = abs(x) < 40.0
    density = formulas.exp(near.where(x * x * -0.5, -800.0)) * (1 / math.sqrt(2 * math.pi))
    return (formulas.erf(x * math.sqrt(0.5)) + 1.0) * 0.5 + near.where(x, 0.0) * density


@slope("gelu_tanh")
def _gelu_tanh(y: UOp, x: UOp) -> UOp:
    """s + x s (1 - s) u', s = sigmoid(u) being 0 or 1 from |x| = 20 on."""
    near = abs(x) < 20.0
    inside = near.where(x, 0.0)
    scale = 2.0 * math.sqrt(2 / math.pi)
    u = inside * (inside * inside * 0.044715 + 1.0) * scale
    s = formulas.sigmoid(u)
    steep = (inside * inside * (3 * 0.044715) + 1.0) * scale
    return near.where(s + inside * s * formulas.sigmoid(-u) * steep, (x > 0.0).where(x.constant(1.0), 0.0))


@derivative("logaddexp", POINTWISE)
def _logaddexp(y: UOp, dy: UOp, a: UOp, b: UOp) -> tuple[UOp | None, ...]:
    """The weights of a softmax of two; halves where both are the same infinity."""
    difference = a.eq(b).where(a.constant(0.0), a - b)
    return dy * formulas.sigmoid(difference), dy * formulas.sigmoid(-difference)


@derivative("logaddexp2", POINTWISE)
def _logaddexp2(y: UOp, dy: UOp, a: UOp, b: UOp) -> tuple[UOp | None, ...]:
    """The same of powers of two."""
    difference = a.eq(b).where(a.constant(0.0), a - b) * math.log(2)
    return dy * formulas.sigmoid(difference), dy * formulas.sigmoid(-difference)


@derivative("truncating_modulo", POINTWISE)
def _truncating_modulo(y: UOp, dy: UOp, a: UOp, b: UOp) -> tuple[UOp | None, ...]:
    """a - trunc(a / b) * b"""
    return dy, -(dy * (a / b).trunc())


@derivative("floor_modulo", POINTWISE)
def _floor_modulo(y: UOp, dy: UOp, a: UOp, b: UOp) -> tuple[UOp | None, ...]:
    """a - floor(a / b) * b"""
    return dy, -(dy * (a / b).floor())


@derivative("floor_divide", POINTWISE)
def _floor_divide(y: UOp, dy: UOp, a: UOp, b: UOp) -> tuple[UOp | None, ...]:
    """Steps."""
    return None, None


@derivative("copysign", POINTWISE)
def _copysign(y: UOp, dy: UOp, a: UOp, b: UOp) -> tuple[UOp | None, ...]:
    """The sign that was changed, 0 at 0."""
    same = (formulas.is_negative(a) ^ formulas.is_negative(b)).where(-dy, dy)
    return a.eq(0.0).where(dy.constant(0.0), same), None


@slope("cbrt")
def _cbrt(y: UOp, x: UOp) -> UOp:
    """1 / (3 y**2); infinite at 0."""
    return (y * y * 3.0).reciprocal()


@slope("sinc")
def _sinc(y: UOp, x: UOp) -> UOp:
    """(cos(pi x) - y) / x; its series near 0, where both are almost 1."""
    near = abs(x) < 1e-2
    apart = near.where(x.constant(1.0), x)
    square = x * x * math.pi**2
    series = x * (math.pi**2 / 3) * (square * 0.1 - 1.0)
    return near.where(series, ((apart * math.pi).cos() - y) / apart)


@derivative("xlogy", POINTWISE)
def _xlogy(z: UOp, dy: UOp, x: UOp, y: UOp) -> tuple[UOp | None, ...]:
    """log(y) and x / y; 0 / 0 is 0 there."""
    return dy * formulas.log(y), x.eq(0.0).where(dy * 0.0, dy * x / y)


@derivative("xlog1py", POINTWISE)
def _xlog1py(z: UOp, dy: UOp, x: UOp, y: UOp) -> tuple[UOp | None, ...]:
    """log(1 + y) and x / (1 + y); 0 / 0 is 0 there."""
    return dy * formulas.log1p(y), x.eq(0.0).where(dy * 0.0, dy * x / (y + 1.0))


@derivative("times_log", POINTWISE)
def _times_log(z: UOp, dy: UOp, x: UOp, logarithm: UOp) -> tuple[UOp | None, ...]:
    """The logarithm, finite: what makes it infinite often makes the gradient of x 0; and x."""
    largest = float(x.dtype.largest)
    return dy * logarithm.maximum(-largest).minimum(largest), dy * x


@derivative("root_of_squares", POINTWISE)
def _root_of_squares(y: UOp, dy: UOp, total: UOp) -> tuple[UOp | None, ...]:
    """1 / (2 y), but 0 at 0, where every square has the gradient 0."""
    return (y.eq(0.0).where(dy.constant(0.0), dy * 0.5 / y),)


@derivative("power_of_squares", POINTWISE)
def _power_of_squares(y: UOp, dy: UOp, total: UOp, exponent: UOp) -> tuple[UOp | None, ...]:
    """The gradient of a power, but 0 at 0."""
    inside = total.eq(0.0).where(total.constant(1.0), total)
    slope = dy * exponent * inside ** (exponent - 1.0)
    return total.eq(0.0).where(dy.constant(0.0), slope), None


@derivative("crossentropy_logits", POINTWISE)
def _crossentropy_logits(z: UOp, dy: UOp, x: UOp, y: UOp) -> tuple[UOp | None, ...]:
    """sigmoid(x) - y and -x."""
    return dy * (formulas.sigmoid(x) - y), -(dy * x)


@derivative("crossentropy", POINTWISE)
def _crossentropy(z: UOp, dy: UOp, p: UOp, y: UOp) -> tuple[UOp | None, ...]:
    """(p - y) / (p (1 - p)), finite at 0 and 1 as in PyTorch; and the difference of the logarithms."""
    spread = (p * (1.0 - p)).maximum(1e-12)
    logarithms = formulas.log1p(-p).maximum(-100.0) - formulas.log(p).maximum(-100.0)
    return dy * (p - y) / spread, dy * logarithms


@derivative("hypot", POINTWISE)
def _hypot(z: UOp, dy: UOp, x: UOp, y: UOp) -> tuple[UOp | None, ...]:
    """The direction; 0 at the origin."""
    length = z.eq(0.0).where(z.constant(1.0), z)
    return dy * (x / length), dy * (y / length)


@derivative("atan2", POINTWISE)
def _atan2(z: UOp, dy: UOp, y: UOp, x: UOp) -> tuple[UOp | None, ...]:
    """x / (x**2 + y**2) and -y / (x**2 + y**2), without overflow."""
    length = formulas.hypot(x, y)
    return dy * (x / length / length), -(dy * (y / length / length))
