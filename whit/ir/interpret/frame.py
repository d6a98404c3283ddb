"""What a function's body can see while it runs: its params, the buffers around it, the values of variables."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from whit.dtype import dtypes
from whit.errors import DTypeError, MissingError, OutOfRangeError, ShapeError
from whit.ir import ops
from whit.ir.interpret.values import Array, constant, numpy_dtype, poison
from whit.ir.op import spell_shape
from whit.ir.uop import UOp


class Frame:
    """The memory and variables of one activation. All arrays in `memory` are C-contiguous."""

    def __init__(self, given: Mapping[UOp, Any], outer: Frame | None = None) -> None:
        self.given = dict(given)
        self.outer = outer
        self.memory: dict[UOp, Array] = {}

    def has(self, node: UOp) -> bool:
        """Whether a buffer or param has an array."""
        if node in self.memory or node in self.given:
            return True
        return node.op is ops.BUFFER and self.outer is not None and self.outer.has(node)

    def allocate(self, node: UOp, sizes: Sequence[int]) -> None:
        """Memory for a buffer that is written and was not given."""
        if node.op is ops.BUFFER and not self.has(node):
            self.memory[node] = poison(node.dtype, tuple(sizes))

    def leaf(self, node: UOp) -> Array:
        """The array of a PARAM or BUFFER (the memory itself, not a copy), or the value of a VARIABLE."""
        if node in self.memory:
            return self.memory[node]
        if node in self.given:
            if node.op is ops.VARIABLE:
                return _variable(node, self.given[node])
            self.memory[node] = _checked_array(node, self.given[node])
            return self.memory[node]
        if self.outer is not None and node.op is not ops.PARAM:
            return self.outer.leaf(node)
        raise MissingError(f"interpret: {node.short()} has no value", fix="Give its value in inputs.")

    def commit(self) -> dict[UOp, Array]:
        """Writes back to the caller's arrays where memory is a copy of them; all memory by node."""
        for node, array in self.memory.items():
            given = self.given.get(node)
            if isinstance(given, np.ndarray) and given is not array and given.flags.writeable:
                given[...] = array
        return dict(self.memory)


def _variable(node: UOp, value: Any) -> Array:
    number, low, high = int(value), node.arg.low, node.arg.high
    if not low <= number <= high:
        raise OutOfRangeError(
            f"interpret: {node.arg.name} = {number} is outside [{low}, {high}]", fix="Give a value between its bounds."
        )
    return constant(node.dtype, number)


def _checked_array(node: UOp, value: Any) -> Array:
    storage = numpy_dtype(node.dtype)
    is_array = isinstance(value, np.ndarray)
    if is_array and value.dtype != storage and not (node.dtype is dtypes.weakint and value.dtype.kind in "iu"):
        raise DTypeError(f"interpret: {node.short()} is given an array of {value.dtype}", fix=f"Give one of {storage}.")
    array = np.asarray(value, storage, order="C")
    fits = len(array.shape) == len(node.shape) and all(
        not isinstance(wanted, int) or wanted == size for wanted, size in zip(node.shape, array.shape, strict=True)
    )
    if not fits:
        raise ShapeError(
            f"interpret: {node.short()} is given an array of shape {array.shape}",
            fix=f"Give one of shape {spell_shape(node.shape)}.",
        )
    return array
