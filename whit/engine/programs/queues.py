"""Where the calls of a program run beside each other, and which are submitted as one.

Goes in: the calls of a program in order, kernels and copies between devices, each with its queue and the bytes that it
reads and writes. Comes out: batches, in an order of submission, and what each waits for.

    0  copy y from x    CPU:1 copies               batch 0  copy y
    1  f(a, x)          CPU                        batch 1  f, g           beside batch 0
    2  g(b, a)          CPU               ->       batch 2  h              beside both
    3  h(d)             CPU:1                      batch 3  k              waits for batch 0
    4  k(c, y, d)       CPU:1

A device has a queue for kernels and one for copies. A queue does one thing after another; queues wait for each other
only at edges (`dependencies`). A batch is made of consecutive calls of one queue of which none but the first waits for
another queue. It is one list of launches for the thread pool of a CPU, and one graph for a GPU.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import pairwise

from whit.engine.programs.dependencies import Access, dependencies
from whit.engine.report.counters import Counts
from whit.records import dataclass


@dataclass(frozen=True, slots=True)
class Call:
    """A kernel or a copy of a program."""

    name: str
    queue: str
    accesses: Sequence[Access]
    part: int  # of the program
    step: int  # of the part

    @property
    def nbytes(self) -> int:
        """The bytes that it reads and writes."""
        return sum(access.stop - access.start for access in self.accesses)


@dataclass(frozen=True, slots=True)
class Batch:
    """Calls that are submitted as one."""

    queue: str
    calls: range
    waits: tuple[int, ...]  # for batches of other queues
    part: int  # of the program
    steps: range  # of the part


@dataclass(frozen=True, slots=True)
class Way:
    """What a copy is: between which devices or inside of which, and how many bytes."""

    target: str
    source: str
    nbytes: int

    @property
    def queue(self) -> str:
        """Where it runs: inside of a device between its kernels, else beside them."""
        if self.source == self.target:
            return self.target
        return copy_queue(self.source if self.source.startswith("CUDA") else self.target)

    @property
    def counts(self) -> Counts:
        """What is counted for it."""
        return Counts(copy_count=1, bytes_read=self.nbytes, bytes_written=self.nbytes)


def copy_queue(device: str) -> str:
    """The queue of copies to or from a device."""
    return f"{device} copies"


def batches(calls: Sequence[Call]) -> list[Batch]:
    """The calls in batches, in the order of the calls."""
    waits = dependencies([call.accesses for call in calls], [call.queue for call in calls])
    starts = [
        number
        for number, call in enumerate(calls)
        if not number or waits[number] or (call.queue, call.part) != (calls[number - 1].queue, calls[number - 1].part)
    ]
    found: list[Batch] = []
    where: list[int] = []  # the batch of each call
    for start, stop in pairwise([*starts, len(calls)]):
        others = sorted({where[other] for other in waits[start]})
        where += [len(found)] * (stop - start)
        first = calls[start]
        steps = range(first.step, first.step + stop - start)
        found.append(Batch(first.queue, range(start, stop), tuple(others), first.part, steps))
    return found


def submission_order(found: Sequence[Batch], rank: Callable[[Batch], int]) -> list[int]:
    """An order in which batches can be submitted: those of lower rank first, as what is only started comes before what
    the caller waits for; then those that wait for fewer others, so that copies have something beside them."""
    last: dict[str, int] = {}
    before: list[set[int]] = []
    depth: list[int] = []
    for number, batch in enumerate(found):
        before.append({*batch.waits, *([last[batch.queue]] if batch.queue in last else [])})
        depth.append(1 + max((depth[other] for other in before[-1]), default=0))
        last[batch.queue] = number
    order: list[int] = []
    while len(order) < len(found):
        free = [number for number in range(len(found)) if number not in order and before[number] <= set(order)]
        order.append(min(free, key=lambda number: (rank(found[number]), depth[number], number)))
    return order


def timeline(calls: Sequence[Call], cost: Callable[[Call], int]) -> list[tuple[int, int]]:
    """When each call begins and ends, if every queue does one thing after another, as soon as it can, at these costs.
    The last end is the length of the critical path."""
    waits = dependencies([call.accesses for call in calls], [call.queue for call in calls])
    free: dict[str, int] = {}  # when a queue is done
    found: list[tuple[int, int]] = []
    for call, others in zip(calls, waits, strict=True):
        start = max([free.get(call.queue, 0), *(found[other][1] for other in others)])
        free[call.queue] = start + cost(call)
        found.append((start, start + cost(call)))
    return found


NAMED_CALLS = 3  # calls of a batch that a report names


def report(calls: Sequence[Call]) -> list[str]:
    """A line for each batch: its queue, its calls, and what it waits for; and how much of it runs side by side."""
    found = batches(calls)
    width = max((len(batch.queue) for batch in found), default=0)
    lines = []
    for number, batch in enumerate(found):
        names = [calls[i].name for i in batch.calls]
        more = f", ... ({len(names)} calls)" if len(names) > NAMED_CALLS else ""
        waits = f"; waits for {' and '.join(map(str, batch.waits))}" if batch.waits else ""
        lines.append(f"{number}  {batch.queue:{width}}  {', '.join(names[:NAMED_CALLS])}{more}{waits}")
    end = max((end for _, end in timeline(calls, lambda call: 1)), default=0)
    lines.append(f"{len(calls)} calls, of which {end} follow one another")
    return lines
