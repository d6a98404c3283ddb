"""Joins: values that are computed where they lie in one memory."""

import numpy as np

from schedule.test_writes import check, param
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
    shown = [param(10 + i, 1 + i % 7, 3).stage() for i in range(60)]
    two = const(dtypes.float32, 2.0).reshape((1, 1)).expand((2, 3))
    whole = join(*shown, two.stage(), param(80, 4, 5).permute((1, 0)).stage())
    assert check(param(0, *whole.shape).store(whole)) == 1
    products = [product(90, 3, 4).stage(), product(92, 3, 3).stage(), product(94, 1, 1).stage()]
    mixed = join(products[0], *shown, products[1], param(98).stage(), products[2])
    assert check(param(0, *mixed.shape).store(mixed)) == 4


def test_parts_that_lie_elsewhere_too_are_copied() -> None:
    first, second = product(10, 3, 4), product(12, 2, 4)
    whole = join(first.stage(), second.stage(), first.stage())
    assert check(param(0, 32).store(whole)) == 3  # one part is there twice
    assert check(param(0, 32).store(whole), param(1, 3, 4).store(first)) == 3  # or wanted alone
    assert check(param(0, 32).store(whole), param(1, 32).store(whole)) == 4
    assert check(param(0, 40).store(join(whole.stage(), second.stage()))) == 4  # a join in a join


def test_the_whole_and_its_parts_are_read() -> None:
    first, second = product(10, 3, 4), product(12, 2, 4)
    whole = join(first.stage(), second.stage())
    total = (whole * whole).reduce(ops.ADD, (0,))
    scale = total.reshape((1, 1)).expand((3, 4))
    assert check(param(0, 3, 4).store(first * scale), param(1, 20).store(whole + 1)) == 4


def test_views_of_what_has_memory_are_copied_by_one_kernel() -> None:
    base = product(10, 6, 4)
    parts = [base.shrink([(i, 1), (0, 4)]).stage() for i in range(6)]
    assert check(param(0, 6, 4).store(base), param(1, 24).store(join(*parts) * 2)) == 3


def test_memory_that_is_written_over_is_joined_before() -> None:
    old = param(0, 4, 5)
    whole = join(old.stage(), param(1, 3).stage())
    assert check(old.store(old * 2), param(2, 23).store(whole)) == 2


def test_parts_without_elements_and_of_one() -> None:
    whole = join(param(10, 0, 3).stage(), param(11).stage(), param(12, 2).stage(), product(13, 1, 1).stage())
    assert check(param(0, 4).store(whole)) == 2
    assert check(param(0, 4).store(whole * whole)) == 3


def test_what_is_no_join_is_written_as_before() -> None:
    values = [product(10 + 2 * i, 2, 2) for i in range(3)]
    base = const(dtypes.float32, 0.0).reshape((1,)).expand((14,))
    windows = [base.shrink([(start, 4)]).reshape((2, 2)) for start in (0, 5, 10)]  # with gaps
    stores = [window.store(value.stage()) for window, value in zip(windows, values, strict=True)]
    check(param(0, 14).store(base.after(*stores)))
    check(param(0, 12).store(join(*values)))  # values that nobody asked to keep
    other = base.shrink([(0, 12)]).after(
        base.shrink([(0, 12)]).shrink([(0, 12)]).store(values[0].reshape((4,)).pad([(0, 8)]).stage())
    )
    check(param(0, 12).store(other))
