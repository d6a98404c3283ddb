"""A comparison for people: a table by target, what failed, differences by group, and a line for a commit message."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from tools.replay.compare import RENAMED, Comparison, Group, Place, Totals

GROUPS, LINES, NAMED = 8, 40, 3  # groups, lines of each, and pieces of work that are named, unless all are asked for
WIDTH = 160


def summary(found: Comparison, groups: list[Group]) -> str:
    """The line that goes into a commit message."""
    before = [each[0] for each in found.totals.values()]
    after = [each[1] for each in found.totals.values()]
    total = sum(len(each.distinct) for each in before)
    counts: dict[str, int] = {}
    for each in groups:
        counts[each.title] = counts.get(each.title, 0) + len(each.changes)
    parts = [f"{counts.get('changed', 0):,} of {total:,} changed"]
    if not found.changes:
        parts = [f"none of {total:,} changed"]
    parts += [f"{counts[what]:,} {what}" for what in ("new", "gone") if what in counts]
    parts += [f"{counts[RENAMED]:,} with other names of values"] if RENAMED in counts else []
    runs = sum(each.runs for each in after) - sum(each.runs for each in before)
    parts += [f"{runs:+,} in all graphs".replace("-", "−")] if runs else []
    moved = sum(each.nbytes for each in before), sum(each.nbytes for each in after)
    parts.append("bytes the same" if moved[0] == moved[1] and not found.moved else f"bytes {percent(*moved)}")
    parts += [f"{len(found.failures):,} errors differ"] if found.failures else []
    return "kernels: " + ", ".join(parts)


def percent(before: int, after: int) -> str:
    """A change: "−0.1 %"."""
    if before == after:
        return "moved between graphs"
    change = (after - before) / max(before, 1) * 100
    text = f"{change:+.1f} %" if abs(change) >= 0.05 else f"{'+' if change > 0 else '-'}<0.1 %"
    return text.replace("-", "−")


def table(found: Comparison, names: tuple[str, str]) -> list[str]:
    """A line for each target."""
    lines = [
        f"{'target':<18}{'kernels':>9}{'runs':>9}{'GB':>10}{'errors':>8}{'seconds':>16}   ({names[0]} -> {names[1]})"
    ]
    for target, (old, new) in found.totals.items():
        kernels = _pair(len(old.distinct), len(new.distinct))
        runs, moved = _pair(old.runs, new.runs), _pair(f"{old.nbytes / 1e9:.2f}", f"{new.nbytes / 1e9:.2f}")
        errors, seconds = _pair(old.errors, new.errors), f"{old.seconds:.1f} -> {new.seconds:.1f}"
        lines.append(f"{target:<18}{kernels:>9}{runs:>9}{moved:>10}{errors:>8}{seconds:>16}")
    return lines


def _pair(before: object, after: object) -> str:
    """One number if both are the same."""
    texts = [f"{each:,}" if isinstance(each, int) else str(each) for each in (before, after)]
    return texts[0] if texts[0] == texts[1] else f"{texts[0]} -> {texts[1]}"


def differences(found: Comparison, groups: list[Group], name_of: Mapping[str, str], is_full: bool) -> list[str]:
    """What failed, what has more or fewer kernels or bytes, and the groups of changes."""
    lines = _listed(
        "errors differ", found.failures, name_of, is_full, lambda row: f"{row[1] or 'none'}  ->  {row[2] or 'none'}"
    )
    lines += _listed("numbers of kernels differ", found.counts, name_of, is_full, lambda row: f"{row[1]} -> {row[2]}")
    moved = sorted(found.moved, key=lambda row: -abs(row[2] - row[1]))
    lines += _listed(
        "bytes differ", moved, name_of, is_full, lambda row: f"{row[1]:,} -> {row[2]:,} ({percent(row[1], row[2])})"
    )
    for each in groups if is_full else groups[:GROUPS]:
        lines += ["", *_group(each, name_of, is_full)]
    if len(groups) > GROUPS and not is_full:
        lines += ["", f"{len(groups) - GROUPS} more kinds of changes; --full shows all."]
    return lines


def _listed(
    title: str, rows: list[Any], name_of: Mapping[str, str], is_full: bool, say: Callable[[Any], str]
) -> list[str]:
    if not rows:
        return []
    shown = rows if is_full else rows[: 2 * NAMED]
    lines = ["", f"{title} ({len(rows)}):"]
    for row in shown:
        place: Place = row[0]
        lines.append(f"  {place[1]}  {name_of[place[0]]}:  {say(row)}")
    return lines + [f"  and {len(rows) - len(shown)} more"] * (len(rows) > len(shown))


def _group(each: Group, name_of: Mapping[str, str], is_full: bool) -> list[str]:
    """A heading, where the change is, and the lines of the shortest one."""
    targets = ", ".join(f"{count} of {target}" for target, count in each.targets.items())
    lines = [f"== {each.title}: {targets}"]
    works = list(dict.fromkeys(work for change in each.changes for work in change.works))
    for work in works if is_full else works[:NAMED]:
        lines.append(f"   in {name_of[work]}")
    if len(works) > NAMED and not is_full:
        lines.append(f"   and in {len(works) - NAMED} more")
    shown = each.lines if is_full else each.lines[:LINES]
    lines += [line if len(line) <= WIDTH else line[: WIDTH - 3] + "..." for line in shown]
    return lines + [f"... {len(each.lines) - len(shown)} more lines"] * (len(each.lines) > len(shown))


def as_json(found: Comparison, groups: list[Group], name_of: Mapping[str, str], line: str) -> dict[str, Any]:
    """Everything, for programs."""
    return {
        "summary": line,
        "same": found.is_same,
        "targets": {t: {"before": _numbers(a), "after": _numbers(b)} for t, (a, b) in found.totals.items()},
        "errors": [_row(row, name_of) for row in found.failures],
        "counts": [_row(row, name_of) for row in found.counts],
        "bytes": [_row(row, name_of) for row in found.moved],
        "groups": [
            {
                "what": each.title,
                "targets": each.targets,
                "diff": each.lines,
                "kernels": [
                    {
                        "target": change.target,
                        "names": change.names,
                        "before": change.before,
                        "after": change.after,
                        "graphs": [name_of[work] for work in change.works],
                    }
                    for change in each.changes
                ],
            }
            for each in groups
        ],
    }


def _numbers(totals: Totals) -> dict[str, Any]:
    return {
        "kernels": len(totals.distinct),
        "runs": totals.runs,
        "bytes": totals.nbytes,
        "ops": totals.ops,
        "errors": totals.errors,
        "seconds": round(totals.seconds, 3),
    }


def _row(row: tuple[Place, Any, Any], name_of: Mapping[str, str]) -> dict[str, Any]:
    (work, target), before, after = row
    return {"graph": name_of[work], "target": target, "before": before, "after": after}
