"""Scatters for GPUs by integers, which threads combine in memory (`red`), all at once and in any order.

    after(x, store(place, v, rows, combine=max))      v float32

    ->  keys = after(key of x, store(place, key of v, rows, combine=max))       int32, in the order of the floats
        after(x, store(place, float of keys))

    what is combined                          integers
    sums of float32, float16, bfloat16        words whose sum is exact, or nearly so (`exact_sums`)
    largest, smallest of floats               their bits as numbers of the same order, NaN beyond all
    integers of 8 and 16 bits, bools          the same ones, in 32 bits
    nothing: the last one stays               the number of the value: the largest, plus 1, says who that is

The bits of the results do not depend on the order. Few values, and wide rows of them, stay as they are: blocks look for
what is theirs and combine it in order (`whit/codegen/gpu/scatter/blocks.py`), as products and float64 sums always do.
"""

from __future__ import annotations

from math import prod

from whit.dtype import DType, dtypes
from whit.ir import ops
from whit.ir.atomic import ATOMIC, is_atomic
from whit.ir.op import Op
from whit.ir.rules import Rules, function_rule
from whit.ir.uop import UOp
from whit.kernel.rates import SCATTER_TIMES
from whit.schedule.rewrites.exact_sums import FORMATS, sums_of
from whit.schedule.rewrites.scattered import Scatter, zeros
from whit.schedule.writes.effects import on_views, views_of

FEW, FEWEST = 1 << 12, 1 << 7  # values that may meet, below which an order costs nothing: in rows, else
MOST = 1 << 31


@function_rule(ops.AFTER)
def scatter_at_once(node: UOp) -> UOp | None:
    """after(x, store(place, v, rows, combine)) -> after(x, store(place, x and integers at rows))"""
    old, store, *others = node.src
    if others or store.op is not ops.STORE or is_atomic(store):
        return None
    scatter = Scatter.of(store)
    if scatter is None or scatter.value.dtype is not old.dtype:
        return None
    if not _is_faster(scatter) or prod(scatter.value.shape) >= MOST:
        return None
    target = store.src[0]
    before = on_views(views_of(target)[0], old, lambda size: size)
    after = _combined(before, scatter, store.arg.combine)
    return None if after is None else old.after(target.store(after))


def _is_faster(scatter: Scatter) -> bool:
    """Than in order."""
    count, ordered, times = prod(scatter.value.shape), scatter.ordered, SCATTER_TIMES
    one_by_one_ps = max(times.ordered_step_ps * ordered, times.ordered_value_ps * count)
    in_order_ps = times.search_ps * ordered if scatter.has_rows else one_by_one_ps
    at_once_ps = times.combine_ps * (count + prod(scatter.shape))
    return ordered >= (FEW if scatter.has_rows else FEWEST) and in_order_ps > at_once_ps


def _combined(before: UOp, scatter: Scatter, op: Op | None) -> UOp | None:
    """A target with values combined into it; None if that needs an order."""
    dtype = before.dtype
    if op is None:
        return _last(before, scatter)
    if op is ops.ADD and dtype in FORMATS:
        total = sums_of(scatter)
        return total.eq(0.0).where(before, (before.cast(dtypes.float64) + total).cast(dtype))
    if op in (ops.MAX, ops.MIN) and dtype.is_float and dtype.itemsize > 1:  # a cast to fp8 would change infinities
        keys = scatter.combined(_key(before, op), _key(scatter.value, op), op)
        return _float_of(keys, dtype)
    if op in ATOMIC and (dtype.is_int or dtype.is_bool):
        wide = dtypes.int32
        return scatter.combined(before.cast(wide), scatter.value.cast(wide), op).cast(dtype)
    return None


def _last(before: UOp, scatter: Scatter) -> UOp:
    value = scatter.value
    count = prod(value.shape)
    number = (UOp.arange(count, dtypes.int32) + 1).reshape(value.shape)
    last = scatter.combined(zeros(number, scatter.shape), number, ops.MAX)
    is_new = last.ne(0)
    return is_new.where(value.reshape((count,)).index(last - 1, gate=is_new), before)


# ---- floats as integers of the same order


def _key(value: UOp, op: Op) -> UOp:
    """Negative numbers have the order of their bits turned round; NaN wins."""
    wide = dtypes.float64 if value.dtype is dtypes.float64 else dtypes.float32
    number = value.cast(wide).bitcast(dtypes.int64 if wide is dtypes.float64 else dtypes.int32)
    best = number.dtype.max if op is ops.MAX else number.dtype.min
    return value.ne(value).where(number.constant(best), _order_bits(number))


def _float_of(key: UOp, dtype: DType) -> UOp:
    return _order_bits(key).bitcast(dtypes.float64 if key.dtype is dtypes.int64 else dtypes.float32).cast(dtype)


def _order_bits(number: UOp) -> UOp:
    """Its own inverse."""
    sign = number >> (number.dtype.bitsize - 1)
    return number ^ (sign & int(number.dtype.max))


SCATTER_AT_ONCE = Rules("scatter_at_once", (scatter_at_once,))
