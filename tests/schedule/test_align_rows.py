"""Rows of temporaries of GPUs begin at multiples of 128 bytes."""

import numpy as np
import pytest

from schedule.build import matmul, param, softmax
from whit.ir import ops
from whit.ir.args import RangeKind
from whit.ir.check.verify import verify
from whit.ir.interpret import evaluate, run
from whit.ir.op import KERNEL, SCHEDULE
from whit.ir.uop import UOp
from whit.schedule import schedule
from whit.schedule.rewrites.align_rows import align_rows
from whit.schedule.rewrites.fill_rows import fill_rows

OUT = 100


def scheduled(value: UOp) -> tuple[UOp, UOp]:
    """The schedule of a value before and after."""
    linear = schedule(UOp.group(UOp.param(OUT, value.dtype, value.shape).store(value)))
    return linear, align_rows(linear)


def temporaries(linear: UOp) -> list[tuple[int, ...]]:
    found = {argument: None for call in linear.src for argument in call.src[1:] if argument.op is ops.BUFFER}
    return [buffer.shape for buffer in found]


def two_products(columns: int) -> UOp:
    a, b, c = param(0, 3, 4), param(1, 4, columns), param(2, columns, 2)
    return matmul(softmax(matmul(a, b)), c)


@pytest.mark.parametrize(
    ("columns", "row"), [(515, 544), (512, 512), (544, 544), (511, 511)], ids=["odd", "even", "full", "short"]
)
def test_long_uneven_rows_are_made_longer(columns: int, row: int) -> None:
    before, after = scheduled(two_products(columns))
    assert temporaries(before) == [(3, columns)] * len(temporaries(before)) != []
    assert temporaries(after) == [(3, row)] * len(temporaries(before))
    assert (before is after) == (columns == row)


def test_it_computes_the_same() -> None:
    value = two_products(515)
    _, linear = scheduled(value)
    verify(linear, SCHEDULE)
    for call in linear.src:
        verify(call.src[0].src[0], KERNEL)
    rng = np.random.default_rng(0)
    inputs = {p: rng.standard_normal(p.shape).astype(np.float32) for p in value.topological() if p.op is ops.PARAM}
    out = np.zeros(value.shape, np.float32)
    run(linear, {**inputs, UOp.param(OUT, value.dtype, value.shape): out})
    np.testing.assert_allclose(out, evaluate(value, inputs), rtol=1e-5)


def test_what_nothing_reduces_stays_as_it_is() -> None:
    kept = (param(0, 3, 515) + 1.0).stage()
    before, after = scheduled(kept.flip((0,)) * kept)
    assert temporaries(before) and before is after


def test_equal_kernels_stay_equal() -> None:
    def layer(x: UOp, first: int) -> UOp:
        return matmul(softmax(x), param(first, 515, 515))

    before, after = scheduled(layer(layer(layer(param(0, 3, 515), 1), 2), 3))
    count = len({call.src[0] for call in before.src})
    assert (
        len({call.src[0] for call in after.src}) <= count + 2
    )  # the first reads what it is given, the last writes that


def test_loops_along_longer_rows_go_to_their_ends_and_do_not_use_what_is_there() -> None:
    longer = param(1, 3, 544)
    r0, r1, k = UOp.range(3, 0), UOp.range(515, 1), UOp.range(515, 1000, RangeKind.REDUCE)
    total = longer.index(r0, k).exp2().reduce(ops.ADD, ranges=(k,))
    out = param(0, 3, 544)
    body = fill_rows(UOp.group(out.store(longer.index(r0, r1) / total, r0, r1)), (longer, out))
    assert {r.size for r in body.topological() if r.op is ops.RANGE} == {3, 544}
    given = np.full((3, 544), np.nan, np.float32)
    given[:, :515] = np.random.default_rng(0).standard_normal((3, 515))
    found = np.zeros((3, 544), np.float32)
    run(body.function("f").call(out, longer), {out: found, longer: given})
    expected = given[:, :515] / np.exp2(given[:, :515]).sum(1, keepdims=True)
    np.testing.assert_allclose(found[:, :515], expected, rtol=1e-5)


@pytest.mark.parametrize("other", [param(2, 515), param(2, 515, 544)], ids=["row", "column"])
def test_loops_along_something_else_too_stay_as_they_are(other: UOp) -> None:
    longer, out = param(1, 3, 544), param(0, 3)
    r0, k = UOp.range(3, 0), UOp.range(515, 1000, RangeKind.REDUCE)
    beside = other.index(k) if len(other.shape) == 1 else other.index(k, r0)
    body = UOp.group(out.store((longer.index(r0, k) * beside).reduce(ops.ADD, ranges=(k,)), r0))
    assert fill_rows(body, (longer,)) is body
