"""No program of `hostile.ROWS` is silently different under TinyJit."""

from __future__ import annotations

import sys
import types
from typing import Any

import pytest

from jit.hostile import ROWS, Row
from whit import Context, Tensor, TinyJit, nn
from whit.errors import WhitError
from whit.jit import guards as watch

pytestmark = pytest.mark.slow


class RefusedError(Exception):
    """The JIT says no."""


def run(text: str, scope: dict[str, Any]) -> None:
    exec(compile(text, "hostile program", "exec", dont_inherit=True), scope)


def outcome(row: Row, jit: Any) -> list[Any]:
    """What a program sees, call by call."""
    module = sys.modules["hostile_program"] = types.ModuleType("hostile_program")
    scope = vars(module)
    scope.update(Tensor=Tensor, nn=nn)
    run(row.setup, scope)
    run(row.f if row.f.startswith("def ") else f"f = lambda x: {row.f}", scope)
    scope["f"] = jit(scope["f"])
    found: list[Any] = []
    for number, change in enumerate(("", *row.changes)):
        run(change, scope)
        for value in (1.0, 2.0, 3.0)[: 3 if number == 0 else 2]:
            try:
                given = [scope["a"]] if row.f.startswith("def f(x, a)") else []
                result = scope["f"](Tensor([value, 4.0]), *given)
            except WhitError as error:
                raise RefusedError(str(error)) from error
            found.append(f"{result.dtype.name} {result.tolist()}")
    return found


def judge(row: Row) -> str:
    """`equal`, `refused`, or what is different."""
    with Context(DEV="CPU"):
        Tensor.training = False
        try:
            expected = outcome(row, lambda function: function)
        except RefusedError:
            return "refused plainly"
        Tensor.training = False
        try:
            found = outcome(row, TinyJit)
        except RefusedError:
            return "refused"
        finally:
            Tensor.training = False
    return "equal" if found == expected else f"SILENT: {found} for {expected}"


PACKAGES = ("torch", "sympy", "networkx", "sortedcontainers", "jinja2", "ml_dtypes")


def package_of(row: Row) -> str:
    """The package that a program needs besides NumPy, or nothing."""
    return next((name for name in PACKAGES if row.setup.startswith((f"import {name}", f"from {name}"))), "")


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.name)
def test_hostile_program(row: Row) -> None:
    if package_of(row):
        pytest.importorskip(package_of(row))
    assert judge(row) == ("refused" if row.is_refused else "equal")


def test_there_are_many_hostile_programs() -> None:
    names = [row.name for row in ROWS]
    assert len(set(names)) == len(names) == 364
    assert sum(row.is_refused for row in ROWS) == 56  # the other 308 give the same


def test_the_same_where_native_code_does_not_compare(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(watch, "can_watch", lambda: False)
    rows = [row for row in ROWS if not package_of(row)]
    assert [row.name for row in rows if judge(row) != ("refused" if row.is_refused else "equal")] == []


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("time", "time.time: <lambda> is being captured, and a replay would not ask again"),
        ("iterator", "it is a list_iterator: a function that is replayed does not see what it gives next"),
        ("weak reference", "r is a weak reference, and what it shows may go away"),
        ("large NumPy array", "a is a ndarray: it has 8388608 bytes, too many to compare in each call"),
        ("database", "c is a Connection: it cannot be looked into"),
        ("counter in a global", "f: the function changes n in every call, and a replay would not\n  from 2 to 3"),
        ("content of a file", "open: <lambda> is being captured"),
        ("argument: namespace", "argument 1: a SimpleNamespace cannot be an argument of a captured function: it"),
        ("random number of Python", "draws random numbers of Python or a library, which a replay would repeat"),
    ],
)
def test_messages_of_refusals(name: str, message: str) -> None:
    (row,) = [row for row in ROWS if row.name == name]
    with pytest.raises(RefusedError) as caught:
        outcome(row, TinyJit)
    assert message in str(caught.value)
