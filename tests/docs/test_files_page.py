"""The examples of docs/files.md print what the page says."""

import doctest
from pathlib import Path


def test_the_examples_of_the_page_about_files() -> None:
    page = Path(__file__).parents[2] / "docs" / "files.md"
    flags = doctest.NORMALIZE_WHITESPACE | doctest.ELLIPSIS
    found = doctest.testfile(str(page), module_relative=False, optionflags=flags)
    assert found.attempted > 20
    assert found.failed == 0
