"""docs/jit.md: its examples print what it says, and its table is that of the programs in tests/jit."""

import doctest
from pathlib import Path

from jit.programs import EQUAL, RAISES, table

PAGE = Path(__file__).parents[2] / "docs" / "jit.md"


def test_the_examples_of_the_page_about_the_jit() -> None:
    flags = doctest.NORMALIZE_WHITESPACE | doctest.ELLIPSIS
    found = doctest.testfile(str(PAGE), module_relative=False, optionflags=flags)
    assert found.attempted > 10
    assert found.failed == 0


def test_the_table_of_the_page_about_the_jit() -> None:
    assert len(EQUAL) + len(RAISES) >= 40
    assert PAGE.read_text().endswith(table()), "write the end of docs/jit.md again: jit.programs.table()"
