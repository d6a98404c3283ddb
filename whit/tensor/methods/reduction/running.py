"""Running combinations along an axis: at each position, of all elements up to it.

They are scans: the work goes with the number of elements. Dtypes are those of the reductions.
"""

from __future__ import annotations

from typing import Self

from whit.dtype import dtypes
from whit.errors import ArgumentError
from whit.ir import ops
from whit.ir.op import Op, spell_shape
from whit.ir.uop import UOp, const
from whit.tensor.core import broadcast_scalar
from whit.tensor.graphs import formulas
from whit.tensor.graphs.complex_products import running_product
from whit.tensor.graphs.positions import counting_dtype, positions_along
from whit.tensor.methods.reduction.reduce import Reductions, sum_dtype
from whit.tensor.results import ValuesAndIndices
from whit.transform import derivative


class Running(Reductions):
    """`axis=` or `dim=`."""

    __slots__ = ()

    # ---- running combinations

    def _running_axis(self, name: str, axis: int | None) -> int:
        """The axis of a running combination; if it is left out, the only one."""
        if axis is None and self.ndim > 1:
            raise ArgumentError(
                f"{name}: no axis is given for shape {spell_shape(self.shape)}",
                self._made(),
                "Left out, it is 0 in tinygrad, and all elements in a row in NumPy. Give axis=0, or flatten() first.",
            )
        return self._axis(name, axis or 0)

    def _running(self, name: str, op: Op, axis: int | None) -> Self:
        place = self._running_axis(name, axis)
        inner = self.uop.cast(sum_dtype(self.uop.dtype))
        if op is ops.MUL and inner.dtype.is_complex and self.shape:
            return self._wrap(running_product(inner, place))
        result = inner.scan(op, place) if self.shape else inner
        return self._wrap(result.cast(self.uop.dtype) if self.dtype.is_float else result)

    def _running_extreme(self, name: str, op: Op, on_bool: Op, axis: int | None) -> ValuesAndIndices[Self]:
        place = self._running_axis(name, axis)
        x = self._in_order(name, self.uop)
        if not x.shape:
            return ValuesAndIndices(self._wrap(x), self._wrap(const(dtypes.default_int, 0)))
        extreme = x.scan(on_bool if x.dtype.is_bool else op, place)
        hit = x.eq(extreme) | formulas.isnan(x) if x.dtype.is_float else x.eq(extreme)
        dtype = counting_dtype(x.shape[place])
        where = hit.where(positions_along(x.shape, place, dtype), const(dtype, 0)).scan(ops.MAX, place)
        values = (
            extreme.formula("running_extreme", x, where, const(dtypes.int32, place)) if x.dtype.is_float else extreme
        )
        return ValuesAndIndices(self._wrap(values), self._wrap(where))

    def cumsum(self, axis: int | None = None, dim: int | None = None) -> Self:
        """At each position the sum up to it. Dtypes are those of `sum`."""
        return self._running("cumsum", ops.ADD, axis if dim is None else dim)

    def cumprod(self, axis: int | None = None, dim: int | None = None) -> Self:
        """At each position the product up to it. Dtypes are those of `prod`."""
        return self._running("cumprod", ops.MUL, axis if dim is None else dim)

    def cummax(self, axis: int | None = None, dim: int | None = None) -> ValuesAndIndices[Self]:
        """At each position the largest up to it, and the position of that: of equals the last one. From the first NaN
        on, NaN."""
        return self._running_extreme("cummax", ops.MAX, ops.OR, axis if dim is None else dim)

    def cummin(self, axis: int | None = None, dim: int | None = None) -> ValuesAndIndices[Self]:
        """At each position the smallest up to it, and the position of that: of equals the last one. From the first NaN
        on, NaN."""
        return self._running_extreme("cummin", ops.MIN, ops.AND, axis if dim is None else dim)

    def logcumsumexp(self, axis: int | None = None, dim: int | None = None) -> Self:
        """At each position log(sum(exp(self))) of the elements up to it, without overflow."""
        place = self._running_axis("logcumsumexp", axis if dim is None else dim)
        x = self._wide()
        return self._narrow(x.scan(ops.LOGADDEXP, place) if x.shape else x)


@derivative("running_extreme")
def _running_extreme(y: UOp, dy: UOp, x: UOp, where: UOp, axis: UOp) -> tuple[UOp | None, ...]:
    """Everything goes to the element that was chosen."""
    place = int(axis.arg)
    positions = tuple(where if i == place else positions_along(x.shape, i) for i in range(len(x.shape)))
    start = broadcast_scalar(dy.constant(0.0), x.shape)
    return start.after(start.store(dy, *positions, combine=ops.ADD)), None, None
