"""The proof of schedules and of their memory finds faults of every kind, and nothing where there is none."""

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import whit
from whit import Context, Tensor
from whit.dtype import dtypes
from whit.engine.plan import find_plan
from whit.engine.plan import plan as planning
from whit.engine.plan.check_plan import aliases_of, check_plan
from whit.engine.plan.check_schedule import check_schedule
from whit.engine.plan.plan import Plan, make_plan
from whit.engine.realize import changes, reuse
from whit.errors import InternalError
from whit.ir import ops
from whit.ir.uop import UOp, make
from whit.schedule import loops, schedule
from whit.schedule.writes import effects as writes
from whit.schedule.writes import lower as lower_write

N = 4


@pytest.fixture(autouse=True)
def _checked() -> Iterator[None]:
    whit.clear_caches()
    with Context(CHECK_PLAN=1, CACHE=0):
        yield
    whit.clear_caches()


def param(slot: int) -> UOp:
    return UOp.param(slot, dtypes.float32, (N,))


def chain() -> UOp:
    """p0 = three steps on p1, each kept in memory."""
    value = param(1)
    for number in (2.0, 3.0):
        value = (value.flip((0,)) + number).stage()
    return UOp.group(param(0).store(value.flip((0,))))


def scatter() -> UOp:
    """p0 = p1 with 1 added three times at 2."""
    places = UOp.const(dtypes.int32, 2).reshape((1,)).expand((3,))
    ones = UOp.const(dtypes.float32, 1.0).reshape((1,)).expand((3,))
    p1 = param(1)
    return UOp.group(param(0).store(p1.after(p1.store(ones, places, combine=ops.ADD))))


def shift() -> UOp:
    """p0[1:] = p0[:-1], with p1 = p0 as it was."""
    p0 = param(0)
    part, before = p0.shrink(((1, N - 1),)), p0.shrink(((0, N - 1),))
    return UOp.group(p0.store(p0.after(part.store(before))), param(1).store(p0 + 1.0))


def planned(graph: UOp) -> Plan:
    return make_plan(schedule(graph), 2)


def with_calls(plan: Plan, pick: Callable[[tuple[UOp, ...]], tuple[UOp, ...]]) -> Plan:
    """The same plan with other calls."""
    return replace(plan, linear=make(ops.LINEAR, pick(plan.linear.src)))


@pytest.mark.parametrize("make_graph", (chain, scatter, shift), ids=lambda f: f.__name__)
def test_what_is_right_passes(make_graph: Callable[[], UOp]) -> None:
    graph = make_graph()
    plan = planned(graph)
    check_schedule(graph, plan.linear)
    check_plan(graph, plan)


# ---- schedules


def test_a_step_that_is_missing_is_found() -> None:
    graph = chain()
    plan = planned(graph)
    assert len(plan.linear.src) == 3
    for left_out in range(3):
        faulty = with_calls(plan, lambda calls, at=left_out: calls[:at] + calls[at + 1 :])  # type: ignore[misc]
        with pytest.raises(InternalError, match=r"check_plan: .* reads 0, 1, 2, 3 of .*, which nobody has written"):
            check_plan(graph, faulty)


def test_a_step_that_comes_too_early_is_found() -> None:
    graph = chain()
    faulty = with_calls(planned(graph), lambda calls: (calls[1], calls[0], *calls[2:]))
    with pytest.raises(InternalError, match="nobody has written"):
        check_plan(graph, faulty)


def test_a_sum_into_memory_without_a_content_is_found() -> None:
    graph = scatter()
    plan = planned(graph)
    assert len(plan.linear.src) == 2  # the copy, and what is added to it
    with pytest.raises(InternalError, match=r"step 0 \(after_4\) reads .* which nobody has written"):
        check_plan(graph, with_calls(plan, lambda calls: calls[1:]))


def test_a_result_of_which_a_part_is_missing_is_found() -> None:
    half = UOp.range(N // 2, 0)
    body = UOp.group(param(0).store(param(1).index(half), half))
    linear = make(ops.LINEAR, (body.function("half").call(param(0), param(1)),))
    with pytest.raises(InternalError, match=r"the caller reads 2, 3 of param 0"):
        check_plan(UOp.group(param(0).store(param(1))), make_plan(linear, 2))


def test_a_result_that_no_step_writes_is_found() -> None:
    body = UOp.group(param(0).store(param(1).index(UOp.range(N, 0)), UOp.range(N, 0)))
    linear = make(ops.LINEAR, (body.function("copy").call(param(0), param(1)),))
    graph = UOp.group(param(0).store(param(1)), param(2).store(param(1)))
    with pytest.raises(InternalError, match="which no step has to do with"):
        check_plan(graph, make_plan(linear, 3))


def test_a_loop_whose_kernels_change_places_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    def turned(scheduler: Any) -> Any:
        def schedule_of(function: UOp, *slots: int) -> UOp:
            linear = scheduler(function, *slots)
            return make(ops.LINEAR, linear.src[::-1])

        return schedule_of

    found = loops.Placed.as_call
    monkeypatch.setattr(loops.Placed, "as_call", lambda placed, scheduler: found(placed, turned(scheduler)))
    w = Tensor(np.eye(N, dtype=np.float32)).realize()
    state, _ = whit.scan(lambda s, _: (((s @ w).softmax(0) @ w).flip(0), None), Tensor.ones(N), length=3)
    with pytest.raises(InternalError, match="which nobody has written"):
        state.realize()


def test_a_read_that_sees_a_later_write_is_found() -> None:
    graph = shift()
    plan = planned(graph)
    orders = ((0, 2, 1), (1, 0, 2), (1, 2, 0), (2, 0, 1), (2, 1, 0))
    assert len(plan.linear.src) == 3
    found = 0
    for order in orders:
        faulty = with_calls(plan, lambda calls, by=order: tuple(calls[i] for i in by))  # type: ignore[misc]
        try:
            check_schedule(graph, faulty.linear)
            check_plan(graph, faulty)
        except InternalError:
            found += 1
    assert found == 4  # of all wrong orders, one is as good


def test_an_iteration_that_reads_what_another_writes_is_found() -> None:
    r = UOp.range(N - 1, 0)
    body = UOp.group(param(0).store(param(0).index(r), r + 1))
    linear = make(ops.LINEAR, (body.function("moved").call(param(0)),))
    p0 = param(0)
    graph = UOp.group(p0.store(p0.after(p0.shrink(((1, N - 1),)).store(p0.shrink(((0, N - 1),))))))
    with pytest.raises(InternalError, match=r"reads 1, 2 of param 0, .* which another iteration writes"):
        check_plan(graph, make_plan(linear, 1))


def test_an_effect_that_is_carried_out_too_seldom_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lower_write, "ONCE_IS_ENOUGH", (ops.ADD,))
    graph = scatter()
    with pytest.raises(InternalError, match=r"check_schedule: param 0, (.|\n)* too often or too seldom"):
        check_schedule(graph, schedule(graph))


def test_an_effect_that_is_carried_out_too_often_is_found() -> None:
    graph = scatter()
    copy, add = schedule(graph).src
    with pytest.raises(InternalError, match="too often"):
        check_schedule(graph, make(ops.LINEAR, (copy, add, add)))


# ---- memory


def test_temporaries_that_lie_in_one_place_are_found() -> None:
    graph = UOp.group(
        param(0).store((param(1).flip((0,)) + 2.0).stage().flip((0,)) + (param(1) * 3.0).stage().flip((0,)))
    )
    plan = planned(graph)
    check_plan(graph, plan)
    faulty = replace(plan, temporaries=tuple(replace(t, offset=0) for t in plan.temporaries))
    assert len(plan.temporaries) == 2
    with pytest.raises(InternalError, match=r"check_plan: step \d"):
        check_plan(graph, faulty)


def test_memory_that_is_taken_over_while_it_is_needed_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    graph = chain()  # the second step turns round what it reads: each element is written before it is read
    monkeypatch.setattr(planning, "is_same_element", lambda *_: True)
    with pytest.raises(InternalError, match="which another iteration writes"):
        check_plan(graph, planned(graph))


def test_a_result_in_memory_that_is_still_read_is_found() -> None:
    graph = UOp.group(param(0).store(param(1).flip((0,))))
    plan = planned(graph)
    check_plan(graph, plan)
    with pytest.raises(InternalError, match="which another iteration writes"):
        check_plan(graph, plan, {0: (1, 0)})
    r = UOp.range(N, 0)
    p0, p1, p2 = (param(slot) for slot in range(3))
    add = UOp.group(p0.store(p1.index(r) + 1.0, r)).function("add")
    turn = UOp.group(p0.store(p1.index(N - 1 - r), r)).function("turn")
    twice = UOp.group(p0.store(p1 + 1.0), p2.store(p1.flip((0,))))
    plan = make_plan(make(ops.LINEAR, (add.call(p0, p1), turn.call(p2, p1))), 3)
    check_plan(twice, plan)
    with pytest.raises(InternalError, match=r"reads 0, 1, 2, 3 of param 1, .*, where param 0, .* written meanwhile"):
        check_plan(twice, plan, {0: (1, 0)})


def test_where_memories_overlap() -> None:
    assert aliases_of([(100, 16), (200, 8), (108, 4), (0, 0), (100, 16), (112, 8)]) == {
        4: (0, 0),
        2: (0, 8),
        5: (0, 12),
    }


# ---- faults in the code itself


def test_the_copy_that_somebody_reads_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    def shared(self: Any, value: UOp) -> UOp:
        return value.stage()

    monkeypatch.setattr(writes._Settling, "_copy", shared)
    x = Tensor([4.0, 2.0, 3.0, 1.0]) * 1.5
    c = x.contiguous()
    with pytest.raises(InternalError, match=r"check_plan|check_schedule"):
        x.scatter_add(0, Tensor([0, 0, 1, 1]), c).realize()


def test_a_result_over_an_input_that_is_read_elsewhere_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(changes, "LEAST_REUSED_BYTES", 1)
    monkeypatch.setattr(find_plan, "can_overwrite", lambda *_: True)
    monkeypatch.setattr(reuse, "can_overwrite", lambda *_: True)
    x = (Tensor(np.arange(6, dtype=np.float32)) * 1).realize()
    x.assign(x.flip(0) + 1)
    with pytest.raises(InternalError, match="which another iteration writes"):
        x.realize()


def test_temporaries_are_placed_by_their_lives(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(planning, "place_temporaries", lambda found: [replace(t, offset=0) for t in found])
    x = Tensor(np.arange(6, dtype=np.float32)).realize()
    total = (x.flip(0) + 1).clone().flip(0) + (x * 3).clone().flip(0)
    with pytest.raises(InternalError, match="check_plan"):
        total.realize()
