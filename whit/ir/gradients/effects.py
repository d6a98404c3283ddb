"""The gradients of gathers and writes: INDEX, STORE and AFTER.

A gather gives its gradient back by adding, a write by gathering:

    y = x.index(i)                         dx = zeros, dy added at i
    y = x.after(x.store(v, i))             dv = dy.index(i),  dx = dy with zeros at i

Where a plain write puts several values in one place only the last one stays, and gets dy. The place of a write that
combines by mul, max or min shares dy as the reduction by that op does.
"""

from __future__ import annotations

from math import prod
from typing import TYPE_CHECKING, Any, NamedTuple

from whit.dtype import dtypes
from whit.errors import NotSupportedError
from whit.ir.gradients.rules import Gradients, total
from whit.ir.op import OPS

if TYPE_CHECKING:
    from whit.ir.uop import UOp


def index(node: UOp, dy: UOp) -> Gradients:
    """Each element of dy is added where it came from."""
    x, *places = node.src
    gate = places[-1] if node.arg else None
    positions = places[:-1] if node.arg else places
    zeros = broadcast_like(dy.constant(0.0), x)
    dx = zeros.after(zeros.store(dy, *positions, combine=OPS["add"], gate=gate))
    return (dx, *(None for _ in places))


def copy(node: UOp, dy: UOp) -> Gradients:
    """Back to the device it came from."""
    home = node.src[0].device
    return (dy if home is None or dy.device is None else dy.copy_to(home),)


def store(node: UOp, dy: UOp) -> Gradients:
    """What AFTER found for the value."""
    return (None, dy, *(None for _ in node.src[2:]))


def after(node: UOp, dy: UOp) -> Gradients:
    """The old content, and the value of each store, the last one first."""
    old, *effects = node.src
    steps = []
    content = old
    for effect in effects:
        write = Write(content, *on_content(effect, old, content))
        steps.append(write)
        content = write.after()
    values: list[UOp | None] = []
    for write in reversed(steps):
        dy, value = _before(write, dy)
        values.append(value)
    return (dy, *reversed(values))


class Write(NamedTuple):
    """One store to one content."""

    content: UOp
    effect: UOp
    view: UOp  # of the content

    def after(self) -> UOp:
        """The content after it."""
        return self.content.after(self.effect)

    @property
    def value(self) -> UOp:
        """What is written."""
        return self.effect.src[1]

    @property
    def positions(self) -> tuple[UOp, ...]:
        """Where, besides the view."""
        places = self.effect.src[2:]
        return places[:-1] if self.effect.arg.gated else places

    @property
    def gate(self) -> UOp | None:
        """The condition."""
        return self.effect.src[-1] if self.effect.arg.gated else None

    def read(self, content: UOp) -> UOp:
        """What another content has in the places of this write, in the shape of the value."""
        return self._fitting(self._at_places(content))

    def read_last(self, content: UOp) -> UOp:
        """The same, and 0 where a later element of the value went to the same place."""
        found = self._at_places(content)
        count = len(found.shape) - len(self.view.shape) + len(self.positions)
        sizes = found.shape[:count] if self.positions else ()
        if prod(size if isinstance(size, int) else 1 for size in sizes) > 1:
            numbers = _numbers(found, count)
            nothing = broadcast_like(numbers.constant(0), self.content)
            last = self._at_places(self.put(nothing, numbers))
            found = last.eq(numbers).where(found, 0.0)
        return self._fitting(found)

    def _at_places(self, content: UOp) -> UOp:
        place = on_view(self.view, self.content, content)
        if self.positions:
            return place.index(*self.positions, gate=self.gate)
        return place if self.gate is None else self.gate.where(place, 0.0)

    def _fitting(self, found: UOp) -> UOp:
        if not self.value.shape and found.shape:
            return total(found, tuple(range(len(found.shape))))
        return found

    def put(self, content: UOp, value: UOp, combine: str | None = None) -> UOp:
        """Another content with another value in these places."""
        place = on_view(self.view, self.content, content)
        op = None if combine is None else OPS[combine]
        return content.after(place.store(value, *self.positions, combine=op, gate=self.gate))


def _numbers(like: UOp, count: int) -> UOp:
    """The number of the position in the first `count` axes of another node, at every element."""
    size: Any = 1
    for axis in like.shape[:count]:
        size = size * axis
    rest = (1,) * (len(like.shape) - count)
    return type(like).arange(size, dtypes.int64).reshape((*like.shape[:count], *rest)).expand(like.shape)


def on_content(effect: UOp, old: UOp, content: UOp) -> tuple[UOp, UOp]:
    """A store to a view of `old` as one to the same view of another content, and that view."""
    if effect.op.name != "store":
        raise NotSupportedError("gradient: an effect that is not a store", effect.short(), "Detach the tensor.")
    view = on_view(effect.src[0], old, content)
    return effect.replace(src=(view, _at_each_place(effect, view), *effect.src[2:])), view


def _at_each_place(effect: UOp, view: UOp) -> UOp:
    """The value of a store; a number as one for each place, where these are compared or multiplied one by one."""
    _, value, *places = effect.src
    if value.shape or effect.arg.combine is None or effect.arg.combine.name == "add":
        return value
    shape = next((place.shape for place in places if place.shape), ())
    count = len(places) - bool(effect.arg.gated)
    whole = (*shape, *view.shape[count:]) if count else view.shape
    return value.reshape((1,) * len(whole)).expand(whole) if whole else value


def _before(write: Write, dy: UOp) -> tuple[UOp, UOp]:
    """dy of the content before a write, and dy of the value."""
    combine = write.effect.arg.combine
    if combine is None:
        return write.put(dy, dy.constant(0.0)), write.read_last(dy)
    if combine.name == "add":
        return dy, write.read(dy)
    if combine.name in ("max", "min"):
        return _shared(write, dy)
    if combine.name == "mul":
        return _product(write, dy)
    raise NotSupportedError(
        f"gradient: a write that combines by {combine.name}", write.effect.short(), "Detach the tensor."
    )


def shares(write: Write) -> tuple[UOp, UOp, UOp]:
    """max, min: where the content stays, where a value wins, as 1.0, and how many those are at each place."""
    new, one = write.after(), write.content.constant(1.0)
    stays = write.content.eq(new).where(one, 0.0)
    wins = write.value.eq(write.read(new)).where(one, 0.0)
    return stays, wins, write.put(stays, wins, "add")


def _shared(write: Write, dy: UOp) -> tuple[UOp, UOp]:
    """max, min: those equal to the result share dy."""
    stays, wins, count = shares(write)
    share = dy / count
    return stays * share, wins * write.read(share)


def factors(write: Write) -> tuple[UOp, UOp]:
    """mul: what the content and the values are multiplied by, the product of all others, also where some are 0."""
    content, value = write.content, write.value
    one = content.constant(1.0)
    zeros = write.put(content.eq(0.0).where(one, 0.0), value.eq(0.0).where(one, 0.0), "add")
    product = write.put(content.eq(0.0).where(one, content), value.eq(0.0).where(one, value), "mul")

    def without(x: UOp, count: UOp, product: UOp) -> UOp:
        alone = count.eq(1.0).where(product, 0.0)
        return x.eq(0.0).where(alone, count.eq(0.0).where(product / x.eq(0.0).where(one, x), 0.0))

    at_value = without(value, write.read(zeros), write.read(product))
    return without(content, zeros, product), at_value


def _product(write: Write, dy: UOp) -> tuple[UOp, UOp]:
    """mul: the product of all others."""
    at_content, at_value = factors(write)
    return dy * at_content, write.read(dy) * at_value


def broadcast_like(value: UOp, like: UOp) -> UOp:
    """A scalar at every element of another node."""
    return value.reshape((1,) * len(like.shape)).expand(like.shape) if like.shape else value


def on_view(view: UOp, memory: UOp, other: UOp) -> UOp:
    """The same view of another node as `view` is of `memory`."""
    chain = []
    while view is not memory:
        chain.append(view)
        view = view.src[0]
    for step in reversed(chain):
        other = step.replace(src=(other, *step.src[1:]))
    return other
