"""Targets are read from their names, name themselves, and describe this machine without loading a compiler."""

import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path

import pytest

from whit import target as target_module
from whit.errors import DeviceError
from whit.target import available_cores, host_target, parse_target


def test_a_device_alone_is_this_machine() -> None:
    target = parse_target("CPU")
    assert target == host_target()
    assert (target.device, target.renderer) == ("CPU", "LLVM")
    assert target.cores == available_cores()
    assert target.l1_bytes > 0 and target.l2_bytes > 0


@pytest.mark.parametrize(
    "text", ["CPU", "CPU:C", "CPU:LLVM:znver4", "CPU:C:skylake-avx512", "CPU:LLVM:x86-64", "CPU:LLVM:cortex-a76"]
)
def test_a_target_reads_back_from_its_text(text: str) -> None:
    target = parse_target(text)
    assert parse_target(str(target)) == target
    assert str(target).startswith(text)
    assert parse_target(text.lower()) == target


@pytest.mark.parametrize(
    "arch, vector_bytes, registers, fma, half, triple",
    [
        ("x86-64", 16, 16, False, False, "x86_64-unknown-linux-gnu"),
        ("x86-64-v3", 32, 16, True, True, "x86_64-unknown-linux-gnu"),
        ("znver4", 64, 32, True, True, "x86_64-unknown-linux-gnu"),
        ("aarch64", 16, 32, True, True, "aarch64-unknown-linux-gnu"),
    ],
)
def test_what_machines_can_do(arch: str, vector_bytes: int, registers: int, fma: bool, half: bool, triple: str) -> None:
    target = parse_target(f"CPU:LLVM:{arch}")
    assert (target.vector_bytes, target.vector_registers) == (vector_bytes, registers)
    assert (target.has_fma, target.has_half) == (fma, half)
    if arch != host_target().arch:
        assert target.triple == triple


@pytest.mark.parametrize(
    "text, message",
    [
        ("CPPU", 'there is no device "CPPU". Did you mean "CPU"?'),
        ("CPU:LVM", 'there is no renderer "LVM" in "CPU:LVM". Did you mean "LLVM"?'),
        ("CPU:LLVM:znver44", 'there is no architecture "znver44" in "CPU:LLVM:znver44". Did you mean "znver4"?'),
    ],
)
def test_unknown_names_are_answered_with_the_nearest(text: str, message: str) -> None:
    with pytest.raises(DeviceError) as caught:
        parse_target(text)
    assert caught.value.what == f"target: {message}"
    assert caught.value.details.startswith("known: ")
    assert 'as in "CPU"' in caught.value.fix


CPUINFO = "processor\t: 0\nvendor_id\t: {}\ncpu family\t: {}\nmodel\t\t: {}\nflags\t\t: {}\n\nprocessor\t: 1\n"


def _listed(flags: Iterable[str]) -> str:
    return " ".join(sorted(flags))  # in one order: test ids are made of it


ICELAKE = _listed(
    target_module._LINUX_FLAGS.get(feature, feature) for feature in target_module._ARCHS["icelake-server"].features
)
AVX2 = _listed(
    target_module._LINUX_FLAGS.get(feature, feature) for feature in target_module._ARCHS["x86-64-v3"].features
)


@pytest.mark.parametrize(
    "vendor, family, model, flags, arch",
    [
        ("GenuineIntel", 6, 106, ICELAKE, "icelake-server"),
        ("GenuineIntel", 6, 106, AVX2, "x86-64-v3"),  # a virtual machine hides AVX-512
        ("GenuineIntel", 6, 250, ICELAKE, "x86-64-v4"),  # too new to be known
        ("AuthenticAMD", 25, 0x61, ICELAKE + " avx512_bf16", "znver4"),
        ("AuthenticAMD", 25, 0x21, AVX2, "znver3"),
        ("AuthenticAMD", 23, 0x31, AVX2, "znver2"),
        ("Somebody", 1, 1, "sse2", "x86-64"),
    ],
)
def test_processors_are_recognised(vendor: str, family: int, model: int, flags: str, arch: str) -> None:
    text = CPUINFO.format(vendor, family, model, flags).partition("\n\n")[0]
    processor = {key.strip(): value.strip() for key, _, value in (line.partition(":") for line in text.splitlines())}
    assert target_module._x86_arch(processor) == arch


@pytest.mark.parametrize(
    ("arch", "copies", "fp8", "early", "wgmma"),
    [
        ("sm_75", False, False, False, False),
        ("sm_80", True, False, False, False),
        ("sm_89", True, True, False, False),
        ("sm_90a", True, True, True, True),
        ("sm_100", True, True, True, False),  # has other instructions for what wgmma does
        ("sm_120", True, True, True, False),
    ],
)
def test_gpus_say_what_they_have(arch: str, copies: bool, fp8: bool, early: bool, wgmma: bool) -> None:
    target = parse_target(f"CUDA:PTX:{arch}")
    assert (target.has_async_copies, target.has_fp8, target.has_early_launches, target.has_wgmma) == (
        copies,
        fp8,
        early,
        wgmma,
    )
    of_sm_80 = (target.has_bfloat16, target.has_tf32, target.has_wide_mma, target.has_extremes_of_nan)
    assert (*of_sm_80, target.has_paired_conversions) == (copies,) * 5


def test_asking_for_the_target_loads_no_compiler() -> None:
    program = "import sys; from whit.target import parse_target; parse_target('CPU'); print(*sys.modules)"
    root = Path(target_module.__file__).parent.parent
    command = [sys.executable, "-c", program]
    loaded = subprocess.run(command, capture_output=True, text=True, check=True, cwd=root).stdout.split()
    assert "whit.target" in loaded
    assert "llvmlite" not in loaded and "numpy" not in loaded
