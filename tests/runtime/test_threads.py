"""The thread pool runs every part of a range exactly once, whoever calls it, and survives forks, signals and exit."""

import ctypes
import dataclasses
import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

import whit
from whit.config import Context
from whit.runtime.code.elf import undefined_symbols
from whit.runtime.code.library import Library
from whit.runtime.code.llvm import compile_llvm, load_object
from whit.runtime.pool.text import pool_text
from whit.runtime.pool.threads import Launch, native_kernel, run_launches, thread_count
from whit.target import available_cores, host_target, parse_target

LINUX = host_target().system == "linux"
needs_workers = pytest.mark.skipif(not LINUX, reason="there are no workers on this system")

# count: adds 1 to each element in the range. slow: the same, each element after variables[0] rounds of arithmetic.
# meet: element i of two is 1 once the other one is not 0, so that two threads have to be inside; 2 if nobody comes.
KERNELS = """
define void @count(ptr %buffers, ptr %variables, i64 %start, i64 %stop) nounwind {
entry:
  %p = load ptr, ptr %buffers, align 8
  %any = icmp slt i64 %start, %stop
  br i1 %any, label %loop, label %end
loop:
  %i = phi i64 [ %start, %entry ], [ %next, %loop ]
  %at = getelementptr inbounds i64, ptr %p, i64 %i
  %x = load i64, ptr %at, align 8
  %y = add i64 %x, 1
  store i64 %y, ptr %at, align 8
  %next = add i64 %i, 1
  %more = icmp slt i64 %next, %stop
  br i1 %more, label %loop, label %end
end:
  ret void
}

define void @meet(ptr %buffers, ptr %variables, i64 %start, i64 %stop) nounwind {
entry:
  %p = load ptr, ptr %buffers, align 8
  %rounds = load i64, ptr %variables, align 8
  %mine = getelementptr inbounds i64, ptr %p, i64 %start
  %other = sub i64 1, %start
  %theirs = getelementptr inbounds i64, ptr %p, i64 %other
  store atomic i64 1, ptr %mine seq_cst, align 8
  br label %loop
loop:
  %n = phi i64 [ 0, %entry ], [ %next, %again ]
  %seen = load atomic i64, ptr %theirs seq_cst, align 8
  %met = icmp ne i64 %seen, 0
  br i1 %met, label %end, label %again
again:
  %next = add i64 %n, 1
  %more = icmp slt i64 %next, %rounds
  br i1 %more, label %loop, label %alone
alone:
  store atomic i64 2, ptr %mine seq_cst, align 8
  br label %end
end:
  ret void
}

define void @slow(ptr %buffers, ptr %variables, i64 %start, i64 %stop) nounwind {
entry:
  %rounds = load i64, ptr %variables, align 8
  br label %outer
outer:
  %i = phi i64 [ %start, %entry ], [ %next, %done ]
  br label %loop
loop:
  %n = phi i64 [ 0, %outer ], [ %n.next, %loop ]
  %x = phi double [ 1.0, %outer ], [ %y, %loop ]
  %y = fdiv double %x, 1.5
  %n.next = add i64 %n, 1
  %more = icmp slt i64 %n.next, %rounds
  br i1 %more, label %loop, label %done
done:
  %next = add i64 %i, 1
  call void @count(ptr %buffers, ptr %variables, i64 %i, i64 %next)
  %again = icmp slt i64 %next, %stop
  br i1 %again, label %outer, label %end
end:
  ret void
}
"""

# second: the other half of `meet`, as a launch of its own
SECOND = (
    KERNELS.replace("@count", "@other").replace("@slow", "@idle").replace("@meet", "@both")
    + """
define void @second(ptr %buffers, ptr %variables, i64 %start, i64 %stop) nounwind {
  call void @both(ptr %buffers, ptr %variables, i64 1, i64 2)
  ret void
}
"""
)


@pytest.fixture(scope="module")
def kernels() -> Library:
    return load_object(compile_llvm(KERNELS, host_target()))


class Work:
    """An array to count in, and a launch on it."""

    def __init__(self, size: int, rounds: int = 1) -> None:
        self.data = (ctypes.c_int64 * max(size, 1))()
        self.buffers = (ctypes.c_void_p * 1)(ctypes.addressof(self.data))
        self.variables = (ctypes.c_int64 * 1)(rounds)
        self.size = size

    def launch(self, address: int, chunk: int, count: int) -> Launch:
        buffers, variables = ctypes.addressof(self.buffers), ctypes.addressof(self.variables)
        return Launch(address, buffers, variables, self.size, chunk, count)

    @property
    def counts(self) -> list[int]:
        return list(self.data[: self.size])


@pytest.mark.parametrize("total", [0, 1, 2, 7, 1000])
@pytest.mark.parametrize("chunk", [1, 3, 64, 5000])
@pytest.mark.parametrize("count", [1, 2, 5])
def test_every_element_is_visited_once(kernels: Library, total: int, chunk: int, count: int) -> None:
    work = Work(total)
    for _ in range(3):
        run_launches((Launch * 1)(work.launch(kernels.address("count"), chunk, count)), 1)
    assert work.counts == [3] * total


def test_a_list_runs_in_order(kernels: Library) -> None:
    """Each launch doubles the work of the one before: a later one that overtook would be seen in the counts."""
    works = [Work(size) for size in (1, 100, 1000, 7)]
    launches = [work.launch(kernels.address("count"), 10, 2) for work in works for _ in range(50)]
    run_launches((Launch * len(launches))(*launches), len(launches))
    assert [work.counts for work in works] == [[50] * work.size for work in works]
    run_launches((Launch * 1)(), 0)


def test_several_python_threads_at_once(kernels: Library) -> None:
    works = [Work(500, rounds=50) for _ in range(8)]

    def hammer(work: Work) -> None:
        for _ in range(40):
            run_launches((Launch * 1)(work.launch(kernels.address("slow"), 16, 2)), 1)

    workers = [threading.Thread(target=hammer, args=(work,)) for work in works]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    assert [work.counts for work in works] == [[40] * 500] * 8


@needs_workers
def test_as_many_threads_exist_as_were_asked_for(kernels: Library) -> None:
    work = Work(8)
    run_launches((Launch * 1)(work.launch(kernels.address("count"), 1, 3)), 1)
    assert len(os.listdir("/proc/self/task")) >= 3


@needs_workers
def test_two_threads_work_at_the_same_time(kernels: Library) -> None:
    for pause in (0.0, 0.01):  # workers that look for work, and workers that sleep
        for _ in range(20):
            time.sleep(pause)
            work = Work(2, rounds=1 << 33)
            run_launches((Launch * 1)(work.launch(kernels.address("meet"), 1, 2)), 1)
            assert work.counts == [1, 1]


@needs_workers
def test_workers_take_no_signals(kernels: Library) -> None:
    work = Work(8)
    run_launches((Launch * 1)(work.launch(kernels.address("count"), 1, 2)), 1)
    blocked = [
        line.split()[1]
        for task in Path("/proc/self/task").iterdir()
        for line in (task / "status").read_text().splitlines()
        if line.startswith("SigBlk")
    ]
    assert any(int(mask, 16) & (1 << (signal.SIGINT - 1)) for mask in blocked)


def test_the_setting_says_how_many_threads() -> None:
    with Context(THREADS=3):
        assert thread_count() == 3
    with Context(THREADS=0):
        assert thread_count() == available_cores()


@needs_workers
@pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")  # that is what is tested
def test_a_child_process_makes_its_own_pool(kernels: Library) -> None:
    work = Work(100)
    run_launches((Launch * 1)(work.launch(kernels.address("count"), 1, 2)), 1)
    child = os.fork()
    if child == 0:
        work = Work(1000)
        run_launches((Launch * 1)(work.launch(kernels.address("count"), 10, 2)), 1)
        os._exit(0 if work.counts == [1] * 1000 else 1)
    assert _exit_code(child) == 0
    work = Work(1000)
    run_launches((Launch * 1)(work.launch(kernels.address("count"), 10, 2)), 1)
    assert work.counts == [1] * 1000


def _exit_code(child: int) -> int:
    for _ in range(1000):
        done, status = os.waitpid(child, os.WNOHANG)
        if done:
            return os.waitstatus_to_exitcode(status)
        time.sleep(0.01)
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    return -1


SCRIPT = """
import ctypes, os, signal, sys, threading, time
sys.path[:0] = {folders!r}
from runtime import test_threads as t
kernels = t.kernels.__wrapped__()
def run(work, name, count=2):
    t.run_launches((t.Launch * 1)(work.launch(kernels.address(name), 1, count)), 1)
"""


def _script(body: str) -> subprocess.CompletedProcess[str]:
    folders = [str(Path(__file__).parents[1]), str(Path(whit.__file__).parent.parent)]
    program = SCRIPT.format(folders=folders) + body
    return subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=False)


@pytest.mark.slow
def test_the_interpreter_ends_while_workers_sleep_or_spin() -> None:
    done = _script("run(t.Work(100), 'count')\nprint('end')")
    assert (done.returncode, done.stdout) == (0, "end\n"), done.stderr
    done = _script("run(t.Work(100), 'count')\ntime.sleep(0.1)\nprint('end')")
    assert (done.returncode, done.stdout) == (0, "end\n"), done.stderr


@pytest.mark.slow
def test_the_interpreter_ends_while_another_thread_computes() -> None:
    body = """
work = t.Work(1000, rounds=1000000)
threading.Thread(target=run, args=(work, 'slow'), daemon=True).start()
time.sleep(0.05)
print('end')
"""
    done = _script(body)
    assert (done.returncode, done.stdout) == (0, "end\n"), done.stderr


def test_an_interrupt_is_raised_after_the_call() -> None:
    body = """
signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell may have started the tests with it ignored
run(t.Work(100), 'count')
work = t.Work(8, rounds=4000000)
threading.Timer(0.02, os.kill, (os.getpid(), signal.SIGINT)).start()
try:
    run(work, 'slow')
    time.sleep(5)
except KeyboardInterrupt:
    print('interrupted', work.counts == [1] * 8)
run(t.Work(100), 'count')
print('works')
"""
    done = _script(body)
    assert done.stdout == "interrupted True\nworks\n", done.stderr


@pytest.mark.parametrize("count", [1, 2, 5])
def test_a_group_visits_every_element_of_every_launch_once(kernels: Library, count: int) -> None:
    works = [Work(size) for size in (1, 7, 1000, 2, 64)]
    chunks = [1, 3, 64, 5, 64]
    members = (Launch * 5)(*(w.launch(kernels.address("count"), c, 1) for w, c in zip(works, chunks, strict=True)))
    ends = (ctypes.c_int64 * 5)(1, 4, 20, 21, 22)
    group = Launch(native_kernel("whit_group"), ctypes.addressof(members), ctypes.addressof(ends), 22, 1, count)
    for _ in range(3):
        run_launches((Launch * 1)(group), 1)
    assert [work.counts for work in works] == [[3] * work.size for work in works]


@needs_workers
def test_launches_of_a_group_run_at_once(kernels: Library) -> None:
    """Each launch has one element, and waits for the other one."""
    work = Work(2, rounds=1 << 31)
    other = (ctypes.c_void_p * 1)(ctypes.addressof(work.data))
    first = work.launch(kernels.address("meet"), 1, 1)
    reverse = load_object(compile_llvm(SECOND, host_target()))
    second = Launch(reverse.address("second"), ctypes.addressof(other), ctypes.addressof(work.variables), 1, 1, 1)
    first.total = 1
    members, ends = (Launch * 2)(first, second), (ctypes.c_int64 * 2)(1, 2)
    group = Launch(native_kernel("whit_group"), ctypes.addressof(members), ctypes.addressof(ends), 2, 1, 2)
    run_launches((Launch * 1)(group), 1)
    assert work.counts == [1, 1]


@pytest.mark.parametrize("size", [0, 1, 1000, 100_003])
@pytest.mark.parametrize("count", [1, 4])
def test_a_copy_is_shared_by_threads(size: int, count: int) -> None:
    source = ctypes.create_string_buffer(os.urandom(size), max(size, 1))
    target = ctypes.create_string_buffer(max(size, 1))
    pointers = (ctypes.c_void_p * 2)(ctypes.addressof(target), ctypes.addressof(source))
    copy = Launch(native_kernel("whit_copy"), ctypes.addressof(pointers), 0, size, 4096, count)
    run_launches((Launch * 1)(copy), 1)
    assert target.raw == source.raw


@pytest.mark.parametrize("name", ["CPU:LLVM:x86-64", "CPU:LLVM:aarch64"])
def test_the_pool_compiles_for_every_linux(name: str) -> None:
    code = compile_llvm(pool_text(parse_target(name)), parse_target(name))
    assert set(undefined_symbols(code)) == {"syscall", "memmove"}


def test_without_workers_everything_runs_on_the_calling_thread(kernels: Library) -> None:
    text = pool_text(dataclasses.replace(host_target(), system="darwin"))
    assert "syscall" not in text
    library = load_object(compile_llvm(text, host_target()))
    run = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int64)(library.address("whit_run"))
    work = Work(100)
    launches = (Launch * 2)(*[work.launch(kernels.address("count"), 10, 4)] * 2)
    run(None, ctypes.addressof(launches), 2)
    run(None, ctypes.addressof(launches), 0)
    assert work.counts == [2] * 100


@pytest.mark.slow
def test_machine_code_of_the_pool_can_be_kept() -> None:
    body = """
from whit.runtime.pool import threads
code = threads.pool_object()
threads.use_pool_object(code)
run(t.Work(100), 'count')
print(len(code) > 100)
"""
    done = _script(body)
    assert done.stdout == "True\n", done.stderr
