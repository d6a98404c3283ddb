"""Whether the schedule of a graph with effects does what the graph says; the setting CHECK_PLAN turns it on.

Goes in: a graph of stores, and its schedule. Both are interpreted on the same small whole numbers: the graph as it was
written, with effects as values, and the kernels one after the other, in memory. An InternalError names the result that
differs: a read that saw a later or an earlier write, an effect that was carried out too often or too seldom.

Graphs without effects are the same on both sides but for arithmetic, which other tests compare; large ones take too
long. Where the numbers lead outside of a tensor nothing is said, nor where one view is changed in two meanings.
"""

from __future__ import annotations

from collections.abc import Mapping
from math import prod
from typing import Any

import numpy as np

from whit.dtype import DType
from whit.engine.memory.storage import concrete_shape
from whit.errors import InternalError, UserError
from whit.ir import ops
from whit.ir.graph import topological
from whit.ir.interpret import numpy_dtype, run
from whit.ir.interpret.values import poison
from whit.ir.interpret.views import changed_values
from whit.ir.uop import UOp

MOST_ELEMENTS = 1 << 14  # of all values of a graph together
OFF = {2: 3e-2, 4: 1e-3, 8: 1e-6}  # relative to the largest number, by bytes: sums may be in another order

Array = Any


def check_schedule(graph: UOp, linear: UOp) -> None:
    """Raises unless the schedule stores what the graph does."""
    order = topological((graph,), enter_functions=True)
    if not any(node.op is ops.AFTER for node in order):
        return
    if _is_ambiguous(order):
        return
    variables = {node.arg.name: node.arg.low for node in order if node.op is ops.VARIABLE}
    shapes = [concrete_shape(node.shape, variables) for node in order]
    if sum(map(prod, shapes)) > MOST_ELEMENTS or min(map(min, filter(None, shapes)), default=0) < 0:
        return  # large, or smallest values of several variables that a graph takes for granted not to be together
    stored = {_memory(store) for store in graph.src}
    arrays = _arrays(graph, order, stored, variables)
    try:
        with np.errstate(all="ignore"):
            wanted, found = (_run(each, arrays, variables) for each in (graph, linear))
    except UserError:  # a position that is outside
        return
    for param in stored:
        if not _is_same(wanted[param], found[param], param.dtype):
            raise InternalError(
                f"check_schedule: {param.short()} is not what the graph says",
                f"for small numbers, {found[param].tolist()} instead of {wanted[param].tolist()}",
                "The scheduler lets a read see another write, or carries out an effect too often or too seldom.",
            )


def _arrays(graph: UOp, order: list[UOp], stored: set[UOp], variables: Mapping[str, int]) -> dict[UOp, Array]:
    """What is in the memory of each param before: small numbers, and poison where nobody may read."""
    random = np.random.default_rng(0)
    read = {node for store in graph.src for node in topological(store.src[1:]) if node.op is ops.PARAM}
    arrays: dict[UOp, Array] = {}
    for param in [node for node in order if node.op is ops.PARAM]:
        shape = concrete_shape(param.shape, variables)
        arrays[param] = _numbers(param.dtype, shape, random)
        if param in stored and param not in read:
            arrays[param] = poison(param.dtype, shape).copy()
    return arrays


def _is_ambiguous(order: list[UOp]) -> bool:
    """Whether a view is changed both as a part of something and by itself: the interpreter knows one meaning of it."""
    values = changed_values(order)
    for node in order:
        if node.op is not ops.AFTER:
            continue
        whole = node
        while whole.op is ops.AFTER:
            whole = whole.src[0]
        for store in node.src[1:]:
            view = store.src[0] if store.op is ops.STORE else whole
            while view is not whole and view.src and view not in values:
                view = view.src[0]
            if view is not whole and view in values:
                return True
    return False


def _memory(store: UOp) -> UOp:
    target: UOp = store.src[0]
    while target.op is not ops.PARAM:
        target = target.src[0]
    return target


def _numbers(dtype: DType, shape: tuple[int, ...], random: Any) -> Array:
    """Small ones, of which integers may be positions."""
    if dtype.is_bool:
        return random.integers(0, 2, shape).astype(np.bool_)
    low = 0 if dtype.is_unsigned else -1 if dtype.is_int else -3
    return random.integers(low, 4, shape).astype(numpy_dtype(dtype))


def _run(root: UOp, arrays: Mapping[UOp, Array], variables: Mapping[str, int]) -> dict[UOp, Array]:
    """The arrays after all effects."""
    own: dict[UOp, Any] = {node: array.copy() for node, array in arrays.items()}
    names = [node for node in topological((root,), enter_functions=True) if node.op is ops.VARIABLE]
    run(root, own | {node: variables[node.arg.name] for node in names})
    return own


def _is_same(a: Array, b: Array, dtype: DType) -> bool:
    if not dtype.is_float:
        return np.array_equal(a, b)
    wide, other = a.astype(np.float64), b.astype(np.float64)
    finite = np.abs(wide[np.isfinite(wide)])
    off = OFF.get(dtype.itemsize, 0.2) * max(float(finite.max(initial=0)), 1.0)
    return np.allclose(wide, other, rtol=0, atol=off, equal_nan=True)
