"""Few long rows on a GPU: pieces of them have blocks, in two steps. Elsewhere nothing changes."""

import numpy as np
import pytest

from schedule.build import (
    argmax,
    attention,
    layernorm,
    logsumexp,
    matmul,
    mean,
    param,
    row_sum,
    softmax,
    stores,
    total,
    variance,
)
from whit.config import Context
from whit.dtype import dtypes
from whit.ir import ops
from whit.ir.check.verify import verify
from whit.ir.interpret import evaluate, run
from whit.ir.op import SCHEDULE
from whit.ir.rewrite import rewrite
from whit.ir.uop import UOp
from whit.schedule import schedule
from whit.schedule.rewrites import split_reduce
from whit.schedule.rewrites.split_reduce import GPU_ROW_ELEMENTS, SPLIT_REDUCE
from whit.target import Target, parse_target

H200 = parse_target("CUDA:PTX:sm_90a")
X = param(0, 16, 1 << 20)


def kernels(*values: UOp, target: Target | None = H200) -> list[str]:
    """The names of the kernels of values."""
    linear = schedule(stores(values), target)
    verify(linear, SCHEDULE)
    return [str(call.src[0].arg.name) for call in linear.src]


@pytest.fixture
def short(monkeypatch: pytest.MonkeyPatch) -> None:
    """Rows are long that the interpreter can compute."""
    monkeypatch.setattr(split_reduce, "GPU_ROW_ELEMENTS", 64)
    monkeypatch.setattr(split_reduce, "GPU_ROW_PIECE_ELEMENTS", 8)


def test_a_reduction_of_few_long_rows_is_two_kernels() -> None:
    assert kernels(total(X)) == ["add_reduce_64x16", "add_reduce_16"]
    assert kernels(X.reduce(ops.MAX, (1,))) == ["max_reduce_64x16", "max_reduce_16"]
    assert len(kernels(total(X), X.reduce(ops.MAX, (1,)))) == 2  # together
    assert len(kernels(total(X) * 0.5 + 1.0)) == 2
    assert kernels(param(0, 4, 4, 600, 500).reduce(ops.ADD, (2, 3)))[0] == "add_reduce_60x4x4"


def test_statistics_are_kept_for_the_kernel_of_all_elements() -> None:
    """Which would have a block for each row, if it computed something of each row."""
    assert kernels(softmax(X))[-1] == "fdiv_16x1048576"
    assert [len(kernels(f(X))) for f in (softmax, logsumexp, variance, argmax)] == [5, 4, 4, 4]
    assert len(kernels(layernorm(X, param(1, 1 << 20), param(2, 1 << 20)))) == 5
    row = param(0, 1, 1 << 20)
    assert kernels(softmax(row))[-1] == "fdiv_1x1048576"
    assert kernels(row / row_sum(row))[1:] == ["add_reduce_1", "fdiv_1x1048576"]


def test_what_fills_the_chip_or_is_short_stays_one_kernel() -> None:
    assert len(kernels(total(param(0, 2 * H200.cores, GPU_ROW_ELEMENTS)))) == 1
    assert len(kernels(total(param(0, 2 * H200.cores - 1, GPU_ROW_ELEMENTS)))) == 2
    assert len(kernels(softmax(param(0, 16, GPU_ROW_ELEMENTS - 4)))) == 1
    assert len(kernels(total(param(0, 16, 1 << 14)))) == 1
    assert len(kernels(total(X), target=None)) == 1
    assert len(kernels(softmax(X), target=parse_target("CPU:LLVM:znver4"))) == 1


@pytest.mark.parametrize("blocks", [0, 1])
def test_scans_and_products_are_left_alone(blocks: int, monkeypatch: pytest.MonkeyPatch) -> None:
    q, keys, deep = param(1, 16, 64), param(2, GPU_ROW_ELEMENTS, 64), param(3, GPU_ROW_ELEMENTS, 12)
    graphs = [
        X.scan(ops.ADD, 1),
        matmul(param(1, 12, GPU_ROW_ELEMENTS), deep),
        attention(q, keys, keys),
        attention(q, keys, deep),
    ]
    with Context(FLASH_ATTENTION=blocks):
        found = [schedule(stores(graph), H200) for graph in graphs]
        monkeypatch.setattr(split_reduce, "GPU_ROW_ELEMENTS", 1 << 60)
        assert found == [schedule(stores(graph), H200) for graph in graphs]


def test_means_of_a_product_are_split() -> None:
    product = matmul(param(1, 16, 64), param(2, 64, GPU_ROW_ELEMENTS))
    assert [name for name in kernels(product - mean(product)) if name.startswith("add_reduce_32x16")]


@pytest.mark.usefixtures("short")
@pytest.mark.parametrize("shape", [(16, 96), (9, 97), (100, 640), (3, 5, 7, 11), (12, 2, 67)])
@pytest.mark.parametrize("op", [ops.ADD, ops.MAX, ops.MIN, ops.MUL])
def test_it_stays_what_it_was(shape: tuple[int, ...], op: ops.Op) -> None:
    x = param(0, *shape, dtype=dtypes.int32)
    node = x.reduce(op, tuple(range(2 if len(shape) == 4 else 1, len(shape))))
    split = rewrite(node, SPLIT_REDUCE, H200, once=True)
    pieces, *rest = next(n.shape for n in split.topological() if n.op is ops.STAGE)
    assert pieces >= 2 and tuple(rest) == node.shape
    values = np.random.default_rng(0).integers(1, 9, shape).astype(np.int32) * 3 - 13
    assert np.array_equal(evaluate(split, {x: values}), evaluate(node, {x: values}))


@pytest.mark.usefixtures("short")
def test_a_softmax_and_a_norm_of_pieces() -> None:
    x, w = param(0, 9, 97), param(1, 97)
    values = {node: np.random.default_rng(1).standard_normal(node.shape).astype(np.float32) for node in (x, w)}
    values[x][2, 5] = np.inf
    outputs = [softmax(x), layernorm(x, w, w)]
    assert len(kernels(*outputs)) > 4
    expected = [evaluate(output, values) for output in outputs]
    results = {param(100 + i, 9, 97): np.zeros((9, 97), np.float32) for i in range(2)}
    run(schedule(stores(outputs), H200), {**values, **results})
    for result, right in zip(results.values(), expected, strict=True):
        assert np.allclose(result, right, rtol=1e-5, atol=1e-6, equal_nan=True)


@pytest.mark.parametrize("arch", ["sm_75", "sm_80", "sm_90a"])
def test_a_sum_of_products_over_no_axis_is_left_as_it_is(arch: str) -> None:
    """There is no axis to split: x * y of 100 elements looks like a product of 100 rows and as many columns."""
    a, b = param(0, 100, dtype=dtypes.float16), param(1, 100, dtype=dtypes.float16)
    target = parse_target(f"CUDA:PTX:{arch}")
    assert kernels((a * b).reduce(ops.ADD, ()), target=target) == ["reduce_100"]
