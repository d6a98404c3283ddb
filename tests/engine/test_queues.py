"""Copies run beside kernels that do not need them, and what is submitted as one: as numbers, and by results."""

from __future__ import annotations

from contextlib import nullcontext

import numpy as np
import pytest

import whit
from whit import Context, GlobalCounters, Tensor, TinyJit
from whit.engine.programs.dependencies import Access
from whit.engine.programs.launches import LITTLE_WORK, LaunchList
from whit.engine.programs.program import Program
from whit.engine.programs.queues import Call, batches, submission_order, timeline

rng = np.random.default_rng(0)


def call(name: str, queue: str, *memories: str) -> Call:
    """Writes the first memory, and reads the others."""
    return Call(name, queue, [Access(memory, 0, 8, not i) for i, memory in enumerate(memories)], "CPU:1".find(queue), 0)


LIST = [
    call("copy y", "CPU:1 copies", "y", "x"),
    call("f", "CPU", "a", "x"),
    call("g", "CPU", "b", "a"),
    call("h", "CPU:1", "d", "e"),
    call("k", "CPU:1", "c", "y", "d"),
]


def test_a_batch_ends_where_a_call_waits_for_another_queue() -> None:
    found = batches(LIST)
    assert [(b.queue, [LIST[i].name for i in b.calls], b.waits) for b in found] == [
        ("CPU:1 copies", ["copy y"], ()),
        ("CPU", ["f", "g"], ()),
        ("CPU:1", ["h"], ()),
        ("CPU:1", ["k"], (0,)),
    ]
    assert batches([]) == []


def test_what_works_by_itself_is_submitted_first() -> None:
    found = batches(LIST)
    assert submission_order(found, lambda batch: 0) == [0, 1, 2, 3]
    assert submission_order(found, lambda batch: batch.queue != "CPU:1") == [2, 0, 3, 1]


def test_the_critical_path_of_queues_beside_each_other() -> None:
    cost = {"copy y": 10, "f": 2, "g": 3, "h": 4, "k": 5}
    assert timeline(LIST, lambda c: cost[c.name]) == [(0, 10), (0, 2), (2, 5), (0, 4), (10, 15)]
    one = [Call(c.name, "CPU", c.accesses, 0, i) for i, c in enumerate(LIST)]
    assert timeline(one, lambda c: cost[c.name])[-1][1] == sum(cost.values())


# ---- programs


def pipeline(x: Tensor, other: str) -> tuple[Tensor, Tensor]:
    """Two devices with work of their own, and copies both ways."""
    y = x.to(other)
    here = ((x @ x).relu() @ x).softmax(-1)
    there = (y @ y).sum(0) + 1
    return (there.to(x.device) * here).sum(), (here @ x).max(0)


def captured(device: str, size: int = 4) -> Program:
    step = TinyJit(pipeline)
    with Context(DEV=device):
        step(Tensor(np.ones((size, size), np.float32)).realize(), f"{device}:1")
    program: Program = step.captured[0].program
    return program


@pytest.mark.parametrize("device", ["NULL", "PYTHON", "CPU"])
def test_the_batches_of_a_program_with_copies(device: str) -> None:
    program = captured(device)
    copies = f"{device}:1 copies"
    assert [(batch.queue, len(batch.calls), batch.waits) for batch in program.batches()] == [
        (copies, 1, ()),
        (f"{device}:1", 1, (0,)),
        (f"{device} copies", 1, (1,)),
        (device, 3, ()),
        (device, 2, (2,)),
    ]


def test_copies_are_beside_kernels_in_the_timeline() -> None:
    calls = captured("NULL").calls()
    found = timeline(calls, lambda call: 1)
    assert [(call.queue, *times) for call, times in zip(calls, found, strict=True)] == [
        ("NULL:1 copies", 0, 1),
        ("NULL:1", 1, 2),
        ("NULL copies", 2, 3),
        ("NULL", 0, 1),
        ("NULL", 1, 2),
        ("NULL", 2, 3),
        ("NULL", 3, 4),
        ("NULL", 4, 5),
    ]


def test_a_program_explains_its_batches() -> None:
    assert captured("NULL").explain().splitlines() == [
        "0  NULL:1 copies  copy from NULL to NULL:1",
        "1  NULL:1         add_reduce_4; waits for 0",
        "2  NULL copies    copy from NULL:1 to NULL; waits for 1",
        "3  NULL           add_reduce_4x4, add_reduce_4x4, add_reduce_4x4",
        "4  NULL           add_reduce_scalar, max_reduce_4; waits for 2",
        "8 calls, of which 5 follow one another",
        "temporaries: 128 bytes",
    ]


@pytest.mark.cpu
@pytest.mark.slow
@pytest.mark.parametrize("size", [3, 150])
def test_a_program_on_two_devices_gives_what_a_plain_run_gives(size: int) -> None:
    step = TinyJit(pipeline)
    for _ in range(3):
        data = rng.standard_normal((size, size)).astype(np.float32)
        GlobalCounters.reset()
        got = step(Tensor(data).realize(), "CPU:1")
        assert GlobalCounters.device("CPU").copy_count == GlobalCounters.device("CPU:1").copy_count == 1
        expected = pipeline(Tensor(data), "CPU:1")
        for one, other in zip(got, expected, strict=True):
            np.testing.assert_allclose(one.numpy(), other.numpy(), rtol=1e-5)
    assert len(step.captured) == 1


@pytest.mark.cpu
@pytest.mark.parametrize("is_timed", [False, True], ids=["native", "part by part"])
@pytest.mark.parametrize("number", [0, 2], ids=["copied", "computed first"])
def test_what_is_written_after_a_copy_begins_with_what_this_run_has_copied(number: int, is_timed: bool) -> None:
    def function(x: Tensor) -> tuple[Tensor, Tensor]:
        there = (x + number if number else x).to("CPU:1")
        before = there * 1
        there[1] = 7
        return there + 1, before

    step = TinyJit(function)
    with whit.profile() if is_timed else nullcontext():
        for start in range(4):
            after, before = step(Tensor([start, start + 1.0, start + 2.0]).realize())
            assert before.tolist() == [start + number, start + number + 1, start + number + 2]
            assert after.tolist() == [start + number + 1, 8, start + number + 3]
    assert len(step.captured) == 1


@pytest.mark.cpu
def test_a_copy_to_its_own_device_is_no_copy() -> None:
    step = TinyJit(lambda x: (x.to("CPU").to("CPU:1").to("CPU:1") + 1, Tensor.ones(3).to("CPU:1") * 2))
    for start in range(3):
        moved, ones = step(Tensor([start, start + 1]).realize())
        assert moved.tolist() == [start + 1, start + 2] and ones.tolist() == [2, 2, 2]
        assert moved.device == ones.device == "CPU:1"
    assert sum(part.graph is None for part in step.captured[0].program.parts) == 1


@pytest.mark.slow
def test_a_copy_is_one_launch_with_a_kernel_that_does_not_need_it() -> None:
    with Context(THREADS=2):
        program = captured("CPU", 160)
        assert program.submission is not None and program.submission.order == [0, 3, 1, 2, 4]
        (launches,) = [item for item in program.submission._items if isinstance(item, LaunchList)]
        assert LITTLE_WORK < 160 * 160 * 4 and launches.groups()[0] == [0, 1]
    with Context(THREADS=1):
        program = captured("CPU", 160)
        assert program.submission is not None
        (launches,) = [item for item in program.submission._items if isinstance(item, LaunchList)]
        assert all(len(group) == 1 for group in launches.groups())


def test_small_launches_are_left_alone() -> None:
    with Context(THREADS=2):
        program = captured("CPU", 4)
        assert program.submission is not None
        (launches,) = [item for item in program.submission._items if isinstance(item, LaunchList)]
        assert launches.groups() == [[number] for number in range(8)]
