"""`python -m whit tune`: the table, the gate, what it refuses, and Ctrl-C."""

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from cli.schemas import differences, document
from whit import Context, clear_caches
from whit.cli import tune
from whit.cli.bench_works import works
from whit.cli.main import main
from whit.cli.tune import Row
from whit.engine.compile.tune import store
from whit.engine.compile.tune.search import Result
from whit.engine.compile.tune.store import Tuned
from whit.engine.compile.tune.task import Task

CHOICE = '{"core":null,"kind":"loops","lanes":{"r0":8},"order":["r0"],"unroll":{}}'
FASTER = Tuned("add_8", "CPU:LLVM:haswell", CHOICE, 80e-6, 100e-6, 4)
SAME = Tuned("add_9", "CPU:LLVM:haswell", None, 100e-6, 100e-6, 4)


@pytest.fixture(autouse=True)
def own_folder(tmp_path: Path) -> Iterator[None]:
    with Context(CACHE_DIR=str(tmp_path / "cache"), CACHE=1, NOOPT=0, BEAM=0):
        clear_caches()
        yield
        clear_caches()


@pytest.fixture
def program(tmp_path: Path) -> Callable[[str], str]:
    def write(text: str) -> str:
        path = tmp_path / "program.py"
        path.write_text(f"from whit import Tensor\nimport sys\n{text}\n")
        return str(path)

    return write


def test_the_table() -> None:
    rows = [
        Row("add_8", Result("add_8", FASTER, 12, ("4 copies: on whole numbers: result 0 is 1.0 in place of 2.0",))),
        Row("add_9", Result("add_9", SAME, known=True)),
        Row("add_10", Result("add_10", Tuned("", "", CHOICE, 1e-6, 1.5e-6, 0), 3)),
        Row("gather_3", Result("gather_3", None, skipped="what it reads depends on data")),
        Row("add_11", None),
    ]
    assert tune._table(rows, 4, is_stopped=False).splitlines() == [
        "kernel    default us  best us  gain  measured",
        "add_8          100.0     80.0  1.25        12  faster",
        "add_9          100.0    100.0  1.00         0  known: default is best",
        "add_10           1.5      1.0  1.50         3  unfinished: faster",
        "gather_3                                       skipped: what it reads depends on data",
        "add_11                                         not reached",
        "",
        "5 kernels, 2 faster than by default; beam 4",
        "1 candidate computed something else, and did not count:",
        "  add_8, 4 copies: on whole numbers: result 0 is 1.0 in place of 2.0",
        "Not complete: the same command goes on where this one ended.",
    ]


def test_many_wrong_candidates_are_counted() -> None:
    rows = [Row("add_8", Result("add_8", FASTER, 12, tuple(f"{i} copies: wrong" for i in range(12))))]
    lines = tune._table(rows, 4, is_stopped=False).splitlines()
    assert lines[-10] == "12 candidates computed something else, and did not count:"
    assert lines[-2:] == ["  add_8, 7 copies: wrong", "  and 4 more"]


def searched(monkeypatch: pytest.MonkeyPatch, answer: Callable[[Task], Result]) -> list[str]:
    """Replaces the search; the names of the kernels that are searched."""
    names: list[str] = []

    def search(task: Task, beam: int, seconds: float, tell: object) -> Result:
        names.append(task.function.arg.name)
        return answer(task)

    monkeypatch.setattr(tune, "search", search)
    return names


def test_a_program_runs_and_its_kernels_are_searched(
    program: Callable[[str], str], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    names = searched(monkeypatch, lambda task: Result("f", FASTER, 5))
    path = program("print('hello', sys.argv[1:])\n(Tensor.empty(int(sys.argv[1])) + 1).realize()\nsys.exit(0)")
    assert main(["tune", "--json", "--seconds", "5", "--beam", "2", path, "8", "-x"]) == 0
    captured = capsys.readouterr()
    printed = json.loads(captured.out)
    assert differences(printed, document("tune")) == []
    assert "hello ['8', '-x']" in captured.err
    assert (printed["program"], printed["beam"], printed["seconds"], printed["stopped"]) == (path, 2, 5.0, False)
    assert names == ["add_8"]
    (kernel,) = printed["kernels"]
    assert (kernel["kernel"], kernel["status"], kernel["gain"]) == ("add_8", "faster", 1.25)
    assert kernel["choice"] == json.loads(CHOICE)
    assert main(["tune", path, "8"]) == 0
    assert "1 kernel, 1 faster than by default; beam 4" in capsys.readouterr().out
    assert main(["tune", "--kernel", "mul", path, "8"]) == 1
    assert capsys.readouterr().out == 'the program runs no kernel with "mul" in its name on this processor\n'


def test_ctrl_c_shows_what_was_found(
    program: Callable[[str], str], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def stop(task: Task) -> Result:
        store.keep(task.key, FASTER)
        raise KeyboardInterrupt

    searched(monkeypatch, stop)
    path = program("(Tensor.empty(8) + 1).realize()\n(Tensor.empty(4) * 3).realize()")
    assert main(["tune", "--json", path]) == 130
    printed = json.loads(capsys.readouterr().out)
    assert differences(printed, document("tune")) == []
    assert [kernel["status"] for kernel in printed["kernels"]] == ["faster", "not reached"]
    assert printed["stopped"]


def test_without_time_nothing_is_searched(program: Callable[[str], str], capsys: pytest.CaptureFixture[str]) -> None:
    path = program("(Tensor.empty(8) + 1).realize()")
    assert main(["tune", "--seconds", "0", path]) == 0
    assert "not reached" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([], "give a program, or --bench"),
        (["--bench", "x.py"], "give a program, or --bench"),
        (["nowhere.py"], "there is no file nowhere.py"),
        (["--seconds", "soon", "x.py"], '"soon" is no number of seconds'),
        (["--seconds", "-1", "x.py"], '"-1" is no number of seconds'),
        (["--beam", "0", "x.py"], '"0" is no number from 1 to 1000'),
    ],
)
def test_wrong_usage(arguments: list[str], message: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["tune", *arguments]) == 2
    assert message in capsys.readouterr().err


@pytest.mark.parametrize(("name", "value"), [("CACHE", 0), ("NOOPT", 1)])
def test_settings_under_which_it_makes_no_sense(name: str, value: int, capsys: pytest.CaptureFixture[str]) -> None:
    with Context(**{name: value}):
        assert main(["tune", "x.py"]) == 2
    assert f"{name}={value} is set" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("text", "code", "message"),
    [
        ("sys.exit('no data')", 2, "the program ended with 'no data'"),
        ("Tensor.empty(3).reshape(4)", 1, "reshape"),
        ("(Tensor.empty(3, device='PYTHON') + 1).realize()", 1, "the program runs no kernel on this processor"),
        ("1 / 0", 1, "ZeroDivisionError: division by zero"),
    ],
)
def test_programs_that_fail(
    program: Callable[[str], str], text: str, code: int, message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["tune", program(text)]) == code
    captured = capsys.readouterr()
    assert message in captured.err + captured.out


def test_the_works_of_the_benchmark_can_be_searched(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    searched(monkeypatch, lambda task: Result("f", SAME, 1))
    monkeypatch.setattr(tune, "works", lambda is_quick: WORKS[:1])
    assert main(["tune", "--bench", "--quick", "--json"]) == 0
    assert len(json.loads(capsys.readouterr().out)["kernels"]) == 1


WORKS: list[Any] = works(True)


# ---- cache list tuned, cache clear tuned


def test_what_was_found_is_listed_and_removed(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    store.keep("a" * 64, FASTER)
    assert main(["cache", "list", "tuned"]) == 0
    folder = tmp_path / "cache"
    size = next(folder.glob("*.tuned")).stat().st_size
    assert capsys.readouterr().out == (
        f"{folder}: 1 file, {size} B\n"
        "  kernel  default us  tuned us  gain  target            file\n"
        "  add_8        100.0      80.0  1.25  CPU:LLVM:haswell  aaaaaaaaaaaa...\n"
    )
    (folder / ("b" * 64 + ".tuned")).write_bytes(b"damaged")
    assert main(["cache", "list", "tuned", "--json"]) == 0
    printed = json.loads(capsys.readouterr().out)
    assert differences(printed, document("cache list tuned")) == []
    assert [entry["kernel"] for entry in printed["entries"]] == [None, "add_8"]
    assert printed["entries"][1]["choice"] == json.loads(CHOICE)
    assert main(["cache", "clear"]) == 0  # kernels alone
    assert len(list(folder.glob("*.tuned"))) == 2
    assert main(["cache", "clear", "tuned", "--json"]) == 0
    assert json.loads(capsys.readouterr().out.partition("\n")[2])["removed_files"] == 2
    assert list(folder.glob("*.tuned")) == []
    assert main(["cache", "list", "choices"]) == 2
