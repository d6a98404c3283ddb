"""What the page asks for, by name. The same names work for the server and in an exported file.

overview            the recording, its schedules and kernels, their place under the roofline
rules, stacks       texts that many others refer to
layers              the model: its layers, their parameters, launches and times, and what flows between them
timeline, memory, compile
schedule/1          its graphs, calls and what each call waits for
kernel/3            passes with their graphs, tiling, source, machine code
graph/12            the nodes of a graph
steps/k3.2/0        the first thousand rewrites of the second pass of a kernel (`replay`)
"""

from __future__ import annotations

import re
import threading
from collections import OrderedDict
from collections.abc import Callable, Iterator

from whit.errors import MissingError
from whit.viz.model import Trace
from whit.viz.page.activity import compile_document, dependencies, memory_document, timeline_document
from whit.viz.page.replay import CHUNK_REWRITES, Replay, places
from whit.viz.page.rows import Data, graph_document
from whit.viz.report.layers import layers_data
from whit.viz.report.life import life_data
from whit.viz.report.overview import overview_data
from whit.viz.report.roofline import roofline_data, roofs

# What may come of a file that nobody vouches for: graphs that parse and mean nothing.
DAMAGE = (ValueError, TypeError, LookupError, AttributeError, RecursionError, ArithmeticError)

MOST_REPLAYS = 8  # that are kept: going through one is sequential

_NAME = re.compile(r"(kernel|schedule|graph)/(\d{1,9})|steps/(rest|s\d{1,9}|k\d{1,9}\.\d{1,3})/(\d{1,9})")


class Documents:
    """The documents of one trace. They are made when they are asked for; from one thread at a time."""

    def __init__(self, trace: Trace) -> None:
        self.trace = trace
        self._places = places(trace)
        self._replays: OrderedDict[str, Replay] = OrderedDict()
        self._lock = threading.Lock()
        self._fixed: dict[str, Callable[[], Data]] = {
            "overview": self._overview,
            "rules": self._rules,
            "stacks": self._stacks,
            "layers": lambda: layers_data(trace),
            "timeline": lambda: timeline_document(trace),
            "memory": lambda: memory_document(trace),
            "compile": lambda: compile_document(trace),
        }

    def get(self, name: str) -> Data:
        """One document; `MissingError` for a name that is none."""
        with self._lock:
            found = self._find(name)
        if found is None:
            raise MissingError(f"viz: the recording has no {name:.60}", fix="Ask for what the overview names.")
        return found

    def _find(self, name: str) -> Data | None:
        if name in self._fixed:
            return self._fixed[name]()
        match = _NAME.fullmatch(name)
        if match is None:
            return None
        kind, number, place, chunk = match.groups()
        if place is not None:
            return self._steps(place, int(chunk))
        found = {"kernel": self._kernel, "schedule": self._schedule, "graph": self._graph}[kind]
        return found(int(number))

    def names(self) -> Iterator[str]:
        """All of them, what is needed first before what may be left out: an exported file has limits."""
        yield from self._fixed
        yield from (f"schedule/{number}" for number in self.trace.schedules)
        yield from (f"kernel/{number}" for number in self.trace.kernels)
        yield from (f"graph/{number}" for number in self.trace.graphs)
        by_size = sorted(self._places.values(), key=lambda place: len(place.rewriting.steps))
        for place in by_size:
            chunks = -(-len(place.rewriting.steps) // CHUNK_REWRITES)
            yield from (f"steps/{place.name}/{chunk}" for chunk in range(chunks))

    # ---- each kind

    def _overview(self) -> Data:
        data = overview_data(self.trace)
        for shown, kernel in zip(data["kernels"], self.trace.kernels.values(), strict=True):
            shown["roofline"] = roofline_data(self.trace, kernel)
            shown["stack"] = kernel.stack
            shown["rewrites"] = sum(len(step.rewriting.steps) for step in kernel.passes)
            shown["graph"] = kernel.graph
        for shown, schedule in zip(data["schedules"], self.trace.schedules.values(), strict=True):
            shown["stack"] = schedule.stack
            shown["rewrites"] = len(schedule.rewriting.steps)
        best_ops, best_bytes = roofs(self.trace)
        return {**data, "roofs": {"gflops": best_ops, "gbytes": best_bytes}, "chunk": CHUNK_REWRITES}

    def _rules(self) -> Data:
        return {str(n): [rule.name, rule.place, rule.source] for n, rule in self.trace.rules.items()}

    def _stacks(self) -> Data:
        texts = self.trace.texts
        return {
            str(number): [[*frame, text] for frame, text in _paired(frames, texts.get(number, []))]
            for number, frames in self.trace.stacks.items()
        }

    def _kernel(self, number: int) -> Data | None:
        kernel = self.trace.kernels.get(number)
        if kernel is None:
            return None
        data = life_data(self.trace, kernel, ("source", "assembly"))
        data["graph"] = kernel.graph
        for shown, (place, step) in zip(data["passes"], enumerate(kernel.passes, start=1), strict=True):
            shown["graph"] = step.graph
            shown["steps"] = self._count(f"{kernel.label}.{place}")
        return {**data, "stack": kernel.stack, "render_steps": self._count(f"{kernel.label}.0")}

    def _schedule(self, number: int) -> Data | None:
        schedule = self.trace.schedules.get(number)
        if schedule is None:
            return None
        return {
            "id": schedule.label,
            "device": schedule.device,
            "graph": schedule.graph,
            "linear": schedule.linear,
            "calls": schedule.calls,
            "names": [name.partition("  ")[0] for name in schedule.names],
            "needs": dependencies(self.trace, number),
            "runs": schedule.runs,
            "ns": schedule.ns,
            "arena": schedule.arena,
            "temporaries": schedule.temporaries,
            "stack": schedule.stack,
            "steps": self._count(schedule.label),
        }

    def _count(self, place: str) -> int:
        found = self._places.get(place)
        return len(found.rewriting.steps) if found is not None else 0

    def _graph(self, number: int) -> Data | None:
        return graph_document(self.trace, number) if number in self.trace.graphs else None

    def _steps(self, name: str, chunk: int) -> Data | None:
        place = self._places.get(name)
        if place is None or chunk * CHUNK_REWRITES >= len(place.rewriting.steps):
            return None
        replay = self._replays.get(name)
        if replay is None:
            replay = self._replays[name] = Replay(self.trace, place)
            if len(self._replays) > MOST_REPLAYS:
                self._replays.popitem(last=False)
        self._replays.move_to_end(name)
        return replay.chunk(chunk)


def _paired(frames: list[tuple[str, int, str]], texts: list[str]) -> Iterator[tuple[tuple[str, int, str], str]]:
    for number, frame in enumerate(frames):
        yield frame, texts[number] if number < len(texts) else ""
