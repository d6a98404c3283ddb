"""Progress bars on terminals and elsewhere, with and without a total."""

from __future__ import annotations

import io
import re
from types import SimpleNamespace
from typing import Any

import pytest

from whit import helpers, progress
from whit.progress import tqdm, trange


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


class Clock:
    """Time that passes only when it is told to."""

    now = 0.0

    def perf_counter(self) -> float:
        return self.now


def use(monkeypatch: pytest.MonkeyPatch, stderr: Any) -> Any:
    monkeypatch.setattr(progress, "sys", SimpleNamespace(stderr=stderr))
    return stderr


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    found = Clock()
    monkeypatch.setattr(progress, "time", found)
    return found


@pytest.fixture
def terminal(monkeypatch: pytest.MonkeyPatch) -> Terminal:
    return use(monkeypatch, Terminal())


def last(terminal: io.StringIO) -> str:
    return terminal.getvalue().rpartition("\r\033[K")[2]


def test_names() -> None:
    assert helpers.tqdm is tqdm and helpers.trange is trange


def test_a_bar_shows_part_rate_and_rest(clock: Clock, terminal: Terminal) -> None:
    with tqdm[int](total=10, desc="work") as bar:
        clock.now = 2.0
        bar.update(4)
        line = last(terminal)
        assert re.fullmatch(r"work:  40%\|#+ +\| 4/10 \[00:02<00:03, 2\.00it/s\]", line) and len(line) <= 80
    assert last(terminal).endswith("4/10 [00:02<00:03, 2.00it/s]\n")


def test_the_rest_is_unknown_at_first_and_left_out_at_the_end(clock: Clock, terminal: Terminal) -> None:
    bar = trange(2)
    items = iter(bar)
    next(items)
    assert last(terminal).endswith("0/2 [00:00<?, 0.00it/s]")
    clock.now = 4000.0
    assert list(items) == [1]
    assert last(terminal).endswith("| 2/2 [1:06:40, 0.00it/s]\n") and bar.n == 2


def test_without_a_total_it_counts(clock: Clock, terminal: Terminal) -> None:
    assert list(tqdm(i for i in range(3))) == [0, 1, 2]
    clock.now = 1.0
    assert last(terminal) == "3it [00:00, 0.00it/s]\n"


def test_units_can_be_scaled(clock: Clock, terminal: Terminal) -> None:
    with tqdm[None](total=5_000_000, unit="B", unit_scale=True) as bar:
        clock.now = 1.0
        bar.update(1_230_000)
    assert "1.23M/5.00M [00:01<00:03, 1.23MB/s]" in last(terminal)


def test_it_prints_a_few_times_a_second(clock: Clock, terminal: Terminal) -> None:
    for _ in trange(10_000):
        clock.now += 0.001
    assert terminal.getvalue().count("\r") <= 102  # ten seconds


def test_without_a_terminal_it_is_plain_lines(clock: Clock, monkeypatch: pytest.MonkeyPatch) -> None:
    file = use(monkeypatch, io.StringIO())
    for _ in trange(60, desc="x"):
        clock.now += 0.5
    lines = file.getvalue().splitlines()
    assert 2 <= len(lines) <= 4 and lines[-1].startswith("x: 100%|###") and "\r" not in file.getvalue()
    tqdm.write("text")
    assert file.getvalue().endswith("text\n") and "\033" not in file.getvalue()


def test_without_stderr_it_is_silent(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    use(monkeypatch, None)
    assert list(trange(2)) == [0, 1]
    closed = use(monkeypatch, io.StringIO())
    closed.close()
    assert list(trange(2)) == [0, 1]
    assert capsys.readouterr() == ("", "")


def test_a_disabled_bar_is_the_iterable_itself(terminal: Terminal) -> None:
    items = [1, 2]
    assert type(iter(tqdm(items, disable=True))) is type(iter(items))
    with tqdm[None](total=3, disable=True) as bar:
        bar.update(3)
    assert terminal.getvalue() == "" and bar.n == 3


def test_leaving_the_loop_ends_the_line(terminal: Terminal) -> None:
    def leave() -> None:
        for _ in trange(5):
            break

    leave()
    assert terminal.getvalue().endswith("\n")


def test_updates_by_nothing_count_nothing(terminal: Terminal) -> None:
    with tqdm[None](total=3) as bar:
        bar.update(0)
        bar.update()
        bar.set_description("now")
    assert bar.n == 1 and last(terminal).startswith("now:  33%")


def test_lines_do_not_mix_with_the_bar(terminal: Terminal) -> None:
    tqdm.write("text")
    assert terminal.getvalue() == "\r\033[Ktext\n"


def test_an_empty_iterable(terminal: Terminal) -> None:
    assert list(tqdm([])) == [] and list(tqdm[int]()) == []
    assert last(terminal) == "0it [00:00, 0.00it/s]\n"


def test_options_of_the_tqdm_package(clock: Clock, terminal: Terminal) -> None:
    bar = tqdm[int](total=10, initial=4, mininterval=0.0, ncols=80, colour="green", leave=False)
    clock.now = 2.0
    bar.set_postfix({"loss": 0.25}, step=3)
    bar.update(2)
    assert last(terminal).endswith("6/10 [00:02<00:04, 1.00it/s, loss=0.25, step=3]")
    bar.close()
    assert last(terminal) == ""
