"""Values of graphs: on the interpreter with a scheduler that anyone can check, and on the CPU with the real one."""

import gc
import os
import threading
from collections.abc import Iterator

import numpy as np
import pytest

from engine.simple import schedule as simple_schedule
from whit.config import Context
from whit.dtype import dtypes
from whit.engine.memory.storage import computed, storage
from whit.engine.memory.values import from_numpy, item, to_numpy
from whit.engine.plan import find_plan as plans_module
from whit.engine.realize.realize import realize
from whit.engine.report.counters import GlobalCounters
from whit.errors import DeviceError, InternalError, NotSupportedError
from whit.ir import ops
from whit.ir.uop import UOp

DEVICES = ("PYTHON", "CPU")


@pytest.fixture(params=DEVICES)
def device(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    plans_module._plans.clear()
    if request.param == "PYTHON":
        monkeypatch.setattr(plans_module, "load_scheduler", lambda device, *_: simple_schedule)
    yield request.param
    plans_module._plans.clear()


def numbers(*shape: int) -> np.ndarray:
    return np.arange(1, 1 + int(np.prod(shape)), dtype=np.float32).reshape(shape)


def test_values_are_right_and_counted(device: str) -> None:
    a, b = from_numpy(numbers(3, 4), device), from_numpy(numbers(3, 4) * 2, device)
    (c,) = realize([a * b + 3.5])
    assert np.array_equal(to_numpy(c), numbers(3, 4) * numbers(3, 4) * 2 + 3.5)
    assert c.op is ops.BUFFER and c.device == device
    assert GlobalCounters.kernel_count == 1
    assert GlobalCounters.device(device).bytes_written == 48
    assert GlobalCounters.device(device).bytes_read == 2 * 48 + 4 * (device == "PYTHON")


def test_several_roots_are_realised_together(device: str) -> None:
    a = from_numpy(numbers(4), device)
    first, second, same, again = realize([a + 1, a * 2, a, a + 1])
    assert to_numpy(first).tolist() == [2, 3, 4, 5]
    assert to_numpy(second).tolist() == [2, 4, 6, 8]
    assert same is a and again is first


def test_nothing_is_computed_twice(device: str) -> None:
    a = from_numpy(numbers(4), device)
    expression = a * a
    (first,) = realize([expression])
    count = GlobalCounters.kernel_count
    assert realize([expression]) == [first]
    assert GlobalCounters.kernel_count == count
    storage(first).memory()[:4] = np.float32(100).tobytes()  # to see where it is read from
    assert to_numpy(realize([expression + 1])[0])[0] == 101


def test_a_second_identical_step_is_not_scheduled_again(device: str) -> None:
    scheduled = []
    load = plans_module.load_scheduler

    def counting(device: str, *_: object) -> object:
        def schedule(graph: UOp) -> UOp:
            scheduled.append(graph)
            return load(device)(graph)

        return schedule

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(plans_module, "load_scheduler", counting)
        for constant in (0.3, 0.7, 5.5):
            a = from_numpy(numbers(4), device)
            (result,) = realize([a * constant + a])
            assert np.allclose(to_numpy(result), numbers(4) * np.float32(constant) + numbers(4))
    assert len(scheduled) == 1


def test_contiguous_views_are_parts_of_the_buffer(device: str) -> None:
    a = from_numpy(numbers(4, 6), device)
    views = [
        a.reshape((24,)),
        a.shrink(((1, 2), (0, 6))),
        a.shrink(((2, 1), (1, 3))).reshape((3,)),
        a.reshape((4, 1, 6)).permute((1, 0, 2)),
        a.bitcast(dtypes.int32),
        a.reshape((2, 12)).shrink(((1, 1), (4, 5))).shrink(((0, 1), (1, 2))),
    ]
    before = GlobalCounters.mem_used
    found = realize(views)
    assert GlobalCounters.kernel_count == 0
    assert GlobalCounters.mem_used == before
    whole = numbers(4, 6)
    wanted = [
        whole.reshape(24),
        whole[1:3],
        whole[2, 1:4],
        whole.reshape(1, 4, 6),
        whole.view(np.int32),
        whole.reshape(2, 12)[1:, 5:7],
    ]
    for node, array in zip(found, wanted, strict=True):
        assert np.array_equal(to_numpy(node), array)


def test_other_views_are_copied_by_a_kernel(device: str) -> None:
    a = from_numpy(numbers(4, 6), device)
    found = realize([a.permute((1, 0)), a.shrink(((0, 4), (1, 2))), a.flip((0,)), a.pad(((0, 0), (1, 0)))])
    whole = numbers(4, 6)
    wanted = [whole.T, whole[:, 1:3], whole[::-1], np.pad(whole, ((0, 0), (1, 0)))]
    for node, array in zip(found, wanted, strict=True):
        assert np.array_equal(to_numpy(node), array)
    assert GlobalCounters.kernel_count > 0


def test_small_constants_need_no_kernel(device: str) -> None:
    (scalar, full) = realize(
        [UOp.const(dtypes.bfloat16, 2.5), UOp.const(dtypes.int32, 7).reshape((1, 1)).expand((3, 4))], device
    )
    assert item(scalar) == 2.5
    assert to_numpy(full).tolist() == [[7] * 4] * 3
    assert GlobalCounters.kernel_count == 0
    (large,) = realize([UOp.const(dtypes.float32, 0.3).reshape((1,)).expand((5000,))], device)
    assert np.all(to_numpy(large) == np.float32(0.3))
    assert GlobalCounters.kernel_count == 1


def test_reductions_and_empty_tensors(device: str) -> None:
    a = from_numpy(numbers(8, 9), device)
    (total, rows) = realize([a.reduce(ops.ADD, (0, 1)), a.reduce(ops.MAX, (1,))])
    assert item(total) == 72 * 73 / 2
    assert to_numpy(rows).tolist() == numbers(8, 9).max(1).tolist()


def test_results_on_different_devices_in_one_call() -> None:
    a = from_numpy(numbers(3), "PYTHON")
    b = from_numpy(numbers(3), "CPU")
    first, second = realize([a + 1, b + 2])
    assert (first.device, second.device) == ("PYTHON", "CPU")
    assert to_numpy(first).tolist() == [2, 3, 4]
    assert to_numpy(second).tolist() == [3, 4, 5]


def test_copies_go_through_both_devices(device: str) -> None:
    a = from_numpy(numbers(3), device)
    moved = (a * 2).copy_to(f"{device}:1")
    (result,) = realize([moved + 1])
    assert result.device == f"{device}:1"
    assert to_numpy(result).tolist() == [3, 5, 7]
    assert GlobalCounters.copy_count == 1
    (back,) = realize([(moved.copy_to(device) + a).copy_to(f"{device}:2")])
    assert to_numpy(back).tolist() == [3, 6, 9]
    assert back.device == f"{device}:2"


def test_a_copy_to_the_same_device_is_the_value(device: str) -> None:
    a = from_numpy(numbers(3), device)
    assert realize([a.copy_to(device)]) == [a]


def test_temporaries_do_not_outlive_the_run() -> None:
    gc.collect()  # what earlier tests left in cycles shall not go meanwhile
    a = from_numpy(numbers(64, 64), "CPU")
    softmax = a - a.reduce(ops.ADD, (1,)).reshape((64, 1)).expand((64, 64))
    used = GlobalCounters.mem_used
    (result,) = realize([softmax.reduce(ops.ADD, (0,)).sin()])
    assert GlobalCounters.mem_used - used == storage(result).nbytes


def test_variables_are_values_of_the_run() -> None:
    plans_module._plans.clear()
    n = UOp.variable("n", 1, 8)
    a = from_numpy(numbers(8), "CPU")
    for value in (2, 5, 8):
        (result,) = realize([a.shrink(((0, n.bind(value)),)).reduce(ops.ADD, (0,))])
        assert item(result) == numbers(8)[:value].sum()
    assert len(plans_module._plans) == 1


def test_null_plans_and_compiles_and_has_no_data() -> None:
    a = from_numpy(numbers(3), "NULL")
    (result,) = realize([a + 1])
    assert GlobalCounters.device("NULL").kernel_count == 1
    with pytest.raises(DeviceError, match="NULL has no data"):
        to_numpy(result)


def test_a_failure_inside_saves_the_graph_and_says_how_to_replay(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(graph: UOp) -> UOp:
        raise KeyError("lost")

    monkeypatch.setattr(plans_module, "load_scheduler", lambda device, *_: broken)
    with pytest.raises(InternalError, match="realize on CPU: KeyError: 'lost'") as caught:
        realize([from_numpy(numbers(17), "CPU") * 3.25])
    path = str(caught.value).partition("The graph is in ")[2].partition(". To")[0]
    assert f"python -m whit replay {path} CPU" in str(caught.value)
    monkeypatch.undo()
    from whit.engine.report.replay import replay

    replay(path, "CPU")
    os.remove(path)


def test_an_unsupported_effect_says_so() -> None:
    a, b = from_numpy(numbers(3), "PYTHON"), from_numpy(numbers(3), "PYTHON")
    with pytest.raises(NotSupportedError, match="an effect that is not a store to the tensor it stands after"):
        realize([a.after(b.store(a))])


def test_threads_can_realise_at_once() -> None:
    def work(seed: int) -> None:
        for i in range(30):
            data = numbers(1000) * seed
            a = from_numpy(data, "CPU")
            x = a * (0.125 * i + 0.3) + a
            found = to_numpy(realize([(x.reshape((10, 100))).reduce(ops.MAX, (1,)) + seed])[0])
            wanted = (data * np.float32(0.125 * i + 0.3) + data).reshape(10, 100).max(1) + np.float32(seed)
            if not np.array_equal(found, wanted):
                failures.append((seed, i))

    plans_module._plans.clear()
    failures: list[tuple[int, int]] = []
    threads = [threading.Thread(target=work, args=(seed,)) for seed in range(1, 7)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failures == []


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")
def test_a_child_process_can_go_on() -> None:
    a = from_numpy(numbers(100_000), "CPU")
    realize([a * 0.3])
    child = os.fork()
    if child == 0:
        try:
            is_right = np.array_equal(to_numpy(realize([a * 0.7])[0]), numbers(100_000) * np.float32(0.7))
            is_right &= bool(item(realize([a.reduce(ops.MAX, (0,))])[0]) == 100_000)
            os._exit(0 if is_right else 1)
        finally:
            os._exit(2)
    _, status = os.waitpid(child, 0)
    assert status == 0


def test_debug_prints_kernels_and_graphs(capsys: pytest.CaptureFixture[str], device: str) -> None:
    with Context(DEBUG=5):
        realize([from_numpy(numbers(23), device) + 0.3])
    out = capsys.readouterr().out
    assert "--- graph" in out and "--- schedule" in out and "--- kernel" in out
    assert f"*** {device:7s}    1 " in out and "float32(23,)" in out and "GB/s" in out
    assert "\033" not in out
    assert GlobalCounters.time_sum_s > 0


def test_debug_prints_code(capsys: pytest.CaptureFixture[str]) -> None:
    plans_module._plans.clear()
    with Context(DEBUG=7):
        realize([from_numpy(numbers(29), "CPU") + 0.3])
    out = capsys.readouterr().out
    assert "define void @" in out  # LLVM
    assert "--- program of" in out
    assert ".text" in out  # assembly


def test_computed_is_forgotten_with_the_expression(device: str) -> None:
    a = from_numpy(numbers(4), device)
    realize([a + 1])
    assert computed(a + 1) is None


def test_detached_roots_and_whole_assignments_are_their_values(device: str) -> None:
    a = from_numpy(numbers(3), device)
    (detached,) = realize([(a + 1).detach().detach()])
    assert to_numpy(detached).tolist() == [2, 3, 4]
    assert realize([a.after(a.store(detached))]) == [detached]


def test_constants_are_realised_on_the_device_that_wants_them() -> None:
    large = UOp.const(dtypes.float32, 1.5).reshape((1,)).expand((2000,))
    small = UOp.const(dtypes.float32, 1.5)
    for name in ("CPU", "CPU:1"):
        for node in realize([large, small], name):
            assert node.device == name
    b = from_numpy(numbers(3), "CPU:2")
    (assigned,) = realize([b.after(b.store(small.reshape((1,)).expand((3,))))])
    assert assigned.device == "CPU:2"
