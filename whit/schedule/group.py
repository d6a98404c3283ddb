"""Kernels that can be one.

Two values over the same ranges share a kernel if one reads the other only where it is itself being computed, or if they
read something in common and neither needs the other.

    s = a + b; p = a * b                     one kernel with two stores
    m = b1*m + g; w = w - lr*m               one kernel: m is stored, and used while it is at hand
"""

from __future__ import annotations

from dataclasses import dataclass

from whit.ir import ops
from whit.ir.uop import UOp
from whit.schedule.choose_stages import Kernel
from whit.schedule.lower import nodes_of, read_scalar, reads_of

RANGES_A_KERNEL = 10_000  # more than any kernel has
MOST_BUFFERS = 64  # a kernel takes no more arguments than this


@dataclass(slots=True)
class Group:
    """Kernels that run as one."""

    kernels: list[Kernel]
    values: dict[UOp, UOp]  # root -> its element, reading what other groups keep
    reads: set[UOp]  # kept nodes and params
    level: int


def group_kernels(kernels: dict[UOp, Kernel]) -> list[Group]:
    """The kernels in an order in which they can run, merged where that saves reading."""
    groups: list[Group] = []
    of_root: dict[UOp, Group] = {}
    for kernel in _in_order(kernels):
        reads = set(reads_of(kernel.value))
        home = _find_home(kernel, reads, groups, of_root)
        if home is None:
            level = 1 + max((of_root[r].level for r in reads if r in of_root), default=-1)
            home = Group([], {}, set(), level)
            groups.append(home)
        _join(home, kernel, reads)
        of_root[kernel.root] = home
    return sorted(groups, key=lambda group: group.level)


def _in_order(kernels: dict[UOp, Kernel]) -> list[Kernel]:
    """Kernels before their users."""
    order: list[Kernel] = []
    placed: set[UOp] = set()
    stack = list(reversed(kernels))
    while stack:
        root = stack[-1]
        missing = [r for r in reads_of(kernels[root].value) if r in kernels and r not in placed and r is not root]
        if root in placed or not missing:
            stack.pop()
            if root not in placed:
                placed.add(root)
                order.append(kernels[root])
        else:
            stack.extend(sorted(missing, key=list(kernels).index, reverse=True))
    return order


def _find_home(kernel: Kernel, reads: set[UOp], groups: list[Group], of_root: dict[UOp, Group]) -> Group | None:
    """A group that this kernel can join."""
    needed = [of_root[r] for r in reads if r in of_root]
    level = max((group.level for group in needed), default=-1)
    for group in reversed(groups):
        if (
            kernel.parts
            or group.kernels[0].parts
            or group.kernels[0].ranges != kernel.ranges
            or group.kernels[0].root.shape != kernel.root.shape
        ):
            continue
        if len(group.reads | reads) + len(group.values) + 1 > MOST_BUFFERS:
            continue
        if len({r for k in (kernel, *group.kernels) for r in _scanned(k)}) > 1:
            continue  # the loop of a scan is the innermost one
        others = [g for g in needed if g is not group]
        if any(g.level >= group.level for g in others):
            continue  # something this kernel needs runs after the group, or beside it
        inside = [r for r in reads if of_root.get(r) is group]
        if inside and all(_reads_in_place(kernel, r) for r in inside):
            return group
        shares = not inside and level < group.level and group.reads & reads
        if shares and not any(_is_contraction(k) for k in (kernel, *group.kernels)):
            return group
    return None


def _reads_in_place(kernel: Kernel, root: UOp) -> bool:
    """Whether the kernel reads that value only at the position it is computing."""
    for node in nodes_of(kernel.value):
        if node.op is ops.INDEX and node.src[0] is root and (node.src[1:] != kernel.position or node.arg):
            return False
    return True


def _scanned(kernel: Kernel) -> set[UOp]:
    return {node.src[1] for node in nodes_of(kernel.value) if node.op is ops.SCAN}


def _is_contraction(kernel: Kernel) -> bool:
    """Whether a reduction reads something that does not vary with every range around it, as a matmul does."""
    for node in nodes_of(kernel.value):
        if node.op is ops.REDUCE and node.src[0].op is ops.MUL:
            factors = [{r for r in nodes_of(s) if r.op is ops.RANGE} for s in node.src[0].src]
            if factors[0] != factors[1]:
                return True
    return False


def _own_ranges(kernel: Kernel, number: int) -> dict[UOp, UOp]:
    """New reduce ranges for a kernel, since those of two kernels are numbered alike and one may be inside the other."""
    found = [r for node in nodes_of(kernel.value) if node.op is ops.REDUCE for r in node.src[1:]]
    return {r: UOp.range(r.src[0], r.arg.id + number * RANGES_A_KERNEL, r.arg.kind) for r in found if number}


def _reading(root: UOp, position: tuple[UOp, ...]) -> UOp:
    return root.index(*position) if root.shape else read_scalar(root)


def _join(group: Group, kernel: Kernel, reads: set[UOp]) -> None:
    at_hand = {_reading(root, kernel.position): value for root, value in group.values.items()}
    elsewhere = {r: r for r in reads}
    value = kernel.value.substitute({**elsewhere, **_own_ranges(kernel, len(group.kernels))})
    group.values[kernel.root] = value.substitute({**elsewhere, **at_hand})
    group.kernels.append(kernel)
    group.reads |= {r for r in reads if r not in group.values}
