"""Products of few rows on a GPU: groups of threads share rows of a matrix, and mean what kernels mean."""

from collections import Counter
from collections.abc import Callable

import numpy as np
import pytest
from schedule.build import layernorm, matmul, param, relu, scheduled, total

from codegen.test_gpu import TARGET, check, check_kernel
from whit.codegen import Program, generate
from whit.codegen.gpu.gemv import columns as gpu_vecmat
from whit.codegen.gpu.gemv import rows as gpu_matvec
from whit.dtype import DType, dtypes
from whit.ir import ops
from whit.ir.args import Memory
from whit.ir.interpret import run
from whit.ir.uop import UOp, make
from whit.render import render
from whit.render.program import local_buffers_of
from whit.schedule import schedule
from whit.schedule.rewrites import stage_operands as operands
from whit.target import parse_target

OLD = parse_target("CUDA:PTX:sm_80")
pytestmark = pytest.mark.slow  # every thread is interpreted


def turned(x: UOp) -> UOp:
    return x.permute((1, 0))


def halves(slot: int, *shape: int) -> UOp:
    return param(slot, *shape, dtype=dtypes.bfloat16).cast(dtypes.float32)


def packed(rows: int, blocks: int, size: int, parts: int, has_minima: bool = False) -> UOp:
    """Rows of blocks: a byte that is their scale, then bytes of so many numbers each. Shape (rows, depth)."""
    count = rows * blocks
    raw = param(1, count, size + 1, dtype=dtypes.uint8)
    scale = raw.shrink(((0, count), (0, 1))).reshape((count, 1, 1)).expand((count, parts, size))
    numbers = raw.shrink(((0, count), (1, size))).reshape((count, 1, size)).expand((count, parts, size))
    shifts = (UOp.arange(parts, dtypes.uint8) * 4).reshape((1, parts, 1)).expand((count, parts, size))
    value = ((numbers >> shifts) & 15).cast(dtypes.float32) * scale.cast(dtypes.float32)
    value = value - (scale >> 1).cast(dtypes.float32) if has_minima else value
    return value.reshape((rows, blocks * parts * size))


W, U = param(1, 8, 64), param(2, 8, 64)
CASES: dict[str, tuple[Callable[[], UOp], str]] = {
    "a warp for two rows": (
        lambda: matmul(param(0, 1, 256), turned(param(1, 8, 256))),
        "4 groups of 32 threads, 2 x 1",
    ),
    "halves": (lambda: matmul(halves(0, 1, 512), turned(halves(1, 6, 512))), "3 groups of 32 threads, 2 x 1"),
    "rows that are left over": (lambda: matmul(param(0, 1, 128), turned(param(1, 7, 128))), "7 groups of 32 threads"),
    "vectors that are left over": (
        lambda: matmul(param(0, 1, 132), turned(param(1, 4, 132))),
        "2 groups of 32 threads",
    ),
    "three rows": (lambda: matmul(param(0, 3, 128), turned(param(1, 8, 128))), "4 groups of 32 threads, 2 x 3"),
    "short rows": (lambda: matmul(param(0, 1, 36), turned(param(1, 20, 36))), "10 groups of 8 threads, 2 x 1"),
    "two matrices, and what follows": (
        lambda: (
            relu(matmul(param(0, 1, 64), turned(param(1, 8, 64)))) * matmul(param(0, 1, 64), turned(param(2, 8, 64)))
        ),
        "4 groups of 16 threads, 2 x 2",
    ),
    "packed weights": (
        lambda: matmul(param(0, 1, 512), turned(packed(4, 16, 32, 1))),
        "2 groups of 32 threads, 2 x 1",
    ),
    "two numbers in a byte": (
        lambda: matmul(param(0, 1, 192), turned(packed(4, 6, 16, 2))),
        "2 groups of 8 threads, 2 x 1",
    ),
    "blocks with minima": (
        lambda: matmul(param(0, 1, 192), turned(packed(4, 6, 16, 2, has_minima=True))),
        "2 groups of 8 threads, 2 x 1",
    ),
}


COLUMNS: dict[str, tuple[Callable[[], UOp], str]] = {
    "columns side by side": (
        lambda: matmul(param(0, 1, 256), param(1, 256, 32)),
        "2 blocks of 512 threads, 16 columns",
    ),
    "halves": (lambda: matmul(halves(0, 1, 256), halves(1, 256, 32)), "1 blocks of 512 threads, 32 columns of 1"),
    "a depth that is left over": (lambda: matmul(param(0, 1, 131), param(1, 131, 16)), "1 blocks of 512 threads"),
    "three rows": (lambda: matmul(param(0, 3, 128), param(1, 128, 16)), "1 blocks of 512 threads, 16 columns of 3"),
    "divided by the sum of the row": (
        lambda: matmul(param(0, 1, 128), param(1, 128, 16)) / total(param(0, 1, 128)).reshape((1, 1)).expand((1, 16)),
        "1 blocks of 512 threads",
    ),
}


@pytest.fixture(autouse=True)
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gpu_matvec, "LEAST_ROWS", 1)
    monkeypatch.setattr(gpu_matvec, "WARPS_A_CORE", 0)
    monkeypatch.setattr(gpu_matvec, "MOST_ROWS", 2)
    monkeypatch.setattr(gpu_vecmat, "LEAST_ELEMENTS", 1)


@pytest.mark.parametrize("name", CASES)
def test_products_of_few_rows(name: str) -> None:
    value, reason = CASES[name]
    (program,) = check(value(), 1e-5)
    assert program.explanation.startswith(reason)
    render({program.name: program.linear}, TARGET)


@pytest.mark.parametrize(("name", "blocks", "parts"), [("packed weights", 2, 1), ("two numbers in a byte", 1, 2)])
def test_scales_of_packed_weights_are_multiplied_with_sums(name: str, blocks: int, parts: int) -> None:
    """Two rows, eight lanes: one multiplication and addition for a number, and one for a block."""
    (call,) = scheduled(CASES[name][0]()).src
    program = generate(call.src[0].src[0], TARGET)
    count = Counter(node.op for node in program.linear.src if node.dtype is dtypes.float32)
    assert (count[ops.FMA], count[ops.MUL]) == (2 * blocks * (parts * 8 - 1) + 2 * blocks, 2 * blocks)


def test_minima_of_packed_weights_are_multiplied_with_sums_of_x() -> None:
    (call,) = scheduled(CASES["blocks with minima"][0]()).src
    program = generate(call.src[0].src[0], TARGET)
    count = Counter((node.op, node.shape) for node in program.linear.src if node.dtype is dtypes.float32)
    assert count[ops.FMA, ()] == 2 * (16 - 1 + 2)  # two rows of two parts, each with eight numbers; a scale, a minimum
    assert count[ops.ADD, ()] == 16 - 1  # x, once for both rows
    assert not any(count[op, (8,)] for op in (ops.FMA, ops.MUL, ops.SUB, ops.ADD))


def test_products_with_a_vector_share_a_kernel_and_a_norm_after_one_is_another() -> None:
    x, w, u = param(1, 1, 256), param(2, 256, 256), param(3, 256, 256)
    gated = relu(matmul(x, turned(w))) * matmul(x, turned(u))
    y = x + matmul(x, turned(w))
    normed = y * (y * y).reduce(ops.ADD, (1,)).reshape((1, 1)).expand((1, 256))
    for value, kernels in ((gated, 1), (normed, 2)):
        for target in (None, TARGET):
            assert len(schedule(UOp.group(param(0, 1, 256).store(value)), target).src) == kernels


def normed(rows: int, dtype: DType) -> UOp:
    """A row divided by the root of its squares' sum, and by weights; rounded between."""
    x, weight = param(1, rows, 256, dtype=dtype), param(2, 256, dtype=dtype)
    wide = x.cast(dtypes.float32)
    squares = (wide * wide).reduce(ops.ADD, (1,)).reshape((rows, 1)).expand((rows, 256))
    root = make(ops.RECIPROCAL, (make(ops.SQRT, (squares,)),))
    return (wide * root).cast(dtype) * weight.reshape((1, 256)).expand((rows, 256))


def program_of_one(value: UOp, tolerance: float) -> Program:
    """The program of a value that is one kernel on a GPU, and two elsewhere, after both were compared."""
    graph = UOp.group(param(0, *value.shape).store(value))
    assert len(schedule(graph).src) == 2
    (call,) = schedule(graph, TARGET).src
    (program,) = check_kernel(call.src[0].src[0], np.random.default_rng(0), tolerance)
    render({program.name: program.linear}, TARGET)
    return program


@pytest.mark.parametrize(("dtype", "columns"), [(dtypes.float32, 10), (dtypes.bfloat16, 8)])
def test_a_norm_is_computed_by_the_products_that_follow(
    dtype: DType, columns: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(operands, "MANY_COLUMNS", 8)
    y = normed(1, dtype).cast(dtypes.float32)
    w, u = (turned(param(slot, columns, 256, dtype=dtype).cast(dtypes.float32)) for slot in (3, 4))
    program = program_of_one(relu(matmul(y, w)) * matmul(y, u), 1e-5 if dtype is dtypes.float32 else 1e-2)
    assert program.explanation == f"{columns // 2} groups of 32 threads, 2 x 2 products in each"
    barriers = sum(node.op is ops.BARRIER for node in program.linear.src)
    assert barriers == 2  # the sum of squares of all threads, then the row


def test_a_norm_with_a_mean_and_one_before_columns_side_by_side(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(operands, "MANY_COLUMNS", 8)
    y = layernorm(param(1, 1, 128), param(2, 128), param(3, 128))
    assert program_of_one(matmul(y, turned(param(4, 8, 128))), 1e-4).explanation.startswith("4 groups of 32 threads")
    assert program_of_one(matmul(y, param(4, 128, 16)), 1e-4).explanation.startswith("1 blocks of 512 threads")


def test_a_norm_of_several_rows_or_for_few_columns_is_a_kernel_of_its_own() -> None:
    for rows, columns in ((2, 512), (1, 256)):
        w = turned(param(3, columns, 256))
        graph = UOp.group(param(0, rows, columns).store(matmul(normed(rows, dtypes.float32), w)))
        assert len(schedule(graph, TARGET).src) == 2


def test_rows_are_asked_for_before_the_kernel_waits() -> None:
    (call,) = scheduled(matmul(halves(0, 1, 512), turned(halves(1, 6, 512)))).src
    text = render({"few": generate(call.src[0].src[0], TARGET).linear}, TARGET)
    before, _, after = text.partition("griddepcontrol.wait;")
    assert before.count("cp.async.bulk.prefetch.L2.global") == 2  # rows of a warp
    assert ", 1024;" in before
    assert "ld.global" not in before
    assert "prefetch" not in after
    assert "prefetch" not in render({"few": generate(call.src[0].src[0], OLD).linear}, OLD)


@pytest.mark.parametrize("name", COLUMNS)
def test_products_with_columns_side_by_side(name: str) -> None:
    value, reason = COLUMNS[name]
    (program,) = check(value(), 1e-5)
    assert program.explanation.startswith(reason)
    render({program.name: program.linear}, TARGET)


def test_as_many_rows_and_as_deep_as_is_known_when_they_run() -> None:
    n = UOp.variable("n", 1, 70)
    keys = UOp.param(2, dtypes.float32, (n, 32))
    scores = (param(1, 1, 32).expand((n, 32)) * keys).reduce(ops.ADD, (1,))
    weights = UOp.param(1, dtypes.float32, (n,))
    mixed = (weights.reshape((n, 1)).expand((n, 32)) * keys).reduce(ops.ADD, (0,))
    for value, shape, reason in ((scores, (n,), "70 groups"), (mixed, (32,), "2 blocks of 512 threads, 16 columns")):
        (call,) = schedule(UOp.group(UOp.param(0, dtypes.float32, shape).store(value))).src
        program = generate(call.src[0].src[0], TARGET)
        assert program.explanation.startswith(reason)
        for size in (3, 66):
            rng = np.random.default_rng(0)
            memory = {0: np.zeros(70, np.float32), 1: np.ones(70, np.float32)}
            memory[2] = rng.standard_normal(70 * 32).astype(np.float32)
            given = {i: memory[argument.arg.slot] for i, argument in enumerate(call.src[1:])}
            sizes = {node: node.shape[0] for node in program.linear.src if node.op is ops.PARAM}
            params = {p: given[p.arg.slot][: s if isinstance(s, int) else None] for p, s in sizes.items()}
            run(program.linear, {**params, **dict.fromkeys(program.variables, size)})
            want = memory[2].reshape(70, 32)[:size].sum(1 if value is scores else 0)
            np.testing.assert_allclose(memory[0][: len(want)], want, rtol=1e-4, atol=1e-4)
            assert not memory[0][len(want) :].any()


@pytest.mark.parametrize(("matrices", "columns"), [(1, 64), (2, 32), (4, 0)])
def test_a_block_has_no_more_columns_than_shared_memory_for_their_sums(
    matrices: int, columns: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """16 warps have sums of eight rows: 128 columns would be 64 KiB."""
    monkeypatch.setattr("whit.schedule.stages.may_fuse.LARGE", 1 << 40)  # products are added up in one kernel
    found = [matmul(halves(0, 8, 64), halves(i + 1, 64, 32768)) for i in range(matrices)]
    (call,) = scheduled(sum(found[1:], found[0])).src
    program = generate(call.src[0].src[0], OLD)
    assert (f" {columns} columns of 8 products" in program.explanation) == bool(columns)
    buffers = [node for node in local_buffers_of(program.linear) if node.arg.memory is Memory.SHARED]
    assert sum(node.shape[0] * 4 for node in buffers) == 16 * columns * 8 * matrices * 4
