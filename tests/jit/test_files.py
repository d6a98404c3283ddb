"""Captured functions in files."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from whit import JitError, Tensor, TinyJit, nn
from whit.engine import jit_files

pytestmark = pytest.mark.slow


def test_saved_function_runs_in_another_process(tmp_path: Path) -> None:
    net = nn.Linear(3, 2)
    count = Tensor([0.0]).realize()
    cache = Tensor.zeros(4).contiguous().realize()

    def f(x: Tensor, names: dict[str, int]) -> dict[str, object]:
        count.assign(count + 1)
        cache[1:3] = x[0, :2] * names["scale"]
        return {"y": net(x).relu() * names["scale"], "parts": (count * 1, x), "noise": Tensor.rand(2), "n": 7}

    g = TinyJit(f)
    x = Tensor([[1.0, 2.0, 3.0]])
    g(x, {"scale": 2})
    path = tmp_path / "f.whit"
    g.save(path)
    Tensor.manual_seed(4)
    expected = g(x, {"scale": 2})
    code = f"""
import sys
from whit import Tensor, TinyJit, JitError
f = TinyJit.load({str(path)!r})
Tensor.manual_seed(4)
x = Tensor([[1.0, 2.0, 3.0]])
found = f(x, {{"scale": 2}})
print([found["y"].tolist(), found["parts"][0].tolist(), found["parts"][1] is x, found["noise"].tolist(), found["n"]])
print(f(x, {{"scale": 2}})["parts"][0].tolist(), f.tensors["cache"].tolist(), sorted(f.tensors), f.kernels)
try:
    f(x, {{"scale": 3}})
except JitError as error:
    print(str(error).splitlines()[0])
for name in ("llvmlite", "whit.schedule", "whit.codegen", "whit.render"):
    assert name not in sys.modules, name
"""
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)
    assert not found.stderr, found.stderr
    first, second, third = found.stdout.splitlines()
    values = [expected["y"].tolist(), expected["parts"][0].tolist(), True, expected["noise"].tolist(), 7]
    assert first == repr(values)
    assert second == f"[3.0] [0.0, 2.0, 4.0, 0.0] ['cache', 'count', 'net.bias', 'net.weight'] {g.kernels}"
    assert third == "f: the file has no program for these arguments"


def test_file_of_another_target_and_damaged_files_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    g = TinyJit(lambda x: x * 2)
    path = tmp_path / "g.whit"
    with pytest.raises(JitError, match=r"nothing of .* is captured yet"):
        g.save(path)
    g(Tensor([1.0]))
    g.save(path)
    assert TinyJit.load(path)(Tensor([3.0])).item() == 6.0
    with monkeypatch.context() as patch:
        patch.setattr(jit_files, "target_text_of", lambda device: "another machine")
        with pytest.raises(JitError, match="was compiled for another CPU than this one"):
            TinyJit.load(path)
    content = bytearray(path.read_bytes())
    content[-1] ^= 1
    path.write_bytes(content)
    with pytest.raises(JitError, match="no file of captured functions"):
        TinyJit.load(path)


def test_what_cannot_be_saved_says_why(tmp_path: Path) -> None:
    w = Tensor([1.0, 2.0], requires_grad=True)
    g = TinyJit(lambda x: (w * x).sum().backward())
    g(Tensor([1.0]))
    with pytest.raises(JitError, match="cannot be saved: it leaves gradients"):
        g.save(tmp_path / "g.whit")
