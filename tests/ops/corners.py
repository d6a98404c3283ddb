"""Values at which ops go wrong, for every dtype, and how to compare what comes out.

The tests in this folder are generated from the op table: each op with each dtype that its record accepts.
"""

import itertools
import math
import random
from collections.abc import Sequence
from typing import Any

import numpy as np

from whit.dtype import DType, decode, dtypes, encode, round_float, wrap
from whit.errors import DTypeError
from whit.ir import ops, scalar
from whit.ir.interpret import numpy_dtype
from whit.ir.op import Op
from whit.ir.uop import UOp, const, make

DTYPES = (dtypes.weakint, *dtypes.scalars)

# The values of these come from a mathematical library: within a few units of the last place, not exact.
APPROXIMATE = (
    *(ops.EXP, ops.EXP2, ops.LOG, ops.LOG2, ops.SIN, ops.COS, ops.POW, ops.LOGADDEXP),
    *(ops.SIGMOID, ops.TANH, ops.ERF),
)
ULPS = 4

_FLOATS = (0.0, 1.0, 0.5, 1.5, 2.0, 2.5, 3.0, 0.1, 1 / 3, math.pi, 7.0, 100.0, 1e-3, 65504.0, 1e30, 1e-30, math.inf)


def source_dtypes(op: Op, dtype: DType) -> tuple[DType, ...]:
    """The dtypes of an op's operands when it works on `dtype`."""
    return (dtypes.bool, dtype, dtype) if op is ops.WHERE else (dtype,) * op.least


def accepted() -> list[Any]:
    """(op, dtype) for every elementwise op and every dtype that its rule accepts."""
    found = []
    for op, dtype in itertools.product(ops.ELEMENTWISE, DTYPES):
        try:
            make(op, tuple(const(source, 1) for source in source_dtypes(op, dtype)))
        except DTypeError:
            continue
        found.append((op, dtype))
    return found


def name_of(value: Any) -> str:
    """How a test's name shows an op or a dtype."""
    return value.name


def corners(dtype: DType) -> list[Any]:
    """Values where something changes, and some ordinary ones."""
    generator = random.Random(dtype.name)
    if dtype.is_bool:
        return [False, True]
    if dtype.is_float:
        codes = [0, 1, 2, (1 << dtype.mantissa_bits) - 1, 1 << dtype.mantissa_bits]  # zero, subnormals, least normal
        codes += [generator.randrange(1 << (dtype.bitsize - 1)) for _ in range(8)]
        codes.append(encode(dtype, dtype.largest))
        positive = [decode(dtype, code) for code in codes] + [round_float(dtype, value) for value in _FLOATS]
        if dtype.has_inf:
            positive.append(decode(dtype, encode(dtype, math.inf)))
        values = positive + [math.nan] + [-value for value in positive]
        if dtype.flavour == "fnuz":
            values = [value + 0.0 for value in values]
    else:
        low, high = (-(1 << 70), 1 << 70) if dtype is dtypes.weakint else (dtype.min, dtype.max)
        values = [0, 1, 2, 3, 7, 8, 31, 32, 33, 63, 64, 100, low, low + 1, high - 1, high, high // 2, high // 2 + 1]
        values += [-1, -2, -3, -7, -8, -100]
        values += [generator.randint(low, high) for _ in range(6)]
        values = [value for value in values if low <= value <= high]
    return list({(str(value), value): value for value in values}.values())


def samples(sources: Sequence[DType], most: int = 2500) -> list[tuple[Any, ...]]:
    """Tuples of operands: all combinations of corners if they are few, else a random part of them."""
    generator = random.Random(str([source.name for source in sources]))
    choices = [corners(source) for source in sources]
    if math.prod(len(choice) for choice in choices) <= most:
        return list(itertools.product(*choices))
    return [tuple(generator.choice(choice) for choice in choices) for _ in range(most)]


def to_array(dtype: DType, values: Sequence[Any]) -> Any:
    """Python values as an array, bit by bit."""
    if dtype.is_float:
        return np.array([encode(dtype, value) for value in values], f"u{dtype.itemsize}").view(numpy_dtype(dtype))
    return np.array(values, numpy_dtype(dtype))


def graph_on(op: Op, dtype: DType, count: int) -> tuple[UOp, tuple[UOp, ...]]:
    """The op on buffers of that many elements, and the buffers."""
    buffers = tuple(UOp.buffer(i, source, (count,)) for i, source in enumerate(source_dtypes(op, dtype)))
    return make(op, buffers), buffers


def by_scalars(op: Op, dtype: DType, operands: Sequence[Any]) -> Any:
    """What constant folding makes of one application of the op."""
    result = make(op, tuple(const(source, 1) for source in source_dtypes(op, dtype))).dtype
    assert op.python is not None
    if op is ops.FMA and dtype.is_float:
        value = scalar.fma(*operands, to_odd=dtype.mantissa_bits < 52)
    else:
        value = op.python(scalar, *operands)
    if op is ops.WHERE:
        return value
    if result.is_float:
        return round_float(result, value)
    return bool(value) if result.is_bool else wrap(result, int(value))


def to_python(dtype: DType, array: Any) -> list[Any]:
    """The elements of an array as Python scalars."""
    with np.errstate(all="ignore"):
        return (array.astype(np.float64) if dtype.is_float else array).tolist()


def is_same(dtype: DType, left: Any, right: Any, ulps: int = 0, signed_zero: bool = True) -> bool:
    """Equality of results: NaN equals NaN; 0.0 differs from -0.0 where the sign of zero is specified."""
    if not dtype.is_float:
        return type(left) is type(right) and left == right
    if left != left or right != right:
        return left != left and right != right
    if left == right:
        return left != 0 or not signed_zero or math.copysign(1, left) == math.copysign(1, right)
    if ulps == 0 or math.isinf(left) or math.isinf(right):
        return False
    _, exponent = math.frexp(right)
    unit = max(exponent - dtype.mantissa_bits - 1, 1 - dtype.bias - dtype.mantissa_bits)
    return bool(abs(left - right) <= ulps * math.ldexp(1.0, unit))
