"""The examples of docs/gradients.md print what the page says."""

import doctest
from pathlib import Path

import pytest


@pytest.mark.slow
def test_the_examples_of_the_page_about_gradients() -> None:
    page = Path(__file__).parents[2] / "docs" / "gradients.md"
    found = doctest.testfile(str(page), module_relative=False, optionflags=doctest.NORMALIZE_WHITESPACE)
    assert found.attempted > 10
    assert found.failed == 0
