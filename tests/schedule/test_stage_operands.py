"""Operands of large products that are stored before, on a GPU whose tensor cores read memory; and split depths."""

import numpy as np
import pytest

from schedule.build import matmul, param, relu, softmax, stores
from whit.config import Context
from whit.dtype import DType, dtypes
from whit.ir import ops
from whit.ir.check.verify import verify
from whit.ir.interpret import evaluate, numpy_dtype, run
from whit.ir.op import SCHEDULE
from whit.ir.uop import UOp
from whit.schedule import schedule
from whit.schedule.rewrites import split_reduce
from whit.schedule.rewrites import stage_operands as operands
from whit.target import Target, parse_target

H200 = parse_target("CUDA:PTX:sm_90a")
OLD = parse_target("CUDA:PTX:sm_80")
BF16, F32, E4M3, I8 = dtypes.bfloat16, dtypes.float32, dtypes.fp8e4m3, dtypes.int8


def product(a: UOp, b: UOp, total: DType = F32) -> UOp:
    return matmul(a.cast(total), b.cast(total))


def kernels(*values: UOp, target: Target | None = H200) -> list[str]:
    """The names of the kernels of values."""
    linear = schedule(stores(values), target)
    verify(linear, SCHEDULE)
    return [str(call.src[0].arg.name) for call in linear.src]


def halves(slot: int, *shape: int) -> UOp:
    return param(slot, *shape, dtype=BF16)


A, B, C = (halves(slot, 1024, 1024) for slot in (0, 1, 2))


def test_a_cheap_operand_of_a_large_product_is_stored() -> None:
    assert kernels(product(relu(A), B)) == ["max_1024x1024", "add_reduce_1024x1024"]
    assert len(kernels(product(relu(A), B), target=OLD)) == 1
    assert len(kernels(product(relu(A), B), target=None)) == 1


def test_it_is_stored_once_for_all_products() -> None:
    both = product(relu(A), B), product(relu(A).permute((1, 0)), C)
    assert kernels(*both) == ["max_1024x1024", "add_reduce_1024x1024", "add_reduce_1024x1024"]


def test_a_cast_of_weights_is_such_an_operand() -> None:
    weights = param(3, 1024, 1024)
    assert kernels(product(A, weights.cast(BF16))) == ["cast_1024x1024", "add_reduce_1024x1024"]
    assert kernels(product(A, param(3, 1024, 1024, dtype=E4M3).cast(BF16)))[0] == "cast_1024x1024"


def test_what_is_used_seldom_or_is_not_of_tensor_cores_stays_in_the_product() -> None:
    assert len(kernels(product(relu(halves(0, 512, 512)), halves(1, 512, 512)))) == 1
    assert len(kernels(matmul(relu(param(0, 1024, 1024)), param(1, 1024, 1024)))) == 1


def test_rows_that_the_copy_engine_cannot_read_are_not_stored() -> None:
    assert len(kernels(product(relu(halves(0, 1025, 1025)), halves(1, 1025, 1025)))) == 1


@pytest.mark.parametrize(("dtype", "total"), [(E4M3, F32), (I8, dtypes.int32)], ids=["fp8", "int8"])
def test_bytes_are_turned_so_that_they_lie_along_the_depth(
    dtype: DType, total: DType, monkeypatch: pytest.MonkeyPatch
) -> None:
    a, b = param(0, 1024, 1024, dtype=dtype), param(1, 1024, 1024, dtype=dtype)
    assert kernels(product(a, b, total)) == ["stage_1024x1024", "add_reduce_1024x1024"]
    assert len(kernels(product(a, b.permute((1, 0)), total))) == 1
    assert len(kernels(product(a.permute((1, 0)), b, total))) == 3
    monkeypatch.setattr(operands, "LARGE_PRODUCT", 1)
    monkeypatch.setattr(operands, "LEAST_USES", 1)
    check(product(param(0, 6, 32, dtype=dtype), param(1, 32, 16, dtype=dtype), total))


def test_float32_is_stored_rounded_and_turned_where_that_is_allowed(monkeypatch: pytest.MonkeyPatch) -> None:
    a, b = param(0, 1024, 1024), param(1, 1024, 1024)
    assert len(kernels(matmul(a, b))) == 1
    with Context(TF32=1):
        assert len(kernels(matmul(a, b))) == 3
        monkeypatch.setattr(operands, "LARGE_PRODUCT", 1)
        monkeypatch.setattr(operands, "LEAST_USES", 1)
        check(matmul(param(0, 6, 32), param(1, 32, 16)))


def test_rounding_keeps_what_is_no_number() -> None:
    x = param(0, 6)
    values = np.array([1 + 2**-11, -1 - 2**-12, np.inf, -np.inf, np.nan, 3.4028235e38], np.float32)
    values.view(np.uint32)[4] = 0x7F800001
    found = evaluate(operands._rounded(x).bitcast(F32), {x: values})
    np.testing.assert_array_equal(found, np.array([1 + 2**-10, -1, np.inf, -np.inf, np.nan, np.inf], np.float32))


def check(value: UOp) -> None:
    """The schedule computes the value."""
    linear = schedule(stores(value), H200)
    rng = np.random.default_rng(0)
    params = [node for node in value.topological() if node.op is ops.PARAM]
    arrays = {node: rng.integers(-3, 4, node.shape).astype(numpy_dtype(node.dtype)) for node in params}
    found = UOp.param(100, value.dtype, value.shape)
    memory = {**arrays, found: np.zeros(value.shape, numpy_dtype(value.dtype))}
    run(linear, memory)
    np.testing.assert_array_equal(memory[found], evaluate(value, arrays))


def test_stored_operands_do_not_change_the_result(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(operands, "LARGE_PRODUCT", 1)
    monkeypatch.setattr(operands, "LEAST_USES", 1)
    check(product(relu(halves(0, 8, 16)).permute((1, 0)), halves(1, 8, 24) * 2.0))


@pytest.mark.parametrize("target", [H200, OLD], ids=str)
def test_a_product_is_the_only_reduction_of_its_kernel(target: Target) -> None:
    """Where two products meet, where one is made of the other's sums, and where rows are summed beside one."""
    first, second = product(A, B), product(A, C)
    rows = A.cast(F32).reduce(ops.ADD, (1,)).reshape((1024, 1)).expand((1024, 1024))
    for values in ([first + second], [relu(first), first * second], [first * rows], [first, rows + first]):
        linear = schedule(stores(values), target)
        for call in linear.src:
            reduces = [node for node in call.src[0].topological() if node.op is ops.REDUCE]
            assert len(reduces) == 1 or not any(node.src[0].op is ops.MUL for node in reduces)


def test_attention_keeps_what_it_kept() -> None:
    scores = product(A, B)
    assert kernels(product(softmax(scores).cast(BF16), C)) == kernels(
        product(softmax(scores).cast(BF16), C), target=OLD
    )


def test_a_deep_product_of_few_tiles_is_split() -> None:
    assert kernels(product(halves(0, 768, 16384), halves(1, 16384, 768)))[0] == "add_reduce_4x768x768"
    assert len(kernels(product(halves(0, 4096, 4096), halves(1, 4096, 4096)))) == 1
    assert split_reduce.gpu_parts(768, 768, 12, 16384, 132) == 1
    assert split_reduce.gpu_parts(768, 768, 1, 16381, 132) == 1


def test_few_rows_are_stored_and_their_depth_is_left_to_blocks() -> None:
    x, matrix = halves(0, 16, 4096), halves(1, 4096, 4096)
    assert len(kernels(product(x, matrix))) == 1
    assert len(kernels(product(relu(x), matrix))) == 2
    assert len(kernels(product(relu(x), matrix), target=OLD)) == 1
    assert len(kernels(product(halves(0, 64, 4096), matrix))) == 1
    assert len(kernels(product(halves(0, 64, 4096), matrix), target=OLD)) == 2
    assert len(kernels(product(relu(halves(0, 1, 4096)), matrix))) == 1


@pytest.mark.parametrize("is_turned", [False, True])
@pytest.mark.parametrize(("depth", "columns"), [(128256, 4096), (50304, 768), (4096, 128256), (65536, 512)])
def test_any_few_rows_are_left_to_blocks_however_deep(depth: int, columns: int, is_turned: bool) -> None:
    """Whether cores that copy them had better share the depth is no question on a GPU that has them copied."""
    matrix = halves(1, columns, depth).permute((1, 0)) if is_turned else halves(1, depth, columns)
    for rows in (2, 4, 7, 8, 9, 15, 16, 17, 24, 64):
        assert kernels(product(halves(0, rows, depth), matrix)) == [f"add_reduce_{rows}x{columns}"]
