"""Names of devices, the default, opening."""

import re
import subprocess
import sys
import threading

import pytest

from whit.config import Context
from whit.device import Device
from whit.engine.report.counters import Counts, GlobalCounters
from whit.errors import ArgumentError, DeviceError
from whit.runtime.buffer import Buffer
from whit.target import host_target

HOST = host_target().arch
OTHER = "haswell" if HOST != "haswell" else "skylake"


@pytest.mark.parametrize(
    ("name", "canonical"),
    [
        ("cuda", "CUDA"),
        ("CUDA:0", "CUDA"),
        ("cpu:1", "CPU:1"),
        (" Cpu ", "CPU"),
        ("cpu:01", "CPU:1"),
        ("python", "PYTHON"),
        ("cpu:llvm", "CPU"),
        (f"CPU:LLVM:{HOST}", "CPU"),
        ("cpu:c", "CPU:C"),
        (f"CPU:C:{HOST}", "CPU:C"),
        (f"CPU:LLVM:{OTHER}", f"CPU:LLVM:{OTHER}"),
        (f"cpu:c:{OTHER.upper()}", f"CPU:C:{OTHER}"),
        (f"CPU::{OTHER}", f"CPU:LLVM:{OTHER}"),
        ("null:llvm", "NULL"),
        ("null:c", "NULL:C"),
        ("null:llvm:Cortex-A76", "NULL:LLVM:cortex-a76"),
        ("disk:/Some/Path", "DISK:/Some/Path"),
    ],
)
def test_names_have_one_spelling(name: str, canonical: str) -> None:
    assert Device.canonicalize(name) == canonical


def test_unknown_names_are_refused_with_the_nearest() -> None:
    with pytest.raises(DeviceError, match=r'device: there is no device "cdua"\. Did you mean "CUDA"\?\n  known: CPU'):
        Device.canonicalize("cdua")
    with pytest.raises(DeviceError, match='"x" in "CUDA:x" is no number'):
        Device.canonicalize("CUDA:x")
    with pytest.raises(ArgumentError, match="3 is no name of a device"):
        Device.canonicalize(3)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("CPU:LVM", 'there is no renderer "LVM" in "CPU:LVM". Did you mean "LLVM"?\n  known: LLVM, C'),
        ("NULL:cc", 'there is no renderer "CC" in "NULL:cc".'),
        ("CPU:LLVM:znver44", 'there is no architecture "znver44" in "CPU:LLVM:znver44". Did you mean "znver4"?'),
        ("null:Znver4", '"znver4" in "null:Znver4" is an architecture'),
        ("null:Znver4", 'Did you mean "NULL:LLVM:znver4"?'),
    ],
)
def test_unknown_targets_are_refused_with_the_nearest(name: str, message: str) -> None:
    with pytest.raises(DeviceError, match=re.escape(message)):
        Device.canonicalize(name)


def test_a_device_is_opened_once() -> None:
    assert Device["cpu:1"] is Device["CPU:1"]
    assert Device["CPU"].name == "CPU"
    assert str(Device["CPU"].target).startswith("CPU:LLVM:")
    Device["CPU"].synchronize()
    Device.synchronize()
    assert "CPU:1" in Device.opened()


def test_a_device_that_cannot_be_opened_says_which_can() -> None:
    with pytest.raises(
        DeviceError, match=r"REMOTE:x cannot be opened by this version of whit\n  devices that can: CPU"
    ):
        Device["REMOTE:x"]


@pytest.mark.cpu
def test_the_default_can_be_set_for_a_block_or_for_good() -> None:
    assert Device.DEFAULT == "CPU"
    with Context(DEV="python"):
        assert Device.DEFAULT == "PYTHON"
        Device.DEFAULT = "cpu:2"
        assert Device.DEFAULT == "CPU:2"
        assert Device.canonicalize(None) == "CPU:2"
    assert Device.DEFAULT == "CPU"
    Device.DEFAULT = "null"
    seen: list[str] = []
    thread = threading.Thread(target=lambda: seen.append(Device.DEFAULT))
    thread.start()
    thread.join()
    Device.DEFAULT = "CPU"
    assert seen == ["NULL"]


def test_the_default_comes_from_the_environment() -> None:
    program = "from whit.device import Device; print(Device.DEFAULT)"
    found = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True, env={"DEV": "python:3"}
    ).stdout
    assert found == "PYTHON:3\n"


def test_counters_add_up_and_reset() -> None:
    GlobalCounters.reset()
    GlobalCounters.add("CPU", Counts(kernel_count=2, global_ops=10, bytes_read=100, bytes_written=20))
    GlobalCounters.add("CPU:1", Counts(kernel_count=1, time_sum_s=0.5))
    assert GlobalCounters.kernel_count == 3
    assert GlobalCounters.global_ops == 10
    assert GlobalCounters.global_mem == 120
    assert GlobalCounters.time_sum_s == 0.5
    assert GlobalCounters.device("CPU").bytes_written == 20
    assert GlobalCounters.device("CPU:1").kernel_count == 1
    GlobalCounters.reset()
    assert GlobalCounters.kernel_count == 0


def test_memory_counters_follow_buffers() -> None:
    GlobalCounters.reset()
    before = GlobalCounters.mem_used
    buffer = Buffer("CPU:9", 1000)
    assert GlobalCounters.mem_used - before == 1000
    assert GlobalCounters.device("CPU:9").mem_used == 1000
    del buffer
    assert GlobalCounters.mem_used == before
    assert GlobalCounters.mem_peak - before == 1000
    GlobalCounters.reset()
    assert GlobalCounters.device("CPU:9").mem_peak == 0
