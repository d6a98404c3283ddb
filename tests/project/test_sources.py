"""Rules about the sources of whit/ that no linter has."""

import ast
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


def mute_asserts(source: str) -> list[int]:
    """The lines of asserts that do not say what was expected."""
    found = [node for node in ast.walk(ast.parse(source)) if isinstance(node, ast.Assert)]
    return sorted(
        node.lineno
        for node in found
        if not isinstance(node.msg, ast.JoinedStr)
        and not (isinstance(node.msg, ast.Constant) and isinstance(node.msg.value, str) and " " in node.msg.value)
    )


@pytest.mark.slow
def test_every_assert_says_what_was_expected() -> None:
    found = {
        path.relative_to(ROOT).as_posix(): mute_asserts(path.read_text("utf-8"))
        for path in (ROOT / "whit").rglob("*.py")
    }
    assert {name: lines for name, lines in found.items() if lines} == {}


@pytest.mark.parametrize(
    ("source", "lines"),
    [
        ("assert x", [1]),
        ("assert x, 'a size is known'", []),
        ("assert x, f'{x} is known'", []),
        ("assert x, 'no'\nassert (\n  x\n), y", [1, 2]),
    ],
)
def test_asserts_without_words_are_found(source: str, lines: list[int]) -> None:
    assert mute_asserts(source) == lines
