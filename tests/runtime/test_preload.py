"""LLVM is loaded while Python works, in a thread that nobody has to know about."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from whit.dtype import dtypes
from whit.engine.compile import compile as compiler
from whit.ir.uop import UOp
from whit.runtime.code import preload
from whit.target import parse_target

SUM = "assert (Tensor([1.0, 2.0]) + Tensor([3.0, 4.0])).tolist() == [4.0, 6.0]"
PLAIN = {"DEV": "CPU:LLVM", "CACHE": "1", "VERIFY": "0", "CHECK_PLAN": "0"}


def run(program: str, folder: Path, **environment: str) -> list[str]:
    """What a program prints, in a process that has compiled nothing yet."""
    settings = {**os.environ, **PLAIN, "CACHE_DIR": str(folder), **environment}
    found = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True, env=settings, timeout=60
    )
    assert found.stderr == ""
    return found.stdout.split()


def test_the_first_kernel_finds_llvm_loaded_and_leaves_no_thread(tmp_path: Path) -> None:
    program = f"""
import threading
from whit import Tensor
{SUM}
from whit.runtime.code import preload
print(preload._thread is not None, threading.active_count())
"""
    assert run(program, tmp_path) == ["True", "1"]
    again = "from whit import Tensor\n" + SUM + "\nimport sys; print('whit.runtime.code.preload' in sys.modules)"
    assert run(again, tmp_path) == ["False"]  # all of it is on disk


def test_without_the_library_nothing_happens(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(sys.modules, "llvmlite.binding", raising=False)
    monkeypatch.setattr(preload, "_thread", None)
    monkeypatch.setattr(preload, "get_library_name", lambda: "missing.so")
    preload.preload()
    preload.wait()
    assert preload._thread is not None
    assert not preload._thread.is_alive()


@pytest.mark.skipif(not hasattr(os, "fork"), reason="forks")
def test_a_process_may_fork_meanwhile(tmp_path: Path) -> None:
    program = f"""
import os, sys
from whit import Tensor
from whit.runtime.code.preload import preload
preload()
child = os.fork()
{SUM}
if child:
    sys.exit(os.waitpid(child, 0)[1])
"""
    for _ in range(5):
        assert run(program, tmp_path, CACHE="0", PYTHONWARNINGS="ignore") == []


def test_a_process_may_end_meanwhile(tmp_path: Path) -> None:
    assert run("from whit.runtime.code.preload import preload; preload(); print(1)", tmp_path) == ["1"]


@pytest.mark.parametrize("device", ["CPU:LLVM", "CPU:C"])
def test_only_what_llvm_compiles_loads_it(device: str, monkeypatch: pytest.MonkeyPatch) -> None:
    begun: list[str] = []
    monkeypatch.setattr(preload, "preload", lambda: begun.append(device))
    out, source, i = UOp.param(0, dtypes.float32, (8,)), UOp.param(1, dtypes.float32, (8,)), UOp.range(8, 0)
    function = UOp.group(out.store(source.index(i) + 3.0, i)).function("f")
    header, _ = compiler._begin(function, parse_target(device))
    assert header["name"] != ""
    assert begun == [device] * (device == "CPU:LLVM")
