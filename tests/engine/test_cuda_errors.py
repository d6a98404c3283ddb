"""What whit says when a GPU, its driver or a kernel fails. The driver is one of Python that returns error codes."""

from __future__ import annotations

import ctypes
import gc
import os
import random
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from gpus import needs_gpu

from engine.fake_gpu import FakeLibrary, fake_gpu
from whit import Context, Device, Tensor, TinyJit
from whit.errors import BackendError, DeviceError
from whit.runtime.buffer import OutOfMemoryError, reset_peaks, usage
from whit.runtime.cuda import driver as cuda_driver

ROOT = Path(__file__).parents[2]
PATHS = os.pathsep.join(map(str, (ROOT, ROOT / "tests")))


@pytest.fixture
def gpu(monkeypatch: pytest.MonkeyPatch) -> Iterator[FakeLibrary]:
    with fake_gpu(monkeypatch, gpus=2) as library:
        yield library


def loaded(monkeypatch: pytest.MonkeyPatch, library: Any) -> cuda_driver.Driver:
    """The driver of a machine that has this library."""

    def load(name: str) -> Any:
        if library is None:
            raise OSError(f"{name}: cannot open shared object file")
        return library

    monkeypatch.setattr(ctypes, "CDLL", load)
    return cuda_driver.load_driver.__wrapped__()


def test_no_driver(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(DeviceError, match=r'(?s)there is no NVIDIA driver.*cannot open shared.*use "CPU"'):
        loaded(monkeypatch, None)


@pytest.mark.parametrize(
    ("code", "words"),
    [(100, r"there is no NVIDIA GPU that can be used\n.*CUDA_VISIBLE_DEVICES"), (803, "the driver cannot be used")],
)
def test_a_driver_without_a_device(monkeypatch: pytest.MonkeyPatch, code: int, words: str) -> None:
    library = FakeLibrary(random.Random(0), codes={"cuInit": code})
    with pytest.raises(DeviceError, match=f"(?s){words}"):
        loaded(monkeypatch, library)


def test_a_number_that_no_gpu_has(gpu: FakeLibrary) -> None:
    with pytest.raises(DeviceError, match=r'(?s)there is no GPU 7.*has 2, counted from 0.*"CUDA" to "CUDA:1"'):
        Tensor([1.0], device="CUDA:7").realize()


def test_a_driver_that_is_too_old(gpu: FakeLibrary) -> None:
    gpu.missing.add("cuMemcpyHtoDAsync_v2")
    with pytest.raises(BackendError, match=r"the driver has no cuMemcpyHtoDAsync_v2(.|\n)*too old"):
        Tensor([1.0], device="CUDA").realize()


def test_out_of_memory(gpu: FakeLibrary, monkeypatch: pytest.MonkeyPatch) -> None:
    gc.collect()
    before = usage("CUDA").now  # of tests before this one
    x = Tensor(np.ones(1 << 18, np.float32), device="CUDA").realize()
    gpu.codes["cuMemAlloc_v2"] = 2
    with pytest.raises(OutOfMemoryError) as caught:
        (x.reshape(512, 512) @ x.reshape(512, 512)).realize()
    lines = str(caught.value).splitlines()
    assert lines[0].startswith("out of memory: 1,048,576 bytes on CUDA, asked for at test_cuda_errors.py:")
    in_use = f"{before + (1 << 20):,} bytes are in use on CUDA"
    assert lines[1] == f"  {in_use}, 1,000 of 2,000 bytes are free on the device"
    assert lines[2].startswith("  1,048,576 bytes on CUDA, made at test_cuda_errors.py:")
    del gpu.codes["cuMemAlloc_v2"]
    assert (x + 1).sum().item() == 2 << 18  # it goes on


def test_numbers_of_a_program_do_not_count_as_memory_in_use(gpu: FakeLibrary) -> None:
    x = Tensor([1.0, 2.0], device="CUDA").realize()
    reset_peaks()
    before = usage("CUDA").now
    y = (x * 3.5 + 0.25).realize()
    assert usage("CUDA").now - before == y.nbytes()
    assert usage("CUDA").peak - before == y.nbytes()


def test_memory_that_is_kept_is_given_up_for_code(gpu: FakeLibrary) -> None:
    x = Tensor([1.0], device="CUDA").realize()
    del x
    device: Any = Device["CUDA"].gpu  # type: ignore[attr-defined]
    gpu.codes["cuModuleLoadDataEx"] = 2
    with pytest.raises(
        BackendError, match=r"the driver does not take a kernel(.|\n)*the source is in (.*\.ptx)"
    ) as caught:
        device.load_module(b"some PTX")
    assert gpu.calls.count("cuModuleLoadDataEx") == 2 and "cuMemFree_v2" in gpu.calls
    path = Path(re.findall(r"the source is in (.*)", str(caught.value))[0])
    assert path.read_bytes() == b"some PTX"
    path.unlink()


@pytest.mark.parametrize("is_captured", [False, True])
@pytest.mark.parametrize(
    ("code", "words"),
    [
        (700, "a kernel accessed memory that is not its own"),
        (716, "a kernel accessed memory at an address that is not aligned"),
        (719, "a kernel failed"),
    ],
)
def test_a_kernel_that_fails(gpu: FakeLibrary, code: int, words: str, is_captured: bool) -> None:
    step = TinyJit(lambda x: (x @ x).softmax(0)) if is_captured else lambda x: (x @ x).softmax(0).realize()
    x = Tensor(np.ones((3, 3), np.float32), device="CUDA").realize()
    for _ in range(3):
        y = step(x)
    gpu.codes["cuEventSynchronize"] = gpu.codes["cuStreamSynchronize"] = code  # the driver tells it later
    with pytest.raises(BackendError, match=words) as caught:
        y.numpy()
    text = str(caught.value)
    assert "started last: " in text and "add_reduce_3" in text and "CHECK_OOB=1" in text
    path = Path(re.findall(r"the source is in (.*)", text)[0])
    assert "// add_reduce_3" in path.read_text()
    path.unlink()
    gpu.codes.clear()
    for again in (y.numpy, lambda: step(x), lambda: Tensor([1.0], device="CUDA").realize()):
        with pytest.raises(DeviceError, match=r"an earlier kernel failed(.|\n)*new process"):
            again()
    assert Tensor([1.0], device="CUDA:1").tolist() == [1.0]  # another one works


def test_a_device_that_is_lost(gpu: FakeLibrary) -> None:
    x = Tensor([1.0], device="CUDA").realize()
    gpu.codes["cuEventSynchronize"] = 214
    with pytest.raises(BackendError, match=r"has an error that cannot be corrected(.|\n)*nvidia-smi") as caught:
        x.tolist()
    assert "CHECK_OOB" not in str(caught.value)
    with pytest.raises(DeviceError):
        (x + 1).realize()


def test_a_launch_that_is_refused_leaves_the_source_and_the_device_usable(gpu: FakeLibrary) -> None:
    x = Tensor([1.0], device="CUDA").realize()
    gpu.codes["cuLaunchKernel"] = 701
    with pytest.raises(BackendError, match=r"cannot be started: it needs more registers or shared memory") as caught:
        (x + 1).realize()
    text = str(caught.value)
    assert "\n  it is add_1\n" in text and "nvidia-smi" not in text
    path = Path(re.findall(r"the source is in (.*)", text)[0])
    assert "// add_1" in path.read_text()
    path.unlink()
    gpu.codes.clear()
    assert (x + 1).tolist() == [2.0]


@pytest.mark.parametrize(
    ("compute", "arch"),
    [
        ((7, 5), "sm_75"),
        ((8, 0), "sm_80"),
        ((8, 6), "sm_80"),
        ((8, 9), "sm_89"),
        ((9, 0), "sm_90a"),
        ((10, 0), "sm_100"),  # none of sm_90a's, which runs nowhere else
        ((10, 3), "sm_100"),
        ((11, 0), "sm_100"),
        ((12, 1), "sm_120"),
    ],
)
def test_the_newest_code_that_runs_on_a_gpu(gpu: FakeLibrary, compute: tuple[int, int], arch: str) -> None:
    gpu.compute = compute
    target = Device["CUDA"].target
    assert target is not None and (target.arch, target.shared_bytes) == (arch, 163 * 1024)


def test_a_gpu_that_is_too_old(gpu: FakeLibrary) -> None:
    gpu.compute = (7, 2)
    with pytest.raises(DeviceError, match=r'is too old: its compute capability is 7\.2(.|\n)*7\.5(.|\n)*Use "CPU"'):
        Device["CUDA"]


def test_buffers_that_go_after_a_failure_say_nothing(gpu: FakeLibrary, capsys: pytest.CaptureFixture[str]) -> None:
    with Context():
        x = Tensor(np.ones(1 << 19, np.float32), device="CUDA").realize()
        gpu.codes["cuEventRecord"] = 700
        del x
    assert capsys.readouterr().err == ""


@pytest.mark.slow
def test_tensors_that_are_alive_when_python_ends_say_nothing() -> None:
    program = """
import pytest
import numpy as np
from engine.fake_gpu import fake_gpu
from whit import Tensor, TinyJit
patch = pytest.MonkeyPatch()
gpu = fake_gpu(patch)
gpu.__enter__()
kept = [Tensor(np.ones(1 << 19, np.float32), device="CUDA").realize()]
step = TinyJit(lambda x: (x.to("CUDA") + 1, x))
kept.append(step(Tensor(np.ones(8, np.float32), device="CPU")))
kept.append(kept[0].__dlpack__())
kept.append(kept)
"""
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, env={**os.environ, "PYTHONPATH": PATHS}
    )
    assert (done.returncode, done.stderr) == (0, "")


# ---- a real one


@needs_gpu
def test_an_illegal_access_names_the_kernel_and_its_source() -> None:
    program = """
import ctypes
from whit import Device, Tensor
gpu = Device["CUDA"].gpu
text = b'''.version 8.0
.target sm_80
.address_size 64
.visible .entry bad(.param .u64 p) { .reg .u64 %a; ld.param.u64 %a, [p]; st.global.u32 [%a], 1; ret; }
'''
value = ctypes.c_uint64(64)
pointers = (ctypes.c_void_p * 1)(ctypes.addressof(value))
x = Tensor([1.0], device="CUDA").realize()
gpu.launch(gpu.load_module(text).function("bad"), 1, 1, pointers, ("bad", (lambda: text,)))
for _ in range(2):
    try:
        x.numpy()
    except Exception as error:
        print(type(error).__name__, error)
"""
    found = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True).stdout
    assert "BackendError CUDA: a kernel accessed memory that is not its own: CUDA_ERROR_ILLEGAL_ADDRESS" in found
    assert "started last: bad" in found and "CHECK_OOB=1" in found
    assert "DeviceError CUDA: an earlier kernel failed with CUDA_ERROR_ILLEGAL_ADDRESS" in found
    path = Path(re.findall(r"the source is in (.*)", found)[0])
    assert b".visible .entry bad" in path.read_bytes()
    path.unlink()


@needs_gpu
def test_a_child_of_a_process_that_has_not_used_a_gpu_may() -> None:
    program = """
import os
from whit import Tensor
child = os.fork()
print((Tensor([1.0], device="CUDA") + 1).tolist(), flush=True)
if child:
    os.waitpid(child, 0)
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert done.stdout == "[2.0]\n[2.0]\n", done.stderr
