"""The examples of docs/data.md print what the page says."""

import doctest
from pathlib import Path


def test_the_examples_of_the_page_about_data() -> None:
    page = Path(__file__).parents[2] / "docs" / "data.md"
    found = doctest.testfile(str(page), module_relative=False, optionflags=doctest.NORMALIZE_WHITESPACE)
    assert found.attempted > 20
    assert found.failed == 0
