"""The tree in numbers: `python tools/tree.py [CHECKOUT]`.

Goes in: a checkout, by default this one. Comes out, as text or with --json: for each folder of whit its files, lines,
tokens a line and modules that only one other module imports; functions with more paths than 15 (tests/project), uses of
`Any`; and the walks: how many files and functions a small program enters, without imports and lambdas.

    python tools/tree.py                          this tree
    python tools/tree.py ../old --json            another one, for a table of before and after
"""

from __future__ import annotations

import argparse
import ast
import io
import json
import subprocess
import sys
import tempfile
import tokenize
from collections import Counter, defaultdict
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(HERE / "tests"))

from project.complexity import LIMIT, count_paths  # noqa: E402

# What is counted by a walk: from the first line to the last, in a process of its own with an empty cache.
WALKS = {
    "build a + b": ("from whit import Tensor\na = Tensor([1.0, 2.0])\nb = Tensor([3.0, 4.0])", "c = a + b"),
    "a + b, cold": ("from whit import Tensor\nc = Tensor([1.0, 2.0]) + Tensor([3.0, 4.0])", "c.realize()"),
    "a + b again": (
        "from whit import Tensor\n(Tensor([1.0, 2.0]) + Tensor([3.0, 4.0])).realize()\n"
        "c = Tensor([5.0, 2.0]) + Tensor([3.0, 4.0])",
        "c.realize()",
    ),
    "matmul of 512": (
        "from whit import Tensor\nx = Tensor.rand(512, 512).realize()\ny = Tensor.rand(512, 512).realize()\nc = x @ y",
        "c.realize()",
    ),
    "JIT, first call": (
        "from whit import Tensor, TinyJit\nf = TinyJit(lambda x: (x * 2).relu())\nx = Tensor.rand(8, 8).realize()",
        "f(x)",
    ),
    "JIT, replay": (
        "from whit import Tensor, TinyJit\nf = TinyJit(lambda x: (x * 2).relu())\nx = Tensor.rand(8, 8).realize()\n"
        "f(x)\nf(x)\nf(x)",
        "f(x)",
    ),
}
_COUNTER = """
import json, sys
{before}
files, functions, calls, switches, last = set(), set(), 0, 0, None
def count(frame, event, argument):
    global calls, switches, last
    if event != "call":
        return
    code = frame.f_code
    path, name = code.co_filename, code.co_name
    if "/whit/" not in path or name.startswith("<"):
        return
    calls += 1
    files.add(path)
    functions.add((path, code.co_firstlineno))
    switches += path != last
    last = path
sys.setprofile(count)
{measured}
sys.setprofile(None)
print(json.dumps([len(files), len(functions), calls, switches]))
"""


def folders(root: Path) -> dict[str, dict[str, float]]:
    """Of each folder with Python files: how many, their lines, tokens a line, and modules with one user."""
    users = _users(root)
    found: dict[str, dict[str, float]] = {}
    for folder in sorted({path.parent for path in root.rglob("*.py")}):
        paths = sorted(folder.glob("*.py"))
        lines = tokens = 0
        for path in paths:
            source = path.read_text("utf-8")
            lines += source.count("\n")
            tokens += _tokens(source)
        modules = [_module(path, root) for path in paths if path.name not in ("__init__.py", "__main__.py")]
        found[folder.relative_to(root.parent).as_posix()] = {
            "files": len(paths),
            "lines": lines,
            "tokens a line": round(tokens / max(lines, 1), 1),
            "one user": sum(len(users[module]) == 1 for module in modules),
        }
    return found


def _tokens(source: str) -> int:
    skipped = (tokenize.COMMENT, tokenize.NL, tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT, tokenize.ENDMARKER)
    return sum(token.type not in skipped for token in tokenize.generate_tokens(io.StringIO(source).readline))


def _module(path: Path, root: Path) -> str:
    return ".".join(path.relative_to(root.parent).with_suffix("").parts).removesuffix(".__init__")


def _users(root: Path) -> dict[str, set[str]]:
    """Which modules import each module."""
    modules = {_module(path, root): path for path in root.rglob("*.py")}
    users: dict[str, set[str]] = defaultdict(set)
    for module, path in modules.items():
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            if isinstance(node, ast.ImportFrom) and node.module:
                names = [f"{node.module}.{alias.name}" for alias in node.names]
                for name in names:
                    users[name if name in modules else node.module].add(module)
            elif isinstance(node, ast.Import):
                for alias in node.names:
                    users[alias.name].add(module)
    return users


def whole(root: Path) -> dict[str, int]:
    """What is counted in all files together."""
    counts: Counter[str] = Counter()
    for path in root.rglob("*.py"):
        source = path.read_text("utf-8")
        tree = ast.parse(source)
        counts["files"] += 1
        counts["lines"] += source.count("\n")
        for node in ast.walk(tree):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                counts["functions"] += 1
                counts[f"above {LIMIT} paths"] += count_paths(node) > LIMIT
            elif isinstance(node, ast.Assert):
                counts["asserts without a message"] += node.msg is None
            elif isinstance(node, ast.Name):
                counts["Any"] += node.id == "Any"
                counts["getrefcount"] += node.id == "getrefcount"
            elif isinstance(node, ast.Attribute):
                counts["getrefcount"] += node.attr == "getrefcount"
    return dict(counts)


def walk(checkout: Path, before: str, measured: str) -> list[int]:
    """Files, functions, calls and changes of file while a program runs, in a process with an empty cache."""
    with tempfile.TemporaryDirectory() as cache:
        done = subprocess.run(
            [sys.executable, "-c", _COUNTER.format(before=before, measured=measured)],
            env={"PYTHONPATH": str(checkout), "CACHE_DIR": cache, "PATH": "/usr/bin:/bin", "CI": "1"},
            capture_output=True,
            text=True,
            check=True,
            cwd=cache,
        )
    return list(json.loads(done.stdout))


def measure(checkout: Path) -> dict[str, Any]:
    root = checkout / "whit"
    walks = {name: walk(checkout, *program) for name, program in WALKS.items()}
    return {"whole": whole(root), "folders": folders(root), "walks": walks}


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("checkout", nargs="?", type=Path, default=HERE)
    parser.add_argument("--json", action="store_true")
    arguments = parser.parse_args()
    found = measure(arguments.checkout.resolve())
    if arguments.json:
        print(json.dumps(found, indent=1))
        return
    print(", ".join(f"{count:,} {what}" for what, count in found["whole"].items()))
    print(f"\n{'folder':32}{'files':>6}{'lines':>8}{'tokens a line':>15}{'one user':>10}")
    for folder, row in found["folders"].items():
        print(f"{folder:32}{row['files']:6}{row['lines']:8}{row['tokens a line']:15}{row['one user']:10}")
    print(f"\n{'walk':20}{'files':>6}{'functions':>11}{'calls':>8}{'changes of file':>17}")
    for name, (files, functions, calls, switches) in found["walks"].items():
        print(f"{name:20}{files:6}{functions:11}{calls:8}{switches:17}")


if __name__ == "__main__":
    main()
