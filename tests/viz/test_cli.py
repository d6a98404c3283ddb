"""The command line: golden texts with their numbers masked, the form of its JSON, and that both say the same."""

import json
import re
from pathlib import Path
from typing import Any

import pytest

from whit.cli.main import main as whit_main
from whit.viz.cli import main

pytestmark = pytest.mark.slow

GOLDEN = Path(__file__).parent / "golden"

COMMANDS = {
    "list": ["list"],
    "top": ["top", "--by", "bytes", "-n", "2"],
    "show": ["show", "k2"],
    "show_all": ["show", "k2", "--graph", "--passes", "--diff", "--rules", "--rewrites"],
    "memory": ["memory", "--parts", "1"],
    "compile": ["compile"],
    "grep": ["grep", "exp2"],
    "grep_rewrites": ["grep", "--rewrites", "flatten", "-n", "3"],
}


def _masked(text: str, *paths: Path) -> str:
    """Times, sizes of code and paths differ from run to run, and with them the width of columns."""
    for path in paths:
        text = text.replace(str(path), "FILE")
    lines = []
    for line in text.splitlines():
        if re.match(r"\S+ on CPU", line) or " on CPU:" in line.split(",")[0]:
            line = "PROGRAM"
        line = re.sub(r"CPU:LLVM:\S+", "TARGET", line)
        line = re.sub(r"(?<![\w.])\d+\.\d+(?!:float)( ms)?|#{3,}", "N", line)
        line = re.sub(r"\d[\d.,]* (B|kB) of machine code", "N of machine code", line)
        line = re.sub(r"\b\d+%", "N%", line)
        line = re.sub(r"bound by \w+", "bound by X", line)
        line = re.sub(r"(\.py:)\d+", r"\1L", line)
        lines.append(re.sub(r" {2,}", "  ", line))
    return "\n".join(lines) + "\n"


def _ordered(name: str, text: str) -> str:
    """Rules are listed by their time, which is another one each time."""
    if name != "compile":
        return text
    head, _, rules = text.partition("rule\n")
    fired = re.findall(r"N +(\d+) +(\d+) +(.*)", rules)
    assert len(fired) > 5
    return head.rstrip() + "\n"


@pytest.mark.parametrize("name", COMMANDS)
def test_the_answer_in_words(
    name: str, recorded: Path, capsys: pytest.CaptureFixture[str], request: pytest.FixtureRequest
) -> None:
    assert main([str(recorded), *COMMANDS[name]]) == 0
    text = _ordered(name, _masked(capsys.readouterr().out, recorded))
    golden = GOLDEN / f"{name}.txt"
    if not golden.exists():  # delete a file to have it written again
        golden.parent.mkdir(exist_ok=True)
        golden.write_text(text)
        pytest.fail(f"wrote {golden}; read it, and run again")
    assert text == golden.read_text()


def test_a_rule_is_shown_with_its_text(recorded: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """No golden text: this is the source of another folder."""
    assert main([str(recorded), "rule", "^flatten_index$"]) == 0
    words = capsys.readouterr().out
    assert re.match(
        r"flatten_index  \[whit/codegen/passes/flatten.py:\d+\]\n  \d+ hits in \d+ attempts, \d+\.\d+ ms\n", words
    )
    assert "\n    @function_rule(ops.INDEX)\n    def flatten_index(node: UOp)" in words
    assert main([str(recorded), "rule", "no such"]) == 0
    assert capsys.readouterr().out == "no rule matches no such\n"
    assert main([str(recorded), "rule", "("]) == 1


@pytest.mark.slow
def test_compare_in_words(recorded: Path, changed: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["compare", str(recorded), str(changed)]) == 0
    words = capsys.readouterr().out
    assert re.search(r"k\d/-  +add_reduce_6 .* removed", words)
    assert re.search(r"-/k\d  +add_reduce_7 .* added", words)
    assert re.search(r"k\d/k\d +add_reduce_8 .* graph, source", words)
    assert main(["compare", str(recorded), str(recorded)]) == 0
    assert capsys.readouterr().out.count(" same") == 4
    assert main([str(recorded), "compare", str(changed), "--diff"]) == 0
    assert "--- source of add_reduce_8\n--- old\n+++ new\n@@" in capsys.readouterr().out


KERNEL = {
    "id": str,
    "name": str,
    "runs": int,
    "total_ns": int,
    "best_ns": int,
    "bytes": int,
    "ops": int,
    "compile_ns": int,
    "is_compiled": bool,
    "called": str,
    "computes": str,
}
NANOSECONDS = dict.fromkeys(("forward", "backward", "step"), int)
LAUNCHES = {
    **dict.fromkeys(("kernel", "name", "code", "phase", "also"), str),
    **dict.fromkeys(("runs", "ns", "bytes"), int),
}
RULE = {"rule": str, "where": str}
ROOFLINE = {
    **dict.fromkeys(("ops_per_byte", "gflops", "gbytes", "best_gflops", "best_gbytes", "efficiency"), float),
    "bound": str,
}
PASS = {
    "name": str,
    "why": str,
    "ns": int,
    "rewrites": int,
    "changed": bool,
    "lines": int,
    "rules": [{**RULE, "hits": int}],
    "steps": [{**RULE, "before": str, "after": str}],
    "graph": str,
    "diff": str,
}
TOTALS = {
    "path": str,
    **dict.fromkeys(("kernels", "launches", "bytes", "kernel_ns", "compile_ns"), int),
    "peak_bytes": dict,
}
SCHEMAS: dict[str, tuple[list[str], Any]] = {
    "list": (
        ["list"],
        {
            "trace": {
                **dict.fromkeys(("path", "whit", "target"), str),
                **dict.fromkeys(("cores", "runs", "launches"), int),
                "seconds": float,
                "is_whole": bool,
                "program": [str],
                "dropped": [str],
            },
            "schedules": [
                {
                    **dict.fromkeys(("id", "device", "line"), str),
                    **dict.fromkeys(("kernels", "temporaries_bytes", "runs", "schedule_ns"), int),
                }
            ],
            "kernels": [KERNEL],
            "copies": [{"device": str, "what": str, "count": int, "bytes": int, "total_ns": int}],
            "events": [{"kind": str, "fields": dict, "count": int}],
        },
    ),
    "top": (["top"], {"by": str, "total": int, "kernels": [{**KERNEL, "measure": int, "share": float}]}),
    "show": (
        ["show", "k0", "--all"],
        {
            **KERNEL,
            **dict.fromkeys(("also", "target", "line", "graph", "source", "assembly"), str),
            **dict.fromkeys(("bytes_read", "bytes_written", "median_ns", "cores_range", "code_bytes"), int),
            **dict.fromkeys(("render_ns", "render_rewrites", "code_ns"), int),
            **{name: [str] for name in ("stack", "schedules", "explanation")},
            "roofline": ROOFLINE,
            "passes": [PASS],
        },
    ),
    "layers": (
        ["layers"],
        {
            "layers": [
                {
                    **dict.fromkeys(("path", "kind"), str),
                    **dict.fromkeys(("launches", "own_bytes", "all_bytes", "moved_bytes"), int),
                    "parameters": [{"name": str, "dtype": str, "shape": [int], "bytes": int}],
                    "kernels": [LAUNCHES],
                    "ns": NANOSECONDS,
                    "all_ns": NANOSECONDS,
                }
            ],
            "flows": [[str]],
            "rest": {"launches": int, "ns": NANOSECONDS, "kernels": [LAUNCHES]},
        },
    ),
    "memory": (
        ["memory"],
        {
            "devices": [
                {
                    "device": str,
                    **dict.fromkeys(("peak_bytes", "peak_ns", "end_bytes", "buffers_at_peak", "before_bytes"), int),
                    "holders": [
                        {
                            **dict.fromkeys(("bytes", "buffers", "since_ns"), int),
                            **dict.fromkeys(("line", "what", "type"), str),
                        }
                    ],
                    "curve": [{"from_ns": int, "most_bytes": int}],
                }
            ]
        },
    ),
    "compile": (
        ["compile", "--kernel", "k1"],
        {
            "kernel": str,
            "kernels": int,
            "total_ns": int,
            "phases": [{"phase": str, "ns": int, "rewrites": int}],
            "rules": [{**RULE, "attempts": int, "hits": int, "ns": int}],
        },
    ),
    "rule": (
        ["rule", "flatten"],
        {
            "pattern": str,
            "found": int,
            "rules": [{**RULE, "source": str, **dict.fromkeys(("attempts", "hits", "ns"), int)}],
        },
    ),
    "grep": (["grep", "add"], {"pattern": str, "found": int, "matches": [{"where": str, "line": int, "text": str}]}),
    "grep_rewrites": (
        ["grep", "add", "--rewrites"],
        {
            "pattern": str,
            "found": int,
            "matches": [{"where": str, "line": int, "text": str, "rule": str, "rule_at": str}],
        },
    ),
    "compare": (
        ["compare", "OTHER"],
        {
            "old": TOTALS,
            "new": TOTALS,
            "kernels": [{"name": str, "old": KERNEL, "new": KERNEL, "changed": [str]}],
        },
    ),
}


def _check(value: Any, schema: Any, place: str) -> None:
    """Fields are those of the schema, no more and no fewer; lists hold one form."""
    if isinstance(schema, dict):
        assert sorted(value) == sorted(schema), place
        for name, inner in schema.items():
            _check(value[name], inner, f"{place}.{name}")
    elif isinstance(schema, list):
        assert type(value) is list, place
        for item in value:
            _check(item, schema[0], f"{place}[]")
    else:
        assert type(value) is schema, f"{place}: {value!r}"


@pytest.mark.parametrize("name", SCHEMAS)
def test_json_has_the_documented_form(name: str, recorded: Path, capsys: pytest.CaptureFixture[str]) -> None:
    command, schema = SCHEMAS[name]
    arguments = [str(recorded) if argument == "OTHER" else argument for argument in command]
    assert main([str(recorded), *arguments, "--json"]) == 0
    _check(json.loads(capsys.readouterr().out), schema, name)


def test_kernels_are_found_by_number_and_by_name(recorded: Path, capsys: pytest.CaptureFixture[str]) -> None:
    answers = []
    for name in ("k3", "3", "add_reduce_6"):
        main([str(recorded), "compile", "--json", "--kernel", name])
        answers.append(json.loads(capsys.readouterr().out)["kernel"])
    assert answers == ["k3", "k3", "k3"]


def test_the_command_line_of_whit_gives_the_same_answers(recorded: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for command in (["list"], ["compile", "--kernel", "k1"]):
        assert main([str(recorded), *command]) == 0
        words = capsys.readouterr().out
        assert whit_main(["viz", str(recorded), *command]) == 0
        assert capsys.readouterr().out == words
        assert main([str(recorded), *command, "--json"]) == 0
        data = json.loads(capsys.readouterr().out)
        assert whit_main(["viz", str(recorded), *command, "--json"]) == 0
        answer = json.loads(capsys.readouterr().out)
        assert {name: answer[name] for name in data} == data
        assert answer["command"] == "viz"
    assert whit_main(["viz", "/nowhere", "list"]) == 1
    assert whit_main(["viz", str(recorded), "sing"]) == 2
