"""Identities, as data: what, into what, when, for which dtypes.

Each rule is checked by `whit.ir.check.rules`: on random and nasty values (soundness), and in a fixed order of terms
(termination). Floats have only what is exact under IEEE 754 for every value: no `x * 0 -> 0`, no `x / x -> 1`, no
`x + 0.0 -> x` (it turns -0.0 into 0.0); the saturating fp8 formats have none at all.
"""

from __future__ import annotations

from whit.dtype import dtypes
from whit.ir import ops
from whit.ir.pattern import anything, constant, node
from whit.ir.rules import BOOLS, INDEX, INTS, Rule
from whit.simplify.sums import is_short

IEEE = frozenset({dtypes.float16, dtypes.bfloat16, dtypes.float32, dtypes.float64, dtypes.weakfloat})

x, y, z = anything("x"), anything("y"), anything("z")
a, b = anything("a"), anything("b")
c0, c1 = constant("c0"), constant("c1")

INTEGERS = (
    Rule(x + 0, x, on=INTS),
    Rule(x * 0, 0, on=INTS),
    Rule(x * 1, x, on=INTS),
    Rule(x - y, x + y * -1, on=INTS),
    Rule(-x, x * -1, on=INTS),
    Rule((x * c0) * c1, x * (c0 * c1), on=INTS),
    Rule((x + y) * c0, x * c0 + y * c0, when=is_short(x), on=INTS),
    Rule(x // 1, x, on=INTS),
    Rule(x // 0, 0, on=INTS),
    Rule(x % 1, 0, on=INTS),
    Rule(x % 0, x, on=INTS),
    Rule(node(ops.CDIV, x, 1), x, on=INTS),
    Rule(node(ops.CMOD, x, 1), 0, on=INTS),
    Rule(node(ops.CMOD, x, 0), x, on=INTS),
    Rule(x & 0, 0, on=INTS),
    Rule(x & x, x, on=INTS | BOOLS),
    Rule(x | 0, x, on=INTS),
    Rule(x | x, x, on=INTS | BOOLS),
    Rule(x ^ 0, x, on=INTS),
    Rule(x ^ x, 0, on=INTS),
    Rule(~(~x), x, on=INTS | BOOLS),
    Rule(x << 0, x, on=INTS),
    Rule(x >> 0, x, on=INTS),
    Rule(x << c0, x * 2**c0, when=(c0 > 0) & (c0 < 1024), on=INDEX),
    Rule(x >> c0, x // 2**c0, when=(c0 > 0) & (c0 < 1024), on=INDEX),
)

FLOATS = (
    Rule(x * 1, x, on=IEEE),
    Rule(x / 1, x, on=IEEE),
    Rule(x / -1, -x, on=IEEE),
    Rule(x - 0.0, x, on=IEEE),
    Rule(x + -0.0, x, on=IEEE),
    Rule(node(ops.NEG, -x), x, on=IEEE),
    Rule(x - (-y), x + y, on=IEEE),
    Rule(node(ops.ABS, -x), node(ops.ABS, x), on=IEEE),
    Rule(node(ops.ABS, node(ops.ABS, x)), node(ops.ABS, x), on=IEEE | INTS),
)

EXTREMES = (
    Rule(node(ops.MAX, x, x), x, on=IEEE | INTS),
    Rule(node(ops.MIN, x, x), x, on=IEEE | INTS),
    Rule(node(ops.MAX, node(ops.MAX, x, y), y), node(ops.MAX, x, y), on=INTS),
    Rule(node(ops.MIN, node(ops.MIN, x, y), y), node(ops.MIN, x, y), on=INTS),
)

COMPARISONS = (
    Rule(x < x, False, on=INTS | IEEE | BOOLS),
    Rule(node(ops.EQ, x, x), True, on=INTS | BOOLS),
    Rule(node(ops.NE, x, y), ~node(ops.EQ, x, y), on=INTS | BOOLS),
    Rule(x <= y, x < y + 1, on=INDEX),
    Rule(x <= y, ~(y < x), on=INTS - INDEX),
    Rule(node(ops.EQ, x, True), x, on=BOOLS),
    Rule(node(ops.EQ, x, False), ~x, on=BOOLS),
)

BOOLEANS = (
    Rule(x & True, x, on=BOOLS),
    Rule(x | False, x, on=BOOLS),
    Rule(x ^ False, x, on=BOOLS),
    Rule(x ^ True, ~x, on=BOOLS),
    Rule(x ^ x, False, on=BOOLS),
    Rule(x & ~x, False, on=BOOLS),
    Rule(x | ~x, True, on=BOOLS),
    Rule(x & (x | y), x, on=BOOLS),
    Rule(x | (x & y), x, on=BOOLS),
    Rule((x & y) & x, x & y, on=BOOLS),
    Rule((x | y) | x, x | y, on=BOOLS),
)

CHOICES = (
    Rule(node(ops.WHERE, True, x, y), x, on=BOOLS),
    Rule(node(ops.WHERE, False, x, y), y, on=BOOLS),
    Rule(node(ops.WHERE, a, x, x), x, on=BOOLS),
    Rule(node(ops.WHERE, a, True, False), a, on=BOOLS),
    Rule(node(ops.WHERE, a, False, True), ~a, on=BOOLS),
    Rule(node(ops.WHERE, ~a, x, y), node(ops.WHERE, a, y, x), on=BOOLS),
    Rule(node(ops.WHERE, a, node(ops.WHERE, a, x, y), z), node(ops.WHERE, a, x, z), on=BOOLS),
    Rule(node(ops.WHERE, a, x, node(ops.WHERE, a, y, z)), node(ops.WHERE, a, x, z), on=BOOLS),
)

ALGEBRA = (*INTEGERS, *FLOATS, *EXTREMES, *COMPARISONS, *BOOLEANS, *CHOICES)
