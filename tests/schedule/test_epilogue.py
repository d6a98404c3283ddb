"""What becomes of large products where tensor cores compute them; and what is rounded is kept rounded."""

from collections.abc import Callable

import pytest

from schedule.build import broadcast, exp, matmul, param, relu, stores
from whit.dtype import dtypes
from whit.ir import ops
from whit.ir.uop import UOp
from whit.schedule import schedule
from whit.target import Target, parse_target

HOPPER = parse_target("CUDA:PTX:sm_90a")
HALF = dtypes.bfloat16


def product(rows: int, depth: int, columns: int) -> UOp:
    """Of halves, rounded to one."""
    a, b = param(0, rows, depth, dtype=HALF), param(1, depth, columns, dtype=HALF)
    return matmul(a.cast(dtypes.float32), b.cast(dtypes.float32)).cast(HALF)


def kernels(value: UOp, target: Target | None) -> int:
    return len(schedule(stores(value), target).src)


def temporaries(linear: UOp) -> list[UOp]:
    return list({a: None for call in linear.src for a in call.src[1:] if a.op is ops.BUFFER})


def gate(x: UOp) -> UOp:
    wide = x.cast(dtypes.float32)
    return (wide / (exp(-wide) + 1.0)).cast(HALF)


def row(slot: int, x: UOp) -> UOp:
    return broadcast(param(slot, x.shape[-1], dtype=HALF), x.shape)


def biased(x: UOp) -> UOp:
    return gate(x + row(2, x))


def gated(x: UOp) -> UOp:
    return x * gate(param(2, *x.shape, dtype=HALF))


def normed(x: UOp) -> UOp:
    return gate(x * row(2, x) + row(3, x))


def scaled(times: int) -> Callable[[UOp], UOp]:
    """So many values of columns are read for each element."""

    def follows(x: UOp) -> UOp:
        for slot in range(2, 2 + times):
            x = x + row(slot, x)
        return x

    return follows


@pytest.mark.parametrize(
    ("follows", "sizes", "expected"),
    [
        (gate, (2048, 1024, 1024), 1),
        (biased, (2048, 1024, 1024), 1),
        (gated, (2048, 1024, 1024), 2),
        (normed, (2048, 1024, 1024), 2),
        (relu, (2048, 1024, 1024), 1),
        (gated, (8192, 4096, 8192), 1),  # deep: the product hides it
        (gated, (256, 1024, 256), 1),  # small
        (scaled(4), (8192, 64, 4096), 1),
        (scaled(5), (8192, 64, 4096), 2),
    ],
    ids=["heavy", "with a row", "with a matrix", "with two rows", "light", "deep", "small", "few reads", "many reads"],
)
def test_what_is_heavy_follows_a_product_in_a_kernel_of_its_own(
    follows: Callable[[UOp], UOp], sizes: tuple[int, int, int], expected: int
) -> None:
    value = follows(product(*sizes))
    assert kernels(value, HOPPER) == expected
    assert kernels(value, None) == 1


def test_a_product_that_is_kept_anyway_is_stored_with_what_becomes_of_it() -> None:
    value = product(2048, 1024, 1024) + row(2, product(2048, 1024, 1024))
    assert len(schedule(stores([value, gate(value)]), HOPPER).src) == 1
    beside = gate(value) * param(3, 2048, 1024, dtype=HALF)
    assert len(schedule(stores([value, beside]), HOPPER).src) == 2


def test_a_product_is_kept_before_its_elements_are_used_several_times() -> None:
    value = product(2048, 1024, 1024)
    spread = value.reshape((2048, 1024, 1)).expand((2048, 1024, 9)) + param(2, 9, dtype=HALF).reshape((1, 1, 9)).expand(
        (2048, 1024, 9)
    )
    linear = schedule(stores(spread), HOPPER)
    assert [buffer.shape for buffer in temporaries(linear)] == [(2048, 1024)]


@pytest.mark.parametrize("target", [None, HOPPER], ids=["any", "hopper"])
def test_what_is_only_rounded_is_kept_rounded(target: Target | None) -> None:
    half = product(64, 64, 64).reshape((4096,))
    wide = half.cast(dtypes.float32)
    linear = schedule(stores([wide * 2.0, wide.reshape((64, 64)).permute((1, 0)) + 1.0]), target)
    assert [buffer.dtype for buffer in temporaries(linear)] == [HALF]
