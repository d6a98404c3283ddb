"""`python -m whit.simplify`, and its answer about the corpus: no rule is there for nothing."""

from __future__ import annotations

import functools
from pathlib import Path

import pytest

from whit.ir.check.rules import check_rules
from whit.ir.rules import Rules
from whit.ir.text.parse import parse
from whit.ir.text.write import to_text
from whit.ir.uop import UOp
from whit.simplify import SIMPLIFY, simplify
from whit.simplify.__main__ import Use, main, read_graphs, uses

CORPUS = Path(__file__).parents[1] / "graphs"


@pytest.fixture(scope="module")
def table() -> list[Use]:
    return uses(read_graphs(CORPUS))


@pytest.mark.slow
def test_every_rule_is_needed_by_a_graph_of_the_corpus(table: list[Use]) -> None:
    assert [use.name for use in table if not use.needed] == []


@pytest.mark.slow
def test_the_table_has_every_rule(table: list[Use]) -> None:
    assert [use.rule for use in table] == list(SIMPLIFY.rules)
    assert all(use.fired >= use.needed for use in table)


def test_a_rule_given_twice_is_not_needed_twice() -> None:
    first, *rest = SIMPLIFY.rules
    twice = Rules("twice", (first, first, *rest))
    x = UOp.variable("x", 0, 9)
    assert all(use.needed == 0 for use in uses([x + 0], twice) if use.rule is not SIMPLIFY.rules[2])


def test_the_corpus_is_in_text_form_and_comes_to_rest() -> None:
    graphs = read_graphs(CORPUS)
    assert len(graphs) > 300
    for graph in graphs:
        assert parse(to_text(graph)) is graph
        result = simplify(graph)
        assert simplify(result) is result


def test_unused_prints_a_table(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    x = UOp.variable("x", 0, 9)
    (tmp_path / "one.uop").write_text(f"# a sum\n{to_text(x + 0)}\n\n# a product\n{to_text(x * 1)}\n")
    assert main(["--unused", str(tmp_path)]) == 0
    printed = capsys.readouterr().out
    assert printed.startswith(f"{len(SIMPLIFY.rules)} rules over 2 graphs")
    assert "      1          1  (x + 0) -> x" in printed
    assert "needed by no graph: " in printed


@pytest.mark.slow
def test_check_says_how_many_rules_were_checked(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("whit.simplify.__main__.check_rules", functools.partial(check_rules, tries=1))
    assert main(["--check"]) == 0
    assert "rules sound" in capsys.readouterr().out


def test_source_prints_python(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--source", "floordiv", "weakint"]) == 0
    printed = capsys.readouterr().out
    assert "# divide_sum" in printed
    compile(printed, "source", "exec")


def test_trace_prints_each_step(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--trace", 'x = variable "x", 0..9; %1 = mul x, 4; %2 = floordiv %1, 4']) == 0
    printed = capsys.readouterr().out
    assert "x*4//4  ->  x" in printed
    assert "divide_sum" in printed
    assert printed.endswith('x = variable "x", 0..9\n')


@pytest.mark.parametrize(
    "arguments, message",
    [
        (["--unused", "no/such/folder"], "no .uop files"),
        (["--source", "floordvi", "weakint"], "floordiv"),
        (["--source", "add", "flaot32"], "flaot32"),
        (["--trace", "x = nothing"], "nothing"),
    ],
    ids=["folder", "op", "dtype", "text"],
)
def test_mistakes_are_explained(arguments: list[str], message: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(arguments) == 1
    assert message in capsys.readouterr().err


def test_a_question_is_needed() -> None:
    with pytest.raises(SystemExit):
        main([])
