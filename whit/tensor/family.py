"""Which tensors share their elements, and how a write through one reaches the others.

Nodes are values and never change. A tensor and the views that were made of it are a family: they have a base node in
common, and the node of every member is a chain of movement on that base. A write makes a new base; the members that
are still alive get the same chains on it. So a lazy value that was made before keeps reading the old base, and once
nobody refers to that any more, the engine writes into its memory.

    x = Tensor(...)          x.uop: b
    y = x[2:4]               y.uop: shrink(b)                 the family is {x, y}, its base is b
    z = x * 2                z.uop: b * 2                     no member
    y += 1                   b' = after(b, store(shrink(b), shrink(b) + 1)), x.uop: b', y.uop: shrink(b')
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from itertools import starmap
from math import prod
from operator import call
from typing import TYPE_CHECKING, Any
from weakref import ref

from whit.engine.memory.holders import holding
from whit.engine.programs.overlay import before_change
from whit.ir import ops
from whit.ir.sizes import quotient, same_size, settled
from whit.ir.uop import UOp, make

if TYPE_CHECKING:
    from whit.tensor.core import Core

Change = tuple[Any, str, Any]  # an object, a field of it, and what that becomes
ROW_MAJOR: tuple[int, ...] = (-1,)  # in place of strides that the shape says

# Movement that has an opposite, because it shows every element once.
WHOLE = frozenset({ops.RESHAPE, ops.PERMUTE, ops.FLIP, ops.DETACH})


class Family:
    """The tensors that show one base. It holds them weakly.

    What can be reshaped without a copy, and what can be written to, is decided when a view is made and never changes:
    a view that is left alone and realised takes its `strides` along, though its memory is row-major then.
    """

    __slots__ = ("_limit", "_members", "is_read_only", "strides", "uop")

    def __init__(self, first: Core, strides: tuple[int, ...] | None = ROW_MAJOR, is_read_only: bool = False) -> None:
        self.uop = first.uop
        self.strides = strides  # of the base; None if they are not known
        self.is_read_only = is_read_only
        self._members: list[ref[Core]] = [ref(first)]
        self._limit = 16

    def add(self, tensor: Core) -> None:
        """One more member. The places of dead ones are given up whenever as many may be dead as alive."""
        members = self._members
        if len(members) >= self._limit:
            members[:] = [member for member in members if member() is not None]
            self._limit = 2 * len(members) + 16
        members.append(ref(tensor))

    def members(self) -> list[Core]:
        """The tensors that are alive and have not left."""
        alive = [member() for member in self._members]
        return [tensor for tensor in alive if tensor is not None and tensor._family is self]

    def without_others(self, tensor: Core) -> Family:
        """A family for a view that is the only member left."""
        strides = strides_of(tensor.uop, self.uop, self.strides)
        return Family(tensor, strides, self.is_read_only or is_repeating(tensor.uop, self.uop))

    @staticmethod
    def around(base: UOp, strides: tuple[int, ...] | None, is_read_only: bool) -> Family:
        """A family that has no members yet."""
        family = Family.__new__(Family)
        family.uop, family.is_read_only = base, is_read_only
        family.strides = ROW_MAJOR if strides == ROW_MAJOR else strides  # compared by identity
        family._members, family._limit = [], 16
        return family

    def shown_on(self, base: UOp) -> Family:
        """A family like this one, still without members, whose base is another node."""
        return Family.around(base, self.strides, self.is_read_only)

    def same_view(self, view: UOp, base: UOp) -> UOp:
        """A view of another family's base as one of this one's."""
        return moved(view, {base: self.uop})

    def rebase(self, base: UOp, *others: Change) -> None:
        """Another base, and for every member the same view of it; and other changes with it."""
        known = {self.uop: base}
        views = [(tensor, "uop", moved(tensor.uop, known)) for tensor in self.members()]
        change_all([(self, "uop", base), *views, *others])


def change_all(changes: Sequence[Change]) -> None:
    """Sets fields of tensors and families, all of them or none: an interrupt comes before or after.

    A family whose members show different bases could not be written to any more. The loop is one of C, which no
    interrupt enters; what the fields held goes when it has ended.
    """
    before_change(changes)
    _before = [getattr(owner, name, None) for owner, name, _ in changes]
    calls: list[tuple[Any, ...]] = [(setattr, *change) for change in changes]
    for owner, name, _ in changes:
        if name == "uop" and not isinstance(owner, Family):
            calls += holding(owner)
    deque(starmap(call, calls), maxlen=0)


def moved(view: UOp, known: dict[UOp, UOp]) -> UOp:
    """A chain of movement on another node; `known` says on which, and is filled on the way."""
    chain = []
    while view not in known:
        chain.append(view)
        view = view.src[0]
    result = known[view]
    for link in reversed(chain):
        result = known[link] = make(link.op, (result, *link.src[1:]), link.arg)
    return result


def chain_of(view: UOp, base: UOp) -> list[UOp]:
    """The movement from a base to a view of it, the first one first."""
    chain = []
    while view is not base:
        chain.append(view)
        view = view.src[0]
    return chain[::-1]


def is_repeating(view: UOp, base: UOp) -> bool:
    """Whether a view shows elements more than once."""
    return any(link.op is ops.EXPAND for link in chain_of(view, base))


def value_for_base(chain: Sequence[UOp], base: UOp, value: UOp) -> UOp | None:
    """What a base must become for a view of it to be `value`; None if the view does not show all of it."""
    for link in reversed(chain):
        if link.op not in WHOLE:
            return None
    for link in reversed(chain):
        if link.op is ops.RESHAPE:
            value = value.reshape(link.src[0].shape)
        elif link.op is ops.FLIP:
            value = value.flip(link.arg)
        elif link.op is ops.PERMUTE:
            value = value.permute(tuple(link.arg.index(axis) for axis in range(len(link.arg))))
    return value


# ---- reshaping without a copy


def is_reshape_a_view(family: Family, view: UOp, shape: tuple[Any, ...]) -> bool:
    """Whether NumPy could reshape such a view without copying it."""
    if view is family.uop and family.strides is ROW_MAJOR:
        return True
    strides = strides_of(view, family.uop, family.strides)
    return strides is not None and regroup(view.shape, strides, shape) is not None


def strides_of(view: UOp, base: UOp, strides: tuple[int, ...] | None) -> tuple[int, ...] | None:
    """How far the neighbours on each axis of a view are apart, if that has one answer; `strides` are the base's."""
    if strides is None:
        return None
    if strides is ROW_MAJOR:
        strides = row_major(base.shape)
    chain = chain_of(view, base)
    while chain:
        link = chain.pop(0)
        if link.op is ops.RESHAPE and _is_diagonal(link, chain[:4]):
            strides = (*strides[:-2], strides[-2] + strides[-1])
            del chain[:4]
            continue
        strides = _strides_after(link, strides)
        if strides is None:
            return None
    return strides


def _strides_after(link: UOp, strides: tuple[int, ...]) -> tuple[int, ...] | None:
    """The strides of one movement, of what has these."""
    before = link.src[0].shape
    if link.op is ops.PERMUTE:
        return tuple(strides[axis] for axis in link.arg)
    if link.op is ops.FLIP:
        return tuple(-stride if axis in link.arg else stride for axis, stride in enumerate(strides))
    if link.op is ops.EXPAND:
        sizes_and_strides = zip(before, link.shape, strides, strict=True)
        return tuple(stride if old == new else 0 for old, new, stride in sizes_and_strides)
    if link.op is ops.RESHAPE:
        return regroup(before, strides, link.shape)
    return strides


def _is_diagonal(merge: UOp, then: list[UOp]) -> bool:
    """Whether a merge of two axes is the first step of `diagonal`: its rows may be apart, and still it is a view."""
    if [link.op for link in then] != [ops.PAD, ops.RESHAPE, ops.SHRINK, ops.RESHAPE]:
        return False
    *lead, n = then[3].shape
    shapes = [link.shape for link in (merge.src[0], merge, then[1], then[2])]
    return shapes == [(*lead, n, n), (*lead, n * n), (*lead, n, n + 1), (*lead, n, 1)]


def row_major(shape: tuple[int, ...]) -> tuple[int, ...]:
    """The strides of an array whose last axis goes fastest."""
    return tuple(settled(prod(shape[axis + 1 :])) for axis in range(len(shape)))


def regroup(shape: tuple[Any, ...], strides: tuple[int, ...], new: tuple[Any, ...]) -> tuple[int, ...] | None:
    """The strides under another shape; None if no strides reach the same elements in the same order.

    From the right, axes of both shapes are gathered until their products agree. Such a group is possible where the
    old axes in it follow one another without a jump.
    """
    if not all(type(size) is int for size in (*shape, *new)):
        return _regroup_symbolic(shape, strides, new)
    if 0 in shape:
        return row_major(new)
    old = [(size, stride) for size, stride in zip(shape, strides, strict=True) if size != 1]
    result = [1] * len(new)
    axis = len(new) - 1
    while old:
        size, step = old.pop()
        start, reach = step, size * step  # the next axis to the left continues the group if its stride is `reach`
        count = 1
        while count != size or (axis >= 0 and new[axis] == 1):
            if axis >= 0 and size % (count * new[axis]) == 0:
                result[axis] = start * count
                count *= new[axis]
                axis -= 1
            elif old and old[-1][1] == reach:
                more, _ = old.pop()
                size, reach = size * more, reach * more
            else:
                return None
    return tuple(result)


def _regroup_symbolic(shape: tuple[Any, ...], strides: tuple[Any, ...], new: tuple[Any, ...]) -> tuple[Any, ...] | None:
    """The same for sizes that depend on variables: whatever holds for all of their values."""
    old = [(size, stride) for size, stride in zip(shape, strides, strict=True) if size != 1]
    result: list[Any] = [1] * len(new)
    axis = len(new) - 1
    while old:
        size, step = old.pop()
        reach, count = settled(size * step), 1
        while not same_size(count, size) or (axis >= 0 and new[axis] == 1):
            grown = settled(count * new[axis]) if axis >= 0 else 0
            if axis >= 0 and quotient(size, grown) is not None:
                result[axis] = settled(step * count)
                count, axis = grown, axis - 1
            elif old and same_size(old[-1][1], reach):
                more, _ = old.pop()
                size, reach = settled(size * more), settled(reach * more)
            else:
                return None
    return tuple(result)
