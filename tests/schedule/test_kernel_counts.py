"""How many kernels a graph becomes, as numbers; and that the schedule computes what the graph says."""

from collections.abc import Callable

import pytest

from schedule.build import (
    argmax,
    attention,
    broadcast,
    check_schedule,
    conv1d,
    cross_entropy,
    kernel_count,
    layernorm,
    log_softmax,
    logsumexp,
    matmul,
    normalize,
    param,
    reduced,
    relu,
    rmsnorm,
    row_max,
    row_sum,
    scheduled,
    softmax,
    total,
    variance,
    windows,
)
from whit.dtype import dtypes
from whit.ir import ops
from whit.ir.uop import UOp, const

A, B = param(0, 6, 8), param(1, 6, 8)
W, C, V = param(2, 8, 5), param(3, 5), param(4, 8)
IMAGE, FILTER, BIAS = param(5, 3, 12), param(6, 4, 3, 3), param(7, 4)
LABELS = param(8, 6, dtype=dtypes.int32)
Q, K, X = param(9, 8, 4), param(10, 8, 4), param(11, 8, 4)
SCALAR = param(12)
BIG = param(13, 1 << 20)


def mask(n: int) -> UOp:
    """A lower triangle."""
    rows = UOp.arange(n, dtypes.int32).reshape((n, 1)).expand((n, n))
    columns = UOp.arange(n, dtypes.int32).reshape((1, n)).expand((n, n))
    return columns <= rows


def eye(n: int) -> UOp:
    rows = UOp.arange(n, dtypes.int32).reshape((n, 1)).expand((n, n))
    return rows.eq(rows.permute((1, 0))).where(const(dtypes.float32, 1), const(dtypes.float32, 0))


def filled(value: float, shape: tuple[int, ...]) -> UOp:
    return const(dtypes.float32, value).reshape((1,) * len(shape)).expand(shape)


def chain(length: int) -> UOp:
    x = A
    for i in range(length):
        x = x * 1.5 + B if i % 2 else x.permute((1, 0)).flip((0,)).permute((1, 0))
    return x


ONE = {
    "elementwise chain": (A * 2.0 + B).maximum(0.5) - A,
    "movement": A.permute((1, 0)).flip((1,)).reshape((4, 12)).shrink(((1, 2), (3, 7))),
    "elementwise and movement": chain(40),
    "a broadcast constant": filled(3.0, (6, 8)),
    "arange": UOp.arange(17, dtypes.int32) * 3,
    "eye": eye(7),
    "a triangle": mask(9).where(const(dtypes.float32, 1), const(dtypes.float32, 0)),
    "masked": mask(8).where(matmul(A.permute((1, 0)), B), const(dtypes.float32, -1e9)),
    "padding before": A.pad(((2, 0), (0, 0))),
    "padding around": (A + 1.0).pad(((1, 2), (3, 0))) * 2.0,
    "padding twice": A.pad(((1, 1), (0, 0))).pad(((0, 0), (2, 2))),
    "padding that is not zero": ((A + 1.0).pad(((1, 2), (3, 0))) - 1.0),
    "concatenation": A.pad(((0, 6), (0, 0))) + B.pad(((6, 0), (0, 0))),
    "stack": UOp.stack(A, B, A + B),
    "a sum": total(A),
    "a sum of all": A.reduce(ops.ADD, (0, 1)),
    "a sum over columns": total(A, 0),
    "matmul": matmul(A, W),
    "matmul, bias, activation, residual": relu(matmul(A, W) + broadcast(C, (6, 5))) + param(14, 6, 5),
    "matmul of something": matmul(A * 2.0 + B, W),
    "convolution, bias, activation": relu(conv1d(IMAGE, FILTER, BIAS)),
    "max pooling": windows(IMAGE, 3).reduce(ops.MAX, (2,)),
    "average pooling": windows(IMAGE, 4).reduce(ops.ADD, (2,)) * 0.25,
    "softmax": softmax(A),
    "log_softmax": log_softmax(A),
    "logsumexp": logsumexp(A),
    "layernorm": layernorm(A, V, V),
    "rmsnorm": rmsnorm(A, V),
    "variance": variance(A),
    "argmax": argmax(A),
    "normalize": normalize(A),
    "cross entropy of rows": cross_entropy(A, LABELS),
    "mean of rows of a product": total(A * B) * 0.125,
    "gather of rows": A.index(LABELS),
    "scan": A.scan(ops.ADD, 1),
    "scan along the first axis": A.scan(ops.ADD, 0),
    "something of a scan": A.scan(ops.ADD, 1) * 2.0 + B,
    "scan from the end": A.flip((1,)).scan(ops.ADD, 1).flip((1,)),
    "flipped scan, rounded": (A * 2.0).scan(ops.ADD, 0).cast(dtypes.float16).flip((0, 1)),
    "sort": A.sort(A, 1, 8),
    "sort along the first axis": (A * 2.0).sort(A, 0, 6, descending=True),
    "the first few": A.sort(A, 1, 2),
    "an expression without axes": (SCALAR * 2.0 + 1.0).sqrt(),
    "a copy": A,
    "a copy of a number": SCALAR,
    "rounding to half": A.cast(dtypes.float16).cast(dtypes.float32) + B,
}


@pytest.mark.parametrize("name", ONE)
def test_one_kernel(name: str) -> None:
    assert check_schedule(ONE[name]) == 1


SEVERAL_OUTPUTS = {
    "two values of the same elements": ([A + B, A * B], 1),
    "a value and one made of it": ([A * 2.0 + B, (A * 2.0 + B) * 3.0], 1),
    "sum and max of the same rows": ([total(A), A.reduce(ops.MAX, (1,))], 1),
    "a row's sum and the row divided by it": ([A / row_sum(A), A - row_max(A)], 1),
    "numbers": ([SCALAR * 2.0, SCALAR * 2.0 + 1.0], 1),
    "a copy and more": ([A, A + 1.0], 1),
    "different shapes": ([A + B, total(A)], 2),
    "a sort and where it came from": ([A.sort(A, 1, 8), A.sort(B, 1, 8)], 1),
    "sorts by different keys": ([A.sort(A, 1, 8), B.sort(B, 1, 8)], 2),
    "a sort and something else": ([A.sort(A, 1, 8), A + 1.0], 2),
    "scans along different axes": ([A.scan(ops.ADD, 0), A.scan(ops.ADD, 1)], 2),
    "a sum and what is made of it": ([total(total(A)), A * broadcast(total(total(A)), A.shape)], 2),
}


@pytest.mark.parametrize("name", SEVERAL_OUTPUTS)
def test_several_outputs(name: str) -> None:
    outputs, count = SEVERAL_OUTPUTS[name]
    assert check_schedule(outputs) == count


AT_MOST = {
    "columns minus their sum": (A - reduced(A, ops.ADD, 0), 2),
    "a long sum": (BIG.reduce(ops.ADD, (0,)), 2),
    "a long maximum": (BIG.reduce(ops.MAX, (0,)), 2),
    "attention": (attention(Q, K, X), 3),
    "two matmuls": (matmul(relu(matmul(A, W)), W.permute((1, 0))), 2),
    "softmax of a matmul": (softmax(matmul(A, W)), 2),
    "scan from the end of a scan": ((A.scan(ops.ADD, 1) * B).scan(ops.ADD, 1, reverse=True), 2),
    "sort of a softmax": (softmax(A).sort(A, 1, 8), 2),
    "something of a sort": (A.sort(A, 1, 8) * 2.0 + B, 2),
    "scan of a scan": (A.scan(ops.ADD, 0).scan(ops.ADD, 1), 2),
    "a reduction of reductions": (total(softmax(A), 0), 2),
}


def test_what_is_used_only_where_it_is_computed_is_not_stored() -> None:
    (call,) = scheduled(A.scan(ops.ADD, 1) * 2.0 + B).src
    assert [argument.op for argument in call.src[1:]] == [ops.PARAM] * 3


@pytest.mark.parametrize("name", AT_MOST)
def test_at_most(name: str) -> None:
    output, most = AT_MOST[name]
    assert check_schedule(output, 1e-4) <= most


def test_sixteen_million_elements_are_summed_in_two_steps() -> None:
    assert kernel_count(param(0, 1 << 24).reduce(ops.ADD, (0,))) == 2
    assert kernel_count(param(0, (1 << 24) + 1).reduce(ops.ADD, (0,))) == 2


def test_a_loss_of_many_logits_is_split_over_cores_and_one_of_few_is_not() -> None:
    def loss(rows: int, classes: int) -> UOp:
        return total(cross_entropy(param(0, rows, classes), param(1, rows, dtype=dtypes.int64)), 0)

    assert kernel_count(loss(512, 64)) == 1
    assert kernel_count(loss(512, 32000)) == 2


def test_a_small_product_is_part_of_the_loop_around_it() -> None:
    assert kernel_count(total(total(matmul(A, W)), 0)) == 1


@pytest.mark.parametrize(
    "above",
    [lambda y: total(total(y), 0), lambda y: y.reduce(ops.MAX, (0,)), lambda y: y.scan(ops.ADD, 1), logsumexp],
)
def test_a_product_inside_another_loop_has_a_kernel_of_its_own(above: Callable[[UOp], UOp]) -> None:
    product = matmul(param(0, 64, 64), param(1, 64, 32)) * 0.5
    assert kernel_count(above(product)) == 2


@pytest.mark.parametrize("value", [A + B, softmax(A), matmul(A, W), total(A) * 2.0])
def test_constants_do_not_change_the_number_of_kernels(value: UOp) -> None:
    count = kernel_count(value)
    assert kernel_count(value * 1.0) == count
    assert kernel_count(value + 0.0) == count
    assert kernel_count(value * 3.0) == count
    assert kernel_count((value * 0.5).maximum(0.0)) == count


def test_equal_layers_are_one_function() -> None:
    x = A
    for i in range(4):
        x = softmax(matmul(x, param(20 + i, 8, 8)))
    linear = scheduled(x)
    assert len(linear.src) == 8
    assert len({call.src[0] for call in linear.src}) == 2


def test_what_a_row_has_once_is_stored_by_the_kernel_of_the_rows() -> None:
    x = param(20, 64, 8)
    largest = x.reduce(ops.MAX, (1,))
    outputs = [largest, x - largest.reshape((64, 1)).expand((64, 8))]
    linear = scheduled(outputs)
    assert len(linear.src) == 1
    few = param(21, 6, 8)  # too few rows for all cores
    largest = few.reduce(ops.MAX, (1,))
    assert len(scheduled([largest, few - largest.reshape((6, 1)).expand((6, 8))]).src) == 2


def test_an_operand_that_is_made_of_something_kept_is_computed_while_it_is_copied() -> None:
    x, a, b, c = param(20, 64, 64), param(21, 64, 64), param(22, 64, 64), param(23, 64, 48)
    product = matmul(x, a)
    shifted = (product + 1.0) * (product + 2.0) * 0.5
    linear = scheduled([row_sum(product), matmul(shifted, b), matmul(shifted, c)])
    stored = {argument for call in linear.src for argument in call.src[1:] if argument.op is ops.BUFFER}
    assert len(stored) == 1
    assert len(linear.src) == 4
