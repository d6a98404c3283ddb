"""Batches: rules for the field `batch` of op records.

A rule gets a node of one example, its sources as they are over a batch, which of them have the axis of the batch (in
front), and its size. It gives the node over the batch, that axis in front. `whit.transform.batch` asks where at least
one source has the axis; what does not depend on the batch stays one value.

    reduce(add, x, axes=(1,))               reduce(add, X, axes=(2,))
    x * w, w the same for all               X * expand(w)

Nothing of the package is imported here but at the type checker's wish: the records of ops stand on this.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from whit.errors import NotSupportedError

if TYPE_CHECKING:
    from whit.ir.uop import UOp

Sources = tuple["UOp", ...]
Mapped = tuple[bool, ...]


def spread(x: UOp, size: Any) -> UOp:
    """The same value for every example."""
    return x.reshape((1, *x.shape)).expand((size, *x.shape))


def spread_all(src: Sources, mapped: Mapped, size: Any) -> Sources:
    """All sources with the axis of the batch."""
    return tuple([x if has_axis else spread(x, size) for x, has_axis in zip(src, mapped, strict=True)])


def moved_axis(node: UOp, start: int, end: int) -> UOp:
    """An axis in another place."""
    if start == end:
        return node
    order = [axis for axis in range(len(node.shape)) if axis != start]
    order.insert(end, start)
    return node.permute(tuple(order))


def fitted(x: UOp, has_axis: bool, shape: tuple[Any, ...], size: Any) -> UOp:
    """An operand that was a scalar or had this shape, as one of (size, *shape). A scalar for all may stay one."""
    if not has_axis:
        return spread(x, size) if x.shape else x
    if len(x.shape) == 1 and shape:
        return x.reshape((size, *(1,) * len(shape))).expand((size, *shape))
    return x


def aligned(node: UOp, src: Sources, mapped: Mapped, size: Any) -> UOp:
    """Elementwise ops: operands of one shape, or scalars."""
    pairs = zip(src, mapped, strict=True)
    return node.replace(src=tuple([fitted(x, has_axis, node.shape, size) for x, has_axis in pairs]))


def first(node: UOp, src: Sources, mapped: Mapped, size: Any) -> UOp:
    """What keeps the shape of its first source: the rest may have the axis or not."""
    value, *rest = src
    return node.replace(src=(value if mapped[0] else spread(value, size), *rest))


def together(node: UOp, src: Sources, mapped: Mapped, size: Any) -> UOp:
    """All of them, in a group, with the axis."""
    return node.replace(src=spread_all(src, mapped, size))


# ---- movement


def reshape(node: UOp, src: Sources, mapped: Mapped, size: Any) -> UOp:
    """The axis stays in front."""
    return src[0].reshape((size, *node.shape))


def expand(node: UOp, src: Sources, mapped: Mapped, size: Any) -> UOp:
    """The same axes."""
    return src[0].expand((size, *node.shape))


def permute(node: UOp, src: Sources, mapped: Mapped, size: Any) -> UOp:
    """The axis stays in front."""
    return src[0].permute((0, *(axis + 1 for axis in node.arg)))


def pad(node: UOp, src: Sources, mapped: Mapped, size: Any) -> UOp:
    """Nothing around the examples."""
    return src[0].pad(((0, 0), *node.sizes))


def shrink(node: UOp, src: Sources, mapped: Mapped, size: Any) -> UOp:
    """A window of each example."""
    return src[0].shrink(((0, size), *node.sizes))


def flip(node: UOp, src: Sources, mapped: Mapped, size: Any) -> UOp:
    """The same axes."""
    return src[0].flip(tuple(axis + 1 for axis in node.arg))


def stack(node: UOp, src: Sources, mapped: Mapped, size: Any) -> UOp:
    """The new axis comes behind that of the batch."""
    stacked = node.replace(src=spread_all(src, mapped, size))
    return stacked.permute((1, 0, *range(2, len(stacked.shape))))


# ---- reductions, scans, sorts


def reduce(node: UOp, src: Sources, mapped: Mapped, size: Any) -> UOp:
    """The same axes."""
    axes = tuple(axis + 1 for axis in node.arg.axes)
    return node.replace(src=src, arg=type(node.arg)(node.arg.op, axes))


def scan(node: UOp, src: Sources, mapped: Mapped, size: Any) -> UOp:
    """The same axis."""
    arg = node.arg
    return node.replace(src=src, arg=type(arg)(arg.op, arg.axis + 1, arg.reverse, arg.exclusive))


def sort(node: UOp, src: Sources, mapped: Mapped, size: Any) -> UOp:
    """The same axis."""
    arg = node.arg
    behind = type(arg)(arg.count, arg.axis + 1, arg.descending, arg.piece, arg.runs)
    return node.replace(src=spread_all(src, mapped, size), arg=behind)


# ---- memory


def _numbers(node: UOp, shape: tuple[Any, ...], size: Any) -> UOp:
    """The number of the example, at positions of this shape."""
    numbers = type(node).arange(size)
    return numbers.reshape((size, *(1,) * len(shape))).expand((size, *shape)) if shape else numbers


def index(node: UOp, src: Sources, mapped: Mapped, size: Any) -> UOp:
    """Examples at the same positions are read together; at positions of their own, the example is one more."""
    value, *places = src
    gate = places.pop() if node.arg else None
    count, rank = len(places), len(node.src[0].shape)
    shape = node.shape[: len(node.shape) - (rank - count)]
    if mapped[0] and not any(mapped[1:]):
        behind = value.permute((*range(1, count + 1), 0, *range(count + 1, rank + 1)))
        found = behind.index(*places, gate=gate)
        lead = len(shape)
        return found.permute((lead, *range(lead), *range(lead + 1, len(found.shape))))
    given = [fitted(place, has_axis, shape, size) for place, has_axis in zip(src[1:], mapped[1:], strict=True)]
    gate = given.pop() if node.arg else None
    if mapped[0]:
        given.insert(0, _numbers(node, shape, size))
    return value.index(*given, gate=gate)


def store(node: UOp, src: Sources, mapped: Mapped, size: Any) -> UOp:
    """Each example into its own part of the target, which AFTER replaces by the one that it has."""
    target, value, *places = src
    has_axis = mapped[1:]
    target = target if mapped[0] else spread(target, size)
    if len(places) == bool(node.arg.gated):  # a whole target, where a gate holds
        shape = node.src[0].shape
        given = [fitted(x, flag, shape, size) for x, flag in zip((value, *places), has_axis, strict=True)]
        return node.replace(src=(target, *given))
    count = len(places) - bool(node.arg.gated)
    shape = next((place.shape for place in node.src[2:] if place.shape), ())
    given = [fitted(x, flag, shape, size) for x, flag in zip(places, has_axis[1:], strict=True)]
    whole = (*shape, *node.src[0].shape[count:])
    value = fitted(value, has_axis[0], whole, size)
    return node.replace(src=(target, value, _numbers(node, shape, size), *given))


def after(node: UOp, src: Sources, mapped: Mapped, size: Any) -> UOp:
    """The old content, of every example, changed by each store."""
    old, before = src[0] if mapped[0] else spread(src[0], size), node.src[0]
    effects = []
    for effect, now, has_axis in zip(node.src[1:], src[1:], mapped[1:], strict=True):
        if effect.op.name != "store":
            raise NotSupportedError("vmap: an effect that is not a store", effect.short(), "Do it outside.")
        if not has_axis:
            now = store(effect, effect.src, (False,) * len(effect.src), size)
        effects.append(now.replace(src=(_on_view(effect.src[0], before, old, size), *now.src[1:])))
    return old.after(*effects)


def _on_view(view: UOp, memory: UOp, other: UOp, size: Any) -> UOp:
    """The same view of a content over the batch as `view` is of `memory`."""
    chain = []
    while view is not memory:
        if not view.src:
            raise NotSupportedError("vmap: a store into something else", view.short(), "Do it outside.")
        chain.append(view)
        view = view.src[0]
    for link in reversed(chain):
        assert link.op.batch is not None, "a view is movement"
        other = link.op.batch(link, (other, *link.src[1:]), (True,) + (False,) * (len(link.src) - 1), size)
    return other
