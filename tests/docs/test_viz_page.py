"""The commands of docs/viz.md answer as the page says, apart from times and what else depends on the machine."""

import importlib
import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from whit.viz.cli import main

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[2]
ASKS = "python -m whit.viz "
DEPENDS = re.compile(r"^[-+]?(lanes|cores) along|^N N N|^N ms|bound by|^@@")  # on the machine, or on times


def _steady(text: str) -> set[str]:
    """Lines with their numbers and the machine masked."""
    text = re.sub(r"\bCPU:LLVM:[\w-]+", "CPU:LLVM:machine", text)
    lines = [re.sub(r"\d[\d.,]*|#{3,}", "N", line) for line in text.splitlines()]
    found = {re.sub(r"\s+", " ", line).strip() for line in lines}
    return {line for line in found if not DEPENDS.search(line)}


def _run(code: str, capsys: pytest.CaptureFixture[str]) -> str:
    """A block of the page: questions are asked in this process, without filters behind them; the rest by a shell."""
    lines = code.splitlines(keepends=True)
    rest = "".join(line for line in lines if not line.startswith(ASKS))
    if rest:
        path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ.get('PATH', '')}"
        environment = {**os.environ, "PYTHONPATH": str(ROOT), "PATH": path}
        subprocess.run(["sh", "-ec", rest], env=environment, check=True)
    for line in lines:
        if line.startswith(ASKS):
            arguments = shlex.split(line.removeprefix(ASKS))
            assert main(arguments[: arguments.index("|")] if "|" in arguments else arguments) == 0
    return capsys.readouterr().out


def test_a_block_stands_where_times_alone_are_others(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(ROOT / "docs"))
    without_times = importlib.import_module("make_viz").without_times
    block = "share  ms  bytes\n81.3%  454.309  4.8 MB, 0.82 GB/s\n 4.3%  23.964  2.4 MB, 1.2 GB/s\n"
    later = "share   ms  bytes\n57%   13.1  2.4 MB, 11.25 GB/s\n 43%  9.964  4.8 MB, 0.1 GB/s\n"
    assert without_times(block) == without_times(later)
    assert without_times(block) != without_times(block.replace("4.8 MB", "4.9 MB"))
    assert without_times("flatten  1.743  7") != without_times("flatten  1.743  8")


def test_the_answers_of_the_page_are_those_of_the_commands(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.syspath_prepend(str(ROOT / "docs"))
    monkeypatch.chdir(tmp_path)
    pairs = importlib.import_module("make_viz").examples((ROOT / "docs" / "viz.md").read_text())
    assert len(pairs) == 9
    for command, text in pairs:
        assert text is not None
        assert len(_steady(text.code)) > 2
        assert _steady(text.code) <= _steady(_run(command.code, capsys)), command.code
