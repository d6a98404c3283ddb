"""The examples of docs/symbolic.md print what the page says."""

import doctest
from pathlib import Path

from whit import Context


def test_the_examples_of_the_page_about_symbolic_sizes() -> None:
    page = Path(__file__).parents[2] / "docs" / "symbolic.md"
    with Context(DEBUG=0):  # nothing between the lines
        found = doctest.testfile(str(page), module_relative=False, optionflags=doctest.NORMALIZE_WHITESPACE)
    assert found.attempted > 15
    assert found.failed == 0
