"""Asynchronous copies (cp.async): which stores that a strategy wants to be such copies the instruction can do.

    store shared[thread*16 ..], load p1[i*288 + thread*16 ..], asynchronous     16 bytes, as they are    ->   it stays
    store shared[thread*4 ..], cast(load p1[...]), asynchronous                 a value is computed      ->   a store

Goes in: a LINEAR in which stores are marked. Comes out: the same; those that are no copies of 16 bytes at multiples of
16 from a param to shared memory are not marked any more. The next barrier waits for those that are.
"""

from __future__ import annotations

from whit.ir import ops
from whit.ir.args import Memory
from whit.ir.graph import memory_of
from whit.ir.map_graph import map_graph
from whit.ir.op import Sources
from whit.ir.uop import UOp, make
from whit.kernel.alignment import ALIGNMENT_BYTES, alignment_of
from whit.records import replace
from whit.target import Target


def settle_copies(linear: UOp, target: Target) -> UOp:
    """The program whose asynchronous stores are copies."""
    wanted = [node for node in linear.src if node.op is ops.STORE and node.arg.asynchronous]
    if not wanted:
        return linear
    users: dict[UOp, int] = {}
    for node in linear.src:
        for source in node.src:
            users[source] = users.get(source, 0) + 1
    found = {store for store in wanted if target.has_async_copies and is_copy(store) and users[store.src[1]] == 1}

    def settled(node: UOp, src: Sources) -> UOp | None:
        is_none = node.op is ops.STORE and node.arg.asynchronous and node not in found
        return make(ops.STORE, src, replace(node.arg, asynchronous=False)) if is_none else None

    return linear if len(found) == len(wanted) else map_graph(linear, settled)


def is_copy(store: UOp) -> bool:
    """Whether a store puts 16 bytes of a param into shared memory as they are, both at multiples of 16."""
    target, load, place, *gates = store.src
    memory = memory_of(target)
    is_shared = memory.op is ops.BUFFER and memory.arg.memory is Memory.SHARED
    if not is_shared or load.op is not ops.LOAD or memory_of(load.src[0]).op is not ops.PARAM:
        return False
    if any(gate.shape for gate in gates) or list(load.src[2:]) != gates or store.arg.combine is not None:
        return False
    places = (load.src[1], place)
    if load.dtype.itemsize * (load.shape[0] if load.shape else 1) != ALIGNMENT_BYTES or any(x.shape for x in places):
        return False
    return all(alignment_of(each, {}) * load.dtype.itemsize % ALIGNMENT_BYTES == 0 for each in places)
