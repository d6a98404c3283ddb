"""What is computed and moved, whatever computes it: operations, bytes, launches, and the seconds that they take.

cost = estimate(body)                       of a kernel, before it is tiled (`whit.kernel.estimate`)
cost.seconds(rates_of(target))              the roofline: what takes longer, its operations or its bytes
cost.limit(rates)                           "memory" or "compute": which of the two that is
"""

from __future__ import annotations

from whit.ir import ops
from whit.ir.op import Op
from whit.kernel.rates import Rates
from whit.records import dataclass

# What instructions take on one core, in additions; others take one.
INSTRUCTION_ADDITIONS = {
    ops.EXP2: 8,
    ops.LOG2: 10,
    ops.SIN: 20,
    ops.COS: 20,
    ops.POW: 30,
    ops.LOGADDEXP: 30,
    ops.SQRT: 4,
    ops.FDIV: 4,
    ops.RECIPROCAL: 4,
}
# Those of them that are among the operations which a function becomes (`Op.operations`).
INSIDE = {
    ops.EXP: (ops.EXP2,),
    ops.LOG: (ops.LOG2,),
    ops.SIGMOID: (ops.EXP2, ops.RECIPROCAL),
    ops.TANH: (ops.EXP2, ops.RECIPROCAL),
    ops.ERF: (ops.EXP2,),
}


def additions(op: Op) -> int:
    """What an elementwise op takes, in additions."""
    if op in INSIDE:
        return op.operations + sum(INSTRUCTION_ADDITIONS[each] - 1 for each in INSIDE[op])
    return INSTRUCTION_ADDITIONS.get(op, 1)


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
