"""May a value be computed where it is read: the answers, and their reasons."""

import pytest

from schedule.build import matmul, param, softmax, total
from whit.ir import ops
from whit.ir.uop import UOp
from whit.schedule.stages.choose import choose_stages
from whit.schedule.stages.may_fuse import Answer, Reading, may_fuse, of_recomputed, of_shared, of_sorted

A, B = param(0, 6, 8), param(1, 6, 8)
LARGE = matmul(param(2, 64, 64), param(3, 64, 64))


def read(node: UOp, times: float = 1, is_outside: bool = False, is_inside: bool = False) -> Answer:
    return may_fuse(Reading(node, times, is_outside, is_inside, is_gpu=False), set())


@pytest.mark.parametrize("node", [A + B, A.exp2(), total(A, 1), LARGE])
def test_what_is_read_once_is_computed_there(node: UOp) -> None:
    assert not read(node).stored


STORED: list[tuple[Answer, str]] = [
    (read(total(A, 1), 8), "a reduction of 48 elements would be computed 8 times where it is read"),
    (read(A + B, 100), ""),  # next to nothing, wherever it is read
    (read((A.exp2() + 1).log2(), 3), ""),  # less than storing and reading it
    (read((A.exp2() + 1).log2(), 4), "19 operations an element would be computed 4 times"),
    (read(A.exp2().exp2().exp2().exp2().exp2().exp2(), 2), "more than 40 operations an element would be computed"),
    (read((A.exp2() + 1).exp2(), 100), "17 operations an element would be computed 100 times where it is read"),
    (read(A.scan(ops.ADD, 1)), "the loop of a scan is the innermost of its kernel"),
    (read(total(param(4, 1 << 20), 0)), "a reduction of 1048576 elements with so few results is split over cores"),
    (read(LARGE, is_outside=True), "a contraction outside of a loop gets no tiles"),
    (read(LARGE, is_inside=True), "a contraction inside of another reduction gets no tiles"),
    (of_shared(total(A, 1), set()), "a reduction of 48 elements would be computed by several kernels"),
    (of_shared(A + B, set()), ""),
    (of_sorted(total(A, 1), set()), "a kernel that sorts has no other loops"),
    (of_recomputed(A + B, set()), "a recomputation starts from it"),
    (of_recomputed(A, {A}), ""),
]


@pytest.mark.parametrize(("answer", "reason"), STORED)
def test_a_value_is_stored_for_a_reason(answer: Answer, reason: str) -> None:
    assert answer.stored is bool(reason)
    assert answer.reason.startswith(reason)


def test_every_value_that_is_stored_for_others_has_a_reason() -> None:
    result = matmul(softmax(A), softmax(B).permute((1, 0)))
    kernels = choose_stages([result])
    assert len(kernels) > 1
    assert all(bool(kernel.reason) is (root is not result) for root, kernel in kernels.items())
