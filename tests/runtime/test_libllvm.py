"""LLVM is loaded while Python works, in a thread that nobody has to know about."""

from __future__ import annotations

import ctypes
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import llvmlite.binding
import pytest

from whit.dtype import dtypes
from whit.engine.compile import compile as compiler
from whit.ir.uop import UOp
from whit.runtime.code import libllvm
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
from whit.runtime.code import libllvm
print(libllvm._thread is not None, threading.active_count())
"""
    assert run(program, tmp_path) == ["True", "1"]
    again = "from whit import Tensor\n" + SUM + "\nimport sys; print('whit.runtime.code.libllvm' in sys.modules)"
    assert run(again, tmp_path) == ["False"]  # all of it is on disk


def test_without_the_library_nothing_happens(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(sys.modules, "llvmlite.binding", raising=False)
    monkeypatch.setattr(libllvm, "_thread", None)
    monkeypatch.setattr(libllvm, "get_library_name", lambda: "missing.so")
    libllvm.preload()
    assert libllvm._thread is not None
    libllvm._thread.join()


@pytest.mark.slow
@pytest.mark.skipif(not hasattr(os, "fork"), reason="forks")
def test_a_process_may_fork_meanwhile(tmp_path: Path) -> None:
    program = f"""
import os, sys
from whit import Tensor
from whit.runtime.code.libllvm import preload
preload()
child = os.fork()
{SUM}
if child:
    sys.exit(os.waitpid(child, 0)[1])
"""
    for _ in range(8):
        assert run(program, tmp_path, CACHE="0", PYTHONWARNINGS="ignore") == []


def test_a_process_may_end_meanwhile(tmp_path: Path) -> None:
    assert run("from whit.runtime.code.libllvm import preload; preload(); print(1)", tmp_path) == ["1"]


@pytest.mark.parametrize("device", ["CPU:LLVM", "CPU:C"])
def test_only_what_llvm_compiles_loads_it(device: str, monkeypatch: pytest.MonkeyPatch) -> None:
    begun: list[str] = []
    monkeypatch.setattr(libllvm, "preload", lambda: begun.append(device))
    out, source, i = UOp.param(0, dtypes.float32, (8,)), UOp.param(1, dtypes.float32, (8,)), UOp.range(8, 0)
    function = UOp.group(out.store(source.index(i) + 3.0, i)).function("f")
    header, _ = compiler._begin(function, parse_target(device))
    assert header["name"] != ""
    assert begun == [device] * (device == "CPU:LLVM")


def test_functions_are_declared_as_llvmlite_declares_them() -> None:
    library = libllvm.declared(ctypes.CDLL(libllvm._path()))
    for name in libllvm.FUNCTIONS:
        ours, theirs = getattr(library, f"LLVMPY_{name}"), getattr(llvmlite.binding.ffi.lib, f"LLVMPY_{name}")
        if theirs.argtypes is not None:
            assert [*map(_kind, ours.argtypes)] == [*map(_kind, theirs.argtypes)], name
        if theirs.restype is not ctypes.c_int:  # what is not declared
            assert _kind(ours.restype) == _kind(theirs.restype), name
        else:
            assert ours.restype is None, name


def _kind(declared: Any) -> object:
    """A pointer to something of LLVM is an address here."""
    target = getattr(declared, "_type_", None)
    is_of_llvm = isinstance(target, type) and issubclass(target, ctypes.Structure)
    return ctypes.c_void_p if is_of_llvm else declared


def test_it_is_known_what_the_installed_version_declares() -> None:
    assert libllvm._is_known(llvmlite.__version__)
    assert [libllvm._is_known(each) for each in ("0.44.0", "0.45.0", "0.46.0dev0+1.g2", "0.51.0", "1.0", "", "?")] == [
        *(False, True, True, False, False, False, False)
    ]


@pytest.mark.parametrize("before", ["import llvmlite; llvmlite.__version__ = '9.9.0'", "import llvmlite.binding"])
def test_of_other_versions_llvmlites_own_declarations_are_used(before: str, tmp_path: Path) -> None:
    program = f"""
{before}
from whit import Tensor, clear_caches
{SUM}
from whit.runtime.code import libllvm
import llvmlite.binding
print(libllvm.library() is llvmlite.binding.ffi.lib)
clear_caches()
assert (Tensor.ones(70, 70).contiguous() @ Tensor.ones(70, 70).contiguous()).sum().item() == 70**3
from whit.runtime.code.llvm import assembly, compile_llvm
from whit.target import parse_target
from whit.errors import BackendError
try:
    compile_llvm("define nothing", parse_target("CPU"))
except BackendError as error:
    print("parsing" in str(error))
print("ret" in assembly("define void @f() {{ ret void }}", parse_target("CPU")))
"""
    assert run(program, tmp_path, CACHE="0") == ["True"] * 3


def test_a_first_kernel_needs_no_python_of_llvmlite(tmp_path: Path) -> None:
    program = "from whit import Tensor\n" + SUM + "\nimport sys; print(*sys.modules)"
    loaded = run(program, tmp_path)
    assert "llvmlite" in loaded
    assert "llvmlite.binding" not in loaded
