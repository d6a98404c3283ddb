"""Edges are all that is needed and nothing more: beside a plain oracle, and by running lists in other orders."""

import random
from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest

from whit import Context, Tensor
from whit.dtype import dtypes
from whit.engine.devices.device import Device
from whit.engine.plan.find_plan import load_scheduler, memory_of_slot
from whit.engine.plan.plan import Plan, make_plan
from whit.engine.programs.dependencies import Access, accesses_of, dependencies, lanes, longest_chain
from whit.engine.realize.parametrise import below, parametrise
from whit.ir.uop import UOp
from whit.runtime.buffer import Buffer

Calls = list[list[Access]]


def is_ordered(one: Sequence[Access], other: Sequence[Access]) -> bool:
    """Whether two calls touch a byte that one of them writes."""
    for a in one:
        for b in other:
            shared = a.memory == b.memory and set(range(a.start, a.stop)) & set(range(b.start, b.stop))
            if shared and (a.writes or b.writes):
                return True
    return False


def closure(waits: Sequence[Sequence[int]]) -> list[set[int]]:
    """All that has finished before each call."""
    before: list[set[int]] = []
    for others in waits:
        before.append({*others, *(early for other in others for early in before[other])})
    return before


def random_calls(source: random.Random) -> Calls:
    calls = []
    for _ in range(source.randint(1, 14)):
        accesses = []
        for _ in range(source.randint(1, 4)):
            start = source.randint(0, 9)
            memory = source.choice(["arena", "arena", "x", "y"])
            accesses.append(Access(memory, start, start + source.randint(0, 4), source.random() < 0.4))
        calls.append(accesses)
    return calls


@pytest.mark.parametrize("seed", range(4))
def test_edges_are_those_of_the_oracle_without_what_is_implied(seed: int) -> None:
    source = random.Random(seed)
    for _ in range(100):
        calls = random_calls(source)
        found = dependencies(calls)
        every = [[j for j in range(i) if is_ordered(calls[i], calls[j])] for i in range(len(calls))]
        assert closure(found) == closure(every)
        for others in found:
            assert all(other not in closure(found)[another] for other in others for another in others)


@pytest.mark.parametrize("seed", range(4))
def test_edges_between_queues_and_the_order_of_queues_are_all_there_is(seed: int) -> None:
    source = random.Random(seed)
    for _ in range(100):
        calls = random_calls(source)
        queues = [source.choice("ab") for _ in calls]
        before = [[j for j in range(i) if queues[j] == queues[i]][-1:] for i in range(len(calls))]
        found = dependencies(calls, queues)
        every = [[j for j in range(i) if is_ordered(calls[i], calls[j])] for i in range(len(calls))]
        both = closure([[*a, *b] for a, b in zip(found, before, strict=True)])
        assert both == closure([[*a, *b] for a, b in zip(every, before, strict=True)])
        for i, others in enumerate(found):
            assert all(queues[other] != queues[i] for other in others)
            rest = [set(before[i]) | set(others) - {other} for other in others]
            assert all(o not in both[r] for o, left in zip(others, rest, strict=True) for r in left)


def test_writes_and_reads_of_one_memory() -> None:
    x = Access("x", 0, 8, False)
    assert dependencies([[replace(x, writes=True)], [x], [x], [replace(x, writes=True)]]) == [(), (0,), (0,), (1, 2)]
    assert dependencies([[replace(x, writes=True)], [Access("x", 8, 9, True)], [Access("x", 3, 3, True)]]) == [
        (),
        (),
        (),
    ]


def test_lanes_follow_what_a_call_waits_for() -> None:
    assert lanes([], 2) == []
    assert lanes([(), (), (0,), (1,), (2, 3)], 4) == [0, 1, 0, 1, 1]
    assert lanes([()] * 5, 2) == [0, 1, 0, 1, 0]
    assert lanes([(), (), ()], 1) == [0, 0, 0]


def test_the_longest_chain() -> None:
    assert longest_chain([]) == 0
    assert longest_chain([(), (), (0, 1), ()]) == 2
    assert longest_chain([(), (0,), (1,)]) == 3


# ---- lists in another order


def plan_of(*tensors: Tensor) -> tuple[Plan, list[Buffer], int]:
    """The plan of what is to be computed, the memory of its slots, and the number of results."""
    roots = [tensor.uop for tensor in tensors]
    graph = parametrise(roots, below(roots)[0])
    plan = make_plan(load_scheduler("PYTHON")(graph.graph), graph.outputs + len(graph.slots))
    results = [Buffer("PYTHON", tensor.nbytes()) for tensor in tensors]
    return plan, [*results, *(memory_of_slot(slot, "PYTHON") for slot in graph.slots)], graph.outputs


def shuffled(waits: Sequence[Sequence[int]], source: random.Random) -> list[int]:
    """A random order in which every call comes after those that it waits for."""
    order: list[int] = []
    while len(order) < len(waits):
        free = [i for i in range(len(waits)) if i not in order and set(waits[i]) <= set(order)]
        order.append(source.choice(free))
    return order


def programs() -> dict[str, list[Tensor]]:
    rng = np.random.default_rng(0)
    a, b, c = (Tensor(rng.standard_normal((6, 6)).astype(np.float32), device="PYTHON").realize() for _ in range(3))
    left, right = (a @ b).softmax(-1), (b @ c).relu()
    deep = a
    for _ in range(4):
        deep = (deep @ b).sum(0, keepdim=True) + deep @ c
    return {
        "two branches": [(left @ right).sum(1), left.sum(), right @ a],
        "a chain with a side": [deep, b @ c.softmax(0)],
        "scans": [a.cumsum(0) @ b.cumsum(1), a.sort(1)[0]],
    }


def test_every_order_that_keeps_the_edges_gives_the_same() -> None:
    source = random.Random(0)
    with Context(DEV="PYTHON"):
        device = Device["PYTHON"]
        for tensors in programs().values():
            plan, buffers, count = plan_of(*tensors)
            waits = dependencies(accesses_of(plan))
            assert longest_chain(waits) < len(plan.steps)
            seen = set()
            for turn in range(6):
                order = shuffled(waits, source) if turn else list(range(len(waits)))
                other = replace(
                    plan,
                    linear=UOp.linear(*[plan.linear.src[i] for i in order]),
                    steps=tuple(plan.steps[i] for i in order),
                )
                for buffer in buffers[:count]:
                    buffer.write(memoryview(bytes(buffer.nbytes)))
                device.run(other, buffers, {})
                seen.add(tuple(bytes(buffer.memory()) for buffer in buffers[:count]))
            assert len(seen) == 1


def test_memory_that_two_temporaries_have_in_turn_orders_their_users() -> None:
    size = 16
    p0, p1, p2 = (UOp.param(i, dtypes.float32, (size,)) for i in range(3))
    t0, t1 = (UOp.buffer(i, dtypes.float32, (size,)) for i in range(2))
    i = UOp.range(size, 0)
    turn = UOp.group(p0.store(p1.index(size - 1 - i), i)).function("turn")
    linear = UOp.linear(turn.call(t0, p1), turn.call(p0, t0), turn.call(t1, p1), turn.call(p2, t1))
    plan = make_plan(linear, 3)
    assert plan.arena_bytes == 64
    assert dependencies(accesses_of(plan)) == [(), (0,), (1,), (2,)]
    assert dependencies(accesses_of(plan, slots=["x", "y", "x"])) == [(), (0,), (1,), (2,)]
    apart = make_plan(UOp.linear(turn.call(p0, p1), turn.call(p2, p1)), 3)
    assert dependencies(accesses_of(apart)) == [(), ()]
    assert dependencies(accesses_of(apart, slots=["x", "y", "x"])) == [(), (0,)]
