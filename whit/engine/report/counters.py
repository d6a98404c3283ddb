"""What ran so far: kernels, operations, bytes, time; and how much memory is in use.

    GlobalCounters.reset()
    model(x).realize()
    GlobalCounters.kernel_count, GlobalCounters.mem_peak
    GlobalCounters.device("CPU:1").global_mem          # the same for one device

Counts are exact and do not depend on timing, so tests may assert them. `time_sum_s` grows only where kernels are timed,
that is with DEBUG >= 2: timing a kernel means waiting for it.
"""

from __future__ import annotations

import functools
import threading
from types import ModuleType

from whit.records import dataclass


@functools.cache
def _memory() -> ModuleType:
    from whit.runtime import buffer  # lazy: `import whit` loads no runtime

    return buffer


@dataclass(slots=True)
class Counts:
    """What was executed."""

    kernel_count: int = 0
    copy_count: int = 0
    global_ops: int = 0  # arithmetic operations
    bytes_read: int = 0
    bytes_written: int = 0
    time_sum_s: float = 0.0

    @property
    def global_mem(self) -> int:
        """Bytes that kernels read and wrote."""
        return self.bytes_read + self.bytes_written

    def add(self, other: Counts) -> None:
        """The counts of both."""
        self.kernel_count += other.kernel_count
        self.copy_count += other.copy_count
        self.global_ops += other.global_ops
        self.bytes_read += other.bytes_read
        self.bytes_written += other.bytes_written
        self.time_sum_s += other.time_sum_s


class DeviceCounters(Counts):
    """The counts of one device, with its memory."""

    __slots__ = ("name",)

    def __init__(self, name: str) -> None:
        super().__init__()
        self.name = name

    @property
    def mem_used(self) -> int:
        """Bytes in live buffers."""
        return int(_memory().usage(self.name).now)

    @property
    def mem_peak(self) -> int:
        """The most bytes that were in live buffers at one time since the last reset."""
        return int(_memory().usage(self.name).peak)


class Counters:
    """The counts of all devices together; use the one instance, `GlobalCounters`."""

    __slots__ = ("_devices", "_lock")

    def __init__(self) -> None:
        self._devices: dict[str, DeviceCounters] = {}
        self._lock = threading.Lock()

    def reset(self) -> None:
        """Everything from zero; memory peaks from what is in use now."""
        with self._lock:
            self._devices.clear()
        _memory().reset_peaks()

    def device(self, name: str) -> DeviceCounters:
        """The counts of one device."""
        found = self._devices.get(name)
        if found is None:
            with self._lock:
                found = self._devices.setdefault(name, DeviceCounters(name))
        return found

    def add(self, device: str, counts: Counts) -> None:
        """Something ran."""
        counters = self.device(device)
        with self._lock:
            counters.add(counts)

    def _total(self) -> Counts:
        total = Counts()
        for counts in list(self._devices.values()):
            total.add(counts)
        return total

    @property
    def kernel_count(self) -> int:
        return self._total().kernel_count

    @property
    def copy_count(self) -> int:
        return self._total().copy_count

    @property
    def global_ops(self) -> int:
        return self._total().global_ops

    @property
    def bytes_read(self) -> int:
        return self._total().bytes_read

    @property
    def bytes_written(self) -> int:
        return self._total().bytes_written

    @property
    def global_mem(self) -> int:
        return self._total().global_mem

    @property
    def time_sum_s(self) -> float:
        return self._total().time_sum_s

    @property
    def mem_used(self) -> int:
        """Bytes in live buffers of all devices."""
        return sum(counter.now for counter in _memory().all_usage())

    @property
    def mem_peak(self) -> int:
        """The sum of the devices' peaks since the last reset."""
        return sum(counter.peak for counter in _memory().all_usage())


GlobalCounters = Counters()
