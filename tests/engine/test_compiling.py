"""What users see of compiling: a line on a terminal that goes away, and a hint where sizes change again and again."""

import time
import warnings
from collections.abc import Iterator

import pytest

from whit import Tensor, Variable, clear_caches
from whit.engine.compile import progress as compiling
from whit.engine.compile.progress import ERASE, Compiling, note_kernels
from whit.engine.realize.many_sizes import MANY


@pytest.fixture
def written(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[str]]:
    """What goes to a terminal, without waiting."""
    texts: list[str] = []
    monkeypatch.setattr(compiling, "_write", texts.append)
    monkeypatch.setattr(compiling, "_is_terminal", lambda: True)
    monkeypatch.setattr(compiling, "PATIENCE_SECONDS", 0.0)
    yield texts
    assert Compiling.current is None


def wait_for(text: str, texts: list[str]) -> None:
    end = time.monotonic() + 20
    while not any(text in each for each in texts):
        assert time.monotonic() < end, texts
        time.sleep(0.001)


def test_a_line_says_what_is_compiled_and_goes(written: list[str]) -> None:
    with Compiling():
        wait_for("compiling", written)
        note_kernels(2, 7)
        wait_for("kernel 3 of 7", written)
    assert written[0].startswith(f"{ERASE}compiling for test_compiling.py:")
    assert written[-1] == ERASE


def test_work_inside_of_work_has_no_line_of_its_own(written: list[str]) -> None:
    with Compiling() as outer, Compiling():
        assert Compiling.current is outer
    assert Compiling.current is None


def test_what_is_quick_shows_nothing(written: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(compiling, "PATIENCE_SECONDS", 60.0)
    with Compiling():
        pass
    assert written == []


def test_nothing_is_written_where_there_is_no_terminal(capfd: pytest.CaptureFixture[str]) -> None:
    with Compiling():
        assert Compiling.current is None
    assert capfd.readouterr() == ("", "")


def test_an_error_ends_the_line(written: list[str]) -> None:
    def failing() -> None:
        with Compiling():
            wait_for("compiling", written)
            raise ValueError("no")

    with pytest.raises(ValueError, match="no"):
        failing()
    assert written[-1] == ERASE


def test_many_sizes_on_one_line_give_one_hint() -> None:
    clear_caches()
    x = Tensor.ones(64).contiguous().realize()
    with warnings.catch_warnings(record=True) as found:
        warnings.simplefilter("always")
        for n in range(1, MANY + 5):
            (x[:n] * 3).realize()
    (text,) = [str(warning.message) for warning in found]
    assert text.startswith(f"realize: {MANY} programs that differ only in sizes were compiled at test_compiling.py:")
    assert f"({MANY - 1},) and ({MANY},)" in text
    assert "Variable" in text


def test_no_hint_for_few_sizes_other_programs_and_variables() -> None:
    clear_caches()
    x, n = Tensor.ones(64).contiguous().realize(), Variable("n", 1, 64)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for size in range(1, MANY):
            (x[:size] * 3).realize()
        for size in range(1, 2 * MANY):
            (x[: n.bind(size)] * 3).realize()
        for rows in range(1, 5):
            for columns in range(1, 5):  # as those of layers: sizes come back
                (x[: rows * columns].reshape(rows, columns) * 3).realize()
        for power in range(1, 2 * MANY):
            (x**power + x[power]).realize()
