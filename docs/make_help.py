"""Writes whit/help_texts.py: the examples that `help(Tensor.softmax)` and `help(nn.Linear)` end with, with results.

They are those of reference_examples.py, which the page of Tensor shows, and of help_examples.py. A value is shown as a
comment, the elements of a tensor as NumPy shows them; random ones, and what prints, are not shown.
"""

from __future__ import annotations

import ast
import contextlib
import inspect
import io
import json
import sys
from typing import Any

import help_examples
import reference_examples
from make_reference import _shown
from pages import ROOT

from whit import Context, Tensor
from whit.errors import WhitError
from whit.help import EXAMPLE

MODULE = ROOT / "whit" / "help_texts.py"
PAGES = "docs"


def texts() -> dict[str, str]:
    """For each name what its help ends with."""
    found: dict[str, str] = {}
    with Context(DEV="PYTHON"):
        written = dict(line.split(": ", 1) for line in reference_examples.EXAMPLES.strip().splitlines())
        for name, code in written.items():
            found[f"Tensor.{name}"] = example(reference_examples.SETUP, code)
        for name, other in sorted(others().items()):
            if other not in written:  # its own help says where examples are
                continue
            found[f"Tensor.{name}"] = renamed(written[other], other, name)
        for line in help_examples.EXAMPLES.strip().splitlines():
            name, code = line.split(": ", 1)
            found[name] = example(help_examples.SETUP, code)
    for name, other in others().items():
        if f"Tensor.{other}" in found:
            found.setdefault(f"Tensor.{name}", found[f"Tensor.{other}"])
    for name, page in help_examples.PAGES.items():
        found[name] = f"Examples are in {PAGES}/{page}."
    return found


def others() -> dict[str, str]:
    """Names of Tensor that are others under another name, and these."""
    static = {name: inspect.getattr_static(Tensor, name, None) for name in dir(Tensor) if not name.startswith("_")}
    found = {name: value.same_as for name, value in static.items() if hasattr(value, "same_as")}
    for name, other in found.items():
        while other in found:
            other = found[other]
        found[name] = other
    return found


def renamed(code: str, name: str, other: str) -> str:
    """The example of one name with the other in its place; of what writes where the result does not fit, as it is."""
    try:
        return example(reference_examples.SETUP, code.replace(f".{name}", f".{other}"))
    except WhitError:
        return example(reference_examples.SETUP, code)


def example(setup: str, code: str) -> str:
    """Lines of code with what they need before them, and behind them what the last one gives."""
    Tensor.manual_seed(0)
    names: dict[str, Any] = {}
    exec(setup, names)
    statements = code.split("; ")
    for statement in statements[:-1]:
        exec(statement, names)
    shown = _value(statements[-1], names)
    lines = [*_needed(setup, code), *statements, *(f"# {line}".rstrip() for line in shown.splitlines())]
    return "\n".join([EXAMPLE, *(f"    {line}" for line in lines)])


def _value(statement: str, names: dict[str, Any]) -> str:
    """What an expression gives, or prints; of other statements nothing."""
    output = io.StringIO()
    with contextlib.redirect_stdout(output):
        if not _is_expression(statement):
            exec(statement, names)
            return ""
        value = eval(statement, names)
        if value is None:
            return output.getvalue().strip("\n").replace("device=PYTHON", "device=CPU")
        return _shown(value)


def _is_expression(statement: str) -> bool:
    return isinstance(ast.parse(statement).body[0], ast.Expr)


def _needed(setup: str, code: str) -> list[str]:
    """The lines of the setup that make names which the code uses."""
    used = _names(code)
    lines = []
    for line in reversed(setup.splitlines()):
        made = _made(line)
        if line.startswith(("from ", "import ")):
            continue
        if made & used:
            lines.append(line)
            used |= _names(line)
    return lines[::-1]


def _names(code: str) -> set[str]:
    return {node.id for node in ast.walk(ast.parse(code)) if isinstance(node, ast.Name)}


def _made(line: str) -> set[str]:
    stored = [node for node in ast.walk(ast.parse(line)) if isinstance(node, ast.Name)]
    return {node.id for node in stored if isinstance(node.ctx, ast.Store)}


def module() -> str:
    """The text of the module."""
    head = '"""What `help` shows as examples (`whit.help`). Written by docs/make_help.py."""\n\n'
    pairs = texts().items()
    rows = "".join(f"    {json.dumps(name)}: {json.dumps(text, ensure_ascii=False)},\n" for name, text in pairs)
    head += "from typing import Final\n\n"
    return f"# ruff: noqa: E501\n# fmt: off\n{head}TEXTS: Final[dict[str, str]] = {{\n{rows}}}\n"


if __name__ == "__main__":
    new = module()
    if MODULE.exists() and MODULE.read_text() == new:
        raise SystemExit(0)
    if "--check" in sys.argv:
        sys.exit(f"{MODULE.relative_to(ROOT)} is out of date\n  Write it again: make docs")
    MODULE.write_text(new)
    print(f"wrote {MODULE.relative_to(ROOT)}")
