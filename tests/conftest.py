"""How hard hypothesis tries: HYPOTHESIS_PROFILE is `default`, `quick` or `deep`. What is left out is not imported.

Tests run on the device that DEV names, as in `DEV=CUDA pytest`; those about the CPU are marked `cpu` and stay there.
Schedules are made anew in every run: tests count and change how that is done. Kernels are found on disk. Every
schedule, kernel and program that is made is verified.
"""

import gc
import os
import re
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import settings

os.environ.setdefault("CACHE", "2")
os.environ.setdefault("VERIFY", "1")

# Other processes would not see what a test has replaced in the compiler.
os.environ.setdefault("COMPILERS", "0")

# Every schedule that a test makes, and its memory, is proved: each read sees what was written for it.
os.environ.setdefault("CHECK_PLAN", "1")

# Under CI the examples are the same on every run, so that a failure belongs to the change that it is seen on; half as
# many do then.
_is_ci = bool(os.environ.get("CI"))

# No deadlines: the time of one example depends on what else the machine does.
settings.register_profile("default", deadline=None, max_examples=50 if _is_ci else 100, derandomize=_is_ci)
settings.register_profile("quick", deadline=None, max_examples=20, derandomize=_is_ci)
settings.register_profile("deep", deadline=None, max_examples=2000, derandomize=_is_ci)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE") or "default")

# There is a process of tests for each core: threads of NumPy and of PyTorch would wait for each other, spinning. Fifty
# steps of a small GPT by PyTorch: 7 -> 0.4 s.
os.environ.setdefault("OMP_NUM_THREADS", "1")

# Fifteen thousand tests stay alive to the end: a look for cycles among them takes half a second each time. Until they
# are collected it looks for none, then only among what came later: 15 -> 4 % of the time of a run.
gc.disable()

ABOUT_THE_CPU = ("cli", "codegen", "docs", "errors")  # folders whose tests all are
SLOW = re.compile(r"^pytestmark = \[?pytest\.mark\.slow", re.MULTILINE)


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Modules that are slow as a whole: collecting them takes half the time of collecting all, in every process."""
    if config.option.markexpr != "not slow" or collection_path.suffix != ".py":
        return None
    return bool(SLOW.search(collection_path.read_text("utf-8"))) or None


def pytest_collection_finish() -> None:
    """Cycles are looked for from here on."""
    gc.freeze()
    gc.set_threshold(10_000, 10, 10)
    gc.enable()


@pytest.fixture(scope="session", autouse=True)
def _temporary_files(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Files for people, as the source of a kernel whose launch failed, go where pytest's own folders are removed."""
    before = tempfile.tempdir, os.environ.get("TMPDIR")
    tempfile.tempdir = os.environ["TMPDIR"] = str(tmp_path_factory.mktemp("temporary"))
    yield
    tempfile.tempdir = before[0]
    if before[1] is None:
        del os.environ["TMPDIR"]
    else:
        os.environ["TMPDIR"] = before[1]


@pytest.fixture(autouse=bool(os.environ.get("DEV")))
def _device(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """The device of tests that are about the CPU, in all threads and in programs that they start."""
    if request.path.parent.name not in ABOUT_THE_CPU and not request.node.get_closest_marker("cpu"):
        yield
        return
    from whit import Device  # here: most runs need none of it

    before = Device.DEFAULT
    monkeypatch.setenv("DEV", "CPU")
    Device.DEFAULT = "CPU"
    yield
    Device.DEFAULT = before
