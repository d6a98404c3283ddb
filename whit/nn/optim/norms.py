"""Norms of parameters, for optimisers whose rates depend on them."""

from __future__ import annotations

from whit.nn.optim.base import Optimizer
from whit.nn.optim.flat import Flat, FlatRows
from whit.tensor import Tensor


class Normed(Optimizer):
    """An optimiser that can ask for the norm of each parameter, and of what belongs to it."""

    _has_norms = True

    def _flatten(self, params: list[Tensor]) -> Flat:
        return FlatRows(params, self._home(params[0])) if self._has_norms else Flat(params)

    def _norms(self, index: int, *tensors: Tensor) -> list[Tensor]:
        """The norm of each tensor; of flat ones, a norm for each parameter."""
        flat = self._flat[index] if self.fused else None
        if isinstance(flat, FlatRows):
            return flat.norms(*tensors)
        return [tensor.square().sum().sqrt() for tensor in tensors]

    def _for_each_element(self, index: int, numbers: Tensor) -> Tensor:
        """What was computed of norms, beside the elements."""
        flat = self._flat[index] if self.fused else None
        return flat.for_each_element(numbers) if isinstance(flat, FlatRows) else numbers
