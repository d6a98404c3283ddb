"""Memory over time, from allocations: curves, peaks, and who holds what at a moment."""

from __future__ import annotations

from dataclasses import dataclass

from whit.viz.model import Allocation, Trace

TEMPORARIES = (".cpu.run", ".python.run", ".null.run")  # who makes the arena of a schedule


@dataclass(slots=True)
class Curve:
    """Bytes in use on one device: moments, and the bytes from each on."""

    device: str
    moments: list[int]
    amounts: list[int]

    @property
    def peak(self) -> tuple[int, int]:
        """The most bytes, and the first moment they were in use."""
        most = max(self.amounts)
        return most, self.moments[self.amounts.index(most)]

    def most_in(self, parts: int, end: int) -> list[tuple[int, int]]:
        """The time up to `end` in `parts` parts: when each begins, and the most bytes in it."""
        end = max(end, self.moments[-1]) + 1
        found: list[tuple[int, int]] = []
        place, now = 0, 0
        for part in range(parts):
            start, stop = end * part // parts, end * (part + 1) // parts
            most = now
            while place < len(self.moments) and self.moments[place] < stop:
                now = self.amounts[place]
                most = max(most, now)
                place += 1
            found.append((start, most))
        return found


def curves(trace: Trace) -> list[Curve]:
    """One for each device that had memory."""
    changes: dict[str, list[tuple[int, int]]] = {}
    for allocation in trace.allocations:
        on_device = changes.setdefault(allocation.device, [])
        on_device.append((allocation.start, allocation.nbytes))
        if allocation.end >= 0:
            on_device.append((allocation.end, -allocation.nbytes))
    for now, device, nbytes in trace.freed_before:
        changes.setdefault(device, []).append((now, -nbytes))
    return [_curve(device, before_start(trace, device), found) for device, found in sorted(changes.items())]


def before_start(trace: Trace, device: str) -> int:
    """Bytes in use when the recording began."""
    memory = trace.start.get("memory")
    found = memory.get(device, 0) if isinstance(memory, dict) else 0
    return found if isinstance(found, int) else 0


def _curve(device: str, base: int, changes: list[tuple[int, int]]) -> Curve:
    changes.sort(key=lambda change: change[0])
    moments, amounts = [0], [base]
    for now, nbytes in changes:
        base += nbytes
        moments.append(now)
        amounts.append(base)
    return Curve(device, moments, amounts)


def alive_at(trace: Trace, device: str, moment: int) -> list[Allocation]:
    """The buffers of a moment, the largest first; those that come at that moment are among them."""
    found = [a for a in trace.allocations if a.device == device and a.start <= moment and not 0 <= a.end <= moment]
    return sorted(found, key=lambda a: (-a.nbytes, a.number))


def left_from_before(trace: Trace, device: str, moment: int) -> int:
    """Bytes of buffers from before the recording that are still in use at a moment."""
    gone = sum(nbytes for now, where, nbytes in trace.freed_before if where == device and now <= moment)
    return max(before_start(trace, device) - gone, 0)


def schedule_of(trace: Trace, allocation: Allocation) -> int | None:
    """The schedule whose temporaries these are: the first that ran after they came, of that size."""
    for run in trace.runs:
        schedule = trace.schedules.get(run.schedule)
        if schedule is None or not run.times or run.times[0][0] < allocation.start:
            continue
        if schedule.arena == allocation.nbytes and schedule.device == allocation.device:
            return schedule.id
    return None
