"""The examples of docs/command-line.md print what the page says, but for numbers and what a machine is called."""

import doctest
import importlib
import re
from itertools import pairwise
from pathlib import Path
from types import ModuleType

import pytest

from whit.cli import cache
from whit.cli.main import COMMANDS, main

PAGE = Path(__file__).parents[2] / "docs" / "command-line.md"


@pytest.fixture(autouse=True)
def small_caches(monkeypatch: pytest.MonkeyPatch) -> None:
    """The real ones may have many files."""
    found = [cache.Folder(name, "/c", 2, 4096, None) for name in ("kernels", "tuned", "downloads")]
    monkeypatch.setattr(cache, "folders", lambda: found)


@pytest.fixture
def pages(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    monkeypatch.syspath_prepend(str(PAGE.parent))
    return importlib.import_module("pages")


def labels(text: str, command: str) -> list[str]:
    """What the lines are about: their first word, of findings the second; lines that continue others are left out.

    Marks of devices are not looked at: which ones can be used depends on the machine.
    """
    place = 1 if command == "doctor" else 0
    lines = [
        re.sub(r"^  [*-] ", "", line).split()
        for line in text.splitlines()
        if line.strip() and not line.startswith(" " * 8)
    ]
    return [re.sub(r"[\d.]+", "0", line[place]) if len(line) > place else "" for line in lines]


def test_the_commands_print_lines_about_the_same(pages: ModuleType, capsys: pytest.CaptureFixture[str]) -> None:
    blocks = pages.blocks(PAGE.read_text())
    commands = [(block.code.split(), after.code) for block, after in pairwise(blocks) if block.language == "sh"]
    assert [command[3:] for command, _ in commands] == [[], ["doctor"], ["bench"]]
    for command, shown in commands:
        name = "".join(command[3:]) or "info"
        code = main([*command[3:], *([] if name == "doctor" else ["--quick"])])
        assert code == 0 or name == "doctor"
        printed = capsys.readouterr().out.partition("\n\nTiny inputs")[0]
        if name == "doctor":  # findings depend on the machine, their last line on all of them
            printed, shown = (text.rstrip().rpartition("\n")[0] for text in (printed, shown))
            assert sorted(set(labels(printed, name))) == sorted(set(labels(shown, name)))
        else:
            assert labels(printed, name) == labels(shown, name)


def test_the_examples_in_python() -> None:
    found = doctest.testfile(str(PAGE), module_relative=False, optionflags=doctest.NORMALIZE_WHITESPACE)
    assert found.attempted > 10
    assert found.failed == 0


def test_every_command_is_in_the_first_table() -> None:
    table = PAGE.read_text().partition("## ")[0]
    assert [command.name for command in COMMANDS if f"`{command.name}" not in table] == []
