"""Records -> a `Trace`. A field that is missing or of another kind is an error that names it."""

from __future__ import annotations

import os
from collections.abc import Callable
from itertools import accumulate
from typing import Any

from whit.errors import ParseError
from whit.viz.format import Reading, Record
from whit.viz.model import Allocation, Copy, Kernel, Launch, Layer, Pass, Rewriting, Rule, Run, Schedule, Trace

LARGEST = 1 << 62


def load(path: str | os.PathLike[str]) -> Trace:
    """All of a file, or what a process that died has left of it."""
    reading = Reading(path)
    loader = _Loader(Trace(reading.path))
    for record in reading:
        loader.take(record)
    loader.trace.is_whole = reading.is_whole and loader.trace.has_end
    return loader.trace


class Fields:
    """The fields of one record, checked as they are asked for."""

    def __init__(self, path: str, record: Record) -> None:
        self._path = path
        self._record = record

    def number(self, name: str) -> int:
        """A whole number."""
        return self._int(self._record.get(name), name)

    def text(self, name: str, missing: str | None = None) -> str:
        """Text; `missing` where an older writer did not know the field."""
        value = self._record.get(name, missing)
        return value if isinstance(value, str) else self._fail(name)

    def items(self, name: str, missing: list[Any] | None = None) -> list[Any]:
        """A list; `missing` as above."""
        value = self._record.get(name, missing)
        return value if isinstance(value, list) else self._fail(name)

    def numbers(self, name: str) -> list[int]:
        """Whole numbers."""
        return [self._int(value, name) for value in self.items(name)]

    def texts(self, name: str, count: int) -> list[str]:
        """So many texts; empty ones where an older writer did not know the field."""
        found = [text for text in self.items(name, missing=[]) if isinstance(text, str)]
        return found if len(found) == count else [""] * count

    def rows(self, name: str, *kinds: type) -> list[Any]:
        """Lists of one form."""
        rows = self.items(name)
        for row in rows:
            if type(row) is not list or tuple(map(type, row)) != kinds:
                self._fail(name)
            for value in row:
                if type(value) is int and not -LARGEST < value < LARGEST:
                    self._fail(name)
        return rows

    def check_row(self, name: str, row: Any, *kinds: type) -> None:
        """One list of this form."""
        if not isinstance(row, list) or len(row) != len(kinds):
            self._fail(name)
        for value, kind in zip(row, kinds, strict=True):
            if kind is int:
                self._int(value, name)
            elif type(value) is not kind:
                self._fail(name)

    def _int(self, value: Any, name: str) -> int:
        if type(value) is not int or not -LARGEST < value < LARGEST:
            self._fail(name)
        found: int = value
        return found

    def _fail(self, name: str) -> Any:
        raise ParseError(
            f"viz: {self._path} is damaged: a record {self._record['record']!r:.40} has no proper {name!r}",
            fix="Record it again.",
        )


class _Loader:
    """Fills a trace, record by record. Records with names it does not know are left to later versions."""

    def __init__(self, trace: Trace) -> None:
        self.trace = trace
        self.live: dict[int, Allocation] = {}
        self.readers: dict[str, Callable[[Fields], object]] = {
            "graph": self.graph,
            "nodes": self.nodes,
            "rule": self.rule,
            "stack": self.stack,
            "schedule": self.schedule,
            "kernel": self.kernel,
            "pass": self.passed,
            "compiled": self.compiled,
            "known": self.known,
            "rewrites": self.rewrites,
            "rules": self.rules,
            "names": self.names,
            "layer": self.layer,
            "flow": self.flow,
            "run": self.run,
            "copy": self.copy,
            "memory": self.memory,
            "limit": self.limit,
            "end": self.end,
        }

    def take(self, record: Record) -> None:
        """One record."""
        name = record["record"]
        if name == "start":
            self.trace.start = record
        elif name == "event":
            self.trace.events.append(record)
        elif name in self.readers:
            self.readers[name](Fields(self.trace.path, record))

    def seen(self, moment: int) -> None:
        self.trace.last = max(self.trace.last, moment)

    # ---- tables

    def graph(self, f: Fields) -> None:
        self.trace.graphs[f.number("id")] = f.text("text")
        self.trace.digests[f.number("id")] = f.text("digest")

    def nodes(self, f: Fields) -> None:
        self.trace.nodes.update((number, line) for number, line in f.rows("nodes", int, str))

    def rule(self, f: Fields) -> None:
        rule = Rule(f.text("name"), f.text("file"), f.number("line"), f.text("source", missing=""))
        self.trace.rules[f.number("id")] = rule

    def stack(self, f: Fields) -> None:
        self.trace.stacks[f.number("id")] = [
            (frame[0], frame[1], frame[2]) for frame in f.rows("frames", str, int, str)
        ]
        self.trace.texts[f.number("id")] = [text for text in f.items("texts", missing=[]) if isinstance(text, str)]

    # ---- schedules and kernels

    def schedule(self, f: Fields) -> None:
        temporaries = [(*row,) for row in f.rows("temporaries", int, int, int, int, str)]
        number = f.number("id")
        self.seen(f.number("at"))
        self.trace.schedules[number] = Schedule(
            number,
            f.text("device"),
            f.number("graph"),
            f.number("linear"),
            f.numbers("calls"),
            f.number("arena"),
            temporaries,
            f.number("ns"),
            f.number("stack"),
            f.number("at"),
        )

    def kernel(self, f: Fields) -> None:
        self.trace.kernels[f.number("id")] = Kernel(f.number("id"), f.text("name"), f.number("graph"))

    def passed(self, f: Fields) -> None:
        kernel = self.trace.kernels.get(f.number("kernel"))
        if kernel is not None:
            if kernel.is_compiled:  # again, for another target: the last one is shown
                kernel.is_compiled, kernel.passes = False, []
            kernel.passes.append(Pass(f.text("name"), f.text("why"), f.number("graph"), f.number("ns")))

    def compiled(self, f: Fields) -> None:
        kernel = self.known(f)
        if kernel is not None:
            kernel.is_compiled = True
            kernel.target, kernel.source = f.text("target"), f.text("source")
            kernel.assembly = f.text("assembly", missing="")
            kernel.code_bytes, kernel.render_ns, kernel.code_ns = (
                f.number("code_bytes"),
                f.number("render_ns"),
                f.number("code_ns"),
            )
            kernel.stack, kernel.at = f.number("stack"), f.number("at")
            self.seen(kernel.at)

    def known(self, f: Fields) -> Kernel | None:
        kernel = self.trace.kernels.get(f.number("kernel"))
        if kernel is not None:
            kernel.explanation = f.text("explanation")
            kernel.ops, kernel.total = f.number("ops"), f.number("total")
            kernel.bytes_read, kernel.bytes_written = f.number("bytes_read"), f.number("bytes_written")
        return kernel

    # ---- rewriting

    def rewriting(self, f: Fields) -> Rewriting:
        schedule, kernel = self.trace.schedules.get(f.number("schedule")), self.trace.kernels.get(f.number("kernel"))
        if schedule is not None:
            return schedule.rewriting
        if kernel is None:
            return self.trace.elsewhere
        name = f.text("pass")
        for step in reversed(kernel.passes):
            if step.name == name:
                return step.rewriting
        return kernel.rendering

    def rewrites(self, f: Fields) -> None:
        self.rewriting(f).steps += [(step[0], step[1], step[2]) for step in f.rows("steps", int, int, int)]

    def rules(self, f: Fields) -> None:
        counts = self.rewriting(f).counts
        for rule, attempts, hits, ns in f.rows("counts", int, int, int, int):
            count = counts.setdefault(rule, [0, 0, 0])
            count[0] += attempts
            count[1] += hits
            count[2] += ns

    # ---- what ran

    def moments(self, f: Fields) -> list[int]:
        found = list(accumulate(f.numbers("times")))
        self.seen(max(found, default=0))
        return found

    def names(self, f: Fields) -> None:
        schedule = self.trace.schedules.get(f.number("schedule"))
        found = f.items("names")
        if schedule is None or not all(isinstance(name, str) for name in found):
            return
        schedule.names = found
        rows = [f.texts(name, len(found)) for name in ("layers", "phases", "also")]
        schedule.launches = [Launch(*row) for row in zip(*rows, strict=True)]
        for number, name in zip(schedule.calls, found, strict=False):
            kernel = self.trace.kernels.get(number)
            if kernel is not None and name:
                kernel.names[name] = None

    def layer(self, f: Fields) -> None:
        path, rows = f.text("path"), f.rows("parameters", str, str, list, int)
        parameters = [(name, dtype, [size for size in shape if type(size) is int], n) for name, dtype, shape, n in rows]
        self.trace.layers[path] = Layer(path, f.text("kind"), parameters)

    def flow(self, f: Fields) -> None:
        self.trace.flows.update(((source, target), None) for source, target in f.rows("pairs", str, str))

    def run(self, f: Fields) -> None:
        moments = self.moments(f)
        times = list(zip(moments[::2], moments[1::2], strict=False))
        schedule = self.trace.schedules.get(f.number("schedule"))
        queue = f.text("queue", missing="")
        names = [] if schedule is None else schedule.names
        run = Run(f.number("schedule"), f.number("stack"), f.number("thread"), times, queue, names)
        run.launches = [] if schedule is None else schedule.launches
        self.trace.runs.append(run)
        if schedule is not None:
            schedule.runs += 1
            for number, (start, end) in zip(schedule.calls, times, strict=False):
                kernel = self.trace.kernels.get(number)
                if kernel is not None:
                    kernel.durations.append(end - start)

    def copy(self, f: Fields) -> None:
        moments = self.moments(f)
        if len(moments) == 2:
            fields = f.text("device"), f.text("what"), f.number("nbytes"), f.number("stack")
            self.trace.copies.append(Copy(*fields, *moments))

    def memory(self, f: Fields) -> None:
        for row in f.items("events"):
            kind = row[0] if isinstance(row, list) and row else None
            if kind == "+":
                f.check_row("events", row, str, int, int, int, str, int, str)
                _, start, number, nbytes, device, stack, maker = row
                allocation = self.live[number] = Allocation(number, nbytes, device, start, -1, stack, maker)
                self.trace.allocations.append(allocation)
                self.seen(start)
            elif kind == "-":
                f.check_row("events", row, str, int, int, int, str)
                self.free(*row[1:])
            else:
                f.check_row("events", row, str, int, str)
                if row[1] in self.live:
                    self.live[row[1]].type = row[2]

    def free(self, now: int, number: int, nbytes: int, device: str) -> None:
        self.seen(now)
        allocation = self.live.pop(number, None)
        if allocation is not None:
            allocation.end = now
        else:
            self.trace.freed_before.append((now, device, nbytes))

    def limit(self, f: Fields) -> None:
        self.trace.dropped.append(f.text("dropped"))

    def end(self, f: Fields) -> None:
        self.seen(f.number("at"))
        self.trace.has_end = True
