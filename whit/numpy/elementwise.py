"""One element of each operand into one: the standard's elementwise functions.

They are the methods of these names. Operands broadcast and meet in a common dtype; a Python number on either side takes
that of the other operand where its kind allows.
"""

from __future__ import annotations

from typing import Any

from whit.dtype import DType
from whit.numpy.operands import NUMBERS, binary, tensor_of, unary
from whit.tensor import Tensor

__all__ = [
    "abs",
    "acos",
    "acosh",
    "add",
    "asin",
    "asinh",
    "atan",
    "atan2",
    "atanh",
    "bitwise_and",
    "bitwise_invert",
    "bitwise_left_shift",
    "bitwise_or",
    "bitwise_right_shift",
    "bitwise_xor",
    "ceil",
    "clip",
    "conj",
    "copysign",
    "cos",
    "cosh",
    "divide",
    "equal",
    "exp",
    "expm1",
    "floor",
    "floor_divide",
    "greater",
    "greater_equal",
    "hypot",
    "imag",
    "isfinite",
    "isinf",
    "isnan",
    "less",
    "less_equal",
    "log",
    "log1p",
    "log2",
    "log10",
    "logaddexp",
    "logical_and",
    "logical_not",
    "logical_or",
    "logical_xor",
    "maximum",
    "minimum",
    "multiply",
    "negative",
    "nextafter",
    "not_equal",
    "positive",
    "pow",
    "real",
    "reciprocal",
    "remainder",
    "round",
    "sign",
    "signbit",
    "sin",
    "sinh",
    "sqrt",
    "square",
    "subtract",
    "tan",
    "tanh",
    "trunc",
]

abs = unary("abs")
acos = unary("acos")
acosh = unary("acosh")
asin = unary("asin")
asinh = unary("asinh")
atan = unary("atan")
atanh = unary("atanh")
bitwise_invert = unary("bitwise_invert")
ceil = unary("ceil")
conj = unary("conj")
cos = unary("cos")
cosh = unary("cosh")
exp = unary("exp")
expm1 = unary("expm1")
floor = unary("floor")
isfinite = unary("isfinite")
isinf = unary("isinf")
isnan = unary("isnan")
log = unary("log")
log1p = unary("log1p")
log2 = unary("log2")
log10 = unary("log10")
logical_not = unary("logical_not")
negative = unary("negative")
positive = unary("positive")
reciprocal = unary("reciprocal")
sign = unary("sign")
signbit = unary("signbit")
sin = unary("sin")
sinh = unary("sinh")
sqrt = unary("sqrt")
square = unary("square")
tan = unary("tan")
tanh = unary("tanh")
trunc = unary("trunc")

add = binary("add")
atan2 = binary("atan2")
bitwise_and = binary("bitwise_and")
bitwise_left_shift = binary("bitwise_left_shift")
bitwise_or = binary("bitwise_or")
bitwise_right_shift = binary("bitwise_right_shift")
bitwise_xor = binary("bitwise_xor")
copysign = binary("copysign")
divide = binary("divide")
equal = binary("eq", "equal", turned="eq")
floor_divide = binary("floor_divide")
greater = binary("greater", turned="less")
greater_equal = binary("greater_equal", turned="less_equal")
hypot = binary("hypot")
less = binary("less", turned="greater")
less_equal = binary("less_equal", turned="greater_equal")
logaddexp = binary("logaddexp")
logical_and = binary("logical_and")
logical_or = binary("logical_or")
logical_xor = binary("logical_xor")
maximum = binary("maximum")
minimum = binary("minimum")
multiply = binary("multiply")
nextafter = binary("nextafter")
not_equal = binary("not_equal", turned="not_equal")
pow = binary("pow")
remainder = binary("remainder")
subtract = binary("subtract")


def round(x: Any, /, decimals: int = 0) -> Tensor:
    """To the nearest whole number, halves to the even one; `decimals` places behind the point stay."""
    return tensor_of(x).round(decimals)


def real(x: Any, /) -> Tensor:
    """The real part; of real numbers they themselves."""
    return tensor_of(x).real


def imag(x: Any, /) -> Tensor:
    """The imaginary part; zeros of real numbers."""
    return tensor_of(x).imag


def clip(x: Any, /, min: Any = None, max: Any = None) -> Tensor:
    """Not below min, then not above max, each a number or an array. The dtype is that of x where the bounds are of its
    kind."""
    given = tensor_of(x)
    low, high = (_bound(bound, given.dtype, sign) for bound, sign in ((min, -1), (max, 1)))
    if low is None and high is None:
        return given.positive()
    result = given
    for bound, method in ((low, "maximum"), (high, "minimum")):
        if bound is not None:
            result = getattr(result, method)(bound)
    is_same_kind = given.dtype.is_int == result.dtype.is_int
    return result.cast(given.dtype) if is_same_kind and result.dtype is not given.dtype else result


def _bound(bound: Any, dtype: DType, sign: int) -> Any:
    """A bound; None where it is a number beyond all that the dtype holds, on the side where it bounds nothing."""
    if type(bound) is int and dtype.is_int:
        if (bound - dtype.max) * sign > 0 and sign > 0:
            return None
        if (bound - dtype.min) * sign > 0 and sign < 0:
            return None
    return bound if bound is None or isinstance(bound, NUMBERS) else tensor_of(bound)
