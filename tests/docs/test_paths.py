"""Every path and every name of whit that a page, a comment or a docstring gives leads somewhere."""

import ast
import functools
import re
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
_PATH = re.compile(r"(?<![\w/.:~<-])((?:whit|tests|docs|bench|examples|tools)/[\w*/.-]*[\w*/])")
_NAME = re.compile(r"`(whit(?:\.\w+)+)[`(]")
HISTORY = ("bench/results/",)  # a page about a day names what was there on that day
# Not of the tree: what tests make, what Python gives a package, and a name that a page says there is not.
# Modules that another path leads to, and those that come later.
ELSEWHERE = {
    "whit.engine.jit",
    "whit.engine.jit.JitError",
    "whit.engine.jit.TinyJit",
    "whit.llm",
    "whit.nn.onnx.OnnxRunner",
}
MADE = ELSEWHERE | {"whit/ir/a.py", "docs/page", "docs/page.md", "docs/name", "whit.__version__", "whit.zeros"}


@functools.cache
def written() -> dict[str, str]:
    """The pages and sources of the tree, by name."""
    command = ["git", "ls-files", "--cached", "--others", "--exclude-standard"]
    listed = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False).stdout.splitlines()
    if not listed:
        pytest.skip("no checkout: the sources cannot be told from what was built")
    pages = [name for name in listed if name.endswith((".md", ".py")) or name == "Makefile"]
    return {
        name: (ROOT / name).read_text("utf-8")
        for name in pages
        if not name.startswith(HISTORY) and (ROOT / name).exists() and not Path(__file__).samefile(ROOT / name)
    }


def missing_paths(text: str) -> list[str]:
    """The paths in a text that lead nowhere. `whit/ir/*.py` leads somewhere if one file does."""
    named = {name.rstrip("/") for name in _PATH.findall(text)} - MADE
    return sorted(name for name in named if not list(ROOT.glob(name)))


@functools.cache
def names_in(path: Path) -> set[str]:
    """What a module defines or imports at its top, also under `if`."""
    found: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text("utf-8"))):
        if isinstance(node, ast.FunctionDef | ast.ClassDef):
            found.add(node.name)
        elif isinstance(node, ast.Import | ast.ImportFrom):
            found.update(alias.asname or alias.name for alias in node.names)
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            found.add(node.id)
    return found


def leads_somewhere(name: str) -> bool:
    """Whether `whit.ir.uop.UOp` is a module, or something in a module; attributes of that are not looked up."""
    place = ROOT
    parts = name.split(".")
    for position, part in enumerate(parts):
        place /= part
        if place.with_suffix(".py").is_file():
            rest = parts[position + 1 :]
            return not rest or rest[0] in names_in(place.with_suffix(".py"))
        if not place.is_dir():
            return part in names_in(place.parent / "__init__.py")
    return True


def missing_names(text: str) -> list[str]:
    """The names of whit in a text that are nowhere."""
    return sorted(name for name in set(_NAME.findall(text)) - MADE if not leads_somewhere(name))


def test_paths_that_are_named_exist() -> None:
    assert {name: found for name, text in written().items() if (found := missing_paths(text))} == {}


def test_names_of_modules_and_functions_exist() -> None:
    assert {name: found for name, text in written().items() if (found := missing_names(text))} == {}


def test_what_leads_nowhere_is_found() -> None:
    assert missing_paths("whit/ir/uop.py, whit/ir/gone.py and docs/*.md") == ["whit/ir/gone.py"]
    given = "`whit.ir.uop.UOp`, `whit.ir.gone`, `whit.ir.uop.Gone`, `whit.Tensor`, `whit.Gone`, `whit.ir.op.op_named()`"
    assert missing_names(given) == ["whit.Gone", "whit.ir.gone", "whit.ir.uop.Gone"]
