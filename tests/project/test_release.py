"""Version, changelog and pyproject.toml agree; what is built is checked against what is tracked."""

import email.parser
import importlib.util
import io
import tarfile
import zipfile
from email.message import Message
from pathlib import Path
from types import ModuleType

import pytest

import whit

ROOT = Path(__file__).parents[2]
IN_CHECKOUT = pytest.mark.skipif(not (ROOT / ".git").exists(), reason="asks git which files there are")
METADATA = """Name: whit
Version: {version}
License-Expression: MIT
Summary: A stack
Requires-Python: >=3.11
Keywords: tensor
Description-Content-Type: text/markdown
Classifier: Typing :: Typed
Project-URL: Homepage, https://example.org
Requires-Dist: numpy>=1.26
Requires-Dist: ml_dtypes>=0.5
Requires-Dist: llvmlite>=0.45
Requires-Dist: pytest>=8; extra == "test"
"""


@pytest.fixture(scope="module")
def release() -> ModuleType:
    spec = importlib.util.spec_from_file_location("release", ROOT / "tools" / "release.py")
    assert spec and spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_version_changelog_and_project_agree(release: ModuleType) -> None:
    assert release.find_problems() == []
    assert release.version_of_package() == whit.__version__


def test_a_version_without_an_entry_in_the_changelog_is_a_problem(
    release: ModuleType, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(release, "version_of_package", lambda: "9.9.9")
    assert release.find_problems() == ["CHANGELOG.md: the newest release is not 9.9.9, which whit.__version__ is"]
    monkeypatch.setattr(release, "versions_of_changelog", lambda: [("9.9.9", "")])
    assert [line.partition(":")[2] for line in release.find_problems()] == [
        " the first entry is [Unreleased], for what comes next",
        " a release without a date",
    ]


def wheel(folder: Path, names: set[str], metadata: str) -> Path:
    path = folder / "whit.whl"
    with zipfile.ZipFile(path, "w") as archive:
        for name in names:
            archive.writestr(name, "")
        archive.writestr("whit-1.dist-info/METADATA", metadata)
    return path


@IN_CHECKOUT
def test_a_wheel_has_the_files_of_the_package_and_no_others(release: ModuleType, tmp_path: Path) -> None:
    names, metadata = release.tracked("whit"), METADATA.format(version=whit.__version__)
    release.check_wheel(wheel(tmp_path, names, metadata))
    with pytest.raises(release.Unreleasable, match=r"^wheel: lacks whit/py.typed$"):
        release.check_wheel(wheel(tmp_path, names - {"whit/py.typed"}, metadata))
    with pytest.raises(release.Unreleasable, match=r"^wheel: has, and should not, tests/conftest.py$"):
        release.check_wheel(wheel(tmp_path, names | {"tests/conftest.py"}, metadata))
    with pytest.raises(release.Unreleasable, match="Version is '0'"):
        release.check_wheel(wheel(tmp_path, names, METADATA.format(version="0")))


def test_a_new_dependency_is_noticed(release: ModuleType) -> None:
    def parse(text: str) -> Message:
        return email.parser.HeaderParser().parsestr(text)

    good = METADATA.format(version=whit.__version__)
    release.check_metadata(parse(good))
    with pytest.raises(release.Unreleasable, match="torch"):
        release.check_metadata(parse(good + "Requires-Dist: torch\n"))
    with pytest.raises(release.Unreleasable, match="no Classifier"):
        release.check_metadata(parse(good.replace("Classifier: Typing :: Typed\n", "")))


@IN_CHECKOUT
def test_an_sdist_without_the_tests_is_noticed(release: ModuleType, tmp_path: Path) -> None:
    path = tmp_path / "whit.tar.gz"

    def pack(names: set[str]) -> None:
        with tarfile.open(path, "w:gz") as archive:
            for name in names:
                archive.addfile(tarfile.TarInfo(f"whit-1/{name}"), io.BytesIO())

    names = {name for name in release.tracked() if not name.startswith(release.NOT_IN_SDIST)} | {"PKG-INFO"}
    pack(names)
    release.check_sdist(path)
    pack(names - {"tests/conftest.py"})
    with pytest.raises(release.Unreleasable, match=r"^sdist: lacks tests/conftest.py$"):
        release.check_sdist(path)


def test_names_are_shown_in_part(release: ModuleType) -> None:
    assert release._few(list("abcdefg")) == "a, b, c, d, e and 2 more"
