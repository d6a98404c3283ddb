"""Functions that NumPy has for arrays, and PyTorch does not have for tensors."""

from __future__ import annotations

import math
from typing import Any, Self

from whit.dtype import dtypes
from whit.errors import ShapeError
from whit.ir import ops
from whit.ir.op import spell_shape
from whit.ir.uop import UOp
from whit.tensor.core import join_shapes, whole
from whit.tensor.graphs import float_parts
from whit.tensor.graphs.positions import positions_along
from whit.tensor.topic import Topic


class Arrays(Topic):
    """NumPy's functions of one array, as methods."""

    __slots__ = ()

    # ---- elements

    def bitwise_count(self) -> Self:
        """How many bits of the magnitude are 1."""
        self._require("bitwise_count", self.dtype.is_int, "only integers have bits here", "Cast it.")
        x = self.uop if self.dtype.is_unsigned else abs(self.uop)
        unsigned = {1: dtypes.uint8, 2: dtypes.uint16, 4: dtypes.uint32, 8: dtypes.uint64}[self.dtype.itemsize]
        bits = x.bitcast(unsigned)
        total: UOp = bits & 1
        for place in range(1, self.dtype.bitsize):
            total = total + ((bits >> place) & 1)
        return self._wrap(total.cast(dtypes.uint8))

    def divmod(self, x: Any) -> tuple[Self, Self]:
        """self // x and self % x."""
        return self.div(x, rounding_mode="floor"), self % x

    def __divmod__(self, x: Any) -> tuple[Self, Self]:
        return self.divmod(x)

    def spacing(self) -> Self:
        """How far the next float is, away from 0."""
        x = self._as_float()
        self._require("spacing", x.dtype.itemsize > 1, "floats of 8 bits have no neighbours here", "Cast it.")
        target = (x < 0.0).where(x.constant(-math.inf), math.inf)
        return self._wrap(float_parts.nextafter(x, target) - x)

    def unwrap(self, discont: float | None = None, axis: int = -1, period: float = 2 * math.pi) -> Self:
        """Angles without jumps: multiples of the period are added where neighbours differ by more than half of it."""
        place = self._axis("unwrap", axis, scalars=False)
        x = self._wrap(self._wide())
        if x.shape[place] < 2:
            return self._narrow(x.uop)
        step = x.diff(dim=place)  # type: ignore[attr-defined]
        half = period / 2
        inside = (step + half) % period - half
        inside = inside.eq(-half).logical_and(step.gt(0)).where(half, inside)
        jump = inside - step
        limit = half if discont is None else max(discont, half)
        jump = step.abs().lt(limit).where(0.0, jump).cumsum(place)
        pads = [(1, 0) if i == place else (0, 0) for i in range(self.ndim)]
        return self._narrow((x + jump.pad(pads)).uop)

    def polyval(self, x: Any) -> Self:
        """The polynomial whose factors are the elements, the highest power first, at x."""
        if self.ndim != 1:
            raise ShapeError(f"polyval: {spell_shape(self.shape)} is no row", self._made(), "Use one row of factors.")
        at = type(self)(x) if isinstance(x, int | float | complex) else self._operand("polyval", x)
        result = at * 0
        for k in range(self.shape[0]):
            result = result * at + self[k]
        return result

    # ---- bits

    def packbits(self, axis: int | None = None, bitorder: str = "big") -> Self:
        """Eight bools of an axis, or of the flattened tensor, in the bits of each uint8."""
        x, place = (self.flatten(), 0) if axis is None else (self, self._axis("packbits", axis, scalars=False))
        size = x.shape[place]
        missing = -size % 8
        pads = [(0, missing) if i == place else (0, 0) for i in range(x.ndim)]
        bits = x.cast(dtypes.bool).cast(dtypes.uint8).pad(pads)
        shape = (*x.shape[:place], (size + missing) // 8, 8, *x.shape[place + 1 :])
        node = bits.reshape(shape).uop
        place_of_bit = positions_along(shape, place + 1, dtypes.uint8)
        shift = place_of_bit if bitorder == "little" else 7 - place_of_bit
        return self._wrap((node << shift).reduce(ops.ADD, (place + 1,)))

    def unpackbits(self, axis: int | None = None, count: int | None = None, bitorder: str = "big") -> Self:
        """The bits of each uint8 of an axis, or of the flattened tensor, as 0 and 1."""
        self._require("unpackbits", self.dtype is dtypes.uint8, "it takes uint8", "Cast it.")
        x, place = (self.flatten(), 0) if axis is None else (self, self._axis("unpackbits", axis, scalars=False))
        shape = (*x.shape[: place + 1], 8, *x.shape[place + 1 :])
        node = x.unsqueeze(place + 1).expand(shape).uop
        place_of_bit = positions_along(shape, place + 1, dtypes.uint8)
        shift = place_of_bit if bitorder == "little" else 7 - place_of_bit
        bits = self._wrap((node >> shift) & 1)
        result = bits.reshape((*x.shape[:place], x.shape[place] * 8, *x.shape[place + 1 :]))
        if count is None:
            return result
        last = whole("unpackbits", "count", count, self._made())
        end = last if last >= 0 else result.shape[place] + last
        return result.shrink([(0, end) if i == place else None for i in range(result.ndim)])

    # ---- products

    def matvec(self, x: Any) -> Self:
        """Matrices times vectors: the last axis of x is summed over."""
        return (self @ self._operand("matvec", x).unsqueeze(-1)).squeeze(-1)

    def vecmat(self, x: Any) -> Self:
        """Vectors times matrices."""
        return self.unsqueeze(-2).matmul(x).squeeze(-2)

    # ---- parts

    def trim_zeros(self, trim: str = "fb") -> Self:
        """A row without the zeros at its front ("f"), its back ("b") or both. Its length is data: it is computed."""
        if self.ndim != 1:
            raise ShapeError(f"trim_zeros: {spell_shape(self.shape)} is no row", self._made(), "Use one row.")
        places = self.nonzero().flatten()
        if not places.shape[0]:
            return self.shrink([(0, 0)])
        first = int(places[0].item()) if "f" in trim.lower() else 0
        end = int(places[places.shape[0] - 1].item()) + 1 if "b" in trim.lower() else self.shape[0]
        return self.shrink([(first, end)])

    def array_equiv(self, other: Any) -> bool:
        """Whether all elements are equal after broadcasting."""
        right = self._operand("array_equiv", other)
        if join_shapes(self.shape, right.shape) is None:
            return False
        return not bool(self.ne(right).any().item())

    def unique_values(self) -> Self:
        """The different elements, in order. NaNs differ from each other."""
        return self.unique(equal_nan=False)  # type: ignore[attr-defined,no-any-return]

    def unique_counts(self) -> tuple[Self, Self]:
        """The different elements, and how often each occurs. NaNs differ from each other."""
        return self.unique(return_counts=True, equal_nan=False)  # type: ignore[attr-defined,no-any-return]

    def unique_inverse(self) -> tuple[Self, Self]:
        """The different elements, and for each element which of them it is. NaNs differ from each other."""
        return self.unique(return_inverse=True, equal_nan=False)  # type: ignore[attr-defined,no-any-return]

    def unique_all(self) -> tuple[Self, Self, Self, Self]:
        """The different elements, where each is first, for each element which of them it is, and how often each is.
        NaNs differ from each other."""
        return self.unique(True, True, return_index=True, equal_nan=False)  # type: ignore[attr-defined,no-any-return]

    @property
    def flat(self) -> Self:
        """All elements in one axis."""
        return self.flatten()

    def tril_indices_from(self, k: int = 0) -> Self:
        """`tril_indices` of this shape."""
        return self.tril_indices(*self.shape, offset=k)  # type: ignore[attr-defined,no-any-return]

    def triu_indices_from(self, k: int = 0) -> Self:
        """`triu_indices` of this shape."""
        return self.triu_indices(*self.shape, offset=k)  # type: ignore[attr-defined,no-any-return]

    def histogram_bin_edges(self, bins: Any = 10, range: Any = None) -> Self:
        """The edges that `histogram` has."""
        return self.histogram(bins, range)[1]

    # ---- written into this tensor

    def fill_diagonal(self, val: Any, wrap: bool = False) -> None:
        """One number where all positions are equal."""
        self.fill_diagonal_(val, wrap)  # type: ignore[attr-defined]

    def putmask(self, mask: Any, values: Any) -> None:
        """Values where the mask holds: each from its own place, again from the first one where they are too few."""
        given = type(self)(values, dtype=self.dtype, device=self._in_memory()) if not hasattr(values, "uop") else values
        count, total = given.numel(), self.numel()
        if not count or not total:
            return
        repeated = given.cast(self.dtype).flatten().repeat(-(-total // count)).shrink(((0, total),))
        self.assign(self._operand("putmask", mask).where(repeated.reshape(self.shape), self))

    def place(self, mask: Any, vals: Any) -> None:
        """Values, one after another, where the mask holds, again from the first one where they are too few."""
        given = type(self)(vals, dtype=self.dtype, device=self._in_memory()) if not hasattr(vals, "uop") else vals
        count, total = given.numel(), self.numel()
        if not count or not total:
            return
        repeated = given.cast(self.dtype).flatten().repeat(-(-total // count)).shrink(((0, total),))
        chosen = self._operand("place", mask)
        self.masked_scatter_(chosen, repeated)  # type: ignore[attr-defined]
