"""`python -m whit tune PROGRAM.py`: a search for faster kernels, whose results are used from then on."""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import runpy
import sys
import time
import traceback
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from whit.cli.answer import OK, PROBLEM, STOPPED, Answer, UsageError, columns, spell_count
from whit.cli.bench_works import works
from whit.config import CACHE, NOOPT, Context
from whit.engine.compile.compile import CompiledKernel, linked_kernels, task_of
from whit.engine.compile.tune import store
from whit.engine.compile.tune.search import Result, search
from whit.engine.compile.tune.task import Task
from whit.errors import WhitError
from whit.progress import tqdm
from whit.target import Target
from whit.tensor import Tensor

SECONDS, WIDTH = 60.0, 4
SHOWN_CANDIDATES = 8  # candidates that computed something else


@dataclass(frozen=True, slots=True)
class Row:
    """What became of one kernel; without a result if the time was over before."""

    kernel: str
    result: Result | None

    @property
    def status(self) -> str:
        """What became of it, in a word or two."""
        if self.result is None:
            return "not reached"
        if self.result.skipped:
            return "skipped"
        tuned = self.result.tuned
        found = "default is best" if tuned is None or tuned.choice is None else "faster"
        if self.result.known:
            return f"known: {found}"
        return found if tuned is not None and tuned.beam else f"unfinished: {found}"

    def data(self) -> dict[str, Any]:
        """For --json."""
        result = self.result
        tuned = None if result is None else result.tuned
        return {
            "kernel": self.kernel,
            "status": self.status,
            "default_us": None if tuned is None else tuned.default_seconds * 1e6,
            "best_us": None if tuned is None else tuned.seconds * 1e6,
            "gain": None if tuned is None else tuned.gain,
            "measured": 0 if result is None else result.measured,
            "wrong": [] if result is None else list(result.wrong),
            "failed": 0 if result is None else result.failed,
            "skipped": "" if result is None else result.skipped,
            "choice": None if tuned is None or tuned.choice is None else json.loads(tuned.choice),
        }

    def text(self) -> tuple[str, ...]:
        """For people."""
        result = self.result
        tuned = None if result is None else result.tuned
        if result is None or tuned is None:
            why = "" if result is None else f": {result.skipped}"
            return (self.kernel, "", "", "", "", self.status + why)
        times = (f"{tuned.default_seconds * 1e6:.1f}", f"{tuned.seconds * 1e6:.1f}", f"{tuned.gain:.2f}")
        return (self.kernel, *times, str(result.measured), self.status)


def configure(parser: argparse.ArgumentParser) -> None:
    """The arguments."""
    parser.usage = "python -m whit tune [-h] [--json] [--seconds S] [--beam N] [--kernel NAME] (PROGRAM ... | --bench)"
    parser.description = """\
Runs a program, and searches for faster tilings of the kernels that it uses, those with most work first. Each candidate
is proven to stay inside its memory, compared with a reference on random and on nasty inputs, and then timed. What is
faster than the default is kept on disk, and used whenever the same kernel is compiled for this machine again, by this
version.

Ctrl-C stops it and loses nothing; the next call goes on, and searches no kernel twice. `python -m whit cache list
tuned` shows what was found, `cache clear tuned` removes it. What the program prints goes to standard error."""
    parser.add_argument("program", nargs="?", metavar="PROGRAM", help="a Python file; what follows are its arguments")
    parser.add_argument("args", nargs=argparse.REMAINDER, help=argparse.SUPPRESS)
    parser.add_argument(
        "--bench", action="store_true", help="the works of `python -m whit bench` in place of a program"
    )
    parser.add_argument("--quick", action="store_true", help="with --bench: on tiny inputs")
    parser.add_argument("--seconds", type=_seconds, default=SECONDS, metavar="S", help=f"in all; {SECONDS:g}")
    parser.add_argument("--beam", type=_width, default=WIDTH, metavar="N", help=f"how wide it searches; {WIDTH}")
    parser.add_argument("--kernel", metavar="NAME", help="only kernels with this in their name")


def _seconds(text: str) -> float:
    try:
        number = float(text)
    except ValueError:
        number = -1.0
    if not 0 <= number <= 1e6:
        raise argparse.ArgumentTypeError(f'"{text}" is no number of seconds')
    return number


def _width(text: str) -> int:
    if not text.isdecimal() or not 1 <= int(text) <= 1000:
        raise argparse.ArgumentTypeError(f'"{text}" is no number from 1 to 1000')
    return int(text)


def run(options: argparse.Namespace) -> Answer:
    """The command."""
    if (options.program is None) != options.bench:
        raise UsageError("give a program, or --bench")
    if not CACHE:
        raise UsageError("CACHE=0 is set: what is found could not be kept")
    if NOOPT:
        raise UsageError("NOOPT=1 is set: kernels are not tiled at all")
    with Context(BEAM=0), contextlib.redirect_stdout(sys.stderr):
        if options.bench:
            _run_works(options.quick)
        else:
            _run_program(options.program, options.args)
    found = _by_work(options.kernel)
    if not found:
        which = f' with "{options.kernel}" in its name' if options.kernel else ""
        return Answer({**_data(options, [], False)}, f"the program runs no kernel{which} on this processor", PROBLEM)
    rows, is_stopped = _search(found, options.beam, options.seconds)
    text = _table(rows, options.beam, is_stopped)
    return Answer(_data(options, rows, is_stopped), text, STOPPED if is_stopped else OK)


def _data(options: argparse.Namespace, rows: list[Row], is_stopped: bool) -> dict[str, Any]:
    return {
        "program": options.program,
        "beam": options.beam,
        "seconds": options.seconds,
        "stopped": is_stopped,
        "kernels": [row.data() for row in rows],
    }


# ---- what there is to tune


def _run_program(path: str, arguments: list[str]) -> None:
    """As `python PROGRAM ...` would."""
    if not os.path.isfile(path):
        raise UsageError(f"there is no file {path}")
    with _as_main(path, arguments):
        try:
            runpy.run_path(path, run_name="__main__")
        except SystemExit as ended:
            if ended.code:
                raise UsageError(f"the program ended with {ended.code!r}") from None
        except WhitError:
            raise
        except Exception as error:  # whatever is wrong with the program, it is not whit's
            raise WhitError(f"tune: {path} fails: {type(error).__name__}: {error}", traceback.format_exc()) from error


@contextlib.contextmanager
def _as_main(path: str, arguments: list[str]) -> Iterator[None]:
    argv, folders = sys.argv, sys.path[:]
    sys.argv = [path, *arguments]
    sys.path.insert(0, os.path.dirname(os.path.abspath(path)))
    try:
        yield
    finally:
        sys.argv, sys.path[:] = argv, folders


def _run_works(is_quick: bool) -> None:
    for work in works(is_quick):
        inputs = [Tensor(np.ones(shape, np.float32), device="CPU").realize() for shape in work.shapes]
        Tensor.realize(*work.ours(*inputs))


def _by_work(name: str | None) -> list[tuple[CompiledKernel, Target]]:
    """The kernels of this process, that with most work first."""
    found = [
        (kernel, target)
        for kernel, target in linked_kernels()
        if kernel.graph is not None and (name is None or name in kernel.graph.arg.name)
    ]
    return sorted(found, key=lambda pair: -(pair[0].ops + pair[0].bytes_read + pair[0].bytes_written))


# ---- the search


def _search(found: list[tuple[CompiledKernel, Target]], beam: int, seconds: float) -> tuple[list[Row], bool]:
    """One kernel after the other, each with its share of the time that is left; whether Ctrl-C came."""
    end = time.monotonic() + seconds
    rows: list[Row] = []
    bar: tqdm[Row] = tqdm(desc="tune", total=len(found))
    with bar:
        for number, (kernel, target) in enumerate(found):
            title, left = _title(kernel), end - time.monotonic()
            if left <= 0:
                rows.append(Row(title, None))
                continue
            bar.set_description(f"tune: {title}")
            task, share = _task(kernel, target), left / (len(found) - number)
            try:
                result = search(task, beam, share, lambda text: bar.set_description(f"tune: {text}"))
            except KeyboardInterrupt:
                kept = store.find(task.key)
                rows.append(Row(title, None if kept is None else Result(title, kept)))
                rows += [Row(_title(other), None) for other, _ in found[number + 1 :]]
                return rows, True
            rows.append(Row(title, result))
            bar.update()
        bar.set_description("tune")
    return rows, False


def _title(kernel: CompiledKernel) -> str:
    assert kernel.graph is not None, "only kernels with a graph are tuned"
    return str(kernel.graph.arg.name)


def _task(kernel: CompiledKernel, target: Target) -> Task:
    assert kernel.graph is not None, "only kernels with a graph are tuned"
    return task_of(kernel.graph, target)


def _table(rows: list[Row], beam: int, is_stopped: bool) -> str:
    lines = columns(
        [("kernel", "default us", "best us", "gain", "measured", ""), *(row.text() for row in rows)],
        right=(1, 2, 3, 4),
        indent="",
    )
    faster = sum(row.status.endswith("faster") for row in rows)
    wrong = [f"  {row.kernel}, {text}" for row in rows if row.result is not None for text in row.result.wrong]
    lines += ["", f"{spell_count(len(rows), 'kernel')}, {faster} faster than by default; beam {beam}"]
    if wrong:
        lines.append(f"{spell_count(len(wrong), 'candidate')} computed something else, and did not count:")
        lines += wrong[:SHOWN_CANDIDATES]
        lines += [f"  and {len(wrong) - SHOWN_CANDIDATES} more"] if len(wrong) > SHOWN_CANDIDATES else []
    if is_stopped or any(row.status.startswith(("not", "unfinished")) for row in rows):
        lines.append("Not complete: the same command goes on where this one ended.")
    return "\n".join(lines)
