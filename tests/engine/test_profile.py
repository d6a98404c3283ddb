"""PROFILE and `whit.profile`: what ran, how often, how many bytes; on processors, and on a GPU of Python on which all
that is done takes a millisecond."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

import whit
from engine.fake_gpu import FakeLibrary, fake_gpu
from engine.test_cuda_graph import branches
from whit import Context, Device, Tensor, TinyJit
from whit.engine.report import launch_names
from whit.engine.report import profile as module
from whit.engine.report import roofline as roof
from whit.engine.report.profile import Profile, Spans
from whit.engine.report.profile_table import MOST_KERNELS_SHOWN
from whit.errors import ArgumentError, BackendError
from whit.kernel.rates import Rates
from whit.recording import hooks
from whit.viz.load import load

MS = 1_000_000


@pytest.fixture(autouse=True)
def nothing_is_left() -> Iterator[None]:
    yield
    assert hooks.timers() == ()


@pytest.fixture
def gpu(monkeypatch: pytest.MonkeyPatch) -> Iterator[FakeLibrary]:
    with fake_gpu(monkeypatch, gpus=2) as library:
        yield library


def ones(*shape: int, device: str = "PYTHON") -> Tensor:
    return Tensor(np.ones(shape, np.float32), device=device).realize()


# ---- what is counted


def test_calls_and_bytes_are_those_of_the_kernels() -> None:
    x = ones(4, 8)
    with whit.profile() as found:
        for _ in range(3):
            (x + 1).realize()
        (x * x).sum(1).realize()
    add, total = sorted(found.kernels, key=lambda row: -row.calls)
    assert [(row.device, row.name, row.result, row.largest, row.calls, row.timed) for row in (add, total)] == [
        ("PYTHON", "add_4x8", "float32(4, 8)", "", 3, 3),
        ("PYTHON", "add_reduce_4", "float32(4,)", "float32(4, 8)", 1, 1),
    ]
    assert (add.ops, add.nbytes, total.ops, total.nbytes) == (3 * 32, 3 * (32 + 32) * 4, 64, (32 + 4) * 4)
    assert 0 < add.best_seconds <= add.mean_seconds <= add.seconds < found.seconds
    assert found.copies == [] and add.roof() is None


def test_replays_are_timed_kernel_by_kernel(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(roof, "roofline_of_this_machine", lambda: Rates(1e6, 1e9))
    x, step = ones(6, 6, device="CPU"), TinyJit(lambda x: ((x @ x).sum(1) + 1).contiguous().softmax(0))
    step(x)
    with whit.profile() as found:
        for _ in range(4):
            step(x)
    assert sum(row.calls for row in found.kernels) == 4 * step.kernels > 4
    assert all(row.calls == row.timed == 4 for row in found.kernels)
    limits = [row.roof() for row in found.kernels]
    assert all(limit is not None and limit[0] == "memory" for limit in limits)
    row = found.kernels[0]
    assert row.roof() == ("memory", pytest.approx(row.nbytes / 1e6 / row.seconds))
    assert "CPU (this machine: 0.0 GB/s)" in str(found) and "  memory  " in str(found)


@pytest.mark.parametrize("device", ["NULL", "NULL:PTX:sm_80"])
def test_nothing_runs_on_null(device: str) -> None:
    x = Tensor.empty(64, 64, device=device).realize()
    with whit.profile() as found:
        (x + x).realize()
    assert [(row.calls, row.timed, row.seconds) for row in found.kernels] == [(1, 0, 0.0)]
    lines = str(found).splitlines()
    assert lines[0].endswith(f"s, 1 kernel and 0 copies on {device}")
    assert lines[-2].split() == [
        *("1", "add", "test_profile.py:89", "float32(64,", "64),", "4096", "operations,"),
        *("reads", "16.38", "kB,", "writes", "16.38", "kB", "add_64x64"),
    ]
    assert lines[-1].startswith("scheduling and compiling took ") and "one by one" not in str(found)


def test_copies_in_memory_and_of_files(tmp_path: Path) -> None:
    (tmp_path / "f").write_bytes(bytes(4096))
    x = ones(100)
    with whit.profile() as found:
        Tensor(tmp_path / "f").to("PYTHON").realize()
        x.to("CPU:1").realize()
    rows = [(row.device, row.what, row.calls, row.nbytes, row.timed) for row in found.copies]
    assert rows == [("CPU:1", "inside the machine", 1, 400, 1), ("DISK", "read", 1, 4096, 1)]
    assert "copy read, 4.10 kB" in str(found)


# ---- what is in force


def test_launches_by_name() -> None:
    x = Tensor.ones(8, 8).contiguous().realize()
    with whit.profile() as found:
        for _ in range(3):
            (x.softmax() * 2).realize()
        x.exp().realize()
    rows = {row.name: (row.calls, row.timed, row.phase) for row in found.launches}
    assert rows == {"softmax + mul": (3, 3, "forward"), "exp": (1, 1, "forward")}
    text = found.text(by="name")
    assert re.search(r" 3 .* softmax \+ mul +\w+_8x8$", text, re.MULTILINE) and "kernel" in text.splitlines()[0]
    assert found.text(1, by="name").splitlines()[-1].endswith("1 more")
    with pytest.raises(ArgumentError, match="profile: a table by 'line'"):
        found.text(by="line")
    with whit.profile() as found:
        pass
    assert "nothing ran" in found.text(by="name")


def test_an_outer_block_has_what_an_inner_one_has(capsys: pytest.CaptureFixture[str]) -> None:
    x = ones(3)
    with whit.profile() as outer:
        (x + 1).realize()
        with Context(PROFILE=1):
            (x + 1).realize()
        with Context(PROFILE=0):
            (x + 1).realize()
        with whit.profile() as inner:
            (x + 1).realize()
    (x + 1).realize()
    assert [row.calls for row in outer.kernels] == [3] and [row.calls for row in inner.kernels] == [1]
    shown = capsys.readouterr()
    assert shown.out == "" and shown.err.count("PROFILE: ") == 1 and ", 1 kernel and 0 copies on PYTHON" in shown.err


def test_another_thread_is_not_in_the_block() -> None:
    x = ones(3)
    with whit.profile() as found:
        thread = threading.Thread(target=lambda: (x + 1).realize())
        thread.start()
        thread.join()
    assert found.kernels == []


def test_all_threads_are_in_the_process(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    registered, watched = [], list(launch_names.watched)
    monkeypatch.setattr("atexit.register", lambda *call: registered.append(call))
    with Context(PROFILE=0):
        module.start_from_environment()
        assert registered == []
    monkeypatch.setattr(module, "PROFILE", type("Set", (), {"value": 1}))
    module.start_from_environment()
    x = ones(3)
    thread = threading.Thread(target=lambda: (x + 1).realize())
    thread.start()
    thread.join()
    ((end, *arguments),) = registered
    end(*arguments)
    assert "1 kernel and 1 copy on PYTHON" in capsys.readouterr().err
    assert launch_names.watched == watched


def test_a_block_that_fails_still_shows_its_table(capsys: pytest.CaptureFixture[str]) -> None:
    x = ones(3)

    @Context(PROFILE=1)
    def interrupted() -> None:
        (x + 1).realize()
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        interrupted()
    assert "float32(3,)  add_3\n" in capsys.readouterr().err


def test_a_block_in_which_nothing_ran_says_why(capsys: pytest.CaptureFixture[str]) -> None:
    with Context(PROFILE=1):
        _lazy = Tensor.ones(3) + 1
    assert "s, nothing ran: work is done when a value is read or realised" in capsys.readouterr().err


def test_the_longest_are_shown_and_the_rest_is_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    tensors = [ones(i + 1) for i in range(4)]
    with whit.profile() as found:
        for x in tensors:
            (x + 1).realize()
    lines = found.text(1).splitlines()
    assert len(lines) == 8 and lines[-2].endswith("3 more kernels; PROFILE=2 shows them")
    assert lines[-2].split()[3] == "3"  # after the time, the share and its sign: calls
    with Context(PROFILE=2):
        for i in range(MOST_KERNELS_SHOWN + 1):
            (ones(1) + ones(i + 2)).realize()
    assert "more kernels" not in capsys.readouterr().err


# ---- a process


PROGRAM = """
import os, sys
from whit import Tensor
x = Tensor([1.0, 2.0]).realize()
(x + 1).realize()
if not os.fork():
    (x + 1).realize()
    sys.exit()
os.wait()
raise KeyboardInterrupt
"""


def run(text: str, setting: str) -> subprocess.CompletedProcess[str]:
    root = str(Path(whit.__file__).parents[1])
    settings = {**os.environ, "PYTHONPATH": root, "DEV": "PYTHON", "PROFILE": setting}
    return subprocess.run([sys.executable, "-c", text], env=settings, capture_output=True, text=True, check=False)


@pytest.mark.slow
def test_a_program_ends_with_its_table_also_when_it_is_interrupted() -> None:
    done = run(PROGRAM, "1")
    assert done.stdout == "" and "KeyboardInterrupt" in done.stderr
    assert done.stderr.count("PROFILE: ") == 1 and ", 1 kernel and 1 copy on PYTHON" in done.stderr


@pytest.mark.slow
def test_what_the_setting_cannot_be() -> None:
    done = run("import whit; print(whit.Tensor([1]).tolist())", "trace.json")
    assert done.stdout == "[1]\n"
    assert done.stderr.startswith('the environment variable PROFILE is "trace.json", which is not a whole number')


# ---- a GPU


def test_kernels_and_copies_of_a_gpu_have_its_times(gpu: FakeLibrary) -> None:
    x, w = (ones(5, 5, device="CUDA") for _ in range(2))
    step = TinyJit(branches)
    step(x, w)
    with whit.profile() as found:
        for _ in range(2):
            y = step(x, w)
        y[0].numpy()
        Tensor(np.ones(1000, np.float32), device="CUDA").realize()
    assert sum(row.calls for row in found.kernels) == 2 * step.kernels
    for row in found.kernels:
        assert row.mean_seconds == pytest.approx(0.002)  # the kernel, and the event after it
    copies = {row.what: (row.calls, row.nbytes) for row in found.copies}
    assert copies["host to device"] == (1, 4000) and copies["device to host"][0] == 1
    spans = found.spans["CUDA"]
    assert spans.busy() == pytest.approx(sum(row.seconds for row in (*found.kernels, *found.copies)) * 1e9, abs=MS / 10)
    assert found.kernels[0].roof() is not None
    assert "CUDA (a GPU of Python: 512 GB/s)" in str(found)
    gpu.calls.clear()
    step(x, w)
    assert "cuGraphLaunch" in gpu.calls and "cuLaunchKernel" not in gpu.calls


def test_each_gpu_has_a_part_of_the_table(gpu: FakeLibrary) -> None:
    x, y = ones(5, device="CUDA"), ones(5, device="CUDA:1")
    with whit.profile() as found:
        (x + 1).realize()
        (y + 1 + x.to("CUDA:1")).realize()
    assert [row.device for row in found.kernels] == ["CUDA", "CUDA:1"]
    assert [(row.device, row.what, row.nbytes) for row in found.copies] == [("CUDA:1", "from CUDA", 20)]
    heads = [line.partition(" (")[0] for line in str(found).splitlines() if "GPU of Python" in line]
    assert heads == ["CUDA", "CUDA:1"]


def test_nothing_waits_inside_of_a_block(gpu: FakeLibrary) -> None:
    x = ones(5, device="CUDA")
    with whit.profile():
        (x + 1).realize()  # sets the anchor
        gpu.calls.clear()
        kept = [(x + 1).realize() for _ in range(3)]
        assert not {"cuEventSynchronize", "cuStreamSynchronize"} & set(gpu.calls)
    del kept


def test_what_a_gpu_did_before_it_failed_is_shown(gpu: FakeLibrary) -> None:
    x = ones(5, device="CUDA")
    with whit.profile() as found:
        (x + 1).realize()
        Device["CUDA"].gpu.times.settle()  # type: ignore[attr-defined]
        (x + 1).realize()
        gpu.codes["cuStreamSynchronize"] = gpu.codes["cuEventSynchronize"] = 719
        with pytest.raises(BackendError):
            Device["CUDA"].synchronize()
    assert [(row.calls, row.timed) for row in found.kernels] == [(2, 1)]
    assert "float32(5,)  add_5\n" in str(found)


def test_a_recording_and_a_profile_at_once(gpu: FakeLibrary, tmp_path: Path) -> None:
    x = ones(5, device="CUDA")
    with whit.trace(tmp_path / "t"), whit.profile() as found:
        (x + 1).realize()
    (run_,) = load(tmp_path / "t").runs
    assert [row.seconds for row in found.kernels] == [pytest.approx((end - start) * 1e-9) for start, end in run_.times]


# ---- sums


def test_what_overlaps_counts_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MOST_SPANS", 4)
    spans = Spans()
    for start in range(0, 100, 10):
        spans.add(start, start + 5)
        spans.add(start + 3, start + 7)
    assert (spans.first, spans.last, spans.busy(), spans.busy()) == (0, 97, 70, 70)


def test_a_profile_without_an_end_goes_on() -> None:
    found = Profile()
    assert 0 < found.seconds < found.seconds + 1 and found.end == 0
