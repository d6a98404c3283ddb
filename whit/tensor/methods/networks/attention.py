"""Attention, and layers one after another."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from math import inf, sqrt
from typing import Any, Self

from whit.dtype import dtypes, least_upper_float
from whit.errors import ArgumentError, ShapeError
from whit.ir import ops
from whit.ir.op import spell_shape
from whit.ir.uop import UOp
from whit.tensor.core import expand_to, join_shapes
from whit.tensor.graphs import formulas
from whit.tensor.graphs.expressions import steps_to
from whit.tensor.graphs.linear_algebra.contract import product_of
from whit.tensor.graphs.mixing import mixed_gradients
from whit.tensor.graphs.softmax import broadcast_like, power_of, reduced
from whit.tensor.methods.reduction.reduce import sum_dtype
from whit.tensor.told import told
from whit.tensor.topic import Topic
from whit.transform import Form, derivative

ATTENTION = "attention"


class Attention(Topic):
    """What mixes positions."""

    __slots__ = ()

    def sequential(self, layers: Iterable[Callable[[Any], Any]]) -> Any:
        """The result of the last layer, each being called with what the one before it gave; the first with self."""
        result: Any = self
        if not isinstance(layers, Iterable):
            raise ArgumentError(f"sequential: {layers!r:.60} is no list of layers", self._made(), "Give a list.")
        for layer in layers:
            if not callable(layer):
                raise ArgumentError(
                    f"sequential: {layer!r:.60} is no layer", self._made(), "Layers are functions of one tensor."
                )
            result = layer(result)
        return result

    def scaled_dot_product_attention(
        self,
        key: Any,
        value: Any,
        attn_mask: Any = None,
        dropout_p: float = 0.0,
        is_causal: bool = False,
        enable_gqa: bool = False,
        scale: float | None = None,
    ) -> Self:
        """softmax(self @ key' * scale + mask) @ value, self being the queries: (..., length, depth).

        A mask of bools says what may be seen, one of floats is added. `is_causal`: position i sees those up to i; with
        a mask, those that both let it see. A query that sees nothing gives 0. `enable_gqa`: several heads (axis -3) of
        queries share one of keys and values. The scale is 1 / sqrt(depth) if none is given. Dropout is that of
        `dropout`.
        """
        keys, values = (self._operand("scaled_dot_product_attention", other) for other in (key, value))
        self._fit(keys, values)
        given = keys, values
        heads = [t.shape[-3] if t.ndim > 2 else 1 for t in (self, keys, values)]
        if not enable_gqa and len(set(heads) - {1}) > 1:
            raise ShapeError(
                f"scaled_dot_product_attention: {heads[0]} heads of queries, {heads[1]} of keys, {heads[2]} of values",
                f"queries {self._made()}, keys {keys._made()}, values {values._made()}",
                "Their numbers must be equal; enable_gqa=True shares those of keys and values.",
            )
        if enable_gqa:
            keys, values = self._shared_heads(keys), self._shared_heads(values)
        factor = 1 / sqrt(self.shape[-1]) if scale is None else scale
        common = self._together("scaled_dot_product_attention", (keys, values))
        queries, keys, values = common
        narrow = least_upper_float(queries.dtype)
        wide = sum_dtype(narrow)
        scores = queries.cast(wide).dot(keys.cast(wide).transpose(-2, -1)) * factor
        scores = scores._masked(attn_mask, is_causal)
        values = values.cast(wide)
        batch = join_shapes(scores.shape[:-2], values.shape[:-2])
        assert batch is not None, "scores and values were checked to broadcast"
        inner, seen = (expand_to(t.uop, (*batch, *t.shape[-2:])) for t in (scores, values))
        power, total, _ = _weights(inner)
        weights = self._wrap(power).dropout(dropout_p).uop if dropout_p else power  # type: ignore[attr-defined]
        mixed = product_of(weights, seen, batch)
        result = (mixed / broadcast_like(total, mixed)).cast(narrow)
        if weights is not power and not steps_to(power, weights):  # all of them are dropped
            return self._wrap(result)
        found = self._wrap(result.formula(ATTENTION, weights, power, inner, seen))
        mask = attn_mask if isinstance(attn_mask, type(self)) else None
        if dropout_p or mask is not attn_mask:
            return found
        return told("attention", found, self, given[0], given[1], mask, is_causal=is_causal, scale=factor)

    def _fit(self, keys: Self, values: Self) -> None:
        shapes = [t.shape for t in (self, keys, values)]
        fits = min(map(len, shapes)) >= 2 and shapes[0][-1] == shapes[1][-1] and shapes[1][-2] == shapes[2][-2]
        if not fits:
            queries, others = spell_shape(shapes[0]), " and ".join(spell_shape(shape) for shape in shapes[1:])
            raise ShapeError(
                f"scaled_dot_product_attention: queries {queries}, keys and values {others}",
                f"queries {self._made()}, keys {keys._made()}, values {values._made()}",
                "They are (..., L, depth), (..., S, depth) and (..., S, width).",
            )

    def _shared_heads(self, other: Self) -> Self:
        """Heads of keys or values repeated for all queries."""
        heads, mine = (t.shape[-3] if t.ndim > 2 else 1 for t in (other, self))
        if not heads or mine % heads:
            raise ShapeError(
                f"scaled_dot_product_attention: {mine} heads of queries for {heads} of keys and values",
                f"queries {self._made()}, the others {other._made()}",
                "The number of heads must be a multiple.",
            )
        return other.repeat_interleave(mine // heads, -3) if mine != heads else other

    def _masked(self, attn_mask: Any, is_causal: bool) -> Self:
        """Scores where nothing is seen that must not be."""
        if is_causal:
            length, others = self.shape[-2:]
            row = UOp.arange(length, dtypes.int32).reshape((length, 1)).expand((length, others))
            column = UOp.arange(others, dtypes.int32).reshape((1, others)).expand((length, others))
            seen = self._wrap(column <= row).where(self, -inf)
            return seen if attn_mask is None else seen._masked(attn_mask, False)
        if attn_mask is None:
            return self
        mask = self._operand("scaled_dot_product_attention", attn_mask)
        return mask.where(self, -inf) if mask.dtype.is_bool else self + mask.cast(self.dtype)


@derivative(ATTENTION, Form.LEADING)
def _attention(y: UOp, dy: UOp, weights: UOp, power: UOp, scores: UOp, values: UOp) -> tuple[UOp | None, ...]:
    """A row is known by one number, log(sum(exp))."""
    _, total, top = _weights(scores)
    p = power_of(scores - broadcast_like(top + formulas.log(total), scores), scores)
    return None, None, *mixed_gradients(y, dy, p, steps_to(power, weights), scores, values)


def _weights(scores: UOp) -> tuple[UOp, UOp, UOp]:
    """exp(scores - max), its sum along the last axis, and max; rows of -inf alone are 0, their sum 1, their max 0."""
    axes = (len(scores.shape) - 1,)
    top = reduced(scores, ops.MAX, axes, keepdim=True).detach()
    top = top.eq(-inf).where(top.constant(0.0), top)
    power = power_of(scores - broadcast_like(top, scores), scores)
    total = reduced(power, ops.ADD, axes, keepdim=True)
    return power, total.eq(0.0).where(total.constant(1.0), total), top
