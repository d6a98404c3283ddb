"""Temporaries share memory where their lives do not overlap, and only there."""

import random
from itertools import pairwise

import pytest

from whit.dtype import DType, dtypes
from whit.engine.plan.plan import Temporary, make_plan, place_temporaries, taken_over
from whit.ir import ops
from whit.ir.uop import UOp


def chain(length: int, size: int = 1024, turns: bool = True) -> UOp:
    """p0 <- ... <- t1 <- t0 <- p1, each a kernel that adds one, and turns the order round."""
    out, source = UOp.param(0, dtypes.float32, (size,)), UOp.param(1, dtypes.float32, (size,))
    i = UOp.range(size, 0)
    function = UOp.group(out.store(source.index(size - 1 - i if turns else i) + 1, i)).function("add_one")
    places = [source, *(UOp.buffer(i, dtypes.float32, (size,)) for i in range(length - 1)), out]
    return UOp.linear(*[function.call(target, read) for read, target in pairwise(places)])


def test_a_chain_needs_two_temporaries_at_a_time() -> None:
    plan = make_plan(chain(10), 2)
    assert len(plan.temporaries) == 9
    assert plan.arena_bytes == 2 * 4096
    assert [step.places for step in plan.steps][:2] == [(2, 1), (3, 2)]
    assert plan.steps[-1].places == (0, 10)


def test_slots_that_no_kernel_uses_have_no_param() -> None:
    plan = make_plan(chain(1), 3)
    assert plan.params[2] is None
    assert plan.temporaries == () and plan.arena_bytes == 0


def test_temporaries_that_live_together_do_not_overlap() -> None:
    random.seed(0)
    node = UOp.const(dtypes.weakint, 0)
    for _ in range(50):
        wanted = []
        for _ in range(random.randint(1, 40)):
            first = random.randint(0, 20)
            wanted.append(Temporary(node, random.randint(1, 5000), first, first + random.randint(0, 6), 0))
        placed = place_temporaries(wanted)
        assert len(placed) == len(wanted)
        for i, one in enumerate(placed):
            assert one.offset % 64 == 0
            for other in placed[:i]:
                together = one.first <= other.last and other.first <= one.last
                apart = one.offset >= other.offset + other.nbytes or other.offset >= one.offset + one.nbytes
                assert apart or not together
        arena = max(t.offset + t.nbytes for t in placed)
        needed = max(sum(t.nbytes for t in placed if t.first <= step <= t.last) for step in range(30))
        assert needed <= arena <= sum(-(-t.nbytes // 64) * 64 for t in placed)


def test_a_temporary_takes_over_what_its_kernel_reads_last() -> None:
    linear = chain(10, turns=False)
    lives = {call.src[1]: [number, number + 1] for number, call in enumerate(linear.src[:-1])}
    assert set(taken_over(linear, lives).values()) == {linear.src[0].src[1]}
    plan = make_plan(linear, 2)
    assert len(plan.temporaries) == 9
    assert plan.arena_bytes == plan.least_arena_bytes == 4096
    assert plan.peak_bytes == 3 * 4096


def test_a_temporary_has_its_own_memory_where_its_kernel_reads_elsewhere() -> None:
    linear = chain(10)
    lives = {call.src[1]: [number, number + 1] for number, call in enumerate(linear.src[:-1])}
    assert taken_over(linear, lives) == {node: node for node in lives}
    assert make_plan(linear, 2).least_arena_bytes == 2 * 4096


@pytest.mark.parametrize(("dtype", "places"), [(dtypes.float32, 1), (dtypes.bfloat16, 2)])
def test_what_is_added_to_a_product_of_halves_keeps_its_memory(dtype: DType, places: int) -> None:
    f32 = dtypes.float32
    out, left, right, added = (UOp.param(i, f32 if i in (0, 3) else dtype, (8, 8)) for i in range(4))
    i, j, k = (UOp.range(8, n) for n in range(3))
    total = (left.index(i, k).cast(f32) * right.index(k, j).cast(f32)).reduce(ops.ADD, ranges=(k,))
    product = UOp.group(out.store(total + added.index(i, j), i, j)).function("product")
    copy = UOp.group(out.store(UOp.param(1, f32, (8, 8)).index(j, i), i, j)).function("copy")
    first, second = (UOp.buffer(n, f32, (8, 8)) for n in range(2))
    linear = UOp.linear(copy.call(first, added), product.call(second, left, right, first), copy.call(out, second))
    assert len({temporary.offset for temporary in make_plan(linear, 4).temporaries}) == places
