"""What integers have in common: the greatest common divisor, and the least common multiple.

    gcd(12, -18)  ->  6          lcm(4, 6)  ->  12

Goes in: two nodes of one integer dtype and shape. Comes out: a node of that. Euclid's algorithm takes the most steps
for neighbours in Fibonacci's sequence, so their number is known for every dtype: 13 of int8, 92 of uint64.
"""

from __future__ import annotations

from whit.dtype import DType
from whit.ir.uop import UOp


def gcd(x: UOp, y: UOp) -> UOp:
    """The largest number that divides both; 0 of two zeros."""
    a, b = (value if value.dtype.is_unsigned else abs(value) for value in (x, y))
    for _ in range(_most_steps(x.dtype)):
        is_done = b.eq(0)
        a, b = is_done.where(a, b), is_done.where(b, a % is_done.where(b.constant(1), b))
    return a if x.dtype.is_unsigned else abs(a)


def lcm(x: UOp, y: UOp) -> UOp:
    """The smallest number that both divide; 0 if one is 0."""
    common = gcd(x, y)
    either_is_zero = common.eq(0)
    multiple = (x // either_is_zero.where(common.constant(1), common)) * y
    return multiple if x.dtype.is_unsigned else abs(multiple)


def _most_steps(dtype: DType) -> int:
    """How many divisions Euclid's algorithm takes at most."""
    small, large, count = 1, 1, 0
    while large <= dtype.max:
        small, large, count = large, small + large, count + 1
    return count + 1
