"""A second, tiny evaluator: Python numbers through the meanings in the op table, wrapped and rounded by dtype.

It is a hundred times faster on scalars than the interpreter, and shares no code with the simplifier's folding.
"""

from __future__ import annotations

import math
import random
from collections.abc import Mapping
from typing import Any

from whit.dtype import DType, convert, decode, dtypes, encode, round_float, wrap
from whit.ir import ops, scalar
from whit.ir.uop import UOp

Inputs = Mapping[UOp, Any]
TOO_LARGE = 1 << 4096


class UnspecifiedError(Exception):
    """The value is one that the semantics leave open: max(0.0, -0.0), or an integer too large to be worth computing."""


def value_of(root: UOp, inputs: Inputs) -> Any:
    """The number that a scalar graph stands for; `inputs` has the leaves that are not constants."""
    values: dict[UOp, Any] = dict(inputs)
    for node in root.topological():
        if node not in values:
            values[node] = _value(node, [values.get(s) for s in node.src])
    return values[root]


def _value(node: UOp, operands: list[Any]) -> Any:
    op, dtype = node.op, node.dtype
    if op is ops.CONST:
        return node.arg
    if op is ops.CAST:
        if dtype is dtypes.weakint and isinstance(operands[0], float) and math.isinf(operands[0]):
            raise UnspecifiedError
        return convert(dtype, operands[0])
    if op is ops.BITCAST:
        return decode(dtype, encode(node.src[0].dtype, operands[0]))
    if op is ops.WHERE:
        condition, yes, no = operands
        return yes if condition else no  # a choice, not arithmetic: nothing is rounded
    if op in (ops.SHL, ops.SHR):
        return _shift(node, *operands)
    if op is ops.FMA and dtype.is_float:
        return round_float(dtype, scalar.fma(*operands, to_odd=dtype.mantissa_bits < 52))
    if op in (ops.MAX, ops.MIN) and operands[0] == operands[1] == 0 and str(operands[0]) != str(operands[1]):
        raise UnspecifiedError
    assert op.python is not None, op
    result = op.python(scalar, *operands)
    if dtype.is_bool:
        return bool(result)
    if dtype.is_float:
        return round_float(dtype, result)
    result = wrap(dtype, int(result))
    if abs(result) > TOO_LARGE:
        raise UnspecifiedError
    return result


def _shift(node: UOp, value: int, amount: int) -> int:
    """Shifts have a meaning of their own where the amount is no bit number."""
    dtype = node.dtype
    width = 1 << 16 if dtype is dtypes.weakint else dtype.bitsize
    if not 0 <= amount < width:
        return 0 if node.op is ops.SHL or value >= 0 else -1
    if node.op is ops.SHL and amount > 4096:
        raise UnspecifiedError
    return wrap(dtype, value << amount if node.op is ops.SHL else value >> amount)


def is_same(left: Any, right: Any) -> bool:
    """Equal as values: NaN is NaN, and 0.0 is not -0.0."""
    if isinstance(left, float) or isinstance(right, float):
        if left != left or right != right:
            return bool(left != left and right != right)
        return type(left) is type(right) and left == right and math.copysign(1.0, left) == math.copysign(1.0, right)
    return type(left) is type(right) and bool(left == right)


def leaves_of(*roots: UOp) -> list[UOp]:
    """The variables, ranges and params below the roots, each once, sources before users."""
    found = dict.fromkeys(n for root in roots for n in root.topological())
    return [n for n in found if n.op in (ops.VARIABLE, ops.RANGE, ops.PARAM)]


def random_inputs(leaves: list[UOp], generator: random.Random) -> dict[UOp, Any] | None:
    """A value for each leaf inside its bounds, ends more often; None where a range turned out to be empty."""
    inputs: dict[UOp, Any] = {}
    for leaf in leaves:
        if leaf.op is ops.RANGE:
            high = value_of(leaf.src[0], inputs) - 1
            if high < 0:
                return None
            inputs[leaf] = _between(0, high, generator)
        elif leaf.op is ops.VARIABLE:
            inputs[leaf] = _between(leaf.arg.low, leaf.arg.high, generator)
        else:
            inputs[leaf] = random_number(leaf.dtype, generator)
    return inputs


def _between(low: int, high: int, generator: random.Random) -> int:
    near = [x for x in (low, high, -1, 0, 1, low + 1, high - 1) if low <= x <= high]
    return generator.choice([*near, *(generator.randint(low, high) for _ in range(6))])


def random_number(dtype: DType, generator: random.Random) -> Any:
    """Any value of a dtype, the special ones more often."""
    if dtype.is_bool:
        return generator.random() < 0.5
    if dtype is dtypes.weakint:
        return generator.choice([generator.randint(-9, 9), generator.randint(-(2**70), 2**70)])
    if dtype.is_int:
        return _between(dtype.min, dtype.max, generator)
    special = generator.choice([0.0, -0.0, 1.0, -1.0, 0.5, math.inf, -math.inf, math.nan, 3.0, 1e-310])
    if not dtype.bitsize:
        return special
    bits = generator.getrandbits(dtype.bitsize)
    return decode(dtype, bits) if generator.random() < 0.5 else round_float(dtype, special)
