"""Elements by their positions: Gather, GatherND, ScatterND; and in order: TopK.

An INDEX with a gate is 0 where the gate is false, and reads the first element there. A STORE with a gate goes to a row
behind the last, which is cut off.
"""

from __future__ import annotations

from collections.abc import Callable
from math import prod
from typing import TYPE_CHECKING, Final

from whit.dtype import dtypes
from whit.ir import ops
from whit.ir.op import Op
from whit.ir.uop import UOp, const
from whit.onnx.types import INT64
from whit.onnx.writing.elements import choose
from whit.onnx.writing.movement import bare

if TYPE_CHECKING:
    from whit.onnx.writing.translate import Translator

COMBINES = {ops.ADD: "add", ops.MUL: "mul", ops.MAX: "max", ops.MIN: "min"}


def write_index(to: Translator, node: UOp) -> str:
    """Elements of x at positions along its first axes."""
    x, *positions = node.src
    gate = to.name(positions.pop()) if node.arg else ""
    names = [to.sheet.add("Cast", to.name(position), to=INT64) for position in positions]
    if gate:
        zero = to.number(dtypes.int64, 0)
        names = [to.sheet.add("Where", gate, name, zero) for name in names]
    count = len(node.shape) - len(x.shape) + len(positions)  # axes of the positions
    if len(positions) == 1:
        found = to.sheet.add("Gather", to.name(x), names[0], axis=0)
    else:
        picked = to.sizes(node.shape[:count])
        last = to.sheet.numbers([-1])
        parts = [to.sheet.add("Unsqueeze", to.sheet.add("Expand", name, picked), last) for name in names]
        found = to.sheet.add("GatherND", to.name(x), to.sheet.add("Concat", *parts, axis=-1))
    if not gate:
        return found
    inner = len(x.shape) - len(positions)
    if inner:
        gate = to.sheet.add("Unsqueeze", gate, to.sheet.numbers(range(-inner, 0)))
    return choose(to, node, gate, found, to.number(node.dtype, 0))


def write_sort(to: Translator, node: UOp) -> str:
    """Keys in order, their positions, or other values in the order of the keys."""
    keys, values, *_ = node.src
    axis, is_descending = node.arg.axis, int(node.arg.descending)
    count = to.sheet.numbers([node.arg.count])
    best, places = to.sheet.add_many("TopK", (to.name(keys), count), 2, axis=axis, largest=is_descending, sorted=1)
    if values is keys:
        return best
    inner = bare(values)
    while inner.op is ops.RESHAPE:
        inner = inner.src[0]
    if inner.op is ops.ARANGE and inner.shape == (keys.shape[axis],):
        return to.sheet.add("Cast", places, to=to.element(node))
    return to.sheet.add("GatherElements", to.name(values), places, axis=axis)


def write_written(to: Translator, node: UOp) -> str:
    """A value after something was written into it."""
    target, *effects = node.src
    name = to.name(target)
    for effect in effects:
        if effect.op is not ops.STORE:
            raise to.error(effect, "it is another effect than writing")
        if not all(isinstance(size, int) for size in (*target.shape, *effect.src[1].shape)):
            raise to.error(effect, "sizes are symbolic")
        name = _window(to, target, effect, name) if effect.src[0] is not target else _scattered(to, effect, name)
    return name


def _window(to: Translator, target: UOp, store: UOp, name: str) -> str:
    """A value in a view of the target: chosen where the view is, and the old elsewhere."""
    view, value, *positions = store.src
    if positions or store.arg.combine is not None:
        raise to.error(store, "elements are written into a view")
    inside = const(dtypes.bool, True).reshape((1,) * len(view.shape)).expand(view.shape)
    while view is not target:
        back = BACK.get(view.op)
        if back is None:
            raise to.error(store, f"it is written by way of {view.op.name}")
        value, inside, view = back(view, value), back(view, inside), view.src[0]
    return choose(to, value, to.name(inside), to.name(value), name)


def _unshrunk(view: UOp, value: UOp) -> UOp:
    """A window in what it is a window of, with zeros around."""
    sizes = zip(view.arg, view.src[0].shape, strict=True)
    return value.pad(tuple((start, total - start - size) for (start, size), total in sizes))


def _unpadded(view: UOp, value: UOp) -> UOp:
    sizes = zip(view.arg, view.src[0].shape, strict=True)
    return value.shrink(tuple((before, size) for (before, _), size in sizes))


def _unpermuted(view: UOp, value: UOp) -> UOp:
    return value.permute(tuple(view.arg.index(axis) for axis in range(len(view.arg))))


# From a view of x to x: the same elements in the places where they are there.
BACK: Final[dict[Op, Callable[[UOp, UOp], UOp]]] = {
    ops.RESHAPE: lambda view, value: value.reshape(view.src[0].shape),
    ops.PERMUTE: _unpermuted,
    ops.FLIP: lambda view, value: value.flip(view.arg),
    ops.SHRINK: _unshrunk,
    ops.PAD: _unpadded,
}


def _scattered(to: Translator, store: UOp, name: str) -> str:
    """The target, seen as rows of what is not indexed, with values at rows."""
    add, numbers = to.sheet.add, to.sheet.numbers
    target, value, *positions = store.src
    gate = to.name(positions.pop()) if store.arg.gated else ""
    combine = store.arg.combine
    if combine is not None and combine not in COMBINES:
        raise to.error(store, f"there is no scatter by {combine.name}")
    outer, inner = target.shape[: len(positions)], target.shape[len(positions) :]
    rows, width = prod(outer), prod(inner)
    place = to.number(dtypes.int64, 0)
    for axis, position in enumerate(positions):
        stride = to.number(dtypes.int64, prod(outer[axis + 1 :]))
        place = add("Add", place, add("Mul", add("Cast", to.name(position), to=INT64), stride))
    if gate:
        place = add("Where", gate, place, to.number(dtypes.int64, rows))
    count = prod(value.shape) // width if width else 0
    picked = value.shape[: len(value.shape) - len(inner)]
    place = add("Reshape", add("Expand", place, numbers(picked)), numbers([count, 1]))
    behind = to.name(_zeros(store, (1, width)))
    table = add("Concat", add("Reshape", name, numbers([rows, width])), behind, axis=0)
    updates = add("Reshape", to.name(value), numbers([count, width]))
    reduction = {"reduction": COMBINES[combine]} if combine else {}
    written = add("ScatterND", table, place, updates, **reduction)
    kept = add("Slice", written, numbers([0]), numbers([rows]), numbers([0]))
    return add("Reshape", kept, numbers(target.shape))


def _zeros(store: UOp, shape: tuple[int, ...]) -> UOp:
    return store.src[1].constant(0).reshape((1,) * len(shape)).expand(shape)
