"""What is computed and moved, whatever computes it: operations, bytes, launches, and the seconds that they take.

cost = estimate(body)                       of a kernel, before it is tiled (`whit.kernel.estimate`)
cost.seconds(rates_of(target))              the roofline: what takes longer, its operations or its bytes
cost.limit(rates)                           "memory" or "compute": which of the two that is
"""

from __future__ import annotations

from whit.kernel.rates import Rates
from whit.records import dataclass


@dataclass(frozen=True, slots=True)
class Cost:
    """Of one run."""

    operations: int = 0  # on elements
    bytes_read: int = 0
    bytes_written: int = 0
    launches: int = 1

    @property
    def bytes_moved(self) -> int:
        """Read and written."""
        return self.bytes_read + self.bytes_written

    def seconds(self, rates: Rates) -> float:
        """What it takes at least: bytes move while operations go on."""
        return max(self._for_bytes(rates), self._for_operations(rates)) + self.launches * rates.launch_seconds

    def limit(self, rates: Rates) -> str:
        """What takes these seconds: "memory" or "compute"."""
        return "memory" if self._for_bytes(rates) >= self._for_operations(rates) else "compute"

    def _for_bytes(self, rates: Rates) -> float:
        return self.bytes_moved / rates.bytes_per_second

    def _for_operations(self, rates: Rates) -> float:
        return self.operations / rates.flops_per_second
