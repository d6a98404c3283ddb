"""Kernels that can be one.

Two values over the same ranges share a kernel if one reads the other only where it is itself being computed, or if they
read something in common and neither needs the other.

    s = a + b; p = a * b                     one kernel with two stores
    m = b1*m + g; w = w - lr*m               one kernel: m is stored, and used while it is at hand
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import Any

from whit.ir import ops
from whit.ir.uop import UOp
from whit.schedule.choose_stages import Kernel
from whit.schedule.lower import is_join, read_value, reads_of

RANGES_A_KERNEL = 10_000  # more than any kernel has
MOST_BUFFERS = 64  # a kernel takes no more arguments than this
LOOK_BACK = 64  # groups of the right shape that a kernel tries to join, the latest first


@dataclass(slots=True)
class Group:
    """Kernels that run as one."""

    level: int  # it runs after all groups of lower levels
    kernels: list[Kernel] = field(default_factory=list)
    values: dict[UOp, UOp] = field(default_factory=dict)  # root -> its element, reading what other groups keep
    reads: set[UOp] = field(default_factory=set)  # kept nodes and params
    scanned: set[UOp] = field(default_factory=set)
    contracts: bool = False
    sorts: frozenset[Any] = frozenset()


@dataclass(frozen=True, slots=True)
class Facts:
    """What decides where a kernel may run."""

    reads: frozenset[UOp]  # kept nodes and params
    moved: frozenset[UOp]  # those that it reads elsewhere than at the position it is computing
    scanned: frozenset[UOp]  # ranges
    contracts: bool  # a reduction reads something that does not vary with every range around it, as a matmul does
    sorts: frozenset[Any]  # what it sorts by: a kernel sorts by one key, and does nothing else


def group_kernels(
    kernels: dict[UOp, Kernel],
    earlier: Mapping[UOp, Collection[UOp]] | None = None,
    needs: Mapping[UOp, Collection[UOp]] | None = None,
) -> list[Group]:
    """The kernels in an order in which they can run, merged where that saves reading.

    `earlier` has what must run before a kernel although it does not read it: those who read what a write overwrites,
    and what a recomputation waits for. `needs` has the same for everyone who reads a memory: what must run before there
    is something in it.
    """
    facts = {root: facts_of(kernel) for root, kernel in kernels.items()}
    before = {root: list(roots) for root, roots in (earlier or {}).items()}
    for root, known in facts.items() if needs else ():
        before.setdefault(root, []).extend(r for memory in known.reads for r in (needs or {}).get(memory, ()))
    groups: list[Group] = []
    alike: dict[Any, list[Group]] = {}  # by ranges, position and shape
    of_root: dict[UOp, Group] = {}
    for kernel in in_order(kernels, {root: (*known.reads, *before.get(root, ())) for root, known in facts.items()}):
        known = facts[kernel.root]
        is_alone = kernel.parts or kernel.is_write or is_join(kernel.root)
        beside = [] if is_alone else alike.setdefault((kernel.ranges, kernel.position, kernel.root.shape), [])
        first = [of_root[r] for r in before.get(kernel.root, ()) if r in of_root]
        home = None if is_alone else _find_home(known, beside, of_root, first)
        if home is None:
            needed = (*known.reads, *before.get(kernel.root, ()))
            home = Group(1 + max((of_root[r].level for r in needed if r in of_root), default=-1))
            groups.append(home)
            beside.append(home)
        _join(home, kernel, known)
        of_root[kernel.root] = home
    return sorted(groups, key=lambda group: group.level)


def facts_of(kernel: Kernel) -> Facts:
    """Looks at every node of a kernel once."""
    moved: set[UOp] = set()
    scanned: set[UOp] = set()
    contracts = False
    sorts: set[Any] = set()
    for node in kernel.value.topological():
        if node.op is ops.INDEX and node.src[0].op is ops.FUNCTION:
            memory, *position = node.src
            if tuple(position) != kernel.position:
                moved.update(memory.src)
        elif node.op is ops.SCAN:
            scanned.add(node.src[1])
        elif node.op is ops.SORT:
            sorts.add((node.src[0], node.src[2:], node.arg))
        elif node.op is ops.REDUCE and node.src[0].op is ops.MUL:
            left, right = ({r for r in s.topological() if r.op is ops.RANGE} for s in node.src[0].src)
            contracts = contracts or left != right
    return Facts(frozenset(reads_of(kernel.value)), frozenset(moved), frozenset(scanned), contracts, frozenset(sorts))


def in_order(kernels: dict[UOp, Kernel], needs: Mapping[UOp, Collection[UOp]]) -> list[Kernel]:
    """Kernels after what they need."""
    number = {root: i for i, root in enumerate(kernels)}
    order: list[Kernel] = []
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


def _find_home(known: Facts, beside: list[Group], of_root: dict[UOp, Group], first: list[Group]) -> Group | None:
    """A group over the same ranges that a kernel can join, after those that must be `first`."""
    needed = [*(of_root[r] for r in known.reads if r in of_root), *first]
    level = max((group.level for group in needed), default=-1)
    for group in reversed(beside[-LOOK_BACK:]):
        if any(group is other for other in first):
            continue
        if len(group.reads | known.reads) + len(group.values) + 1 > MOST_BUFFERS:
            continue
        if len(group.scanned | known.scanned) > 1:
            continue  # the loop of a scan is the innermost one
        if group.sorts != known.sorts:
            continue
        if any(other.level >= group.level for other in needed if other is not group):
            continue  # something this kernel needs runs after the group, or beside it
        inside = [r for r in known.reads if of_root.get(r) is group]
        if inside and not known.moved.intersection(inside):
            return group
        shares = not inside and level < group.level and group.reads & known.reads
        if shares and not known.contracts and not group.contracts:
            return group
    return None


def _own_ranges(kernel: Kernel, number: int) -> dict[UOp, UOp]:
    """New reduce ranges for a kernel, since those of two kernels are numbered alike and one may be inside the other."""
    found = [r for node in kernel.value.topological() if node.op is ops.REDUCE for r in node.src[1:]]
    return {r: UOp.range(r.src[0], r.arg.id + number * RANGES_A_KERNEL, r.arg.kind) for r in found if number}


def _join(group: Group, kernel: Kernel, known: Facts) -> None:
    value = kernel.value.substitute(_own_ranges(kernel, len(group.kernels)))
    inside = [r for r in known.reads if r in group.values]
    at_hand = {read_value(root, kernel.position): group.values[root] for root in inside}
    group.values[kernel.root] = value.substitute(at_hand) if at_hand else value
    group.kernels.append(kernel)
    group.reads |= {r for r in known.reads if r not in group.values}
    group.scanned |= known.scanned
    group.contracts = group.contracts or known.contracts
    group.sorts = known.sorts
