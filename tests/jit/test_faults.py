"""Threads, forks, interrupts and failures in the middle: right results or a clear error, and nothing hangs."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from whit import Context, JitError, Tensor, TinyJit
from whit.engine.programs.program import Program

pytestmark = pytest.mark.slow

THREADS = 8


def in_threads(run: Callable[[int], None]) -> None:
    """Runs it in eight threads at once, and raises what one of them raised."""
    failures: list[BaseException] = []

    def guarded(number: int) -> None:
        try:
            run(number)
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=guarded, args=(number,)) for number in range(THREADS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert not any(thread.is_alive() for thread in threads)
    if failures:
        raise failures[0]


def test_eight_threads_call_the_same_function() -> None:
    total = Tensor.zeros(1000).contiguous().realize()

    def f(x: Tensor) -> Tensor:
        total.assign(total + x)
        return x * 2

    g = TinyJit(f)

    def run(number: int) -> None:
        for _ in range(10):
            assert g(Tensor([float(number)])).item() == 2 * number

    in_threads(run)
    assert total.tolist() == [10.0 * sum(range(THREADS))] * 1000 and len(g.captured) == 1


def test_eight_threads_call_different_functions_that_share_a_tensor() -> None:
    w = Tensor([1.0, 2.0]).realize()
    jits = [TinyJit(lambda x, k=k: (x + k) * w) for k in range(THREADS)]

    def run(number: int) -> None:
        for i in range(10):
            assert jits[number](Tensor([float(i), 1.0])).tolist() == [float(i + number), 2.0 * (1 + number)]

    in_threads(run)


def test_other_threads_see_nothing_of_a_trace() -> None:
    w = Tensor([1.0, 2.0]).realize()
    inside, seen = threading.Event(), threading.Event()
    found: list[Any] = []

    def look() -> None:
        inside.wait(30)
        found.append((w.tolist(), (w * 2).tolist(), Tensor([1.0]).tolist(), w.grad))
        w2 = w + 1
        found.append(w2.tolist())
        seen.set()

    waiting = (inside, seen)  # events are not looked into

    def f(x: Tensor) -> Tensor:
        w.assign(w + x)
        waiting[0].set()
        waiting[1].wait(30)
        return w * 1

    thread = threading.Thread(target=look)
    thread.start()
    assert TinyJit(f)(Tensor([1.0, 1.0])).tolist() == [2.0, 3.0]
    thread.join(30)
    assert found == [([1.0, 2.0], [2.0, 4.0], [1.0], None), [2.0, 3.0]]


def test_failure_in_a_replay_leaves_tensors_as_they_were(monkeypatch: pytest.MonkeyPatch) -> None:
    h = Tensor([1.0, 2.0, 3.0]).realize()

    def f(x: Tensor) -> Tensor:
        h.assign(h.flip(0) + x)
        return h * 2

    g = TinyJit(f)
    g(Tensor([1.0]))
    before = h.tolist()

    def fail(*_: Any) -> None:
        raise MemoryError("no memory")

    with monkeypatch.context() as patch:
        patch.setattr(Program, "run", fail)
        with pytest.raises(MemoryError):
            g(Tensor([1.0]))
    assert h.tolist() == before
    assert g(Tensor([1.0])).tolist() == [2 * (value + 1) for value in reversed(before)]


def run_alone(code: str) -> None:
    """Runs a program in a process of its own."""
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)
    assert found.stdout == "done\n", found.stderr


def test_interrupts_never_leave_half_a_step() -> None:
    run_alone("""
import _thread, signal, sys, threading, time
from whit import Tensor, TinyJit
a, b = Tensor([0.0] * 5000).realize(), Tensor([0.0] * 5000).realize()
def f(x):
    a.assign(a.flip(0) + x)  # needs new memory in every call
    b.assign(b + x)          # is written in place
g = TinyJit(f)
one = Tensor([1.0]).realize()
g(one)
running, interrupts, calls = True, 0, 0
signal.signal(signal.SIGINT, signal.default_int_handler)  # who started this may have switched it off
def interrupt():
    while running:
        time.sleep(0.0003)
        _thread.interrupt_main()
thread = threading.Thread(target=interrupt, daemon=True)
sys.unraisablehook = lambda *_: None
end = time.monotonic() + 1
started = False
while running:
    try:
        if not started:
            started = True
            thread.start()
        while time.monotonic() < end or interrupts <= 10:  # on a busy machine the thread hardly comes to run
            g(one)
            calls += 1
        running = False
    except KeyboardInterrupt:
        interrupts += 1
while thread.is_alive():
    try:
        thread.join()
    except KeyboardInterrupt:
        pass
try:
    time.sleep(0.01)
except KeyboardInterrupt:
    pass
first, second = a.tolist()[0], b.tolist()[0]
assert first == second and interrupts > 10, (first, second, calls, interrupts)
assert calls <= first <= calls + interrupts + 1, (first, calls, interrupts)
print("done")
""")


@pytest.mark.cpu
@pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork here")
def test_fork_after_use() -> None:
    run_alone("""
import os, threading
from whit import Tensor, TinyJit
w = Tensor([0.0] * 100_000).realize()
def f(x):
    w.assign(w + x)
    return w.sum()
g = TinyJit(f)
one = Tensor([1.0])
g(one)
child = os.fork()
if child == 0:
    ok = g(one).item() == 200_000 and TinyJit(lambda x: x * 2)(one).item() == 2 and w.tolist()[0] == 2
    os._exit(0 if ok else 1)
assert os.waitpid(child, 0)[1] == 0
assert g(one).item() == 200_000 and w.tolist()[0] == 2
print("done")
""")


def test_disk_cache_is_deleted_or_spoilt_while_running(tmp_path: Path) -> None:
    with Context(CACHE_DIR=str(tmp_path)):
        f = TinyJit(lambda x, k: (x * 3 + 7).sum() * k)
        assert f(Tensor([1.0, 2.0]), 1).item() == 23.0
        for path in tmp_path.rglob("*"):
            if path.is_file():
                path.write_bytes(b"nonsense")
        assert f(Tensor([1.0, 2.0]), 2).item() == 46.0
        shutil.rmtree(tmp_path)
        assert f(Tensor([1.0, 2.0]), 3).item() == 69.0 and f(Tensor([1.0, 2.0]), 1).item() == 23.0
        assert f(Tensor([1.0, 2.0, 3.0]), 1).item() == 39.0


def test_endless_recursion_is_an_error_of_python_and_leaves_no_trace() -> None:
    def f(x: Tensor) -> Tensor:
        return g(x) + 1

    g: Any = TinyJit(f)
    with pytest.raises(RecursionError):
        g(Tensor([1.0]))
    assert TinyJit(lambda x: x + 1)(Tensor([1.0])).item() == 2.0


def test_generator_cannot_carry_a_trace_out() -> None:
    def f(x: Tensor) -> Any:
        yield x * 2

    with pytest.raises(JitError, match="generator"):
        TinyJit(f)(Tensor([1.0]))
