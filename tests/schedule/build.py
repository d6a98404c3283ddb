"""Tensor graphs as users write them, and their schedules."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from whit.dtype import DType, dtypes
from whit.ir import ops
from whit.ir.check.verify import verify
from whit.ir.interpret import evaluate, numpy_dtype, run
from whit.ir.op import KERNEL, SCHEDULE, Op
from whit.ir.uop import UOp, const
from whit.schedule import schedule

FIRST_OUTPUT = 100
LOG2_E = 1.4426950408889634

Outputs = UOp | Sequence[UOp]


def param(slot: int, *shape: int, dtype: DType = dtypes.float32) -> UOp:
    return UOp.param(slot, dtype, shape)


def reduced(x: UOp, op: Op, axis: int) -> UOp:
    """Reduced along an axis that stays, with size 1 spread over what it was: keepdim and broadcast."""
    shape = tuple(1 if a == axis else size for a, size in enumerate(x.shape))
    return x.reduce(op, (axis,)).reshape(shape).expand(x.shape)


def total(x: UOp, axis: int = -1) -> UOp:
    return x.reduce(ops.ADD, (axis % len(x.shape),))


def row_sum(x: UOp) -> UOp:
    return reduced(x, ops.ADD, len(x.shape) - 1)


def row_max(x: UOp) -> UOp:
    return reduced(x, ops.MAX, len(x.shape) - 1)


def matmul(a: UOp, b: UOp) -> UOp:
    (m, k), (_, n) = a.shape, b.shape
    left = a.reshape((m, 1, k)).expand((m, n, k))
    right = b.permute((1, 0)).reshape((1, n, k)).expand((m, n, k))
    return (left * right).reduce(ops.ADD, (2,))


def broadcast(x: UOp, shape: tuple[int, ...]) -> UOp:
    return x.reshape((1,) * (len(shape) - len(x.shape)) + x.shape).expand(shape)


def relu(x: UOp) -> UOp:
    return x.maximum(0.0)


def exp(x: UOp) -> UOp:
    return (x * LOG2_E).exp2()


def log(x: UOp) -> UOp:
    return x.log2() * (1 / LOG2_E)


def softmax(x: UOp) -> UOp:
    e = exp(x - row_max(x))
    return e / row_sum(e)


def log_softmax(x: UOp) -> UOp:
    shifted = x - row_max(x)
    return shifted - log(row_sum(exp(shifted)))


def logsumexp(x: UOp) -> UOp:
    largest = x.reduce(ops.MAX, (1,))
    return log(total(exp(x - row_max(x)))) + largest


def mean(x: UOp) -> UOp:
    return row_sum(x) * (1.0 / x.shape[-1])


def layernorm(x: UOp, weight: UOp, bias: UOp) -> UOp:
    centred = x - mean(x)
    scaled = centred / (mean(centred * centred) + 1e-5).sqrt()
    return scaled * broadcast(weight, x.shape) + broadcast(bias, x.shape)


def rmsnorm(x: UOp, weight: UOp) -> UOp:
    return x / (mean(x * x) + 1e-5).sqrt() * broadcast(weight, x.shape)


def variance(x: UOp) -> UOp:
    centred = x - mean(x)
    return total(centred * centred) * (1.0 / (x.shape[-1] - 1))


def positions(x: UOp) -> UOp:
    return broadcast(UOp.arange(x.shape[-1], dtypes.int32), x.shape)


def argmax(x: UOp) -> UOp:
    n = x.shape[-1]
    place = x.eq(row_max(x)).where(positions(x), const(dtypes.int32, n))
    return place.reduce(ops.MIN, (1,))


def normalize(x: UOp) -> UOp:
    return x / row_sum(x * x).sqrt().maximum(1e-12)


def cross_entropy(x: UOp, labels: UOp) -> UOp:
    """For each row minus the logarithm of the probability of its label, which is read, not searched."""
    rows = UOp.arange(x.shape[0], dtypes.int32)
    return logsumexp(x) - x.index(rows, labels)


def attention(q: UOp, k: UOp, v: UOp) -> UOp:
    return matmul(softmax(matmul(q, k.permute((1, 0))) * (1 / math.sqrt(q.shape[1]))), v)


def windows(x: UOp, size: int) -> UOp:
    """(..., n) -> (..., n - size + 1, size): every run of neighbours along the last axis."""
    *front, n = x.shape
    count = n - size + 1
    rest = tuple((0, s) for s in front)
    repeated = x.reshape((*front, 1, n)).expand((*front, size, n)).reshape((*front, size * n))
    wide = repeated.pad([*((0, 0) for _ in front), (0, size)]).reshape((*front, size, n + 1))
    cut = wide.shrink([*rest, (0, size), (0, count)])
    order = tuple(range(len(front)))
    return cut.permute((*order, len(front) + 1, len(front)))


def conv1d(x: UOp, weight: UOp, bias: UOp) -> UOp:
    """x (c, n), weight (o, c, size) -> (o, n - size + 1)"""
    o, c, size = weight.shape
    seen = windows(x, size)  # (c, count, size)
    count = seen.shape[1]
    wide = (o, c, count, size)
    product = seen.reshape((1, c, count, size)).expand(wide) * weight.reshape((o, c, 1, size)).expand(wide)
    return product.reduce(ops.ADD, (1, 3)) + bias.reshape((o, 1)).expand((o, count))


# ---- schedules


def stores(outputs: Outputs) -> UOp:
    values = [outputs] if isinstance(outputs, UOp) else list(outputs)
    targets = [UOp.param(FIRST_OUTPUT + i, value.dtype, value.shape) for i, value in enumerate(values)]
    return UOp.group(*(target.store(value) for target, value in zip(targets, values, strict=True)))


def scheduled(outputs: Outputs) -> UOp:
    """The schedule of the values, verified."""
    linear = schedule(stores(outputs))
    verify(linear, SCHEDULE)
    for call in linear.src:
        verify(call.src[0].src[0], KERNEL)
    return linear


def kernel_count(outputs: Outputs) -> int:
    return len(scheduled(outputs).src)


def arrays_for(outputs: Outputs, seed: int = 0) -> dict[UOp, np.ndarray]:
    """Random arrays for the params of a graph."""
    generator = np.random.default_rng(seed)
    found: dict[UOp, np.ndarray] = {}
    for node in stores(outputs).topological():
        if node.op is ops.PARAM and node.arg.slot < FIRST_OUTPUT:
            if node.dtype.is_float:
                found[node] = generator.standard_normal(node.shape).astype(numpy_dtype(node.dtype))
            else:
                found[node] = generator.integers(0, 2, node.shape).astype(numpy_dtype(node.dtype))
    return found


def check_schedule(outputs: Outputs, tolerance: float = 1e-5) -> int:
    """Runs the schedule in the interpreter and compares with the tensor graph; the number of kernels."""
    values = [outputs] if isinstance(outputs, UOp) else list(outputs)
    linear = scheduled(outputs)
    inputs = arrays_for(outputs)
    targets = [store.src[0] for store in stores(outputs).src]
    results = {target: np.full(target.shape, 7).astype(numpy_dtype(target.dtype)) for target in targets}
    run(linear, {**inputs, **results})
    for value, found in zip(values, results.values(), strict=True):
        expected = evaluate(value, inputs)
        if value.dtype.is_float:
            wide = [np.asarray(array, np.float64) for array in (found, expected)]
            np.testing.assert_allclose(*wide, rtol=tolerance, atol=tolerance)
        else:
            np.testing.assert_array_equal(found, expected)
    return len(linear.src)
