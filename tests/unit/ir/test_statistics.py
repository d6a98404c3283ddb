"""TRACK_MATCH_STATS: what rewrite rules do in a whole program."""

import atexit
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from whit import Context, UOp
from whit.errors import RuleError
from whit.ir import statistics
from whit.ir.pattern import anything
from whit.ir.rewrite import rewrite
from whit.ir.rules import INTS, Rule, Rules

x = anything("x")
ADD_ZERO = Rule(x + 0, x, on=INTS)
MINE = Rules("mine", (ADD_ZERO,))
ROOT = Path(__file__).parents[3]
PROGRAM = """
from whit import UOp
from whit.simplify import simplify
n = UOp.variable("n", 0, 9)
assert simplify(n * 3 + 0) is n * 3
"""


@pytest.fixture(autouse=True)
def no_report() -> Iterator[None]:
    """The end of the tests is not the end of a program that was watched."""
    yield
    atexit.unregister(statistics.report)
    statistics._counts.by_rule.clear()
    statistics._sets.clear()


def tried() -> int:
    return sum(row["attempts"] for row in statistics.statistics() if row["rule"] == ADD_ZERO.name)


def test_rules_are_counted_only_where_it_is_asked_for() -> None:
    n = UOp.variable("n", 0, 9)
    before = tried()
    assert rewrite(n + 0, MINE) is n
    assert tried() == before
    with Context(TRACK_MATCH_STATS=1):
        assert rewrite(n + 0, MINE) is n
    assert tried() == before + 1


def test_every_rewrite_is_printed(capsys: pytest.CaptureFixture[str]) -> None:
    with Context(TRACK_MATCH_STATS=3):
        rewrite(UOp.variable("n", 0, 9) + 0, MINE)
    assert capsys.readouterr().err.startswith("n + 0  ->  n    [(x + 0) -> x, test_statistics.py:")


def test_rules_that_undo_each_other_are_named_all_the_same() -> None:
    y = anything("y")
    loop = Rules("loop", (Rule(x * y, y + x, on=INTS), Rule(x + y, y * x, on=INTS)))
    a, b = UOp.variable("a", 0, 9), UOp.variable("b", 0, 9)
    with Context(TRACK_MATCH_STATS=1), pytest.raises(RuleError, match="never come to an end"):
        rewrite(a * b, loop)


def test_a_program_ends_with_a_table_and_a_file(tmp_path: Path) -> None:
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "TRACK_MATCH_STATS": "2"}
    command = [sys.executable, "-c", PROGRAM]
    done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=True)
    first, *_, last, saved = done.stderr.splitlines()
    assert first.split() == ["hits", "attempts", "ms", "rule"]
    assert last.endswith("rules")
    (path,) = tmp_path.iterdir()
    assert saved == f"saved {path.name}"
    data = json.loads(path.read_text())
    assert data["schema"] == 1
    assert any(row["hits"] for row in data["rules"])
    assert list(data["rules"][0]) == ["rule", "where", "hits", "attempts", "ms"]
