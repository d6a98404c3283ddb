"""Recordings that the tests look at, each made once."""

from collections.abc import Iterator
from pathlib import Path

import pytest

import whit
from whit import Context, Tensor
from whit.recording import hooks
from whit.viz.load import load
from whit.viz.model import Trace


def program(rows: int = 6) -> Tensor:
    """Two schedules: one with a temporary, and one of a single kernel that runs twice."""
    x = Tensor([[float(i + j) for i in range(8)] for j in range(rows)])
    total = (x * 3.0 + 1.0).sum(1)
    (x.exp2().contiguous().sum(0) * 2.0).contiguous().sum().realize()
    for _ in range(2):
        (total + 0.0).realize()
        total = (x * 3.0 + 1.0).sum(1)
    return x


@pytest.fixture(autouse=True)
def nothing_is_left_recording() -> Iterator[None]:
    assert hooks.recorder is None
    yield
    assert hooks.recorder is None


@pytest.fixture(scope="session")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A small program on CPU, compiled without optimisation, so that its graphs are the same on every machine."""
    path = tmp_path_factory.mktemp("viz") / "run.trace"
    whit.clear_caches()
    with Context(NOOPT=1, DEV="CPU"), whit.trace(path):
        program()
    return path


@pytest.fixture(scope="session")
def changed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The same program with more rows."""
    path = tmp_path_factory.mktemp("viz") / "changed.trace"
    with Context(NOOPT=1, DEV="CPU"), whit.trace(path, rewrites=False):
        program(7)
    return path


@pytest.fixture(scope="session")
def trace(recorded: Path) -> Trace:
    return load(recorded)
