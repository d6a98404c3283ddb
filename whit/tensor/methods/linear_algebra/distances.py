"""How far apart vectors are, and how they vary together."""

from __future__ import annotations

from typing import Any, Self

from whit.errors import ArgumentError, ShapeError
from whit.ir.op import spell_shape
from whit.tensor.core import check_number, join_shapes, whole
from whit.tensor.graphs.softmax import broadcast_like
from whit.tensor.methods.reduction.reduce import norm_of
from whit.tensor.topic import Topic


class Distances(Topic):
    """Norms of differences; covariance."""

    __slots__ = ()

    def dist(self, other: Any, p: float = 2.0) -> Self:
        """The p-norm of self - other, as one number."""
        return self.sub(other).norm(p)

    def cdist(self, x2: Any, p: float = 2.0) -> Self:
        """The p-norm of the difference of every row of self and every row of x2; axes before the last two broadcast."""
        right = self._operand("cdist", x2)
        fits = self.ndim > 1 and right.ndim > 1 and self.shape[-1] == right.shape[-1]
        batch = join_shapes(self.shape[:-2], right.shape[:-2]) if fits else None
        if batch is None:
            raise ShapeError(
                f"cdist: rows of shapes {spell_shape(self.shape)} and {spell_shape(right.shape)}",
                f"left {self._made()}, right {right._made()}",
                "Use matrices whose rows are equally long, under axes that broadcast.",
            )
        self._check_norm("cdist", p)
        away = self.unsqueeze(-2) - right.unsqueeze(-3)
        wide = away._wide()
        if not wide.shape[-1]:
            return self._wrap(away.sum(-1).uop)
        return away._narrow(norm_of("cdist", wide, float(p), (away.ndim - 1,), False))

    def pdist(self, p: float = 2.0) -> Self:
        """The p-norms of the differences of all pairs of rows of a matrix, in one row."""
        if self.ndim != 2:
            raise ShapeError(f"pdist: {spell_shape(self.shape)} is no matrix", self._made(), "Use one row a point.")
        rows = self.shape[0]
        first = [i for i in range(rows) for _ in range(i + 1, rows)]
        second = [j for i in range(rows) for j in range(i + 1, rows)]
        self._check_norm("pdist", p)
        away = self.take(first, 0) - self.take(second, 0)
        return away.norm(p, -1) if first else self._wrap(away.sum(-1).uop)

    def _check_norm(self, name: str, p: Any) -> None:
        check_number(name, "p", p, self._made())
        if not p >= 0:
            raise ArgumentError(f"{name}: there is no {p}-norm", self._made(), "p is 0 or more.")

    def renorm(self, p: float, dim: int, maxnorm: float) -> Self:
        """Each slice along an axis scaled to the p-norm maxnorm, if its own is larger."""
        check_number("renorm", "p", p, self._made())
        check_number("renorm", "maxnorm", maxnorm, self._made())
        axis = self._axis("renorm", dim, scalars=False)
        others = tuple(i for i in range(self.ndim) if i != axis)
        x = self._wide()
        norm = norm_of("renorm", x, float(p), others, True)
        scale = (norm > float(maxnorm)).where(float(maxnorm) / (norm + 1e-7), norm.constant(1.0))
        return self._narrow(x * broadcast_like(scale, x))

    # ---- how they vary

    def cov(self, *, correction: int = 1, fweights: Any = None, aweights: Any = None) -> Self:
        """The covariances of variables, which are the rows; columns are observations.

        `fweights` says how often each was made, `aweights` how much it counts.
        """
        whole("cov", "correction", correction, self._made())
        if self.ndim > 2:
            raise ShapeError(f"cov: {spell_shape(self.shape)} is no matrix", self._made(), "Use one row a variable.")
        rows = self.reshape((1, -1)) if self.ndim < 2 else self
        x = rows._wrap(rows._wide())
        count = x.shape[1]
        weights, total, less = self._observations(fweights, aweights, count, x, correction)
        if weights is None:
            away = x - x.mean(1, keepdim=True)
            found = away.matmul(away.transpose(0, 1)) / max(count - correction, 0)
        else:
            mean = (x * weights).sum(1, keepdim=True) / total
            away = x - mean
            found = (away * weights).matmul(away.transpose(0, 1)) / less
        result = self._narrow(found.uop)
        return result if self.ndim == 2 and self.shape[0] != 1 else result.reshape(())

    def _observations(
        self, fweights: Any, aweights: Any, count: int, x: Self, correction: int
    ) -> tuple[Self | None, Any, Any]:
        """The weight of each observation, their sum, and the divisor of the covariance."""
        given = [None if w is None else self._operand("cov", w) for w in (fweights, aweights)]
        for weight in given:
            if weight is not None and weight.shape != (count,):
                raise ShapeError(
                    f"cov: weights {spell_shape(weight.shape)} for {count} observations",
                    weight._made(),
                    "Give one for each column.",
                )
        often, much = given
        if often is None and much is None:
            return None, None, None
        times = None if often is None else often.cast(x.dtype)
        factor = None if much is None else much.cast(x.dtype)
        weights = times if factor is None else factor if times is None else times * factor
        assert weights is not None, "one of the two is given"
        total = weights.sum()
        if not correction:
            return weights, total, total
        if factor is None:
            return weights, total, total - correction
        return weights, total, total - (weights * factor).sum() * correction / total

    def corrcoef(self) -> Self:
        """The correlations of variables, which are the rows: covariances divided by both standard deviations."""
        found = self.cov()
        if not found.ndim:
            return found / found
        root = found.diagonal().sqrt()
        scaled = found / root.unsqueeze(1) / root.unsqueeze(0)
        return scaled.clamp(-1, 1)
