"""Another legal order for a program: `shuffled(linear, random)`.

Inside each block the instructions are sorted anew, at random, by what they need: their sources, and for accesses of a
register the accesses before it, unless both only read. A loop needs what anything inside it needs from outside.
"""

from __future__ import annotations

import random
from dataclasses import dataclass, field

from whit.ir import ops
from whit.ir.uop import UOp


@dataclass(eq=False)
class Item:
    """An instruction, or a loop with what is inside; `number` is its old place."""

    number: int
    node: UOp
    inside: list[Item] = field(default_factory=list)
    closer: UOp | None = None

    def members(self) -> list[Item]:
        """Itself and everything inside."""
        found = [self]
        for item in self.inside:
            found += item.members()
        return found


def parsed(linear: UOp) -> list[Item]:
    """The list as nested items."""
    blocks: list[list[Item]] = [[]]
    for number, node in enumerate(linear.src):
        if node.op is ops.END:
            blocks.pop()
            blocks[-1][-1].closer = node
            continue
        item = Item(number, node)
        blocks[-1].append(item)
        if node.op in (ops.RANGE, ops.IF):
            blocks.append(item.inside)
    return blocks[0]


def register_of(node: UOp) -> UOp | None:
    """The local buffer that an instruction accesses."""
    if node.op not in (ops.LOAD, ops.STORE):
        return None
    memory = node.src[0]
    while memory.op is ops.AFTER:
        memory = memory.src[0]
    return memory if memory.op is ops.BUFFER else None


def conflicts(first: Item, second: Item) -> bool:
    """Whether both access one register, and one of them writes it."""
    written = {register_of(item.node) for item in first.members() if item.node.op is ops.STORE} - {None}
    touched = {register_of(item.node) for item in second.members()} - {None}
    read_first = {register_of(item.node) for item in first.members()} - {None}
    written_second = {register_of(item.node) for item in second.members() if item.node.op is ops.STORE} - {None}
    return bool(written & touched) or bool(read_first & written_second)


def needs_of(items: list[Item]) -> dict[Item, set[Item]]:
    """For every item of a block, those that must come before it."""
    made_by = {member.node: item for item in items for member in item.members()}
    needs: dict[Item, set[Item]] = {item: set() for item in items}
    for item in items:
        for member in item.members():
            for source in member.node.src:
                if source in made_by and made_by[source] is not item:
                    needs[item].add(made_by[source])
    for i, first in enumerate(items):
        for second in items[i + 1 :]:
            if conflicts(first, second):
                needs[second].add(first)
    return needs


def shuffled(linear: UOp, chooser: random.Random) -> UOp:
    """The program in another order that means the same."""
    result: list[UOp] = []
    _write(parsed(linear), chooser, result)
    return UOp.linear(*result)


def _write(items: list[Item], chooser: random.Random, result: list[UOp]) -> None:
    needs = needs_of(items)
    waiting = list(items)
    done: set[Item] = set()
    while waiting:
        ready = [item for item in waiting if needs[item] <= done]
        item = chooser.choice(ready)
        waiting.remove(item)
        done.add(item)
        result.append(item.node)
        if item.closer is not None:
            _write(item.inside, chooser, result)
            result.append(item.closer)
