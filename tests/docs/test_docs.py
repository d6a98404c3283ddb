"""The documentation is true: pages are up to date, examples print what the pages say, links lead somewhere."""

import importlib
import inspect
import os
import re
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest

from whit import Tensor

ROOT = Path(__file__).parents[2]
WRITTEN = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")])


# Its one block continues nothing: it is a formula.
NOT_RUN = {"attention.md"}


def _python(*arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, *arguments]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    return subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)


@pytest.fixture
def pages(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    monkeypatch.syspath_prepend(str(ROOT / "docs"))
    return importlib.import_module("pages")


@pytest.mark.slow
@pytest.mark.parametrize(
    "script",
    (
        "make_tour.py",
        "make_ops.py",
        "make_glossary.py",
        "make_errors.py",
        "make_migration.py",
        "make_reference.py",
        "make_nn.py",
        "make_help.py",
        "make_pages.py",
    ),
)
def test_pages_are_up_to_date(script: str) -> None:
    done = _python(f"docs/{script}", "--check")
    assert done.returncode == 0, done.stdout + done.stderr


def test_every_public_name_has_an_example(pages: ModuleType) -> None:
    examples = importlib.import_module("reference_examples")
    shown = {line.split(": ")[0] for line in examples.EXAMPLES.strip().splitlines()}
    public = {name for name in dir(Tensor) if not name.startswith("_") and hasattr(Tensor, name)} - {"training"}
    others = {name for name in public if hasattr(inspect.getattr_static(Tensor, name), "same_as")}
    assert shown | set(examples.NONE) | others == public
    assert not shown & set(examples.NONE)


def test_every_page_is_in_the_site() -> None:
    listed = re.findall(r": ([\w/-]+\.md)$", (ROOT / "mkdocs.yml").read_text(), re.MULTILINE)
    assert sorted(listed) == sorted(str(page.relative_to(ROOT / "docs")) for page in (ROOT / "docs").rglob("*.md"))


def test_the_site_builds_without_a_warning(tmp_path: Path) -> None:
    pytest.importorskip("material")
    done = _python("-m", "mkdocs", "build", "--strict", "--site-dir", str(tmp_path))
    assert done.returncode == 0, done.stdout + done.stderr
    for page in ("index.html", "reference/tensor.html", "search/search_index.json"):
        assert (tmp_path / page).exists()
    text = (tmp_path / "index.html").read_text()
    assert "fonts.googleapis" not in text  # nothing is fetched from elsewhere


@pytest.mark.slow
def test_the_demo_learns() -> None:
    done = _python("examples/demo.py", "100")
    assert done.returncode == 0, done.stderr
    found = re.search(r"accuracy on test data: ([0-9.]+)%.*\na step: (\d+) kernels", done.stdout)
    assert found, done.stdout
    assert float(found[1]) >= 97
    assert int(found[2]) <= 45
    picture = (ROOT / "build" / "demo.svg").read_text()
    assert picture.count("<polyline") == 1
    (points,) = re.findall(r'points="([^"]*)"', picture)
    assert len(points.split()) == 100


@pytest.mark.slow
def test_the_stages_are_shown_and_what_was_checked() -> None:
    done = _python("examples/stages.py")
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("yes  the") == 2
    assert "the machine code gives what NumPy gives" in done.stdout
    assert max(map(len, done.stdout.splitlines())) <= 124


@pytest.mark.parametrize("page", WRITTEN, ids=lambda page: page.name)
def test_links_lead_to_files(page: Path) -> None:
    prose = re.sub(r"```.*?```|`[^`\n]*`", "", page.read_text(), flags=re.DOTALL)
    links = re.findall(r"\]\(([^)#]+)", prose)
    missing = [link for link in links if "://" not in link and not (page.parent / link).exists()]
    assert not missing


def test_commands_and_files_in_the_readme_exist() -> None:
    readme = (ROOT / "README.md").read_text()
    targets = set(re.findall(r"^([a-z]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    assert set(re.findall(r"make ([a-z]+)", readme)) <= targets
    named = re.findall(r"`((?:whit|tests|docs|examples|bench)/[\w/.*]*)`", readme)
    assert named
    assert [path for path in named if not list(ROOT.glob(path.rstrip("/")))] == []


def test_pages_with_examples_are_run(pages: ModuleType) -> None:
    """Every page with a block of Python that is no session is one whose examples are run, or is made by a script."""
    run = set(importlib.import_module("make_pages").PAGES) | {"tour.md", "errors.md", "ops.md"}
    written = [page for page in (ROOT / "docs").glob("*.md") if page.name not in run]
    with_programs = {
        page.name
        for page in written
        for block in pages.blocks(page.read_text())
        if block.language == "python" and block.file is None and ">>>" not in block.code
    }
    assert with_programs <= NOT_RUN, with_programs - NOT_RUN


@pytest.mark.slow
def test_the_program_in_the_readme_prints_what_it_says(pages: ModuleType) -> None:
    program, printed = (
        block for block in pages.blocks((ROOT / "README.md").read_text()) if block.language in ("python", "text")
    )
    done = _python("-c", program.code)
    assert done.returncode == 0, done.stderr
    assert done.stdout == printed.code


# ---- the tool that runs the examples

EXAMPLE = """\
```python
x = 3
```

```python
print(x + 4)
```

```text
{output}
```

```text
not an output
```
"""


def test_the_output_of_an_example_is_written_after_it(pages: ModuleType) -> None:
    right = EXAMPLE.format(output="7")
    assert pages.refreshed(EXAMPLE.format(output="8\n9"), "page.md") == right
    assert pages.refreshed(right, "page.md") == right


def test_an_example_that_fails_is_an_error_with_its_line(pages: ModuleType) -> None:
    with pytest.raises(SystemExit, match=r'page\.md", line 4(.|\n)*ZeroDivisionError'):
        pages.refreshed("Text.\n\n```python\n1 / 0\n```\n", "page.md")


def test_a_command_that_fails_is_an_error(pages: ModuleType) -> None:
    with pytest.raises(SystemExit, match="an example failed"):
        pages.refreshed("```sh\nexit 3\n```\n", "page.md")


def test_a_page_that_is_out_of_date_is_not_written_when_checking(
    pages: ModuleType, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / "docs").mkdir()
    page = tmp_path / "docs" / "page.md"
    page.write_text("old")
    monkeypatch.setattr(pages, "ROOT", tmp_path)
    monkeypatch.setattr(sys, "argv", ["make", "--check"])
    with pytest.raises(SystemExit, match=r"docs/page\.md is out of date\n  Write it again: make docs"):
        pages.publish("page.md", "new")
    assert page.read_text() == "old"
    monkeypatch.setattr(sys, "argv", ["make"])
    pages.publish("page.md", "new")
    assert page.read_text() == "new"
