"""Tensors from nothing: constants, counting, and the same in the shape of another tensor.

`zeros`, `ones` and `full` are one constant, expanded; `arange`, `linspace` and `eye` are arithmetic on positions. None
of them has memory until it is realised.
"""

from __future__ import annotations

import math
from typing import Any, Self

from whit.dtype import DType, DTypeLike, convert, dtypes, resolve_weak, weak_dtype
from whit.engine.devices.device import is_disk, usable
from whit.errors import ArgumentError, DTypeError, ShapeError
from whit.ir import ops
from whit.ir.op import spell_shape, spell_size
from whit.ir.sizes import larger, reach, settled
from whit.ir.uop import UOp, as_index, const
from whit.names import unknown_argument
from whit.tensor.build import fitting
from whit.tensor.core import (
    Core,
    as_number,
    broadcast_scalar,
    check_gradient,
    check_number,
    expand_to,
    integer_for,
    join_shapes,
    placed,
    storable,
    whole,
    whole_or_symbolic,
)
from whit.tensor.engine import new_buffer
from whit.tensor.methods.movement.views import listed
from whit.tensor.topic import Topic


def _shape(name: str, shape: tuple[Any, ...]) -> tuple[Any, ...]:
    sizes = listed(shape[0], shape[1:]) if shape else ()
    for size in sizes:
        if not isinstance(size, UOp) and (not hasattr(size, "__index__") or size.__index__() < 0):
            raise ShapeError(f"{name}: {size!r} is no size", f"shape {sizes}", "Sizes are integers, zero or more.")
    return tuple(size if isinstance(size, UOp) else size.__index__() for size in sizes)


def check_options(name: str, given: dict[str, Any], known: tuple[str, ...] = ("device", "requires_grad")) -> None:
    """Keywords that are passed on are known."""
    for key in given:
        if key not in known:
            raise unknown_argument(name, key, ["dtype", *(option for option in known if option != "dtype")])


class Creation(Topic):
    """Constructors."""

    __slots__ = ()

    @classmethod
    def _fresh(cls, uop: UOp, device: str | None, requires_grad: bool | None = None) -> Self:
        """A tensor whose value may be that of others, and which is still another one to a gradient."""
        is_own = uop.op is ops.BUFFER or not uop.dtype.is_continuous or (not uop.shape and requires_grad is False)
        wanted = None if device is None else usable(device)
        result = cls._make(placed(uop if is_own else uop.leaf(), wanted), wanted)
        check_gradient(requires_grad, uop.dtype)
        result.requires_grad = requires_grad
        return result

    @classmethod
    def full(
        cls,
        shape: Any,
        fill_value: Any,
        dtype: DTypeLike | None = None,
        device: str | None = None,
        requires_grad: bool | None = None,
    ) -> Self:
        """One number everywhere."""
        sizes = _shape("full", tuple(shape) if isinstance(shape, tuple | list) else (shape,))
        if isinstance(fill_value, Core):
            value = fill_value.uop if dtype is None else fill_value.uop.cast(storable("full", dtype))
            if value.shape:
                raise ShapeError("full: the value is not one number", fill_value._made(), "Use expand().")
        elif isinstance(fill_value, UOp):
            value = as_number(fill_value) if dtype is None else fill_value.cast(storable("full", dtype))
        else:
            wanted = resolve_weak(weak_dtype(fill_value)) if dtype is None else storable("full", dtype)
            value = fitting("full", fill_value, wanted)
        return cls._fresh(broadcast_scalar(value, sizes), device, requires_grad)

    @classmethod
    def const(cls, value: Any, dtype: DTypeLike | None = None, device: str | None = None, shape: Any = ()) -> Self:
        """One number, without memory; of a shape, everywhere in it (tinygrad)."""
        return cls.full(shape, value, dtype, device)

    @classmethod
    def invalids(cls, *shape: Any, **kw: Any) -> Self:
        """The same as `empty`: what is read before it is written to means nothing (tinygrad)."""
        return cls.empty(*shape, **kw)

    @classmethod
    def zeros(cls, *shape: Any, dtype: DTypeLike | None = None, **kw: Any) -> Self:
        """Zeros, of the default float if no dtype is given."""
        check_options("zeros", kw)
        return cls.full(_shape("zeros", shape), 0, dtype or dtypes.default_float, **kw)

    @classmethod
    def ones(cls, *shape: Any, dtype: DTypeLike | None = None, **kw: Any) -> Self:
        """Ones, of the default float if no dtype is given."""
        check_options("ones", kw)
        return cls.full(_shape("ones", shape), 1, dtype or dtypes.default_float, **kw)

    @classmethod
    def empty(
        cls,
        *shape: Any,
        device: str | None = None,
        dtype: DTypeLike | None = None,
        requires_grad: bool | None = None,
    ) -> Self:
        """Memory of arbitrary content."""
        wanted = dtypes.default_float if dtype is None else storable("empty", dtype)
        node = new_buffer(wanted, _shape("empty", shape), usable(device))
        return cls._fresh(node, device, requires_grad)

    def full_like(self, fill_value: Any, dtype: DTypeLike | None = None, device: str | None = None) -> Self:
        """One number in this shape, dtype and device."""
        return type(self).full(self.shape, fill_value, dtype or self.dtype, device or self._in_memory())

    def zeros_like(self, **kw: Any) -> Self:
        """Zeros in this shape."""
        check_options("zeros_like", kw, ("dtype", "device"))
        return self.full_like(0, **kw)

    def ones_like(self, **kw: Any) -> Self:
        """Ones in this shape."""
        check_options("ones_like", kw, ("dtype", "device"))
        return self.full_like(1, **kw)

    def empty_like(self, dtype: DTypeLike | None = None, device: str | None = None) -> Self:
        """Memory of arbitrary content in this shape."""
        return type(self).empty(*self.shape, dtype=dtype or self.dtype, device=device or self._in_memory())

    def _in_memory(self) -> str | None:
        """This tensor's device; of one in a file the default, because another would overwrite the file."""
        return None if is_disk(self.device) else self.device

    # ---- counting

    @classmethod
    def arange(
        cls,
        start: Any,
        stop: Any = None,
        step: Any = 1,
        dtype: DTypeLike | None = None,
        device: str | None = None,
        requires_grad: bool | None = None,
    ) -> Self:
        """start, start + step, ... before stop; arange(n) counts from 0."""
        if stop is None:
            start, stop = 0, start
        if isinstance(step, int) and step == 0:
            raise ArgumentError("arange: the step is 0", fix="Use a positive or negative one.")
        if any(isinstance(value, UOp) for value in (start, stop, step)):
            return cls._fresh(_counted_by_variable(start, stop, step, dtype), device, requires_grad)
        count = _count_of(start, stop, step)
        wanted = resolve_weak(weak_dtype([start, stop, step])) if dtype is None else storable("arange", dtype)
        if wanted.is_int and count:
            ends = (start, start + (count - 1) * step)
            if dtype is None and not all(wanted.min <= value <= wanted.max for value in ends):
                wanted = dtypes.int64
            for value in ends:
                if not wanted.min <= value <= wanted.max:
                    raise DTypeError(f"arange: {value} is outside {wanted.name}", fix="Use a wider dtype.")
        return cls._fresh(_counted(count, start, step, wanted), device, requires_grad)

    @classmethod
    def linspace(
        cls,
        start: Any,
        stop: Any,
        steps: int,
        dtype: DTypeLike | None = None,
        device: str | None = None,
        requires_grad: bool | None = None,
    ) -> Self:
        """`steps` numbers from start to stop, both included, at equal distances. Of tensors, along a new first axis."""
        steps = whole("linspace", "steps", steps)
        if steps < 0:
            raise ArgumentError(f"linspace: {steps} steps", fix="Ask for zero or more.")
        wanted = dtypes.default_float if dtype is None else storable("linspace", dtype)
        inner = wanted if wanted.itemsize >= 4 and wanted.is_float else dtypes.float32
        first, last = (_end_of_line(what, end, inner) for what, end in (("start", start), ("stop", stop)))
        shape = join_shapes(first.shape, last.shape)
        if shape is None:
            raise ShapeError(
                f"linspace: from {spell_shape(first.shape)} to {spell_shape(last.shape)}", fix="Shapes must broadcast."
            )
        full = (steps, *shape)
        if shape:
            first, last = (expand_to(end, full) if end.shape else broadcast_scalar(end, full) for end in (first, last))
        if steps < 2:
            only = first if shape else broadcast_scalar(first, full)
            return cls._fresh(only.cast(wanted), device, requires_grad)
        distance = (last - first) / (steps - 1)
        place = UOp.arange(steps, dtypes.int32).reshape((steps, *(1,) * len(shape))).expand(full)
        up = place.cast(inner) * distance + first
        down = last - (-place + (steps - 1)).cast(inner) * distance  # so that the last one is stop itself
        return cls._fresh((place < steps // 2).where(up, down).cast(wanted), device, requires_grad)

    @classmethod
    def eye(
        cls,
        n: int,
        m: int | None = None,
        dtype: DTypeLike | None = None,
        device: str | None = None,
        requires_grad: bool | None = None,
    ) -> Self:
        """Ones on the diagonal of an n by m matrix, zeros elsewhere."""
        shape = _shape("eye", (n, n if m is None else m))
        wanted = dtypes.default_float if dtype is None else storable("eye", dtype)
        row = UOp.arange(shape[0], dtypes.int32).reshape((shape[0], 1)).expand(shape)
        column = UOp.arange(shape[1], dtypes.int32).reshape((1, shape[1])).expand(shape)
        return cls._fresh(row.eq(column).where(const(wanted, 1), const(wanted, 0)), device, requires_grad)


def _end_of_line(what: str, end: Any, dtype: DType) -> UOp:
    """The first or last number of a line, or a tensor of them."""
    if isinstance(end, Core):
        return end.uop.cast(dtype)
    check_number("linspace", what, end)
    return const(dtype, float(end))


def _count_of(start: Any, stop: Any, step: Any) -> int:
    """How many numbers there are from start on before stop."""
    for what, value in (("start", start), ("stop", stop), ("step", step)):
        check_number("arange", what, value)
    if not math.isfinite(start) or not math.isfinite(stop) or math.isnan(step):
        raise ArgumentError(f"arange: from {start} to {stop} by {step} never ends", fix="Use finite numbers.")
    if all(isinstance(value, int) for value in (start, stop, step)):
        return int(max(-((start - stop) // step), 0))
    return int(max(math.ceil((stop - start) / step), 0))


def _counted_by_variable(start: Any, stop: Any, step: Any, dtype: DTypeLike | None) -> UOp:
    """`arange` where the ends or the step depend on variables. Without a dtype it is int64 where numbers may be past
    int32."""
    first, last = (whole_or_symbolic("arange", what, end) for what, end in (("start", start), ("stop", stop)))
    step = whole_or_symbolic("arange", "step", step)
    low, high = _ends(first, last, step)
    count = larger(settled(-((first - last) // step)), 0)
    wanted = integer_for(low, high) if dtype is None else storable("arange", dtype)
    if wanted.is_int and not wanted.min <= low <= high <= wanted.max:
        raise DTypeError(f"arange: {low} to {high} is outside {wanted.name}", fix="Use a wider dtype.")
    inner = integer_for(low, high, dtypes.int32)
    place = UOp.arange(count, inner)
    if not isinstance(step, int):
        place = place * as_index(step).cast(inner)
    elif step != 1:
        place = place * step
    return (place + as_index(first).cast(inner)).cast(wanted)


def _ends(first: Any, last: Any, step: Any) -> tuple[int, int]:
    """The smallest and the largest number that there may be from the first on before the last."""
    least, most = reach(step)
    if least is None or most is None or least <= 0 <= most:
        raise ArgumentError(
            f"arange: the step {spell_size(step)} may be 0",
            f"it lies between {least} and {most}",
            "Give its variables bounds with which it is always positive, or always negative.",
        )
    low, high = (first, last - 1) if least > 0 else (last + 1, first)
    lowest, highest = reach(low)[0] or 0, reach(high)[1] or 0
    return lowest, max(lowest, highest)  # there may be none at all


def _counted(count: int, start: Any, step: Any, dtype: DType) -> UOp:
    """start + i * step at position i, computed in the dtype, or in a wider one where the dtype is small."""
    inner = dtype
    if not dtype.is_float and not (isinstance(start, int) and isinstance(step, int)):
        inner = dtypes.float64 if dtype.itemsize == 8 else dtypes.float32
    elif dtype.itemsize < 4:
        inner = dtypes.float32 if dtype.is_float else dtypes.int32
    counting = dtypes.int32 if count <= 2**31 else dtypes.int64
    place = UOp.arange(count, inner if inner.is_int else counting).cast(inner)
    if step != 1:
        place = place * (float(step) if inner.is_float else convert(inner, step))
    if start != 0:
        place = place + (float(start) if inner.is_float else convert(inner, start))
    return place.cast(dtype)
