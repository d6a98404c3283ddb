"""Runs the commands of viz.md, and puts what they print back into the page.

All commands run in one empty folder, in order. The times on the page are those of the machine it was written on, and
a block that would get other times and nothing else stays as it is: a page that nothing has changed is written the same.
`tests/docs/test_viz_page.py` runs the commands again, and compares what does not depend on a machine.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tempfile
from itertools import pairwise
from pathlib import Path

from pages import ROOT, Block, blocks, publish

PAGE = "viz.md"

MEASURED = re.compile(r"\d[\d,]*\.\d++(?! [kMG]?B\b(?!/s))|\d+(?=%)")  # 0.253 ms, 0.82 GB/s, 74.2%; not 301.2 kB
# What depends on times besides: which rules took longest, how much memory is used then, what a kernel waits for.
DEPENDS = re.compile(r"^N \d+ \d+ |^N ms \d|bound by")


def examples(page: str) -> list[tuple[Block, Block | None]]:
    """The commands of a page, each with the block of its output, if it has one."""
    found = blocks(page)
    pairs: list[tuple[Block, Block | None]] = []
    for block, following in pairwise([*found, None]):
        if block is not None and block.language == "sh":
            pairs.append((block, following if following is not None and following.language == "text" else None))
    return pairs


def run(commands: list[str]) -> list[str]:
    """What commands print, one after the other."""
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ.get('PATH', '')}"
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "PATH": path, "COLUMNS": "120"}
    outputs = []
    with tempfile.TemporaryDirectory() as folder:
        for command in commands:
            done = subprocess.run(
                ["sh", "-ec", command], cwd=folder, env=environment, capture_output=True, text=True, check=False
            )
            if done.returncode:
                raise SystemExit(f"an example failed:\n{command}\n{done.stdout}{done.stderr}")
            outputs.append(done.stdout)
    return outputs


def without_times(text: str) -> set[str]:
    """What an output says besides times: its lines, in any order, because many are sorted by time."""
    lines = [" ".join(MEASURED.sub("N", line).split()) for line in text.splitlines()]
    return {line for line in lines if not DEPENDS.search(line)}


def refreshed(page: str) -> str:
    """The page with new outputs, where they say something else."""
    pairs = examples(page)
    parts = []
    done = 0
    for (_, text), output in zip(pairs, run([block.code for block, _ in pairs]), strict=True):
        if text is not None and without_times(text.code) != without_times(output):
            parts += [page[done : text.start], f"{output.rstrip()}\n"]
            done = text.end
    return "".join([*parts, page[done:]])


if __name__ == "__main__":
    publish(PAGE, refreshed((ROOT / "docs" / PAGE).read_text()))
