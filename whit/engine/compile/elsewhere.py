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
from whit.runtime.pool import threads
from whit.target import Target, parse_target

FEWEST_KERNELS = 8  # that are compiled elsewhere
KERNELS_A_PROCESS = 4  # more processes would take longer to begin than to work
MOST_PROCESSES = 16

PROGRAM = "import sys, json; sys.path[:] = json.loads(sys.argv[1]); from whit.engine.compile.worker import main; main()"

Done = Callable[[int, dict[str, Any], bytes], None]
_Found = tuple[int, dict[str, Any], bytes]


def process_count(kernels: int, target: Target) -> int:
    """How many processes so many kernels are worth; 0: they are compiled here."""
    most = threads.thread_count() if COMPILERS.value < 0 else COMPILERS.value
    if (
        kernels < FEWEST_KERNELS
        or most < 2
        or target.renderer != "LLVM"
        or not sys.executable
        or hasattr(sys, "frozen")
    ):
        return 0
    if parse_target(str(target)) != target:  # a machine that is described otherwise than by its name
        return 0
    return min(most, kernels // KERNELS_A_PROCESS, MOST_PROCESSES)


def compile_elsewhere(functions: Sequence[UOp], sources: Sequence[str], target: Target, done: Done) -> list[int]:
    """Compiles functions, and then sources for LLVM. Calls `done` in this thread for each; gives the numbers of those
    that were not compiled."""
    tasks = [{"function": to_text(function, types=False)} for function in functions]
    tasks += [{"source": source} for source in sources]
    waiting = deque(enumerate(tasks))
    found: SimpleQueue[_Found | None] = SimpleQueue()
    processes: list[subprocess.Popen[bytes]] = []
    serving: list[threading.Thread] = []
    left = set(range(len(tasks)))
    begin = {"target": str(target), "settings": _settings()}
    try:
        for _ in range(process_count(len(functions), target)):
            processes.append(_started())
        for process in processes:
            thread = threading.Thread(target=_serve, args=(process, begin, waiting, found), daemon=True)
            thread.start()
            serving.append(thread)
        for _ in processes:
            while (each := found.get()) is not None:
                done(*each)
                left.discard(each[0])
    except OSError:  # no more processes can be started
        pass
    finally:
        for process in processes:
            process.kill()
        for thread in serving:
            thread.join()
        for process in processes:
            _close(process)
    return sorted(left)


def _close(process: subprocess.Popen[bytes]) -> None:
    process.wait()
    for pipe in (process.stdin, process.stdout):
        if pipe is not None:
            with suppress(OSError):  # what was not sent cannot be sent any more
                pipe.close()


def _started() -> subprocess.Popen[bytes]:
    own = {
        setting.setting.name for setting in settings()
    }  # what this one is asked for, others need not print or record
    return subprocess.Popen(
        [sys.executable, "-S", "-E", *(["-B"] if sys.dont_write_bytecode else []), "-c", PROGRAM, json.dumps(sys.path)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        env={**{name: value for name, value in os.environ.items() if name not in own}, "CACHE": "0"},
    )


def _serve(
    process: subprocess.Popen[bytes],
    begin: dict[str, Any],
    waiting: deque[tuple[int, dict[str, str]]],
    found: SimpleQueue[_Found | None],
) -> None:
    """Gives a process one task after the other."""
    try:
        into, out = cast("BinaryIO", process.stdin), cast("BinaryIO", process.stdout)
        send(into, begin)
        while True:
            number, task = waiting.popleft()
            send(into, task)
            message = receive(out)
            if message is None:
                break
            found.put((number, *message))
    except (OSError, ValueError, IndexError):  # it has ended, or nothing is left
        pass
    finally:
        found.put(None)


def _settings() -> dict[str, Any]:
    """The settings that change code, or check it."""
    chosen = [variable for variable in settings() if variable.setting.changes_results]
    return {variable.setting.name: variable.value for variable in (*chosen, VERIFY, CHECK_OOB)}
