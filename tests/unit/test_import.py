"""`import whit` is light: it loads no array library and no backend. A kernel loads what its target needs."""

import os
import subprocess
import sys
from functools import cache
from pathlib import Path

import pytest

HEAVY = (
    "numpy",
    "dataclasses",
    "inspect",
    "hashlib",
    "ctypes",
    "difflib",
    "decimal",
    "sysconfig",
    "ml_dtypes",
    "llvmlite",
    "whit.codegen",
    "whit.render",
    "whit.runtime",
    "whit.cli",
    "argparse",
    "whit.tensor.graphs.convolution.convolve",
    "whit.tensor.graphs.linear_algebra.rotate",
)
FIRST_SUM = """
import sys
from whit import Tensor
assert (Tensor([1.0, 2.0]) + Tensor([3.0, 4.0])).tolist() == [4.0, 6.0]
print(*sys.modules)
"""
OTHER_MACHINES = (
    "whit.codegen.gpu",
    "whit.render.ptx",
    "whit.render.c",
    "whit.codegen.cpu.sort",
    "whit.codegen.cpu.products",
    "whit.engine.devices.cuda",
)
UNUSED = ("numpy", "ml_dtypes", "dataclasses", "inspect", "hashlib", "whit.ir.interpret", "whit.nn", "whit.cli")
OTHER_GRAPHS = (
    "whit.codegen.math",
    "whit.kernel.attention_bounds",
    "whit.kernel.attention_form",
    "whit.kernel.online_softmax",
    "whit.schedule.calls",
    "whit.schedule.rewrites.for_gpus",
    "whit.schedule.rewrites.reverse_scans",
    "whit.schedule.rewrites.split_reduce",
    "whit.schedule.stages.attention",
)


def modules_after(program: str, **environment: str) -> list[str]:
    """All modules that a program has loaded, which it prints itself, without those that Python starts with."""
    return [name for name in _printed(program, environment) if name not in _at_the_start()]


@cache
def _at_the_start() -> frozenset[str]:
    """A site's own start-up files may load much."""
    return frozenset(_printed("import sys; print(*sys.modules)", {}))


def _printed(program: str, environment: dict[str, str]) -> list[str]:
    found = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True, env={**os.environ, **environment}
    )
    return found.stdout.split()


@pytest.mark.parametrize("names", ["Tensor", "nn", "TinyJit, nn, dtypes, Device, fetch"])
def test_import_loads_no_backend_and_no_array_library(names: str) -> None:
    loaded = modules_after(f"import sys; from whit import {names}; print(*sys.modules)")
    assert "whit.config" in loaded
    assert [name for name in loaded if name.startswith(HEAVY)] == []


def test_first_kernel_of_a_cpu_loads_nothing_of_other_machines_and_graphs(tmp_path: Path) -> None:
    plain = {"DEV": "CPU:LLVM", "VERIFY": "0", "CHECK_PLAN": "0"}  # checks load the interpreter
    loaded = modules_after(FIRST_SUM, CACHE_DIR=str(tmp_path), **plain)
    assert "whit.codegen.cpu.loops" in loaded
    assert [name for name in loaded if name.startswith((*OTHER_MACHINES, *UNUSED, *OTHER_GRAPHS))] == []
