"""The search: list, estimate, measure the best by estimate, vary the best by measurement, and again.

    result = search(task, beam=4, seconds=10)
    result.tuned.choice, result.tuned.gain          what was found, and kept; None: the default is best
    result.skipped                                  why there is nothing to search

`beam` is how many of the fastest are varied in a round. It ends when a round has found nothing, when the time is over,
or with Ctrl-C; whatever it has found by then is kept, and the next search goes on where it stopped. No program is run
that is not proven to stay inside its memory, and none counts that is not right (`check`). Times are minima, and the
last word is a race between the fastest and the default, in turns: a machine that does other things too is slow for
both."""

from __future__ import annotations

import hashlib
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from itertools import islice

from whit.codegen.passes.check_bounds import check_bounds
from whit.codegen.pipeline import before_tiling, generate
from whit.codegen.strategy.record import Choice
from whit.codegen.strategy.variants import first_choices, varied
from whit.config import Context
from whit.engine.compile.tune import store
from whit.engine.compile.tune.alone import Alone
from whit.engine.compile.tune.check import Check
from whit.engine.compile.tune.store import Tuned
from whit.engine.compile.tune.task import Runnable, Task
from whit.errors import InternalError, NotSupportedError
from whit.ir import ops
from whit.ir.interpret import run
from whit.ir.uop import UOp
from whit.kernel.estimate import estimate

SECONDS_A_KERNEL = 10.0  # for a kernel, unless told otherwise
SECONDS_A_CANDIDATE = 0.03  # seconds that one candidate is measured for
RACE_SECONDS, LEAST_TURNS = 0.4, 5  # seconds of the race at the end, and how often it is whose turn
SLOW_RATIO = 1.25  # times the best, after which a candidate is not looked at any longer
WORTH_RATIO = 0.98  # of the default's time: what is not faster than that has won by chance
VARIANTS_OF_EACH = 6  # ways in which each of the fastest is varied in a round
INTERPRETED_OPS = 1 << 20  # operations of a kernel that the interpreter computes in a second
UNOPTIMISED_OPS = 1 << 30  # of one that is computed without optimisation
MOST_BYTES = 1 << 31  # of memory that a search may take


@dataclass(frozen=True, slots=True)
class Result:
    """What became of a search."""

    title: str
    tuned: Tuned | None
    measured: int = 0  # candidates, in this search
    wrong: tuple[str, ...] = ()  # how those were tiled that computed something else, and what they got wrong
    failed: int = 0  # that could not be compiled, or not be proven
    skipped: str = ""  # why nothing was searched
    known: bool = False  # whether it was on disk already


@dataclass(slots=True)
class Search:
    """The state of one."""

    task: Task
    body: UOp  # as the pass `tile` sees it
    alone: Alone
    check: Check
    end: float
    times: dict[Choice, float] = field(default_factory=dict)
    programs: dict[Choice, Runnable] = field(default_factory=dict)
    tried: dict[str, None] = field(default_factory=dict)
    measured: int = 0
    wrong: list[str] = field(default_factory=list)
    failed: int = 0

    def try_all(self, choices: list[Choice]) -> bool:
        """Measures those that are new; whether one of them is the fastest so far."""
        before = self.fastest()
        for choice in choices:
            if time.monotonic() > self.end:
                break
            if short(choice) not in self.tried:
                self.try_one(choice)
        return self.fastest() is not before

    def try_one(self, choice: Choice) -> None:
        """Compiles, proves, checks and measures one."""
        self.tried[short(choice)] = None
        try:
            with Context(CHECK_OOB=1, DEBUG=0, BEAM=0):
                program = self.task.build(choice.text)
        except Exception:  # whatever a pass says about a tiling that nobody has chosen before
            self.failed += 1
            return
        problem = self.check.problem(program)
        if problem:
            self.wrong.append(f"{_tiled(program)}: {problem}")
            return
        self.measured += 1
        self.check.fill()
        best = min(self.times.values())
        self.times[choice] = self.alone.best_seconds(program, SECONDS_A_CANDIDATE, best * SLOW_RATIO)
        self.programs[choice] = program

    def fastest(self) -> Choice:
        """The one with the least time."""
        return min(self.times, key=lambda choice: self.times[choice])

    def race(self, default: Choice) -> tuple[Choice, float, float]:
        """The winner, its time and that of the default, measured in turns."""
        best = self.fastest()
        if best == default:
            return default, self.times[default], self.times[default]
        self.check.fill()
        times = {best: float("inf"), default: float("inf")}
        end, turns = time.monotonic() + RACE_SECONDS, 0
        while turns < LEAST_TURNS or time.monotonic() < end:
            turns += 1
            for choice in times:
                times[choice] = min(times[choice], self.alone.best_seconds(self.programs[choice], 0.0))
        if times[best] > WORTH_RATIO * times[default]:
            return default, times[default], times[default]
        return best, times[best], times[default]


def search(task: Task, beam: int, seconds: float = SECONDS_A_KERNEL, tell: Callable[[str], object] = len) -> Result:
    """Searches for at most `seconds`, and keeps what it finds. `tell` is called with how it goes."""
    title = str(task.function.arg.name)
    known = store.find(task.key)
    if known is not None and known.beam >= beam:
        return Result(title, known, known=True)
    body = before_tiling(task.body, task.target)
    choices = [] if body is None or _has_symbols(task.body) else first_choices(body, task.target)
    if not choices or body is None:
        return Result(title, None, skipped="there is nothing to choose from")
    try:
        state = _start(task, body, choices[0], time.monotonic() + seconds)
    except _SkipError as reason:
        return Result(title, None, skipped=str(reason))
    default, is_complete = choices[0], False
    try:
        if known is not None:
            state.tried |= dict.fromkeys(known.tried)
            if known.choice is not None:
                state.try_one(Choice(known.choice))
        for _ in _rounds(state, choices, beam):
            tell(_told(state, default))
            _kept(state, default, title, 0)  # a process that is killed loses no more than a round
        is_complete = time.monotonic() < state.end
    finally:  # also on Ctrl-C
        tuned = _kept(state, default, title, beam if is_complete else 0)
    return Result(title, tuned, state.measured, tuple(state.wrong), state.failed)


def _rounds(state: Search, choices: list[Choice], beam: int) -> Iterator[None]:
    """Measures, and yields whenever something faster was found; ends when the time does, or when nothing is left."""
    ranked = iter([choice for choice in choices if short(choice) not in state.tried])
    while time.monotonic() < state.end:
        new = list(islice(ranked, 4 * beam))
        fastest = sorted(state.times, key=lambda choice: state.times[choice])[:beam]
        for choice in fastest:
            new += varied(choice, state.body, state.task.target)[:VARIANTS_OF_EACH]
        if state.try_all(list(dict.fromkeys(new))):
            yield
        else:
            return


class _SkipError(Exception):
    """A kernel that is not to be tuned, and why."""


def _start(task: Task, body: UOp, default: Choice, end: float) -> Search:
    """Memory, reference and the time of the default; a _SkipError where one of them cannot be had."""
    with Context(DEBUG=0, BEAM=0):
        try:
            if check_bounds(generate(task.body, task.target).linear):
                raise _SkipError("what it reads depends on data")
        except (InternalError, NotSupportedError) as error:
            raise _SkipError(f"it cannot be proven to stay in bounds: {error.what}") from None
        cost = estimate(task.body)
        if cost.bytes_moved > MOST_BYTES:
            raise _SkipError("it takes too much memory")
        alone = Alone(task.body)
        program = task.build(None)
        check = Check(task.body, alone, _reference(task, cost.operations, program))
        problem = check.problem(program)
    if problem:
        raise _SkipError(f"the default program is not like the reference {problem}")
    state = Search(task, body, alone, check, end)
    check.fill()
    state.times[default] = alone.best_seconds(program, 2 * SECONDS_A_CANDIDATE)
    state.programs[default] = program
    state.tried[short(default)] = None
    return state


def _reference(task: Task, work: int, default: Runnable) -> Callable[[Alone], None]:
    """Fills the memory with what the kernel should compute."""
    if work <= INTERPRETED_OPS:
        return lambda alone: _interpret(task.body, alone)
    if work > UNOPTIMISED_OPS:
        return lambda alone: alone.run(default)
    with Context(NOOPT=1):
        plain = task.build(None)
    return lambda alone: alone.run(plain)


def _interpret(body: UOp, alone: Alone) -> None:
    run(body, {param: alone.arrays[slot] for slot, param in alone.params.items()})


def _kept(state: Search, default: Choice, title: str, beam: int) -> Tuned:
    best, seconds, of_default = state.race(default)
    choice = None if best == default else best.text
    tuned = Tuned(title, str(state.task.target), choice, seconds, of_default, beam, tuple(state.tried))
    store.keep(state.task.key, tuned)
    return tuned


def _told(state: Search, default: Choice) -> str:
    gain = state.times[default] / state.times[state.fastest()]
    return f"{state.measured} measured, {gain:.2f} x the default"


def _tiled(program: Runnable) -> str:
    """How a candidate is tiled, on one line."""
    return "; ".join(line for line in program.explanation.splitlines() if line != "tuned")


def _has_symbols(body: UOp) -> bool:
    return any(node.op is ops.VARIABLE for node in body.topological())


def short(choice: Choice) -> str:
    """A name of a choice that is short enough for a list."""
    return hashlib.sha256(choice.text.encode()).hexdigest()[:12]
