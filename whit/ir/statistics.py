"""What rewrite rules do in a whole program: the setting TRACK_MATCH_STATS.

1: a table on stderr when the program ends, the slowest rules first. 2: also as JSON in `whit-rules-<process>.json`.
3: also every rewrite as it is made, with its rule and where that stands.

Rule sets are compiled once more for this, rule by rule, so a program takes longer while it is watched.
"""

from __future__ import annotations

import atexit
import json
import os
import sys
from typing import Any

from whit.cache import register_cache
from whit.ir.rules import Rules
from whit.ir.watched import Counts, RewriteStep, Watched

MOST_SHOWN = 30  # rules in the table
SAVE, PRINT = 2, 3  # levels


class _Printed(list[RewriteStep]):
    """A trace that is printed, not kept."""

    def append(self, step: RewriteStep) -> None:
        print(step, file=sys.stderr)


_counts = Counts()
_sets: dict[tuple[Rules, bool], Watched] = {}
register_cache(_sets.clear, "ir.watched_rules")
_saves = False


def watched(rules: Rules, level: int) -> Watched:
    """The rule set that counts, and prints from level 3 on."""
    global _saves  # noqa: PLW0603  a counter of this process
    if not _counts.by_rule and not _sets:
        atexit.unregister(report)  # in a fork, or after the caches were cleared: once is enough
        atexit.register(report)
    _saves = _saves or level >= SAVE
    key = rules, level >= PRINT
    found = _sets.get(key)
    if found is None:
        found = _sets[key] = Watched(rules, _Printed() if key[1] else None, _counts)
    return found


def statistics() -> list[dict[str, Any]]:
    """By rule, the slowest first."""
    rows = sorted(_counts.by_rule.items(), key=lambda row: -row[1].seconds)
    return [
        {
            "rule": rule.name,
            "where": rule.where,
            "hits": n.hits,
            "attempts": n.attempts,
            "ms": round(n.seconds * 1e3, 3),
        }
        for rule, n in rows
    ]


def report() -> None:
    """The table, when the program ends; and the file."""
    rows = statistics()
    if not rows:
        return
    hits, attempts, ms = (sum(row[key] for row in rows) for key in ("hits", "attempts", "ms"))
    lines = str(_counts).splitlines()
    print("\n".join(lines[: MOST_SHOWN + 1]), file=sys.stderr)
    more = f", {len(rows) - MOST_SHOWN} of them not shown" if len(rows) > MOST_SHOWN else ""
    print(f"{hits:8} {attempts:9} {ms:9.3f}  {len(rows)} rules{more}", file=sys.stderr)
    if _saves:
        path = f"whit-rules-{os.getpid()}.json"
        try:
            with open(path, "w", encoding="utf-8") as file:
                json.dump({"schema": 1, "rules": rows}, file, indent=1)
            print(f"saved {path}", file=sys.stderr)
        except OSError as error:
            print(f"{path} cannot be written: {error.strerror}", file=sys.stderr)
