"""Tensors of positions and of numbers at regular distances, and all combinations of elements."""

from __future__ import annotations

import itertools
import math
from typing import Any, Self

from whit.dtype import DTypeLike, dtypes
from whit.errors import ArgumentError, ShapeError
from whit.ir.op import spell_shape
from whit.tensor.core import Core, check_number, storable, whole
from whit.tensor.methods.creation import Creation


class Grids(Creation):
    """Constructors of numbers that follow a rule."""

    __slots__ = ()

    @classmethod
    def logspace(
        cls,
        start: Any,
        stop: Any,
        steps: int = 50,
        base: float = 10.0,
        dtype: DTypeLike | None = None,
        device: str | None = None,
        requires_grad: bool | None = None,
    ) -> Self:
        """base to the powers from start to stop, both included, at equal distances."""
        check_number("logspace", "base", base)
        exponents = cls.linspace(start, stop, steps, dtype=dtypes.float64, device=device)
        return cls._made_of(exponents.pow(float(base), reverse=True), dtype, device, requires_grad)

    @classmethod
    def geomspace(
        cls,
        start: float,
        stop: float,
        steps: int = 50,
        dtype: DTypeLike | None = None,
        device: str | None = None,
        requires_grad: bool | None = None,
    ) -> Self:
        """Numbers from start to stop, both included, each the same multiple of the one before (NumPy)."""
        check_number("geomspace", "start", start)
        check_number("geomspace", "stop", stop)
        if start * stop <= 0:
            raise ArgumentError(f"geomspace: from {start} to {stop}", fix="Both are above 0, or both below.")
        sign = math.copysign(1.0, start)
        powers = cls.linspace(0.0, math.log2(stop / start), steps, dtype=dtypes.float64, device=device)
        place = cls.arange(steps, device=device)
        found = place.eq(steps - 1).where(float(stop), powers._apply_exp2() * abs(start) * sign)
        return cls._made_of(place.eq(0).where(float(start), found), dtype, device, requires_grad)

    def _apply_exp2(self) -> Self:
        return self._wrap(self.uop.exp2())

    @classmethod
    def _made_of(cls, numbers: Core, dtype: DTypeLike | None, device: str | None, requires_grad: bool | None) -> Self:
        """Numbers that were computed, as a tensor from nothing."""
        wanted = numbers.uop.cast(dtypes.default_float if dtype is None else storable("logspace", dtype))
        return cls._fresh(wanted, device, requires_grad)

    @classmethod
    def identity(cls, n: int, dtype: DTypeLike | None = None, device: str | None = None) -> Self:
        """The same as `eye` (NumPy)."""
        return cls.eye(n, dtype=dtype, device=device)

    @classmethod
    def tri(cls, n: int, m: int | None = None, k: int = 0, dtype: DTypeLike | None = None) -> Self:
        """Ones on and below a diagonal (NumPy)."""
        return cls.ones(n, n if m is None else m, dtype=dtype).tril(k)

    # ---- positions

    @classmethod
    def tril_indices(cls, row: int, col: int | None = None, offset: int = 0, **kw: Any) -> Self:
        """The rows and columns of the lower triangle of a matrix, as two rows."""
        return cls._triangle_indices("tril_indices", row, col, offset, True, kw)

    @classmethod
    def triu_indices(cls, row: int, col: int | None = None, offset: int = 0, **kw: Any) -> Self:
        """The rows and columns of the upper triangle of a matrix, as two rows."""
        return cls._triangle_indices("triu_indices", row, col, offset, False, kw)

    @classmethod
    def _triangle_indices(
        cls, name: str, row: int, col: int | None, offset: int, lower: bool, kw: dict[str, Any]
    ) -> Self:
        rows, columns = (whole(name, "size", size) for size in (row, row if col is None else col))
        if rows < 0 or columns < 0:
            raise ShapeError(f"{name}: {rows} rows, {columns} columns", fix="Sizes are zero or more.")
        dtype, device = kw.pop("dtype", None), kw.pop("device", None)
        if kw:
            raise ArgumentError(f"{name}: there is no argument {next(iter(kw))!r}", fix="It takes dtype and device.")
        below = [min(max(i + offset + 1, 0), columns) for i in range(rows)]
        above = [columns - min(max(i + offset, 0), columns) for i in range(rows)]
        count = sum(below if lower else above)
        ones = cls.ones(rows, columns, dtype=dtypes.bool, device=device)
        mask = ones.tril(offset) if lower else ones.triu(offset)
        found = mask.nonzero(count).transpose(0, 1)
        return found if dtype is None else found.cast(dtype)

    @classmethod
    def indices(cls, dimensions: Any, dtype: DTypeLike | None = None) -> Self:
        """The coordinates of every element of a shape, one axis after another along the first one (NumPy)."""
        sizes = tuple(dimensions)
        grids = cls.arange(sizes[0], dtype=dtype).meshgrid(*(cls.arange(size, dtype=dtype) for size in sizes[1:]))
        return grids[0].stack(*grids[1:]) if len(grids) > 1 else grids[0].unsqueeze(0)

    # ---- combinations of elements

    def cartesian_prod(self, *tensors: Any) -> Self:
        """Every choice of one element of each row, in rows; of a single row itself."""
        given: Any = self
        parts = (*given, *tensors) if isinstance(given, list | tuple) else (given, *tensors)
        if len(parts) == 1:
            return parts[0]  # type: ignore[no-any-return]
        grids = parts[0].meshgrid(*parts[1:])
        return grids[0].stack(*grids[1:], dim=-1).reshape((-1 if grids[0].numel() else 0, len(parts)))  # type: ignore[no-any-return]

    def combinations(self, r: int = 2, with_replacement: bool = False) -> Self:
        """Every choice of r elements of a row, in its order, in rows."""
        if self.ndim != 1 or whole("combinations", "r", r, self._made()) < 0:
            raise ShapeError(
                f"combinations: {r} elements of {spell_shape(self.shape)}", self._made(), "Use a row, and 0 or more."
            )
        choose = itertools.combinations_with_replacement if with_replacement else itertools.combinations
        chosen = list(choose(range(self.shape[0]), r))
        if not r or not chosen:
            return self._wrap(self.uop.shrink([(0, 0)]).reshape((0, r) if r else (0,)))
        return self.take(chosen, 0)
