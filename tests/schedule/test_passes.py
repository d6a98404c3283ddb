"""Grouping, sharing loops, splitting long reductions: each by itself, before and after."""

import subprocess
import sys
from dataclasses import replace

import numpy as np
import pytest

from schedule.build import check_schedule, matmul, param, row_sum, scheduled, softmax, total
from whit.dtype import dtypes
from whit.ir import ops
from whit.ir.args import RangeKind
from whit.ir.interpret import evaluate
from whit.ir.nesting import Owner
from whit.ir.rewrite import rewrite
from whit.ir.uop import UOp
from whit.kernel.rates import CPU_CYCLES
from whit.schedule.groups.group import MOST_BUFFERS, facts_of, group_kernels
from whit.schedule.groups.share_loops import share_loops
from whit.schedule.rewrites import split_reduce
from whit.schedule.rewrites.split_reduce import PIECES, SPLIT_REDUCE
from whit.schedule.stages.choose import choose_stages
from whit.target import ANY_CPU

A, B, W = param(0, 6, 8), param(1, 6, 8), param(2, 8, 5)


def groups_of(*outputs: UOp) -> list[list[UOp]]:
    """The values that share kernels."""
    return [[kernel.root for kernel in group.kernels] for group in group_kernels(choose_stages(outputs))]


# ---- group


def test_values_of_the_same_elements_share_a_kernel() -> None:
    assert groups_of(A + B, A * B) == [[A + B, A * B]]


def test_a_value_used_in_place_is_at_hand() -> None:
    first = A * 2.0 + B
    (group,) = group_kernels(choose_stages([first, first * 3.0]))
    assert not any(node.op is ops.FUNCTION for value in group.values.values() for node in value.topological())


def test_a_value_used_elsewhere_is_not() -> None:
    first = A + B
    assert len(groups_of(first, first.flip((0,)) * 2.0)) == 2


def test_kernels_that_read_nothing_in_common_stay_apart_unless_they_are_small() -> None:
    assert len(groups_of(param(20, 200, 100) + 1.0, param(21, 200, 100) + 1.0)) == 2
    assert len(groups_of(A + 1.0, B + 1.0)) == 1


def test_matmuls_stay_apart() -> None:
    assert len(groups_of(matmul(A, W), matmul(B, W))) == 2


def test_kernels_come_before_their_users() -> None:
    product = matmul(A, W)
    (first,), (second,) = groups_of(product, softmax(product))
    assert first is product
    assert second is softmax(product)


def test_a_kernel_has_no_more_buffers_than_it_may() -> None:
    outputs = [A * float(i) for i in range(2 * MOST_BUFFERS)]
    linear = scheduled(outputs)
    assert len(linear.src) == 3
    assert max(len(call.src) - 1 for call in linear.src) <= MOST_BUFFERS


def test_reductions_of_one_kernel_keep_their_ranges_apart() -> None:
    centred = A - total(A, 0).reshape((1, 8)).expand((6, 8))
    check_schedule([total(A, 0), total(centred * centred, 0)])


def test_facts() -> None:
    kernels = choose_stages([A.scan(ops.ADD, 1), matmul(A, W), (A + B).flip((0,))])
    scan, product, flipped = (facts_of(kernel, kernels) for kernel in kernels.values())
    assert [r.arg.id for r in scan.scanned] == [1]
    assert product.contracts
    assert not scan.contracts
    assert flipped.reads == {A, B}


# ---- share_loops


def test_independent_reductions_share_a_loop() -> None:
    r0 = UOp.range(6, 0)
    k0, k1 = (UOp.range(8, i, RangeKind.REDUCE, Owner.REDUCE) for i in range(2))
    largest = A.index(r0, k0).reduce(ops.MAX, ranges=(k0,))
    added = A.index(r0, k1).reduce(ops.ADD, ranges=(k1,))
    shared = share_loops(UOp.group(param(5, 6).store(largest, r0), param(6, 6).store(added, r0)))
    reduced = {r for node in shared.topological() if node.op is ops.REDUCE for r in node.src[1:]}
    assert len(reduced) == 1


def test_reductions_share_an_inner_loop_only_with_those_around_it() -> None:
    r0 = UOp.range(6, 0)
    k0, k1, k2, k3 = (UOp.range(n, i, RangeKind.REDUCE, Owner.REDUCE) for i, n in enumerate((8, 3, 4, 3)))
    many = A.index(r0, k0).cast(dtypes.float32) * k1.cast(dtypes.float32)
    few = A.index(r0, k2) * k3.cast(dtypes.float32)
    sums = [many.reduce(ops.ADD, ranges=(k0, k1)), few.reduce(ops.ADD, ranges=(k2, k3))]
    shared = share_loops(UOp.group(*(param(5 + i, 6).store(total, r0) for i, total in enumerate(sums))))
    assert len({r for node in shared.topological() if node.op is ops.REDUCE for r in node.src[1:]}) == 4


def test_reductions_that_need_each_other_do_not() -> None:
    r0 = UOp.range(6, 0)
    k0, k1 = (UOp.range(8, i, RangeKind.REDUCE, Owner.REDUCE) for i in range(2))
    largest = A.index(r0, k0).reduce(ops.MAX, ranges=(k0,))
    added = (A.index(r0, k1) - largest).reduce(ops.ADD, ranges=(k1,))
    shared = share_loops(UOp.group(param(5, 6).store(added, r0)))
    reduced = {r for node in shared.topological() if node.op is ops.REDUCE for r in node.src[1:]}
    assert len(reduced) == 2


def test_reductions_of_different_sizes_do_not() -> None:
    linear = scheduled([total(A), total(A.shrink(((0, 6), (0, 7))))])
    for call in linear.src:
        sizes = [node.size for node in call.src[0].src[0].topological() if node.op is ops.RANGE]
        assert len(sizes) == len(set(sizes))


def test_softmax_has_two_loops_over_the_row() -> None:
    (call,) = scheduled(softmax(A)).src
    body = call.src[0].src[0]
    reduced = {r for node in body.topological() if node.op is ops.REDUCE for r in node.src[1:]}
    assert len(reduced) == 2


# ---- split_reduce


@pytest.mark.parametrize("size", [1 << 16, 60_000 * 2, (1 << 16) + 1, 99_991])
@pytest.mark.parametrize("op", [ops.ADD, ops.MAX, ops.MIN, ops.MUL])
def test_a_long_reduction_is_split_and_stays_what_it_was(size: int, op: ops.Op) -> None:
    x = param(0, size, dtype=dtypes.int32)
    node = x.reduce(op, (0,))
    split = rewrite(node, SPLIT_REDUCE, ANY_CPU, once=True)
    stages = [n for n in split.topological() if n.op is ops.STAGE]
    assert len(stages) == 1
    assert 32 <= stages[0].shape[0] <= 2 * PIECES
    values = np.random.default_rng(0).integers(-9, 9, size).astype(np.int32)
    values[values == 0] = 1
    assert evaluate(split, {x: values}) == evaluate(node, {x: values})


def test_a_short_reduction_is_not_split() -> None:
    node = param(0, 6, 8).reduce(ops.ADD, (0, 1))
    assert rewrite(node, SPLIT_REDUCE, ANY_CPU, once=True) is node


def test_a_reduction_with_many_results_is_not_split() -> None:
    node = param(0, 64, 1 << 16).reduce(ops.ADD, (1,))
    assert rewrite(node, SPLIT_REDUCE, ANY_CPU, once=True) is node


def test_the_longest_axis_is_split() -> None:
    split = rewrite(param(0, 3, 1 << 17, 2).reduce(ops.ADD, (0, 1)), SPLIT_REDUCE, ANY_CPU, once=True)
    assert split.shape == (2,)
    (stage,) = [n for n in split.topological() if n.op is ops.STAGE]
    assert stage.shape == (64, 2)


# ---- the whole


PROGRAM = """
from schedule.build import *
a, w = param(0, 6, 8), param(2, 8, 8)
x = a
for i in range(5):
    x = softmax(matmul(x, w)) + x - reduced(x, ops.ADD, 0)
from whit.ir.text.write import to_text
print(to_text(scheduled([x, row_sum(x), x.permute((1, 0)) * 2.0])))
"""


@pytest.mark.slow
def test_a_schedule_is_the_same_in_every_process() -> None:
    texts = set()
    for seed in range(3):
        environment = {"PYTHONPATH": ":".join(sys.path), "PYTHONHASHSEED": str(seed)}
        done = subprocess.run([sys.executable, "-c", PROGRAM], env=environment, capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
        texts.add(done.stdout)
    assert len(texts) == 1


def test_stages_are_kept() -> None:
    assert len(scheduled((A + B).stage() * 2.0).src) == 1
    assert len(scheduled((A + B).stage().permute((1, 0)) * 2.0).src) == 2
    check_schedule(row_sum((A + B).stage()))


@pytest.fixture
def cheap_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    """Contractions are split that are small enough for the interpreter."""
    monkeypatch.setattr(split_reduce, "CPU_CYCLES", replace(CPU_CYCLES, launch_cycles=0))
    monkeypatch.setattr(split_reduce, "LEAST_PRODUCTS", 1 << 10)


def parts_of(node: UOp) -> list[tuple[int, ...]]:
    """The shapes of what is kept when a reduction is split."""
    split = rewrite(node, SPLIT_REDUCE, ANY_CPU, once=True)
    return [n.shape for n in split.topological() if n.op is ops.STAGE]


@pytest.mark.usefixtures("cheap_parts")
@pytest.mark.parametrize(("m", "k", "n"), [(8, 800, 9), (8, 1031, 8), (1, 515, 3), (3, 100, 20)])
def test_the_depth_of_a_product_is_split_and_the_product_stays_what_it_was(m: int, k: int, n: int) -> None:
    a, b = param(0, m, k, dtype=dtypes.int32), param(1, k, n, dtype=dtypes.int32)
    node = matmul(a, b)
    (parts,) = parts_of(node)
    assert 4 <= parts[0] <= 16 and parts[1:] == (m, n)
    rng = np.random.default_rng(0)
    values = {a: rng.integers(-9, 9, (m, k)).astype(np.int32), b: rng.integers(-9, 9, (k, n)).astype(np.int32)}
    assert np.array_equal(evaluate(rewrite(node, SPLIT_REDUCE, ANY_CPU, once=True), values), values[a] @ values[b])


@pytest.mark.usefixtures("cheap_parts")
def test_the_outermost_axis_that_divides_is_split() -> None:
    x = param(0, 1, 16, 300).reshape((1, 1, 16, 300)).expand((9, 1, 16, 300))
    y = param(1, 9, 1, 16, 300)
    assert parts_of((x * y).reduce(ops.ADD, (1, 2, 3))) == [(8, 9)]


@pytest.mark.usefixtures("cheap_parts")
def test_what_follows_a_product_in_parts_is_computed_where_they_are_added() -> None:
    a, b, bias = param(0, 8, 1031), param(1, 1031, 8), param(2, 8, 8)
    assert check_schedule((matmul(a, b) + bias).maximum(0.0)) == 2


@pytest.mark.usefixtures("cheap_parts")
def test_products_that_the_cores_can_share_are_not_split() -> None:
    n = UOp.variable("n", 1, 4096)
    x, y = param(0, 16, 8, 1, 800).expand((16, 8, 8, 800)), param(1, 16, 1, 8, 800).expand((16, 8, 8, 800))
    assert not parts_of((x * y).reduce(ops.ADD, (3,)))  # a batch
    assert not parts_of(matmul(param(0, 200, 800), param(1, 800, 200)))  # many results
    scores = matmul(param(0, 8, 4), param(1, 4, 800))
    assert not parts_of(matmul(softmax(scores), param(2, 800, 8)))  # attention
    assert not parts_of(matmul(UOp.param(0, dtypes.float32, (8, n)), UOp.param(1, dtypes.float32, (n, 8))))
