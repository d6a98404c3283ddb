"""The numbers of tools/tree.py, on a small tree."""

import importlib.util
from pathlib import Path
from types import ModuleType

import pytest

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def tree() -> ModuleType:
    spec = importlib.util.spec_from_file_location("tree", ROOT / "tools" / "tree.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_files_users_and_tokens_of_a_small_tree(tree: ModuleType, tmp_path: Path) -> None:
    root = tmp_path / "whit"
    (root / "ir").mkdir(parents=True)
    (root / "__init__.py").write_text("from whit.ir.a import x\nfrom whit.ir import b\n")
    (root / "ir" / "__init__.py").write_text("")
    (root / "ir" / "a.py").write_text("x = 1  # a comment\n")
    (root / "ir" / "b.py").write_text("from whit.ir.a import x\nassert x\n")
    found = tree.folders(root)
    assert found["whit/ir"] == {"files": 3, "lines": 3, "tokens a line": 4.3, "one user": 1}
    assert tree.whole(root)["asserts without a message"] == 1


@pytest.mark.slow
def test_a_replay_enters_few_files(tree: ModuleType) -> None:
    files, functions, calls, _ = tree.walk(ROOT, *tree.WALKS["JIT, replay"])
    assert files <= 30 and functions <= 80 and calls <= 90
