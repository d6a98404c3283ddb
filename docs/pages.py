"""What the pages of this folder are kept true with.

A page with examples is a Markdown file whose code blocks run, from top to bottom, in one process:

    ```python                    runs
    ```python whit/ir/ops.py     goes into that file of a copy of the sources, in which everything else then runs
    ```sh                        runs, and must succeed
    ```text                      right after a block that runs: what it printed, written by `refreshed`

`publish` writes a page or, with --check on the command line, only says whether it would change.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
COPIED = ("whit", "docs", "tests/ops", "tests/conftest.py", "pyproject.toml")
GOES_BEFORE = "ELEMENTWISE = tuple("  # in whit/ir/ops.py: where the records end

_BLOCK = re.compile(r"^```(?P<language>\w+)(?: (?P<file>\S+))?\n(?P<code>.*?)^```$", re.MULTILINE | re.DOTALL)

# Runs the blocks that come in as JSON, each under its name and from its line on; the outputs go out as JSON.
_RUNNER = """
import contextlib, io, json, sys
names = {"__name__": "__main__"}
outputs = []
for name, line, code in json.load(sys.stdin):
    with contextlib.redirect_stdout(io.StringIO()) as output:
        exec(compile("\\n" * (line - 1) + code, name, "exec"), names)
    outputs.append(output.getvalue())
json.dump(outputs, sys.stdout)
"""


@dataclass(frozen=True)
class Block:
    """A code block: its language, the file it belongs to, its text, and where it stands in the page."""

    language: str
    file: str | None
    code: str
    start: int
    end: int
    line: int  # of its first line of code

    @property
    def runs(self) -> bool:
        return self.language in ("python", "sh") and self.file is None


def blocks(page: str) -> list[Block]:
    """The code blocks of a page."""
    return [
        Block(m["language"], m["file"], m["code"], *m.span("code"), page.count("\n", 0, m.start("code")) + 1)
        for m in _BLOCK.finditer(page)
    ]


def refreshed(page: str, name: str) -> str:
    """The page with the output of its examples brought up to date; an error if one of them fails."""
    found = blocks(page)
    with tempfile.TemporaryDirectory() as folder:
        root = ROOT
        if any(block.file for block in found):
            root = _copy_of_sources(Path(folder))
        for block in found:
            if block.file:
                _insert(root / block.file, block.code)
        outputs = _outputs(found, name, root)
    parts = []
    done = 0
    for block, following in pairwise(found):
        between = page[block.end : following.start].removeprefix("```")
        if block in outputs and following.language == "text" and between.strip() == "```text":
            parts += [page[done : following.start], f"{outputs[block].rstrip()}\n"]
            done = following.end
    return "".join([*parts, page[done:]])


def _copy_of_sources(folder: Path) -> Path:
    for path in COPIED:
        source, target = ROOT / path, folder / path
        target.parent.mkdir(parents=True, exist_ok=True)
        if source.is_dir():
            shutil.copytree(source, target, ignore=shutil.ignore_patterns("__pycache__"))
        else:
            shutil.copy(source, target)
    return folder


def _insert(path: Path, code: str) -> None:
    before, marker, after = path.read_text().partition(GOES_BEFORE)
    if not marker:
        raise SystemExit(f"{path.name} has no line that begins with {GOES_BEFORE}")
    path.write_text(f"{before}{code}\n\n{marker}{after}")


def _outputs(found: list[Block], name: str, root: Path) -> dict[Block, str]:
    """What each block that runs has printed."""
    python = [block for block in found if block.runs and block.language == "python"]
    given = json.dumps([(name, block.line, block.code) for block in python])
    printed = _run([sys.executable, "-c", _RUNNER], root, given)
    outputs = dict(zip(python, json.loads(printed), strict=True))
    for block in found:
        if block.runs and block.language == "sh":
            outputs[block] = _run(["sh", "-ec", block.code], root)
    return outputs


def _run(command: list[str], root: Path, given: str = "") -> str:
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ.get('PATH', '')}"
    environment: Mapping[str, str] = {**os.environ, "PYTHONPATH": str(root), "PATH": path, "COLUMNS": "120"}
    done = subprocess.run(command, cwd=root, env=environment, input=given, capture_output=True, text=True, check=False)
    if done.returncode:
        raise SystemExit(f"an example failed:\n{done.stdout}{done.stderr}")
    return done.stdout


def publish(name: str, text: str) -> None:
    """Writes docs/name; with --check, ends the program with a message if that would change it."""
    path = ROOT / "docs" / name
    is_new = not path.exists() or path.read_text() != text
    if is_new and "--check" in sys.argv:
        raise SystemExit(f"docs/{name} is out of date\n  Write it again: make docs")
    if is_new:
        path.write_text(text)
        print(f"wrote docs/{name}")
