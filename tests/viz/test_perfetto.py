"""A recording as the timeline that other viewers open."""

import json
from pathlib import Path
from typing import Any

import pytest

from whit.viz.cli import main
from whit.viz.load import load
from whit.viz.model import Copy, Run, Trace
from whit.viz.perfetto import write_perfetto


def written(trace: Trace, path: Path) -> tuple[dict[tuple[int, int], tuple[str, str]], list[dict[str, Any]]]:
    """The lanes by their numbers, and the spans; all have the fields that viewers want."""
    count = write_perfetto(trace, path)
    events = json.loads(path.read_text())["traceEvents"]
    spans = [event for event in events if event["ph"] == "X"]
    assert len(spans) == count and all(span["ts"] >= 0 and span["dur"] >= 0 for span in spans)
    names: dict[tuple[int, int], dict[str, str]] = {}
    for event in events:
        if event["ph"] == "M":
            names.setdefault((event["pid"], event["tid"]), {})[event["name"]] = event["args"]["name"]
    return {lane: (each["process_name"], each["thread_name"]) for lane, each in names.items()}, spans


def test_every_launch_is_a_span_in_the_lane_of_its_queue(trace: Trace, tmp_path: Path) -> None:
    lanes, spans = written(trace, tmp_path / "t.json")
    launches = [span for span in spans if lanes[span["pid"], span["tid"]][0] == "CPU"]
    expected = [(start, end) for run in trace.runs for start, end in run.times]
    assert [(span["ts"], span["dur"]) for span in launches] == [(a / 1e3, (b - a) / 1e3) for a, b in expected]
    kernel = trace.kernels[trace.schedules[trace.runs[0].schedule].calls[0]]
    assert launches[0]["name"] == trace.runs[0].names[0] == kernel.computes
    assert "  program.py:" in kernel.computes
    assert launches[0]["args"]["name"] == kernel.name
    assert launches[0]["args"]["bytes written"] == kernel.bytes_written
    assert launches[0]["args"]["line"].startswith("program.py:")
    assert {name for device, name in lanes.values() if device == "host"} == {"scheduling", "compiling"}
    assert sum(span["name"].startswith("compile ") for span in spans) == len(trace.kernels)


def test_copies_have_lanes_of_their_device_and_what_is_missing_is_left_out(tmp_path: Path) -> None:
    copies = [Copy("CUDA", "host to device", 8, 0, 5000, 9000), Copy("CUDA:1", "from CUDA", 8, 0, 6000, 7000)]
    lanes, spans = written(Trace("t", copies=copies, runs=[Run(3, 0, 1, [(1, 2)])]), tmp_path / "t.json")
    assert sorted(lanes.values()) == [("CUDA", "host to device"), ("CUDA:1", "from CUDA")]
    assert [(span["name"], span["ts"], span["dur"]) for span in spans] == [
        ("host to device", 5.0, 4.0),
        ("from CUDA", 6.0, 1.0),
    ]


def test_the_command(recorded: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "t.json"
    assert main([str(recorded), "--perfetto", str(path)]) == 0
    count = len([e for e in json.loads(path.read_text())["traceEvents"] if e["ph"] == "X"])
    assert capsys.readouterr().out == f"{path}: {count} events\n"
    assert count > len(load(recorded).kernels)
    assert main([str(recorded), "--perfetto", str(tmp_path)]) == 1
    assert f"viz: {tmp_path} cannot be written" in capsys.readouterr().err
    with pytest.raises(SystemExit):
        main([str(recorded), "--perfetto", str(path), "--serve"])
    assert "--serve and --perfetto do not go together" in capsys.readouterr().err
