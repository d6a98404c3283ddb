"""What `help` shows: every public name ends with an example, which is that of docs/, and is not loaded before."""

import importlib
import inspect
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import whit
from whit import Tensor, nn
from whit.help import EXAMPLE
from whit.nn import optim

PYDOC: Any = importlib.import_module("pydoc")  # as the first `help` does; its types have not all of its names
ROOT = Path(__file__).parents[2]
OBJECTS = {"Device", "GlobalCounters", "JitError", "Tensor", "UOp", "Variable", "dtypes", "jit"}  # no functions


def has_example(value: Any) -> bool:
    doc = inspect.getdoc(value) or ""
    return f"{EXAMPLE}\n    " in doc or "Examples are in docs/" in doc or "The same as `" in doc


def test_every_name_of_tensor_has_an_example() -> None:
    without = []
    for name in dir(Tensor):
        found = inspect.getattr_static(Tensor, name, None)
        found = found.__func__ if isinstance(found, classmethod | staticmethod) else found
        is_shown = not name.startswith("_") and (callable(found) or isinstance(found, property))
        if is_shown and hasattr(Tensor, name) and not has_example(found):
            without.append(name)
    assert without == []


@pytest.mark.parametrize("owner", (nn, optim, whit), ids=("nn", "optim", "whit"))
def test_layers_optimisers_and_transforms_have_examples(owner: Any) -> None:
    found = {name: getattr(owner, name) for name in owner.__all__ if name not in OBJECTS}
    functions = {name: value for name, value in found.items() if callable(value) and not inspect.ismodule(value)}
    assert [name for name, value in functions.items() if not has_example(value)] == []


def rendered(value: Any) -> str:
    """What `help` prints, without the letters of terminals that overstrike."""
    return str(PYDOC.render_doc(value, "%s", renderer=PYDOC.plaintext))


def test_help_shows_code_and_what_it_gives() -> None:
    text = rendered(Tensor.softmax)
    assert "        logits.softmax()\n        # [[0.6652, 0.09  , 0.2447],\n" in text
    assert "x.sum(), x.sum(1)" in rendered(Tensor([1.0]).sum)
    assert "    nn.Linear(3, 2)(x).shape\n    # (2, 2)" in (nn.Linear.__doc__ or "")
    assert "fix" in rendered(Tensor.fix).splitlines()[0]


def run(code: str) -> list[str]:
    command = [sys.executable, "-c", code]
    return subprocess.run(command, capture_output=True, text=True, check=True, cwd=ROOT).stdout.split()


def test_nothing_is_loaded_before_somebody_asks() -> None:
    code = "import sys, whit, whit.nn; n = lambda: 'whit.help_texts' in sys.modules; print(n())\n"
    code += "doc = whit.Tensor.softmax.__doc__; import pydoc; print(n(), doc == whit.Tensor.softmax.__doc__)\n"
    code += "print(whit.Tensor.softmax.__doc__.count('Example:'), whit.nn.Linear.__doc__.count('Example:'))\n"
    code += "print(any(type(f).__name__ == '_WhenAsked' for f in sys.meta_path))"
    assert run(code) == ["False", "True", "False", "1", "1", "False"]


def test_help_that_was_asked_for_before_is_complete_too() -> None:
    code = "import pydoc, whit; print(whit.Tensor.sum.__doc__.count('Example:')); import whit.nn as nn\n"
    assert run(f"{code}print(nn.ReLU.__doc__.count('Example:'), nn.optim.Adam.__doc__.count('Example:'))") == [*"111"]
