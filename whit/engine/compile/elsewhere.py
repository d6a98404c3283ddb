"""Kernels compiled by other processes, one for each core, where there are many: Python runs on one core in a process.

    missed = compile_elsewhere(functions, [], target, done)     # done(number, header, code) for each that was compiled

A process takes 0.16 s to begin, a kernel of a network 40 ms. It has another side: a process that runs a model loads no
compiler, whose memory it would keep (70 MB). Whatever goes wrong elsewhere (there is no Python to be started, a process
was killed, the compiler raises an error) is no error: those kernels are left to the caller.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
from collections import deque
from collections.abc import Callable, Sequence
from contextlib import suppress
from queue import SimpleQueue
from typing import Any, BinaryIO, cast

from whit.config import CHECK_OOB, COMPILERS, VERIFY, settings
from whit.engine.compile.messages import receive, send
from whit.ir.text.write import to_text
from whit.ir.uop import UOp
from whit.records import dataclass
from whit.runtime.pool import threads
from whit.target import Target, parse_target

FEWEST_KERNELS = 8  # that are compiled elsewhere
KERNELS_A_PROCESS = 4  # more processes would take longer to begin than to work
MOST_PROCESSES = 16
NODES_A_PROCESS = 200  # of a graph that is about to be scheduled: a small one has few kernels

PROGRAM = "import sys, json; sys.path[:] = json.loads(sys.argv[1]); from whit.engine.compile.worker import main; main()"

Done = Callable[[int, dict[str, Any], bytes], None]
_Found = tuple[int, dict[str, Any], bytes]


@dataclass(eq=False, slots=True)
class _Worker:
    """A process; `begun` is what it was told first, `is_free` that it has done all that it was given."""

    process: subprocess.Popen[bytes]
    begun: dict[str, Any] | None = None
    is_free: bool = True


_ready: list[_Worker] = []  # those that wait for what they shall compile


def process_count(kernels: int, target: Target) -> int:
    """How many processes so many kernels are worth; 0: they are compiled here. Any number is worth those that wait."""
    most = threads.thread_count() if COMPILERS.value < 0 else COMPILERS.value
    if (kernels < FEWEST_KERNELS and not _ready) or most < 2 or target.renderer != "LLVM":
        return 0
    if not sys.executable or hasattr(sys, "frozen"):
        return 0
    if parse_target(str(target)) != target:  # a machine that is described otherwise than by its name
        return 0
    return max(min(most, kernels // KERNELS_A_PROCESS, MOST_PROCESSES), min(len(_ready), kernels))


def prepare(nodes: int, target: Target) -> None:
    """Starts processes for a graph of so many nodes, while it is scheduled: they are ready when its kernels are."""
    count = min(process_count(FEWEST_KERNELS, target), nodes // NODES_A_PROCESS)
    with suppress(OSError):  # no more processes can be started
        while len(_ready) < count:
            _ready.append(_started())


def is_ready() -> bool:
    """Whether processes wait for something to compile."""
    return bool(_ready)


def forget() -> None:
    """After a fork: those that wait are the other process's."""
    _ready.clear()


def let_go() -> None:
    """Ends those that wait."""
    while _ready:
        _end(_ready.pop())


def compile_elsewhere(functions: Sequence[UOp], sources: Sequence[str], target: Target, done: Done) -> list[int]:
    """Compiles functions, and then sources for LLVM. Calls `done` in this thread for each; gives the numbers of those
    that were not compiled. The processes wait for more, up to `let_go`."""
    tasks = [{"function": to_text(function, types=False)} for function in functions]
    tasks += [{"source": source} for source in sources]
    waiting = deque(enumerate(tasks))
    found: SimpleQueue[_Found | None] = SimpleQueue()
    workers: list[_Worker] = []
    serving: list[threading.Thread] = []
    left = set(range(len(tasks)))
    begin = {"target": str(target), "settings": _settings()}
    is_over = False
    try:
        for _ in range(process_count(len(functions), target)):
            workers.append(_worker(begin))
        for worker in workers:
            thread = threading.Thread(target=_serve, args=(worker, begin, waiting, found), daemon=True)
            thread.start()
            serving.append(thread)
        for _ in workers:
            while (each := found.get()) is not None:
                done(*each)
                left.discard(each[0])
        is_over = True
    except OSError:  # no more processes can be started
        pass
    finally:
        for worker in workers:
            if is_over and worker.is_free:
                _ready.append(worker)
            else:
                worker.process.kill()
        for thread in serving:
            thread.join()
        for worker in workers:
            if worker not in _ready:
                _end(worker)
    return sorted(left)


def _worker(begin: dict[str, Any]) -> _Worker:
    """One that waits, if it was told the same or nothing yet; else a new one."""
    while _ready:
        worker = _ready.pop()
        if worker.begun in (None, begin) and worker.process.poll() is None:
            return worker
        _end(worker)
    return _started()


def _end(worker: _Worker) -> None:
    process = worker.process
    process.kill()
    process.wait()
    for pipe in (process.stdin, process.stdout):
        if pipe is not None:
            with suppress(OSError):  # what was not sent cannot be sent any more
                pipe.close()


def _started() -> _Worker:
    own = {
        setting.setting.name for setting in settings()
    }  # what this one is asked for, others need not print or record
    process = subprocess.Popen(
        [sys.executable, "-S", "-E", *(["-B"] if sys.dont_write_bytecode else []), "-c", PROGRAM, json.dumps(sys.path)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        env={**{name: value for name, value in os.environ.items() if name not in own}, "CACHE": "0"},
    )
    return _Worker(process)


def _serve(
    worker: _Worker,
    begin: dict[str, Any],
    waiting: deque[tuple[int, dict[str, str]]],
    found: SimpleQueue[_Found | None],
) -> None:
    """Gives a process one task after the other."""
    try:
        into, out = cast("BinaryIO", worker.process.stdin), cast("BinaryIO", worker.process.stdout)
        worker.is_free = False
        if worker.begun is None:
            send(into, begin)
            worker.begun = begin
        while True:
            try:
                number, task = waiting.popleft()
            except IndexError:
                worker.is_free = True
                break
            send(into, task)
            message = receive(out)
            if message is None:
                break
            found.put((number, *message))
    except (OSError, ValueError):  # it has ended
        pass
    finally:
        found.put(None)


def _settings() -> dict[str, Any]:
    """The settings that change code, or check it."""
    chosen = [variable for variable in settings() if variable.setting.changes_results]
    return {variable.setting.name: variable.value for variable in (*chosen, VERIFY, CHECK_OOB)}
