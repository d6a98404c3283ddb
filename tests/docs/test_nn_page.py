"""docs/nn.md: every name of PyTorch is there, differs in a way that is said, or is left out for a reason."""

from __future__ import annotations

import doctest
import importlib
import inspect
import sys
from pathlib import Path

import pytest

DOCS = Path(__file__).parents[2] / "docs"
sys.path.insert(0, str(DOCS))
make_nn = importlib.import_module("make_nn")
NAMES = [(module, name) for module, names in make_nn.names_of_pytorch().items() for name in names]


@pytest.mark.parametrize(("module", "name"), NAMES, ids=lambda value: str(value))
def test_a_name_is_there_or_has_a_reason(module: str, name: str) -> None:
    is_there = hasattr(make_nn.OWNERS[module], name)
    reason = make_nn.reason_of(f"{module}.{name}")
    assert is_there != (reason is not None), f"{module}.{name}: {reason}"


def test_notes_are_about_names() -> None:
    known = {f"{module}.{name}" for module, name in NAMES}
    assert set(make_nn.DIFFERS) <= known
    assert {name for name in make_nn.LEFT_OUT if "*" not in name} <= known


def test_the_page_is_what_its_maker_writes_and_its_examples_are_right() -> None:
    text = (DOCS / "nn.md").read_text("utf-8")
    assert text == make_nn.page(), "run docs/make_nn.py"
    assert doctest.testfile(str(DOCS / "nn.md"), module_relative=False).failed == 0


def test_no_name_of_pytorch_is_forgotten() -> None:
    torch = pytest.importorskip("torch")
    if not torch.__version__.startswith("2.13."):
        pytest.skip("the list is that of 2.13")
    known = make_nn.names_of_pytorch()
    layers = [n for n, v in vars(torch.nn.modules).items() if inspect.isclass(v) and not n.startswith("_")]
    assert set(layers) <= set(known["nn"])
    assert set(torch.optim.__all__) <= set(known["optim"])
    assert set(torch.optim.lr_scheduler.__all__) <= set(known["optim.lr_scheduler"])
    assert set(torch.nn.utils.__all__) <= set(known["nn.utils"])
    methods = [n for n, v in vars(torch.nn.Module).items() if callable(v) and not n.startswith("_")]
    assert set(methods) <= set(known["nn.Module"])
