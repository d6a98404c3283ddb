"""Why values are stored between kernels, as the scheduler says it while it makes a schedule.

    stored float32(64, 32): a reduction of 4096 elements would be computed 32 times where it is read

Schedules that come from memory or from the disk have no reasons: whoever wants them makes the schedule again.
"""

from __future__ import annotations

from typing import Any

from whit.ir.op import spell_shape
from whit.ir.uop import UOp
from whit.records import dataclass, field

Stored = tuple[tuple[UOp, str], ...]  # values, and why each is stored


@dataclass(slots=True)
class WhyStored:
    """Looks on while a schedule is made."""

    calls: list[tuple[str, Stored]] = field(default_factory=list)  # each call's kernel by name, and what it stores

    def observe(self, step: Any, graph: UOp, job: Any) -> None:
        """For the scheduler. The calls of functions are among the others when theirs are put back, and in order."""
        if step.name == "put_calls_back":
            functions = [call.src[0] for call in graph.src]
            self.calls = [(function.arg.name, tuple(job.reasons.get(function, ()))) for function in functions]


def stored_lines(stored: Stored) -> list[str]:
    """A line for each value that is stored for a reason: results are not."""
    return [f"stored {node.dtype.name}{spell_shape(node.shape)}: {reason}" for node, reason in stored if reason]
