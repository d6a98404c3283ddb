"""What a rewrite changed: two graphs in, the lines that differ out.

    >>> from whit.ir.uop import UOp
    >>> x = UOp.variable("x", 0, 1000)
    >>> print(diff((x * 8 + 5) % 977, ((x << 3) + 5) % 977))
      x = variable "x", 0..1000
    - %1 = mul x, 8
    + %1 = shl x, 3
      ... 2 more unchanged

Nodes are paired from the roots down: a pair has one name on both sides, and a node whose sources merely changed below
it reads the same on both sides, so it is not shown. Unchanged lines are shown where a changed one refers to them.
"""

from __future__ import annotations

from collections.abc import Iterable

from whit.ir import ops
from whit.ir.graph import topological
from whit.ir.text.write import Naming, Spelled, spell
from whit.ir.uop import UOp

Roots = UOp | Iterable[UOp]


def diff(before: Roots, after: Roots) -> str:
    """The difference for people, "" if there is none. `-` is only in before, `+` only in after."""
    old_roots = (before,) if isinstance(before, UOp) else tuple(before)
    new_roots = (after,) if isinstance(after, UOp) else tuple(after)
    if old_roots == new_roots:
        return ""
    old_order, new_order = topological(old_roots, True), topological(new_roots, True)
    partner = _pair(old_roots, new_roots, set(old_order), set(new_order))
    naming = Naming()
    old_names: Spelled = {node: naming.choose(node) for node in old_order}
    new_names: Spelled = {}
    for node in new_order:
        is_paired = node in partner and node.op is not ops.CONST and partner[node].op is not ops.CONST
        new_names[node] = old_names[partner[node]] if is_paired else naming.choose(node)
    old_lines, new_lines = _lines(old_order, old_names), _lines(new_order, new_names)
    old_root_names, new_root_names = [old_names[r] for r in old_roots], [new_names[r] for r in new_roots]
    if old_root_names != new_root_names:
        old_lines[f"roots {', '.join(old_root_names)}"] = []
        new_lines[f"roots {', '.join(new_root_names)}"] = []
    return "\n".join(_merge(old_lines, new_lines))


def _pair(old_roots: tuple[UOp, ...], new_roots: tuple[UOp, ...], old: set[UOp], new: set[UOp]) -> dict[UOp, UOp]:
    """New node -> the old node it stands for: itself where it is in both, else what has its place under the roots."""
    partner = {node: node for node in new if node in old}
    paired_old = set(partner)
    stack = list(zip(old_roots, new_roots, strict=False))[::-1]
    while stack:
        before, after = stack.pop()
        if before in paired_old or after in partner:
            continue
        partner[after] = before
        paired_old.add(before)
        if before.op is after.op and len(before.src) == len(after.src):
            stack += list(zip(before.src, after.src, strict=True))[::-1]
    return partner


def _lines(order: list[UOp], names: Spelled) -> dict[str, list[str]]:
    """Each line with the names it refers to."""
    lines: dict[str, list[str]] = {}
    for node in order:
        if node.op is not ops.CONST:
            lines[f"{names[node]} = {spell(node, names)}"] = [names[s] for s in node.src]
    return lines


def _merge(old: dict[str, list[str]], new: dict[str, list[str]]) -> list[str]:
    """Both lists of lines as one: in the order of the new one, removed lines where they stood among the common ones."""
    needed = {name for line, refers_to in old.items() if line not in new for name in refers_to}
    needed |= {name for line, refers_to in new.items() if line not in old for name in refers_to}
    old_lines = list(old)
    place = {line: i for i, line in enumerate(old_lines)}
    place_of_name = {_defined(line): i for i, line in enumerate(old_lines)}
    merged: list[str] = []
    done = skipped = 0

    def remove_up_to(end: int) -> None:
        nonlocal done
        merged.extend(f"- {line}" for line in old_lines[done:end] if line not in new)
        done = max(done, end)

    for line in new:
        if line in place:
            remove_up_to(place[line])
            if _defined(line) in needed:
                merged.append(f"  {line}")
            else:
                skipped += 1
        else:
            remove_up_to(place_of_name.get(_defined(line), -1) + 1)
            merged.append(f"+ {line}")
    remove_up_to(len(old_lines))
    if skipped:
        merged.append(f"  ... {skipped} more unchanged")
    return merged


def _defined(line: str) -> str:
    return line.partition(" ")[0]
