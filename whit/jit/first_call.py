"""The first call of a function for arguments of a kind: it is traced, and what the trace has left becomes a program.

Goes in: the function and its arguments. Comes out: a `Replay`, what to compare before each of its runs (a
`FunctionGuards`), and whether the function has changed something that a replay would not.
"""

from __future__ import annotations

import gc
import sys
from collections.abc import Callable
from typing import Any

from whit.engine.devices.device import Device
from whit.engine.programs.trace import Trace
from whit.errors import JitError
from whit.jit.capture import NeedsViewsError, capture
from whit.jit.guards import FunctionGuards
from whit.jit.library_calls import refusing_calls
from whit.jit.replayer import Replay
from whit.jit.signature import Arguments, result_of
from whit.records import dataclass


@dataclass(frozen=True, slots=True)
class Found:
    """A captured function. `change`: it has changed something besides tensors, and its program runs once, for the call
    that has done that; the error is for functions that do so in every call. `result` is what this call returns."""

    replay: Replay
    watch: FunctionGuards
    change: JitError | None
    result: Any


@dataclass(frozen=True, slots=True)
class FirstCall:
    """A call of a function that no program stands for yet."""

    name: str
    function: Callable[..., Any]
    args: tuple[Any, ...]
    kwargs: dict[str, Any]
    arguments: Arguments
    prune: bool
    donate: tuple[int | str, ...]

    def capture(self, views: bool) -> Found:
        """The program of the function. `views`: arguments that are views are seen as views from the start."""
        try:
            return self._captured(views)
        except NeedsViewsError:
            return self._captured(True)

    def _captured(self, views: bool) -> Found:
        objects = self.arguments.objects
        roots = {self.name: self.function} | {f"argument {i}": value for i, value in enumerate(objects)}
        watch, trace, default = FunctionGuards(roots), Trace(self.name, views), self._default_device()
        for tensor in self.arguments.tensors:
            if id(tensor) not in watch.tensors:  # else the function may read it without being given it
                trace.arguments[id(tensor)] = tensor._wanted or default
        result = self._traced(trace, watch)
        change = _change_of(self.name, watch, trace, result)
        if change is None:
            watch = self._settled(watch, roots, trace)
        named = dict(enumerate(self.args)) | self.kwargs
        donated = [named[name] for name in self.donate if hasattr(named.get(name), "uop")]
        kept = None if change is None else trace.alive()
        try:
            replay = capture(
                trace, self.arguments.tensors, result, default, self.prune, donated, kept, self.arguments.names
            )
        except NeedsViewsError:
            if change is not None:  # the function has done what it does once
                raise change from None
            raise
        self._check_values(replay)
        return Found(replay, watch, change, result)

    def _check_values(self, replay: Replay) -> None:
        """A variable that is an argument has no other values in a function: where one happens to be the same, nobody
        could say which of the two it is."""
        for part in replay.program.parts:
            several = part.graph.again & self.arguments.bindings.keys() if part.graph is not None else None
            if several:
                raise JitError(
                    f"{self.name}: {', '.join(sorted(several))} has several values, not all of them arguments",
                    fix="Use another variable for what is bound in the function.",
                )

    def _default_device(self) -> str:
        """That of the first argument that has one."""
        return next((t.uop.device for t in self.arguments.tensors if t.uop.device is not None), Device.DEFAULT)

    def _traced(self, trace: Trace, watch: FunctionGuards) -> Any:
        """What the function returns, run on tensors without data."""

        def run() -> Any:
            for tensor in self.arguments.tensors:
                trace.entry(tensor)
            returned = self.function(*self.args, **self.kwargs)
            trace.check()
            return returned

        draws = _python_draws()
        result = trace.run(refusing_calls(trace, run) if watch.may_ask() else run)
        if not _is_same_state(draws, _python_draws()):
            raise JitError(
                f"{self.name}: the function draws random numbers of Python or a library, which a replay would repeat",
                fix="Use Tensor.rand() and the like, which a replay draws anew; or pass the number as an argument.",
            )
        return result

    def _settled(self, watch: FunctionGuards, roots: dict[str, Any], trace: Trace) -> FunctionGuards:
        """What to compare before replays. All tensors that the function takes from elsewhere must be found by it."""
        seen = [tensor for place in trace.places.values() for tensor in place.tensors]
        grads = {id(entry.first_grad) for entry in trace.shown.values()}
        own = [tensor for tensor in seen if id(tensor) not in trace.arguments and id(tensor) not in grads]
        if any(id(tensor) not in watch.tensors for tensor in own):
            watch = FunctionGuards(roots, is_open=True)  # a module that was imported just now, or an odd name
        watch.settle()
        for tensor in own:
            if id(tensor) not in watch.tensors:
                raise JitError(
                    f"{self.name}: the function reads a tensor from an object that cannot be looked into",
                    f"the tensor was {tensor._made()}",
                    "Pass it as an argument, or keep it in an attribute, a list or a dictionary.",
                )
        return watch


def _change_of(name: str, watch: FunctionGuards, trace: Trace, result: Any) -> JitError | None:
    """What a function has changed that a replay would not, as an error; None if there is nothing."""
    edge = watch.changed()
    if edge is None:
        tensors = {id(tensor) for tensor in result_of(name, result, {})[1]}
        tensors |= {id(entry.grad) for entry in trace.shown.values()}
        if all(id(tensor) in tensors for tensor in trace.alive()):
            return None
        gc.collect()  # what is left in circles is nowhere
        kept = [tensor for tensor in trace.alive() if id(tensor) not in tensors]
        if not kept:
            return None
        where, what = "an object that cannot be looked into", f"the tensor was {kept[0]._made()}"
        is_tensor = True
    else:
        where, what = edge.label, f"from {edge.before!r:.40} to {edge.now!r:.40}"
        is_tensor = hasattr(edge.now, "uop") and trace.is_made(edge.now)
    if is_tensor:
        return JitError(
            f"{name}: the function keeps a tensor in {where} in every call, and a replay would not",
            what if edge is None else "",
            "Return it, or write into a tensor that is there before: x.assign(...).",
        )
    return JitError(
        f"{name}: the function changes {where} in every call, and a replay would not",
        what,
        "Do it outside, or keep it in a tensor and assign to that.",
    )


def _python_draws() -> tuple[Any, ...]:
    """Where the random numbers of other libraries are."""
    python, numpy, torch = map(sys.modules.get, ("random", "numpy.random", "torch"))
    return (
        None if python is None else python.getstate(),
        None if numpy is None else numpy.get_state()[1:3],
        None if torch is None or not hasattr(torch, "get_rng_state") else torch.get_rng_state(),
    )


def _is_same_state(before: tuple[Any, ...], after: tuple[Any, ...]) -> bool:
    if before[0] != after[0]:
        return False
    if before[1] is not None and not (before[1][1] == after[1][1] and (before[1][0] == after[1][0]).all()):
        return False
    return before[2] is None or bool((before[2] == after[2]).all())
