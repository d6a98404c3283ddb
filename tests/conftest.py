"""How hard hypothesis tries: HYPOTHESIS_PROFILE is `default`, `quick` or `deep`. What is left out is not imported."""

import os
from pathlib import Path

import pytest
from hypothesis import settings

# Under CI the examples are the same on every run, so that a failure belongs to the change that it is seen on.
_is_ci = bool(os.environ.get("CI"))

# No deadlines: the time of one example depends on what else the machine does.
settings.register_profile("default", deadline=None, max_examples=100, derandomize=_is_ci)
settings.register_profile("quick", deadline=None, max_examples=20, derandomize=_is_ci)
settings.register_profile("deep", deadline=None, max_examples=2000, derandomize=_is_ci)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE") or "default")


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Modules that are slow as a whole: collecting them takes half the time of collecting all, in every process."""
    if config.option.markexpr != "not slow" or collection_path.suffix != ".py":
        return None
    return "\npytestmark = pytest.mark.slow" in collection_path.read_text("utf-8") or None
