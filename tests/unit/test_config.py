"""whit.config and whit.cache: where values come from, how far they reach, what is refused; how caches are emptied."""

import asyncio
import contextvars
import threading
from collections.abc import Callable, Iterator

import pytest

from whit import cache, config
from whit.config import DEBUG, NOOPT, Context, ContextVar, getenv, settings_key
from whit.errors import ArgumentError, InternalError, ParseError, UserError


@pytest.fixture(autouse=True)
def own_table(monkeypatch: pytest.MonkeyPatch) -> None:
    """Settings that a test makes go when it ends."""
    monkeypatch.setattr(config, "_variables", dict(config._variables))
    monkeypatch.setattr(config, "_result_values", list(config._result_values))


def test_context_nests_and_restores() -> None:
    before = DEBUG.value
    with Context(DEBUG=2):
        with Context(DEBUG=5, NOOPT=1):
            assert (DEBUG.value, NOOPT.value) == (5, True)
        assert (DEBUG.value, NOOPT.value) == (2, False)
    assert DEBUG.value == before


def test_context_restores_after_an_error() -> None:
    before = DEBUG.value
    with pytest.raises(ZeroDivisionError), Context(DEBUG=before + 1):
        _ = 1 / 0
    assert DEBUG.value == before


def test_one_context_may_be_entered_again_inside_itself() -> None:
    before = DEBUG.value
    context = Context(DEBUG=3)
    with context, Context(DEBUG=4), context:
        assert DEBUG.value == 3
    assert DEBUG.value == before


def test_a_setting_may_do_something_where_a_context_begins_and_ends() -> None:
    setting, seen = ContextVar("BEGINS", 0), []

    def begin(value: int) -> Callable[[], None]:
        seen.append(f"begin {value} inside {setting.value}")
        return lambda: seen.append(f"end {value} inside {setting.value}")

    setting.begin = begin
    with pytest.raises(ZeroDivisionError), Context(BEGINS=1), Context(DEBUG=0), Context(BEGINS=2):
        _ = 1 / 0
    assert seen == ["begin 1 inside 1", "begin 2 inside 2", "end 2 inside 1", "end 1 inside 0"]


def test_setting_compares_like_its_value() -> None:
    with Context(DEBUG=2):
        assert DEBUG
        assert DEBUG == 2
        assert DEBUG != 1
        assert DEBUG >= 2
        assert DEBUG > 1
        assert DEBUG <= 2
        assert DEBUG < 3
        assert int(DEBUG) == 2
        assert list(range(DEBUG)) == [0, 1]
        assert f"{DEBUG}" == "2"
        assert repr(DEBUG) == "ContextVar(DEBUG=2)"
    with Context(DEBUG=0):
        assert not DEBUG


def test_context_decorates_functions() -> None:
    @Context(DEBUG=7)
    def read(more: int) -> int:
        """Docs."""
        return DEBUG.value + more

    assert read(1) == 8
    assert (read.__name__, read.__doc__) == ("read", "Docs.")
    assert DEBUG.value != 7


def test_context_decorates_coroutines_and_tasks_do_not_see_each_other() -> None:
    async def read(level: int) -> list[int]:
        @Context(DEBUG=level)
        async def inner() -> list[int]:
            first = DEBUG.value
            await asyncio.sleep(0)
            return [first, DEBUG.value]

        return [*await inner(), DEBUG.value]

    async def both() -> list[list[int]]:
        return list(await asyncio.gather(read(11), read(12)))

    before = DEBUG.value
    assert asyncio.run(both()) == [[11, 11, before], [12, 12, before]]


def test_context_refuses_to_decorate_a_generator() -> None:
    with pytest.raises(ArgumentError, match="cannot decorate the generator numbers"):

        @Context(DEBUG=1)
        def numbers() -> Iterator[int]:
            yield 1


def test_threads_do_not_see_each_other() -> None:
    seen: dict[int, int] = {}
    shared = Context(DEBUG=20)
    barrier = threading.Barrier(2, timeout=10)

    def work(level: int) -> None:
        with Context(DEBUG=level):
            barrier.wait()
            with shared:
                barrier.wait()
            seen[level] = DEBUG.value

    threads = [threading.Thread(target=work, args=(level,)) for level in (21, 22)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert seen == {21: 21, 22: 22}


def test_leaving_contexts_out_of_order_is_an_error() -> None:
    def scope(level: int) -> Iterator[None]:
        with Context(DEBUG=level):
            yield

    def leave() -> None:
        first, second = scope(1), scope(2)
        next(first)
        next(second)
        with pytest.raises(ArgumentError, match="left in another order"):
            next(first)
        with pytest.raises(StopIteration):
            next(second)

    contextvars.copy_context().run(leave)  # what stays set must not reach other tests


def test_unknown_setting_names_the_nearest() -> None:
    with pytest.warns(UserWarning, match="no setting") as caught:
        Context(DEBGU=1)
    assert str(caught[0].message).startswith(
        'Context: there is no setting "DEBGU". Did you mean "DEBUG"? It changes nothing.\n  Settings: BEAM, CACHE, '
    )
    assert caught[0].filename == __file__


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"DEBUG": "2"}, "Context: DEBUG='2' is not a whole number\n  How much is printed"),
        ({"DEBUG": 1.0}, "Context: DEBUG=1.0 is not a whole number"),
        ({"NOOPT": 2}, "Context: NOOPT=2 is not 0 or 1"),
        ({"DEV": 0}, "Context: DEV=0 is not text"),
        ({"DEV": None}, "Context: DEV=None is not text"),
    ],
)
def test_value_of_the_wrong_type_is_refused(values: dict[str, object], message: str) -> None:
    with pytest.raises(ArgumentError) as caught:
        Context(**values)  # type: ignore[arg-type]
    assert str(caught.value).startswith(message)


def test_values_become_the_type_of_the_setting() -> None:
    with Context(NOOPT=1, DEBUG=True):
        assert NOOPT.value is True
        assert type(DEBUG.value) is int


@pytest.mark.parametrize(
    ("default", "text", "value"),
    [(0, "7", 7), (0, "-1", -1), (False, "1", True), (True, "0", False), (0.5, "1e-3", 1e-3), ("", "CPU", "CPU")],
)
def test_environment_gives_the_value(
    monkeypatch: pytest.MonkeyPatch, default: int | float | str, text: str, value: int | float | str
) -> None:
    monkeypatch.setenv("WHIT_TEST", text)
    read = ContextVar("WHIT_TEST", default).value
    assert read == value
    assert type(read) is type(default)
    assert getenv("WHIT_TEST", default) == value


@pytest.mark.parametrize("default", [3, True, 0.5, "text"])
def test_empty_environment_variable_counts_as_unset(
    monkeypatch: pytest.MonkeyPatch, default: int | float | str
) -> None:
    monkeypatch.setenv("WHIT_TEST", "")
    assert ContextVar("WHIT_TEST", default).value == default
    assert getenv("WHIT_TEST", default) == default


@pytest.mark.parametrize(
    ("default", "text", "accepted"), [(0, "lots", "a whole number"), (False, "yes", "0 or 1"), (1.0, "x", "a number")]
)
def test_bad_environment_fails_at_first_use_and_says_what_is_accepted(
    monkeypatch: pytest.MonkeyPatch, default: int | float, text: str, accepted: str
) -> None:
    monkeypatch.setenv("WHIT_TEST", text)
    setting = ContextVar("WHIT_TEST", default)
    message = f'the environment variable WHIT_TEST is "{text}", which is not {accepted}\n  Set WHIT_TEST to {accepted}'
    with pytest.raises(ParseError) as caught:
        bool(setting)
    assert str(caught.value).startswith(message)
    with pytest.raises(UserError) as caught_again:
        getenv("WHIT_TEST", default)
    assert str(caught_again.value) == str(caught.value)


def test_context_overrides_a_bad_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WHIT_TEST", "lots")
    setting = ContextVar("WHIT_TEST", 0)
    with Context(WHIT_TEST=4):
        assert setting == 4


def test_getenv_without_a_default_is_an_int(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("WHIT_TEST", raising=False)
    assert getenv("WHIT_TEST") == 0
    monkeypatch.setenv("WHIT_TEST", "12")
    assert getenv("WHIT_TEST") == 12


def test_second_variable_of_one_name_is_the_same_setting() -> None:
    first, second = ContextVar("WHIT_TEST", 1), ContextVar("WHIT_TEST", 1)
    with Context(WHIT_TEST=9):
        assert (first.value, second.value) == (9, 9)
    with pytest.raises(ArgumentError, match='the setting "WHIT_TEST" exists, with default 1 instead of 2'):
        ContextVar("WHIT_TEST", 2)


def test_default_must_be_a_plain_value() -> None:
    with pytest.raises(ArgumentError, match='the default of "WHIT_TEST" is None'):
        ContextVar("WHIT_TEST", None)  # type: ignore[type-var]
    with pytest.raises(ArgumentError, match="the default of WHIT_TEST is None"):
        getenv("WHIT_TEST", None)  # type: ignore[type-var]


def test_settings_key_changes_with_what_changes_results_only() -> None:
    key = settings_key()
    hash(key)
    with Context(DEBUG=9, VERIFY=1, CACHE=0):
        assert settings_key() == key
    for values in ({"NOOPT": 1}, {"BEAM": 3}, {"DEV": "NULL"}, {"DEFAULT_FLOAT": "float16"}, {"TRAINING": 1}):
        with Context(**values):
            assert settings_key() != key


def test_describe_has_a_row_for_each_setting() -> None:
    rows = config.describe().splitlines()
    assert len(rows) == 2 + len(config._variables)
    assert "| `DEBUG` | `0` | a whole number | no | How much is printed about what runs. 0: nothing. |" in rows
    assert all(variable.setting.doc for variable in config._variables.values())


def test_clear_caches_empties_what_registered_and_names_are_unique(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cache, "_clear_by_name", {})
    kept = {"key": "value"}
    cache.register_cache(kept.clear, "test.kept")
    with pytest.raises(InternalError, match=r'there already is a cache "test\.kept"'):
        cache.register_cache(kept.clear, "test.kept")
    cache.clear_caches()
    assert kept == {}
