"""The order of a kernel's instructions.

Goes in: a tiled kernel (stores, reductions over ranges, loads). Comes out: a LINEAR program: loops open and close, a
reduction is a register that is cleared, updated in its loop, and read after it.

Loops nest as the stores ask for, reductions inside the loops that their results depend on. Every instruction stands in
the outermost block that has all ranges it depends on: loop-invariant code stands before the loop.
Inside a block, instructions and inner loops are sorted by what needs what; among those that are ready, the one that
came first in the graph goes first.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterator

from whit.dtype import dtypes
from whit.errors import InternalError
from whit.ir import ops
from whit.ir.args import Memory, RangeKind
from whit.ir.graph import joined, topological
from whit.ir.map_graph import map_graph
from whit.ir.nesting import Owner
from whit.ir.op import Sources
from whit.ir.rewrite import rewrite
from whit.ir.uop import UOp, const, make
from whit.kernel.ranges import free_ranges, in_order, next_id
from whit.records import dataclass, field, replace

Path = tuple[UOp, ...]
Loop = tuple[frozenset[UOp], Path]  # what a reduction depends on, and those of its own ranges outside of this one
ZERO = const(dtypes.int64, 0)  # the position of everything in a register
TRUE = const(dtypes.bool, True)
_KEPT = (ops.STORE, ops.BLOCK_STORE, ops.RANGE, ops.END, ops.IF, ops.BARRIER, ops.PARAM, ops.VARIABLE)
LATER = 1 << 32  # added to the number of an instruction that waits for the products before


@dataclass(slots=True, eq=False)
class Item:
    """An instruction, or a loop with what is inside."""

    number: int
    block: ProgramBlock
    node: UOp | None = None
    loop: ProgramBlock | None = None
    needs: set[Item] = field(default_factory=set)


@dataclass(slots=True, eq=False)
class ProgramBlock:
    """What runs under one path of ranges."""

    path: Path
    parent: ProgramBlock | None
    items: list[Item] = field(default_factory=list)
    as_item: Item | None = None  # this loop in its parent


@dataclass(slots=True, eq=False)
class _Linear:
    """The tree under construction."""

    has_fma: bool  # whether the target multiplies and adds in one step
    root: ProgramBlock = field(default_factory=lambda: ProgramBlock((), None))
    blocks: dict[Path, ProgramBlock] = field(default_factory=dict)
    first: dict[UOp, Item] = field(default_factory=dict)  # instructions outside of all loops
    count: int = 0

    def block(self, path: Path) -> ProgramBlock:
        """The block of a path, made with its parents on first use."""
        if not path:
            return self.root
        if path not in self.blocks:
            parent = self.block(path[:-1])
            block = ProgramBlock(path, parent)
            block.as_item = self._add(Item(self.count, parent, loop=block))
            self.blocks[path] = block
        return self.blocks[path]

    def add(self, node: UOp, path: Path) -> Item:
        """An instruction in the block of a path."""
        return self._add(Item(self.count, self.block(path), node=node))

    def add_once(self, node: UOp) -> Item:
        """An instruction that depends on nothing, in front of all loops."""
        if node not in self.first:
            self.first[node] = self.add(node, ())
        return self.first[node]

    def _add(self, item: Item) -> Item:
        self.count += 1
        item.block.items.append(item)
        return item


def need(user: Item, source: Item) -> None:
    """Orders two instructions, in the innermost block that holds both."""
    a, b = user, source
    while a.block is not b.block:
        if len(a.block.path) >= len(b.block.path):
            a = _enclosing(a)
        else:
            b = _enclosing(b)
    if a is not b:
        a.needs.add(b)


def _enclosing(item: Item) -> Item:
    above = item.block.as_item
    if above is None:
        raise InternalError("linearise: two instructions share no block")
    return above


def nesting(body: UOp, free: dict[UOp, frozenset[UOp]]) -> dict[UOp, Path]:
    """For every range, the loops around it, outer first."""
    around: dict[UOp, Path] = {}
    scanned = {node.src[1] for node in free if node.op is ops.SCAN}
    for store in body.src:
        _nest((), tuple(in_order(free[store], scanned)), around)
    for node in reversed(free):  # outer reductions before those inside them
        if node.op in (ops.REDUCE, ops.STAGE) and len(node.src) > 1:
            _nest(path_of(free[node], around), node.src[1:], around)
    return around


def _nest(outside: Path, ranges: Path, around: dict[UOp, Path]) -> None:
    for i, r in enumerate(ranges):
        path = (*outside, *ranges[:i])
        if len(path) > len(around.get(r, ())) or r not in around:
            around[r] = path


def path_of(ranges: frozenset[UOp], around: dict[UOp, Path]) -> Path:
    """The innermost block that has all of these ranges."""
    path: Path = ()
    for r in ranges:
        inside = (*around[r], r)
        if len(inside) > len(path):
            path = inside
    if not ranges <= set(path):
        raise InternalError("linearise: ranges that do not nest", ", ".join(r.short() for r in ranges))
    return path


def separate_loops(body: UOp) -> UOp:
    """Gives reductions that run inside of different loops ranges of their own.

    reduce over k of x[r0, k], reduce over k of x[r0, k] * y[r1, k]   ->   the second over another range
    reduce over k, m of x[k, m], reduce over m of y[m]                ->   the second over another range

    What is copied for a new range may hold reductions that now run inside of it: they are looked at again.
    """
    separated = _separate_once(body)
    while separated is not body:
        body, separated = separated, _separate_once(separated)
    return body


def _separate_once(body: UOp) -> UOp:
    free = free_ranges(body)
    loop_of: dict[UOp, Loop] = {}  # range -> where its first reduction runs
    own: dict[tuple[UOp, Loop], UOp] = {}
    first = next_id(Owner.APART, free)

    def with_own_loops(node: UOp, src: Sources) -> UOp | None:
        if node.op is not ops.REDUCE or len(src) == 1:
            return None
        value, *ranges = src
        new: dict[UOp, UOp] = {}
        outer: Path = ()
        for r in ranges:
            loop = (free[node], outer)
            if loop_of.setdefault(r, loop) != loop:
                if (r, loop) not in own:
                    own[r, loop] = UOp.range(r.src[0], first + len(own), r.arg.kind, Owner.APART)
                new[r] = own[r, loop]
            outer = (*outer, new.get(r, r))
        return make(ops.REDUCE, (value.substitute(new), *outer), node.arg) if new else None

    return map_graph(body, with_own_loops)


def linearise(body: UOp, has_fma: bool = True) -> UOp:  # noqa: C901  one case for each kind of node, over shared tables
    """The program of a tiled kernel."""
    body = separate_loops(body)
    free = free_ranges(body)  # of all nodes, sources first
    around = nesting(body, free)
    paths: dict[frozenset[UOp], Path] = {}
    linear = _Linear(has_fma)
    items: dict[UOp, Item] = {}  # node of the kernel -> the instruction that has its value
    values: dict[UOp, UOp] = {}  # node of the kernel -> the node of the program
    registers = 0
    late = _read_late(body)
    for node, ranges in free.items():
        if node.op is ops.GROUP or node.op is ops.STAGE:
            continue
        path = paths[ranges] if ranges in paths else paths.setdefault(ranges, path_of(ranges, around))
        if node.op is ops.REDUCE and len(node.src) > 1:
            path = around[node.src[1]]
            items[node], values[node] = _reduction(node, path, linear, items, values, registers)
            registers += 1
        elif node.op is ops.SCAN:
            items[node], values[node] = _scan(node, path, linear, items, values, registers)
            registers += 1
        elif node.op is ops.RANGE:
            values[node] = make(ops.RANGE, tuple(values[s] for s in node.src), node.arg)
            block = linear.block(path)
            assert block.as_item is not None, "a range is not the outermost block"
            items[node] = Item(-1, block)
            for s in node.src:
                if s in items:
                    need(block.as_item, items[s])
        elif is_panel(node):
            memory, fill = node.src
            stores = fill.src[0].src
            values[node] = memory.after(*(values[store] for store in stores))
            is_shared = memory.arg.memory is Memory.SHARED
            if is_shared and any(r.arg.kind is RangeKind.THREAD for r in free[fill]):
                barrier = make(ops.BARRIER, tuple(values[store] for store in stores))
                items[node] = linear.add(barrier, path)
                if all(store.arg.asynchronous for store in stores):  # others are loaded meanwhile
                    items[node].number += LATER
                for store in stores:
                    need(items[node], items[store])
                values[node] = memory.after(barrier)
        elif node.op is ops.EACH:
            values[node] = TRUE
        elif node.op is ops.AND and TRUE in (both := [values[s] for s in node.src]):
            left = both.index(TRUE) ^ 1
            values[node] = both[left]
            if node.src[left] in items:
                items[node] = items[node.src[left]]
        else:
            new = _ungated(make(node.op, tuple(values[s] for s in node.src), node.arg)) if node.src else node
            values[node] = new
            if node.op in (ops.CONST, ops.PARAM, ops.VARIABLE, ops.BUFFER):
                continue
            items[node] = linear.add(new, path) if path else linear.add_once(new)
            items[node].number += LATER if node in late else 0
            _need_all(items[node], node.src, items)
    instructions: list[UOp] = [node for node in free if node.op in (ops.PARAM, ops.VARIABLE)]
    _emit(linear.root, values, instructions)
    return make(ops.LINEAR, tuple(_with_memory(_without_unused(instructions))))


def _ungated(node: UOp) -> UOp:
    """An access without the gate that says how often it happens: the loops around it do."""
    if node.op is ops.STORE and node.arg.gated and node.src[-1] is TRUE:
        return make(ops.STORE, node.src[:-1], replace(node.arg, gated=False))
    return make(ops.LOAD, node.src[:2], node.arg) if node.op is ops.LOAD and node.src[2:] == (TRUE,) else node


def _read_late(body: UOp) -> set[UOp]:
    """What a reduction is added to where its sum is stored: read after its loop, or the vectors of a tile would need
    twice as many registers."""
    found: set[UOp] = set()
    for store in body.src:
        if store.op is ops.STORE and store.src[2].op is not ops.CONST:
            found.update(_added_to_sums(*store.src[:3]))
    return found


def _added_to_sums(target: UOp, value: UOp, position: UOp) -> Iterator[UOp]:
    """The loads of a place of memory to which a value that is stored there adds a sum."""
    stack, seen = [value], set[UOp]()
    while stack:
        node = stack.pop()
        if node in seen or node.op is ops.REDUCE or node.op is ops.LOAD:
            continue
        seen.add(node)
        stack.extend(node.src)
        if node.op is ops.ADD and any(s.op is ops.REDUCE and len(s.src) > 1 for s in node.src):
            yield from (s for s in node.src if s.op is ops.LOAD and s.src[:2] == (target, position))


def _without_unused(instructions: list[UOp]) -> list[UOp]:
    """Drops values that nothing needs, such as a product that was fused into a sum."""
    kept: list[UOp] = []
    used: set[UOp] = set()
    for node in reversed(instructions):
        if node in used or node.op in _KEPT:
            kept.append(node)
            used.update(node.src)
            for s in node.src:
                if s.op is ops.AFTER:
                    used.update(s.src)
    return kept[::-1]


def _with_memory(instructions: list[UOp]) -> list[UOp]:
    """Lists the registers first, and what orders a load after stores in front of the load."""
    registers: dict[UOp, None] = {}
    listed: dict[UOp, None] = {}
    for node in instructions:
        for s in node.src:
            memory = s.src[0] if s.op is ops.AFTER else s
            if memory.op is ops.BUFFER:
                registers[memory] = None
            if s.op is ops.AFTER:
                listed[s] = None
        listed[node] = None
    return [*registers, *listed]


def is_panel(node: UOp) -> bool:
    """Whether this is memory after a STAGE of the stores that fill it."""
    return node.op is ops.AFTER and node.src[1].op is ops.STAGE


def _need_all(item: Item, sources: tuple[UOp, ...], items: dict[UOp, Item]) -> None:
    for s in sources:
        if is_panel(s) and s not in items:
            for store in s.src[1].src[0].src:
                need(item, items[store])
            continue
        source = items.get(s)
        if source is not None and s.op is not ops.RANGE:
            need(item, source)


def _register(dtype_of: UOp, number: int) -> UOp:
    width = dtype_of.shape[0] if dtype_of.shape else 1
    return UOp.buffer(number, dtype_of.dtype, (width,), memory=Memory.REGISTER)


def _load(register: UOp) -> UOp:
    return register.load(ZERO, width=register.shape[0])


def _identity(node: UOp) -> UOp:
    """What the reduction starts from, in the shape of its value."""
    start = const(node.dtype, node.arg.op.identity(node.dtype))
    return UOp.stack(*([start] * node.shape[0])) if node.shape else start


def _cleared(node: UOp, register: UOp, path: Path, linear: _Linear) -> Item:
    """The store of the identity into the register of a reduction."""
    start = _identity(node)
    item = linear.add(register.store(start, ZERO), path)
    if start.op is ops.STACK:
        need(item, linear.add_once(start))
    return item


def _products(node: UOp, has_fma: bool) -> list[UOp]:
    """The products that a reduction adds in one step of its loop, if it adds nothing else."""
    value = node.src[0]
    if node.arg.op is not ops.ADD:
        return []
    parts = joined(value, ops.ADD)
    if all(part.op is ops.DOT and part.src[2].op is ops.CONST and part.src[2].arg == 0 for part in parts):
        return sorted(parts, key=_place)
    if not has_fma or not node.dtype.is_float:
        return []
    return sorted(parts, key=_place) if all(part.op is ops.MUL for part in parts) else []


def _place(product: UOp) -> int:
    """The constant part of where operands are read: what the products of several steps of a loop differ by."""
    place, stack, seen = 0, [product], {product}
    while stack:
        node = stack.pop()
        if node.op is ops.LOAD:
            position = node.src[1]
            if position.op is ops.ADD and position.src[1].op is ops.CONST:
                place += int(position.src[1].arg)
        fresh = [s for s in node.src if s not in seen and not is_panel(s)]  # what fills a panel is the same for all
        seen.update(fresh)
        stack.extend(fresh)
    return place


def _reduction(
    node: UOp,
    path: Path,
    linear: _Linear,
    items: dict[UOp, Item],
    values: dict[UOp, UOp],
    number: int,
) -> tuple[Item, UOp]:
    """Clears a register before the loop, updates it inside, reads it after."""
    value, *ranges = node.src
    inside = (*path, *ranges)
    register = _register(node, number)
    cleared = _cleared(node, register, path, linear)
    old = _load(register.after(cleared.node))  # type: ignore[arg-type]
    old_item = linear.add(old, inside)
    need(old_item, cleared)
    updated, update = old, old_item
    for step, product in enumerate(_products(node, linear.has_fma)):  # each is added exactly, one after the other
        left, right = product.src[:2]
        factors = (values[left], values[right], updated)
        updated = make(ops.DOT if product.op is ops.DOT else ops.FMA, factors, product.arg)
        before, update = update, linear.add(updated, inside)
        need(update, before)
        _need_all(update, product.src, items)
        for item in (update, items.get(left), items.get(right)):  # what many reductions share is loaded step by step
            if item is not None and item.block is update.block:
                item.number = max(item.number, step * LATER + item.number % LATER)
    if updated is old:
        updated = make(node.arg.op, (old, values[value]))
        update = linear.add(updated, inside)
        need(update, old_item)
        _need_all(update, (value,), items)
    kept = linear.add(register.store(updated, ZERO), inside)
    need(kept, update)
    result = _load(register.after(kept.node))  # type: ignore[arg-type]
    item = linear.add(result, path)
    need(item, kept)
    return item, result


def _scan(
    node: UOp, path: Path, linear: _Linear, items: dict[UOp, Item], values: dict[UOp, UOp], number: int
) -> tuple[Item, UOp]:
    """Clears a register before the loop; in every iteration, updates it and is its value, or the one before."""
    value, along = node.src
    outside = tuple(r for r in path if r is not along)
    register = _register(node, number)
    cleared = _cleared(node, register, outside, linear)
    old = _load(register.after(cleared.node))  # type: ignore[arg-type]
    old_item = linear.add(old, path)
    need(old_item, cleared)
    left, right = (UOp.param(slot, node.dtype, s.shape) for slot, s in enumerate((old, values[value])))
    from whit.codegen.math.expand import EXPAND_MATH  # lazy: few kernels scan

    step = rewrite(make(node.arg.op, (left, right)), EXPAND_MATH)  # alone: what is scanned is expanded already
    updated = step.substitute({left: old, right: values[value]})
    known = {old: old_item, values[value]: items.get(value)}
    for part in topological((updated,), stop=known):
        if part.op is ops.CONST or part in known:
            continue
        known[part] = update = linear.add(part, path)
        for s in part.src:
            source = known.get(s)
            if source is not None and s.op is not ops.RANGE:
                need(update, source)
    kept = linear.add(register.store(updated, ZERO), path)
    need(kept, update)
    return (old_item, old) if node.arg.exclusive else (update, updated)


def _emit(block: ProgramBlock, values: dict[UOp, UOp], instructions: list[UOp]) -> None:
    """Sorts a block and writes it out; recursion is as deep as loops nest."""
    for item in _sorted(block.items):
        if item.loop is None:
            assert item.node is not None, "what is not a loop is an instruction"
            instructions.append(item.node)
            continue
        opened = values[item.loop.path[-1]]
        instructions.append(opened)
        _emit(item.loop, values, instructions)
        instructions.append(opened.end())


def _sorted(items: list[Item]) -> list[Item]:
    """Everything after what it needs; otherwise as it came."""
    waiting = {item: len(item.needs) for item in items}
    users: dict[Item, list[Item]] = {item: [] for item in items}
    for item in items:
        for source in item.needs:
            users[source].append(item)
    ready = [(item.number, item) for item in items if not waiting[item]]
    heapq.heapify(ready)
    result: list[Item] = []
    while ready:
        _, item = heapq.heappop(ready)
        result.append(item)
        for user in users[item]:
            waiting[user] -= 1
            if not waiting[user]:
                heapq.heappush(ready, (user.number, user))
    if len(result) != len(items):
        raise InternalError("linearise: instructions need each other in a circle")
    return result
