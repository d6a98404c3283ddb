"""A kernel and its program mean the same: run by the interpreter, for vectors of every width, and without any."""

from collections.abc import Callable
from itertools import accumulate
from math import prod
from typing import Any

import numpy as np
import pytest
from schedule.build import argmax, layernorm, matmul, param, relu, scheduled, softmax, total

from whit.codegen import generate
from whit.config import Context
from whit.dtype import dtypes
from whit.ir import ops
from whit.ir.check.verify import verify
from whit.ir.interpret import evaluate, numpy_dtype, run
from whit.ir.op import KERNEL, PROGRAM
from whit.ir.uop import UOp, const
from whit.target import parse_target

pytestmark = pytest.mark.slow  # large, or many

TARGETS = {
    16: parse_target("CPU:LLVM:x86-64"),
    32: parse_target("CPU:LLVM:x86-64-v3"),
    64: parse_target("CPU:LLVM:skylake-avx512"),
}
SIZES = (1, 2, 3, 15, 16, 17, 31, 33, 63, 65, 100, 129)

INT = dtypes.int32
MEMORY = (ops.PARAM, ops.BUFFER, ops.AFTER)


def joined(*parts: UOp) -> UOp:
    """Parts one after the other: a kernel whose loops nothing connects."""
    counts = [prod(part.shape) for part in parts]
    base = const(parts[0].dtype, 0).reshape((1,)).expand((sum(counts),))
    stores = []
    for part, count, end in zip(parts, counts, accumulate(counts), strict=True):
        stores.append(base.shrink([(end - count, count)]).reshape(part.shape).store(part.stage()))
    return base.after(*stores)


def ints(slot: int, *shape: int) -> UOp:
    return param(slot, *shape, dtype=INT)


KERNELS: dict[str, Callable[[int], UOp]] = {
    "elementwise": lambda n: (ints(0, n) * 3 + ints(1, n)).maximum(0),
    "two axes": lambda n: ints(0, 3, n) + ints(1, n).reshape((1, n)).expand((3, n)),
    "transpose": lambda n: ints(0, n, 5).permute((1, 0)) * 2,
    "square transpose": lambda n: ints(0, n, 33).permute((1, 0)) * 2,
    "padded": lambda n: (ints(0, n) + 1).pad(((2, 3),)),
    "flipped": lambda n: ints(0, n).flip((0,)) + ints(1, n),
    "sum of rows": lambda n: total(ints(0, 3, n)),
    "sum of columns": lambda n: total(ints(0, n, 3), 0),
    "sum of long columns": lambda n: total(ints(0, 3, n), 0),
    "matmul": lambda n: matmul(ints(0, 3, 5), ints(1, 5, n)),
    "dot products": lambda n: matmul(ints(0, 3, n), ints(1, 5, n).permute((1, 0))),
    "row minus its maximum": lambda n: (
        ints(0, 4, n) - ints(0, 4, n).reduce(ops.MAX, (1,)).reshape((4, 1)).expand((4, n))
    ),
    "argmax": lambda n: argmax(ints(0, 3, n)),
    "running sum": lambda n: ints(0, 3, n).scan(ops.ADD, 1),
    "running sum of columns": lambda n: ints(0, n, 3).scan(ops.ADD, 0),
    "running sum of rows": lambda n: ints(0, n, 40).scan(ops.MAX, 0),
    "running sum from the end": lambda n: ints(0, 3, n).scan(ops.ADD, 1, reverse=True),
    "flipped running sum": lambda n: (ints(0, n) * 2).flip((0,)).scan(ops.ADD, 0).flip((0,)),
    "running sum of booleans": lambda n: (ints(0, n) < 0).scan(ops.OR, 0),
    "stack": lambda n: UOp.stack(ints(0, n), ints(1, n)),
    "gather": lambda n: ints(0, n, 3).index(ints(1, 7) % n),
    "narrowed": lambda n: param(0, n, dtype=dtypes.int64).cast(dtypes.uint8),
    "joined": lambda n: joined(ints(0, n), ints(1, 2, 3), ints(2), ints(3, n, 2).permute((1, 0)), ints(4, n)),
    "masked": lambda n: (ints(0, n) < 0).where(ints(0, n), UOp.arange(n, INT)),
}


def arrays_of(body: UOp, generator: np.random.Generator) -> dict[UOp, np.ndarray]:
    """An array for each param of a kernel."""
    found: dict[UOp, np.ndarray] = {}
    for node in body.topological():
        if node.op is ops.PARAM:
            if node.dtype.is_float:
                found[node] = generator.standard_normal(node.shape).astype(numpy_dtype(node.dtype))
            else:
                found[node] = generator.integers(-9, 10, node.shape).astype(numpy_dtype(node.dtype))
    return found


def run_program(body: UOp, linear: UOp, arrays: dict[UOp, np.ndarray]) -> dict[int, np.ndarray]:
    """The memory of each slot after a program, which sees it flat."""
    memory = {node.arg.slot: array.reshape(-1).copy() for node, array in arrays.items()}
    run(linear, {node: memory[node.arg.slot] for node in linear.src if node.op is ops.PARAM})
    return memory


def compare(body: UOp, arrays: dict[UOp, np.ndarray], memory: dict[int, np.ndarray], tolerance: float) -> None:
    """Runs a kernel, whose programs have left this in memory."""
    run(body, arrays)
    for node, expected in arrays.items():
        got = memory[node.arg.slot].reshape(expected.shape)
        if tolerance and node.dtype.is_float:
            np.testing.assert_allclose(got, expected, rtol=tolerance, atol=tolerance)
        else:
            np.testing.assert_array_equal(got, expected)


def check_kernels(value: UOp, target: Any, tolerance: float = 0.0) -> None:
    """Every kernel of the schedule of a value, against its program."""
    generator = np.random.default_rng(0)
    for call in scheduled(value).src:
        body = call.src[0].src[0]
        verify(body, KERNEL)
        linear = generate(body, target).linear
        verify(linear, PROGRAM)
        arrays = arrays_of(body, generator)
        found = run_program(body, linear, arrays)
        compare(body, arrays, found, tolerance)


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("name", KERNELS)
def test_programs_mean_what_kernels_mean(name: str, size: int) -> None:
    value = KERNELS[name](size)
    for target in TARGETS.values():
        check_kernels(value, target)
    with Context(NOOPT=1):
        check_kernels(value, TARGETS[32])


@pytest.mark.parametrize("size", (5, 16, 33))
@pytest.mark.parametrize("width", TARGETS)
def test_float_programs_mean_what_kernels_mean(width: int, size: int) -> None:
    x = param(0, 3, size)
    check_kernels(layernorm(x, param(1, size), param(2, size)), TARGETS[width], 1e-5)
    check_kernels(relu(matmul(x, param(1, size, 5))), TARGETS[width], 1e-5)
    check_kernels(softmax(x), TARGETS[width], 1e-5)


@pytest.mark.parametrize("width", TARGETS)
def test_threads_share_a_range_and_its_rest(width: int) -> None:
    for size in (40_000, 40_003):
        value = param(0, size, dtype=dtypes.int8) + param(1, size, dtype=dtypes.int8)
        (call,) = scheduled(value).src
        with Context(NOOPT=0):
            assert generate(call.src[0].src[0], TARGETS[width]).total > 1
            check_kernels(value, TARGETS[width])


def test_noopt_leaves_kernels_as_written() -> None:
    (call,) = scheduled(matmul(param(0, 20, 30), param(1, 30, 40))).src
    with Context(NOOPT=1):
        program = generate(call.src[0].src[0], TARGETS[64])
    assert program.total == 1
    assert program.explanation == "optimisation is off"
    assert all(not node.shape for node in program.linear.src if node.op not in MEMORY)


def test_a_reduction_is_a_register() -> None:
    (call,) = scheduled(total(param(0, 4, 3, dtype=INT))).src
    with Context(NOOPT=1):
        linear = generate(call.src[0].src[0], TARGETS[16]).linear
    assert [node.op.name for node in linear.src] == [
        *("buffer", "param", "param", "range", "mul", "store", "range", "add", "load", "after", "load", "add", "store"),
        *("end", "after", "load", "store", "end"),
    ]


def test_values_are_computed_outside_of_loops_that_they_do_not_need() -> None:
    x, row = param(0, 50, 40), param(1, 50)
    (call,) = scheduled(x * (row * 2.0 + 1.0).reshape((50, 1)).expand((50, 40))).src
    with Context(NOOPT=1):
        linear = generate(call.src[0].src[0], TARGETS[16]).linear
    depth, product = 0, -1
    for node in linear.src:
        depth += (node.op is ops.RANGE) - (node.op is ops.END)
        if node.op is ops.ADD and node.dtype is dtypes.float32:
            product = depth
    assert product == 1


def test_evaluation_of_a_program_needs_no_order_of_cores() -> None:
    value = param(0, 33_000, dtype=INT) + 1
    (call,) = scheduled(value).src
    body = call.src[0].src[0]
    arrays = arrays_of(body, np.random.default_rng(0))
    found = run_program(body, generate(body, TARGETS[64]).linear, arrays)
    (given,) = [node for node in value.topological() if node.op is ops.PARAM]
    read = next(array for node, array in arrays.items() if node.arg.slot == 1)
    np.testing.assert_array_equal(found[0], evaluate(value, {given: read}))
