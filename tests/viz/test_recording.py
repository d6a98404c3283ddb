"""What a recording has, when it ends, and that nothing changes where there is none."""

import os
import signal
import subprocess
import sys
import threading
from pathlib import Path

import pytest

import whit
from whit import Context, GlobalCounters, Tensor, TinyJit
from whit.engine.compile import compile
from whit.errors import ArgumentError, FileError
from whit.ir.text.parse import parse
from whit.ir.watched import _recorded_sets
from whit.recording import hooks
from whit.viz.cli import main
from whit.viz.format import Reading
from whit.viz.load import load
from whit.viz.memory import curves
from whit.viz.model import Trace
from whit.viz.session import _end, start_from_environment
from whit.viz.tables import rule_source

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[2]


def test_every_schedule_kernel_and_run_is_there(trace: Trace) -> None:
    assert trace.is_whole
    assert [(s.device, len(s.calls), s.runs) for s in trace.schedules.values()] == [("CPU", 3, 1), ("CPU", 1, 2)]
    assert [len(kernel.durations) for kernel in trace.kernels.values()] == [1, 1, 1, 2]
    assert all(kernel.is_compiled and kernel.code_bytes > 0 for kernel in trace.kernels.values())
    assert all("define void @kernel" in kernel.source for kernel in trace.kernels.values())
    names = ["widen_functions", "flatten", "write_sort", "vector_access", "fix_index_dtype", "expand_math", "linearise"]
    assert [[step.name for step in kernel.passes][:7] for kernel in trace.kernels.values()] == [names] * 4
    assert trace.line(trace.schedules[0].stack).startswith("program.py:")


def test_graphs_parse_back_and_equal_ones_are_there_once(trace: Trace) -> None:
    assert len(set(trace.graphs.values())) == len(trace.graphs) > 10
    roots = [parse(text) for text in trace.graphs.values()]
    assert {root.op.name for root in roots} == {"group", "linear"}


def test_rewrites_name_their_rule_and_nodes(trace: Trace) -> None:
    steps = [step for kernel in trace.kernels.values() for p in kernel.passes for step in p.rewriting.steps]
    assert len(steps) > 10
    assert all(rule in trace.rules and {before, after} <= set(trace.nodes) for rule, before, after in steps)
    flatten = next(step for step in trace.kernels[0].passes if step.name == "flatten").rewriting
    named = {trace.rules[rule].name: count for rule, count in flatten.counts.items()}
    assert "flatten_index" in named
    for rule in trace.rules.values():
        assert (ROOT / rule.file).is_file(), rule.file
    hits = sum(count[1] for count in flatten.counts.values())
    assert hits == len(flatten.steps)


def test_the_memory_of_a_recording_is_that_of_the_counters(tmp_path: Path) -> None:
    with Context(DEV="PYTHON"):
        kept = Tensor([1.0] * 100).realize()
        GlobalCounters.reset()
        with whit.trace(tmp_path / "m"):
            x = Tensor([2.0] * 1000).realize()
            del kept
            (x * x).sum().realize()
            peak, now = GlobalCounters.device("PYTHON").mem_peak, GlobalCounters.device("PYTHON").mem_used
    (curve,) = (curve for curve in curves(load(tmp_path / "m")) if curve.device == "PYTHON")
    assert curve.peak[0] == peak
    assert curve.amounts[-1] == now


def test_a_recording_may_begin_in_the_middle(tmp_path: Path) -> None:
    x = Tensor([1.0, 2.0, 3.0], device="CPU").realize()
    (x + 5.0).realize()
    with whit.trace(tmp_path / "m"):
        (x + 5.0).realize()
    (kernel,) = load(tmp_path / "m").kernels.values()
    assert not kernel.is_compiled
    assert kernel.ops == 3
    assert kernel.nbytes > 0
    assert len(kernel.durations) == 1


def test_results_are_the_same_and_nothing_is_left_behind(tmp_path: Path) -> None:
    values = [[0.1 * i for i in range(50)]] * 4
    plain = Tensor(values, device="CPU").softmax().tolist()
    with whit.trace(tmp_path / "m") as path:
        assert path == str(tmp_path / "m")
        recorded = Tensor(values, device="CPU").softmax().tolist()
    assert recorded == plain
    assert hooks.recorder is None
    size = os.path.getsize(path)
    (Tensor(values, device="CPU") * 7).realize()
    assert os.path.getsize(path) == size


def test_without_rewrites_no_rule_set_is_compiled_twice(tmp_path: Path) -> None:
    whit.clear_caches()
    with Context(DEV="PYTHON"), whit.trace(tmp_path / "m", rewrites=False):
        (Tensor([1.0, 2.0]) * 3).sum().realize()
    assert _recorded_sets == {}
    found = {record["record"] for record in Reading(tmp_path / "m")}
    assert "run" in found and not found & {"rewrites", "rules", "nodes"}


def test_a_second_recording_and_a_bad_limit_are_refused(tmp_path: Path) -> None:
    with whit.trace(tmp_path / "a"):
        with pytest.raises(ArgumentError, match="a recording is under way"), whit.trace(tmp_path / "b"):
            pass
        assert hooks.recorder is not None
    assert not (tmp_path / "b").exists()
    with pytest.raises(ArgumentError, match="a limit of 0 megabytes"), whit.trace(tmp_path / "b", limit=0):
        pass
    with pytest.raises(FileError, match="cannot be written"), whit.trace(tmp_path / "none" / "b"):
        pass


def test_an_error_inside_ends_the_recording(tmp_path: Path) -> None:
    with pytest.raises(ZeroDivisionError), whit.trace(tmp_path / "a"):
        raise ZeroDivisionError
    assert load(tmp_path / "a").is_whole


def test_at_its_limit_a_recording_has_less_and_less_detail(tmp_path: Path) -> None:
    with Context(DEV="PYTHON"), whit.trace(tmp_path / "a"):
        recorder = hooks.recorder
        recorder.writer.limit = 10**9
        for share, expected in ((0.4, (True, True, False)), (0.6, (False, True, False)), (0.8, (False, False, False))):
            recorder.writer.written = int(share * 10**9)
            recorder._flush()
            assert (recorder.wants_rewrites, recorder.wants_passes, recorder.is_full) == expected
        size = recorder.writer.written = 10**9
        recorder._flush()
        for i in range(300):
            (Tensor([1.0]) + i).realize()
        assert recorder.writer.written - size < 5000
    found = load(tmp_path / "a")
    assert found.dropped == ["rewrites", "graphs of passes", "runs and memory"]
    assert found.is_whole
    assert not found.runs


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="no full disk to write to")
def test_a_full_disk_ends_the_recording_and_not_the_program() -> None:
    with (
        pytest.warns(RuntimeWarning, match="has ended: .*No space left"),
        Context(DEV="PYTHON"),
        whit.trace("/dev/full"),
    ):
        assert (Tensor([1.0, 2.0]) + 1).tolist() == [2.0, 3.0]


def test_threads_are_recorded_together(tmp_path: Path) -> None:
    def work(value: float) -> None:
        for _ in range(5):
            (Tensor([value, 2.0], device="PYTHON") * 3).realize()

    with whit.trace(tmp_path / "a"):
        threads = [threading.Thread(target=work, args=(float(i),)) for i in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    found = load(tmp_path / "a")
    assert len(found.runs) == 20
    assert len({run.thread for run in found.runs}) >= 1
    assert len(found.kernels) == 1


def test_captures_and_replays_of_a_jit_are_recorded_kernel_by_kernel(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    weight = Tensor([2.0, 3.0, 4.0], device="CPU").realize()

    @TinyJit
    def step(x: Tensor) -> Tensor:
        return (x * weight).contiguous().sum()

    inputs = [Tensor([float(i), 1.0, 1.0], device="CPU").realize() for i in range(4)]
    with whit.trace(tmp_path / "a", rewrites=False):
        GlobalCounters.reset()
        recorded = [step(x).item() for x in inputs]
        counted = GlobalCounters.kernel_count
    assert recorded == [2.0 * i + 7.0 for i in range(4)] == [step(x).item() for x in inputs]
    found = load(tmp_path / "a")
    assert sum(len(kernel.durations) for kernel in found.kernels.values()) == counted == 4 * step.kernels
    assert main([str(tmp_path / "a"), "list"]) == 0
    kinds = capsys.readouterr().out
    assert f"jit capture, 1 time: name step, kernels {step.kernels}\n" in kinds
    assert "jit replay, 3 times: name step\n" in kinds


def test_an_event_is_recorded_with_its_fields(tmp_path: Path) -> None:
    with whit.trace(tmp_path / "a"):
        hooks.recorder.event("jit capture", name="step", kernels=3)
    (event,) = load(tmp_path / "a").events
    assert event["kind"] == "jit capture"
    assert event["fields"] == {"name": "step", "kernels": 3}


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork")
def test_a_child_of_fork_is_not_recorded(tmp_path: Path) -> None:
    with Context(DEV="PYTHON"), whit.trace(tmp_path / "a"):
        (Tensor([1.0]) + 1).realize()
        child = os.fork()
        if not child:
            os._exit(0 if hooks.recorder is None else 1)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
        (Tensor([1.0]) + 1).realize()
    assert load(tmp_path / "a").is_whole


PROGRAM = """
import sys, time
from whit import Tensor
for i in range(1000):
    (Tensor([1.0, 2.0, 3.0]) * 2).sum().realize()
    print(i, flush=True)
    time.sleep(0.15)
"""


def _start(folder: Path, viz: str) -> subprocess.Popen[str]:
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "VIZ": viz, "DEV": "PYTHON"}
    command = [sys.executable, "-c", PROGRAM]
    return subprocess.Popen(command, cwd=folder, env=environment, stdout=subprocess.PIPE, text=True)


def test_a_killed_process_leaves_a_trace_and_two_do_not_write_one_file(tmp_path: Path) -> None:
    first = _start(tmp_path, "run.trace")
    assert first.stdout.readline() == "0\n"
    second = _start(tmp_path, "run.trace")
    assert second.stdout.readline() == "0\n"
    while first.stdout.readline() != "4\n":
        pass
    for process in (first, second):
        process.send_signal(signal.SIGKILL)
        process.wait()
        process.stdout.close()
    assert sorted(path.name for path in tmp_path.iterdir()) == ["run.trace", f"run.trace.{second.pid}"]
    found = load(tmp_path / "run.trace")
    assert not found.is_whole
    assert found.start["process"] == first.pid
    assert len(found.runs) >= 2
    assert found.kernels[0].name == "add_reduce_scalar"


def test_viz_1_names_the_file_after_the_process(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for value in ("", "0"):
        with Context(VIZ=value):
            start_from_environment()
        assert hooks.recorder is None
    with Context(VIZ="1"):
        start_from_environment()
    _end(hooks.recorder)  # type: ignore[arg-type]
    assert [path.name for path in tmp_path.iterdir()] == [f"whit-{os.getpid()}.trace"]


def test_looking_at_a_trace_does_not_record(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for command in (["-m", "whit.viz", "a", "list"], ["-X", "utf8", "-m", "whit", "viz", "a"]):
        monkeypatch.setattr(sys, "orig_argv", ["python", *command])
        with Context(VIZ=str(tmp_path / "a")):
            start_from_environment()
        assert hooks.recorder is None
    assert not (tmp_path / "a").exists()


def test_a_kernel_whose_compilation_fails_is_shown_as_far_as_it_came(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def fail(*_: object) -> bytes:
        raise KeyboardInterrupt

    monkeypatch.setattr(compile, "_compiled", fail)
    with pytest.raises(KeyboardInterrupt), whit.trace(tmp_path / "a"):
        (Tensor([1.0] * 37, device="CPU").realize() * 1.75 + 11).sqrt().realize()  # a shape that no other test has
    (kernel,) = load(tmp_path / "a").kernels.values()
    assert kernel.passes[-1].name == "add_hints"
    assert main([str(tmp_path / "a"), "show", "k0"]) == 0
    assert "its compilation did not come further than add_hints" in capsys.readouterr().out


def test_rules_lines_and_machine_code_can_be_read(trace: Trace) -> None:
    for rule in trace.rules.values():
        lines = (ROOT / rule.file).read_text().splitlines()
        assert rule.source.splitlines()[0].strip() == lines[rule.line - 1].strip()
    sources = {rule.name: rule.source for rule in trace.rules.values()}
    assert sources["flatten_index"].startswith("@function_rule(ops.INDEX)\ndef flatten_index(")
    assert sources["flatten_index"].splitlines()[-1].startswith("    return ")
    assert all("ret" in kernel.assembly for kernel in trace.kernels.values())
    assert any("realize()" in text for texts in trace.texts.values() for text in texts)


def test_the_source_of_a_rule_ends_where_its_brackets_close(tmp_path: Path) -> None:
    path = tmp_path / "rules.py"
    path.write_text("rules = (\n    Rule(\n        x + (0),  # )\n        x,\n    ),\n    Rule(x * 1, x),\n)\n")
    assert rule_source(str(path), 2) == "Rule(\n    x + (0),  # )\n    x,\n),"
    assert rule_source(str(path), 6) == "Rule(x * 1, x),"
    assert rule_source(str(path), 99) == ""
    assert rule_source(str(tmp_path / "none.py"), 1) == ""
