"""The batches of a program as native calls, which `Program.run` makes one after another with no Python in between.

What CPUs do is one call of the thread pool (`launches`). A batch of a GPU is the launch of a graph (`cuda_resident`);
a copy to or from one is a call of the driver on a stream of its own, with events where queues wait for each other.

    f on CUDA                               launch f
    copy y from x, CPU to CUDA      ->      copy y on the other stream, event after it
    g on CUDA reads y                       wait for the event, launch g
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Protocol

from whit.engine.programs.dependencies import Access
from whit.engine.programs.launches import Copy, LaunchList
from whit.engine.programs.parts import ALL, Calls, ProgramPart
from whit.engine.programs.queues import Batch, Call, Way, batches, submission_order
from whit.engine.report.counters import GlobalCounters
from whit.records import dataclass
from whit.runtime.buffer import Buffer


def can_submit(parts: Sequence[ProgramPart], ways: Mapping[int, Way]) -> bool:
    """Whether all that a program does can be done by native calls: on CPUs, and on one GPU. `ways` are those of the
    parts that copy."""
    if any(part.resident is None for number, part in enumerate(parts) if number not in ways):
        return False
    devices = {part.device for part in parts}.union(*({way.target, way.source} for way in ways.values()))
    gpus = [device for device in devices if _kind(device) == "CUDA"]
    return len(gpus) <= 1 and all(_kind(device) in ("CPU", "CUDA") for device in devices)


def _kind(queue: str) -> str:
    return queue.partition(":")[0].partition(" ")[0]


class Item(Protocol):
    """Something that is submitted."""

    def calls(self, table: Sequence[Buffer]) -> Calls:
        """Its calls in a run."""


@dataclass(frozen=True, slots=True)
class Fixed:
    """Calls that are the same in every run."""

    made: Calls

    def calls(self, table: Sequence[Buffer]) -> Calls:
        """These."""
        return self.made


class Submission:
    """What is submitted in each run of a program."""

    def __init__(self, parts: Sequence[ProgramPart], calls: Sequence[Call], ways: Mapping[int, Way]) -> None:
        self._parts, self._calls, self._ways = parts, calls, ways
        self.batches = batches(calls)
        self.order = submission_order(self.batches, self._rank)
        self._gpus = _gpu_queues({call.queue for call in calls if _kind(call.queue) == "CUDA"})
        self._items: list[Item] = []
        for number in self.order:
            if _kind(self.batches[number].queue) == "CUDA":
                self._add_to_gpu(number)
            else:
                self._add_to_host(self.batches[number])
        if self._gpus is not None:
            self._items = [Fixed(self._gpus.begin), *self._items]
        for item in self._items:
            if isinstance(item, LaunchList):
                item.finish()
        self._counts = [(way.target, way.counts) for way in ways.values()]
        self._counts += [(part.device, part.loaded.counts) for part in parts if part.resident is not None]

    def _rank(self, batch: Batch) -> int:
        """What works by itself is started before what the caller does, and that comes before waiting."""
        way = self._ways.get(batch.part)
        if way is None or way.source == way.target:
            return 0 if _kind(batch.queue) == "CUDA" else 2
        return 3 if _kind(way.source) == "CUDA" else 1 if _kind(way.target) == "CUDA" else 2

    def _is_given(self, batch: Batch) -> bool:
        """Whether what a copy reads was there before the program."""
        _, source = self._calls[batch.calls.start].accesses
        before = [access for call in self._calls[: batch.calls.start] for access in call.accesses]
        return not any(access.writes and access.memory == source.memory for access in before)

    def _accesses(self, batch: Batch) -> list[Sequence[Access]]:
        return [self._calls[call].accesses for call in batch.calls]

    def _add_to_gpu(self, number: int) -> None:
        """A graph or a copy, after what it waits for on the GPU. What it waits for elsewhere is done by then."""
        batch = self.batches[number]
        part, way = self._parts[batch.part], self._ways.get(batch.part)
        others = [other for other in batch.waits if _kind(self.batches[other].queue) == "CUDA"]
        self._items.append(Fixed([self._gpus.wait(batch.queue, other) for other in others]))
        if way is None:
            self._items.append(Fixed([part.resident.add_graph(batch.steps, self._accesses(batch))]))
        else:
            self._items.append(self._gpus.copy(batch.queue, part.places, way, self._is_given(batch)))
        if any(number in other.waits for other in self.batches):
            self._items.append(Fixed([self._gpus.record(number, batch.queue)]))

    def _add_to_host(self, batch: Batch) -> None:
        """Goes on with the list of launches, or begins a new one."""
        launches = self._items[-1] if self._items else None
        if not isinstance(launches, LaunchList):
            launches = LaunchList()
            self._items.append(launches)
        part, way = self._parts[batch.part], self._ways.get(batch.part)
        if way is None:
            launches.add_kernels(part.resident, batch.steps, self._accesses(batch))
        else:
            target, source = part.places
            launches.add_copy(Copy(target, source, way.nbytes), *self._accesses(batch))

    # ---- running

    def calls(self, table: list[Buffer], bindings: Mapping[str, int], changed: Iterable[int] | None) -> Calls | None:
        """The calls of a run; None if it cannot be done this way, because of where memory begins."""
        for part in self._parts:
            if part.resident is not None:
                known = changed if part.places is ALL else None
                if not part.resident.prepare(part.buffers(table), part.bound(bindings), known):
                    return None
        found: Calls = []
        for item in self._items:
            found += item.calls(table)
        return found

    def finish(self, calls: Calls, results: Sequence[Any]) -> None:
        """Counts a run; an error if a call has returned one."""
        if any(results):
            for (function, *_), code in zip(calls, results, strict=False):
                self._gpus.check(function, code)
        for device, counts in self._counts:
            GlobalCounters.add(device, counts)


def _gpu_queues(queues: set[str]) -> Any:
    if not queues:
        return None
    from whit.engine.devices.cuda_queues import GpuQueues  # lazy: loads the driver

    return GpuQueues(queues)
