"""The meanings of the op table on Python scalars: the namespace `xp` for constant folding.

The functions carry NumPy's names and never raise on a value: a division by zero, an overflow or a domain error gives
what IEEE 754 gives. The interpreter uses NumPy itself as `xp`; `tests/ops/test_meaning.py` holds the two together.
NumPy is not imported here: folding a constant must not cost its import.
"""

from __future__ import annotations

import math
from typing import Any

nan = math.nan
inf = math.inf


def where(condition: Any, yes: Any, no: Any) -> Any:
    """A choice that may be made by a number."""
    return yes if condition else no


def invert(x: Any) -> Any:
    """Of a bool the other one, which ~ in Python is not."""
    return not x if isinstance(x, bool) else ~x


def maximum(x: Any, y: Any) -> Any:
    """The larger; NaN if either is, where Python's max depends on the order."""
    if x != x:
        return x
    return y if y != y or y > x else x


def minimum(x: Any, y: Any) -> Any:
    """The smaller; NaN if either is, where Python's min depends on the order."""
    if x != x:
        return x
    return y if y != y or y < x else x


def divide(x: float, y: float) -> float:
    """A quotient by IEEE 754: by zero an infinity with the sign of both, and NaN for 0 / 0."""
    if y != 0:
        return x / y
    if x == 0 or x != x:
        return nan
    return math.copysign(inf, x) * math.copysign(1.0, y)


def sqrt(x: float) -> float:
    """NaN below zero, where math.sqrt raises."""
    return nan if x < 0 else math.sqrt(x)


def exp(x: float) -> float:
    """Infinity where math.exp overflows."""
    try:
        return math.exp(x)
    except OverflowError:
        return inf


def log(x: float) -> float:
    """-infinity at zero and NaN below, where math.log raises."""
    if x == 0:
        return -inf
    return nan if x < 0 else math.log(x)


def tanh(x: float) -> float:
    """The same as math.tanh."""
    return math.tanh(x)


def exp2(x: float) -> float:
    """Infinity where math.exp2 overflows."""
    try:
        return float(math.exp2(x))
    except OverflowError:
        return inf


def log2(x: float) -> float:
    """-infinity at zero and NaN below, where math.log2 raises."""
    if x == 0:
        return -inf
    return nan if x < 0 else math.log2(x)


def logaddexp(x: float, y: float) -> float:
    """The larger, and a little more."""
    if x != x or y != y:
        return nan
    high = max(x, y)
    return high if math.isinf(high) else high + math.log1p(math.exp(-abs(x - y)))


def sin(x: float) -> float:
    """NaN at infinity, where math.sin raises."""
    return nan if math.isinf(x) else math.sin(x)


def cos(x: float) -> float:
    """NaN at infinity, where math.cos raises."""
    return nan if math.isinf(x) else math.cos(x)


def _keep_special(x: float) -> bool:
    return x != x or math.isinf(x) or x == 0


def trunc(x: float) -> float:
    """Toward zero, as a float: infinities, NaN and the sign of zero stay."""
    return x if _keep_special(x) else math.copysign(float(math.trunc(x)), x)


def floor(x: float) -> float:
    """Down, as a float: infinities, NaN and the sign of zero stay."""
    return x if _keep_special(x) else math.copysign(float(math.floor(x)), x)


def ceil(x: float) -> float:
    """Up, as a float: infinities and NaN stay, and -0.5 becomes -0.0."""
    return x if _keep_special(x) else math.copysign(float(math.ceil(x)), x)


def rint(x: float) -> float:
    """To the nearest, halves to even, as a float: infinities, NaN and the sign of zero stay."""
    return x if _keep_special(x) else math.copysign(float(round(x)), x)


def power(x: float, y: float) -> float:
    """C's pow: infinity where math.pow overflows, NaN or an infinity where it raises."""
    try:
        return math.pow(x, y)
    except OverflowError:
        negative = x < 0 and y % 2 == 1
        return -inf if negative else inf
    except ValueError:  # 0 to a negative power, or a negative number to a fraction
        if x != 0:
            return nan
        return math.copysign(inf, x) if y % 2 == 1 else inf


def absolute(x: Any) -> Any:
    """The magnitude of any number."""
    return abs(x)


def fma(x: Any, y: Any, z: Any, *, to_odd: bool = False) -> Any:
    """x * y + z, rounded once to double.

    Before another rounding to a narrower format ask for rounding `to_odd`: if inexact, the neighbour whose last bit is
    1. That is never a tie of the narrower format, so rounding it gives the exact result rounded once.
    """
    if isinstance(x, int):
        return x * y + z
    if not (math.isfinite(x) and math.isfinite(y)):
        return x * y + z
    if not math.isfinite(z):
        return z  # also where the product is finite, but too large for a double
    from fractions import Fraction  # lazy: the interpreter alone needs it, and it loads decimal numbers

    exact = Fraction(x) * Fraction(y) + Fraction(z)
    if exact == 0:
        return x * y + z  # the signs of the zeros decide
    try:
        nearest = float(exact)
    except OverflowError:
        return inf if exact > 0 else -inf
    if to_odd and nearest != exact and _ends_in_zero(nearest):
        return math.nextafter(nearest, inf if exact > nearest else -inf)
    return nearest


def _ends_in_zero(x: float) -> bool:
    """Whether the last bit of a double's mantissa is 0."""
    return math.frexp(x)[0] * 2.0**53 % 2 == 0 if abs(x) >= 2.0**-1022 else x / 2.0**-1074 % 2 == 0
