"""Runs cases through the compiler and says what differs from the interpreter.

find_failures([1, 2, 3])        {seed: what is wrong}
report(seed)                    the smallest part of that case that fails, as text that a test can parse
"""

from __future__ import annotations

import traceback
from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from fuzz.graphs import Case, make_case, stored
from fuzz.native import Native, link, prepare, runnable_targets
from fuzz.tolerance import error_bounds
from whit.codegen.passes.check_bounds import check_bounds
from whit.config import Context
from whit.ir import ops
from whit.ir.check.verify import verify
from whit.ir.interpret import evaluate, numpy_dtype, run
from whit.ir.op import KERNEL, PROGRAM, SCHEDULE
from whit.ir.text.write import to_text
from whit.ir.uop import UOp
from whit.schedule import schedule
from whit.target import Target


def expected_of(case: Case) -> list[Any]:
    """What the interpreter says."""
    with np.errstate(all="ignore"):
        return list(evaluate(UOp.group(*case.outputs), case.inputs))


def compare(case: Case, expected: Sequence[Any], found: Sequence[Any], bounds: Sequence[float]) -> str:
    """What differs, or nothing."""
    for i, (wanted, got, bound) in enumerate(zip(expected, found, bounds, strict=True)):
        bad = _differs(np.asarray(wanted), np.asarray(got), bound)
        if bad.any():
            where = tuple(int(k[0]) for k in np.nonzero(bad)) if bad.ndim else ()
            which = f"output {i} {case.outputs[i].short()}: {int(bad.sum())} of {bad.size} elements differ"
            return f"{which}, first at {where}: {got[where]!r} instead of {wanted[where]!r}, allowed are {bound}"
    return ""


def _differs(wanted: np.ndarray, got: np.ndarray, bound: float) -> np.ndarray:
    if wanted.dtype.kind in "iub":
        return np.asarray(wanted != got)
    a, b = wanted.astype(np.float64), got.astype(np.float64)
    if bound == 0:
        return np.asarray((a != b) & ~(np.isnan(a) & np.isnan(b)))
    with np.errstate(all="ignore"):
        near = np.abs(a - b) <= 4 * bound
    return np.asarray(~near & np.isfinite(a))


def bounds_of(case: Case) -> list[float]:
    """How far each output may be off."""
    if case.mood != "real":
        return [0.0] * len(case.outputs)
    with np.errstate(all="ignore"):
        return error_bounds(case.outputs, case.inputs)


def empty_outputs(case: Case) -> dict[UOp, np.ndarray]:
    """Arrays for the params that the graph stores into, full of something else."""
    places = [store.src[0] for store in case.graph.src]
    return {place: np.full(place.shape, 7).astype(numpy_dtype(place.dtype)) for place in places}


class Attempt:
    """One case on its way through the compiler under one choice of target and settings."""

    def __init__(self, case: Case, linear: UOp, target: Target, noopt: bool, prefix: str) -> None:
        self.case = case
        with Context(NOOPT=int(noopt)):
            self.native: Native = prepare(linear, target, prefix)
        for name, program in self.native.programs.items():
            verify(program.linear, PROGRAM)
            check_bounds(program.linear, name)

    def run(self) -> list[np.ndarray]:
        """The outputs, from compiled code."""
        outputs = empty_outputs(self.case)
        self.native.run({**self.case.inputs, **outputs})
        return list(outputs.values())


def scheduled(case: Case) -> UOp:
    """The schedule of a case, verified."""
    linear = schedule(case.graph)
    verify(linear, SCHEDULE)
    for call in linear.src:
        verify(call.src[0].src[0], KERNEL)
    return linear


def by_interpreter(case: Case, linear: UOp) -> list[np.ndarray]:
    """The outputs, by interpreting the kernels of the schedule."""
    outputs = empty_outputs(case)
    with np.errstate(all="ignore"):
        run(linear, {**case.inputs, **outputs})
    return list(outputs.values())


def failure_of(case: Case, target: Target | None = None, noopt: bool | None = None) -> str:
    """What is wrong with one case, by itself; nothing if it passes."""
    chosen = target or runnable_targets()[0]
    expected, bounds = expected_of(case), bounds_of(case)
    try:
        linear = scheduled(case)
        problem = compare(case, expected, by_interpreter(case, linear), bounds)
        if problem:
            return f"schedule: {problem}"
        for off in (False, True) if noopt is None else (noopt,):
            attempt = Attempt(case, linear, chosen, off, "k")
            link([attempt.native], chosen)
            problem = compare(case, expected, attempt.run(), bounds)
            if problem:
                return f"{'NOOPT ' if off else ''}{chosen}: {problem}"
    except Exception as error:
        return f"{type(error).__name__}: {error}\n{''.join(traceback.format_tb(error.__traceback__)[-3:])}"
    return ""


def find_failures(seeds: Iterable[int], targets: Sequence[Target] = ()) -> dict[int, str]:
    """What is wrong with each of these cases: as few modules as there are targets and settings."""
    failures: dict[int, str] = {}
    targets = targets or runnable_targets()
    batches: dict[tuple[Target, bool], list[tuple[int, Attempt]]] = {}
    wanted: dict[int, tuple[list[Any], list[float]]] = {}
    for seed in seeds:
        try:
            case = make_case(seed)
            linear = scheduled(case)
            wanted[seed] = (expected_of(case), bounds_of(case))
            problem = compare(case, wanted[seed][0], by_interpreter(case, linear), wanted[seed][1])
            if problem:
                failures[seed] = f"schedule: {problem}"
                continue
            for target, noopt in choices(seed, targets):
                attempt = Attempt(case, linear, target, noopt, f"s{seed}_{int(noopt)}")
                batches.setdefault((target, noopt), []).append((seed, attempt))
        except Exception as error:
            failures[seed] = (
                f"{type(error).__name__}: {error}\n{''.join(traceback.format_tb(error.__traceback__)[-3:])}"
            )
    for (target, noopt), batch in batches.items():
        try:
            link([attempt.native for _, attempt in batch], target)
        except Exception:
            for _, attempt in batch:
                attempt.native.library = None  # each by itself, to find out which
        for seed, attempt in batch:
            try:
                if attempt.native.library is None:
                    link([attempt.native], target)
                problem = compare(attempt.case, wanted[seed][0], attempt.run(), wanted[seed][1])
            except Exception as error:
                problem = f"{type(error).__name__}: {error}"
            if problem:
                failures.setdefault(seed, f"{'NOOPT ' if noopt else ''}{target}: {problem}")
    return failures


def choices(seed: int, targets: Sequence[Target]) -> list[tuple[Target, bool]]:
    """Target and NOOPT for the runs of a case: with optimisation for one of the targets, and one run without."""
    return [(targets[seed % len(targets)], False), (targets[0], True)]


# ---- smaller cases


def shrink(case: Case, target: Target | None = None) -> Case:
    """A part of a failing case that still fails: one output, and as many inner nodes as can be turned into params."""
    for node in UOp.group(*case.outputs).topological():
        if node.op in (ops.GROUP, ops.CONST, ops.PARAM, ops.VARIABLE):
            continue
        smaller = _restricted(replace(case, outputs=(node,)))
        if failure_of(smaller, target):
            case = smaller
            break
    changed = True
    while changed:
        changed = False
        for node in case.outputs[0].topological() if len(case.outputs) == 1 else UOp.group(*case.outputs).topological():
            if node.op in (ops.PARAM, ops.CONST, ops.GROUP) or node in case.outputs:
                continue
            cut = _cut(case, node)
            if cut is not None and failure_of(cut, target):
                case, changed = cut, True
                break
    return case


def _restricted(case: Case) -> Case:
    used = set(UOp.group(*case.outputs).topological())
    return replace(case, inputs={node: array for node, array in case.inputs.items() if node in used})


def _cut(case: Case, node: UOp) -> Case | None:
    """The case with a node replaced by a param that holds its value."""
    slot = 1 + max((int(p.arg.slot) for p in case.inputs), default=-1)
    param = UOp.param(slot, node.dtype, node.shape)
    with np.errstate(all="ignore"):
        value = evaluate(node, case.inputs)
    outputs = tuple(output.substitute({node: param}) for output in case.outputs)
    return _restricted(Case(outputs, {**case.inputs, param: np.array(value, numpy_dtype(node.dtype))}, case.mood))


def report(seed: int, target: Target | None = None) -> str:
    """A failing case for a person: what is wrong, the graph, the arrays."""
    targets = runnable_targets()
    case = make_case(seed)
    chosen = target or targets[seed % len(targets)]
    problem = failure_of(case, chosen)
    if problem:
        case = shrink(case, chosen)
        problem = failure_of(case, chosen)
    arrays = "\n".join(f"p{node.arg.slot} = {_spelled(array)}" for node, array in case.inputs.items())
    return f"seed {seed}, mood {case.mood}, {chosen}\n{problem}\n{to_text(stored(case.outputs))}\n{arrays}"


def _spelled(array: np.ndarray) -> str:
    if array.size > 40:
        return f"{array.dtype}{array.shape}"
    return f"np.array({array.tolist()}, {array.dtype!s:.20})"
