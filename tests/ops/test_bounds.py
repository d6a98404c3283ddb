"""The interval that an op's record gives for a result contains every result: values from random intervals, by op."""

import random

import pytest

from ops.corners import name_of, source_dtypes
from whit.dtype import DType, dtypes
from whit.errors import DTypeError
from whit.ir import ops, scalar
from whit.ir.op import Op
from whit.ir.uop import const, make

pytestmark = pytest.mark.slow  # many

SPREADS = (0, 1, 2, 5, 20, 300, 10**6, 2**40)


def _cases() -> list[tuple[Op, DType]]:
    found = []
    for op in ops.ELEMENTWISE:
        for dtype in (dtypes.weakint, dtypes.bool):
            if op is ops.NOT and dtype is dtypes.bool:
                continue  # the record is about integers: ~x is -x - 1; the analysis knows bool by its dtype
            try:
                make(op, tuple(const(source, 1) for source in source_dtypes(op, dtype)))
            except DTypeError:
                continue
            if op.bounds is not None:
                found.append((op, dtype))
    return found


def _interval(generator: random.Random, dtype: DType) -> tuple[int, int]:
    if dtype.is_bool:
        return generator.choice([(0, 0), (0, 1), (1, 1)])
    spread = generator.choice(SPREADS)
    middle = generator.randint(-2 * spread - 3, 2 * spread + 3)
    low, high = sorted(generator.randint(middle - spread, middle + spread) for _ in range(2))
    return low, high


def _inside(generator: random.Random, interval: tuple[int, int]) -> int:
    """The ends, the neighbours of zero and the middle are where results are extreme."""
    low, high = interval
    near = [x for x in (low, high, -1, 0, 1, low + 1, high - 1) if low <= x <= high]
    return generator.choice([*near, generator.randint(low, high)])


@pytest.mark.parametrize("op, dtype", _cases(), ids=name_of)
def test_results_lie_in_the_interval(op: Op, dtype: DType) -> None:
    generator = random.Random(op.name)
    sources = source_dtypes(op, dtype)
    assert op.bounds is not None and op.python is not None
    known = 0
    for _ in range(1500):
        intervals = [_interval(generator, source) for source in sources]
        if op in (ops.SHL, ops.SHR):
            intervals[1] = tuple(sorted(generator.randint(-2, 200) for _ in range(2)))  # type: ignore[assignment]
        reach = op.bounds(*intervals)
        if reach is None:
            continue
        known += 1
        for _ in range(10):
            values = [_inside(generator, interval) for interval in intervals]
            operands = [bool(v) if s.is_bool else v for v, s in zip(values, sources, strict=True)]
            result = int(op.python(scalar, *operands))
            assert reach[0] <= result <= reach[1], f"{op.name} of {values} in {intervals}: {result} not in {reach}"
    assert known > 200


@pytest.mark.parametrize("op, dtype", _cases(), ids=name_of)
def test_intervals_of_single_points_are_exact_for_simple_ops(op: Op, dtype: DType) -> None:
    if op in (ops.AND, ops.OR, ops.XOR, ops.SHL):
        pytest.skip("intervals of bit operations are wider than the truth")
    generator = random.Random(op.name)
    sources = source_dtypes(op, dtype)
    assert op.bounds is not None and op.python is not None
    for _ in range(300):
        operands = [generator.randint(0, 1) if s.is_bool else generator.randint(-20, 20) for s in sources]
        reach = op.bounds(*((x, x) for x in operands))
        if reach is None:
            continue
        result = int(op.python(scalar, *(bool(x) if s.is_bool else x for x, s in zip(operands, sources, strict=True))))
        assert reach[0] <= result <= reach[1]
        if op in (ops.ADD, ops.SUB, ops.MUL, ops.NEG, ops.ABS, ops.MAX, ops.MIN, ops.LT, ops.LE, ops.EQ, ops.NE):
            assert reach == (result, result)
