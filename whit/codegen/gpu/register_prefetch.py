"""Prefetch into registers: loads of the next step of a loop in which the threads of a block wait for each other.

    for step < n:                                a = load p1[thread]
        a = load p1[step*64 + thread]     ->     for step < n:
        ... all threads wait ...                     b = load p1[(step + 1)*64 + thread] where step + 1 < n
        store p0[step*64 + thread] = ...             ... all threads wait ...
                                                     store p0[step*64 + thread] = ...
                                                     a = b

What is waited for comes while the present step is computed. Only memory that the program does not write is read
ahead, and only what is computed with.
"""

from __future__ import annotations

from collections.abc import Iterable

from whit.ir import ops
from whit.ir.args import Memory, RangeKind
from whit.ir.graph import memory_of, topological
from whit.ir.map_graph import rebuilt
from whit.ir.uop import UOp, const, make

MOST_WORDS = 16  # registers of a thread for what is read ahead
COUNTED = (RangeKind.BLOCK, RangeKind.THREAD)  # by the hardware
NOT_LISTED = (ops.CONST, ops.BUFFER, ops.PARAM, ops.VARIABLE)


def register_prefetch(linear: UOp) -> UOp:
    """The program, reading ahead where that helps."""
    for loop in [node for node in linear.src if node.op is ops.RANGE and node.arg.kind not in COUNTED]:
        loads = _loads_of(linear, loop)
        if loads:
            linear = _prefetched(linear, loop, loads)
    return linear


def _loads_of(linear: UOp, loop: UOp) -> list[UOp]:
    """What can be read ahead in a loop; nothing where no thread waits in it, or it is too much."""
    begin, end = linear.src.index(loop), _end_of(linear, loop)
    inside = linear.src[begin + 1 : end]
    if not any(node.op is ops.BARRIER for node in inside) or any(node.op is ops.BLOCK_MMA for node in inside):
        return []
    written = {memory_of(node.src[0]) for node in linear.src if node.op is ops.STORE}
    loads = [load for load in _known_loads({loop, *linear.src[:begin]}, inside) if load.src[0] not in written]
    found = [load for load in loads if not _is_copied(load, inside)]
    words = sum(max(_lanes(node) * node.dtype.itemsize // 4, 1) for node in found)
    return found if words <= MOST_WORDS else []


def _known_loads(known: set[UOp], inside: tuple[UOp, ...]) -> list[UOp]:
    """The loads of params in every step of a loop whose positions are computed of what is known, without memory."""
    found: list[UOp] = []
    depth = 0  # of loops and conditions
    for node in inside:
        depth += (node.op in (ops.RANGE, ops.IF)) - (node.op is ops.END)
        if not all(s in known or s.op in NOT_LISTED for s in node.src):
            continue
        if node.op.elementwise or node.op in (ops.CAST, ops.STACK):
            known.add(node)
        elif node.op is ops.LOAD and depth == 0 and node.src[0].op is ops.PARAM:
            found.append(node)
    return found


def _is_copied(load: UOp, inside: tuple[UOp, ...]) -> bool:
    """Whether it only goes to memory of the block, for which nobody waits before the next barrier."""
    users = [node for node in inside if load in node.src]
    return all(node.op is ops.STORE and memory_of(node.src[0]).op is ops.BUFFER for node in users)


def _lanes(node: UOp) -> int:
    return node.shape[0] if node.shape else 1


def _end_of(linear: UOp, loop: UOp) -> int:
    return next(i for i, node in enumerate(linear.src) if node.op is ops.END and node.src[0] is loop)


class _Listing:
    """A program while it is written: instructions in order, each after what it is made of."""

    def __init__(self, nodes: Iterable[UOp]) -> None:
        self.nodes = list(nodes)
        self.listed = set(self.nodes)

    def append(self, node: UOp) -> None:
        """Lists an instruction, once."""
        if node not in self.listed:
            self.nodes.append(node)
            self.listed.add(node)

    def add(self, root: UOp) -> UOp:
        """Lists an instruction and what it is made of."""
        for node in topological((root,), stop=self.listed):
            if node.op not in NOT_LISTED:
                self.append(node)
        return root


def _prefetched(linear: UOp, loop: UOp, loads: list[UOp]) -> UOp:
    """The program with these loads of a loop one step ahead."""
    begin, size, zero = linear.src.index(loop), loop.src[0], const(loop.dtype, 0)
    registers = _registers_for(linear, loads)
    program = _Listing((*reversed(registers), *linear.src[:begin]))
    runs = None if size.op is ops.CONST and size.arg > 0 else zero < size
    kept: list[UOp] = []
    for register, load in zip(registers, loads, strict=True):
        kept.append(program.add(register.store(program.add(_in_step(load, loop, zero, runs)), zero)))
    program.add(loop)
    done: dict[UOp, UOp] = {}
    for store, load in zip(kept, loads, strict=True):
        done[load] = program.add(store.src[0].after(store).load(zero, _lanes(load)))
    following = loop + const(loop.dtype, 1)
    more = program.add(following < size)
    for store, load in zip(kept, loads, strict=True):
        program.add(store.src[0].store(program.add(_in_step(load, loop, following, more)), zero))
    for node in linear.src[begin + 1 :]:
        if node not in done:
            done[node] = rebuilt(node, tuple([done.get(s, s) for s in node.src]))
            program.append(done[node])
    return make(ops.LINEAR, tuple(program.nodes))


def _registers_for(linear: UOp, loads: list[UOp]) -> list[UOp]:
    """One for what each load reads ahead, after those that the program has."""
    ids = [node.arg.id for node in linear.src if node.op is ops.BUFFER and node.arg.memory is Memory.REGISTER]
    first = max(ids, default=-1) + 1
    return [UOp.buffer(first + i, load.dtype, (_lanes(load),), memory=Memory.REGISTER) for i, load in enumerate(loads)]


def _in_step(load: UOp, loop: UOp, step: UOp, more: UOp | None) -> UOp:
    """A load in another step of a loop, where there is one: `more`."""
    memory, position, *gate = [load.src[0], *(s.substitute({loop: step}) for s in load.src[1:])]
    if gate and more is not None:
        (given,) = gate
        is_one = given.op is ops.STACK and len(set(given.src)) == 1  # for all lanes
        more = (given.src[0] if is_one else given) & more
    return make(ops.LOAD, (memory, position, *(gate if more is None else (more,))), load.arg)
