"""`jax.nn.initializers`: functions of a key and a shape, for parameters."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from whit.dtype import dtypes
from whit.errors import ArgumentError
from whit.jax import random
from whit.tensor import Tensor

Initializer = Callable[..., Tensor]


def zeros(key: Any, shape: Any, dtype: Any = None) -> Tensor:
    """0."""
    return Tensor.zeros(*shape, dtype=dtype)


def ones(key: Any, shape: Any, dtype: Any = None) -> Tensor:
    """1."""
    return Tensor.ones(*shape, dtype=dtype)


def constant(value: Any, dtype: Any = None) -> Initializer:
    """One number."""
    return lambda key, shape, dtype=dtype: Tensor.full(tuple(shape), value, dtype=dtype or dtypes.default_float)


def normal(stddev: Any = 1e-2, dtype: Any = None) -> Initializer:
    """Normal numbers."""
    return lambda key, shape, dtype=dtype: random.normal(key, shape, dtype) * stddev


def uniform(scale: Any = 1e-2, dtype: Any = None) -> Initializer:
    """From 0 to scale."""
    return lambda key, shape, dtype=dtype: random.uniform(key, shape, dtype) * scale


def truncated_normal(stddev: Any = 1e-2, dtype: Any = None, lower: Any = -2.0, upper: Any = 2.0) -> Initializer:
    """Normal numbers between limits."""
    return lambda key, shape, dtype=dtype: random.truncated_normal(key, lower, upper, shape, dtype) * stddev


def orthogonal(scale: Any = 1.0, column_axis: int = -1, dtype: Any = None) -> Initializer:
    """Orthogonal columns, or rows: not the numbers of JAX, whose signs are LAPACK's."""

    def init(key: Tensor, shape: Any, dtype: Any = dtype) -> Tensor:
        columns = shape[column_axis]
        rows = math.prod(shape) // columns
        tall = random.normal(key, (max(rows, columns), min(rows, columns)), dtype)
        q, r = tall.qr()
        q = q * r.diagonal().sign()
        found = q if rows >= columns else q.mT
        others = [size for axis, size in enumerate(shape) if axis != column_axis % len(shape)]
        result: Tensor = found.reshape(*others, columns).movedim(-1, column_axis) * scale
        return result

    return init


def _fans(shape: Any, in_axis: Any, out_axis: Any) -> tuple[float, float]:
    def size(axes: Any) -> int:
        return math.prod(shape[axis] for axis in ((axes,) if isinstance(axes, int) else axes))

    into, out = size(in_axis), size(out_axis)
    field = math.prod(shape) / into / out
    return into * field, out * field


def variance_scaling(
    scale: float, mode: str, distribution: str, in_axis: Any = -2, out_axis: Any = -1, *_: Any, dtype: Any = None
) -> Initializer:
    """Of a variance that fits the number of inputs or outputs."""
    if mode not in ("fan_in", "fan_out", "fan_avg"):
        raise ArgumentError(f"variance_scaling: mode={mode!r}", fix='It is "fan_in", "fan_out" or "fan_avg".')
    if distribution not in ("truncated_normal", "normal", "uniform"):
        raise ArgumentError(
            f"variance_scaling: distribution={distribution!r}",
            fix='It is "truncated_normal", "normal" or "uniform".',
        )

    def init(key: Tensor, shape: Any, dtype: Any = dtype) -> Tensor:
        into, out = _fans(shape, in_axis, out_axis)
        variance = scale / {"fan_in": into, "fan_out": out, "fan_avg": (into + out) / 2}[mode]
        if distribution == "normal":
            return random.normal(key, shape, dtype) * math.sqrt(variance)
        if distribution == "uniform":
            return random.uniform(key, shape, dtype, -1.0) * math.sqrt(3 * variance)
        spread = math.sqrt(variance) / 0.87962566103423978  # of a normal distribution between -2 and 2
        return random.truncated_normal(key, -2.0, 2.0, shape, dtype) * spread

    return init


def _named(scale: float, mode: str, distribution: str) -> Callable[..., Initializer]:
    def make(in_axis: Any = -2, out_axis: Any = -1, batch_axis: Any = (), dtype: Any = None) -> Initializer:
        return variance_scaling(scale, mode, distribution, in_axis, out_axis, dtype=dtype)

    return make


glorot_uniform = xavier_uniform = _named(1.0, "fan_avg", "uniform")
glorot_normal = xavier_normal = _named(1.0, "fan_avg", "truncated_normal")
lecun_uniform = _named(1.0, "fan_in", "uniform")
lecun_normal = _named(1.0, "fan_in", "truncated_normal")
he_uniform = kaiming_uniform = _named(2.0, "fan_in", "uniform")
he_normal = kaiming_normal = _named(2.0, "fan_in", "truncated_normal")


def delta_orthogonal(scale: Any = 1.0, column_axis: int = -1, dtype: Any = None) -> Initializer:
    """A convolution that is an orthogonal matrix at its middle, and 0 elsewhere."""

    def init(key: Tensor, shape: Any, dtype: Any = dtype) -> Tensor:
        middle = tuple((size - 1) // 2 for size in shape[:-2])
        matrix = orthogonal(scale, column_axis, dtype)(key, (shape[-1], shape[-1]))[: shape[-2]]
        result: Tensor = Tensor.zeros(*shape, dtype=matrix.dtype).at[middle].set(matrix)
        return result

    return init
