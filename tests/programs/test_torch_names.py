"""Functions of torch that whit.torch has: each call of docs/names/torch.txt, in three dtypes."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest
from tensor.test_pytorch_names import assert_same, torch_samples, whit_samples

import whit.torch as ours

sys.path.append(str(Path(__file__).parents[2] / "docs"))
from names_of_others import MISSING, SAME, coverage, read  # a module of the documentation

NAMES = read("torch")
TRIED = [name for name in NAMES if name.kind == SAME]
PARTS = 12  # tests, of so many names each


def evaluated(name: Any, module: Any, samples: Any) -> Any:
    given, keywords = eval(f"(lambda *args, **keywords: (args, keywords))({name.arguments})", {}, samples)
    found = getattr(module, name.name)(*given, **keywords)
    return tuple(found) if isinstance(found, list) else found


@pytest.mark.slow
@pytest.mark.parametrize("part", range(PARTS))
def test_values_are_those_of_pytorch(part: int) -> None:
    torch = pytest.importorskip("torch")
    problems = []
    for name in TRIED[part::PARTS]:
        tried = 0
        for dtype in ("float32", "int64", "bool"):
            if dtype in name.words.partition(": ")[0].split(", ") or (dtype == "int64" and "int64" in name.words):
                continue
            try:
                theirs = evaluated(name, torch, torch_samples(torch, dtype))
            except (RuntimeError, TypeError, NotImplementedError, ValueError, IndexError):
                continue
            tried += 1
            try:
                assert_same(evaluated(name, ours, whit_samples(dtype)), theirs, dtype)
            except Exception as error:  # all names are tried
                problems.append(f"{name.name} {dtype}: {type(error).__name__} {str(error)[:160]!r}")
        if not tried:
            problems.append(f"{name.name}: PyTorch takes it in no dtype")
    assert problems == []


def test_the_list_is_complete() -> None:
    torch = pytest.importorskip("torch")
    if not torch.__version__.startswith("2.13"):
        pytest.skip("the list is of PyTorch 2.13")
    public = {name: getattr(torch, name) for name in dir(torch) if not name.startswith("_")}
    functions = {name for name, found in public.items() if callable(found) and not isinstance(found, type)}
    assert {name.name for name in NAMES} == {name for name in functions if public[name].__doc__}


def test_the_list_says_what_is_here() -> None:
    for name in NAMES:
        assert hasattr(ours, name.name) == name.is_here, name.name
        assert name.kind != MISSING or name.words
    here, sensible = coverage(NAMES)
    assert here / sensible >= 0.97
