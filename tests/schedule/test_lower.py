"""One value over the ranges of its shape: what is fused, what is read, what is too much."""

import numpy as np
import pytest

from schedule.build import arrays_for, matmul, param, relu, row_sum, scheduled, softmax, stores, total
from whit.dtype import dtypes
from whit.errors import InternalError, NotSupportedError
from whit.ir import ops
from whit.ir.interpret import evaluate
from whit.ir.text.write import to_text
from whit.ir.uop import UOp, make
from whit.schedule import schedule
from whit.schedule.lower import Lowering, read_value, reads_of
from whit.schedule.stages.choose import choose_stages, lower_kernel
from whit.schedule.values import is_serial, narrowest, weigh

A, B, W = param(0, 6, 8), param(1, 6, 8), param(2, 8, 5)


def body_of(value: UOp, number: int = 0) -> str:
    """The text of a kernel of the schedule."""
    return to_text(scheduled(value).src[number].src[0].src[0], types=False)


def test_elementwise_reads_where_it_writes() -> None:
    assert body_of(A + B) == (
        "p0 = param 0, float32(6, 8)\n"
        "p1 = param 1, float32(6, 8)\n"
        "r0 = range 6, id=0, kind=loop\n"
        "r1 = range 8, id=1, kind=loop\n"
        "%1 = index p1, r0, r1\n"
        "p2 = param 2, float32(6, 8)\n"
        "%2 = index p2, r0, r1\n"
        "%3 = add %1, %2\n"
        "%4 = store p0, %3, r0, r1\n"
        "group %4"
    )


def test_a_matmul_is_a_reduction_with_its_epilogue() -> None:
    assert body_of(relu(matmul(A, W))) == (
        "p0 = param 0, float32(6, 5)\n"
        "p1 = param 1, float32(8, 5)\n"
        "k0 = range 8, id=0, kind=reduce, owner=reduce\n"
        "r1 = range 5, id=1, kind=loop\n"
        "%1 = index p1, k0, r1\n"
        "p2 = param 2, float32(6, 8)\n"
        "r0 = range 6, id=0, kind=loop\n"
        "%2 = index p2, r0, k0\n"
        "%3 = mul %1, %2\n"
        "%4 = reduce %3, k0, op=add\n"
        "%5 = max %4, 0.0:float32\n"
        "%6 = store p0, %5, r0, r1\n"
        "group %6"
    )


def test_padding_is_a_gated_read() -> None:
    assert body_of(param(0, 5).pad(((1, 0),))) == (
        "p0 = param 0, float32(6,)\n"
        "r0 = range 6, id=0, kind=loop\n"
        "%1 = mul r0, -1\n"
        "%2 = lt %1, 0\n"
        "p1 = param 1, float32(5,)\n"
        "%3 = add r0, -1\n"
        "%4 = index p1, %3, gate=%2\n"
        "%5 = where %2, %4, 0.0:float32\n"
        "%6 = store p0, %5, r0\n"
        "group %6"
    )


def test_axes_of_size_one_have_no_range() -> None:
    text = body_of(param(0, 1, 7, 1) * 2.0)
    assert text.count("range") == 1
    assert "index p1, 0, r1, 0" in text


def test_a_reduction_over_an_axis_of_size_one_is_no_loop() -> None:
    assert "reduce" not in body_of(param(0, 7, 1).reduce(ops.ADD, (1,)))


def test_a_reduction_over_nothing_is_its_identity() -> None:
    assert "store p0, 1.0:float32, r0" in body_of(param(0, 7, 0).reduce(ops.MUL, (1,)))


def test_arange_is_the_position() -> None:
    text = body_of(UOp.arange(9, dtypes.int32))
    assert "cast r0, int32" in text
    assert "index" not in text


def test_a_cast_is_a_rounding_point() -> None:
    x = param(0, 4)
    rounded = x.cast(dtypes.float16).cast(dtypes.float32)
    text = body_of(rounded + 0.0)
    assert "float16" in text
    values = np.array([1.0001, 65519.0, 1e-9, 3.0], np.float32)
    (call,) = scheduled(rounded).src
    assert "cast" in to_text(call.src[0].src[0])
    np.testing.assert_array_equal(evaluate(rounded, {x: values}), values.astype(np.float16).astype(np.float32))


def test_values_are_kept_where_they_are_narrow() -> None:
    x = param(0, 64, 64, dtype=dtypes.float16)
    wide = matmul(x, x).cast(dtypes.float32)
    linear = scheduled(matmul(wide, wide))
    kept = {node for call in linear.src for node in call.src[1:] if node.op is ops.BUFFER}
    assert {node.dtype for node in kept} == {dtypes.float16}


def test_narrowest_goes_below_views_and_widening_casts() -> None:
    half = param(0, 4, 1, dtype=dtypes.float16) * 2.0
    assert narrowest(half.cast(dtypes.float32).reshape((4,)).reshape((4, 1)).expand((4, 5))) is half
    assert narrowest(half.cast(dtypes.float32).cast(dtypes.float16)).op is ops.CAST
    shorter = half.shrink(((0, 2), (0, 1)))
    assert narrowest(shorter) is shorter


def test_an_expanded_reduction_is_too_much() -> None:
    column = total(A, 0).reshape((1, 8)).expand((6, 8))
    _, lowering = lower_kernel(A - column, set())
    assert list(lowering.to_store) == [total(A, 0)]


def test_a_reduction_of_the_same_row_is_not() -> None:
    _, lowering = lower_kernel(softmax(A), set())
    assert not lowering.to_store


def test_the_epilogue_of_a_reduction_is_kept_with_it() -> None:
    product = relu(matmul(A, W) * 2.0)
    kernels = choose_stages([matmul(product, W.permute((1, 0)))])
    assert product in kernels
    assert len(kernels) == 2


def test_kept_values_are_read_and_not_entered() -> None:
    kept = matmul(A, W)
    kernel, _ = lower_kernel(kept * 2.0, {kept})
    assert reads_of(kernel.value) == [kept]
    assert A not in kernel.value.topological()
    assert kernel.value.src[0] is read_value(kept, kernel.position)


def test_a_gate_reaches_the_reads() -> None:
    lowering = Lowering(set())
    padded = (A + B).pad(((1, 1), (0, 0)))
    ranges = (UOp.range(8, 0), UOp.range(8, 1))
    value = lowering.lower(padded, ranges, ranges)
    reads = [node for node in value.topological() if node.op is ops.INDEX]
    assert len(reads) == 2
    assert all(node.arg for node in reads)


def test_the_padding_of_an_axis_does_not_reach_a_reduction_over_another() -> None:
    padded = (A / row_sum(A)).pad(((0, 0), (2, 0)))
    (call,) = scheduled(padded).src
    (reduce,) = [node for node in call.src[0].src[0].topological() if node.op is ops.REDUCE]
    assert not any(node.op is ops.INDEX and node.arg for node in reduce.topological())


def test_the_padding_of_the_axes_that_a_reduction_is_read_at_does() -> None:
    (call,) = scheduled(total(A).shrink(((1, 4),)).pad(((1, 1),))).src
    (reduce,) = [node for node in call.src[0].src[0].topological() if node.op is ops.REDUCE]
    assert all(node.arg for node in reduce.topological() if node.op is ops.INDEX)


def test_conditions_that_hang_together_stay_together() -> None:
    i, j, k = (UOp.range(9, id) for id in range(3))
    gate = (i + j < 5) & (j >= 3) & (k < 2)
    assert Lowering(set())._relevant(gate, (i,)) is (i + j < 5) & (j >= 3)
    assert Lowering(set())._relevant(gate, (k,)) is (k < 2)
    assert Lowering(set())._relevant(gate, ()) is None


def test_weights() -> None:
    assert weigh(A.reshape((48,)), set()) == 0
    assert weigh(A + B, set()) == 1
    assert weigh((A + B).exp2(), set()) == 9
    assert weigh(total(A) + 1.0, set()) == 1
    assert weigh(((A + B) * 2.0).exp2(), {(A + B) * 2.0}) == 8


def test_serial_reductions_have_few_results_and_many_operands() -> None:
    assert is_serial(param(0, 1 << 20).reduce(ops.ADD, (0,)))
    assert not is_serial(param(0, 1 << 10).reduce(ops.ADD, (0,)))
    assert not is_serial(param(0, 1 << 10, 1 << 10).reduce(ops.ADD, (1,)))


def test_shared_reductions_are_computed_once() -> None:
    largest = A.reduce(ops.MAX, (1,))
    other = row_sum(A * B).reduce(ops.MAX, (1,)) + largest
    kernels = choose_stages([softmax(A).permute((1, 0)), other])
    computed = [root for root, kernel in kernels.items() if largest in kernel.fused or root is largest]
    assert len(computed) == 1


def test_what_is_no_store_is_refused() -> None:
    with pytest.raises(InternalError, match="is not a store"):
        schedule(UOp.group(A + B))


def test_what_cannot_be_lowered_is_named() -> None:
    member = make(ops.ITEM, (UOp.group(A, B),), 0)
    with pytest.raises(NotSupportedError, match="item cannot be lowered"):
        schedule(stores(member))


def test_empty_outputs_need_no_kernel() -> None:
    assert scheduled(param(0, 0, 4) * 2.0).src == ()


def test_long_chains_of_generators_are_no_recursion() -> None:
    x = A
    for i in range(3000):
        x = x.permute((1, 0)) if i % 2 else x + B.permute((1, 0)) if x.shape == (8, 6) else x + B
    assert len(scheduled(x).src) >= 1
    assert arrays_for(x)
