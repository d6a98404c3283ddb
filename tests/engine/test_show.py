"""What DEBUG prints, level by level."""

import os
import re
import subprocess
import sys

import pytest

from whit import Context, Tensor
from whit.engine.compile import compile as compile_module
from whit.engine.plan import find_plan as plans_module
from whit.engine.report.show import UNTILED
from whit.runtime.code.gcc import find_compiler
from whit.target import parse_target

HEADINGS = {
    3: [],
    4: ["--- source of"],
    5: ["--- graph", "--- schedule", "--- kernel", "--- source of"],
    6: ["--- graph", "--- schedule", "--- kernel", "--- program of", "--- source of"],
    7: ["--- graph", "--- schedule", "--- kernel", "--- program of", "--- source of", "--- machine code of"],
}
TIME = r"tm +\d+\.\d\d(us|ms|s )"


def shown(level: int, capsys: pytest.CaptureFixture[str], device: str = "CPU") -> list[str]:
    """The lines of `(a * 2 + 1).sum(1)`, compiled anew."""
    compile_module._kernels.clear()
    plans_module._plans.clear()
    a = Tensor([[1.0] * 64] * 2, device=device)
    capsys.readouterr()
    with Context(DEBUG=level):
        (a * 2 + 1).sum(1).realize()
    return capsys.readouterr().out.splitlines()


def test_nothing_is_printed_unless_asked(capsys: pytest.CaptureFixture[str]) -> None:
    assert shown(0, capsys) == []


def test_1_is_a_line_for_each_schedule(capsys: pytest.CaptureFixture[str]) -> None:
    (line,) = shown(1, capsys)
    start = re.escape(f"=== CPU ({parse_target('CPU')}): 1 kernel, 0.00 MB of temporaries, ready in ")
    assert re.fullmatch(start + r"\d+\.\d\d(us|ms|s )", line)


def test_2_is_a_line_for_each_kernel(capsys: pytest.CaptureFixture[str]) -> None:
    _, line = shown(2, capsys)
    name = re.escape("sum + mul + add")
    pattern = rf"\*\*\* CPU +1 {name} +float32\(2,\) +{TIME} +\d+\.\d GFLOP/s +\d+\.\d GB/s  mem +\d+\.\d\d MB"
    assert re.fullmatch(rf"{pattern}  test_show\.py:\d+  add_reduce_2", line)


@pytest.mark.cpu
def test_3_says_how_kernels_are_tiled_and_why(capsys: pytest.CaptureFixture[str]) -> None:
    with Context(NOOPT=0):
        first, *_ = shown(3, capsys)
    assert re.fullmatch(r"add_reduce_2: lanes along reduction k\d+: unit stride, \d accumulators", first)
    a = Tensor([[1.0, 2.0], [3.0, 4.0]])
    with Context(DEBUG=3, CACHE=0, NOOPT=0):
        (a @ a).relu().sum(1).realize()
    assert capsys.readouterr().out.startswith(f"add_reduce_2: {UNTILED}\n")
    with Context(NOOPT=1):
        first, *_ = shown(3, capsys)
    assert first == "add_reduce_2: optimisation is off"


@pytest.mark.parametrize("level", HEADINGS)
def test_higher_levels_show_each_step_of_the_way(level: int, capsys: pytest.CaptureFixture[str]) -> None:
    lines = shown(level, capsys)
    headings = [line for line in lines if line.startswith("---")]
    assert [heading.removesuffix(" add_reduce_2") for heading in headings] == HEADINGS[level]
    assert lines[-1].startswith("*** CPU")
    text = "\n".join(lines)
    assert ("define void @kernel(" in text) == (level >= 4)
    assert ("call add_reduce_2" in text) == (level >= 5)
    assert ("linear ..." in text) == (level >= 6)
    assert ("kernel:\n" in text) == (level >= 7)
    assert "\033" not in text


@pytest.mark.skipif(find_compiler() is None, reason="there is no C compiler")
def test_c_is_shown_as_c_and_its_machine_code_too(capsys: pytest.CaptureFixture[str]) -> None:
    text = "\n".join(shown(7, capsys, "CPU:C"))
    assert "void kernel(void **buffers" in text
    assert "--- machine code of add_reduce_2\n" in text
    assert "kernel:\n" in text


def test_the_interpreter_has_its_lines_too(capsys: pytest.CaptureFixture[str]) -> None:
    (line,) = shown(2, capsys, "PYTHON")
    assert re.match(r"\*\*\* PYTHON +1 sum \+ mul \+ add ", line)


PROGRAM = "from whit import Tensor; (Tensor([1.0, 2.0]) * 3.5).realize()"


@pytest.mark.slow
@pytest.mark.skipif(not hasattr(os, "openpty"), reason="no terminals here")
def test_colours_are_for_terminals() -> None:
    ours, theirs = os.openpty()
    environment = {**os.environ, "DEBUG": "2"}
    subprocess.run([sys.executable, "-c", PROGRAM], stdout=theirs, env=environment, check=True)
    os.close(theirs)
    text = os.read(ours, 10_000).decode()
    os.close(ours)
    assert "\033[36m" in text
    piped = subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, text=True, env=environment, check=True)
    assert "***" in piped.stdout and "\033" not in piped.stdout


def test_a_reader_that_leaves_is_no_bug_of_whit() -> None:
    environment = {**os.environ, "DEBUG": "5", "CACHE": "0"}
    process = subprocess.Popen(
        [sys.executable, "-c", PROGRAM],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=environment,
    )
    assert process.stdout is not None and process.stderr is not None
    process.stdout.close()
    errors = process.stderr.read()
    process.stderr.close()
    process.wait()
    assert "BrokenPipeError" in errors and "bug in whit" not in errors
