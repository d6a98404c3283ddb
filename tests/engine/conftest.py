"""Tests of the engine do not touch the user's cache, and start from clean counters."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from whit.config import Context
from whit.engine.report.counters import GlobalCounters


@pytest.fixture(autouse=True)
def own_cache(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    folder = tmp_path_factory.getbasetemp() / "kernels"
    GlobalCounters.reset()
    with Context(CACHE_DIR=str(folder)):
        yield folder
