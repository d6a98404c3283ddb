"""When kernels and copies ran on a GPU: recordings, lines of DEBUG, best times. The GPU is one of Python, on which all
that is done takes a millisecond."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import whit
from engine.fake_gpu import FakeLibrary, fake_gpu
from engine.test_cuda_graph import branches
from whit import Context, Device, Tensor, TinyJit
from whit.engine.plan.plan import make_plan
from whit.ir.uop import UOp
from whit.recording import hooks
from whit.viz.load import load
from whit.viz.model import Trace
from whit.viz.page.activity import dependencies, timeline_document
from whit.viz.report.overview import overview_data, overview_text

MS = 1_000_000


@pytest.fixture
def gpu(monkeypatch: pytest.MonkeyPatch) -> Iterator[FakeLibrary]:
    with fake_gpu(monkeypatch) as library:
        yield library


def tensors(count: int) -> list[Tensor]:
    return [Tensor(np.ones((5, 5), np.float32), device="CUDA").realize() for _ in range(count)]


def recorded(path: Path, run: Any) -> Trace:
    with whit.trace(path):
        run()
    return load(path)


def test_a_recording_has_the_device_times_of_kernels(gpu: FakeLibrary, tmp_path: Path) -> None:
    x, w = tensors(2)
    trace = recorded(tmp_path / "t", lambda: Tensor.realize(*branches(x, w)))
    (run,) = trace.runs
    (schedule,) = trace.schedules.values()
    assert schedule.device == "CUDA" and len(run.times) == len(schedule.calls) > 3
    assert [end - start for start, end in run.times] == [2 * MS] * len(run.times)  # the kernel, and the event after it
    assert [start for start, _ in run.times] == sorted(start for start, _ in run.times)
    assert sum(len(kernel.durations) for kernel in trace.kernels.values()) == len(run.times)
    document = timeline_document(trace)
    assert document["lanes"][0] == {"device": "CUDA", "queue": "stream"}
    assert any(dependencies(trace, 0))


def test_nothing_waits_while_it_is_recorded(gpu: FakeLibrary, tmp_path: Path) -> None:
    x, w = tensors(2)
    Device["CUDA"].synchronize()

    def run() -> None:
        Tensor.realize(*branches(x, w))  # sets the anchor
        before = len(gpu.calls)
        for _ in range(3):
            Tensor.realize(*branches(x, w))
        assert not {"cuEventSynchronize", "cuStreamSynchronize"} & set(gpu.calls[before:])
        assert gpu.streams[Device["CUDA"].gpu.stream].pending  # type: ignore[attr-defined]

    assert [len(run.times) for run in recorded(tmp_path / "t", run).runs] == [5] * 4


def test_replays_are_recorded_kernel_by_kernel(gpu: FakeLibrary, tmp_path: Path) -> None:
    step = TinyJit(branches)
    x, w = tensors(2)
    step(x, w)
    step(x, w)
    trace = recorded(tmp_path / "t", lambda: [step(x, w) for _ in range(2)])
    assert [len(run.times) for run in trace.runs] == [step.kernels] * 2
    assert [event["kind"] for event in trace.events] == ["jit replay"] * 2
    gpu.calls.clear()
    step(x, w)
    assert "cuGraphLaunch" in gpu.calls and "cuLaunchKernel" not in gpu.calls


def test_copies_are_recorded(gpu: FakeLibrary, tmp_path: Path) -> None:
    data = np.ones((1000, 8), np.float32)

    def run() -> None:
        x = Tensor(data, device="CUDA").realize()
        x.to("CPU").realize()
        Tensor(data[:10], device="CPU").to("CUDA").numpy()

    trace = recorded(tmp_path / "t", run)
    assert sorted((copy.what, copy.nbytes) for copy in trace.copies) == [
        ("device to host", 320),
        ("device to host", 32_000),
        ("host to device", 320),
        ("host to device", 32_000),
    ]
    assert all(copy.device == "CUDA" and copy.end - copy.start >= 2 * MS for copy in trace.copies)
    assert {trace.line(copy.stack).partition(":")[0] for copy in trace.copies} == {"test_cuda_times.py"}
    assert "host to device       2" in overview_text(overview_data(trace))
    document = timeline_document(trace)
    assert [row[3] for row in document["copies"]] == [copy.nbytes for copy in trace.copies]
    assert {document["lanes"][row[0]]["queue"] for row in document["copies"]} == {"host to device", "device to host"}


def test_a_run_without_kernels(gpu: FakeLibrary, tmp_path: Path) -> None:
    device: Any = Device["CUDA"]
    plan = make_plan(UOp.linear(), 0)
    trace = recorded(tmp_path / "t", lambda: device.run(device.load(plan), [], {}))
    assert [run.times for run in trace.runs] == [[]]


def test_events_are_used_again(gpu: FakeLibrary, tmp_path: Path) -> None:
    x, w = tensors(2)

    def run() -> None:
        for _ in range(20):
            Tensor.realize(*branches(x, w))
            Device["CUDA"].synchronize()

    recorded(tmp_path / "t", run)
    assert gpu.calls.count("cuEventCreate") < 30
    assert hooks.recorder is None


def test_a_recording_on_a_device_that_fails_still_ends(gpu: FakeLibrary, tmp_path: Path) -> None:
    x, w = tensors(2)

    def run() -> None:
        Tensor.realize(*branches(x, w))
        gpu.codes["cuStreamSynchronize"] = 719
        with pytest.raises(whit.errors.BackendError):
            Device["CUDA"].synchronize()

    assert recorded(tmp_path / "t", run).is_whole


def test_debug_shows_the_time_on_the_device(gpu: FakeLibrary, capsys: pytest.CaptureFixture[str]) -> None:
    (x,) = tensors(1)
    capsys.readouterr()
    y = x + 1
    (kernel,) = y.kernels()
    assert kernel.best_seconds is None
    with Context(DEBUG=2):
        y.realize()
    assert "tm  2000.00us" in capsys.readouterr().out
    assert kernel.best_seconds == pytest.approx(0.002)
