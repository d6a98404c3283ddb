"""The recorder behind `whit.recording`: turns what the hooks report into records.

Everything goes through one lock, except notes about memory, which must not wait (`memory_log`). A recording is bounded:
at half of its limit rewrites are left out from then on, at three quarters the graphs of passes, and at the limit all.
"""

from __future__ import annotations

import os
import sys
import threading
import time
import weakref
from collections.abc import Callable, Sequence
from time import perf_counter_ns
from typing import Any

from whit.config import settings_key
from whit.engine.report.launch_names import running_names
from whit.engine.report.launch_words import OUTSIDE, LaunchName
from whit.engine.report.layers import flows, layer_of, layers
from whit.ir.op import spell_shape
from whit.ir.uop import UOp
from whit.recording import Told, hooks
from whit.runtime.buffer import usage_by_device
from whit.target import available_cores, host_target
from whit.viz.memory_log import MemoryLog
from whit.viz.rewrite_log import RewriteLog
from whit.viz.stacks import user_stack
from whit.viz.tables import Graphs, RuleTable, Stacks, shortened
from whit.viz.writer import TraceWriter

FLUSH_NS = 200_000_000  # what ran less than this ago may be lost when the process is killed
MOST_NOTES = 512
MOST_NAME_CHARACTERS = 200  # letters of what a launch computes
MOST_ASSEMBLY_CHARACTERS = 200_000  # letters of the machine code of one kernel


class Recorder:
    """Writes a trace file."""

    def __init__(self, path: str | os.PathLike[str], limit: int, rewrites: bool) -> None:
        self.writer = TraceWriter(path, limit)
        self.process = os.getpid()
        self.start = perf_counter_ns()
        self.wants_rewrites = rewrites
        self.wants_passes = True
        self.is_full = False
        self._lock = threading.RLock()
        self._graphs = Graphs(self.writer)
        self._stacks = Stacks(self.writer)
        self._memory = MemoryLog(self.start)
        self._rewrites = RewriteLog(self.writer, RuleTable(self.writer))
        self._kernels: dict[int, int] = {}  # graph of the body -> kernel
        self._described: set[int] = set()  # kernels of which operations and bytes are written
        self._has_run: set[int] = set()  # schedules
        self._schedules: dict[tuple[int, str], int] = {}  # graph of the LINEAR and device -> schedule
        self._by_linear: weakref.WeakKeyDictionary[UOp, dict[str, int]] = weakref.WeakKeyDictionary()
        self._names: dict[int, tuple[LaunchName, ...]] = {}  # schedule -> those of its last run
        self._layers: dict[str, str] = {}  # what was written of layers, by path
        self._flows: set[tuple[str, str]] = set()  # those that were written
        self._seen = {path: layer.seen for path, layer in layers.items()}  # before the recording
        self.end_watch: Callable[[], None] = _nothing
        self._begun = 0
        self._flushed = self.start
        self._left_out = 0
        self.writer.add("start", **_circumstances(limit, rewrites))
        self.writer.flush()

    # ---- schedules

    def begin_schedule(self) -> None:
        """Rewrites from here on belong to the schedule."""
        with self._lock:
            self._rewrites.write({"schedule": -1, "kernel": -1, "pass": ""})
            self._begun = perf_counter_ns()

    def scheduled(self, graph: UOp, plan: Any, device: str) -> None:
        """A normalised graph has its plan."""
        took = perf_counter_ns() - self._begun
        with self._lock:
            number = self._schedule(plan, device, graph, took)
            self._rewrites.write({"schedule": number, "kernel": -1, "pass": ""})
            self._flush()

    def _schedule(self, plan: Any, device: str, graph: UOp | None = None, took: int = 0) -> int:
        """The number of a schedule, which is written if it is new."""
        by_device = self._by_linear.setdefault(plan.linear, {})
        if device in by_device:
            return by_device[device]
        linear = self._graphs.number(plan.linear)
        number = self._schedules.get((linear, device))
        if number is None:
            number = self._schedules[linear, device] = len(self._schedules)
            self.writer.add(
                "schedule",
                id=number,
                device=device,
                graph=-1 if graph is None else self._graphs.number(graph),
                linear=linear,
                calls=[self.kernel_number(step.function) for step in plan.steps],
                arena=plan.arena_bytes,
                temporaries=[_temporary(temporary) for temporary in plan.temporaries],
                ns=took,
                stack=self._stacks.number(user_stack(4)[0]),
                at=perf_counter_ns() - self.start,
            )
        by_device[device] = number
        return number

    # ---- kernels

    def kernel(self, function: UOp, target: Any) -> KernelLog:
        """A kernel is about to be compiled."""
        with self._lock:
            number = self.kernel_number(function)
            self._rewrites.write({"schedule": -1, "kernel": -1, "pass": ""})
            self._flush()
        return KernelLog(self, number, str(target))

    def kernel_number(self, function: UOp) -> int:
        """The number of a kernel, which is written if it is new."""
        graph = self._graphs.number(function.src[0])
        number = self._kernels.get(graph)
        if number is None:
            number = self._kernels[graph] = len(self._kernels)
            self.writer.add("kernel", id=number, name=function.arg.name, graph=graph)
        return number

    def passed(self, kernel: int, name: str, why: str, graph: UOp, took: int) -> None:
        """A pass over a kernel is done."""
        with self._lock:
            number = self._graphs.number(graph) if self.wants_passes else -1
            self.writer.add("pass", kernel=kernel, name=name, why=why, graph=number, ns=took)
            self._rewrites.write({"schedule": -1, "kernel": kernel, "pass": name})

    def compiled(self, kernel: int, **fields: Any) -> None:
        """A kernel is machine code now."""
        with self._lock:
            self._described.add(kernel)
            self._rewrites.write({"schedule": -1, "kernel": kernel, "pass": "render"})
            stack = self._stacks.number(user_stack(3)[0])
            self.writer.add("compiled", kernel=kernel, **fields, stack=stack, at=perf_counter_ns() - self.start)
            self._flush()

    # ---- what runs

    def started(self, device: str, plan: Any, kernels: Sequence[Any], queue: str) -> Told:
        """A plan was started; its times are told later: `perf_counter_ns` before and after each kernel in turn."""
        frames, names = user_stack(3)[0], running_names(len(plan.steps))
        with self._lock:
            if self.is_full:
                self._left_out += 1
                return lambda times: None
            number = self._schedule(plan, device)
            if number not in self._has_run:
                self._has_run.add(number)
                for step, kernel in zip(plan.steps, kernels, strict=False):
                    self._describe(step.function, kernel)
            if any(names) and self._names.get(number) != names:
                self._write_names(number, names)
            stack, thread = self._stacks.number(frames), threading.get_native_id()
        fields = {"schedule": number, "stack": stack, "thread": thread, "queue": queue}
        return lambda times: self._write_times("run", times, **fields)

    def _write_names(self, schedule: int, names: tuple[LaunchName, ...]) -> None:
        """What the launches of a schedule compute, and what is known of their layers by now."""
        self._write_layers(names)
        self._names[schedule] = names
        self.writer.add(
            "names",
            schedule=schedule,
            names=[shortened(str(name), MOST_NAME_CHARACTERS) for name in names],
            also=[shortened(name.also, MOST_NAME_CHARACTERS) for name in names],
            layers=[name.layer for name in names],
            phases=[name.phase for name in names],
        )

    def _write_layers(self, names: tuple[LaunchName, ...]) -> None:
        """The layers of these launches and those that have made something in this recording, as far as they are new."""
        used = {path for name in names for layer in (name.layer, *name.layers) for path in _and_around(layer)}
        for path, layer in list(layers.items()):
            if path not in used and layer.seen == self._seen.get(path):
                continue
            known = layer.parameters.items()
            rows = [[name, dtype, list(shape), nbytes] for name, (dtype, shape, nbytes) in known]
            text = repr((layer.kind, rows))
            if self._layers.get(path) != text:
                self._layers[path] = text
                self.writer.add("layer", path=path, kind=layer.kind, parameters=rows)
        pairs = [
            pair for pair in list(flows) if pair not in self._flows and self._layers.keys() >= set(map(layer_of, pair))
        ]
        if pairs:
            self._flows.update(pairs)
            self.writer.add("flow", pairs=[list(pair) for pair in pairs])

    def copied(self, device: str, what: str, nbytes: int) -> Told:
        """A copy was started; when it began and ended is told later."""
        with self._lock:
            stack = self._stacks.number(user_stack(2)[0])
        fields = {"device": device, "what": what, "nbytes": nbytes, "stack": stack}
        return lambda times: self._write_times("copy", times, **fields)

    def prepared(self, device: str, start: int, end: int) -> None:
        """Schedules and kernels have records of their own."""

    def _write_times(self, kind: str, times: list[int], **fields: Any) -> None:
        with self._lock:
            if self.is_full:
                self._left_out += 1
                return
            last = self.start
            deltas = []
            for moment in times:
                deltas.append(moment - last)
                last = moment
            self.writer.add(kind, **fields, times=deltas)
            if last - self._flushed > FLUSH_NS:
                self._flush()
            elif len(self._memory) > MOST_NOTES:
                self._write_memory()

    def _describe(self, function: UOp, kernel: Any) -> None:
        """What is known of a kernel that was compiled before the recording began."""
        number = self.kernel_number(function)
        if number in self._described:
            return
        self._described.add(number)
        self.writer.add(
            "known",
            kernel=number,
            explanation=kernel.explanation,
            ops=kernel.ops,
            bytes_read=kernel.bytes_read,
            bytes_written=kernel.bytes_written,
            total=kernel.total,
        )

    def event(self, kind: str, **fields: Any) -> None:
        """Anything else."""
        with self._lock:
            if self.is_full:
                return
            stack = self._stacks.number(user_stack(2)[0])
            self.writer.add("event", kind=kind, at=perf_counter_ns() - self.start, stack=stack, fields=fields)

    # ---- memory and rewrites

    def allocated(self, buffer: Any) -> None:
        """A buffer has memory."""
        self._memory.allocated(buffer)
        if len(self._memory) > MOST_NOTES:
            with self._lock:
                self._write_memory()

    def freed(self, buffer: Any) -> None:
        """It has none any more."""
        self._memory.freed(buffer)

    def typed(self, buffer: Any, dtype: Any, shape: Any) -> None:
        """What is in a buffer."""
        self._memory.typed(buffer, dtype, shape)

    def rewrote(self, rule: Any, before: UOp, after: UOp) -> None:
        """A rule replaced a node."""
        with self._lock:
            if self.wants_rewrites:
                self._rewrites.rewrote(rule, before, after)

    def tried(self, rule: Any, hit: bool, nanoseconds: int) -> None:
        """A rule was tried."""
        self._rewrites.tried(rule, hit, nanoseconds)

    # ---- the file

    def _write_memory(self) -> None:
        events = self._memory.take(self._stacks)
        if events and not self.is_full:
            self.writer.add("memory", events=events)

    def _flush(self) -> None:
        self._write_memory()
        self.writer.flush()
        self._flushed = perf_counter_ns()
        if self.writer.failure and hooks.recorder is self:
            hooks.recorder = None
        share = self.writer.written / self.writer.limit
        if share > 0.5 and self.wants_rewrites:
            self.wants_rewrites = False
            self.writer.add("limit", dropped="rewrites", at=self._flushed - self.start)
        if share > 0.75 and self.wants_passes:
            self.wants_passes = False
            self.writer.add("limit", dropped="graphs of passes", at=self._flushed - self.start)
        if share > 0.95 and not self.is_full:
            self.is_full = True
            self.writer.add("limit", dropped="runs and memory", at=self._flushed - self.start)

    def close(self) -> None:
        """The end of the recording."""
        with self._lock:
            self._rewrites.write({"schedule": -1, "kernel": -1, "pass": ""})
            self._write_memory()
            self.writer.add("end", at=perf_counter_ns() - self.start, runs_left_out=self._left_out)
            self.writer.close()


class KernelLog:
    """Follows the compilation of one kernel. Time spent on recording is not counted."""

    def __init__(self, recorder: Recorder, number: int, target: str) -> None:
        self._recorder = recorder
        self._number = number
        self._target = target
        self._fields: dict[str, Any] = {}
        self._mark = perf_counter_ns()

    def passed(self, step: Any, graph: UOp) -> None:
        """A pass has made this graph."""
        took = perf_counter_ns() - self._mark
        self._recorder.passed(self._number, step.name, step.why, graph, took)
        self._mark = perf_counter_ns()

    def rendered(self, program: Any, source: str) -> None:
        """The source was written."""
        took = perf_counter_ns() - self._mark
        self._fields = {
            "explanation": program.explanation,
            "ops": program.ops,
            "bytes_read": program.bytes_read,
            "bytes_written": program.bytes_written,
            "total": program.total,
            "source": source,
            "render_ns": took,
        }
        self._mark = perf_counter_ns()

    def compiled(self, code: bytes, assembly: Callable[[], str]) -> None:
        """Machine code was made: the end.

        LLVM makes it a second time for the text that people read: 19 ms a kernel of a small GPT, of 100 in all.
        """
        took = perf_counter_ns() - self._mark
        text = shortened(assembly(), MOST_ASSEMBLY_CHARACTERS) if self._recorder.wants_passes else ""
        fields = {"target": self._target, "code_bytes": len(code), "code_ns": took, "assembly": text}
        self._recorder.compiled(self._number, **self._fields, **fields)


def _and_around(path: str) -> list[str]:
    """A layer, and those that it is in: "a.b" -> "a.b", "a", ""."""
    if path == OUTSIDE:
        return []
    parts = path.split(".") if path else []
    return [".".join(parts[:count]) for count in range(len(parts), -1, -1)]


def _nothing() -> None:
    """There is nothing to end."""


def _temporary(temporary: Any) -> list[Any]:
    node = temporary.node
    text = f"{node.dtype.name}{spell_shape(node.shape)}"
    return [temporary.nbytes, temporary.first, temporary.last, temporary.offset, text]


def _circumstances(limit: int, rewrites: bool) -> dict[str, Any]:
    return {
        "whit": str(getattr(sys.modules.get("whit"), "__version__", "")),
        "python": sys.version.partition(" ")[0],
        "program": [str(argument) for argument in sys.argv[:8]],
        "process": os.getpid(),
        "time": time.time(),
        "target": str(host_target()),
        "cores": available_cores(),
        "settings": list(settings_key()),
        "memory": usage_by_device(),
        "limit": limit,
        "rewrites": rewrites,
    }
