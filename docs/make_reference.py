"""Writes docs/reference/: the public names, their docstrings, and an example of each name of Tensor."""

import functools
import importlib
import inspect
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
from pages import publish
from reference_examples import EXAMPLES, NONE, SETUP

from whit import Context, Tensor, names
from whit.help import EXAMPLE
from whit.nn import Module
from whit.tensor.methods.aliases import SameAs
from whit.tensor.methods.foreign_names import Aliases

MODULES = {
    "nn.md": ("Layers", ["whit.nn"]),
    "functional.md": ("Functions and initial values", ["whit.nn.functional", "whit.nn.init", "whit.nn.utils"]),
    "optim.md": ("Optimisers and learning rates", ["whit.nn.optim", "whit.nn.optim.lr_scheduler"]),
    "state.md": ("Model files and data sets", ["whit.nn.state", "whit.nn.datasets", "whit.nn.data"]),
    "around.md": ("Around Tensor", ["whit", "whit.helpers"]),
}
TABLES = {
    "Methods of tensors that say what to write instead": names.TENSOR,
    "Methods of models": names.MODULE,
    "Names in `nn`": names.NN,
    "Names in `nn.optim`": names.OPTIM,
    "Names in `whit`": names.WHIT,
    "Keywords": names.ARGUMENTS,
}
NAMES_HEAD = """\
Names of PyTorch, NumPy, JAX and tinygrad. Most names of tensors are theirs already ([Tensor](tensor.md)); here are
those that are not. The tables are `whit/names.py`, `whit/tensor/methods/foreign_names.py` and `aliases.py`: the errors
of programs that use these names are made of them. A function of `torch`, `np` or `jnp` is a method of `Tensor` here,
and `whit.zeros` says so.
"""
WIDEST = 88  # characters of a signature on one line


def tensor_page() -> str:
    """Every public name, by the class that defines it."""
    examples = dict(line.split(": ", 1) for line in EXAMPLES.strip().splitlines())
    parts = ["# Tensor\n", *_text(Tensor), "Examples run after these lines:\n", f"```python\n{SETUP}\n```\n"]
    names: dict[str, Any] = {}
    with Context(DEV="PYTHON"):
        exec(SETUP, names)
        *topics, core, _ = Tensor.__mro__[1:-1]  # below all of them the fields that a trace shows differently
        for owner in (core, *topics, Tensor):
            found = [name for name in vars(owner) if not name.startswith("_") and hasattr(Tensor, name)]
            if found:
                title = owner.__name__ if owner is not Tensor else "Casts"
                parts += [f"## {title}\n", *(_text(owner) if owner is not Tensor else [])]
            for name in found:
                parts += _entry(name, inspect.getattr_static(owner, name))
                if name in examples:
                    parts += _example(examples[name], names)
                elif name in NONE:
                    parts += [f"See [{NONE[name]}](../{NONE[name]}).\n"]
    return "\n".join(parts)


def module_page(title: str, modules: list[str]) -> str:
    """The public names of modules, with the methods of their classes."""
    parts = [f"# {title}\n"]
    for path in modules:
        module = importlib.import_module(path)
        parts += [f"## `{path}`\n", *_text(module)]
        for name in _public(module):
            value = getattr(module, name)
            if value is Tensor or inspect.ismodule(value):
                continue
            parts += _entry(name, value)
            if inspect.isclass(value):
                parts += [*_call(value), *_methods(value)]
    return "\n".join(parts)


def names_page() -> str:
    """What names of other libraries are called here: those that work, and those that say what to write."""
    parts = ["# Names of other libraries\n", NAMES_HEAD, "## Methods that have another name here, and work\n"]
    both = {**vars(Aliases), **vars(SameAs)}
    aliases = [(name, value) for name, value in both.items() if not name.startswith("_")]
    rows = [(name, _text(value.fget if isinstance(value, property) else value)[0].strip()) for name, value in aliases]
    parts += _table(("name", "here"), [(f"`{name}`", text) for name, text in rows])
    for title, table in TABLES.items():
        parts += [f"## {title}\n"]
        parts += _table(("name", "of", "instead"), [(f"`{n}`", of, text) for n, (of, text) in table.items()])
    return "\n".join(parts)


def _table(head: tuple[str, ...], rows: list[tuple[str, ...]]) -> list[str]:
    lines = [head, ("---",) * len(head), *rows]
    return ["\n".join("| " + " | ".join(line) + " |" for line in lines) + "\n"]


def _public(module: Any) -> Iterator[str]:
    listed = getattr(module, "__all__", None)
    for name in listed or [name for name in dir(module) if not name.startswith("_")]:
        value = getattr(module, name)
        if listed or getattr(value, "__module__", "").startswith(module.__name__):
            yield name


def _entry(name: str, value: Any) -> list[str]:
    function = value.__func__ if isinstance(value, classmethod | staticmethod) else value
    return [
        f"### `{name}`\n",
        *_signature(name, function),
        *_text(value.fget if isinstance(value, property) else function),
    ]


def _signature(name: str, function: Any) -> list[str]:
    if not callable(function):
        return []
    try:
        signature = inspect.signature(function)
    except (TypeError, ValueError):
        return []
    given = [p for p in signature.parameters.values() if p.name not in ("self", "cls")]
    words = [str(p.replace(annotation=inspect.Parameter.empty)) for p in given]
    line = f"{name}({', '.join(words)})"
    if len(line) > WIDEST:
        line = f"{name}(\n    " + ",\n    ".join(words) + ",\n)"
    return [f"```python\n{line}\n```\n"]


def _text(value: Any) -> list[str]:
    """A docstring; lines that are indented are examples."""
    text = inspect.getdoc(value) if getattr(value, "__doc__", None) else None
    text = text and text.partition(f"\n\n{EXAMPLE}")[0]  # those of `help`: the page has them below
    return [f"{text}\n"] if text else []


def _call(value: type) -> list[str]:
    """What an object is called with, where a class of whit says so itself."""
    owner = next((kind for kind in value.__mro__ if "__call__" in vars(kind)), None)
    if owner is None or not owner.__module__.startswith("whit.nn") or owner is Module:
        return []
    function = vars(owner)["__call__"]
    return ["Called with:\n", *_signature("layer", function), *_text(function)]


def _methods(value: type) -> list[str]:
    lines = []
    for name, member in vars(value).items():
        function: Any = member.__func__ if isinstance(member, classmethod | staticmethod) else member
        text = inspect.getdoc(function) if inspect.isfunction(function) else None
        if text and not name.startswith("_"):
            lines.append(f"- `{name}`: {text.splitlines()[0]}")
    return ["\n".join(lines) + "\n"] if lines else []


def _example(expression: str, names: dict[str, Any]) -> list[str]:
    value = eval(expression, names)
    shown = _shown(value)
    return [f"```python\n{expression}\n```\n", f"```text\n{shown}\n```\n"]


def _shown(value: Any) -> str:
    if isinstance(value, Tensor):
        return _array(value.numpy())
    if isinstance(value, np.ndarray):
        return _array(value)
    if isinstance(value, tuple) and any(isinstance(part, Tensor) for part in value):
        return "\n".join(_shown(part) for part in value)
    return str(value)


def _array(value: Any) -> str:
    """Four digits, no signs of zeros."""
    rounded = np.round(value.astype(np.float64), 4) + 0.0 if value.dtype.kind == "f" else value
    return np.array2string(rounded, separator=", ", max_line_width=100)


PAGES: dict[str, Callable[[], str]] = {
    "tensor.md": tensor_page,
    "names.md": names_page,
    **{name: functools.partial(module_page, title, modules) for name, (title, modules) in MODULES.items()},
}

if __name__ == "__main__":
    for name, write in PAGES.items():
        publish(f"reference/{name}", write())
