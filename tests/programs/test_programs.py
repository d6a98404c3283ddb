"""Programs written for PyTorch, NumPy, JAX and tinygrad give under whit the numbers that they give there."""

import json
from pathlib import Path

import pytest

from programs.run import EXPECTED, IMPORTS, differences, programs, run

RECORDED = json.loads(EXPECTED.read_text("utf-8"))
PROGRAMS = [path for library in IMPORTS for path in programs(library)]


@pytest.mark.slow  # `-m "not slow"` replaces the `not large` of pyproject.toml
@pytest.mark.large
@pytest.mark.parametrize("path", PROGRAMS, ids=lambda path: f"{path.parent.name}-{path.stem}")
def test_numbers_are_those_of_the_library(path: Path) -> None:
    found = json.loads(json.dumps(run(path)))
    assert differences(found, RECORDED[path.parent.name][path.stem], 1e-4) == []


def test_every_recorded_program_is_there() -> None:
    names = {library: {path.stem for path in programs(library)} for library in RECORDED}
    assert names == {library: set(recorded) for library, recorded in RECORDED.items()}


def test_differences_are_found() -> None:
    assert differences([1.0, True], [1.0, True], 1e-6) == []
    assert differences([1.1], [1.0], 1e-6) == ["[0]: 1.1 for 1.0"]
    assert differences({"a": True}, {"a": 1.0}, 1e-6) == [".a: True for 1.0"]
    assert differences({"a": 1}, {"b": 1}, 1e-6) == [": ['a'] for ['b']"]
    assert differences([1], [1, 2], 1e-6) == [": 1 values for 2"]
