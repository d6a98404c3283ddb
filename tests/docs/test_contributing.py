"""CONTRIBUTING.md is true: its map has all of whit, begins where one can begin, and every change has a place to go."""

import importlib.util
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "CONTRIBUTING.md").read_text("utf-8")
CHANGES, MAP, BESIDE = (
    PAGE.partition(start)[2].partition(end)[0]
    for start, end in (
        ("## Where does my change go", "## The map"),
        ("## The map", "Beside the package:"),
        ("Beside the package:", "## How it is written"),
    )
)


def rows(section: str) -> list[list[str]]:
    """The cells of the tables in a section, without their heads."""
    lines = [line for line in section.splitlines() if line.startswith("| ")]
    return [[cell.strip() for cell in line.strip("|").split(" | ")] for line in lines[1:]]


def quoted(cell: str) -> list[str]:
    """What stands in backticks."""
    return re.findall(r"`([^`]+)`", cell)


def test_the_map_has_every_folder_of_whit_once() -> None:
    named = [path for row in rows(MAP) for path in quoted(row[0])]
    folders = {f"{path.parent.relative_to(ROOT).as_posix()}/" for path in (ROOT / "whit").rglob("*.py")}
    assert sorted(named) == sorted(folders)


def test_every_folder_of_tests_is_named_and_what_is_named_exists() -> None:
    named = {path.rstrip("/") for row in rows(BESIDE) for path in quoted(row[0])}
    assert [path for path in named if not (ROOT / path).exists()] == []
    assert {f"tests/{path.parent.name}" for path in (ROOT / "tests").glob("*/*.py")} - named == set()


@pytest.mark.parametrize("name", sorted({name for row in rows(MAP) for name in quoted(row[2])}))
def test_entry_points_can_be_imported(name: str) -> None:
    module, _, attribute = name.rpartition(".")
    found = importlib.import_module(module)
    is_package = hasattr(found, "__path__")
    assert hasattr(found, attribute) or (is_package and importlib.util.find_spec(name) is not None)


@pytest.mark.parametrize("row", rows(CHANGES), ids=lambda row: row[0])
def test_a_change_goes_to_files_that_are_there(row: list[str]) -> None:
    """One file or folder at least; and what is named in it stands there."""
    paths = [ROOT / name for name in quoted(row[1]) if "/" in name]
    names = [name for name in quoted(row[1]) if "/" not in name and re.fullmatch(r"\w+", name)]
    assert paths
    assert [path for path in paths if not path.exists()] == []
    text = "\n".join(path.read_text("utf-8") for path in paths if path.is_file())
    assert [name for name in names if not re.search(rf"\b{name}\b", text)] == []
