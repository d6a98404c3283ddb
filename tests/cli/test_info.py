"""`python -m whit` without a command."""

import json
import re
from dataclasses import asdict

import pytest

import whit
from cli.schemas import differences, document
from whit import Tensor
from whit.cli import cache, check, info
from whit.cli.main import main
from whit.target import parse_target


@pytest.fixture(autouse=True)
def no_caches(monkeypatch: pytest.MonkeyPatch) -> None:
    """The real ones may have many files."""
    monkeypatch.setattr(cache, "folders", lambda: [cache.Folder("kernels", "/c", 2, 4096, 512 << 20)])


TARGET = parse_target("CPU:LLVM:haswell")
DATA = {
    "python": {"version": "3.12.1", "executable": "/usr/bin/python", "system": "Linux x86_64"},
    "packages": {"numpy": "2.1.0", "ml_dtypes": None},
    "processor": {"target": str(TARGET), **asdict(TARGET), "features": sorted(TARGET.features), "threads": 4},
    "default_device": "CPU",
    "devices": [
        {"name": "CPU", "what": "this machine's processor", "usable": True},
        {"name": "NULL", "what": "plans", "usable": True},
        {"name": "CUDA", "what": "not in this version", "usable": False},
    ],
    "caches": [{"name": "kernels", "folder": "/c", "files": 2, "bytes": 4096, "limit_bytes": 512 << 20}],
    "check": {
        "ok": False,
        "quick": False,
        "cases": [{"name": "sum", "error": 0.0, "ok": True}, {"name": "sort", "error": 0.25, "ok": False}],
        "matmul_size": 1024,
        "matmul_gflops": 123.45,
        "copy_bytes": 64 << 20,
        "copy_gbs": 12.0,
        "sum_gbs": 9.06,
        "seconds": 2.0,
    },
}
TEXT = """\
whit VERSION, Python 3.12.1 on Linux x86_64, numpy 2.1.0, ml_dtypes missing

processor
  target    CPU:LLVM:haswell
  cores     8, and 4 threads for kernels
  vectors   16 registers of 32 bytes
  caches    L1 32.0 KiB, L2 256.0 KiB, L3 32.0 MiB
  features  avx avx2 bmi bmi2 cx16 f16c fma lzcnt movbe popcnt sse3 sse4.1 sse4.2 ssse3

devices
  *  CPU   this machine's processor
     NULL  plans
  -  CUDA  not in this version
  * is the default (CPU), - cannot be used

caches
  kernels  /c  2 files, 4.0 KiB of 512.0 MiB

self-check
  ok     sum: as the interpreter says
  WRONG  sort, by 2.5e-01 of its largest element
  matmul  1024x1024, float32  123.5 GFLOP/s
  copy    64.0 MiB            12.0 GB/s, read and written
  sum     64.0 MiB            9.1 GB/s

next
  python -m whit doctor        if something does not work, or is slow
  python -m whit bench         kernels against what this machine can do
  python -m whit -h            all commands
  make demo, examples/, docs/  a first program, more of them, and how everything works"""


def test_the_text() -> None:
    assert info._text(DATA).replace(whit.__version__, "VERSION", 1) == TEXT


def test_the_text_without_a_known_processor_and_without_a_check() -> None:
    text = info._text({**DATA, "processor": None, "check": None})
    assert "processor\n  unknown: kernels cannot be compiled here; DEV=PYTHON runs them in the interpreter\n" in text
    assert "self-check" not in text


def test_this_machine_as_json(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--json", "--quick"]) == 0
    printed = json.loads(capsys.readouterr().out)
    assert differences(printed, document("info")) == []
    assert (printed["command"], printed["schema"], printed["whit"]) == ("info", 1, whit.__version__)
    assert printed["check"]["ok"]
    assert [case["name"] for case in printed["check"]["cases"]] == list(check.CASES)
    assert [device["name"] for device in printed["devices"]][:2] == ["CPU", "CPU:C"]


def test_without_a_check_nothing_is_computed(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(Tensor, "realize", None)
    assert main(["--no-check"]) == 0
    text = capsys.readouterr().out
    assert text.isascii()
    assert re.findall(r"^[a-z-]+$", text, re.MULTILINE) == ["processor", "devices", "caches", "next"]


def test_a_kernel_that_is_wrong_is_found(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    cases = {
        "sum": lambda a, b: a.sum(1),
        "product": lambda a, b: a * (1.001 if a.device == "CPU" else 1.0),
        "nan": lambda a, b: a * (float("nan") if a.device == "CPU" else 1.0),
    }
    monkeypatch.setattr(check, "CASES", cases)
    assert main(["--quick"]) == 1
    text = capsys.readouterr().out
    assert "\n  ok     sum: as the interpreter says\n  WRONG  product, by 1.0e-03 of its" in text
    assert "\n  WRONG  nan\n" in text
    assert main(["--quick", "--json"]) == 1
    printed = json.loads(capsys.readouterr().out)
    assert differences(printed, document("info")) == []
    assert [case["ok"] for case in printed["check"]["cases"]] == [True, False, False]
    assert printed["check"]["cases"][2]["error"] is None  # JSON has no infinity
