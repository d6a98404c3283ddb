"""Imports in whit/ go down only, never in circles, and stand at the top of the file.

An import under `if TYPE_CHECKING` goes down too, but may close a circle inside its folder, since it never runs.

`find_problems` reads the sources without running them. It is tested below on sources that are wrong on purpose.
"""

import ast
import graphlib
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

import whit

# From the bottom up. A module imports from lower layers and from its own folder; names in one layer do not meet.
LAYERS = (
    ("help_texts", "records"),
    ("errors",),
    ("config", "cache", "containers", "help", "names", "png", "progress", "recording"),
    ("dtype",),
    ("target",),
    ("ir",),
    ("simplify",),
    ("kernel",),
    ("transform", "schedule", "codegen", "render", "runtime"),
    ("engine",),
    ("device", "helpers", "uop"),
    ("tensor",),
    ("function", "jit"),
    ("nn", "numpy"),
    ("onnx", "llm", "models", "viz"),
    ("torch", "jax"),
    ("",),  # whit/__init__.py, which may import all of them and which none of them imports
    ("cli",),  # so that `import whit` cannot load it
    ("__main__",),
)
HEIGHT = {part: height for height, layer in enumerate(LAYERS) for part in layer}

BY_NAME = re.compile(r"\b(?:import_module|__import__)\b")
IMPORTING = re.compile(rf"^[ \t]*(?:import|from)\b|{BY_NAME.pattern}", re.MULTILINE)
NEXT_STATEMENT = re.compile(r"^[^\s#)\]}]", re.MULTILINE)


@dataclass(frozen=True)
class Import:
    importer: str
    imported: str
    place: str
    runs: bool  # False under `if TYPE_CHECKING`


def find_problems(root: Path) -> list[str]:
    """What is wrong with the imports of the package whose folder is `root`, one line each; [] if nothing is."""
    files = {_module_name(root, path): path for path in sorted(root.rglob("*.py"))}
    problems = []
    imports = []
    for module, path in files.items():
        source = path.read_text()
        found = list(_walk(_parse(source), source))
        place = path.relative_to(root.parent).as_posix()
        problems += [f"{place}:{line}: {text}" for line, text in _hidden_imports(found, source.splitlines())]
        imports += [
            Import(module, imported, f"{place}:{line}", runs)
            for line, imported, runs in _imported_modules(found, module, path.name == "__init__.py", files)
        ]
    problems += [f"{edge.place}: {text}" for edge in imports if (text := _wrong_direction(edge))]
    return problems + _cycles(imports)


def _module_name(root: Path, path: Path) -> str:
    parts = path.relative_to(root.parent).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


@dataclass(frozen=True, slots=True)
class Found:
    node: ast.Import | ast.ImportFrom | ast.Call
    is_nested: bool  # inside of a function
    runs: bool  # False under `if TYPE_CHECKING`


def _parse(source: str) -> ast.Module:
    """A file up to its last import: the rest is two thirds of all files, and parsing is most of the time."""
    *_, last = [0, *(match.end() for match in IMPORTING.finditer(source))]
    following = NEXT_STATEMENT.search(source, last)
    try:
        return ast.parse(source[: following.start()] if following else source)
    except SyntaxError:  # the cut was inside of a text, or before `except`
        return ast.parse(source)


def _walk(tree: ast.Module, source: str) -> Iterator[Found]:
    """Every import and every call that imports. Expressions are entered only in files that have such calls."""
    has_calls = BY_NAME.search(source) is not None
    stack: list[tuple[ast.AST, bool, bool]] = [(tree, False, True)]
    while stack:
        node, is_nested, runs = stack.pop()
        if isinstance(node, ast.Import | ast.ImportFrom | ast.Call):
            yield Found(node, is_nested, runs)
        is_nested = is_nested or isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda)
        is_typing = isinstance(node, ast.If) and ast.unparse(node.test) in ("TYPE_CHECKING", "typing.TYPE_CHECKING")
        typed = set(node.body) if is_typing else set()  # type: ignore[attr-defined]
        for inner in ast.iter_child_nodes(node):
            if has_calls or not isinstance(inner, ast.expr):
                stack.append((inner, is_nested, runs and inner not in typed))


def _imported_modules(
    found: list[Found], module: str, is_package: bool, files: dict[str, Path]
) -> Iterator[tuple[int, str, bool]]:
    """Line and module of every import of the package itself, wherever it stands, and whether it runs."""
    package = module.partition(".")[0]
    folder = module.split(".") if is_package else module.split(".")[:-1]
    for each in found:
        node = each.node
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            base = folder[: len(folder) - node.level + 1] if node.level else []
            origin = ".".join([*base, *([node.module] if node.module else [])])
            # `from whit.ir import uop` imports whit.ir.uop; `from whit.ir import UOp` imports whit.ir.
            submodules = [f"{origin}.{alias.name}" for alias in node.names]
            names = [name if name in files else origin for name in submodules]
        else:
            continue
        for name in dict.fromkeys(names):
            if name.partition(".")[0] == package:
                yield node.lineno, name, each.runs


def _hidden_imports(found: list[Found], lines: list[str]) -> Iterator[tuple[int, str]]:
    """Imports inside functions, and imports by a computed name, unless they say `# lazy: why`."""
    for each in found:
        node = each.node
        if not isinstance(node, ast.Call):
            text = "import inside a function" if each.is_nested else ""
        else:
            by_name = getattr(node.func, "attr", getattr(node.func, "id", "")) in ("import_module", "__import__")
            text = "import by name" if by_name else ""
        if text and not re.search(r"# lazy: \S", "\n".join(lines[node.lineno - 1 : node.end_lineno])):
            yield node.lineno, f"{text} without a comment `# lazy: reason`"


def _wrong_direction(edge: Import) -> str:
    importer, imported = _part(edge.importer), _part(edge.imported)
    for part in (importer, imported):
        if part not in HEIGHT:
            return f"{part} is in no layer: give it a place in LAYERS"
    if importer == imported or HEIGHT[imported] < HEIGHT[importer]:
        return ""
    where = "beside" if HEIGHT[imported] == HEIGHT[importer] else "above"
    return f"{edge.importer} imports {edge.imported}, which is {where} it"


def _part(module: str) -> str:
    """The file or folder of whit that a module belongs to: `ir` for whit.ir.uop."""
    return [*module.split("."), ""][1]


def _cycles(imports: list[Import]) -> list[str]:
    graph: dict[str, set[str]] = {}
    for edge in imports:
        if edge.runs:
            graph.setdefault(edge.importer, set()).add(edge.imported)
    try:
        graphlib.TopologicalSorter(graph).prepare()
    except graphlib.CycleError as error:
        return ["import cycle: " + " -> ".join(reversed(error.args[1]))]
    return []


def test_imports_of_whit_go_down_only() -> None:
    assert find_problems(Path(whit.__file__).parent) == []


def _plant(folder: Path, sources: dict[str, str]) -> list[str]:
    root = folder / "whit"
    for name, source in {"__init__.py": "", **sources}.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(source)
    return find_problems(root)


def test_checker_accepts_what_is_right(tmp_path: Path) -> None:
    sources = {
        "__init__.py": "from whit.nn import Linear\nfrom whit.errors import WhitError\n",
        "errors.py": "import os\n",
        "ir/__init__.py": "from whit.ir.uop import UOp\n",
        "ir/uop.py": "from whit.errors import WhitError\nfrom . import op\n",
        "ir/op.py": "from ..errors import WhitError\n",
        "engine/devices.py": (
            "import importlib\n\ndef load(name):\n"
            "    import numpy  # lazy: 80 ms\n"
            "    return importlib.import_module(name)  # lazy: the backend is named at run time\n"
        ),
        "nn/__init__.py": "from whit.ir import UOp\nimport whit.engine.devices\n",
    }
    assert _plant(tmp_path, sources) == []


@pytest.mark.parametrize(
    ("name", "source", "problem"),
    [
        ("errors.py", "import whit.config", "errors.py:1: whit.errors imports whit.config, which is above it"),
        ("ir/uop.py", "\nfrom whit.tensor import T", "uop.py:2: whit.ir.uop imports whit.tensor, which is above it"),
        ("ir/uop.py", "from ..simplify import x", "uop.py:1: whit.ir.uop imports whit.simplify, which is above it"),
        ("dtype.py", "from whit import ir", "dtype.py:1: whit.dtype imports whit.ir, which is above it"),
        ("nn/optim.py", "from whit import Tensor", "optim.py:1: whit.nn.optim imports whit, which is above it"),
        ("ir/uop.py", "if X:\n    from whit.nn import y", "uop.py:2: whit.ir.uop imports whit.nn, which is above it"),
        (
            "transform/vmap.py",
            "import whit.schedule.p",
            "transform/vmap.py:1: whit.transform.vmap imports whit.schedule.p, which is beside it",
        ),
        ("render/c.py", "from whit.codegen import x", "c.py:1: whit.render.c imports whit.codegen, which is beside it"),
        ("config.py", "from whit import cache", "config.py:1: whit.config imports whit.cache, which is beside it"),
        ("utils.py", "import whit.errors", "utils.py:1: utils is in no layer: give it a place in LAYERS"),
        ("ir/a.py", "def f():\n    import os", "a.py:2: import inside a function without a comment `# lazy: reason`"),
        ("ir/a.py", "def f():\n    import os  # lazy:", "a.py:2: import inside a function without a comment"),
        ("ir/a.py", "class A:\n  async def f(self):\n    from os import path", "a.py:3: import inside a function"),
        ("ir/a.py", "x = __import__('os')", "a.py:1: import by name without a comment `# lazy: reason`"),
        ("ir/a.py", "from importlib import import_module\nimport_module(n)", "a.py:2: import by name without"),
    ],
)
def test_checker_finds_one_bad_import(tmp_path: Path, name: str, source: str, problem: str) -> None:
    others = {"errors.py": "", "cache.py": "", "ir/__init__.py": ""}
    problems = _plant(tmp_path, {**others, name: source})
    assert len(problems) == 1
    assert problem in problems[0]


def test_checker_finds_lazy_imports_that_go_up(tmp_path: Path) -> None:
    problems = _plant(tmp_path, {"dtype.py": "def f():\n    import whit.ir  # lazy: to hide a cycle\n"})
    assert problems == ["whit/dtype.py:2: whit.dtype imports whit.ir, which is above it"]


def test_checker_finds_cycles_inside_a_folder(tmp_path: Path) -> None:
    sources = {
        "ir/a.py": "from whit.ir.b import x\n",
        "ir/b.py": "import whit.ir.c\n",
        "ir/c.py": "def f():\n    from . import a  # lazy: to hide a cycle\n",
    }
    (problem,) = _plant(tmp_path, sources)
    start, *rest = problem.removeprefix("import cycle: ").split(" -> ")
    assert rest[-1] == start
    assert set(rest) == {"whit.ir.a", "whit.ir.b", "whit.ir.c"}
    assert "whit.ir.a -> whit.ir.b" in problem


def test_checker_finds_an_import_after_a_text_that_looks_like_one(tmp_path: Path) -> None:
    source = (
        'TEXT = """\nfrom here\nimport on\n"""\ndef f():\n    pass\ntry:\n    import whit.nn\nexcept E:\n    pass\n'
    )
    assert _plant(tmp_path, {"ir/a.py": source}) == ["whit/ir/a.py:8: whit.ir.a imports whit.nn, which is above it"]


def test_checker_lets_an_import_for_types_close_a_circle_but_not_go_up(tmp_path: Path) -> None:
    sources = {
        "ir/op.py": "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    from whit.ir.uop import UOp\n",
        "ir/uop.py": "import whit.ir.op\n",
        "dtype.py": "import typing\nif typing.TYPE_CHECKING:\n    from whit.ir.uop import UOp\n",
    }
    assert _plant(tmp_path, sources) == ["whit/dtype.py:3: whit.dtype imports whit.ir.uop, which is above it"]


def test_checker_finds_a_file_that_imports_its_own_folder(tmp_path: Path) -> None:
    sources = {"ir/__init__.py": "from whit.ir.uop import UOp\n", "ir/uop.py": "from whit.ir import op\n"}
    (problem,) = _plant(tmp_path, sources)
    assert problem.startswith("import cycle: ")
