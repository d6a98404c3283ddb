"""Reductions along axes, and what is made of them: softmax, norms, running sums.

Sums and products of integers smaller than 32 bits are computed in, and are, int32 or uint32; of bools, the default int.
Those of floats smaller than float32 are computed in float32 and rounded once, at the end; so are all methods of several
steps. `mean` divides the sum by the number of elements. `max` and `min` give NaN if there is one.
"""

from __future__ import annotations

import math
import operator
from math import prod
from typing import Any, Self

from whit.dtype import DType, DTypeLike, dtypes, least_upper_dtype, least_upper_float, part_dtype, resolve_weak
from whit.engine.devices.device import target_of
from whit.errors import ArgumentError, DTypeError, ShapeError
from whit.ir import ops
from whit.ir.op import Op, spell_shape
from whit.ir.sizes import value_now
from whit.ir.uop import UOp
from whit.kernel.forms import forms_of
from whit.tensor.core import check_number, either, keeps, storable
from whit.tensor.graphs import formulas
from whit.tensor.graphs.batch_norm import scaled, squares_from_mean
from whit.tensor.graphs.complex_functions import absolute, parts_of
from whit.tensor.graphs.complex_products import product
from whit.tensor.graphs.positions import sized
from whit.tensor.graphs.restate import restate
from whit.tensor.graphs.softmax import broadcast_like, kept_shape, log_softmax, logsumexp, reduced, shifted, softmax
from whit.tensor.methods.readings import note_single
from whit.tensor.told import told
from whit.tensor.topic import Topic


def sum_dtype(dtype: DType) -> DType:
    """The dtype in which a sum or product is computed."""
    if dtype.is_bool:
        return dtypes.default_int
    if dtype.itemsize >= 4:
        return dtype
    if dtype.is_float:
        return dtypes.float32
    return dtypes.uint32 if dtype.is_unsigned else dtypes.int32


def mean_of(value: UOp, axes: tuple[int, ...], keepdim: bool = False) -> UOp:
    """The mean of float32 or float64."""
    return reduced(value, ops.ADD, axes, keepdim) / count_of(value, axes)


def count_of(value: UOp, axes: tuple[int, ...], less: int = 0) -> UOp:
    """How many elements a reduction combines, less some, but not below zero; in the dtype of the value."""
    count = prod(value.shape[axis] for axis in axes)
    if isinstance(count, int):
        return value.constant(float(max(count - less, 0)))
    symbolic: UOp = count
    return (symbolic - less).maximum(0).cast(value.dtype)


def norm_of(name: str, x: UOp, p: float, axes: tuple[int, ...], keepdim: bool) -> UOp:
    """The p-norm of float32 or float64 along axes."""
    if p == 2.0:
        return restate(reduced(x * x, ops.ADD, axes, keepdim).sqrt())
    size = abs(x)
    if p == 1.0:
        return reduced(size, ops.ADD, axes, keepdim)
    if p == 0.0:
        return reduced(x.ne(0.0).where(x.constant(1.0), 0.0), ops.ADD, axes, keepdim)
    if math.isinf(p):
        return reduced(size, ops.MAX if p > 0 else ops.MIN, axes, keepdim)
    if math.isnan(p):
        raise ArgumentError(f"{name}: there is no {p}-norm", fix="Use a number.")
    return restate(reduced(size ** x.constant(p), ops.ADD, axes, keepdim) ** x.constant(1 / p))


def _less(correction: int, unbiased: bool | None, ddof: int | None) -> int:
    """By how much the divisor of a variance is less than the number of elements."""
    if ddof is not None:
        return ddof
    return correction if unbiased is None else int(unbiased)


class Reductions(Topic):
    """`axis=` or `dim=`: one axis, several, or None for all."""

    __slots__ = ()

    def _wide(self) -> UOp:
        """The node in the float dtype of computations of several steps: at least float32."""
        return self.uop.cast(sum_dtype(least_upper_float(self.uop.dtype)))

    def _narrow(self, value: UOp) -> Self:
        """The result of such a computation in the dtype that users see."""
        wanted = least_upper_float(self.uop.dtype)
        return self._wrap(value.cast(wanted if value.dtype.is_complex else part_dtype(wanted)))

    def _accumulate(self, name: str, op: Op, axis: Any, keepdim: bool, dtype: DTypeLike | None) -> Self:
        axes = self._axes(name, axis)
        wanted = self.uop.dtype if dtype is None else storable(name, dtype)
        inner = sum_dtype(wanted) if dtype is None or wanted.is_float else wanted
        value = self.uop.cast(inner)
        if op is ops.MUL and inner.is_complex:
            return self._wrap(product(value, axes, keepdim))
        result = reduced(value, op, axes, keepdim)
        return self._wrap(result.cast(wanted) if wanted.is_float or dtype is not None else result)

    def sum(
        self,
        axis: Any = None,
        keepdim: bool = False,
        dtype: DTypeLike | None = None,
        dim: Any = None,
        keepdims: bool = False,
    ) -> Self:
        """The sum; 0 of no elements."""
        return self._accumulate("sum", ops.ADD, either("sum", axis, dim), keeps(keepdim, keepdims), dtype)

    def prod(
        self,
        axis: Any = None,
        keepdim: bool = False,
        dtype: DTypeLike | None = None,
        dim: Any = None,
        keepdims: bool = False,
    ) -> Self:
        """The product; 1 of no elements."""
        return self._accumulate("prod", ops.MUL, either("prod", axis, dim), keeps(keepdim, keepdims), dtype)

    def _not_empty(self, name: str, axes: tuple[int, ...]) -> None:
        if any(value_now(self.shape[axis]) == 0 for axis in axes):
            raise ShapeError(
                f"{name}: no elements along axes {axes} of {spell_shape(self.shape)}",
                self._made(),
                "There is nothing to choose from.",
            )

    def _extreme(self, name: str, op: Op, on_bool: Op, axis: Any, keepdim: bool) -> Self:
        axes = self._axes(name, axis)
        self._not_empty(name, axes)
        self._in_order(name, self.uop)
        return self._wrap(reduced(self.uop, on_bool if self.dtype.is_bool else op, axes, keepdim))

    def max(self, axis: Any = None, keepdim: bool = False, dim: Any = None, keepdims: bool = False) -> Self:
        """The largest; NaN if there is one."""
        chosen = either("max", axis, dim)
        result = self._extreme("max", ops.MAX, ops.OR, chosen, keeps(keepdim, keepdims))
        return result if chosen is None else note_single("max", result, result.shape)

    def min(self, axis: Any = None, keepdim: bool = False, dim: Any = None, keepdims: bool = False) -> Self:
        """The smallest; NaN if there is one."""
        chosen = either("min", axis, dim)
        result = self._extreme("min", ops.MIN, ops.AND, chosen, keeps(keepdim, keepdims))
        return result if chosen is None else note_single("min", result, result.shape)

    def all(self, axis: Any = None, keepdim: bool = False, dim: Any = None, keepdims: bool = False) -> Self:
        """Whether none is zero."""
        axes = self._axes("all", either("all", axis, dim))
        return self._wrap(reduced(self.uop.cast(dtypes.bool), ops.AND, axes, keeps(keepdim, keepdims)))

    def any(self, axis: Any = None, keepdim: bool = False, dim: Any = None, keepdims: bool = False) -> Self:
        """Whether one is not zero."""
        axes = self._axes("any", either("any", axis, dim))
        return self._wrap(reduced(self.uop.cast(dtypes.bool), ops.OR, axes, keeps(keepdim, keepdims)))

    def __contains__(self, x: Any) -> bool:
        """`3 in x`: whether one element equals the number. Computes."""
        if not isinstance(x, int | float):
            x = self._operand("in", x)
            if x.numel() != 1:
                raise ShapeError(
                    f"in: looks for one number, and shape {spell_shape(x.shape)} has {x.numel()}",
                    self._made(),
                    "Compare with x == y, and use all() and any() along the axes.",
                )
            x = x.reshape(())
        return bool((self == x).any())

    def allclose(self, other: Any, rtol: float = 1e-05, atol: float = 1e-08, equal_nan: bool = False) -> bool:
        """Whether all elements are close (`isclose`)."""
        return bool(self.isclose(other, rtol, atol, equal_nan).all().item())

    def equal(self, other: Any) -> bool:
        """Whether shapes and all elements are equal."""
        right = self._operand("equal", other)
        return right.shape == self.shape and bool(self.eq(right).all().item())

    def count_nonzero(self, axis: Any = None, keepdim: bool = False, dim: Any = None, keepdims: bool = False) -> Self:
        """How many are not zero."""
        return self.cast(dtypes.bool).sum(either("count_nonzero", axis, dim), keeps(keepdim, keepdims))

    # ---- moments

    def mean(self, axis: Any = None, keepdim: bool = False, dim: Any = None, keepdims: bool = False) -> Self:
        """The sum divided by the number of elements; of integers, a float."""
        axes = self._axes("mean", either("mean", axis, dim))
        return self._narrow(mean_of(self._wide(), axes, keeps(keepdim, keepdims)))

    def _variance(self, name: str, axis: Any, keepdim: bool, correction: int) -> tuple[UOp, UOp]:
        """Variance and mean in two passes: first the mean, then the squares of what differs from it."""
        check_number(name, "correction", correction, self._made())
        axes = self._axes(name, axis)
        x = self._wide()
        if x.dtype.is_complex:
            return self._variance_of_complex(x, axes, keepdim, correction)
        count = count_of(x, axes, correction)
        if axes and forms_of(target_of(self.device)).sums_together:
            flat = mean_of(x, axes)
            found = squares_from_mean(x, flat, axes) / count, flat
            if not keepdim:
                return found
            shape = kept_shape(x, axes)
            return found[0].reshape(shape), found[1].reshape(shape)
        middle = mean_of(x, axes, keepdim=True)
        away = x - broadcast_like(middle, x)
        total = reduced(away * away, ops.ADD, axes, keepdim)
        return total / count, middle if keepdim or not axes else middle.reshape(total.shape)

    def _variance_of_complex(self, x: UOp, axes: tuple[int, ...], keepdim: bool, correction: int) -> tuple[UOp, UOp]:
        """The variances of both parts together, and the mean."""
        middle = mean_of(x, axes, keepdim=True)
        real, imaginary = parts_of(x - broadcast_like(middle, x))
        total = reduced(real * real + imaginary * imaginary, ops.ADD, axes, keepdim)
        return total / count_of(real, axes, correction), middle if keepdim else middle.reshape(total.shape)

    def var(
        self,
        axis: Any = None,
        keepdim: bool = False,
        correction: int = 1,
        dim: Any = None,
        keepdims: bool = False,
        unbiased: bool | None = None,
        ddof: int | None = None,
    ) -> Self:
        """The mean square distance from the mean, divided by n - correction.

        `ddof=` is the same as correction; `unbiased=False` is a correction of 0.
        """
        correction = _less(correction, unbiased, ddof)
        return self._narrow(self._variance("var", either("var", axis, dim), keeps(keepdim, keepdims), correction)[0])

    def std(
        self,
        axis: Any = None,
        keepdim: bool = False,
        correction: int = 1,
        dim: Any = None,
        keepdims: bool = False,
        unbiased: bool | None = None,
        ddof: int | None = None,
    ) -> Self:
        """The square root of the variance, with its arguments."""
        correction = _less(correction, unbiased, ddof)
        variance, _ = self._variance("std", either("std", axis, dim), keeps(keepdim, keepdims), correction)
        return self._narrow(restate(variance.sqrt()))

    def var_mean(
        self,
        axis: Any = None,
        keepdim: bool = False,
        correction: int = 1,
        dim: Any = None,
        keepdims: bool = False,
        unbiased: bool | None = None,
    ) -> tuple[Self, Self]:
        """Variance and mean."""
        correction = _less(correction, unbiased, None)
        variance, middle = self._variance(
            "var_mean", either("var_mean", axis, dim), keeps(keepdim, keepdims), correction
        )
        return self._narrow(variance), self._narrow(middle)

    def std_mean(
        self,
        axis: Any = None,
        keepdim: bool = False,
        correction: int = 1,
        dim: Any = None,
        keepdims: bool = False,
        unbiased: bool | None = None,
    ) -> tuple[Self, Self]:
        """Standard deviation and mean."""
        correction = _less(correction, unbiased, None)
        variance, middle = self._variance(
            "std_mean", either("std_mean", axis, dim), keeps(keepdim, keepdims), correction
        )
        return self._narrow(restate(variance.sqrt())), self._narrow(middle)

    # ---- where the extremes are

    def _position(self, name: str, op: Op, on_bool: Op, axis: Any, keepdim: bool) -> Self:
        flat = self.reshape((prod(self.shape),)) if axis is None else self
        place = 0 if axis is None else self._axis(name, axis)
        if not flat.shape:
            flat = flat.reshape((1,))
        flat._not_empty(name, (place,))
        x = self._in_order(name, flat.uop)
        best = broadcast_like(reduced(x, on_bool if x.dtype.is_bool else op, (place,), keepdim=True), x)
        hit = x.eq(best) | formulas.isnan(x) if x.dtype.is_float else x.eq(best)
        size = x.shape[place]
        dtype = dtypes.default_int if size <= dtypes.default_int.max else dtypes.int64
        alone = tuple(size if i == place else 1 for i in range(len(x.shape)))
        where = UOp.arange(size, dtype).reshape(alone).expand(x.shape)
        last = sized(size - 1, dtype)
        first = reduced(hit.where(where, last), ops.MIN, (place,), keepdim and axis is not None)
        if not self.shape:
            return self._wrap(first if not first.shape else first.reshape(()))
        return self._wrap(first.reshape((1,) * self.ndim) if keepdim and axis is None else first)

    def argmax(
        self, axis: int | None = None, keepdim: bool = False, dim: int | None = None, keepdims: bool = False
    ) -> Self:
        """The position of the first largest element; the first NaN counts as the largest."""
        return self._position("argmax", ops.MAX, ops.OR, either("argmax", axis, dim), keeps(keepdim, keepdims))

    def argmin(
        self, axis: int | None = None, keepdim: bool = False, dim: int | None = None, keepdims: bool = False
    ) -> Self:
        """The position of the first smallest element; the first NaN counts as the smallest."""
        return self._position("argmin", ops.MIN, ops.AND, either("argmin", axis, dim), keeps(keepdim, keepdims))

    # ---- exponentials and norms

    def _exponents(self, name: str, axis: Any, dtype: DTypeLike | None) -> tuple[UOp, tuple[int, ...]]:
        """The node in the float dtype of the computation, and the axes."""
        axes = self._axes(name, axis)
        if dtype is not None and not storable(name, dtype).is_float:
            raise DTypeError(f"{name}: dtype={storable(name, dtype).name} is no float", self._made(), "Use a float.")
        x = self._wide() if dtype is None else self.uop.cast(sum_dtype(least_upper_float(storable(name, dtype))))
        return x, axes

    def _shifted(self, name: str, axis: Any) -> tuple[UOp, UOp, tuple[int, ...]]:
        """x - max(x), the max, and the axes: exponentials of that do not overflow."""
        x, axes = self._exponents(name, axis, None)
        return *shifted(x, axes), axes

    def softmax(self, axis: Any = -1, dtype: DTypeLike | None = None, dim: Any = None) -> Self:
        """exp(self), scaled to the sum 1."""
        x, axes = self._exponents("softmax", axis if dim is None else dim, dtype)
        if dtype is not None:
            return self._wrap(softmax(x, axes).cast(storable("softmax", dtype)))
        return told("softmax", self._narrow(softmax(x, axes)), self, axes=axes)

    def softmin(self, axis: Any = -1, dtype: DTypeLike | None = None, dim: Any = None) -> Self:
        """exp(-self), scaled to the sum 1."""
        return (-self).softmax(axis, dtype, dim)

    def log_softmax(self, axis: Any = -1, dtype: DTypeLike | None = None, dim: Any = None) -> Self:
        """The logarithm of `softmax`."""
        x, axes = self._exponents("log_softmax", axis if dim is None else dim, dtype)
        if dtype is not None:
            return self._wrap(log_softmax(x, axes).cast(storable("log_softmax", dtype)))
        return told("log_softmax", self._narrow(log_softmax(x, axes)), self, axes=axes)

    def logsumexp(self, axis: Any = None, keepdim: bool = False, dim: Any = None, keepdims: bool = False) -> Self:
        """log(sum(exp(self))) without overflow; -inf of no elements."""
        axes = self._axes("logsumexp", either("logsumexp", axis, dim))
        keeps_axes = keeps(keepdim, keepdims)
        result = self._narrow(logsumexp(self._wide(), axes, keeps_axes))
        return told("logsumexp", result, self, axes=axes, keepdims=keeps_axes)

    def layernorm(self, axis: Any = -1, eps: float = 1e-05, dim: Any = None) -> Self:
        """Shifted and scaled to mean 0 and variance 1 along the axes."""
        axes = self._axes("layernorm", axis if dim is None else dim)
        x = self._wide()
        away = x - broadcast_like(mean_of(x, axes, keepdim=True), x)
        scale = (mean_of(away * away, axes, keepdim=True) + eps).sqrt().reciprocal()
        return told("layer_norm", self._narrow(away * broadcast_like(scale, x)), self, None, None, axes=axes, eps=eps)

    def batchnorm(self, weight: Any, bias: Any, mean: Any, invstd: Any, axis: Any = 1) -> Self:
        """(self - mean) * invstd * weight + bias, each of which has the sizes of the axes named."""
        axes = self._axes("batchnorm", axis)
        shape = tuple(size if i in axes else 1 for i, size in enumerate(self.shape))
        flat = tuple(self.shape[axis] for axis in axes)
        given = self._numbers_of_channels(axes, mean=mean, invstd=invstd, weight=weight, bias=bias)
        present = [t for t in given if t is not None]
        narrow = least_upper_float(resolve_weak(least_upper_dtype(self.dtype, *(t.dtype for t in present))))
        wide = sum_dtype(narrow)
        is_flat = all(t is not None and t.shape in (shape, flat) for t in given)
        if is_flat and forms_of(target_of(self.device)).sums_together:
            middle, scale, factor, offset = (t.cast(wide).reshape(flat).uop for t in present)
            others = tuple(sorted({*range(self.ndim)} - {*axes}))
            return self._wrap(scaled(self.cast(wide).uop, others, middle, scale * factor, offset)).cast(narrow)

        result = self.cast(wide)
        for combine, t in zip((operator.sub, operator.mul, operator.mul, operator.add), given, strict=True):
            if t is not None:
                result = combine(result, t.cast(wide).reshape(t.shape if t.ndim == self.ndim else shape))
        return result.cast(narrow)

    def _numbers_of_channels(self, axes: tuple[int, ...], **given: Any) -> list[Self | None]:
        """What a batch norm was given, by its roles: a number for each position of these axes."""
        found = {role: None if t is None else self._operand("batchnorm", t) for role, t in given.items()}
        self._one_device("batchnorm", *(t for t in found.values() if t is not None))
        count = prod(self.shape[axis] for axis in axes)
        for role, t in found.items():
            if t is not None and t.ndim != self.ndim and t.numel() != count:
                raise ShapeError(
                    f"batchnorm: {role} has shape {spell_shape(t.shape)}, for axes {axes} of {spell_shape(self.shape)}",
                    f"the tensor {self._made()}, {role} {t._made()}",
                    "Give one number for each position of these axes.",
                )
        return list(found.values())

    def normalize(self, p: float = 2.0, dim: Any = 1, eps: float = 1e-12, axis: Any = None) -> Self:
        """self divided by its p-norm along an axis, or by eps if that is larger."""
        axes = self._axes("normalize", dim if axis is None else axis)
        x = self._wide()
        size = absolute(x) if x.dtype.is_complex else x
        norm = norm_of("normalize", size, p, axes, keepdim=True)
        return self._narrow(x / broadcast_like(norm.maximum(eps), x).cast(x.dtype))

    def norm(
        self, p: float | str = 2.0, axis: Any = None, keepdim: bool = False, dim: Any = None, keepdims: bool = False
    ) -> Self:
        """The p-norm of the elements: sum(|x|**p)**(1/p); "fro" is 2, inf the largest, 0 the number of non-zeros."""
        axes = self._axes("norm", either("norm", axis, dim))
        power = 2.0 if p == "fro" else p
        if not isinstance(power, int | float):
            raise ArgumentError(f"norm: there is no norm {p!r}", self._made(), 'Use a number, inf, -inf or "fro".')
        if math.isinf(power):
            self._not_empty("norm", axes)
        x = absolute(self.uop) if self.dtype.is_complex else self._wide()
        return self._narrow(norm_of("norm", x, float(power), axes, keeps(keepdim, keepdims)))
