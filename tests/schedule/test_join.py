"""Joins: values that are computed where they lie in one memory."""

import numpy as np

from tests.schedule.test_writes import check, param
from whit.dtype import dtypes
from whit.ir import ops
from whit.ir.uop import UOp, const


def join(*values: UOp) -> UOp:
    """The values one after the other."""
    counts = [int(np.prod(value.shape)) for value in values]
    base = const(dtypes.float32, 0.0).reshape((1,)).expand((sum(counts),))
    stores, start = [], 0
    for value, count in zip(values, counts, strict=True):
        stores.append(base.shrink([(start, count)]).reshape(value.shape).store(value))
        start += count
    return base.after(*stores)


def product(slot: int, rows: int, columns: int) -> UOp:
    """(rows, 5) @ (5, columns)"""
    left, right = param(slot, rows, 5), param(slot + 1, 5, columns)
    spread = left.reshape((rows, 5, 1)).expand((rows, 5, columns)) * right.reshape((1, 5, columns)).expand(
        (rows, 5, columns)
    )
    return spread.reduce(ops.ADD, (1,))


def test_parts_are_computed_where_they_lie() -> None:
    values = [product(10 + 2 * i, 2 + i % 3, 4).stage() for i in range(40)]
    whole = join(*values)
    out = param(0, *whole.shape)
    assert check(out.store(whole)) == 40
    assert check(out.store(whole * 2)) == 41


def test_parts_that_only_show_memory_are_copied_by_one_kernel() -> None:
    values = [param(10 + i, 1 + i % 7, 3).stage() for i in range(60)]
    whole = join(*values, const(dtypes.float32, 2.0).reshape((1, 1)).expand((2, 3)), param(80, 4, 5).permute((1, 0)))
    assert check(param(0, *whole.shape).store(whole)) == 1
    mixed = join(product(90, 3, 4).stage(), *values, product(92, 3, 3).stage(), param(98), product(94, 1, 1).stage())
    assert check(param(0, *mixed.shape).store(mixed)) == 4
