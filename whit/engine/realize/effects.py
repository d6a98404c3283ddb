"""Stores in tensor graphs: what a tensor is after `assign` or `x[i] = y`, and when memory may be overwritten.

A tensor that was written to is AFTER(old, STORE(view of old, value)). Effects are values here: the result is the old
content with the new elements, in memory of its own, so that nobody who refers to the old content sees a change.

    after(b, store(b, v))                  covers all of b: the result simply is v, and b is not read
    after(b, store(shrink(b), v))          a part: v is written into a copy of b

This is copy-on-write. The copy is saved where nobody could notice: no holder can ask for the old content
(`memory.ownership`).
"""

from __future__ import annotations

from collections.abc import Callable, Collection

from whit.engine.devices.device import is_disk
from whit.engine.memory.storage import computed, computed_entries
from whit.ir import ops
from whit.ir.uop import UOp, make
from whit.records import dataclass

# Views that show every element of their memory once.
WHOLE_VIEWS = frozenset({ops.RESHAPE, ops.PERMUTE, ops.FLIP, ops.BITCAST, ops.DETACH})


def stored_value(node: UOp) -> UOp | None:
    """What an AFTER's only store puts everywhere, if it is one that covers the whole tensor."""
    if node.op is not ops.AFTER or len(node.src) != 2:
        return None
    old, effect = node.src
    if effect.op is not ops.STORE or len(effect.src) != 2 or effect.arg.combine is not None:
        return None
    target, value = effect.src
    if is_disk(old.device):
        return None  # it would be written at its beginning; `realize` refuses
    covers = target is old and value.shape == old.shape and value.dtype is old.dtype
    return value if covers else None


def views_between(view: UOp, memory: UOp) -> list[UOp] | None:
    """The movement ops from a memory to a view of it, the first one first; None if it is not a view of that memory."""
    chain: list[UOp] = []
    while view is not memory:
        if view.op in ops.MOVEMENT or view.op is ops.BITCAST:
            chain.append(view)
        elif view.op is not ops.DETACH:
            return None
        view = view.src[0]
    chain.reverse()
    return chain


def on_views(views: list[UOp], memory: UOp, source: Callable[[UOp], UOp]) -> UOp:
    """The same views of another memory."""
    for view in views:
        memory = make(view.op, (memory, *[source(s) for s in view.src[1:]]), view.arg)
    return memory


def is_partial(node: UOp) -> bool:
    """Whether a node changes parts of a tensor, and that is still to be done."""
    return node.op is ops.AFTER and id(node) not in computed_entries and stored_value(node) is None


def changed_memory(node: UOp) -> UOp:
    """What an AFTER changes: another AFTER, a BUFFER or something computed, seen as a whole; else the tensor itself."""
    old: UOp = node.src[0]
    inner = old
    while inner.op in WHOLE_VIEWS and id(inner) not in computed_entries:
        inner = inner.src[0]
    if inner.op is ops.BUFFER or id(inner) in computed_entries or is_partial(inner):
        return inner
    return old


def memory_under(node: UOp) -> UOp | None:
    """The BUFFER with the content that an AFTER changes, if it is in memory."""
    base = changed_memory(node)
    return base if base.op is ops.BUFFER else computed(base)


@dataclass(slots=True)
class Effect:
    """The last of a chain of AFTERs that change one memory."""

    top: UOp
    chain: list[UOp]  # the AFTERs, the first one first
    memory: UOp  # the BUFFER that the first one changes, or that holds what it changes
    in_place: bool

    def views(self) -> list[UOp]:
        """The views through which the last AFTER shows the memory."""
        views: list[UOp] = []
        for node in self.chain:
            views += views_between(node.src[0], changed_memory(node)) or []
        return views


def last_changes(order: list[UOp]) -> list[UOp]:
    """The AFTERs of a graph that no other AFTER stands on, and that change a tensor."""
    partial = [node for node in order if node.op is ops.AFTER and is_partial(node) and not joins(node)]
    below = {changed_memory(node) for node in partial}
    return [node for node in partial if node not in below]


def joins(node: UOp) -> bool:
    """Whether an AFTER puts values together, on nothing but a number: there is no memory that it changes."""
    old, *stores = node.src
    while old.op in (ops.RESHAPE, ops.EXPAND) and len(old.src) == 1:
        old = old.src[0]
    return old.op is ops.CONST and len(stores) > 1


def chain_under(top: UOp) -> list[UOp]:
    """The AFTERs that change one memory one after another, up to this one."""
    chain = [top]
    while is_partial(changed_memory(chain[-1])):
        chain.append(changed_memory(chain[-1]))
    return chain[::-1]


def memory_changed(top: UOp) -> UOp | None:
    """The BUFFER that a chain of AFTERs changes, if what it changes is in memory."""
    return memory_under(chain_under(top)[0])


def effect_of(top: UOp, private: Collection[UOp] = ()) -> Effect | None:
    """The chain under an AFTER; None if what it changes is not in memory."""
    chain = chain_under(top)
    memory = memory_under(chain[0])
    return None if memory is None else Effect(top, chain, memory, memory in private)
