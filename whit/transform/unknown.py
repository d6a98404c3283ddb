"""Directions that are not known while a derivative is made of them.

    seed = stand_in(...)
    with during(Unknown([seed])): rule(y, seed, x)

What would be computed of them at once is another value that is not known. That is right where only the derivative by
the direction is wanted: a function with a gradient of its own (FORMULA) has it whatever its value.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from math import inf

from whit.dtype import dtypes
from whit.ir.graph import topological
from whit.ir.uop import UOp, const
from whit.transform.active import Compute, Read, Repeat, Step
from whit.transform.stand_in import stand_in


class Unknown:
    """Nodes without a value, and what was made of them at once."""

    def __init__(self, nodes: Iterable[UOp]) -> None:
        self._nodes = set(nodes)
        self.is_used = False  # whether something stands for a value that was to be computed

    def _is_below(self, nodes: Sequence[UOp]) -> bool:
        return not self._nodes.isdisjoint(topological(nodes))

    def _like(self, nodes: Sequence[UOp]) -> list[UOp]:
        made = [stand_in(node.dtype, node.shape, node.device) for node in nodes]
        self._nodes.update(made)
        self.is_used = True
        return made

    def computed(self, nodes: Sequence[UOp], compute: Compute) -> list[UOp]:
        """Of what depends on a direction, others that are not known."""
        return self._like(nodes) if self._is_below(nodes) else compute(nodes)

    def repeated(self, step: Step, state: Sequence[UOp], repeat: Repeat) -> list[UOp]:
        """The same of a state."""
        roots = list(step(const(dtypes.weakint, 0), state))
        return self._like(state) if self._is_below([*state, *roots]) else repeat(step, state)

    def greatest(self, node: UOp, read: Read) -> float:
        """Nothing to go on for."""
        return -inf if self._is_below([node]) else read(node)
