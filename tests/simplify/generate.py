"""Random index expressions as kernels have them: sums, products by constants, divisions by small numbers, gates.

Made with `random`, not hypothesis: the solver and the corpus want the same few hundred graphs on every run.
"""

from __future__ import annotations

import random

from whit.dtype import dtypes
from whit.ir import ops
from whit.ir.op import Op
from whit.ir.uop import UOp, const, make

SUMS = (ops.ADD, ops.ADD, ops.ADD, ops.SUB)
SCALES = (ops.MUL, ops.MUL, ops.FLOORDIV, ops.FLOORDIV, ops.FLOORMOD, ops.FLOORMOD)
RARE = (ops.CDIV, ops.CMOD, ops.MIN, ops.MAX)
COMPARISONS = (ops.LT, ops.LT, ops.LE, ops.EQ, ops.NE)
SIZES = (2, 3, 4, 6, 8, 12, 16, 24, 32, 64)


def leaves() -> list[UOp]:
    """Variables of every sign, and ranges, one of symbolic size."""
    n = UOp.variable("n", 1, 64)
    small = [UOp.variable("x", 0, 1000), UOp.variable("y", -7, 9), UOp.variable("z", -100, -1), n]
    return [*small, UOp.range(16, 0), UOp.range(4, 1), UOp.range(n, 2), UOp.range(7, 3)]


def number(generator: random.Random) -> UOp:
    """Mostly the sizes of axes, some of any sign, zero among them, and rarely one beyond int64."""
    value = generator.choice([generator.choice(SIZES), generator.choice(SIZES), generator.randint(-9, 9)])
    if generator.random() < 0.02:
        value = generator.choice([2**31, 2**63, -(2**63) - 1, 2**70])
    return const(dtypes.weakint, value)


class Pool:
    """The numbers and conditions made so far; the latest are picked most."""

    def __init__(self, generator: random.Random, linear: bool) -> None:
        self.generator = generator
        self.numbers = generator.sample(leaves(), generator.randint(1, 4))
        self.conditions: list[UOp] = []
        self.linear = linear  # no products or quotients of two unknowns, which solvers cannot decide

    def pick(self) -> UOp:
        return self.numbers[-1 - min(int(self.generator.expovariate(0.5)), len(self.numbers) - 1)]

    def operand(self, constants: float) -> UOp:
        return number(self.generator) if self.generator.random() < constants else self.pick()

    def grow(self) -> None:
        """One node more."""
        kind = self.generator.random()
        if kind < 0.12:
            op: Op = self.generator.choice(COMPARISONS)
            self.conditions.append(make(op, (self.pick(), self.operand(0.6))))
        elif kind < 0.18 and self.conditions:
            op = self.generator.choice((ops.AND, ops.AND, ops.OR, ops.XOR))
            self.conditions.append(make(op, (self.conditions[-1], self.generator.choice(self.conditions))))
        elif kind < 0.20 and self.conditions:
            self.conditions.append(~self.conditions[-1])
        elif kind < 0.28 and self.conditions:
            choice = (self.generator.choice(self.conditions), self.operand(0.3), self.operand(0.3))
            self.numbers.append(make(ops.WHERE, choice))
        elif kind < 0.6:
            self.numbers.append(make(self.generator.choice(SUMS), (self.pick(), self.operand(0.3))))
        elif kind < 0.95:
            op = self.generator.choice(SCALES)
            self.numbers.append(make(op, (self.pick(), self.operand(1.0 if self.linear else 0.85))))
        else:
            op = self.generator.choice(RARE)
            is_division = op in (ops.CDIV, ops.CMOD)
            self.numbers.append(make(op, (self.pick(), self.operand(1.0 if self.linear and is_division else 0.6))))


def random_index(generator: random.Random, size: int = 9, linear: bool = False) -> UOp:
    """A number made of up to `size` operations."""
    pool = Pool(generator, linear)
    for _ in range(generator.randint(1, size)):
        pool.grow()
    return pool.numbers[-1]


def random_condition(generator: random.Random, size: int = 9, linear: bool = False) -> UOp:
    """A comparison, or several joined together."""
    pool = Pool(generator, linear)
    for _ in range(generator.randint(1, size)):
        pool.grow()
    return pool.conditions[-1] if pool.conditions else pool.pick() < number(generator)


def random_gate(generator: random.Random, numbers: list[UOp]) -> UOp:
    """A conjunction of one to three comparisons between constants and these numbers, or sums of two of them."""
    clauses: list[UOp] = []
    for _ in range(generator.randint(1, 3)):
        left = generator.choice(numbers)
        if generator.random() < 0.4:
            left = left + generator.choice(numbers) * generator.choice((1, 1, 2, -1, 4))
        limit = const(dtypes.weakint, generator.randint(-10, 20))
        op = generator.choice((ops.LT, ops.LT, ops.LE, ops.EQ))
        clauses.append(make(op, (left, limit) if generator.random() < 0.6 else (limit, left)))
    gate = clauses[0]
    for clause in clauses[1:]:
        gate = gate & clause
    return gate
