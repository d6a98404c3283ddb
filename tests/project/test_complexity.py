"""Functions have few paths, or say why not."""

import ast

import pytest

from project.complexity import LIMIT, ROOT, Function, count_paths, find_functions, in_folders

MOST_WITH_REASON = 30
# What was there when the rule was made. It only goes down: whoever simplifies a function, lowers it.
MOST_WITHOUT_REASON = 0


@pytest.fixture(scope="module")
def functions() -> list[Function]:
    return in_folders([ROOT / "whit"])


@pytest.mark.slow
def test_no_function_becomes_complex_without_a_reason(functions: list[Function]) -> None:
    without = [f for f in functions if f.paths > LIMIT and not f.reason]
    shown = "\n".join(f"{f.paths} {f.place} {f.name}" for f in without)
    assert len(without) <= MOST_WITHOUT_REASON, (
        f"{shown}\n{len(without)} functions have more than {LIMIT} paths and no reason; simplify yours "
        "(`git diff` knows which) or give it one: tests/project/complexity.py says how"
    )


def test_few_functions_have_a_reason_to_be_complex(functions: list[Function]) -> None:
    marked = [f for f in functions if f.reason is not None]
    assert len(marked) <= MOST_WITH_REASON
    assert [f for f in marked if f.paths <= LIMIT] == [], "simple functions need no reason"
    assert [f for f in marked if len((f.reason or "").split()) < 4] == [], "a reason is a sentence"


@pytest.mark.parametrize(
    ("source", "paths"),
    [
        ("return a", 1),
        ("return a and b and c or d", 4),
        ("return [x for x in y if x if z]", 4),
        ("return a if b else c", 2),
        ("if a:\n  pass\nelif b:\n  pass\nelse:\n  pass", 3),
        ("while a:\n  pass", 2),
        ("try:\n  pass\nexcept A:\n  pass\nexcept B:\n  pass", 3),
        ("match a:\n  case 1:\n    pass\n  case _:\n    pass", 3),
        ("def g():\n  return a and b", 2),
    ],
)
def test_paths_of_small_programs(source: str, paths: int) -> None:
    assert count_paths(ast.parse(source)) == paths


def test_a_reason_stands_on_the_lines_before_the_body() -> None:
    source = "def f(  # complex: one case for each op\n    x,\n):\n    pass\n\ndef g():\n    pass  # complex: no\n"
    assert [f.reason for f in find_functions(source, "m.py")] == ["one case for each op", None]
    assert find_functions("def f():  # noqa: C901  why\n    pass", "m.py")[0].reason == "why"
    assert find_functions("def f(): pass  # complex: one line", "m.py")[0].reason == "one line"
