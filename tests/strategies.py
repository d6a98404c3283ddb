"""Hypothesis strategies for graphs: valid by construction, quick to draw, and shrinking to few nodes.

Every strategy grows a pool, one node a step, from the nodes that it already has; the last one is the graph. Fewer
steps, the most recent operand and the first op of a list are what hypothesis shrinks towards.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

from hypothesis import strategies as st

from whit.dtype import DType, decode, dtypes
from whit.ir import ops
from whit.ir.op import Op
from whit.ir.uop import UOp, const

Draw = Callable[[st.SearchStrategy[Any]], Any]

# ---- scalars

INDEX_OPS = (ops.ADD, ops.SUB, ops.MUL, ops.FLOORDIV, ops.FLOORMOD, ops.CDIV, ops.CMOD, ops.MIN, ops.MAX)
INT_OPS = (*INDEX_OPS, ops.AND, ops.OR, ops.XOR, ops.SHL, ops.SHR)
INT_UNARY = (ops.NEG, ops.ABS, ops.NOT)
FLOAT_OPS = (ops.ADD, ops.SUB, ops.MUL, ops.FDIV, ops.MIN, ops.MAX, ops.POW)
FLOAT_UNARY = tuple(op for op in ops.ELEMENTWISE if op.least == 1 and op is not ops.NOT)
COMPARISONS = (ops.LT, ops.LE, ops.EQ, ops.NE)

HUGE = (2**31, 2**63 - 1, 2**63, -(2**63) - 1, 2**64 + 1, -(2**70), 10**40)


def leaves() -> list[UOp]:
    """What index expressions are made of: variables with bounds of every sign, and ranges."""
    n = UOp.variable("n", 1, 64)
    return [
        UOp.variable("x", 0, 1000),
        UOp.variable("y", -7, 9),
        UOp.variable("z", -100, -1),
        n,
        UOp.range(16, 0),
        UOp.range(1, 1),
        UOp.range(n, 2),
    ]


def integers(dtype: DType = dtypes.weakint) -> st.SearchStrategy[int]:
    """Values of an integer dtype, mostly small; for weakint also beyond 64 bits."""
    if dtype is dtypes.weakint:
        return st.integers(-8, 8) | st.sampled_from((12, 16, 977, -16, *HUGE))
    edges = (dtype.min, dtype.min + 1, dtype.max, dtype.max // 2)
    return st.integers(max(dtype.min, -8), 8) | st.sampled_from(edges) | st.integers(dtype.min, dtype.max)


def floats(dtype: DType) -> st.SearchStrategy[float]:
    """Values of a float dtype: round ones, special ones, and any bits, NaN payloads included."""
    special = st.sampled_from((0.0, 1.0, -0.0, 0.5, -2.0, math.inf, -math.inf, math.nan, 1e-40, 3.5e38))
    if not dtype.bitsize:
        return special | st.floats()
    return special | st.integers(0, 2**dtype.bitsize - 1).map(lambda bits: float(decode(dtype, bits)))


def _pick(draw: Draw, pool: Sequence[UOp]) -> UOp:
    """A node of the pool; the latest is the simplest."""
    return pool[-1 - draw(st.integers(0, len(pool) - 1))]


def _operand(draw: Draw, pool: Sequence[UOp], dtype: DType, values: st.SearchStrategy[Any]) -> UOp:
    return _pick(draw, pool) if draw(st.integers(0, 3)) else const(dtype, draw(values))


def _grow(
    draw: Draw, pool: list[UOp], max_nodes: int, binary: tuple[Op, ...], unary: tuple[Op, ...], values: Any
) -> UOp:
    """Elementwise nodes over a pool of one dtype; every seventh or so is a choice between two of them."""
    dtype = pool[0].dtype
    for _ in range(draw(st.integers(1, max(1, max_nodes)))):
        kind = draw(st.integers(0, 6))
        left = _pick(draw, pool)
        if kind == 6 and unary:
            node = left.alu(draw(st.sampled_from(unary)))
        elif kind == 5:
            limit = _operand(draw, pool, dtype, values)
            node = left.alu(draw(st.sampled_from(COMPARISONS)), limit).where(
                _operand(draw, pool, dtype, values), _pick(draw, pool)
            )
        else:
            op = draw(st.sampled_from(binary))
            right = _operand(draw, pool, dtype, values)
            node = right.alu(op, left) if draw(st.integers(0, 3)) == 3 else left.alu(op, right)
        pool.append(node)
    return pool[-1]


@st.composite
def index_expressions(draw: Draw, max_nodes: int = 12) -> UOp:
    """weakint arithmetic over variables and ranges, with divisors and factors of any sign, zero and beyond int64."""
    return _grow(draw, leaves(), max_nodes, INDEX_OPS, (ops.NEG,), integers())


@st.composite
def int_expressions(draw: Draw, dtype: DType = dtypes.int32, max_nodes: int = 12) -> UOp:
    """Arithmetic that wraps, over params of one integer dtype."""
    pool = [UOp.param(i, dtype) for i in range(3)]
    return _grow(draw, pool, max_nodes, INT_OPS, INT_UNARY, integers(dtype))


@st.composite
def float_expressions(draw: Draw, dtype: DType = dtypes.float32, max_nodes: int = 12) -> UOp:
    """Arithmetic over params of one float dtype, with every special value among the constants."""
    pool = [UOp.param(i, dtype) for i in range(3)]
    return _grow(draw, pool, max_nodes, FLOAT_OPS, FLOAT_UNARY, floats(dtype))


@st.composite
def bool_expressions(draw: Draw, max_nodes: int = 12) -> UOp:
    """Comparisons of index expressions, joined by and, or, xor and not."""
    numbers = leaves()
    _grow(draw, numbers, max_nodes // 2, INDEX_OPS, (ops.NEG,), integers())
    pool: list[UOp] = []
    for _ in range(draw(st.integers(1, max(1, max_nodes // 2)))):
        kind = draw(st.integers(0, 3))
        if kind < 2 or not pool:
            limit = _operand(draw, numbers, dtypes.weakint, integers())
            pool.append(_pick(draw, numbers).alu(draw(st.sampled_from(COMPARISONS)), limit))
        elif kind == 2:
            op = draw(st.sampled_from((ops.AND, ops.OR, ops.XOR, ops.EQ, ops.NE)))
            pool.append(_pick(draw, pool).alu(op, _operand(draw, pool, dtypes.bool, st.booleans())))
        else:
            pool.append(~_pick(draw, pool))
    return pool[-1]


# ---- tensors

SIZES = (2, 1, 3, 4, 0)
TENSOR_DTYPES = (dtypes.float32, dtypes.int32, dtypes.float16, dtypes.bool)


@st.composite
def tensor_graphs(draw: Draw, max_nodes: int = 8) -> UOp:
    """Movement, elementwise, reduce and cast over one to three buffers, axes of size 0 and 1 included."""
    pool: list[UOp] = []
    for i in range(draw(st.integers(1, 3))):
        shape = tuple(draw(st.lists(st.sampled_from(SIZES), max_size=3)))
        pool.append(UOp.buffer(i, draw(st.sampled_from(TENSOR_DTYPES)), shape))
    for _ in range(draw(st.integers(1, max_nodes))):
        step = draw(st.sampled_from(TENSOR_STEPS))
        pool.append(step(draw, _pick(draw, pool), pool))
    return pool[-1]


def _elementwise(draw: Draw, x: UOp, pool: Sequence[UOp]) -> UOp:
    if x.dtype is dtypes.bool:
        binary: tuple[Op, ...] = (ops.AND, ops.OR, ops.XOR, ops.EQ)
    else:
        binary = (ops.ADD, ops.MUL, ops.MAX, ops.SUB, ops.LT)
    fitting = [y for y in pool if y.dtype is x.dtype and (y.shape == x.shape or not y.shape)]
    one = const(x.dtype, draw(st.integers(0, 1)))
    other = _pick(draw, [one, *fitting])
    return x.alu(draw(st.sampled_from(binary)), other)


def _choose(draw: Draw, x: UOp, pool: Sequence[UOp]) -> UOp:
    condition = x if x.dtype is dtypes.bool else x < const(x.dtype, 1)
    fitting = [y for y in pool if y.shape == x.shape]
    yes = _pick(draw, fitting)
    return condition.where(yes, const(yes.dtype, 0))


def _cast(draw: Draw, x: UOp, pool: Sequence[UOp]) -> UOp:
    return x.cast(draw(st.sampled_from(TENSOR_DTYPES)))


def _reshape(draw: Draw, x: UOp, pool: Sequence[UOp]) -> UOp:
    """Merges two neighbouring axes, or adds or removes one of size 1."""
    shape = list(x.shape)
    place = draw(st.integers(0, len(shape)))
    if place + 1 < len(shape):
        shape[place : place + 2] = [shape[place] * shape[place + 1]]
    elif place < len(shape) and shape[place] == 1:
        del shape[place]
    elif len(shape) < 4:
        shape.insert(place, 1)
    return x.reshape(tuple(shape))


def _permute(draw: Draw, x: UOp, pool: Sequence[UOp]) -> UOp:
    return x.permute(tuple(draw(st.permutations(range(len(x.shape))))))


def _expand(draw: Draw, x: UOp, pool: Sequence[UOp]) -> UOp:
    return x.expand(tuple(draw(st.sampled_from(SIZES)) if size == 1 else size for size in x.shape))


def _pad(draw: Draw, x: UOp, pool: Sequence[UOp]) -> UOp:
    return x.pad([(draw(st.integers(0, 2)), draw(st.integers(0, 2))) for _ in x.shape])


def _shrink(draw: Draw, x: UOp, pool: Sequence[UOp]) -> UOp:
    parts = []
    for size in x.shape:
        start = draw(st.integers(0, size))
        parts.append((start, draw(st.integers(0, size - start))))
    return x.shrink(parts)


def _flip(draw: Draw, x: UOp, pool: Sequence[UOp]) -> UOp:
    return x.flip(tuple(axis for axis in range(len(x.shape)) if draw(st.booleans())))


def _reduce(draw: Draw, x: UOp, pool: Sequence[UOp]) -> UOp:
    axes = tuple(axis for axis in range(len(x.shape)) if draw(st.booleans()))
    by = (ops.OR, ops.AND) if x.dtype is dtypes.bool else (ops.ADD, ops.MAX, ops.MIN, ops.MUL)
    return x.reduce(draw(st.sampled_from(by)), axes)


TENSOR_STEPS = (_elementwise, _choose, _cast, _reshape, _permute, _expand, _pad, _shrink, _flip, _reduce)
