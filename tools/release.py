"""Builds the sdist and the wheel into dist/, checks them, and runs the demo of an environment that has nothing else.

    python tools/release.py             all of it; `make release`
    python tools/release.py --check     what can be said before building: version, changelog, metadata

It uploads nothing and tags nothing: the last lines say how.
"""

from __future__ import annotations

import argparse
import email.parser
import os
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile
import tomllib
import zipfile
from collections.abc import Mapping
from email.message import Message
from pathlib import Path

ROOT = Path(__file__).parent.parent
DIST = ROOT / "dist"
# What users of the wheel have to find in it, beside Python's files.
NEEDED = ("whit/py.typed", "whit/nn/digits.npz", "whit/viz/page/static/index.html", "whit/viz/page/static/main.js")
# Tracked, and of no use to somebody who has unpacked the sdist.
NOT_IN_SDIST = (".ci/", ".github/", ".gitignore", ".pre-commit-config.yaml")


class Unreleasable(Exception):  # noqa: N818  it says what the sources are
    """What has to change before this can be released."""


# ---- before building


def version_of_package() -> str:
    """`__version__`, read without importing."""
    found = re.search(r'^__version__ = "([^"]+)"$', (ROOT / "whit" / "__init__.py").read_text("utf-8"), re.MULTILINE)
    if not found:
        raise Unreleasable('whit/__init__.py: no line `__version__ = "..."`')
    return found[1]


def versions_of_changelog() -> list[tuple[str, str]]:
    """(version, date) of each entry, newest first; the date of [Unreleased] is empty."""
    text = (ROOT / "CHANGELOG.md").read_text("utf-8")
    return re.findall(r"^## \[([^\]]+)\](?: - (\d{4}-\d\d-\d\d))?$", text, re.MULTILINE)


def find_problems() -> list[str]:
    """What version, changelog and pyproject.toml disagree about, one line each."""
    version, entries = version_of_package(), versions_of_changelog()
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    problems = []
    if not entries or entries[0] != ("Unreleased", ""):
        problems.append("CHANGELOG.md: the first entry is [Unreleased], for what comes next")
    released = [entry for entry in entries if entry[0] != "Unreleased"]
    if not released or released[0][0] != version:
        problems.append(f"CHANGELOG.md: the newest release is not {version}, which whit.__version__ is")
    if not all(date for _, date in released):
        problems.append("CHANGELOG.md: a release without a date")
    if "version" in project or "version" not in project.get("dynamic", ()):
        problems.append("pyproject.toml: the version is taken from whit.__version__, and written nowhere else")
    lowest = project["requires-python"].removeprefix(">=")
    if f"Programming Language :: Python :: {lowest}" not in project["classifiers"]:
        problems.append(f"pyproject.toml: requires-python starts at {lowest}, classifiers do not")
    for key in ("Homepage", "Documentation", "Source", "Changelog", "Issues"):
        if not project["urls"].get(key, "").startswith("https://"):
            problems.append(f"pyproject.toml: no URL of {key}")
    return problems


# ---- what was built


def tracked(*folders: str) -> set[str]:
    """The files that git knows, from the root on; also those that are new and not ignored."""
    command = ["git", "ls-files", "--cached", "--others", "--exclude-standard", "--", *folders]
    found = subprocess.run(command, cwd=ROOT, check=True, capture_output=True, text=True).stdout.splitlines()
    return {name for name in found if (ROOT / name).is_file() and not (ROOT / name).is_symlink()}


def build() -> tuple[Path, Path]:
    """(sdist, wheel), the second made of the first; equal sources make equal files, as their time is the commit's."""
    shutil.rmtree(DIST, ignore_errors=True)
    shutil.rmtree(ROOT / "build" / "lib", ignore_errors=True)  # where files come back from that were moved
    time = subprocess.run(["git", "log", "-1", "--format=%ct"], cwd=ROOT, capture_output=True, text=True).stdout.strip()
    environment = os.environ | ({"SOURCE_DATE_EPOCH": time} if time else {})
    _run([sys.executable, "-m", "build", "--outdir", str(DIST), str(ROOT)], is_shown=False, env=environment)
    (sdist,), (wheel,) = DIST.glob("*.tar.gz"), DIST.glob("*.whl")
    return sdist, wheel


def check_wheel(path: Path) -> None:
    """It has every file of whit/ and none besides, and says of itself what pyproject.toml says."""
    with zipfile.ZipFile(path) as archive:
        names = set(archive.namelist())
        (metadata,) = [name for name in names if name.endswith(".dist-info/METADATA")]
        text = archive.read(metadata).decode()
    folder = metadata.rpartition("/")[0] + "/"
    _compare("wheel", {name for name in names if not name.startswith(folder)}, tracked("whit"))
    missing = [name for name in NEEDED if name not in names]
    if missing:
        raise Unreleasable(f"wheel: lacks {', '.join(missing)}")
    check_metadata(email.parser.HeaderParser().parsestr(text))


def check_metadata(metadata: Message) -> None:
    """The headers that package indexes show."""
    expected = {"Name": "whit", "Version": version_of_package(), "License-Expression": "MIT"}
    for key, value in expected.items():
        if metadata[key] != value:
            raise Unreleasable(f"metadata: {key} is {metadata[key]!r}, not {value!r}")
    for key in ("Summary", "Requires-Python", "Keywords", "Description-Content-Type", "Classifier", "Project-URL"):
        if not metadata.get_all(key):
            raise Unreleasable(f"metadata: no {key}")
    needed = {re.split(r"[^\w-]", line)[0] for line in metadata.get_all("Requires-Dist", ()) if "extra ==" not in line}
    if needed != {"numpy", "ml_dtypes", "llvmlite"}:
        raise Unreleasable(f"metadata: whit needs {sorted(needed)}; docs/dependencies.md names three packages")


def check_sdist(path: Path) -> None:
    """It has all tracked files but those of the host, and what setuptools adds."""
    with tarfile.open(path) as archive:
        names = {name.partition("/")[2] for name in archive.getnames() if not archive.getmember(name).isdir()}
    added = {name for name in names if name.startswith("whit.egg-info/")} | {"PKG-INFO", "setup.cfg"}
    _compare("sdist", names - added, {name for name in tracked() if not name.startswith(NOT_IN_SDIST)})


def _compare(what: str, names: set[str], expected: set[str]) -> None:
    for problem, found in (("lacks", expected - names), ("has, and should not,", names - expected)):
        if found:
            raise Unreleasable(f"{what}: {problem} {_few(sorted(found))}")


def _few(names: list[str]) -> str:
    more = f" and {len(names) - 5} more" if len(names) > 5 else ""
    return ", ".join(names[:5]) + more


# ---- as a user


def try_wheel(wheel: Path) -> None:
    """Installs the wheel into an empty environment, and runs the demo from a folder without a checkout."""
    with tempfile.TemporaryDirectory(prefix="whit-release-") as name:
        folder = Path(name)
        hidden = ("PYTHONPATH", "PYTHONHOME", "VIRTUAL_ENV")  # with them, pip and Python would find the checkout
        environment = {key: value for key, value in os.environ.items() if key not in hidden}
        environment["CACHE_DIR"] = str(folder / "cache")
        (folder / "examples").mkdir()  # the demo draws into a folder beside its own
        shutil.copy(ROOT / "examples" / "demo.py", folder / "examples")

        def python(*arguments: str, is_shown: bool = True) -> str:
            where = folder / "env" / ("Scripts" if os.name == "nt" else "bin") / "python"
            return _run([str(where), "-I", *arguments], is_shown, cwd=folder, env=environment)

        _run([sys.executable, "-I", "-m", "venv", str(folder / "env")], cwd=folder, env=environment)
        python("-m", "pip", "install", "--quiet", "--disable-pip-version-check", str(wheel))
        shown = python("-c", "import whit; print(whit.__file__); print(whit.__version__)", is_shown=False).split()
        if not Path(shown[0]).is_relative_to(folder) or shown[1] != version_of_package():
            raise Unreleasable(f"the wheel in an empty environment: imported {shown[0]}, version {shown[1]}")
        python("-m", "whit", "doctor")
        python("examples/demo.py")


def _run(command: list[str], is_shown: bool = True, cwd: Path = ROOT, env: Mapping[str, str] | None = None) -> str:
    """Runs it and gives what it printed, which is shown at once or, `is_shown` False, where it fails."""
    print("$", " ".join(command), flush=True)
    out = None if is_shown else subprocess.PIPE
    done = subprocess.run(
        command, stdout=out, stderr=out and subprocess.STDOUT, text=True, check=False, cwd=cwd, env=env
    )
    if done.returncode:
        raise Unreleasable(f"`{' '.join(command)}` failed with {done.returncode}\n{done.stdout or ''}")
    return done.stdout or ""


def main(arguments: list[str] | None = None) -> int:
    """What `make release` runs."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--check", action="store_true", help="only what needs no build")
    given = parser.parse_args(arguments)
    try:
        problems = find_problems()
        if problems:
            raise Unreleasable("\n".join(problems))
        if given.check:
            return 0
        sdist, wheel = build()
        check_wheel(wheel)
        check_sdist(sdist)
        try_wheel(wheel)
    except Unreleasable as problem:
        print(f"not releasable: {problem}", file=sys.stderr)
        return 1
    version = version_of_package()
    print(f"\n{sdist.name} and {wheel.name} are in {DIST.name}/, checked, and the demo ran from the wheel.")
    print(f"To release: git tag -s v{version} && git push origin v{version}, then upload both files (CONTRIBUTING.md).")
    return 0


if __name__ == "__main__":
    sys.exit(main())
