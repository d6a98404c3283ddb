"""What runs on other people's machines (workflows, hooks, forms) is made of commands that exist here."""

import re
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

yaml = pytest.importorskip("yaml")

ROOT = Path(__file__).parents[2]
WORKFLOWS = sorted((ROOT / ".github" / "workflows").glob("*.yml"))
FORMS = sorted((ROOT / ".github" / "ISSUE_TEMPLATE").glob("[0-9]*.yml"))
MAKEFILE = (ROOT / "Makefile").read_text("utf-8")
TARGETS = set(re.findall(r"^([a-z-]+):", MAKEFILE, re.MULTILINE))
# Steps that are no command of the Makefile.
OTHERS = (r"python -m whit doctor",)


pytestmark = pytest.mark.skipif(not WORKFLOWS, reason="an unpacked sdist has no workflows")


def load(path: Path) -> Any:
    return yaml.safe_load(path.read_text("utf-8"))


def steps(workflow: Any) -> Iterator[dict[str, Any]]:
    for job in workflow["jobs"].values():
        yield from job["steps"]


@pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: path.name)
def test_steps_of_workflows_are_commands_of_the_makefile(path: Path) -> None:
    commands = [step["run"].partition(" | tee ")[0] for step in steps(load(path)) if "run" in step]
    assert commands, "a workflow that runs nothing"
    inside = MAKEFILE.replace("$(BIN)/", "").replace("-n auto --dist worksteal $(PLAIN)", "")
    for command in commands:
        if command.startswith("make "):
            words = re.sub(r"\$\{\{.*?\}\}", "", command).split()[1:]
            targets = [word for word in words if "=" not in word]
            assert set(targets) <= TARGETS, f"{path.name}: `{command}`: the Makefile has no such target"
        elif not any(re.fullmatch(other, command) for other in OTHERS):
            assert command in inside, f"{path.name}: `{command}` is not what the Makefile runs"


def test_the_matrix_has_every_python_system_and_processor() -> None:
    jobs = load(ROOT / ".github" / "workflows" / "ci.yml")["jobs"]
    project = (ROOT / "pyproject.toml").read_text("utf-8")
    versions = re.findall(r"Programming Language :: Python :: (3\.\d+)", project)
    for job in ("linux", "macos", "windows"):
        matrix = jobs[job]["strategy"]["matrix"]
        assert matrix["python"] == versions, "those that pyproject.toml names"
        assert len(matrix["os"]) == 2, "x86-64 and AArch64"


def test_every_action_is_one_of_github() -> None:
    used = {step["uses"] for path in WORKFLOWS for step in steps(load(path)) if "uses" in step}
    assert used and all(re.fullmatch(r"actions/[a-z-]+@v\d+", action) for action in used)


def test_hooks_before_a_commit_are_what_lint_runs() -> None:
    (repository,) = load(ROOT / ".pre-commit-config.yaml")["repos"]
    assert repository["repo"] == "local", "nothing is fetched"
    hooks = {
        hook["id"]: hook["entry"].replace(".venv/bin/", "").replace(" --force-exclude", "")
        for hook in repository["hooks"]
    }
    lint = re.findall(r"^\t\$\(BIN\)/(.*)$", MAKEFILE.partition("\nlint:")[2].partition("\n\n")[0], re.MULTILINE)
    assert [hooks[hook] for hook in ("ruff-check", "ruff-format", "mypy", "mypy-bench")] == [
        command.removesuffix(" .") for command in lint
    ]
    assert (ROOT / hooks["style"].split()[-1]).is_dir()


def test_types_of_every_folder_are_checked() -> None:
    mypy = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["tool"]["mypy"]
    folders = {path.parent.name for path in ROOT.glob("*/*.py")} - {"build", "shared"}
    assert {*mypy["files"], "bench"} == folders
    (loose,) = [part for part in mypy["overrides"] if "union-attr" in part.get("disable_error_code", [])]
    packages = {f"{path.name}.*" for path in (ROOT / "tests").iterdir() if (path / "__init__.py").exists()}
    assert packages <= {*loose["module"]}, "these folders of tests/ are checked as strictly as whit/"


@pytest.mark.parametrize("path", FORMS, ids=lambda path: path.name)
def test_forms_ask_for_what_whit_prints(path: Path) -> None:
    form = load(path)
    assert {"name", "description", "body"} <= form.keys()
    names = [field["id"] for field in form["body"]]
    assert len(set(names)) == len(names)
    if form["labels"] != ["feature"]:
        machine = next(field for field in form["body"] if field["id"] == "machine")
        assert "python -m whit doctor" in machine["attributes"]["label"]
        assert machine["validations"]["required"]


def test_settings_that_forms_name_are_settings() -> None:
    from whit.config import settings

    known = {variable.setting.name for variable in settings()} | {"DEV"}
    named = {name for path in FORMS for name in re.findall(r"\b([A-Z_]{3,})=", path.read_text("utf-8"))}
    assert named and named <= known
