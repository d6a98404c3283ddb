"""The command line as a whole: help, wrong usage, exit codes, and the edges of a process."""

import argparse
import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

import whit
from cli.schemas import differences, document
from whit import Context, UOp, dtypes
from whit.cli import cache as cache_command
from whit.cli import main as main_module
from whit.cli.answer import columns, spell_bytes, spell_count
from whit.cli.main import COMMANDS, main
from whit.ir.text.write import to_text

NAMES = [command.name for command in COMMANDS]


@pytest.fixture(autouse=True)
def plain(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("COLUMNS", "100")
    monkeypatch.setenv("NO_COLOR", "1")
    monkeypatch.setenv("CACHE_DIR", str(tmp_path))  # of the processes that are started: the real one may be large


HELP = """\
usage: python -m whit [COMMAND] [-h] [--json] ...

whit, a deep-learning stack in Python that can be read.

commands:
  info    what whit finds on this machine, and a short self-check; the default
  doctor  looks for what is wrong or slow here, and says what to do
  bench   times common kernels, checked first, against what this machine can do
  tune    searches for faster kernels for a program, and keeps what it finds
  cache   lists, measures or clears the compiled kernels on disk
  replay  runs a graph that an error message saved
  onnx    what is in an ONNX model; runs it, and compares it with onnxruntime
  llm     runs a language model: writes what follows a text, answers a message, chats
  viz     answers questions about a recording (VIZ=file): kernels, memory, rewrites

options:
  -h, --help  show this help message and exit
  --version   print the version
  --json      print one JSON object in place of text
  --quick     a self-check on tiny sizes, whose speeds mean little
  --no-check  no self-check: compiles and runs nothing

`python -m whit COMMAND -h` says what a command takes.
exit codes: 0 ok, 1 a problem was found, 2 wrong usage, 130 stopped by Ctrl-C
"""


def test_help_lists_the_commands(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["-h"]) == 0
    assert capsys.readouterr().out == HELP


@pytest.mark.parametrize("name", NAMES)
def test_every_command_has_help_that_fits_and_names_the_exit_codes(
    name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([name, "--help"]) == 0
    text = capsys.readouterr().out
    assert text.startswith(f"usage: python -m whit {name} [-h] [--json]")
    assert text.endswith(f"\n{main_module.EXIT_CODES}\n")
    assert max(map(len, text.splitlines())) <= 122
    assert text.isascii()
    assert main(["--help", name]) == 0  # options may stand before the command
    assert capsys.readouterr().out == text


def test_version(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--version"]) == 0
    assert capsys.readouterr().out == f"whit {whit.__version__}\n"


def test_an_unknown_command_is_answered_with_the_nearest_one(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["docter"]) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err == (
        'whit: there is no command "docter". Did you mean "doctor"?\n'
        f"  commands: {', '.join(NAMES)}\n"
        "  `python -m whit -h` says what they do.\n"
    )


@pytest.mark.parametrize(
    "arguments, message",
    [
        (["--quik"], "unrecognized arguments: --quik"),
        (["doctor", "now"], "unrecognized arguments: now"),
        (["cache"], "the following arguments are required: action"),
        (["cache", "empty"], "invalid choice: 'empty'"),
        (["cache", "list", "-n", "-3"], 'argument -n: "-3" is no number of kernels'),
        (["replay"], "the following arguments are required: file"),
        (["replay", "x.whit", "GPU"], 'device: there is no device "GPU"'),
        (["replay", "x.whit", "WEBGPU"], "device: WEBGPU cannot be opened by this version of whit"),
        (["bench", "--seconds", "-1"], 'argument --seconds: "-1" is no number of seconds from 0 to 3600'),
        (["bench", "--seconds", "nan"], 'argument --seconds: "nan" is no number of seconds from 0 to 3600'),
        (["bench", "matmull"], 'no work has "matmull" in its name. Did you mean "matmul"?'),
        (["bench", "--device", "NULL"], "--device: NULL computes nothing that could be compared"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else None,
)
def test_wrong_usage_exits_with_2_and_says_why(
    arguments: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(arguments) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err.startswith("usage: python -m whit")
    assert message in captured.err


# ---- errors, and what stops a command


def test_a_file_that_is_missing_is_a_problem_and_no_traceback(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["replay", "/nowhere/x.whit"]) == 1
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err == "whit: [Errno 2] No such file or directory: '/nowhere/x.whit'\n"
    assert main(["replay", "/nowhere/x.whit", "--json"]) == 1
    printed = json.loads(capsys.readouterr().out)
    assert differences(printed, document("error")) == []
    assert printed["error"]["kind"] == "FileNotFoundError"


@pytest.mark.parametrize(
    "content, message", [(b"what = ever", "there is no op 'ever'"), (b"\xd0\xd1\x00", "is no text")]
)
def test_a_file_that_is_no_graph_is_a_problem(
    tmp_path: Path, content: bytes, message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "x.whit"
    path.write_bytes(content)
    assert main(["replay", str(path)]) == 1
    error = capsys.readouterr().err
    assert message in error
    assert "Traceback" not in error


def test_a_saved_graph_is_replayed(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "graph.whit"
    result, operand = (UOp.param(slot, dtypes.float32, (4,)) for slot in range(2))
    path.write_text(to_text(UOp.group(result.store(operand * 2.0))))
    assert main(["replay", str(path), "PYTHON"]) == 0
    assert capsys.readouterr().out == f"{path}: no failure on PYTHON\n"

    def fail(path: str, device: str) -> None:
        raise KeyError("lost")

    monkeypatch.setattr("whit.cli.replay.replay", fail)
    assert main(["replay", str(path)]) == 1
    text = capsys.readouterr().out
    assert text.startswith("Traceback (most recent call last):\n")
    assert text.endswith(f"KeyError: 'lost'\n\n{path}: fails on CPU\n")
    assert main(["replay", str(path), "--json"]) == 1
    printed = json.loads(capsys.readouterr().out)
    assert differences(printed, document("replay")) == []
    assert (printed["failed"], printed["failure"]) == (True, "KeyError: 'lost'")


def test_a_missing_package_leads_to_the_doctor(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setitem(sys.modules, "numpy", None)  # importing it fails
    monkeypatch.delitem(sys.modules, "whit.cli.bench", raising=False)
    assert main(["bench", "--json"]) == 1
    captured = capsys.readouterr()
    assert captured.err.endswith("\n  `python -m whit doctor` says what is missing.\n")
    assert json.loads(captured.out)["error"]["kind"] == "ModuleNotFoundError"


def test_ctrl_c_ends_with_one_line(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    def stop(options: argparse.Namespace) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(cache_command, "run", stop)
    assert main(["cache", "size"]) == 130
    assert capsys.readouterr() == ("", "whit: stopped\n")


def _start(*arguments: str, **options: object) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "whit", *arguments]
    environment = {**os.environ, "PYTHONPATH": str(Path(whit.__file__).parents[1])}
    return subprocess.Popen(command, env=environment, stderr=subprocess.PIPE, text=True, **options)


def test_a_reader_that_leaves_is_no_error() -> None:
    process = _start("cache", "size", stdout=subprocess.PIPE)
    process.stdout.close()
    _, errors = process.communicate()
    assert (process.returncode, errors) == (0, "")


def test_a_reader_that_leaves_help_is_no_error() -> None:
    process = _start("-h", stdout=subprocess.PIPE)
    process.stdout.close()
    _, errors = process.communicate()
    assert (process.returncode, errors) == (0, "")


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="there is no full disk here")
def test_a_full_disk_is_a_problem() -> None:
    with open("/dev/full", "w") as full:
        process = _start("cache", "size", stdout=full)
        _, errors = process.communicate()
    assert process.returncode == 1
    assert errors == "whit: the answer cannot be written: [Errno 28] No space left on device\n"


@pytest.mark.skipif(sys.platform == "win32", reason="signals")
def test_the_signal_of_ctrl_c_leaves_no_traceback() -> None:
    program = "import os, signal, sys; from whit.cli import cache, main\n"
    program += "signal.signal(signal.SIGINT, signal.default_int_handler)\n"  # what runs behind a shell may ignore it
    program += (
        f"cache.run = lambda options: os.kill(os.getpid(), {int(signal.SIGINT)}) or __import__('time').sleep(9)\n"
    )
    program += "sys.exit(main.main(['cache', 'size']))"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (130, "", "whit: stopped\n")


def test_what_debug_prints_is_not_part_of_the_json(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    inner = cache_command.run

    def chatty(options: argparse.Namespace) -> object:
        print("*** a line of DEBUG")
        return inner(options)

    monkeypatch.setattr(cache_command, "run", chatty)
    with Context(CACHE_DIR=str(tmp_path)):
        assert main(["cache", "size", "--json"]) == 0
    captured = capsys.readouterr()
    assert json.loads(captured.out)["command"] == "cache"
    assert captured.err == "*** a line of DEBUG\n"


# ---- spelling


def test_spelling() -> None:
    assert [spell_bytes(n) for n in (0, 1023, 1024, 5 << 20, 3 << 30, 1 << 50)] == [
        "0 B",
        "1023 B",
        "1.0 KiB",
        "5.0 MiB",
        "3.0 GiB",
        "1024.0 TiB",
    ]
    assert [spell_count(n, "file") for n in (0, 1, 2)] == ["0 files", "1 file", "2 files"]
    assert spell_count(2, "entry") == "2 entries"
    assert columns([("a", "10"), ("bcd", "7")], right=(1,)) == ["  a    10", "  bcd   7"]
