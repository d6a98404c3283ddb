"""Many kernels are compiled by other processes: the same code as here, and nothing is lost if they fail."""

import os
import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import pytest

from whit import Context, Tensor, dtypes
from whit.engine.compile import elsewhere
from whit.engine.compile.compile import compile_kernel
from whit.engine.devices.device import Device
from whit.engine.plan import find_plan
from whit.ir.uop import UOp
from whit.target import Target, parse_target

pytestmark = pytest.mark.cpu


@pytest.fixture(autouse=True)
def ended() -> Iterator[None]:
    """No process outlives a test."""
    yield
    elsewhere.let_go()


def test_workers_with_other_settings_are_others() -> None:
    with Context(COMPILERS=2):
        compiled(functions(8))
        before = {id(worker.process) for worker in elsewhere._ready}
        kernels = functions(8)
        with Context(NOOPT=True):
            found, missed = compiled(kernels)
            assert (missed, found[3]) == ([], compile_kernel(kernels[3], target()))
        assert before.isdisjoint(id(worker.process) for worker in elsewhere._ready)


def test_a_process_that_was_killed_is_replaced() -> None:
    with Context(COMPILERS=2):
        compiled(functions(8))
        for worker in elsewhere._ready:
            worker.process.kill()
            worker.process.wait()
        found, missed = compiled(functions(8))
        assert (sorted(found), missed) == (list(range(8)), [])


def functions(count: int) -> list[UOp]:
    """p0[i] = p1[i] + number"""
    found = []
    for number in range(count):
        i = UOp.range(100, 0)
        out, source = UOp.param(0, dtypes.float32, (100,)), UOp.param(1, dtypes.float32, (100,))
        found.append(UOp.group(out.store(source.index(i) + float(number), i)).function(f"f{number}"))
    return found


def target() -> Target:
    found = Device["CPU"].target
    assert found is not None
    return found


def compiled(kernels: list[UOp], sources: list[str] | None = None) -> tuple[dict[int, tuple[Any, bytes]], list[int]]:
    found: dict[int, tuple[Any, bytes]] = {}
    missed = elsewhere.compile_elsewhere(
        kernels, sources or [], target(), lambda number, header, code: found.update({number: (header, code)})
    )
    return found, missed


def test_code_is_what_it_would_be_here() -> None:
    kernels = functions(16)
    with Context(COMPILERS=2):
        found, missed = compiled(kernels, ["define i32 @seven() { ret i32 7 }"])
    assert missed == []
    assert sorted(found) == list(range(17))
    for number in (0, 15):
        assert found[number] == compile_kernel(kernels[number], target())
    assert b"seven" in found[16][1]


def test_settings_go_along() -> None:
    kernels = functions(16)
    with Context(COMPILERS=2, NOOPT=True):
        found, missed = compiled(kernels)
        assert (missed, found[9]) == ([], compile_kernel(kernels[9], target()))


@pytest.mark.parametrize("program", ["raise SystemExit(1)", "print('something else')", "import time; time.sleep(0.1)"])
def test_what_a_process_does_not_do_is_left(monkeypatch: pytest.MonkeyPatch, program: str) -> None:
    monkeypatch.setattr(elsewhere, "PROGRAM", program)
    with Context(COMPILERS=2):
        assert compiled(functions(16), [""]) == ({}, list(range(17)))


def test_without_a_python_to_be_started_nothing_is_lost(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "executable", "/no/such/python")
    with Context(COMPILERS=2):
        assert compiled(functions(16)) == ({}, list(range(16)))


def test_a_source_that_cannot_be_compiled_is_left() -> None:
    with Context(COMPILERS=2):
        found, missed = compiled(functions(16), ["this is no program"])
    assert missed == [16]
    assert len(found) == 16


def test_processes_are_started_while_a_large_graph_is_scheduled(monkeypatch: pytest.MonkeyPatch) -> None:
    with Context(COMPILERS=2):
        elsewhere.prepare(150, target())
        assert elsewhere._ready == []
        elsewhere.prepare(1000, target())
        processes = {id(worker.process) for worker in elsewhere._ready}
        assert len(processes) == 2
        monkeypatch.setattr(elsewhere, "_started", None)
        found, missed = compiled(functions(8))
        assert (sorted(found), missed) == (list(range(8)), [])
        assert {id(worker.process) for worker in elsewhere._ready} == processes
        found, missed = compiled(functions(1))  # one is enough for those that wait
        assert (list(found), missed) == ([0], [])


def test_processes_that_are_not_needed_end() -> None:
    with Context(COMPILERS=2):
        elsewhere.prepare(1000, target())
        processes = [worker.process for worker in elsewhere._ready]
        elsewhere.let_go()
        assert elsewhere._ready == []
        assert all(process.poll() is not None for process in processes)


def test_a_schedule_that_fails_leaves_no_process(monkeypatch: pytest.MonkeyPatch) -> None:
    started: list[Any] = []
    begin = elsewhere._started

    def noted() -> Any:
        started.append(begin())
        return started[-1]

    def broken(*_: Any) -> Any:
        raise KeyboardInterrupt

    monkeypatch.setattr(elsewhere, "_started", noted)
    monkeypatch.setattr(find_plan, "load_scheduler", broken)
    x = Tensor.empty(7)
    for number in range(300):
        x = (x + number).exp2()
    with Context(COMPILERS=2), pytest.raises(KeyboardInterrupt):
        x.realize()
    assert len(started) == 2
    assert all(worker.process.poll() is not None for worker in started)


def test_few_kernels_are_compiled_here(monkeypatch: pytest.MonkeyPatch) -> None:
    with Context(COMPILERS=4):
        counts = [elsewhere.process_count(count, target()) for count in (1, 7, 8, 12, 100)]
        assert counts == [0, 0, 2, 3, 4]
        assert elsewhere.process_count(100, parse_target("NULL:PTX:sm_90a")) == 0
        monkeypatch.setattr(sys, "executable", "")
        assert elsewhere.process_count(100, target()) == 0
    with Context(COMPILERS=0):
        assert elsewhere.process_count(100, target()) == 0


PROGRAM = """
import sys
from whit import Tensor
ys = [(Tensor.arange(3 * n).float().reshape(n, 3) * n).sum(1) for n in range(1, 21)]
ys[0].realize(*ys[1:])
print(*[name for name in ("llvmlite", "whit.codegen") if name in sys.modules])
assert all(y.tolist() == [(9.0 * row + 3) * n for row in range(n)] for n, y in enumerate(ys, start=1))
"""


def test_a_program_with_many_kernels_loads_no_compiler(tmp_path: Any) -> None:
    environment = {**os.environ, "CACHE": "1", "COMPILERS": "2", "CACHE_DIR": str(tmp_path)}
    done = subprocess.run([sys.executable, "-c", PROGRAM], env=environment, capture_output=True, text=True, check=True)
    assert done.stdout.split() == []
