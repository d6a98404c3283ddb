"""The glossary leads to code that exists, and a search for a word of the field arrives where it is done."""

import ast
import importlib
from pathlib import Path
from types import ModuleType

import pytest

from docs.test_paths import leads_somewhere

ROOT = Path(__file__).parents[2]


@pytest.fixture
def glossary(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    monkeypatch.syspath_prepend(str(ROOT / "docs"))
    return importlib.import_module("make_glossary")


def docstrings(path: Path) -> str:
    """All docstrings of a file, or of the modules of a folder, as one line in small letters."""
    files = [path] if path.is_file() else sorted(path.glob("*.py"))
    kinds = ast.Module | ast.ClassDef | ast.FunctionDef
    nodes = [node for file in files for node in ast.walk(ast.parse(file.read_text("utf-8"))) if isinstance(node, kinds)]
    return " ".join(" ".join((ast.get_docstring(node) or "").lower().split()) for node in nodes)


def test_every_place_exists(glossary: ModuleType) -> None:
    for entry in (*glossary.FIELD, *glossary.OURS):
        assert entry.places, entry.name
        for place in entry.places:
            path, _, name = place.partition(":")
            assert (ROOT / path).exists(), place
            assert not name or leads_somewhere(".".join([*Path(path).with_suffix("").parts, name])), place


def test_every_page_exists(glossary: ModuleType) -> None:
    pages = {page for entry in (*glossary.FIELD, *glossary.OURS) for page in entry.pages}
    assert [page for page in pages if not (ROOT / "docs" / page).exists()] == []


def test_no_word_is_explained_twice(glossary: ModuleType) -> None:
    names = [entry.name for entry in (*glossary.FIELD, *glossary.OURS)]
    assert len(names) == len(set(names))


def test_words_of_the_field_stand_in_the_code_that_does_it(glossary: ModuleType) -> None:
    """Each in the first place that the glossary names: searching for the word leads there."""
    first = {entry.name: entry.places[0] for entry in glossary.FIELD}
    assert {name: place for name, place in first.items() if name.lower() not in docstrings(ROOT / place)} == {}
