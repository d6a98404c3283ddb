"""One native call for all that a program does on CPUs: kernels of several plans, and copies between them.

Goes in: batches of kernels and copies of `CPU` devices, in order. Comes out: one list of launches for the thread pool,
in which neighbours that may run at once, and of which one would leave cores idle, are one launch (`whit_group`).

    copy y from x  (8 MB)                          group: copy y, f
    f(a, x)        one thread           ->         k
    k(c, y, a)

So a copy runs beside a kernel that does not need it. What is small is left alone: it is done before others have come.
"""

from __future__ import annotations

from array import array
from collections.abc import Sequence
from typing import Any

from whit.engine.devices.cpu import WORDS_A_LAUNCH, Resident
from whit.engine.programs.dependencies import Access, dependencies
from whit.records import dataclass, field
from whit.runtime.buffer import Buffer
from whit.runtime.pool.threads import COPY_CHUNK_BYTES, native_call, native_kernel, thread_count

LITTLE_WORK = 1 << 16  # bytes and operations, about 10 us of work: less than that is not shared


@dataclass(slots=True)
class Copy:
    """A copy between memories of this machine: places in the table of a program, and room for their addresses."""

    target: int
    source: int
    nbytes: int
    pointers: array[int] = field(default_factory=lambda: array("Q", (0, 0)))


@dataclass(frozen=True, slots=True)
class _Launch:
    words: tuple[int, ...]  # kernel, buffers, variables, total, chunk, threads
    accesses: Sequence[Access]
    work: int  # bytes and operations; 0 for one that is better left alone
    is_copy: bool

    @property
    def chunks(self) -> int:
        total, chunk = self.words[3:5]
        return -(-total // chunk)


class LaunchList:
    """Launches in order; after `finish` they stay where they are."""

    def __init__(self) -> None:
        self.copies: list[Copy] = []
        self.threads = 1
        self._found: list[_Launch] = []
        self._launches = array("Q")
        self._groups: list[array[int]] = []  # keeps the arrays that launches point to

    def add_kernels(self, resident: Resident, steps: range, accesses: Sequence[Sequence[Access]]) -> None:
        """Some steps of a loaded plan."""
        loaded = resident.loaded
        self.threads = max(self.threads, loaded.threads)
        for step, bytes_of_step in zip(steps, accesses, strict=True):
            words = tuple(resident.frame.launches[step * WORDS_A_LAUNCH : (step + 1) * WORDS_A_LAUNCH])
            kernel = loaded.kernels[step]
            work = kernel.ops + kernel.bytes_read + kernel.bytes_written
            self._found.append(
                _Launch(words, bytes_of_step, work if work >= LITTLE_WORK and kernel.total else 0, False)
            )

    def add_copy(self, copy: Copy, accesses: Sequence[Access]) -> None:
        """A copy, which all threads share."""
        threads = max(min(thread_count(), copy.nbytes // COPY_CHUNK_BYTES), 1)
        self.threads = max(self.threads, threads)
        pointers = copy.pointers.buffer_info()[0]
        words = (native_kernel("whit_copy"), pointers, 0, copy.nbytes, COPY_CHUNK_BYTES, threads)
        self._found.append(_Launch(words, accesses, copy.nbytes if copy.nbytes >= LITTLE_WORK else 0, True))
        self.copies.append(copy)

    def finish(self) -> None:
        """Makes the list."""
        for group in self.groups():
            launches = [self._found[number] for number in group]
            self._launches.extend(launches[0].words if len(launches) == 1 else self._joined(launches))

    def groups(self) -> list[list[int]]:
        """The launches by number, those together that become one."""
        waits = dependencies([launch.accesses for launch in self._found])
        found: list[list[int]] = []
        for number, launch in enumerate(self._found):
            together = found and launch.work and self._found[found[-1][0]].work
            if together and (not waits[number] or waits[number][-1] < found[-1][0]):
                found[-1].append(number)
            else:
                found.append([number])
        return [part for group in found for part in ([group] if self._is_shared(group) else [[one] for one in group])]

    def _is_shared(self, group: list[int]) -> bool:
        """Whether a launch of a group would leave cores idle, or wait for memory, by itself."""
        launches = [self._found[number] for number in group]
        return self.threads > 1 and any(launch.is_copy or launch.words[5] < self.threads for launch in launches)

    def _joined(self, launches: list[_Launch]) -> tuple[int, ...]:
        """One launch for several: what has the largest chunks begins, so that nobody waits for one that began last."""
        members, ends = array("Q"), array("Q")
        total = 0
        for launch in sorted(launches, key=lambda launch: -launch.work / launch.chunks):
            members.extend(launch.words)
            total += launch.chunks
            ends.append(total)
        self._groups += [members, ends]
        where = members.buffer_info()[0], ends.buffer_info()[0]
        return (native_kernel("whit_group"), *where, total, 1, min(self.threads, total))

    def calls(self, table: Sequence[Buffer]) -> list[tuple[Any, ...]]:
        """The native call: a function and its arguments."""
        for copy in self.copies:
            copy.pointers[0] = table[copy.target].address
            copy.pointers[1] = table[copy.source].address
        return [native_call(self._launches.buffer_info()[0], len(self._launches) // WORDS_A_LAUNCH, self.threads)]
