"""The examples of docs/transforms.md print what the page says."""

import doctest
from pathlib import Path

import pytest


@pytest.mark.slow
def test_the_examples_of_the_page_about_transforms() -> None:
    page = Path(__file__).parents[2] / "docs" / "transforms.md"
    found = doctest.testfile(str(page), module_relative=False, optionflags=doctest.NORMALIZE_WHITESPACE)
    assert found.attempted > 30
    assert found.failed == 0
