"""A recording as a file that https://ui.perfetto.dev, chrome://tracing and other viewers of timelines open.

    write_perfetto(trace, "run.json")       how many events were written

Each device is a process with its queues as threads (streams of a GPU, threads that launch, kinds of copies), and so is
the host, with what it scheduled and compiled. Times are microseconds, on the host's clock.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from typing import Any

from whit.viz.model import Trace
from whit.viz.page.export import write_text

Event = dict[str, Any]
HOST = "host"


def write_perfetto(trace: Trace, path: str | os.PathLike[str]) -> int:
    """Writes the file; the number of its events."""
    lanes: dict[tuple[str, str], tuple[int, int]] = {}
    found = [*_kernels(trace, lanes), *_copies(trace, lanes), *_host(trace, lanes)]
    write_text(path, json.dumps({"displayTimeUnit": "ms", "traceEvents": [*_names(lanes), *found]}))
    return len(found)


def _lane(lanes: dict[tuple[str, str], tuple[int, int]], device: str, queue: str) -> tuple[int, int]:
    """The numbers of a process and of a thread in it."""
    if (device, queue) not in lanes:
        processes = {known: number for (known, _), (number, _) in lanes.items()}
        process = processes.get(device, len(processes) + 1)
        lanes[device, queue] = process, sum(known == device for known, _ in lanes) + 1
    return lanes[device, queue]


def _names(lanes: dict[tuple[str, str], tuple[int, int]]) -> Iterator[Event]:
    for (device, queue), (process, thread) in lanes.items():
        yield {"ph": "M", "name": "process_name", "pid": process, "tid": thread, "args": {"name": device}}
        yield {"ph": "M", "name": "thread_name", "pid": process, "tid": thread, "args": {"name": queue}}


def _span(lane: tuple[int, int], title: str, start: int, end: int, **args: Any) -> Event:
    process, thread = lane
    times = {"ts": start / 1e3, "dur": (end - start) / 1e3}
    return {"ph": "X", "name": title, "pid": process, "tid": thread, **times, "args": args}


def _kernels(trace: Trace, lanes: dict[tuple[str, str], tuple[int, int]]) -> Iterator[Event]:
    for run in trace.runs:
        schedule = trace.schedules.get(run.schedule)
        if schedule is None:
            continue
        lane, line = _lane(lanes, schedule.device, run.queue_name), trace.line(run.stack)
        for number, (call, (start, end)) in enumerate(zip(schedule.calls, run.times, strict=False)):
            kernel = trace.kernels.get(call)
            computes = run.names[number] if number < len(run.names) else ""
            if kernel is not None:
                amounts = {"bytes read": kernel.bytes_read, "bytes written": kernel.bytes_written, "ops": kernel.ops}
                known = {"kernel": kernel.label, "name": kernel.name, "line": line}
                yield _span(lane, computes or kernel.name, start, end, **known, **amounts)


def _copies(trace: Trace, lanes: dict[tuple[str, str], tuple[int, int]]) -> Iterator[Event]:
    for copy in trace.copies:
        lane = _lane(lanes, copy.device, copy.what)
        yield _span(lane, copy.what, copy.start, copy.end, bytes=copy.nbytes, line=trace.line(copy.stack))


def _host(trace: Trace, lanes: dict[tuple[str, str], tuple[int, int]]) -> Iterator[Event]:
    for schedule in trace.schedules.values():
        if schedule.ns:
            lane, start = _lane(lanes, HOST, "scheduling"), max(schedule.at - schedule.ns, 0)
            yield _span(lane, f"schedule {schedule.label}", start, schedule.at, line=trace.line(schedule.stack))
    for kernel in trace.kernels.values():
        if kernel.at:
            lane, start = _lane(lanes, HOST, "compiling"), max(kernel.at - kernel.compile_ns, 0)
            yield _span(lane, f"compile {kernel.name}", start, kernel.at, kernel=kernel.label)
