"""Intervals of integers: what each op does to the bounds of its operands.

An interval is `(low, high)`, both inclusive. The functions here are exact or wider than the truth, never narrower;
`tests/ops/test_bounds.py` samples them against the meanings in the op table. Booleans are 0 and 1.
"""

from __future__ import annotations

Interval = tuple[int, int]


def add(a: Interval, b: Interval) -> Interval:
    """Low with low, high with high."""
    return a[0] + b[0], a[1] + b[1]


def subtract(a: Interval, b: Interval) -> Interval:
    """The lowest minus the highest, and the other way round."""
    return a[0] - b[1], a[1] - b[0]


def multiply(a: Interval, b: Interval) -> Interval:
    """The extremes are among the products of the ends; by one number they are two of these."""
    (a_low, a_high), (b_low, b_high) = a, b
    if b_low == b_high:
        return (a_low * b_low, a_high * b_low) if b_low >= 0 else (a_high * b_low, a_low * b_low)
    corners = (a_low * b_low, a_low * b_high, a_high * b_low, a_high * b_high)
    return min(corners), max(corners)


def negate(a: Interval) -> Interval:
    """The ends change places."""
    return -a[1], -a[0]


def absolute(a: Interval) -> Interval:
    """From 0 where the interval has it, else from the end that is nearer to it."""
    low, high = a
    if low >= 0:
        return a
    return (-high, -low) if high <= 0 else (0, max(-low, high))


def maximum(a: Interval, b: Interval) -> Interval:
    """The larger of both lows, and of both highs."""
    return max(a[0], b[0]), max(a[1], b[1])


def minimum(a: Interval, b: Interval) -> Interval:
    """The smaller of both lows, and of both highs."""
    return min(a[0], b[0]), min(a[1], b[1])


def _divisors(b: Interval) -> list[int]:
    """The divisors at which a quotient can be extreme."""
    low, high = b
    return [d for d in (low, high, -1, 1) if d != 0 and low <= d <= high]


def floor_divide(a: Interval, b: Interval) -> Interval:
    """Extreme at the ends of a, and at the divisors nearest to and farthest from zero; x // 0 is 0."""
    (a_low, a_high), (b_low, b_high) = a, b
    if b_low == b_high and b_low > 0:
        return a_low // b_low, a_high // b_low
    corners = [x // d for d in _divisors(b) for x in a]
    if b_low <= 0 <= b_high:
        corners.append(0)
    return min(corners), max(corners)


def truncating_quotient(x: int, d: int) -> int:
    """x / d rounded toward zero; 0 when d is 0."""
    if d == 0:
        return 0
    quotient = abs(x) // abs(d)
    return quotient if (x < 0) == (d < 0) else -quotient


def truncating_divide(a: Interval, b: Interval) -> Interval:
    """As floor_divide; also 0, where a changes its sign or the divisor may be 0."""
    a_low, a_high = a
    corners = [truncating_quotient(x, d) for d in _divisors(b) for x in a]
    if b[0] <= 0 <= b[1] or a_low <= 0 <= a_high:
        corners.append(0)
    return min(corners), max(corners)


def floor_modulo(a: Interval, b: Interval) -> Interval:
    """Between 0 and the divisor; exact where a stays within one period; a itself where the divisor may be 0."""
    (a_low, a_high), (b_low, b_high) = a, b
    if b_low > 0:
        if b_low == b_high and a_low // b_low == a_high // b_low:
            return a_low % b_low, a_high % b_low
        if a_low >= 0:
            return (a_low, a_high) if a_high < b_low else (0, min(a_high, b_high - 1))
        return 0, b_high - 1
    low, high = min(b_low + 1, 0), max(b_high - 1, 0)
    return (min(low, a_low), max(high, a_high)) if b_high >= 0 else (low, high)


def truncating_modulo(a: Interval, b: Interval) -> Interval:
    """Has the sign of a, and is nearer to zero than the divisor; a itself where the divisor may be 0."""
    (a_low, a_high), (b_low, b_high) = a, b
    if b_low <= 0 <= b_high:
        return min(a_low, 0), max(a_high, 0)
    largest = max(abs(b_low), abs(b_high)) - 1
    if a_low >= 0 and a_high < min(abs(b_low), abs(b_high)):
        return a
    return max(min(a_low, 0), -largest), min(max(a_high, 0), largest)


def less(a: Interval, b: Interval) -> Interval:
    """Certain where the intervals do not overlap."""
    return int(a[1] < b[0]), int(a[0] < b[1])


def less_equal(a: Interval, b: Interval) -> Interval:
    """Certain where the intervals share at most one number."""
    return int(a[1] <= b[0]), int(a[0] <= b[1])


def equal(a: Interval, b: Interval) -> Interval:
    """Certainly so for one and the same number, certainly not where the intervals do not overlap."""
    overlap = a[0] <= b[1] and b[0] <= a[1]
    return int(a[0] == a[1] == b[0] == b[1]), int(overlap)


def unequal(a: Interval, b: Interval) -> Interval:
    """The opposite of equal."""
    low, high = equal(a, b)
    return 1 - high, 1 - low


def _all_ones(value: int) -> int:
    """The smallest 2**n - 1 that is at least value."""
    return int((1 << value.bit_length()) - 1)


def bit_and(a: Interval, b: Interval) -> Interval:
    """At most the smaller of those that have no sign; else it keeps to the bits that either has."""
    (a_low, a_high), (b_low, b_high) = a, b
    if a_low >= 0 or b_low >= 0:
        return 0, min(high for low, high in (a, b) if low >= 0)
    reach = _all_ones(max(-a_low, -b_low))
    return -reach - 1, max(a_high, b_high)


def bit_or(a: Interval, b: Interval) -> Interval:
    """Sets no bit that neither has, and clears none."""
    (a_low, a_high), (b_low, b_high) = a, b
    if a_low >= 0 and b_low >= 0:
        return max(a_low, b_low), _all_ones(max(a_high, b_high))
    reach = _all_ones(max(a_high, b_high, -a_low, -b_low))
    return min(a_low, b_low), reach


def bit_xor(a: Interval, b: Interval) -> Interval:
    """Sets no bit that neither has, the sign included."""
    (a_low, a_high), (b_low, b_high) = a, b
    reach = _all_ones(max(a_high, b_high, -a_low, -b_low))
    return (0, reach) if a_low >= 0 and b_low >= 0 else (-reach - 1, reach)


def choose(condition: Interval, yes: Interval, no: Interval) -> Interval:
    """The side that the condition decides for, or both."""
    if condition == (1, 1):
        return yes
    if condition == (0, 0):
        return no
    return min(yes[0], no[0]), max(yes[1], no[1])


def multiply_add(a: Interval, b: Interval, c: Interval) -> Interval:
    """a * b + c."""
    return add(multiply(a, b), c)


def shift_left(a: Interval, b: Interval) -> Interval | None:
    """A product with powers of two; unknown where the shift may be negative or very long."""
    low, high = b
    return multiply(a, (1 << low, 1 << high)) if low >= 0 and high < 128 else None


def shift_right(a: Interval, b: Interval) -> Interval | None:
    """Extreme at the ends of both; unknown where the shift may be negative."""
    if b[0] < 0:
        return None
    corners = [x >> min(s, 1 << 16) for x in a for s in b]
    return min(corners), max(corners)
