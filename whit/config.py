"""Settings: each has a name, a default, and a value that may come from the environment or from a `Context`.

The environment is read once, at import. `Context` changes values for what runs inside it, in this thread or task only:

    >>> with Context(DEBUG=2):
    ...     print(DEBUG.value, DEBUG >= 1)
    2 True

A setting that changes results (or the code that computes them) says so, and is part of `settings_key()`, which is part
of every cache key. `describe()` lists all settings. whit reads these environment variables and no others.
"""

import contextvars
import operator
import os
from collections.abc import Callable
from functools import wraps
from types import TracebackType
from typing import Any, Generic, ParamSpec, TypeVar, cast

from whit.errors import ArgumentError, ParseError, nearest
from whit.records import dataclass

Value = TypeVar("Value", bound=int | float | str)
Parameters = ParamSpec("Parameters")
Result = TypeVar("Result")

Begin = Callable[[Any], Callable[[], None]]  # is given the value; what it returns is called at the end of the block

_ACCEPTED = {bool: "0 or 1", int: "a whole number", float: "a number", str: "text"}


@dataclass(frozen=True)
class Setting:
    """What is known about a setting, apart from its value."""

    name: str
    default: int | float | str
    type: type
    doc: str = ""
    changes_results: bool = False


_variables: dict[str, "ContextVar[Any]"] = {}
_result_values: list[Callable[[], Any]] = []


class ContextVar(Generic[Value]):
    """A setting and its current value, which compares like the value: `if DEBUG >= 2`.

    Programs may make their own. A second one of the same name and default is the same setting.
    """

    # `_get` is the C method of `_in_context` unless the environment is bad. Comparing through it instead of through
    # `value` takes `DEBUG >= 2` from 117 ns to 87 ns.
    __slots__ = ("_get", "_in_context", "begin", "setting")

    def __init__(self, key: str, default: Value, doc: str = "", changes_results: bool = False) -> None:
        if type(default) not in _ACCEPTED:
            raise ArgumentError(
                f'ContextVar: the default of "{key}" is {default!r}',
                fix="Give a default that is a bool, an int, a float or a str: it decides the type of the setting.",
            )
        self.setting = Setting(key, default, type(default), doc, changes_results)
        self.begin: Begin | None = None  # what else happens where a `Context` gives it a value
        known = _variables.setdefault(key, self)
        if known is self:
            self._in_context, self._get = _read_environment(self.setting)
            if changes_results:
                _result_values.append(self._get)
            return
        setting = known.setting
        if (setting.type, setting.default) != (type(default), default):
            raise ArgumentError(
                f'ContextVar: the setting "{key}" exists, with default {setting.default!r} instead of {default!r}',
                fix="Use the same default in both places, or another name.",
            )
        self.setting = setting
        self._in_context = known._in_context
        self._get = known._get

    @property
    def value(self) -> Value:
        value: Value = self._get()
        return value

    @value.setter
    def value(self, value: Value) -> None:
        self.assign(value)

    @property
    def scoped(self) -> Value | None:
        """The value that a `Context` in force has given it; None outside."""
        value: Value | None = self._in_context.get(None)
        return value

    def assign(self, value: Value) -> None:
        """Another value up to the end of the innermost `Context` that sets it."""
        self._in_context.set(_convert(self.setting, value))

    def __bool__(self) -> bool:
        return bool(self._get())

    def __int__(self) -> int:
        return int(self._get())

    def __index__(self) -> int:
        return operator.index(self._get())

    def __str__(self) -> str:
        return str(self.value)

    def __repr__(self) -> str:
        return f"ContextVar({self.setting.name}={self.value!r})"

    __hash__ = None  # type: ignore[assignment]  # equality follows the value, which changes

    def __eq__(self, other: object) -> bool:
        result: bool = self._get() == other
        return result

    def __lt__(self, other: object) -> bool:
        result: bool = self._get() < other
        return result

    def __le__(self, other: object) -> bool:
        result: bool = self._get() <= other
        return result

    def __gt__(self, other: object) -> bool:
        result: bool = self._get() > other
        return result

    def __ge__(self, other: object) -> bool:
        result: bool = self._get() >= other
        return result


def _read_environment(setting: Setting) -> tuple[contextvars.ContextVar[Any], Callable[[], Any]]:
    """The variable that holds the setting, and how to read it."""
    text = os.environ.get(setting.name, "")
    try:
        value = _parse(text, setting.type) if text else setting.default
    except ValueError:
        return _unreadable(setting)
    variable = contextvars.ContextVar(setting.name, default=value)
    return variable, variable.get


def _unreadable(setting: Setting) -> tuple[contextvars.ContextVar[Any], Callable[[], Any]]:
    """A bad value in the environment must not fail `import whit`, only the first use, and only outside a `Context`."""
    variable: contextvars.ContextVar[Any] = contextvars.ContextVar(setting.name)

    def get() -> Any:
        try:
            return variable.get()
        except LookupError:
            raise _bad_environment(setting.name, setting.type) from None

    return variable, get


def _parse(text: str, kind: type) -> Any:
    """The value that `text` spells; ValueError if it spells none."""
    if kind is bool:
        return ("0", "1").index(text) == 1
    return kind(text)


def _bad_environment(name: str, kind: type) -> ParseError:
    return ParseError(
        f'the environment variable {name} is "{os.environ.get(name)}", which is not {_ACCEPTED[kind]}',
        fix=f"Set {name} to {_ACCEPTED[kind]}, or unset it.",
    )


def getenv(name: str, default: Value = cast(Any, 0)) -> Value:  # noqa: B008  # a constant, cast for the type checker
    """The environment variable `name` as a value of the default's type; the default if it is unset or empty.

    This is for a program's own variables. It does not see `Context`.
    """
    if type(default) not in _ACCEPTED:
        raise ArgumentError(
            f"getenv: the default of {name} is {default!r}", fix="Give a bool, an int, a float or a str."
        )
    text = os.environ.get(name, "")
    if not text:
        return default
    try:
        return cast(Value, _parse(text, type(default)))
    except ValueError:
        raise _bad_environment(name, type(default)) from None


def _convert(setting: Setting, value: object) -> int | float | str:
    """`value` as the setting's type; an error if that would lose something."""
    if setting.type is str:
        name = value if isinstance(value, str) else getattr(value, "name", None)  # dtypes.float16
        if isinstance(name, str):
            return name
    if setting.type is float and isinstance(value, int | float):
        return float(value)
    if setting.type in (bool, int) and hasattr(value, "__index__"):
        number = operator.index(value)
        if setting.type is int:
            return number
        if number in (0, 1):
            return bool(number)
    raise ArgumentError(
        f"Context: {setting.name}={value!r} is not {_ACCEPTED[setting.type]}",
        setting.doc,
        f"Default: {setting.default!r}.",
    )


def _warn_unknown(name: str) -> None:
    """A setting that is not here changes nothing: programs for other versions and libraries run."""
    import warnings  # lazy: few programs need it

    text = f'Context: there is no setting "{name}".{nearest(name, _variables)} It changes nothing.'
    warnings.warn(f"{text}\n  Settings: {', '.join(sorted(_variables))}", UserWarning, stacklevel=3)


class Context:
    """Changes settings for what runs inside `with Context(DEBUG=2):` or inside a function decorated with it.

    Only the current thread or asyncio task sees the change: a new thread starts with the values of the environment, a
    new task with those of its creator. One `Context` may be entered many times, also at once.
    """

    __slots__ = ("_values",)

    def __init__(self, **values: int | float | str) -> None:
        known = {name: value for name, value in values.items() if name in _variables}
        for name in values:
            if name not in known:
                _warn_unknown(name)
        self._values = [(_variables[name], _convert(_variables[name].setting, value)) for name, value in known.items()]

    def __enter__(self) -> None:
        tokens = [variable._in_context.set(value) for variable, value in self._values]
        ends = [variable.begin(value) for variable, value in self._values if variable.begin is not None]
        _entered.set((self, tokens, ends, _entered.get()))

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        innermost = _entered.get()
        if innermost is None or innermost[0] is not self:
            raise ArgumentError(
                "Context: left in another order, thread or task than it was entered in",
                fix="Do not `yield` inside `with Context(...)`: the caller would run under these settings too.",
            )
        _, tokens, ends, outer = innermost
        for (variable, _), token in zip(self._values, tokens, strict=True):
            variable._in_context.reset(token)
        _entered.set(outer)
        for end in ends:
            end()

    def __call__(self, function: Callable[Parameters, Result]) -> Callable[Parameters, Result]:
        import inspect  # lazy: 4 ms, and few programs decorate with settings

        if inspect.isgeneratorfunction(function) or inspect.isasyncgenfunction(function):
            raise ArgumentError(
                f"Context: cannot decorate the generator {function.__name__}",
                "Between two yields, its caller would run under these settings too.",
                "Use `with Context(...)` inside it, around code that does not yield.",
            )
        if inspect.iscoroutinefunction(function):

            @wraps(function)
            async def run_async(*args: Any, **kwargs: Any) -> Any:
                with self:
                    return await function(*args, **kwargs)

            return cast(Callable[Parameters, Result], run_async)

        @wraps(function)
        def run(*args: Parameters.args, **kwargs: Parameters.kwargs) -> Result:
            with self:
                return function(*args, **kwargs)

        return run


# The contexts this thread or task is in, innermost first, each with what undoes it and what its end does: (context,
# tokens, ends, the next one).
# It is not kept in the `Context` itself, which several threads may be in at once.
_Entered = tuple[Context, list[contextvars.Token[Any]], list[Callable[[], None]], Any]
_entered: contextvars.ContextVar[_Entered | None] = contextvars.ContextVar("whit.entered", default=None)


def settings_key() -> tuple[int | float | str, ...]:
    """The values of the settings that change results, for cache keys."""
    return tuple([get() for get in _result_values])


def settings() -> list["ContextVar[Any]"]:
    """All settings, in the order in which they were made."""
    return list(_variables.values())


def describe() -> str:
    """A Markdown table of all settings."""
    rows = ["| name | default | accepts | changes results | meaning |", "|---|---|---|---|---|"]
    for variable in _variables.values():
        setting = variable.setting
        default = int(setting.default) if isinstance(setting.default, bool) else setting.default
        shown = "(empty)" if default == "" else f"`{default}`"
        changes = "yes" if setting.changes_results else "no"
        rows.append(f"| `{setting.name}` | {shown} | {_ACCEPTED[setting.type]} | {changes} | {setting.doc} |")
    return "\n".join(rows) + "\n"


# What changes results.
DEV = ContextVar("DEV", "", "The default device, as in `CPU` or `CUDA:0`. Empty: the best one there is.", True)
TRAINING = ContextVar("TRAINING", False, "Layers behave as in training: dropout drops, batch norm updates.", True)
DEFAULT_FLOAT = ContextVar("DEFAULT_FLOAT", "float32", "The dtype of tensors made from Python floats.", True)
DEFAULT_INT = ContextVar("DEFAULT_INT", "int32", "The dtype of tensors made from Python ints.", True)
WINO = ContextVar(
    "WINO",
    -1,
    "Winograd's algorithm for 3 x 3 convolutions. 0: never. 1: wherever it can be. -1: where it seems faster.",
    True,
)
FROZEN = ContextVar(
    "FROZEN",
    False,
    "Weights of convolutions do not change: on CPUs they and images are kept as kernels read them, channels last.",
    True,
)
BEAM = ContextVar("BEAM", 0, "How many candidates the search for faster kernels keeps. 0: no search.", True)
NOOPT = ContextVar("NOOPT", False, "Kernels stay as written: no tiling, no vectors, no threads.", True)
TF32 = ContextVar("TF32", False, "GPUs may round float32 operands of matrix products to 10 bits of mantissa.", True)
FLASH_ATTENTION = ContextVar(
    "FLASH_ATTENTION",
    True,
    "Attention never stores its scores. 0: two matrix products and a softmax, as written.",
    True,
)
THREADS = ContextVar("THREADS", 0, "CPU threads that a kernel may use. 0: one for each core.", True)

# What does not.
JIT = ContextVar("JIT", 1, "0: functions under a JIT run as if they were not. 1: they are captured and replayed.")
JIT_CHECK = ContextVar("JIT_CHECK", 0, "N: each Nth call of a captured function is compared with a plain run. 0: none.")
CACHE = ContextVar(
    "CACHE", 1, "What is kept on disk and found again. 0: nothing. 1: schedules and compiled kernels. 2: kernels alone."
)
CACHE_DIR = ContextVar("CACHE_DIR", "", "Where they are kept. Empty: the user's cache folder.")
COMPILERS = ContextVar(
    "COMPILERS", -1, "Processes that compile kernels, where there are many. -1: one for each core. 0: this one alone."
)
DEBUG = ContextVar("DEBUG", 0, "How much is printed about what runs. 0: nothing.")
PROFILE = ContextVar(
    "PROFILE",
    0,
    "A table of where the time went, at the end of the program or `Context`. 2: all kernels. 3: names, too.",
)
PRINT_DIGITS = ContextVar("PRINT_DIGITS", 4, "Digits after the point, at most, of floats in tensors that are shown.")
VIZ = ContextVar("VIZ", "", "A file that the program is recorded into from its start. 1: `whit-<process>.trace`.")
VIZ_LIMIT = ContextVar("VIZ_LIMIT", 256, "The most megabytes a recording may have; rewrites are left out first.")
VIZ_REWRITES = ContextVar("VIZ_REWRITES", True, "A recording has every rewrite and the time of every rule.")
TRACK_MATCH_STATS = ContextVar(
    "TRACK_MATCH_STATS",
    0,
    "Rewrite rules are counted and timed. 1: a table at the end. 2: also a file. 3: every rewrite.",
)
CHECK_OOB = ContextVar("CHECK_OOB", False, "Proves that every access of every kernel is in bounds.")
CHECK_PLAN = ContextVar(
    "CHECK_PLAN", False, "Proves of every schedule and of its memory that each read sees what was written for it."
)
CHECK_INDEX = ContextVar("CHECK_INDEX", False, "Index tensors are computed at the call, and raise where out of range.")
VERIFY = ContextVar("VERIFY", False, "Checks every schedule, kernel and program that is made.")
