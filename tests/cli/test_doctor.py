"""Every diagnosis of `doctor`, on machines that are not here."""

import dataclasses
import json
import re
import sys
import tomllib
from pathlib import Path
from typing import Any

import pytest

from cli.schemas import differences, document
from whit import Context
from whit.cli import doctor, machine
from whit.cli.doctor import Finding, diagnose, report
from whit.cli.machine import PACKAGES, PYTHON, Machine, this_machine
from whit.cli.main import main
from whit.config import settings
from whit.engine.compile import disk_cache
from whit.engine.devices.device import BACKENDS
from whit.errors import BackendError
from whit.target import parse_target

ROOT = Path(__file__).parents[2]

GOOD = Machine(
    python=(3, 12, 1),
    packages={"numpy": "2.1.0", "ml_dtypes": "0.5.1", "llvmlite": "0.45.0"},
    environment={"HOME": "/home/ada", "DEBUG": "0"},
    bad_settings={},
    target=parse_target("CPU:LLVM:haswell"),
    processor="x86_64",
    cores=8,
    all_cores=8,
    quota=None,
    threads=8,
    memory=16 << 30,
    cache_on=True,
    cache_folder="/home/ada/.cache/whit/kernels",
    cache_error="",
    disk_free=100 << 30,
    gpus=(),
    compiler="/usr/bin/cc",
)


def found(**facts: Any) -> list[Finding]:
    """What is not ok on a machine that differs from a good one in these facts."""
    return [finding for finding in diagnose(dataclasses.replace(GOOD, **facts)) if finding.level != "ok"]


def test_a_good_machine_has_nothing_but_ok() -> None:
    assert found() == []
    topics = [finding.topic for finding in diagnose(GOOD)]
    assert list(dict.fromkeys(topics)) == [
        "python",
        "packages",
        "processor",
        "threads",
        "memory",
        "cache",
        "settings",
        "accelerators",
        "compiler",
    ]


OLD = parse_target("CPU:LLVM:x86-64-v2")

# facts that are not good -> topic, level, what is said, what to do
DIAGNOSED: dict[str, tuple[dict[str, Any], str, str, str, str]] = {
    "old python": ({"python": (3, 10, 9)}, "python", "problem", "Python 3.10.9 is too old", "3.11 or newer"),
    "no llvmlite": (
        {"packages": {**GOOD.packages, "llvmlite": None}},
        "packages",
        "problem",
        "llvmlite is not installed",
        'pip install "llvmlite>=0.45"',
    ),
    "old numpy": (
        {"packages": {**GOOD.packages, "numpy": "1.25.2"}},
        "packages",
        "problem",
        "numpy 1.25.2 is older than 1.26",
        'pip install "numpy>=1.26"',
    ),
    "old processor": ({"target": OLD}, "processor", "warning", "x86-64-v2: no AVX2 and FMA", "virtual machine"),
    "no code": ({"target": None, "processor": "mips"}, "processor", "problem", "no code for this processor (mips)", ""),
    "few threads": ({"threads": 2}, "threads", "warning", "2 of 8 cores: THREADS is set", "Unset THREADS"),
    "many threads": ({"threads": 99}, "threads", "warning", "99 threads, and this process has 8 cores", "THREADS=8"),
    "container": ({"quota": 1.5}, "threads", "warning", "8 threads, and this process may use 1.5", "Set THREADS=2."),
    "tiny container": ({"quota": 0.2}, "threads", "warning", "8 threads, and this process may use 0.2", "THREADS=1."),
    "affinity": ({"all_cores": 64}, "threads", "note", "may use 8 of 64 cores", "taskset"),
    "little memory": ({"memory": 100 << 20}, "memory", "warning", "100.0 MiB can be had", "Close other programs"),
    "unknown memory": ({"memory": None}, "memory", "note", "does not say", ""),
    "no cache": ({"cache_on": False}, "cache", "warning", "CACHE=0 is set", "Unset CACHE"),
    "no rights": (
        {"cache_error": "Permission denied"},
        "cache",
        "problem",
        "kernels cannot be kept in /home/ada/.cache/whit/kernels: Permission denied",
        "Set CACHE_DIR",
    ),
    "full disk": ({"disk_free": 1 << 20}, "cache", "problem", "1.0 MiB are free on the disk of", "cache clear"),
    "bad value": (
        {"bad_settings": {"DEBUG": 'the environment variable DEBUG is "x"'}, "environment": {"DEBUG": "x"}},
        "settings",
        "problem",
        'DEBUG is "x"',
        "Correct its value",
    ),
    "noopt": ({"environment": {"NOOPT": "1"}}, "settings", "warning", "NOOPT=1 is set: kernels are not", "Unset NOOPT"),
    "debug": ({"environment": {"DEBUG": "2"}}, "settings", "warning", "DEBUG=2 is set: whit prints", "Unset DEBUG"),
    "typo": ({"environment": {"THREAD": "2"}}, "settings", "note", "THREAD is set, which is no", "mean THREADS?"),
    "typo with _": ({"environment": {"NO_OPT": "1"}}, "settings", "note", "NO_OPT is set", "mean NOOPT?"),
    "prefix": ({"environment": {"WHIT_BEAM": "2"}}, "settings", "warning", "WHIT_BEAM is set", "mean BEAM?"),
    "gpu": ({"gpus": (("AMD", False),)}, "accelerators", "note", "AMD is here, without its driver", ""),
    "no compiler": ({"compiler": None}, "compiler", "note", "CPU:C cannot be used", "Nothing needs it."),
}


@pytest.mark.parametrize("name", DIAGNOSED)
def test_a_diagnosis_says_what_is_wrong_and_what_to_do(name: str) -> None:
    facts, topic, level, what, fix = DIAGNOSED[name]
    (finding,) = found(**facts)
    assert (finding.topic, finding.level) == (topic, level)
    assert what in finding.what
    assert fix in finding.fix
    assert level in ("note",) or finding.fix


def test_a_missing_driver_is_a_problem_where_whit_could_use_the_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(BACKENDS, "CUDA", "whit.engine.devices.cuda")
    (finding,) = found(gpus=(("NVIDIA", False),))
    assert finding.level == "problem"
    assert finding.fix.startswith("Install the driver of NVIDIA.")
    assert found(gpus=(("NVIDIA", True),)) == []


def test_names_of_other_programs_are_left_alone() -> None:
    names = ("PATH", "HOME", "LANG", "TERM", "DEVICE", "DEBUGINFOD_URLS", "PYTHONPATH", "OMP_NUM_THREADS")
    assert found(environment=dict.fromkeys((*names, "debug", "noopt"), "1")) == []
    # Both the setting and something like it: the setting was found, so the other is another program's.
    assert found(environment={"THREADS": "8", "THREAD": "1"}) == []


def test_settings_that_are_meant_for_debugging_exist() -> None:
    assert set(doctor.FOR_DEBUGGING) <= {variable.setting.name for variable in settings()}


def test_the_versions_are_those_of_pyproject() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert project["requires-python"] == f">={'.'.join(map(str, PYTHON))}"
    assert project["dependencies"] == [f"{name}>={'.'.join(map(str, least))}" for name, least in PACKAGES.items()]


@pytest.mark.parametrize(
    "version, numbers",
    [("1.26.4", (1, 26, 4)), ("2.0rc1", (2, 0)), ("0.45.0.dev1+g12", (0, 45, 0, 0)), ("x", (0,)), ("", (0,))],
)
def test_versions_are_compared_by_their_numbers(version: str, numbers: tuple[int, ...]) -> None:
    assert doctor._numbers(version) == numbers


# ---- the facts


def test_a_cache_folder_that_is_a_file_cannot_be_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(disk_cache, "folder", lambda: str(tmp_path / "new" / "kernels"))
    assert this_machine().cache_error == ""
    assert list((tmp_path / "new" / "kernels").iterdir()) == []  # what was tried is gone
    (tmp_path / "file").write_text("")
    monkeypatch.setattr(disk_cache, "folder", lambda: str(tmp_path / "file" / "kernels"))
    assert this_machine().cache_error == "Not a directory"


def test_limits_of_a_container_are_read(monkeypatch: pytest.MonkeyPatch) -> None:
    files = {
        "/sys/fs/cgroup/cpu.max": "150000 100000",
        "/sys/fs/cgroup/memory.max": "1000000",
        "/sys/fs/cgroup/memory.current": "400000",
        "/proc/meminfo": "MemTotal: 9 kB\nMemAvailable: 7000 kB",
    }
    monkeypatch.setattr(machine, "_read", lambda path: files.get(path, ""))
    assert (machine._quota(), machine._memory()) == (1.5, 600_000)
    files.update({"/sys/fs/cgroup/cpu.max": "max 100000", "/sys/fs/cgroup/memory.max": "max"})
    assert (machine._quota(), machine._memory()) == (None, 7_168_000)
    files.clear()
    assert (machine._quota(), machine._memory()) == (None, None)


# ---- the command

REPORT = """\
ok       python        Python 3.12.1
problem  packages      llvmlite is not installed
                       Run: python -m pip install "llvmlite>=0.45"
warning  threads       kernels use 2 of 8 cores: THREADS is set
                       Unset THREADS to use all of them.

1 problem, 1 warning."""


def test_the_report(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    ill = dataclasses.replace(GOOD, threads=2, packages={**GOOD.packages, "llvmlite": None})
    findings = [f for f in diagnose(ill) if f.level != "ok" or f.topic == "python"]
    assert report(findings) == REPORT
    assert report(diagnose(GOOD)).endswith("\n\nAll is well.")


def _run(machine: Machine, monkeypatch: pytest.MonkeyPatch, *arguments: str) -> int:
    monkeypatch.setattr(doctor, "this_machine", lambda: machine)
    return main(["doctor", *arguments])


def test_exit_codes(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(doctor, "try_kernels", list)
    slow = dataclasses.replace(GOOD, threads=2)
    ill = dataclasses.replace(GOOD, cache_error="Permission denied")
    assert [_run(m, monkeypatch) for m in (GOOD, slow, ill)] == [0, 0, 1]
    assert [_run(m, monkeypatch, "--strict") for m in (GOOD, slow, ill)] == [0, 1, 1]


def test_this_machine(capsys: pytest.CaptureFixture[str]) -> None:
    code = main(["doctor", "--json"])
    printed = json.loads(capsys.readouterr().out)
    assert differences(printed, document("doctor")) == []
    assert {finding["level"] for finding in printed["findings"]} <= set(doctor.LEVELS)
    assert printed["counts"]["problem"] == sum(finding["level"] == "problem" for finding in printed["findings"])
    assert (code, printed["ok"]) == ((1, False) if printed["counts"]["problem"] else (0, True))
    assert printed["findings"][-1]["topic"] == "kernels"
    assert printed["findings"][-1]["level"] == "ok"


def test_kernels_that_are_wrong_or_fail_are_a_problem(monkeypatch: pytest.MonkeyPatch) -> None:
    from whit.cli import check

    monkeypatch.setattr(check, "compare", lambda: (check.Case("sum", 0.5, False), check.Case("sort", 0.0, True)))
    (finding,) = doctor.try_kernels()
    assert (finding.level, finding.what) == ("problem", "compiled kernels differ from the interpreter: sum")

    def fail() -> None:
        raise BackendError("LLVM is lost", fix="Look for it.")

    monkeypatch.setattr(check, "compare", fail)
    (finding,) = doctor.try_kernels()
    assert (finding.what, finding.fix) == ("a small computation fails: LLVM is lost", "Look for it.")


def test_a_default_device_that_is_none_is_a_problem() -> None:
    with Context(DEV="GPU"):
        (finding,) = doctor.try_kernels()
    assert (finding.topic, finding.level) == ("device", "problem")
    assert finding.what.startswith('device: there is no device "GPU".')
    assert finding.fix == "Correct DEV in the environment, or unset it."


def test_a_package_that_is_broken_is_a_problem(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "numpy", None)  # importing it fails
    monkeypatch.delitem(sys.modules, "whit.cli.check", raising=False)
    (finding,) = doctor.try_kernels()
    assert finding.what.startswith("a small computation fails: ModuleNotFoundError: ")
    assert finding.fix == "Install it again: python -m pip install --force-reinstall numpy"


def test_findings_are_plain_text() -> None:
    for facts, *_ in DIAGNOSED.values():
        text = report(diagnose(dataclasses.replace(GOOD, **facts)))
        assert text.isascii()
        assert not re.search(r"[ \t]$", text, re.MULTILINE)
