"""Every wrong program of the catalogue raises at the call what the catalogue says."""

import re
import traceback
from collections.abc import Iterator
from pathlib import Path

import pytest

from errors.catalogue import FOLDER, PROGRAM, TOPICS, Wrong, catalogue, message, run, workplace
from whit import GlobalCounters
from whit.errors import ShapeError, UserError

ENTRIES = catalogue()
# Names that mean nothing to a user.
INTERNAL = re.compile(r"\bUOps?\b|\w+Arg\(|operand \d+: |<class |<function |object at 0x|copy_to\(")


@pytest.fixture(scope="module")
def folder() -> Iterator[str]:
    with workplace() as place:
        yield place


@pytest.fixture
def caught(folder: str, entry: Wrong) -> tuple[Exception, str]:
    kernels = GlobalCounters.kernel_count
    error = run(entry.program)
    assert error is not None, "nothing was raised"
    assert GlobalCounters.kernel_count == kernels, "something was computed to find out"
    return error, message(error, folder)


def _id(entry: Wrong) -> str:
    return f"{entry.what.partition(':')[0]}-{entry.program.splitlines()[-1]}"[:60]


@pytest.mark.parametrize("entry", ENTRIES, ids=_id)
def test_a_mistake_is_raised_at_the_call_and_says_what_and_where(entry: Wrong, caught: tuple[Exception, str]) -> None:
    error, text = caught
    assert type(error) is entry.error
    assert isinstance(error, entry.caught_as) and isinstance(error, ValueError)
    what, *rest = text.split("\n")
    assert what == entry.what
    assert tuple(line.strip() for line in rest if PROGRAM in line) == entry.places
    assert entry.places, "no line of the program is named"
    assert isinstance(error, UserError) and (error.fix or error.details), "nothing helps"
    assert not INTERNAL.search(text)
    shown = error.__cause__ or (None if error.__suppress_context__ else error.__context__)
    assert shown is None or isinstance(shown, OSError), "another error is in the way"
    frames = [frame for frame in traceback.extract_tb(error.__traceback__) if frame.filename == PROGRAM]
    assert frames[-1].lineno == entry.line


def test_there_are_many_topics_and_programs() -> None:
    assert sorted(path.stem for path in FOLDER.glob("*.txt")) == sorted(TOPICS)
    assert len(ENTRIES) >= 140
    assert len({entry.program for entry in ENTRIES}) == len(ENTRIES)
    assert min(len([e for e in ENTRIES if e.topic == topic]) for topic in {e.topic for e in ENTRIES}) >= 5


# ---- the line is the innermost one outside of whit

NESTED = """\
def shifted(x):
    return x + Tensor.zeros(2)
def model(x):
    return shifted(x)
model(Tensor.zeros(3))"""


def test_the_line_of_an_operand_is_where_the_innermost_function_made_it() -> None:
    error = run(NESTED)
    assert type(error) is ShapeError
    assert error.details == "left made at program.py:5, right made at program.py:2"
    assert error.line == "program.py:2"


@pytest.mark.parametrize(
    ("file", "shown"),
    [
        ("<ipython-input-3-0a1b2c>", "<ipython-input-3-0a1b2c>"),
        ("<stdin>", "<stdin>"),
        ("<string>", "<string>"),
        ("/tmp/ipykernel_71/2018.py", "2018.py"),
        ("folder with spaces/my model.py", "my model.py"),
    ],
)
def test_programs_without_a_file_have_lines_too(file: str, shown: str) -> None:
    error = run("x = Tensor.zeros(2)\nx.clip(Tensor.zeros(3))", file)
    assert isinstance(error, ShapeError)
    assert error.details == f"left made at {shown}:1, right made at {shown}:2"
    assert f"  in clip, called at {shown}:2\n" in str(error)


@pytest.mark.parametrize(
    ("program", "line"),
    [
        ("f = lambda x: x.clamp()\n\nf(Tensor.zeros(2))", 1),
        ("[x.clamp()\n for x in [Tensor.zeros(2)]]", 1),
        ("list(\n  x.clamp()\n  for x in [Tensor.zeros(2)])", 2),
        ("list(map(\n  Tensor.clamp,\n  [Tensor.zeros(2)]))", 1),
        ("class Layer:\n  def __call__(self, x):\n    return x.clamp()\nLayer()(Tensor.zeros(2))", 3),
        ("x = Tensor.zeros(2)\nx.sequential([\n  Tensor.relu,\n  lambda x:\n    x.clamp()])", 5),
    ],
    ids=["lambda", "comprehension", "generator", "map", "method", "callback"],
)
def test_the_line_of_a_call(program: str, line: int) -> None:
    error = run(program)
    assert isinstance(error, UserError)
    assert (error.method, error.line) == ("clamp", f"program.py:{line}")


def test_python_names_the_class_that_users_know() -> None:
    error = run("Tensor.zeros(2).relu(wrong=3)")
    assert type(error) is TypeError
    assert str(error) == "Tensor.relu() got an unexpected keyword argument 'wrong'"


def test_the_page_is_made_of_all_entries() -> None:
    page = (Path(__file__).parents[2] / "docs" / "errors.md").read_text()
    missing = [
        entry.what for entry in ENTRIES if f"\n{entry.program}\n# {entry.error.__name__}: {entry.what}" not in page
    ]
    assert not missing
