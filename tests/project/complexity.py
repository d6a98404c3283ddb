"""Functions with many paths: `python tests/project/complexity.py [FOLDER ...]` lists those above 15, the worst first.

One, and one more for every `if`, loop, `except` and `case`, for every `and` and `or`, for every conditional expression,
and for every `for` and `if` of a comprehension; a function counts what is inside of its inner ones, too. That is more
than ruff's C901 counts, which sees statements alone: a condition of eight parts is eight paths for a reader.

A function that is clearer in one piece says why, on the first lines of its definition:

    def visit(node: UOp) -> UOp:  # complex: one case for each op, in the order of the table
"""

from __future__ import annotations

import ast
import re
import sys
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[2]
LIMIT = 15
MARK = re.compile(r"# (?:complex:|noqa: C901) *(.*)")
ONE_MORE = (ast.If, ast.For, ast.AsyncFor, ast.While, ast.ExceptHandler, ast.IfExp, ast.match_case)


@dataclass(frozen=True, slots=True)
class Function:
    place: str  # "whit/ir/uop.py:12"
    name: str
    paths: int
    reason: str | None  # what its mark says; None without one


def count_paths(function: ast.AST) -> int:
    """1 for straight code."""
    paths = 1
    for node in ast.walk(function):
        if isinstance(node, ONE_MORE):
            paths += 1
        elif isinstance(node, ast.BoolOp):
            paths += len(node.values) - 1
        elif isinstance(node, ast.comprehension):
            paths += 1 + len(node.ifs)
    return paths


def find_functions(source: str, name: str) -> list[Function]:
    """All functions of a file, in no order."""
    lines, found = source.splitlines(), []
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            head = "\n".join(lines[node.lineno - 1 : max(node.body[0].lineno - 1, node.lineno)])
            mark = MARK.search(head)
            found.append(Function(f"{name}:{node.lineno}", node.name, count_paths(node), mark and mark[1]))
    return found


def in_folders(folders: Iterable[Path]) -> list[Function]:
    """All functions of the Python files there, those with most paths first."""
    found = []
    for folder in folders:
        for path in sorted(folder.rglob("*.py")) if folder.is_dir() else [folder]:
            found += find_functions(path.read_text("utf-8"), path.resolve().relative_to(ROOT).as_posix())
    return sorted(found, key=lambda function: (-function.paths, function.place))


def main() -> None:
    above = [f for f in in_folders([Path(a) for a in sys.argv[1:]] or [ROOT / "whit"]) if f.paths > LIMIT]
    for function in above:
        print(
            f"{function.paths:3} {function.place} {function.name}"
            + (f"  # {function.reason}" if function.reason else "")
        )
    print(f"{len(above)} functions above {LIMIT}, {sum(bool(f.reason) for f in above)} of them with a reason")


if __name__ == "__main__":
    main()
