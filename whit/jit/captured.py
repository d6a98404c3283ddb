"""The tensors that a captured function takes from elsewhere, and where their memory is now.

Before each replay they are compared with what they showed the last time: in rows, without a loop in Python, as there
may be hundreds. Those that show something else are looked at one by one (`_refresh`). Of those that the program writes
it is known which lie in memory that nobody else sees: they are written in place.
"""

from __future__ import annotations

import weakref
from collections.abc import Sequence
from operator import attrgetter
from typing import Any

from whit.engine.devices.disk import allocate
from whit.engine.memory.holders import Kept, newer_than, newest
from whit.engine.memory.ownership import base_of, own_memories, reached
from whit.engine.memory.storage import nbytes_of, storage
from whit.engine.programs.overlay import slot_of
from whit.engine.programs.program import Program
from whit.engine.realize.realize import realize
from whit.ir.uop import UOp
from whit.jit.records import CapturedInput, Change, ReadTensor, shown_base
from whit.runtime import buffer
from whit.runtime.buffer import Buffer
from whit.runtime.pool.fields import watch_field
from whit.tensor.core import Core

_uop = attrgetter("uop")
_shares = attrgetter("shares")
_never = weakref.ref(type("Gone", (), {})())  # a reference to nothing


class Captured:
    """The tensors, and the table of a program as far as they fill it."""

    def __init__(
        self,
        program: Program,
        captured_inputs: Sequence[CapturedInput],
        seen: Sequence[ReadTensor],
        changes: Sequence[Change],
    ) -> None:
        self.table = program.table()
        self.version = 0  # of the table
        self.base_ids: set[int] = set()  # of what stands behind the sites
        self.others = list(changes)  # those that are not written in place
        self._program, self._captured_inputs, self._changes = program, captured_inputs, changes
        captured = [(number, one) for number, one in enumerate(seen) if one.argument < 0]
        self._number_of = {number: own for own, (number, _) in enumerate(captured)}
        self._seen = [one for _, one in captured]
        self.tensors = [one.tensor for one in self._seen]
        self._grads = [(number, one) for number, one in enumerate(self._seen) if one.is_gradient()]
        self._by_captured_input: dict[int, list[ReadTensor]] = {}
        for one in self._seen:
            self._by_captured_input.setdefault(one.captured_input, []).append(one)
        in_place = [change for change in changes if change.can_stay()]
        self._bases: dict[int, int] = {}  # sites, and those ids
        self._writable = {self._number_of[c.seen] for c in in_place if c.seen in self._number_of}
        self._ids: list[int] | None = None  # of what they showed the last time
        self._watched: list[Any] = []
        self._gone: list[Any] = []  # those of the nodes that are gone: their ids may be used again
        self._own: dict[UOp, Any] = {}  # those that are written in place, by their BUFFERs
        self._own_memory: list[Buffer] = []
        self._looked_at = -1  # the newest holder of which it is known that it sees none of these
        can_look = program.is_native() and not self._grads  # gradients are other tensors in each call
        self._quick = watch_field(Core, slot_of("uop"), self.tensors) if can_look else None
        self._is_noted = False  # `_quick` knows what they show
        self._views = -1  # how many views of buffers there had been when none was of those
        self._kept: list[Kept] = []  # what they show, if something was computed from it once

    def captured_inputs(self) -> set[int]:
        """The sites through which they are seen."""
        return set(self._by_captured_input)

    def update(self, arguments: Sequence[Any]) -> bool | None:
        """Finds their memory. None: they are not what was captured. Else whether the memory of those that are written
        in place is still theirs alone."""
        if not self.tensors:
            return True
        for number, seen in self._grads:
            owner = seen.owner if seen.owner_argument < 0 else arguments[seen.owner_argument]
            self.tensors[number] = seen.tensor = owner.grad
            if seen.tensor is None:
                return None
        if self._quick is not None and self._is_noted and not self._gone and self._quick.is_same():
            return self._is_unshared()
        nodes: list[UOp] = list(map(_uop, self.tensors))
        ids = list(map(id, nodes))
        if (self._gone or ids != self._ids) and not self._refresh(nodes, ids):
            return None
        if self._quick is not None and not self._is_noted:
            self._quick.note(ids)
            self._is_noted = True
        return self._is_unshared()

    def _is_unshared(self) -> bool:
        """Whether nobody has begun to look at the memory of those that are written in place: no buffer, no graph."""
        count = buffer.views_made
        if count != self._views:
            if any(map(_shares, self._own_memory)):
                return False
            self._views = count
        last = newest()
        if self._own and last > self._looked_at:
            new = [(holder, holder.node()) for holder in newer_than(self._looked_at)]
            others = [node for holder, node in new if node is not None and self._own.get(node) is not holder()]
            if reached(self._own, others):
                return False
            self._looked_at = last
        return True

    def _refresh(self, nodes: list[UOp], ids: list[int]) -> bool:
        """Finds the memory of tensors that show something else now. Whether they are what was captured."""
        is_first = self._ids is None  # or an interrupt came before the end of this function
        self._ids, self._is_noted, self._views = None, False, -1
        self.version += 1
        changed = [n for n, node in enumerate(nodes) if is_first or self._watched[n]() is not node]
        bases = self._bases_of({self._seen[number].captured_input for number in changed})
        if bases is None:
            return False
        after = self._bases | {captured_input: id(base) for captured_input, base in bases.items()}
        base_ids = set(after.values())
        if len(base_ids) != len(after):
            return False
        for captured_input, found in zip(bases, realize(list(bases.values())), strict=True):
            if self._captured_inputs[captured_input].place >= 0:
                self.table[self._captured_inputs[captured_input].place] = storage(found)
        self._bases, self.base_ids = after, base_ids
        if is_first:
            self._watched = [_never] * len(nodes)
        for number in changed:
            # A callback of C: an interrupt in one of Python would be lost together with what it does.
            self._watched[number] = weakref.ref(nodes[number], self._gone.append)
        self._gone.clear()
        if is_first or not self._writable.isdisjoint(changed):
            self._find_own()
        if self._program.before is not None:
            self._compute_pruned(self._program.before)
        self._ids = ids
        return True

    def _bases_of(self, captured_inputs: set[int]) -> dict[int, UOp] | None:
        """What stands behind sites, if all that is seen through each shows that in the same way as before."""
        bases: dict[int, UOp] = {}
        for captured_input in captured_inputs:
            for seen in self._by_captured_input[captured_input]:
                base = shown_base(seen, seen.tensor, self._captured_inputs[captured_input].placeholder)
                if base is None or bases.setdefault(captured_input, base) is not base:
                    return None
        return bases

    def _compute_pruned(self, before: Program) -> None:
        """What depends on captured tensors alone, whose memory nobody may write to then."""
        captured_inputs = [
            captured_input
            for captured_input in self._by_captured_input
            if self._captured_inputs[captured_input].placeholder in before.inputs
        ]
        bases = [base_of(self._by_captured_input[captured_input][0].tensor) for captured_input in captured_inputs]
        self._kept = [Kept(base) for base in bases]
        table = before.table()
        for captured_input, found in zip(captured_inputs, realize(bases), strict=True):
            table[before.inputs[self._captured_inputs[captured_input].placeholder]] = storage(found)
        for place, placeholder in zip(before.outputs, self._program.pruned, strict=True):
            memory = allocate(str(placeholder.device), nbytes_of(placeholder.dtype, placeholder.shape))
            table[place] = memory
            if placeholder in self._program.inputs:
                self.table[self._program.inputs[placeholder]] = memory
        before.run(table, {}, ())

    def _find_own(self) -> None:
        """The captured tensors that can be written in place, if nobody begins to look at them."""
        last = newest()
        can_be: list[tuple[Any, Change]] = []
        for change in self._changes:
            number = self._number_of.get(change.seen, -1)
            if change.can_stay() and number in self._writable and self.tensors[number]._family is None:
                can_be.append((self.tensors[number], change))
        memories = own_memories([tensor for tensor, _ in can_be])
        own = {can_be[number][0].uop: can_be[number] for number in memories}
        self._own = {base: tensor for base, (tensor, _) in own.items()}
        self._own_memory = list(memories.values())
        self._looked_at = last
        for (_, change), memory in zip(own.values(), self._own_memory, strict=True):
            self.table[change.state.place] = memory
        in_place = {id(change) for _, change in own.values()}
        self.others = [change for change in self._changes if id(change) not in in_place]
