"""Recordings that the tests look at, each made once."""

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from whit.recording import hooks
from whit.viz.load import load
from whit.viz.model import Trace

PROGRAM = Path(__file__).parent / "program.py"


@pytest.fixture(autouse=True)
def nothing_is_left_recording() -> Iterator[None]:
    assert hooks.recorder is None
    yield
    assert hooks.recorder is None


def _record(folder: Path, rows: int) -> Path:
    """A process of its own, because memory that other tests hold or let go of would be recorded too. Compiled without
    optimisation, so that graphs are the same on every machine."""
    path = folder / "run.trace"
    settings = {"PYTHONPATH": str(PROGRAM.parents[2]), "VIZ": str(path), "NOOPT": "1", "DEV": "CPU"}
    subprocess.run([sys.executable, str(PROGRAM), str(rows)], env={**os.environ, **settings}, check=True)
    return path


@pytest.fixture(scope="session")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return _record(tmp_path_factory.mktemp("recorded"), 6)


@pytest.fixture(scope="session")
def changed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The same program with more rows."""
    return _record(tmp_path_factory.mktemp("changed"), 7)


@pytest.fixture(scope="session")
def trace(recorded: Path) -> Trace:
    return load(recorded)
