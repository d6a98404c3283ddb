"""Compares the kernels of two checkouts.

    python -m tools.replay                              the working tree against main: a sample of the corpus
    python -m tools.replay --all                        the whole corpus
    python -m tools.replay --against HEAD~1             against another commit
    python -m tools.replay --only sm_90a --only gpt     targets and graphs whose names contain these
    python -m tools.replay --twice                      the working tree against itself: is the text always the same?
    python -m tools.replay --json kernels.json          everything, for programs

The exit status is 0 if all kernels are the same, 1 if some differ, 2 if nothing could be compared, as in a clone that
does not have the other commit; with --no-fail it is 0.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from tools.replay.checkouts import Checkout, NoCommitError, unpack, working_tree
from tools.replay.compare import compare, group
from tools.replay.corpus import TARGETS, Item, read_corpus
from tools.replay.report import as_json, differences, summary, table
from tools.replay.run import DRIVER, DriverError, Work, run_all
from tools.replay.store import Store, default_folder


class NoWorkError(Exception):
    """Nothing of the corpus was chosen."""


def options_of(arguments: Sequence[str] | None) -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(
        "replay", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--against", default="main", metavar="COMMIT", help="what to compare with (main)")
    parser.add_argument("--tree", default="", metavar="COMMIT", help="a commit instead of the working tree")
    parser.add_argument("--all", action="store_true", help="the whole corpus instead of a sample")
    parser.add_argument("--only", action="append", default=[], metavar="PART", help="of the names of targets or graphs")
    parser.add_argument("--twice", action="store_true", help="compare a checkout with itself, with other hashes")
    parser.add_argument("--full", action="store_true", help="show every difference, whatever its length")
    parser.add_argument("--summary", action="store_true", help="print the last line alone")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write all that was found")
    parser.add_argument("--no-fail", action="store_true", help="exit with 0 whatever was found")
    parser.add_argument("--processes", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--cache", type=Path, default=default_folder(), metavar="FOLDER")
    return parser.parse_args(arguments)


def chosen_works(options: argparse.Namespace) -> list[Work]:
    """What is compared for which targets. Each `--only` that is part of a target's name chooses targets."""
    of_targets = [part for part in options.only if any(part in target for target in TARGETS)]
    of_names = [part for part in options.only if part not in of_targets]
    targets = tuple(t for t in TARGETS if not of_targets or any(part in t for part in of_targets))
    items = read_corpus()
    if of_names:
        items = [item for item in items if any(part in item.name for part in of_names)]
    elif not options.all:
        items = [item for item in items if item.in_sample]
    return [(item, targets) for item in items]


def results_of(
    checkout: Checkout, works: list[Work], store: Store, processes: int, seed: int = 0
) -> tuple[dict[tuple[str, str], Any], float]:
    """The records of all pieces of work, made where they are not known; and the seconds that took."""
    start = time.perf_counter()
    driver = hashlib.sha256(DRIVER.read_bytes()).hexdigest()[:8]
    side = f"{checkout.digest} {driver} {seed}"
    store.begin(side)
    known = store.records(side)
    missing: list[Work] = []
    for item, targets in works:
        left = tuple(target for target in targets if (item.key, target) not in known)
        if left:
            missing.append((item, left))
    if missing:
        progress = Progress(checkout.name, len(missing))
        for item, records, texts in run_all(checkout, missing, processes, seed):
            store.keep(side, item.key, records, texts)
            known.update({(item.key, target): record for target, record in records.items()})
            progress.step()
        progress.end()
    wanted = {(item.key, target): known[item.key, target] for item, targets in works for target in targets}
    return wanted, time.perf_counter() - start


class Progress:
    """A line that counts, where somebody can see it."""

    def __init__(self, name: str, total: int) -> None:
        self.name, self.total, self.done = name, total, 0
        self.is_shown = sys.stderr.isatty()

    def step(self) -> None:
        """One more is done."""
        self.done += 1
        if self.is_shown and (self.done % 10 == 0 or self.done == self.total):
            print(f"\r{self.name}: {self.done} of {self.total}", end="", file=sys.stderr, flush=True)

    def end(self) -> None:
        """Wipes the line."""
        if self.is_shown:
            print("\r\x1b[K", end="", file=sys.stderr, flush=True)


def main(arguments: Sequence[str] | None = None) -> int:
    """The exit status."""
    options = options_of(arguments)
    try:
        is_same = compared(options)
    except (NoCommitError, NoWorkError, DriverError) as error:
        print(f"replay: {error}")
        return 0 if options.no_fail else 2
    return 0 if is_same or options.no_fail else 1


def compared(options: argparse.Namespace) -> bool:
    """Compares, and prints what differs. Whether nothing does."""
    works = chosen_works(options)
    if not works:
        raise NoWorkError(f"nothing in the corpus has {' or '.join(options.only)} in its name")
    store = Store(options.cache)
    with tempfile.TemporaryDirectory(prefix="replay-") as folder:
        new = unpack(options.tree, Path(folder)) if options.tree else working_tree()
        old = new if options.twice else unpack(options.against, Path(folder))
        before, first = results_of(old, works, store, options.processes)
        after, second = results_of(new, works, store, options.processes, seed=1 if options.twice else 0)
    found = compare(before, after)
    groups = group(found.changes, store.text)
    name_of = {item.key: item.name for item, _ in works}
    line = summary(found, groups)
    if options.json:
        options.json.write_text(json.dumps(as_json(found, groups, name_of, line), indent=1), "utf-8")
    if not options.summary:
        print(f"{old.name} -> {new.name}: {_described([item for item, _ in works], works[0][1], options.all)}")
        print(f"{first:.1f} s and {second:.1f} s, what was known included", end="\n\n")
        print("\n".join([*table(found, (old.name, new.name)), *differences(found, groups, name_of, options.full), ""]))
    print(line)
    return found.is_same


def _described(items: list[Item], targets: tuple[str, ...], is_all: bool) -> str:
    """What was compared."""
    counts = {kind: sum(item.kind == kind for item in items) for kind in ("graph", "kernel", "program")}
    kinds = [f"{count:,} {kind}{'s' * (count != 1)}" for kind, count in counts.items() if count]
    share = "the whole corpus" if is_all else "a sample of the corpus"
    return f"{share}: {', '.join(kinds)} for {len(targets)} target{'s' * (len(targets) != 1)}"


if __name__ == "__main__":
    sys.exit(main())
