"""Forward mode: rules for the field `tangent` of op records.

A rule gets a node and the tangents of its sources, None where a source does not change, at least one of which is there.
It gives the tangent of the node, in its shape. `whit.transform.forward` walks the graph with them.

    y = x * w               tangent  dx*w + dw*x
    y = reshape(x)          tangent  reshape(dx)              what is linear is done to the tangent
    y = max(x)              tangent  the mean of dx among the elements that are equal to y

Where a function has no derivative the choice is that of the gradients (docs/gradients.md), so both modes agree. Rules
are made of ops that have tangents and gradients themselves.
"""

from __future__ import annotations

from math import inf
from typing import TYPE_CHECKING

from whit.errors import NotSupportedError
from whit.ir.gradients.effects import Write, broadcast_like, factors, on_content, shares
from whit.ir.gradients.rules import LN2, others, place_on, spread_back, total, zeros_like
from whit.ir.op import OPS

if TYPE_CHECKING:
    from whit.ir.uop import UOp

Tangents = tuple["UOp | None", ...]


def none(node: UOp, tangents: Tangents) -> UOp | None:
    """The derivative is 0 wherever there is one."""
    return None


def linear(node: UOp, tangents: Tangents) -> UOp | None:
    """The first source goes through; sizes, positions and conditions stay."""
    (x, *rest), (dx, *_) = node.src, tangents
    if dx is None:
        return None
    return node.replace(src=(broadcast_like(dx, x) if dx.shape != x.shape else dx, *rest))


def through(node: UOp, tangents: Tangents) -> UOp | None:
    """The tangent of the first source, unchanged."""
    return tangents[0]


def cast(node: UOp, tangents: Tangents) -> UOp | None:
    """The rounding is passed over; integers have no tangent."""
    (dx,) = tangents
    return None if dx is None or not node.dtype.is_continuous else dx.cast(node.dtype)


def complex_of_parts(node: UOp, tangents: Tangents) -> UOp | None:
    """That of the parts."""
    real, imaginary = tangents
    known = real if real is not None else imaginary
    assert known is not None, "a rule is asked where there is a tangent"
    zero = known.constant(0.0)
    return (zero if real is None else real).alu(node.op, zero if imaginary is None else imaginary)


def real_part(node: UOp, tangents: Tangents) -> UOp | None:
    """The real part of the tangent."""
    (dx,) = tangents
    return None if dx is None else dx.alu(OPS["real"])


def imaginary_part(node: UOp, tangents: Tangents) -> UOp | None:
    """The imaginary part of the tangent."""
    (dx,) = tangents
    return None if dx is None else dx.alu(OPS["imag"])


def where(node: UOp, tangents: Tangents) -> UOp | None:
    """condition ? yes : no"""
    (condition, _, _), (_, yes, no) = node.src, tangents
    known = yes if yes is not None else no
    assert known is not None, "a rule is asked where there is a tangent"
    zero = known.constant(0.0)
    return condition.where(zero if yes is None else yes, zero if no is None else no)


def stack(node: UOp, tangents: Tangents) -> UOp | None:
    """Those of the sources, zeros where there is none."""
    pairs = zip(node.src, tangents, strict=True)
    return node.replace(src=tuple(zeros_like(x) if dx is None else dx for x, dx in pairs))


# ---- reductions and scans


def reduce(node: UOp, tangents: Tangents) -> UOp | None:
    """add: the sum. max and min: the mean of those equal to it. mul: each times the product of all others."""
    (x,), (dx,), axes, op = node.src, tangents, node.arg.axes, node.arg.op
    if dx is None:
        return None
    if op.name == "add":
        return node.replace(src=(dx,))
    if op.name in ("max", "min"):
        chosen = x.eq(spread_back(node, x, axes)).where(x.constant(1.0), 0.0)
        return total(chosen * dx, axes) / total(chosen, axes)
    if op.name == "mul":
        return total(others(x, axes, op) * dx, axes)
    return None


def scan(node: UOp, tangents: Tangents) -> UOp | None:
    """add: the running sum. max and min: that of the element that was the best so far. mul, logaddexp: see below."""
    (x,), (dx,), axis, op = node.src, tangents, node.arg.axis, node.arg.op
    if dx is None:
        return None
    if op.name == "add":
        return node.replace(src=(dx,))
    if node.arg.reverse:
        found = scan(x.flip((axis,)).scan(op, axis), (dx.flip((axis,)),))
        return None if found is None else found.flip((axis,))
    if op.name == "logaddexp":
        return _running_logarithm(node, dx)
    if op.name == "mul":
        return _running_product(node, dx)
    if op.name in ("max", "min"):
        return _running_best(node, dx)
    return None


def _running_logarithm(node: UOp, dx: UOp) -> UOp:
    """The sum of dx*e**x up to here over e**y, as logarithms: of what is positive, less that of what is not."""
    (x,), axis = node.src, node.arg.axis
    nothing = x.constant(-inf)

    def part(weight: UOp) -> UOp:
        is_more = weight > 0.0
        logarithm = is_more.where(is_more.where(weight, 1.0).log2() * LN2 + x, nothing)
        running = logarithm.scan(node.arg.op, axis)
        return (running.eq(-inf).where(nothing, running - node) * (1 / LN2)).exp2()

    return part(dx) - part(-dx)


def _running_product(node: UOp, dx: UOp) -> UOp:
    """Before the first zero: y times the sum of dx/x up to here. From it on: its dx times the product without it."""
    (x,), axis, op = node.src, node.arg.axis, node.arg.op
    one = x.constant(1.0)
    zeros = x.eq(0.0).where(one, 0.0).scan(OPS["add"], axis)
    is_first = x.eq(0.0) & zeros.eq(1.0)
    before = node * (dx / x.eq(0.0).where(one, x)).scan(OPS["add"], axis)
    at_zero = is_first.where(dx, 0.0).scan(OPS["add"], axis)
    after = is_first.where(one, x).scan(op, axis) * at_zero
    return (zeros < 1.0).where(before, after)


def _running_best(node: UOp, dx: UOp) -> UOp:
    """dx at the place of the first element that was as good."""
    (x,), axis = node.src, node.arg.axis
    size, rank = x.shape[axis], len(x.shape)
    if isinstance(size, int) and size < 2:
        return dx
    pads = [(1, 0) if i == axis else (0, 0) for i in range(rank)]
    window = [(0, size - 1 if i == axis else n) for i, n in enumerate(x.shape)]
    place = place_on(x, axis)
    before = node.shrink(window).pad(pads)
    is_new = place.eq(0) | ((before < x) if node.arg.op.name == "max" else (x < before))
    best = is_new.where(place, 0).scan(OPS["max"], axis)
    order = (axis, *(i for i in range(rank) if i != axis))
    back = tuple(order.index(i) for i in range(rank))
    moved = dx.permute(order)
    places = [best.permute(order), *(place_on(moved, i) for i in range(1, rank))]
    return moved.index(*places).permute(back)


def sort(node: UOp, tangents: Tangents) -> UOp | None:
    """In the order of the keys, as the values."""
    key, (_, dx) = node.src[0], tangents
    return None if dx is None else node.replace(src=(key, dx))


# ---- memory


def store(node: UOp, tangents: Tangents) -> UOp | None:
    """That of the value, for AFTER."""
    return tangents[1]


def after(node: UOp, tangents: Tangents) -> UOp | None:
    """The tangent of the old content, changed by each store as it changes the content."""
    old, *effects = node.src
    dx, *values = tangents
    if all(value is None for value in tangents):
        return None
    content, found = old, zeros_like(old) if dx is None else dx
    for effect, value in zip(effects, values, strict=True):
        write = Write(content, *on_content(effect, old, content))
        found = _written(write, found, zeros_like(write.value) if value is None else value)
        content = write.after()
    return found


def _written(write: Write, dx: UOp, value: UOp) -> UOp:
    """The tangent of the content after a write, from those of the content before and of the value."""
    combine = write.effect.arg.combine
    if combine is None:
        return write.put(dx, value)
    if combine.name == "add":
        return write.put(dx, value, "add")
    if combine.name in ("max", "min"):
        stays, wins, count = shares(write)
        return write.put(stays * dx, wins * value, "add") / count
    if combine.name == "mul":
        at_content, at_value = factors(write)
        return write.put(at_content * dx, at_value * value, "add")
    raise NotSupportedError(f"jvp: a write that combines by {combine.name}", write.effect.short(), "Detach the tensor.")
