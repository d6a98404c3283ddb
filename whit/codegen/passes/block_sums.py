"""Long sums of floats as sums of shorter ones.

    clear total                              clear total
    for r < 100000:                          for o < 400:
        total = total + x[r]          ->         clear part
    ... total                                    for i < 250:
                                                     part = part + x[o*250 + i]
                                                 total = total + part
                                             ... total

The error of n additions one after the other grows with n: each rounds a total that is as large as what came before.
Here every result comes out of at most a few hundred in each of log(n) levels, in the same order of memory. A part
costs a handful of instructions for every hundred additions, and registers that are not used in the inner loop.

Goes in and comes out: a LINEAR program, of any target. Two steps are repeated until no chain of additions is too long:
a loop is split in two (`_split`), and a register that is summed inside of a loop gets one for each iteration (`_cut`).
A scan is a sum whose value so far is used in each iteration: there the total before this part is added to it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from math import prod

from whit.ir import ops
from whit.ir.args import Memory, RangeKind
from whit.ir.graph import memory_of
from whit.ir.nesting import Owner
from whit.ir.uop import UOp, const, make
from whit.kernel.ranges import next_id
from whit.records import dataclass
from whit.simplify.bounds import bounds

MOST = 256  # additions one after the other
LEAST = 32  # additions of an iteration from which on they are a part as they are: the loop is not split first
FEW, MOST_OF_MANY = 8, 512  # accumulators of a loop; additions where it has more: those of GEMM, whose totals spill
MOST_WORDS = 16  # registers that a thread of a GPU has for totals; a CPU spills them to its stack
COUNTED = (RangeKind.CORE, RangeKind.BLOCK, RangeKind.WARP, RangeKind.THREAD)  # ranges without a loop
Path = tuple[UOp, ...]


@dataclass(slots=True, eq=False)
class Sum:
    """A register that is cleared, and added to in loops."""

    register: UOp
    cleared: UOp  # STORE of 0
    old: UOp  # LOAD in the loop
    kept: UOp  # STORE in the loop
    loops: Path  # those between, outer first
    chain: tuple[UOp, ...]  # additions of an iteration, the last first
    shown: frozenset[UOp]  # of a scan: what an iteration goes on with

    @property
    def kept_in(self) -> UOp:
        """The innermost loop."""
        return self.loops[-1]

    @property
    def own(self) -> frozenset[UOp]:
        """The instructions that make the next sum of the old one."""
        return frozenset((*self.chain, self.kept))


def block_sums(linear: UOp, on_gpu: bool = False) -> UOp:
    """The program with no sum of floats longer than `MOST`, in any one register."""
    if prod(_most(node) for node in linear.src if node.op is ops.RANGE) <= LEAST:
        return linear
    while True:
        sums = _sums(linear)
        if on_gpu:
            sums = [each for each in sums if _has_room(linear, each, sums)]
        choice = next(_cuts(sums), None)
        if choice is None:
            return linear
        loop, block = choice
        linear = _split(linear, loop, block) if block else _cut(linear, loop, [s for s in sums if _is_cut(s, loop)])


def _cuts(sums: Sequence[Sum]) -> Iterator[tuple[UOp, int]]:
    """Where sums that are too long are to be cut."""
    beside = Counter(each.kept_in for each in sums)
    for each in sums:
        found = _too_long(each, MOST if beside[each.kept_in] <= FEW else MOST_OF_MANY)
        if found is not None:
            yield found


def lengths(linear: UOp) -> list[int]:
    """For each sum of floats of a program, how many additions to one register come one after the other."""
    return [len(each.chain) * prod(map(_most, each.loops)) for each in _sums(linear)]


def _most(loop: UOp) -> int:
    """Iterations of a loop, at most."""
    limits = bounds(loop.src[0])
    return MOST * MOST if limits is None else max(int(limits[1]), 1)


def _too_long(each: Sum, most: int) -> tuple[UOp, int] | None:
    """The loop at which a sum has to be cut, and the size of the parts in which it is to be split first, or 0."""
    count = len(each.chain)
    for loop in reversed(each.loops):
        times = _most(loop)
        if count * times <= most:
            count *= times
        elif count >= LEAST:
            return loop, 0
        else:
            return loop, _block(loop.src[0], most // count)
    return None


def _block(size: UOp, most: int) -> int:
    """The size of parts of a loop: near half of the most, and one that divides it, if there is one."""
    wanted = most // 2
    if size.op is not ops.CONST:
        return 1 << wanted.bit_length() - 1
    candidates = (*range(wanted, wanted // 4, -1), *range(wanted + 1, most + 1))
    return next((n for n in candidates if n > 1 and size.arg % n == 0), wanted)


def _is_cut(each: Sum, loop: UOp) -> bool:
    """Whether a sum has enough inside of an iteration of a loop to have a part there."""
    if loop not in each.loops:
        return False
    count = len(each.chain)
    for inner in each.loops[each.loops.index(loop) + 1 :]:
        count *= _most(inner)
    return count >= LEAST // 4


# ---- which sums there are


def _sums(linear: UOp) -> list[Sum]:
    paths: dict[UOp, Path] = {}
    path: list[UOp] = []
    stores: dict[UOp, list[UOp]] = {}
    users: dict[UOp, list[UOp]] = {}
    for node in linear.src:
        if node.op is ops.END:
            path.pop()
        paths[node] = tuple(path)
        if node.op in (ops.RANGE, ops.IF):
            path.append(node)
        if node.op is ops.STORE and _is_register(register := memory_of(node.src[0])):
            stores.setdefault(register, []).append(node)
        for source in node.src:
            users.setdefault(source, []).append(node)
    found: list[Sum] = []
    for register, (cleared, *others) in stores.items():
        if len(others) == 1 and (each := _sum(register, cleared, others[0], paths, users)) is not None:
            found.append(each)
    return found


def _is_register(memory: UOp) -> bool:
    return memory.op is ops.BUFFER and memory.arg.memory is Memory.REGISTER and memory.dtype.is_float


def _sum(register: UOp, cleared: UOp, kept: UOp, paths: dict[UOp, Path], users: dict[UOp, list[UOp]]) -> Sum | None:
    """The sum of a register, if it is one: cleared outside of loops in which it is added to as a whole."""
    outside, inside = paths[cleared], paths[kept]
    loops = tuple(block for block in inside[len(outside) :] if block.op is ops.RANGE)
    if not loops or inside[: len(outside)] != outside or any(loop.arg.kind in COUNTED for loop in loops):
        return None
    if not _is_zero(cleared.src[1]) or not _writes_all(kept, register):
        return None
    chain, old = _chain_of(kept.src[1])
    is_old = old.op is ops.LOAD and old.src[0].op is ops.AFTER and old.src[0].src == (register, cleared)
    if not chain or not is_old or paths.get(old) != inside:
        return None
    return Sum(register, cleared, old, kept, loops, chain, _shown(chain, old, kept, users))


def _writes_all(store: UOp, register: UOp) -> bool:
    """Whether a store is of a whole register, always, whatever was there."""
    return len(store.src) == 3 and not store.arg.combine and (store.src[1].shape or (1,)) == register.shape


def _chain_of(total: UOp) -> tuple[tuple[UOp, ...], UOp]:
    """The additions that make a value, the last first, and what they begin with."""
    chain: list[UOp] = []
    node = total
    while node.op in (ops.ADD, ops.FMA, ops.DOT):
        chain.append(node)
        node = node.src[0] if node.op is ops.ADD else node.src[2]
    return tuple(chain), node


def _shown(chain: tuple[UOp, ...], old: UOp, kept: UOp, users: dict[UOp, list[UOp]]) -> frozenset[UOp]:
    """What instructions outside of the sum go on with: values of the chain, or the old total; what they add to that
    instead, if they do nothing else with it."""
    own = {*chain, kept}
    shown: set[UOp] = set()
    for part in (*chain, old):
        others = [user for user in users[part] if user not in own]
        sums = [user for user in others if part is old and user.op is ops.ADD]
        shown.update(sums if len(sums) == len(others) else [part])
    return frozenset(shown)


def _is_zero(value: UOp) -> bool:
    parts = value.src if value.op is ops.STACK else (value,)
    return all(part.op is ops.CONST and part.arg == 0 for part in parts)


def _has_room(linear: UOp, each: Sum, sums: Sequence[Sum]) -> bool:
    """Whether a thread of a GPU has registers for totals. Loops in which threads wait for each other are left alone:
    they are short for each thread, and what they load ahead goes by their number."""
    first, last = linear.src.index(each.loops[0]), linear.src.index(each.kept)
    if any(node.op in (ops.BARRIER, ops.BLOCK_MMA) for node in linear.src[first:last]):
        return False
    words: int = sum(other.register.shape[0] for other in sums if other.loops[:1] == each.loops[:1])
    return words <= MOST_WORDS


# ---- a loop in two


def _split(linear: UOp, loop: UOp, block: int) -> UOp:
    """for r < n -> for o < n / block: for i < min(block, n - o * block), and o * block + i for r"""
    (size,) = loop.src
    first = next_id(Owner.STRIP, linear.src)
    step = const(size.dtype, block)
    before: list[UOp] = []
    if size.op is ops.CONST:
        count = const(size.dtype, -(-int(size.arg) // block))
    else:
        more = size + const(size.dtype, block - 1)
        count = make(ops.SHR, (more, const(size.dtype, block.bit_length() - 1)))
        before = [more, count]
    outer = UOp.range(count, first, loop.arg.kind, Owner.STRIP)
    start = outer * step
    opened = [outer, start]
    if size.op is ops.CONST and size.arg % block == 0:
        inner = UOp.range(step, first + 1, loop.arg.kind, Owner.STRIP)
    else:
        left = size - start
        inside = make(ops.MIN, (left, step))
        inner = UOp.range(inside, first + 1, loop.arg.kind, Owner.STRIP)
        opened += [left, inside]
    place = start + inner
    done: dict[UOp, UOp] = {loop: place}
    result: list[UOp] = []
    listed = set(linear.src)  # another loop of this size may have been split before
    before = [node for node in before if node not in listed]
    for node in linear.src:
        if node is loop:
            result += [*opened, inner, place]
        elif node.op is ops.END and node.src[0] is loop:
            done[node] = outer.end()
            result += [inner.end(), done[node]]
        else:
            result.append(_rebuilt(node, done, {}))
            result += before if node is size else ()
    return make(ops.LINEAR, tuple(result))


def _rebuilt(node: UOp, done: dict[UOp, UOp], seen: dict[UOp, UOp]) -> UOp:
    """An instruction, of what has replaced its sources."""
    src = tuple([seen[s] if s in seen else done.get(s, s) for s in node.src])
    if src != node.src:
        done[node] = make(node.op, src, node.arg)
    return done.get(node, node)


# ---- a register for each iteration


def _cut(linear: UOp, loop: UOp, sums: Sequence[Sum]) -> UOp:
    """The program with a register for what an iteration of a loop adds to each of these sums."""
    parts = dict(zip(sums, _registers_like(sums, linear), strict=True))
    clears = {s: part.store(*s.cleared.src[1:]) for s, part in parts.items()}
    kept_of = {s.kept: s for s in sums}
    shown_of = {node: s for s in sums for node in s.shown}
    own = frozenset().union(*(s.own for s in sums))
    end = loop.end()
    done = {s.old.src[0]: part.after(clears[s]) for s, part in parts.items()}
    seen: dict[UOp, UOp] = {}  # of scans: what others than their own additions see
    kept: dict[Sum, UOp] = {}
    result = list(parts.values())
    for node in linear.src:
        if node in kept_of:
            s = kept_of[node]
            kept[s] = parts[s].store(*(done.get(source, source) for source in node.src[1:]))
            result.append(kept[s])
        elif node is end:
            for s in sums:
                done[s.kept] = _added(s, parts[s], kept[s], result)
            result.append(node)
        else:
            result.append(_rebuilt(node, done, {} if node in own else seen))
        if node in shown_of:
            seen[node] = shown_of[node].old + result[-1]
            result.append(seen[node])
        if node is loop:
            result += clears.values()
            result += _read_at_once(sums)
    return make(ops.LINEAR, tuple(result))


def _read_at_once(sums: Sequence[Sum]) -> list[UOp]:
    """The totals that an iteration of a scan goes on with. Those of sums are read once it has ended (`_added`)."""
    return [each for s in sums if s.shown for each in (s.old.src[0], s.old)]


def _registers_like(sums: Sequence[Sum], linear: UOp) -> list[UOp]:
    """A new register for each sum, as large as its own."""
    first = 1 + max(node.arg.id for node in linear.src if node.op is ops.BUFFER)
    return [
        UOp.buffer(first + i, s.register.dtype, s.register.shape, memory=Memory.REGISTER) for i, s in enumerate(sums)
    ]


def _added(s: Sum, part: UOp, kept: UOp, result: list[UOp]) -> UOp:
    """Adds the part of an iteration to the total."""
    after = part.after(kept)
    new = after.load(kept.src[2], width=part.shape[0])
    total = s.old + new
    store = s.register.store(total, kept.src[2])
    result += [] if s.shown else [s.old.src[0], s.old]
    result += [after, new, total, store]
    return store
