"""Kernels that can be one.

Two values over the same ranges share a kernel if one reads the other only where it is itself being computed, or if they
read something in common and neither needs the other.

    s = a + b; p = a * b                     one kernel with two stores
    m = b1*m + g; w = w - lr*m               one kernel: m is stored, and used while it is at hand

On a GPU a product of matrices is alone with what is made of it elementwise: tensor cores compute one in a kernel. On a
CPU large products are not added up in one kernel, whose tiles would be those of one of them.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any

from whit.ir import ops
from whit.ir.nesting import Owner
from whit.ir.uop import UOp
from whit.kernel.ranges import next_id
from whit.kernel.tensor_cores import LARGE_PRODUCT
from whit.records import dataclass, field
from whit.schedule.lower import read_value
from whit.schedule.movement import ZERO, Position
from whit.schedule.stages.choose import StoredValue
from whit.schedule.stages.epilogue import DEEP_STEPS, is_heavy
from whit.schedule.stages.may_fuse import LARGE
from whit.schedule.values import is_join, prod_of
from whit.target import ANY_CPU, Target

MOST_BUFFERS = 128  # a kernel takes no more arguments than this
# from this many on, what is computed for each row can be stored by the kernel that then computes the rows
LEAST_ROWS = 64
SMALL_ELEMENTS = 1 << 14  # elements: kernels with no more of them are made one, even if they read nothing in common
MOST_NODES = 1000  # of kernels that are joined to save launches: compiling twice as much takes three times as long
# the same where one alone has 150, as random numbers have: up to 400, since a launch is little beside it
LONG_NODES, MOST_LONG_NODES = 150, 400
MOST_CONTRACTIONS = 4  # in a kernel: each has panels of its own
WORTH_TILES_ELEMENTS = 1 << 12  # elements of a matrix
SOON_LEVELS, LATER_LEVELS = 4, 8  # levels that contractions and small kernels may wait for each other
SEVERAL = "several"  # a kernel with a contraction and other reductions
LOOK_BACK_GROUPS = 64  # groups of the right shape that a kernel tries to join, the latest first


@dataclass(slots=True, eq=False)
class Group:
    """Kernels that run as one."""

    level: int  # it runs after all groups of lower levels
    first: int  # the lowest level at which one of its kernels could run
    here: Position  # the ranges of its innermost values
    rows: int = 0  # how many elements they have
    readers: set[Group] = field(default_factory=set)  # groups of higher levels, which need it: it cannot run later
    kernels: list[StoredValue] = field(default_factory=list)
    values: dict[UOp, UOp] = field(default_factory=dict)  # root -> its element, reading what other groups keep
    positions: dict[UOp, Position] = field(default_factory=dict)  # root -> where that element is
    reads: set[UOp] = field(default_factory=set)  # stored nodes and params
    nodes: int = 0
    scanned: set[UOp] = field(default_factory=set)
    contracts: frozenset[Any] = frozenset()
    contractions: int = 0
    products: int = 0  # of its largest contraction
    reduces: int = 0
    sorts: frozenset[Any] = frozenset()
    is_attention: bool = False
    reduce_ids: int = 0  # of the reduce ranges of its kernels, all below this

    def run_after(self, level: int) -> None:
        """Runs later, if need be, and so do those that read it."""
        stack = [(self, level)]
        while stack:
            group, level = stack.pop()
            if group.level <= level:
                group.level = level + 1
                stack.extend((reader, group.level) for reader in group.readers)

    def is_before(self, others: Collection[Group]) -> bool:
        """Whether one of these has to run after this one."""
        stack, seen = [self], {self}
        while stack:
            fresh = [reader for reader in stack.pop().readers if reader not in seen]
            seen.update(fresh)
            stack.extend(fresh)
        return any(other in seen for other in others if other is not self)


@dataclass(frozen=True, slots=True)
class Facts:
    """What decides where a kernel may run."""

    reads: frozenset[UOp]  # stored nodes and params
    moved: frozenset[UOp]  # stored nodes that it reads elsewhere than where their own kernels compute them
    scanned: frozenset[UOp]  # ranges
    contracts: frozenset[Any]  # the sizes of reductions of products of which each varies with other ranges, as a matmul
    sorts: frozenset[Any]  # what it sorts by: a kernel sorts by one key, and does nothing else
    nodes: int
    reduces: int
    alone: bool  # a product of matrices is in no kernel with another reduction
    is_heavy: bool  # it computes something that is too much after a product
    products: int  # of its largest contraction


def group_kernels(
    kernels: dict[UOp, StoredValue],
    earlier: Mapping[UOp, Collection[UOp]] | None = None,
    needs: Mapping[UOp, Collection[UOp]] | None = None,
    target: Target = ANY_CPU,
) -> list[Group]:
    """The kernels in an order in which they can run, merged where that saves reading.

    `earlier` has what must run before a kernel although it does not read it: those who read what a write overwrites,
    and what a recomputation waits for. `needs` has the same for everyone who reads a memory: what must run before there
    is something in it.
    """
    facts = {root: facts_of(kernel, kernels, target) for root, kernel in kernels.items()}
    before = {root: list(roots) for root, roots in (earlier or {}).items()}
    for root, known in facts.items() if needs else ():
        before.setdefault(root, []).extend(r for memory in known.reads for r in (needs or {}).get(memory, ()))
    grouping = Grouping(facts, before, target)
    for kernel in in_order(kernels, {root: (*known.reads, *before.get(root, ())) for root, known in facts.items()}):
        grouping.place(kernel)
    return sorted(grouping.groups, key=lambda group: group.level)


@dataclass(frozen=True, slots=True)
class Coming:
    """A kernel that looks for a group."""

    kernel: StoredValue
    known: Facts
    here: Position  # its ranges
    needed: list[Group]  # what runs before it, or is joined by it
    first: list[Group]  # those of them that it cannot join
    level: int  # the lowest at which it could run

    @property
    def is_small(self) -> bool:
        """Whether a launch for it alone would be much."""
        return bool(self.here) and prod_of(self.kernel.root.shape) <= SMALL_ELEMENTS

    def reads_at_hand(self, group: Group) -> bool:
        """Whether it reads what a group computes only where it is being computed, or none of it."""
        return not any(root in group.values for root in self.known.moved)

    def may_join(self, group: Group, may_wait: bool) -> bool:
        """Whether nothing forbids that it joins a group."""
        return group not in self.first and _fits(self.known, group) and _is_in_time(group, self.needed, may_wait)


@dataclass(slots=True)
class Grouping:
    """The groups so far."""

    facts: Mapping[UOp, Facts]
    before: Mapping[UOp, Collection[UOp]]  # what runs before a kernel, although it does not read it
    target: Target
    groups: list[Group] = field(default_factory=list)
    alike: dict[Any, list[Group]] = field(default_factory=dict)  # by the ranges of their innermost values
    of_root: dict[UOp, Group] = field(default_factory=dict)

    def place(self, kernel: StoredValue) -> None:
        """Puts a kernel, whose sources have a place already, into a group: one that is there, or its own."""
        coming = self._coming(kernel)
        is_alone = kernel.parts or kernel.is_write or is_join(kernel.root)
        beside = [] if is_alone else self.alike.setdefault(coming.here, [])
        home = None if is_alone else _find_home(coming, beside, self.target)
        if home is None:
            home = Group(coming.level, coming.level, coming.here)
            self.groups.append(home)
        if home not in beside[-LOOK_BACK_GROUPS:]:
            beside.append(home)
        _join(home, kernel, coming.known)
        self.of_root[kernel.root] = home
        home.first = min(home.first, coming.level)
        for other in coming.needed:
            if other is not home:
                other.readers.add(home)
                home.run_after(other.level)

    def _coming(self, kernel: StoredValue) -> Coming:
        known = self.facts[kernel.root]
        first = self._groups_of(self.before.get(kernel.root, ()))
        needed = [*self._groups_of(known.reads), *first]
        level = 1 + max((other.level for other in needed), default=-1)
        return Coming(kernel, known, _where(kernel.position), needed, first, level)

    def _groups_of(self, roots: Iterable[UOp]) -> list[Group]:
        return [self.of_root[root] for root in roots if root in self.of_root]


def _where(position: Sequence[UOp]) -> Position:
    """A position without the axes of size 1, where there is no choice."""
    return tuple(i for i in position if i is not ZERO)


def facts_of(kernel: StoredValue, kernels: Mapping[UOp, StoredValue], target: Target = ANY_CPU) -> Facts:
    """Looks at every node of a kernel once."""
    moved: set[UOp] = set()
    scanned: set[UOp] = set()
    sorts: set[Any] = set()
    reduces: list[UOp] = []
    nodes = kernel.value.topological()
    for node in nodes:
        if node.op is ops.INDEX and node.src[0].op is ops.FUNCTION:
            memory, *position = node.src
            (root,) = memory.src
            if root not in kernels or tuple(position) != kernels[root].position:
                moved.add(root)
        elif node.op is ops.SCAN:
            scanned.add(node.src[1])
        elif node.op is ops.SORT:
            sorts.add((node.src[0], node.src[2:], node.arg))
        elif node.op is ops.REDUCE:
            reduces.append(node)
    products = list(filter(_contracts, reduces))
    contracts: set[Any] = {tuple(r.src[0] for r in reduce.src[1:]) for reduce in products}
    if contracts and len(reduces) > 1:
        contracts.add(SEVERAL)
    reads = frozenset(kernel.reads)
    return Facts(
        reads,
        frozenset(moved),
        frozenset(scanned),
        frozenset(contracts),
        frozenset(sorts),
        len(nodes),
        len(reduces),
        target.is_gpu,
        target.has_wgmma and is_heavy(kernel.value, kernel.root, 1),
        _most_products(kernel.root, products),
    )


def _most_products(root: UOp, reduces: Iterable[UOp]) -> int:
    """Of the largest of these contractions, one for each element of a value."""
    depths = [prod_of(tuple(r.size for r in reduce.src[1:])) for reduce in reduces]
    most: int = prod_of(root.shape) * max(depths, default=0)
    return most


def _contracts(reduce: UOp) -> bool:
    """Whether a reduction is one of products whose operands vary with different ranges."""
    if reduce.src[0].op is not ops.MUL:
        return False
    left, right = ({r for r in side.topological() if r.op is ops.RANGE} for side in reduce.src[0].src)
    return left != right


def in_order(kernels: dict[UOp, StoredValue], needs: Mapping[UOp, Collection[UOp]]) -> list[StoredValue]:
    """Kernels after what they need."""
    number = {root: i for i, root in enumerate(kernels)}
    order: list[StoredValue] = []
    placed: set[UOp] = set()
    stack = list(reversed(kernels))
    while stack:
        root = stack[-1]
        missing = [r for r in needs[root] if r in number and r not in placed and r is not root]
        if root in placed or not missing:
            stack.pop()
            if root not in placed:
                placed.add(root)
                order.append(kernels[root])
        else:
            stack.extend(sorted(missing, key=number.__getitem__, reverse=True))
    return order


def _find_home(coming: Coming, beside: list[Group], target: Target) -> Group | None:
    """A group that a kernel can join: over the same ranges, or over the outer ones of it, as a norm of rows is. Not one
    of those that must be `first`."""
    if coming.kernel.is_attention:
        return _home_of_attention(coming, beside, target)
    for group in reversed(beside[-LOOK_BACK_GROUPS:]):
        if _shares_ranges(group, coming, target):
            return group
    if coming.known.contracts or coming.known.scanned:
        return None
    for group in sorted(coming.needed, key=lambda group: group.level, reverse=True):
        if _has_rows_of(group, coming):
            return group
    return None


def _shares_ranges(group: Group, coming: Coming, target: Target) -> bool:
    """Whether a kernel joins a group over the same ranges: it reads what the group has at hand, or both gain by it."""
    known = coming.known
    wait = max(coming.level, group.level) - min(coming.level, group.first)
    is_near = coming.is_small and wait <= LATER_LEVELS
    if not coming.may_join(group, may_wait=is_near or bool(known.contracts)):
        return False
    if group.is_attention and not _is_attention_with(group, coming.kernel, known, target):
        return False
    if not known.reads.isdisjoint(group.values):
        return coming.reads_at_hand(group) and not _is_apart(known, group, target)
    if known.contracts or group.contracts:
        return _contract_together(known, group, wait) and bool(
            prod_of(coming.kernel.root.shape) >= WORTH_TILES_ELEMENTS
        )
    return _read_the_same(known, group) or _save_a_launch(known, group, wait, is_near)


def _is_apart(known: Facts, group: Group, target: Target) -> bool:
    """Whether a kernel does not join the group that it reads: much after a short product, a product after another."""
    if not target.is_gpu and not group.is_attention and min(known.products, group.products) >= LARGE:
        return True
    return known.is_heavy and _is_short(group)


def _has_rows_of(group: Group, coming: Coming) -> bool:
    """Whether a kernel joins a group that computes something for each of its rows, and reads it there."""
    is_row = coming.here[: len(group.here)] == group.here and group.rows >= LEAST_ROWS
    if not is_row or group.contracts or group.scanned or group.is_attention:
        return False
    return coming.reads_at_hand(group) and coming.may_join(group, may_wait=coming.is_small)


def _home_of_attention(coming: Coming, beside: list[Group], target: Target) -> Group | None:
    """A group that computes blocks of the same matrix, of which this kernel has statistics of rows, or products."""
    needed = coming.needed
    latest = sorted(needed, key=lambda group: group.level, reverse=True)
    for group in dict.fromkeys((*latest, *reversed(beside[-LOOK_BACK_GROUPS:]))):
        if not group.is_attention or coming.here[: len(group.here)] != group.here or group in coming.first:
            continue
        may_join = _is_in_time(group, needed, True) or (
            _waits_for_product(group, target) and not group.is_before(needed)
        )
        if may_join and _fits(coming.known, group) and _is_attention_with(group, coming.kernel, coming.known, target):
            return group
    return None


def _waits_for_product(group: Group, target: Target) -> bool:
    """Whether a group is statistics of a matrix of which tensor cores compute nothing alone: whoever reads them waits,
    too."""
    from whit.kernel.attention_form import find_attention  # lazy: few graphs have two products

    return target.attention_dtypes is not None and find_attention(list(group.values.values())) is None


def _is_attention_with(group: Group, kernel: StoredValue, known: Facts, target: Target) -> bool:
    """Whether a group that computes blocks of a matrix still has that form with one kernel more."""
    from whit.kernel.attention_form import find_attention  # lazy: as above
    from whit.schedule.stages.attention import is_computed  # lazy: as above

    value, inside = _joined(group, kernel, known)
    if known.moved.intersection(inside):
        return False
    both = find_attention([*group.values.values(), value])
    if both is not None:
        if not is_computed(both, target):
            return False
        before, alone = find_attention(list(group.values.values())), find_attention([value])
        return before is None or alone is None or len(both.inner) < len(before.inner) + len(alone.inner)
    here = _where(kernel.position)  # statistics wait for the product
    return kernel.is_attention and bool(inside) and all(_where(place) == here for place in group.positions.values())


def _is_short(group: Group) -> bool:
    """Whether a group is a large product of few steps, after which nothing heavy is computed."""
    depths = [prod_of(tuple(sizes)) for sizes in group.contracts if sizes is not SEVERAL]
    return bool(depths) and group.rows * min(depths) >= LARGE_PRODUCT and min(depths) < DEEP_STEPS


def _contract_together(known: Facts, group: Group, wait: int) -> bool:
    """Whether two contractions come out in the same tiles, and have an operand in common or run one soon after the
    other: what waits keeps its operands in memory."""
    if known.contracts != group.contracts or SEVERAL in known.contracts or group.contractions == MOST_CONTRACTIONS:
        return False
    return wait <= SOON_LEVELS or any(prod_of(node.shape) >= WORTH_TILES_ELEMENTS for node in group.reads & known.reads)


def _read_the_same(known: Facts, group: Group) -> bool:
    """Whether a kernel and a group read the same values. Numbers are read at no cost."""
    return any(prod_of(node.shape) > 1 for node in group.reads & known.reads)


def _save_a_launch(known: Facts, group: Group, wait: int, is_near: bool) -> bool:
    """Whether a kernel that is small or reads the same numbers is short enough to join a group for that alone."""
    if group.nodes + known.nodes > (MOST_LONG_NODES if known.nodes > LONG_NODES else MOST_NODES):
        return False
    return is_near or (wait <= LATER_LEVELS and not group.reads.isdisjoint(known.reads))


def _is_in_time(group: Group, needed: list[Group], may_wait: bool) -> bool:
    """Whether all that a kernel needs runs before a group, or the group can wait for it."""
    return (may_wait and not group.readers) or all(other.level < group.level for other in needed if other is not group)


def _fits(known: Facts, group: Group) -> bool:
    """Whether nothing forbids that a kernel joins a group, whenever that runs."""
    if len(group.reads | known.reads) + len(group.values) + 1 > MOST_BUFFERS:
        return False
    if len(group.scanned | known.scanned) > 1:
        return False  # the loop of a scan is the innermost one
    if (group.scanned or known.scanned) and (group.contracts or known.contracts):
        return False  # a contraction gets no tile in the loop of a scan
    if group.sorts != known.sorts:
        return False
    has_product = known.contracts or group.contracts
    return not (known.alone and has_product and known.reduces and group.reduces and not group.is_attention)


def _own_ranges(kernel: StoredValue, first: int) -> dict[UOp, UOp]:
    """New reduce ranges for a kernel, since those of two kernels are numbered alike and one may be inside the other."""
    found = [r for node in kernel.value.topological() if node.op is ops.REDUCE for r in node.src[1:]]
    return {r: UOp.range(r.src[0], first + r.arg.id, r.arg.kind, r.arg.owner) for r in found if first}


def _joined(group: Group, kernel: StoredValue, known: Facts) -> tuple[UOp, list[UOp]]:
    """The value of a kernel in a group, and what it reads there while it is at hand."""
    value = kernel.value.substitute(_own_ranges(kernel, group.reduce_ids))
    inside = [r for r in known.reads if r in group.values]
    at_hand = {read_value(root, group.positions[root]): group.values[root] for root in inside}
    return value.substitute(at_hand) if at_hand else value, inside


def _join(group: Group, kernel: StoredValue, known: Facts) -> None:
    group.values[kernel.root], _ = _joined(group, kernel, known)
    group.reduce_ids += next_id(Owner.REDUCE, kernel.value.topological())
    group.is_attention |= kernel.is_attention
    group.here = max(group.here, _where(kernel.position), key=len)
    group.rows = max(group.rows, prod_of(kernel.root.shape))
    group.positions[kernel.root] = kernel.position
    group.kernels.append(kernel)
    group.nodes += known.nodes
    group.reads |= {r for r in known.reads if r not in group.values}
    group.scanned |= known.scanned
    group.contracts |= known.contracts
    group.contractions += bool(known.contracts)
    group.products = max(group.products, known.products)
    group.reduces += known.reduces
    group.sorts = known.sorts
