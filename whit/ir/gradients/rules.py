"""The gradients of ops: rules for the field `grad` of their records.

A rule gets a node and dy, the gradient of some number with respect to the node, of the node's shape. It gives one
gradient for each source, None where none flows (conditions, positions, sizes). `whit.transform` walks the
graph with them.

    mul(x, y):  dy*y, dy*x            a gradient of shape S for a scalar operand is summed by the walker

Every rule is made of ops that have gradients themselves, so that gradients of gradients are right. Where a function has
no derivative the choice is in docs/gradients.md: a maximum shares dy among equal operands, abs'(0) is 0.
"""

from __future__ import annotations

from collections.abc import Callable
from math import inf, log, nan, pi, prod, sqrt
from typing import TYPE_CHECKING, Any

from whit.dtype import dtypes
from whit.ir.op import OPS, GradientRule

if TYPE_CHECKING:
    from whit.ir.uop import UOp

Gradients = tuple["UOp | None", ...]
SlopeRule = Callable[["UOp", "UOp"], "UOp"]  # dy/dx of y and x

LN2 = log(2)


def total(value: UOp, axes: tuple[int, ...]) -> UOp:
    """The sum along axes, in float32 at least."""
    if not axes:
        return value
    if value.dtype.is_float and value.dtype.itemsize < 4:
        return value.cast(dtypes.float32).reduce(OPS["add"], axes).cast(value.dtype)
    return value.reduce(OPS["add"], axes)


def flat(node: UOp, dy: UOp) -> Gradients:
    """The derivative is 0 wherever there is one: steps, comparisons, bits."""
    return (None,) * len(node.src)


def through(node: UOp, dy: UOp) -> Gradients:
    """The value of the first source, unchanged."""
    return (dy, *(None for _ in node.src[1:]))


# ---- elementwise


def negate(node: UOp, dy: UOp) -> Gradients:
    """-x"""
    return (-dy,)


def magnitude(node: UOp, dy: UOp) -> Gradients:
    """|x|: the sign, 0 at 0."""
    (x,) = node.src
    return ((x > 0.0).where(dy, (x < 0.0).where(-dy, 0.0)),)


def reciprocal(node: UOp, dy: UOp) -> Gradients:
    """1/x"""
    return (-(dy * node * node),)


def square_root(node: UOp, dy: UOp) -> Gradients:
    """sqrt(x): infinite at 0."""
    return (dy * 0.5 / node,)


def exp2(node: UOp, dy: UOp) -> Gradients:
    """2**x"""
    return (dy * node * LN2,)


def log2(node: UOp, dy: UOp) -> Gradients:
    """log2(x)"""
    (x,) = node.src
    return (dy / (x * LN2),)


def in_float32(rule: SlopeRule) -> GradientRule:
    """dy times the slope of a function y of x, given as rule(y, x). Of smaller dtypes it is computed in float32."""

    def gradient(node: UOp, dy: UOp) -> Gradients:
        (x,) = node.src
        if x.dtype.itemsize >= 4:
            return (dy * rule(node, x),)
        wide = rule(node.cast(dtypes.float32), x.cast(dtypes.float32))
        return ((dy.cast(dtypes.float32) * wide).cast(x.dtype),)

    gradient.__doc__ = rule.__doc__
    return gradient


@in_float32
def exp(y: UOp, x: UOp) -> UOp:
    """e**x"""
    return y


@in_float32
def natural_log(y: UOp, x: UOp) -> UOp:
    """log(x)"""
    return x.reciprocal()


@in_float32
def sigmoid(y: UOp, x: UOp) -> UOp:
    """sigmoid(x): 1 - y is sigmoid(-x), which is exact where y is almost 1."""
    return y * (-x).alu(OPS["sigmoid"])


@in_float32
def tanh(y: UOp, x: UOp) -> UOp:
    """tanh(x)"""
    return (1.0 - y) * (y + 1.0)


@in_float32
def erf(y: UOp, x: UOp) -> UOp:
    """erf(x)"""
    return (-(x * x)).alu(OPS["exp"]) * (2 / sqrt(pi))


def sine(node: UOp, dy: UOp) -> Gradients:
    """sin(x)"""
    (x,) = node.src
    return (dy * x.cos(),)


def cosine(node: UOp, dy: UOp) -> Gradients:
    """cos(x)"""
    (x,) = node.src
    return (-(dy * x.sin()),)


def add(node: UOp, dy: UOp) -> Gradients:
    """x + y"""
    return dy, dy


def subtract(node: UOp, dy: UOp) -> Gradients:
    """x - y"""
    return dy, -dy


def multiply(node: UOp, dy: UOp) -> Gradients:
    """x * y"""
    x, y = node.src
    return dy * y, dy * x


def divide(node: UOp, dy: UOp) -> Gradients:
    """x / y"""
    _, y = node.src
    dx = dy / y
    return dx, -(dx * node)


def power(node: UOp, dy: UOp) -> Gradients:
    """x ** y. At y = 0 the value is 1 whatever x is. By y: its limits where x is 0 or infinite, NaN where x is less."""
    x, y = node.src
    # No NaN in what is not chosen: a gradient of this gradient would multiply it by 0.
    is_one = y.eq(0.0) & (x.eq(0.0) | x.ne(x))
    steep = is_one.where(x.constant(1.0), x) ** (y - 1.0)
    dx = dy * (steep.eq(0.0) & ~(abs(y) < inf)).where(steep, y * steep)
    is_vanishing = x.eq(inf) & (y < 0.0)
    inside = (x > 0.0) & ~is_vanishing
    along = dy * node * (inside.where(x, 1.0).log2() * LN2)
    at_zero = dy * (y < 0.0).where(-abs(node), node * 0.0)
    outside = (x.eq(0.0) | is_vanishing).where(is_vanishing.where(dy * 0.0, at_zero), x.constant(nan))
    return dx, inside.where(along, outside)


def maximum(node: UOp, dy: UOp) -> Gradients:
    """max(x, y): to the larger; equal ones share it."""
    x, y = node.src
    half = x.eq(y).where(dy * 0.5, 0.0)
    return (y < x).where(dy, half), (x < y).where(dy, half)


def minimum(node: UOp, dy: UOp) -> Gradients:
    """min(x, y): to the smaller; equal ones share it."""
    x, y = node.src
    half = x.eq(y).where(dy * 0.5, 0.0)
    return (x < y).where(dy, half), (y < x).where(dy, half)


def where(node: UOp, dy: UOp) -> Gradients:
    """condition ? yes : no"""
    condition, _, _ = node.src
    return None, condition.where(dy, 0.0), condition.where(dy.constant(0.0), dy)


def multiply_add(node: UOp, dy: UOp) -> Gradients:
    """x * y + z"""
    x, y, _ = node.src
    return dy * y, dy * x, dy


def cast(node: UOp, dy: UOp) -> Gradients:
    """The rounding is passed over."""
    (x,) = node.src
    return (dy.cast(x.dtype),)


# ---- complex numbers: the gradient is dL/dre + i dL/dim, so that of what is holomorphic is conj(rule(conj(dy)))


def complex_of_parts(node: UOp, dy: UOp) -> Gradients:
    """re + i im"""
    return dy.alu(OPS["real"]), dy.alu(OPS["imag"])


def real_part(node: UOp, dy: UOp) -> Gradients:
    """re(z)"""
    return (dy.alu(OPS["complex"], dy.constant(0.0)),)


def imaginary_part(node: UOp, dy: UOp) -> Gradients:
    """im(z)"""
    return (dy.constant(0.0).alu(OPS["complex"], dy),)


def conjugate(value: UOp) -> UOp:
    """re - i im; of what is real, itself."""
    if not value.dtype.is_complex:
        return value
    return value.alu(OPS["real"]).alu(OPS["complex"], -value.alu(OPS["imag"]))


# ---- movement


def _sizes(node: UOp) -> Gradients:
    return (None,) * (len(node.src) - 1)


def reshape(node: UOp, dy: UOp) -> Gradients:
    """Back to the old shape."""
    return (dy.reshape(node.src[0].shape), *_sizes(node))


def permute(node: UOp, dy: UOp) -> Gradients:
    """The inverse order."""
    back = [0] * len(node.arg)
    for place, axis in enumerate(node.arg):
        back[axis] = place
    return (dy.permute(tuple(back)),)


def expand(node: UOp, dy: UOp) -> Gradients:
    """The sum over what was repeated."""
    x = node.src[0]
    pairs = enumerate(zip(x.shape, node.shape, strict=True))
    axes = tuple(i for i, (old, new) in pairs if old is not new and old != new)
    return (total(dy, axes).reshape(x.shape), *_sizes(node))


def pad(node: UOp, dy: UOp) -> Gradients:
    """The inside."""
    x = node.src[0]
    parts = [(before, size) for (before, _), size in zip(node.sizes, x.shape, strict=True)]
    return (dy.shrink(parts), *_sizes(node))


def shrink(node: UOp, dy: UOp) -> Gradients:
    """Zeros around it."""
    x = node.src[0]
    pads = [(start, whole - start - size) for (start, size), whole in zip(node.sizes, x.shape, strict=True)]
    return (dy.pad(pads), *_sizes(node))


def flip(node: UOp, dy: UOp) -> Gradients:
    """The same axes."""
    return (dy.flip(node.arg),)


def stack(node: UOp, dy: UOp) -> Gradients:
    """One part for each source."""
    shape = dy.shape[1:]
    whole = [(0, size) for size in shape]
    return tuple(dy.shrink([(i, 1), *whole]).reshape(shape) for i in range(len(node.src)))


def logaddexp(node: UOp, dy: UOp) -> Gradients:
    """log(e**x + e**y): the share that each has in the sum; of infinities, all or nothing."""

    def share(x: UOp) -> UOp:
        finite = ((x - node) * (1 / LN2)).exp2()
        return (abs(node) < inf).where(finite, x.eq(inf).where(x.constant(1.0), 0.0))

    x, y = node.src
    return dy * share(x), dy * share(y)


# ---- reductions and scans


def spread_back(value: UOp, x: UOp, axes: tuple[int, ...]) -> UOp:
    """A reduced value at every element that went into it."""
    kept = tuple(1 if axis in axes else size for axis, size in enumerate(x.shape))
    return value.reshape(kept).expand(x.shape)


def reduce(node: UOp, dy: UOp) -> Gradients:
    """add: everywhere the same. max and min: shared among those equal to it. mul: the product of all others."""
    x, axes, op = node.src[0], node.arg.axes, node.arg.op
    spread = spread_back(dy, x, axes)
    if op.name == "add":
        return (spread,)
    if op.name in ("max", "min"):
        chosen = x.eq(spread_back(node, x, axes)).where(x.constant(1.0), 0.0)
        count = total(chosen, axes)
        return (chosen * spread / spread_back(count, x, axes),)
    if op.name == "mul":
        return (spread * others(x, axes, op),)
    return (None,)


def others(x: UOp, axes: tuple[int, ...], op: Any) -> UOp:
    """At each element the product of all others along the axes: of those before it and those after it, no quotient."""
    rank = len(x.shape)
    kept = tuple(axis for axis in range(rank) if axis not in axes)
    order = (*kept, *axes)
    moved = x.permute(order)
    count = prod(x.shape[axis] for axis in axes)
    if count <= 1:
        return x.constant(1.0).reshape((1,) * rank).expand(x.shape)
    flat_shape = (*(x.shape[axis] for axis in kept), count)
    along = len(flat_shape) - 1
    values = moved.reshape(flat_shape)
    product = _shifted(values.scan(op, along), along) * _shifted(values.flip((along,)).scan(op, along), along).flip(
        (along,)
    )
    back = [0] * rank
    for place, axis in enumerate(order):
        back[axis] = place
    return product.reshape(moved.shape).permute(tuple(back))


def _shifted(running: UOp, along: int) -> UOp:
    """A running product moved one place on, with a 1 in front."""
    size = running.shape[along]
    window = [(0, size - 1 if axis == along else n) for axis, n in enumerate(running.shape)]
    moved = running.shrink(window).pad([(1, 0) if axis == along else (0, 0) for axis in range(len(running.shape))])
    return place_on(running, along).eq(0).where(moved.constant(1.0), moved)


def place_on(x: UOp, axis: int) -> UOp:
    """The position on an axis at every element."""
    size = x.shape[axis]
    alone = tuple(size if i == axis else 1 for i in range(len(x.shape)))
    return type(x).arange(size, dtypes.int64).reshape(alone).expand(x.shape)


def _reversed_sum(value: UOp, axis: int) -> UOp:
    """At each element the sum of it and all after it."""
    return value.flip((axis,)).scan(OPS["add"], axis).flip((axis,))


def scan(node: UOp, dy: UOp) -> Gradients:
    """add: the sum of dy from here on. max and min: to the element that was the best so far. mul: see below."""
    axis, op = node.arg.axis, node.arg.op
    if node.arg.reverse:
        flipped = node.src[0].flip((axis,)).scan(op, axis)
        (found,) = scan(flipped, dy.flip((axis,)))
        return (None if found is None else found.flip((axis,)),)
    if op.name == "add":
        return (_reversed_sum(dy, axis),)
    if op.name == "logaddexp":
        return (_running_logarithm(node, dy),)
    if op.name == "mul":
        return (_running_product(node, dy),)
    if op.name in ("max", "min"):
        return (_running_best(node, dy),)
    return (None,)


def _running_logarithm(node: UOp, dy: UOp) -> UOp:
    """e**x times the sum of dy*e**-y from here on, as logarithms: of what is positive, less that of what is not."""
    (x,), axis = node.src, node.arg.axis
    nothing = x.constant(-inf)

    def part(weight: UOp) -> UOp:
        logarithm = (weight > 0.0).where((weight > 0.0).where(weight, 1.0).log2() * LN2, nothing)
        shifted = node.eq(-inf).where(nothing, logarithm - node)
        total = shifted.flip((axis,)).scan(node.arg.op, axis).flip((axis,)) + x
        return (total * (1 / LN2)).exp2()

    return part(dy) - part(-dy)


def sort(node: UOp, dy: UOp) -> Gradients:
    """dy back in the places that the values came from: in the order of those, with zeros for what was left out."""
    key, value = node.src
    axis, size = node.arg.axis, node.src[0].shape[node.arg.axis]
    places = key.sort(place_on(value, axis), axis, size, node.arg.descending)
    rest = [(0, size - node.arg.count) if i == axis else (0, 0) for i in range(len(value.shape))]
    return None, places.sort(dy.pad(rest) if node.arg.count < size else dy, axis, size)


def _running_product(node: UOp, dy: UOp) -> UOp:
    """Before the first zero: sum of dy*y from here on, over x. At it: the same with the zero left out. After it: 0."""
    (x,), axis, op = node.src, node.arg.axis, node.arg.op
    zeros = x.eq(0.0).where(x.constant(1.0), 0.0).scan(OPS["add"], axis)
    is_first = x.eq(0.0) & zeros.eq(1.0)
    without = is_first.where(x.constant(1.0), x)
    at_zero = _reversed_sum(dy * without.scan(op, axis), axis)
    before = _reversed_sum(dy * node, axis) / x.eq(0.0).where(x.constant(1.0), x)
    return is_first.where(at_zero, (zeros < 1.0).where(before, 0.0))


def _running_best(node: UOp, dy: UOp) -> UOp:
    """dy goes to the place of the first element that was as good."""
    (x,), axis = node.src, node.arg.axis
    size = x.shape[axis]
    if isinstance(size, int) and size < 2:
        return dy
    pads = [(1, 0) if i == axis else (0, 0) for i in range(len(x.shape))]
    window = [(0, size - 1 if i == axis else n) for i, n in enumerate(x.shape)]
    place = place_on(x, axis)
    before = node.shrink(window).pad(pads)
    is_new = place.eq(0) | ((before < x) if node.arg.op.name == "max" else (x < before))
    best = is_new.where(place, 0).scan(OPS["max"], axis)
    rank = len(x.shape)
    order = (axis, *(i for i in range(rank) if i != axis))
    back = tuple(order.index(i) for i in range(rank))
    moved = dy.permute(order)
    places = [best.permute(order), *(place_on(moved, i) for i in range(1, rank))]
    return zeros_like(moved).after(zeros_like(moved).store(moved, *places, combine=OPS["add"])).permute(back)


def zeros_like(like: UOp) -> UOp:
    """Zeros of the same shape."""
    return like.constant(0.0).reshape((1,) * len(like.shape)).expand(like.shape)
