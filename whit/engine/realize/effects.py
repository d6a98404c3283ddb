"""Stores in tensor graphs: what a tensor is after `assign` or `x[i] = y`, and when memory may be overwritten.

A tensor that was written to is AFTER(old, STORE(view of old, value)). Effects are values here: the result is the old
content with the new elements, in memory of its own, so that nobody who refers to the old content sees a change.

    after(b, store(b, v))                  covers all of b: the result simply is v, and b is not read
    after(b, store(shrink(b), v))          a part: v is written into a copy of b

This is copy-on-write. The copy is saved where nobody could notice: the old content belongs to this graph alone
(`is_private`).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from sys import getrefcount

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


def under(node: UOp) -> UOp:
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
    base = under(node)
    return base if base.op is ops.BUFFER else computed(base)


def replaced(node: UOp) -> list[UOp]:
    """What an AFTER that replaces a whole tensor refers to besides the new value: sources first, itself last."""
    nodes = [node, node.src[1]]
    old = node.src[0]
    while old is not under(node):
        nodes.append(old)
        old = old.src[0]
    return [*nodes, old][::-1]


@dataclass(slots=True)
class Effect:
    """The last of a chain of AFTERs that change one memory."""

    top: UOp
    chain: list[UOp]  # the AFTERs, the first one first
    base: UOp  # what the first one changes: a BUFFER, or something computed
    memory: UOp  # the BUFFER
    in_place: bool


def last_changes(order: list[UOp]) -> list[UOp]:
    """The AFTERs of a graph that no other AFTER stands on, and that change a tensor."""
    partial = [node for node in order if node.op is ops.AFTER and is_partial(node) and not joins(node)]
    below = {under(node) for node in partial}
    return [node for node in partial if node not in below]


def joins(node: UOp) -> bool:
    """Whether an AFTER puts values together, on nothing but a number: there is no memory that it changes."""
    old, *stores = node.src
    while old.op in (ops.RESHAPE, ops.EXPAND) and len(old.src) == 1:
        old = old.src[0]
    return old.op is ops.CONST and len(stores) > 1


def effect_of(top: UOp, private: set[int]) -> Effect | None:
    """The chain under an AFTER; None if what it changes is not in memory. Takes the memory out of `private`."""
    chain = [top]
    while is_partial(under(chain[-1])):
        chain.append(under(chain[-1]))
    base = under(chain[-1])
    memory = memory_under(chain[-1])
    if memory is None:
        return None
    in_place = id(memory) in private
    private.discard(id(memory))
    return Effect(top, chain[::-1], base, memory, in_place)


# ---- whose memory may be overwritten


def private_memories(order: list[UOp], realised: set[int]) -> set[int]:
    """The ids of BUFFERs that AFTERs change and of whose content nobody can ask for any more after this.

    `order` is everything below what is about to be `realised` (ids). References are counted: a node that depends on a
    content and is held by anything else (a Tensor, another graph) could be computed later. So the caller must hold no
    node but in that list, and those that are realised.
    """
    candidates = _changed_memories(order)
    if not candidates:
        return set()
    held: list[int] = []  # a node for each reference to it from inside; counted at once
    depends: dict[int, int] = {}  # node -> the candidates it depends on, as bits
    for node in order:
        sources = node.src
        held += map(id, sources)
        bits = candidates.get(id(node), 0)
        entry = computed_entries.get(id(node))
        if entry is not None:
            bits |= candidates.get(id(entry[0]), 0)
            held.append(id(entry[0]))
        else:
            if node.op is ops.AFTER and (value := stored_value(node)) is not None:
                sources = (value,)
            for s in sources:
                bits |= depends.get(id(s), 0)
        if bits:
            depends[id(node)] = bits
    node = entry = s = value = sources = None  # type: ignore[assignment]
    inside = Counter(held)
    inside.update(map(id, order))
    public = _held(order, depends, realised, inside) | _held_contents(order, candidates, inside)
    return {memory for memory, bit in candidates.items() if not bit & public}


def _changed_memories(order: list[UOp]) -> dict[int, int]:
    """The BUFFERs that chains of AFTERs end in, by id, with a bit for each."""
    found: dict[int, int] = {}
    for node in order:
        if node.op is ops.AFTER and id(node) not in computed_entries:
            memory = memory_under(node)
            if memory is not None and id(memory) not in found:
                found[id(memory)] = 1 << len(found)
    return found


_PROBE = [object()]
_ALONE = getrefcount(_PROBE[0])  # of something that nothing but its place in a list holds


def _held(order: list[UOp], depends: dict[int, int], realised: set[int], inside: Counter[int]) -> int:
    """The candidates that nodes depend on which somebody outside of the graph holds."""
    public = 0
    for place in range(len(order)):
        key = id(order[place])
        bits = depends.get(key, 0)
        if bits & ~public and key not in realised and getrefcount(order[place]) > inside[key] - 1 + _ALONE:
            public |= bits
    return public


def _held_contents(order: list[UOp], candidates: dict[int, int], inside: Counter[int]) -> int:
    """The same for BUFFERs that are not in the graph themselves, as something computed stands for them."""
    listed = {id(node) for node in order}
    public = 0
    for node in order:
        entry = computed_entries.get(id(node))
        if entry is None or id(entry[0]) in listed:
            continue
        key = id(entry[0])
        if key in candidates and getrefcount(entry[0]) > inside[key] - 1 + _ALONE:
            public |= candidates[key]
    return public
