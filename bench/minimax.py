"""Finds the coefficients of whit/codegen/math/tables.py: weighted minimax polynomials by Remez exchange, in mpmath.

    pip install mpmath gmpy2
    python bench/minimax.py             # all of them, with the error of each; about a minute
    python bench/minimax.py exp2        # those whose name contains exp2

Coefficients are simply rounded to the dtype: in every form used here the leading term is exact and not among them, so
that what their rounding costs is small beside the last bit of the result. Paste what is printed.
"""

from __future__ import annotations

import struct
import sys
from collections.abc import Callable
from dataclasses import dataclass

from mpmath import erf, erfc, log, lu_solve, matrix, mp, mpf, pi, sin, sqrt

mp.prec = 240
Real = Callable[[mpf], mpf]
GRID = 400  # points on which the extremes of the error are looked for


@dataclass(frozen=True)
class Fit:
    """A function on an interval, and how much an error at x counts: error(x) * weight(x)."""

    name: str
    function: Real
    weight: Real
    low: mpf
    high: mpf
    degree: int
    single: bool  # coefficients are float32, else float64


def rounded(x: mpf, single: bool) -> mpf:
    """The nearest float32 or float64."""
    value = float(x)
    return mpf(struct.unpack("f", struct.pack("f", value))[0]) if single else mpf(value)


def evaluate(coefficients: list[mpf], x: mpf) -> mpf:
    """Horner's scheme; the lowest coefficient comes first."""
    result = mpf(0)
    for c in reversed(coefficients):
        result = result * x + c
    return result


def chebyshev_points(low: mpf, high: mpf, count: int) -> list[mpf]:
    """The extremes of a Chebyshev polynomial, in order."""
    middle, half = (low + high) / 2, (high - low) / 2
    return [middle - half * mp.cos(pi * i / (count - 1)) for i in range(count)]


def remez(fit: Fit) -> list[mpf]:
    """The best coefficients: the weighted error has equal extremes of alternating sign."""
    count = fit.degree + 1
    samples = [(x, fit.function(x), abs(fit.weight(x))) for x in chebyshev_points(fit.low, fit.high, GRID)]
    places = [round((i + 0.5) * GRID / (count + 1)) for i in range(count + 1)]
    coefficients: list[mpf] = []
    for _ in range(40):
        rows, right = matrix(count + 1, count + 1), matrix(count + 1, 1)
        for i, place in enumerate(places):
            x, y, w = samples[place]
            for j in range(count):
                rows[i, j] = x**j * w
            rows[i, count] = (-1) ** i
            right[i] = y * w
        *coefficients, level = lu_solve(rows, right)
        errors = [(evaluate(coefficients, x) - y) * w for x, y, w in samples]
        if max(abs(e) for e in errors) <= abs(level) * mpf("1.001"):
            return coefficients
        places = alternating_extremes(errors, count + 1)
    raise ArithmeticError(f"{fit.name}: no equal extremes after 40 exchanges")


def alternating_extremes(errors: list[mpf], count: int) -> list[int]:
    """The largest error of each run of equal sign; of too many runs, drops the smallest at the ends."""
    best: list[int] = []
    for i, e in enumerate(errors):
        if best and (errors[best[-1]] > 0) == (e > 0):
            if abs(e) > abs(errors[best[-1]]):
                best[-1] = i
        else:
            best.append(i)
    while len(best) > count:
        best.pop(0 if abs(errors[best[0]]) < abs(errors[best[-1]]) else -1)
    return best


def solve(fit: Fit) -> tuple[list[mpf], mpf]:
    """Coefficients rounded to the dtype, and the largest weighted error with them."""
    coefficients = [rounded(c, fit.single) for c in remez(fit)]
    points = chebyshev_points(fit.low, fit.high, 2 * GRID + 1)
    return coefficients, max(abs((evaluate(coefficients, x) - fit.function(x)) * fit.weight(x)) for x in points)


LOG2E = 1 / log(2)
K = 2 * LOG2E


def log2(x: mpf) -> mpf:
    return log(x) * LOG2E


def log2_tail(f: mpf) -> mpf:
    return (log2(1 + f) - LOG2E * f) / f**2


def atanh_tail(z: mpf) -> mpf:
    """R where log2((1 + s) / (1 - s)) = K s + K/3 s^3 + R(s^2) s^5."""
    s = sqrt(z)
    return (log2((1 + s) / (1 - s)) - K * s - K / 3 * s**3) / s**5


def on_square(function: Real) -> Real:
    """A function of z = x^2 from one of x."""
    return lambda z: function(sqrt(z))


TINY = mpf(2) ** -30  # instead of 0, where a quotient has no value
ERF_SPLIT = mpf(1)


def fits() -> list[Fit]:
    """Every polynomial; the same shape for both dtypes."""
    result = []
    for single in (True, False):
        bits = "32" if single else "64"

        def add(name: str, function: Real, weight: Real, low: object, high: object, degrees: tuple[int, int]) -> None:
            degree = degrees[0] if single else degrees[1]  # noqa: B023
            result.append(Fit(f"{name}_{bits}", function, weight, mpf(low), mpf(high), degree, single))  # noqa: B023

        half, third, quarter = mpf("0.5"), mpf(1) / 3, pi / 4 + mpf(2) ** -9
        add("exp2", lambda f: (2**f - 1) / f, lambda f: f / 2**f, -half - TINY, half, (5, 10))
        add("log2", log2_tail, lambda f: f**2 / log2(1 + f), -third, third + TINY, (8, 20))
        small = (sqrt(2) - 1) / (sqrt(2) + 1)
        add("pow", atanh_tail, lambda z: z**2 / K, TINY, small**2 * mpf("1.001"), (2, 6))
        if not single:
            turn = mpf("0.63") ** 2
            add(
                "sin_half_turns",
                on_square(lambda u: sin(pi * u) / u),
                on_square(lambda u: u / sin(pi * u)),
                TINY,
                turn,
                (5, 5),
            )
            add(
                "sin",
                on_square(lambda r: (sin(r) - r) / r**3),
                on_square(lambda r: r**3 / sin(r)),
                TINY,
                quarter**2,
                (5, 5),
            )
            cos_tail = on_square(lambda r: (mp.cos(r) - 1 + r * r / 2) / r**4)
            add("cos", cos_tail, on_square(lambda r: r**4 / mp.cos(r)), TINY, quarter**2, (5, 5))
        add(
            "erf_small",
            on_square(lambda x: erf(x) / x - 1),
            on_square(lambda x: x / erf(x)),
            TINY,
            ERF_SPLIT**2,
            (6, 12),
        )
        add(
            "erf_large",
            lambda x: log2(erfc(x)),
            lambda x: erfc(x) * log(2) / erf(x),
            ERF_SPLIT,
            4 if single else 6,
            (6, 18),
        )
    return result


def main() -> None:
    wanted = sys.argv[1] if len(sys.argv) > 1 else ""
    for fit in fits():
        if wanted not in fit.name:
            continue
        coefficients, error = solve(fit)
        print(f"{fit.name.upper()} = (  # error 2**{float(log2(error)):.1f}")
        for c in coefficients:
            print(f"    {float(c)!r},")
        print(")")


if __name__ == "__main__":
    main()
