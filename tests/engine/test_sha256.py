"""The cache's digest is SHA-256, whoever computes it."""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
from pathlib import Path

import pytest

from whit.engine.compile import sha256 as module
from whit.engine.compile.sha256 import MOST_BYTES, sha256


@pytest.mark.parametrize("size", [0, 1, 1000, MOST_BYTES - 1, MOST_BYTES, MOST_BYTES + 1])
def test_it_is_the_standard_librarys(size: int, monkeypatch: pytest.MonkeyPatch) -> None:
    data = bytes(index % 251 for index in range(size))
    assert sha256(data) == hashlib.sha256(data).digest()
    monkeypatch.setattr(module, "_of_python", None)
    assert sha256(data) == hashlib.sha256(data).digest()


def test_a_first_kernel_loads_no_openssl(tmp_path: Path) -> None:
    program = "import sys; from whit import Tensor; (Tensor([1.0]) + Tensor([2.0])).realize(); print(*sys.modules)"
    settings = {**os.environ, "CACHE": "1", "CACHE_DIR": str(tmp_path), "VERIFY": "0", "CHECK_PLAN": "0"}
    command = [sys.executable, "-c", program]
    found = subprocess.run(command, capture_output=True, text=True, check=True, env=settings)
    assert len(list(tmp_path.iterdir())) == 2  # a schedule and a kernel
    assert "_hashlib" not in found.stdout.split()
