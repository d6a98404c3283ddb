"""bench/against.py: two commits are compared by the least of their rounds, and what is slower is named."""

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[2] / "bench"))

import against


def test_the_least_of_the_rounds_counts_and_slower_lines_are_named() -> None:
    before = against.least([{"sum, jit": 1.0, "add, jit": 3.0}, {"sum, jit": 2.0, "add, jit": 2.0}])
    after = against.least([{"sum, jit": 1.5, "add, jit": 2.0}, {"sum, jit": 1.1, "add, jit": 4.0}])
    assert before == {"sum, jit": 1.0, "add, jit": 2.0}
    lines = against.report(before, after, 1.03)
    assert "| sum, jit | 1 | 1.1 | 1.100 |" in lines
    assert lines[-1] == "geometric mean 1.049 of 2 lines; above 1.03: sum, jit 1.10"
    assert against.report(before, before, 1.03)[-1].endswith("above 1.03: none")


def test_lines_of_a_table_and_of_json_are_read() -> None:
    table = "| program | kernels | us a call |\n|---|---|---|\n| 10 kernels | 10 | 21.5 |\n"
    assert against.table_times(table) == {"replay of 10 kernels": 0.0215}
    assert against.json_times({"mlp": {"jit": 1.5, "jit first": 900.0, "plain": 3.0}}) == {
        "mlp, jit": 1.5,
        "mlp, plain": 3.0,
    }


def test_an_unknown_commit_is_said_to_be_unknown(tmp_path: Path) -> None:
    with pytest.raises(SystemExit, match='no commit "nowhere"'):
        against.unpack("nowhere", tmp_path)
