"""Random programs of the public API against NumPy: `python tests/fuzz/api.py --seconds 600 --seed 0`.

    python tests/fuzz/api.py --only 1234        the program of one number, and what is wrong with it
    python tests/fuzz/api.py --shrink 1234      the smallest part of it that is still wrong, to be pasted

Programs run in child processes, so that one which crashes or hangs is reported like any other. What fails is made
smaller and printed as a program; the last line counts.
"""

from __future__ import annotations

import argparse
import os
import pickle
import re
import resource
import signal
import sys
import time
import traceback
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

sys.path.insert(0, str(Path(__file__).parent.parent))
os.environ.setdefault("VERIFY", "1")
os.environ.setdefault("CHECK_PLAN", "1")

from fuzz import api_meaning as M
from fuzz.api_programs import (
    Block,
    Program,
    Step,
    alive_at_end,
    derivatives_of,
    direction,
    make_program,
    reference_of,
    text_of,
)
from whit import Tensor, TinyJit
from whit.errors import InternalError, WhitError

MOST_SECONDS = 60  # of one program
HEADER = """import numpy as np
from fuzz import api_meaning as M  # small whole numbers, and numbers between -1.5 and 1.5
from whit import Tensor, TinyJit
"""


# ---- one program


def run(program: Program) -> tuple[list[tuple[str, np.ndarray]], dict[str, Any]]:
    """What is seen on the way and at the end, and all names; gradients are arrays."""
    seen: list[tuple[str, np.ndarray]] = []
    scope: dict[str, Any] = {"np": np, "M": M, "Tensor": Tensor, "TinyJit": TinyJit, "dtype": program.dtype}
    scope["look"] = lambda name, x: seen.append((name, np.array(x)))
    exec(compile(text_of(program), "<program>", "exec"), scope)
    if not program.is_captured:
        seen += [(name, scope[name].numpy()) for name in alive_at_end(program)]
    for order in range(program.orders if program.losses else 0):
        for name in program.targets:
            scope["gh"[order] + name] = scope["gh"[order] + name].numpy()
    return seen, scope


def problem_of(program: Program) -> str:
    """What is wrong with it, or nothing. The first word says what kind of problem it is."""
    expected = reference_of(program)
    if expected is None:
        return ""
    derivatives = derivatives_of(program) if program.losses else None
    if program.losses and derivatives is None:
        return ""
    try:
        seen, scope = run(program)
    except Exception as error:
        kind = "internal" if isinstance(error, InternalError) or not isinstance(error, WhitError) else "error"
        return f"{kind}: {type(error).__name__}: {str(error).splitlines()[0] if str(error) else ''}"
    for (name, wanted), (_, got) in zip(expected, seen, strict=not program.is_captured):
        problem = difference(name, wanted, got, exact=program.mood == "exact")
        if problem:
            return f"wrong: {problem}"
    if derivatives is not None:
        for order, wanted_slope in zip(range(1, program.orders + 1), derivatives, strict=False):
            parts = [
                scope["gh"[order - 1] + name] * eval(direction(program, name, order), scope) for name in program.targets
            ]
            slope, size = sum(float(part.sum()) for part in parts), sum(float(np.abs(part).sum()) for part in parts)
            allowed = (1e-9, 3e-5)[order - 1] * (1 + size + abs(wanted_slope))
            if not abs(slope - wanted_slope) <= allowed:
                return f"wrong: derivative {order} is {slope}, not {wanted_slope}"
    return ""


def difference(name: str, wanted: np.ndarray, got: np.ndarray, exact: bool) -> str:
    """What differs, or nothing."""
    if wanted.shape != got.shape or wanted.dtype != got.dtype:
        return f"{name} is {got.dtype}{got.shape}, not {wanted.dtype}{wanted.shape}"
    with np.errstate(all="ignore"):
        allowed = 0.0 if exact else 1e-9 * (1 + np.abs(wanted).max(initial=0))
        bad = ~(np.abs(wanted - got) <= allowed)
    if not bad.any():
        return ""
    where = tuple(int(k[0]) for k in np.nonzero(bad)) if bad.ndim else ()
    return f"{name}: {int(bad.sum())} of {bad.size} differ, first at {where}: {got[where]!r}, not {wanted[where]!r}"


def kind_of(problem: str) -> str:
    """Problems of one kind are taken for the same one."""
    return "wrong" if problem.startswith("wrong") else re.sub(r"\d+|\b[a-z_]*v\d\w*", "N", problem)[:90]


# ---- in processes of their own


def in_child(function: Callable[[], Any], seconds: float) -> Any:
    """The result of a function, computed in a child; a string if that crashed or took so many seconds of a core."""
    reader, writer = os.pipe()
    sys.stdout.flush()
    child = os.fork()
    if child == 0:
        os.close(reader)
        signal.signal(signal.SIGALRM, signal.SIG_DFL)
        signal.alarm(10 * int(seconds))  # of waiting for something, on a machine that does much else
        resource.setrlimit(resource.RLIMIT_CPU, (int(seconds), int(seconds) + 5))
        try:
            result = function()
        except BaseException:
            result = f"internal: {traceback.format_exc(limit=-2)}"
        with os.fdopen(writer, "wb") as pipe:
            pickle.dump(result, pipe)
        os._exit(0)
    os.close(writer)
    with os.fdopen(reader, "rb") as pipe:
        data = pipe.read()
    _, status = os.waitpid(child, 0)
    if os.WIFSIGNALED(status):
        number = os.WTERMSIG(status)
        is_long = number in (signal.SIGALRM, signal.SIGXCPU)
        return "hangs: too long" if is_long else f"crash: signal {number}"
    return pickle.loads(data)


def problems_of(seeds: list[int]) -> dict[int, str]:
    """Those of many programs, in one child if that survives."""
    found = in_child(lambda: {seed: problem_of(make_program(seed)) for seed in seeds}, MOST_SECONDS + 2 * len(seeds))
    if isinstance(found, dict):
        return {seed: problem for seed, problem in found.items() if problem}
    if len(seeds) == 1:
        return {seeds[0]: found}
    return {seed: problem for one in seeds for seed, problem in problems_of([one]).items()}


# ---- smaller


def shrink(program: Program, kind: str, seconds: float = 120) -> tuple[Program, str]:
    """The smallest program that has the same kind of problem, and that problem."""
    end = time.monotonic() + seconds
    problem = in_child(lambda: problem_of(program), MOST_SECONDS)
    again = True
    while again and time.monotonic() < end:
        again = False
        for smaller in _smaller(program):
            if time.monotonic() > end:
                break
            found = in_child(lambda: problem_of(smaller), MOST_SECONDS)  # noqa: B023
            if found and kind_of(found) == kind:
                program, problem, again = smaller, found, True
                break
    return program, problem


def _smaller(program: Program) -> Iterator[Program]:
    """Programs with less in them, those with much less first."""
    steps = program.steps
    for i in range(1, len(steps)):
        if i in (len(steps) // 4, len(steps) // 2, len(steps) * 3 // 4, len(steps) - 1):
            yield from _checked(program, steps[:i])
    for i in reversed(range(len(steps))):
        yield from _checked(program, _without(steps, i))
    for i, step in enumerate(steps):
        if isinstance(step, Block):
            for fewer in _smaller_block(step):
                yield from _checked(program, (*steps[:i], *fewer, *steps[i + 1 :]))
    if program.is_captured:
        yield replace(program, is_captured=False)
    if program.orders > 1:
        yield replace(program, orders=1)
    for kept in (program.losses[:1], program.losses[1:]):
        if kept and kept != program.losses:
            yield replace(program, losses=kept)
    if len(program.targets) > 1:
        yield replace(program, targets=program.targets[:1])
        yield replace(program, targets=program.targets[1:])
    for name in program.ends:
        yield replace(program, ends=tuple(end for end in program.ends if end != name))
    if program.mood == "exact":
        yield from _cut(program)


def _smaller_block(block: Block) -> Iterator[tuple[Step | Block, ...]]:
    """What may stand in the place of a captured function: its body, or the function with fewer calls or steps."""
    yield block.body
    for call in range(len(block.calls) - 1):
        yield (replace(block, calls=block.calls[:call] + block.calls[call + 1 :]),)
    for k in range(len(block.body)):
        gone = set(block.body[k].gives)
        body = tuple(s for j, s in enumerate(block.body) if j != k and not gone & {*s.takes})
        if body and not gone & set(block.results):
            yield (replace(block, body=body),)


def _without(steps: tuple[Step | Block, ...], which: int) -> tuple[Step | Block, ...]:
    """The steps without one, and without those that need its results."""
    gone = set(steps[which].gives)
    kept = list(steps[:which])
    for step in steps[which + 1 :]:
        if gone & set(step.takes):
            gone |= set(step.gives)
        else:
            kept.append(step)
    return tuple(kept)


def _checked(program: Program, steps: tuple[Step | Block, ...]) -> Iterator[Program]:
    """The program with other steps, if it still means something."""
    made = replace(program, steps=steps)
    alive = alive_at_end(made)
    if not alive or not set(program.targets) <= set(alive):
        return
    losses = tuple(name for name in program.losses if name in alive) or tuple(alive[-1:] if program.losses else ())
    made = replace(made, losses=losses, ends=tuple(name for name in program.ends if name in alive))
    if made.steps != program.steps and reference_of(made) is not None:
        yield made


def _cut(program: Program) -> Iterator[Program]:
    """A value given as numbers instead of computed."""
    steps = program.steps
    for i in reversed(range(len(steps))):
        step = steps[i]
        if not isinstance(step, Step) or step.kind != "value" or not step.takes:
            continue
        values = dict(reference_of(replace(program, steps=steps[: i + 1])) or [])
        name = step.gives[0]
        if name in values and values[name].size <= 64:
            data = f"np.array({values[name].tolist()}, dtype)"
            cut = Step(f"{name} = Tensor({data})", f"{name} = {data}", step.gives)
            yield from _checked(program, (*steps[:i], cut, *steps[i + 1 :]))


def report(seed: int, program: Program, problem: str) -> str:
    """What can be pasted."""
    kind = f"---- seed {seed}: {problem}"
    return f'{kind}\n{HEADER}dtype = "{program.dtype}"\n{text_of(program)}\n'


# ---- by hand


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seed", type=int, default=0, help="the first program")
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--batch", type=int, default=20, help="programs of one process")
    parser.add_argument("--only", type=int, help="one program, as it was made")
    parser.add_argument("--shrink", type=int, help="one program, made smaller")
    parser.add_argument("--leave-out", default="", help="programs with a line like this are not run: a known problem")
    parser.add_argument("--keep", type=int, default=2, help="how many of a kind are made smaller")
    given = parser.parse_args()
    if given.only is not None:
        print(report(given.only, make_program(given.only), str(problems_of([given.only]))))
        return 0
    if given.shrink is not None:
        problem = problems_of([given.shrink]).get(given.shrink, "")
        print(report(given.shrink, *shrink(make_program(given.shrink), kind_of(problem), 600)) if problem else "right")
        return bool(problem)
    start, seed, count, kinds = time.monotonic(), given.seed, 0, dict[str, int]()
    while time.monotonic() - start < given.seconds:
        seeds = list(range(seed, seed + given.batch))
        if given.leave_out:
            seeds = [one for one in seeds if not re.search(given.leave_out, text_of(make_program(one)))]
        count += len(seeds)
        for bad, problem in problems_of(seeds).items():
            kind = kind_of(problem)
            kinds[kind] = kinds.get(kind, 0) + 1
            if kinds[kind] <= given.keep or kind == "wrong":
                print(report(bad, *shrink(make_program(bad), kind)), flush=True)
        seed += given.batch
    bad = sum(kinds.values())
    print(f"{count} programs from {given.seed} on, {bad} wrong, {time.monotonic() - start:.0f} s")
    for kind, times in sorted(kinds.items(), key=lambda item: -item[1]):
        print(f"{times:6} {kind}")
    return bool(bad)


if __name__ == "__main__":
    sys.exit(main())
