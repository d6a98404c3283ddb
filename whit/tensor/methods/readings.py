"""Calls that mean one thing in PyTorch and another in tinygrad or NumPy: they raise, and name both readings.

    x.conv2d(w, b, 2)            groups=2 in tinygrad, stride=2 in PyTorch: an error that names both
    x.conv2d(w, b, stride=2)     the same in both

    v, i = x.max(1)              two rows in NumPy and tinygrad, values and positions in PyTorch: the same

Where both readings come to the same, as with conv2d(w, b, 1), that is what is done.

The second is found by what the caller does next: the instruction that it is in. There is no other sign. Unpacking calls
`__iter__`, and so do `for row in x.max(1)` and `list(x.max(1))`, which are right and mean the same in all libraries.
Raising in each would break these; raising in none would give the first row where values of all rows are meant, silently
and only for tensors of two rows. A result that is a tuple in PyTorch's manner would not be a tensor to anybody else.
"""

from __future__ import annotations

import sys
import weakref
from collections.abc import Callable, Sequence
from opcode import opmap
from typing import Any, TypeVar

from whit.errors import ArgumentError
from whit.records import dataclass

Method = TypeVar("Method", bound=Callable[..., Any])
Result = TypeVar("Result")


@dataclass(frozen=True, slots=True)
class Readings:
    """The positional arguments of a method: its parameters with their defaults, which are in tinygrad's order, how many
    of them are the same in PyTorch, and the order of the others there."""

    name: str
    defaults: dict[str, Any]
    agreed: int
    pytorch: tuple[str, ...]

    def check(self, args: Sequence[Any]) -> None:
        """Raises if the readings of a call differ."""
        more = args[self.agreed :]
        here = dict(zip([*self.defaults][self.agreed :], more, strict=False))
        there = dict(zip(self.pytorch, more, strict=False))
        if more and not _is_same(here, there, self.defaults):
            raise _differ(self.name, [here, there], args[0]._made())


REQUIRED = object()  # of a parameter without a default
_readings: dict[str, Readings] = {}


def two_readings(after: str, *pytorch: str) -> Callable[[Method], Method]:
    """For a method with tinygrad's order of parameters; those after one of them are in this order in PyTorch."""

    def note(method: Method) -> Method:
        name, defaults = method.__name__, _defaults(method)
        _readings[name] = Readings(name, defaults, [*defaults].index(after) + 1, pytorch)
        return method

    return note


def _defaults(method: Callable[..., Any]) -> dict[str, Any]:
    """The parameters of a method, and their defaults: `inspect.signature` in a tenth of its time."""
    code = method.__code__
    names = code.co_varnames[: code.co_argcount]
    values = method.__defaults__ or ()
    required = dict.fromkeys(names[: len(names) - len(values)], REQUIRED)
    by_keyword = dict.fromkeys(code.co_varnames[code.co_argcount :][: code.co_kwonlyargcount], REQUIRED)
    optional = dict(zip(names[len(required) :], values, strict=True))
    return required | optional | by_keyword | (method.__kwdefaults__ or {})


def readings_of(name: str) -> Callable[[Sequence[Any]], None] | None:
    """What checks the positional arguments of a method; None if there is one way to read them."""
    found = _readings.get(name)
    return None if found is None else found.check


def _is_same(first: dict[str, Any], second: dict[str, Any], defaults: dict[str, Any]) -> bool:
    """Whether two readings give every parameter the same value."""
    names = first.keys() | second.keys()
    return all(
        name in defaults and _is(first.get(name, defaults[name]), second.get(name, defaults[name])) for name in names
    )


def _is(value: Any, other: Any) -> bool:
    return type(value) is type(other) and bool(value == other)


def _differ(name: str, readings: Sequence[dict[str, Any]], made: str) -> ArgumentError:
    here, there = (", ".join(f"{key}={value!r:.20}" for key, value in reading.items()) for reading in readings)
    return ArgumentError(
        f"{name}: without names, this is {here} in tinygrad and {there} in PyTorch",
        made,
        f"Name the arguments: {here}; or {there}.",
    )


# ---- one tensor where PyTorch has two

_single: dict[int, tuple[weakref.ref[Any], str, str]] = {}  # results of two rows, by identity: the method, what to do
_UNPACK = opmap["UNPACK_SEQUENCE"]


def note_single(name: str, result: Result, shape: Sequence[Any], fix: str = "") -> Result:
    """A result that is a pair in another library. Only one of two rows can be taken for that."""
    if shape and type(shape[0]) is int and shape[0] == 2:
        key = id(result)
        fix = fix or f"For values and positions, as in PyTorch, use x.{name}(1), x.arg{name}(1)."
        _single[key] = (weakref.ref(result, lambda _: _single.pop(key, None)), name, fix)
    return result


def forget_single(result: Result) -> Result:
    """A result that is one tensor to its caller, who may unpack it."""
    _single.pop(id(result), None)
    return result


def check_not_unpacked(tensor: Any, depth: int = 2) -> None:
    """Raises if the caller's caller unpacks such a result: `v, i = x.max(1)`."""
    noted = _single.get(id(tensor))
    if noted is None:
        return
    frame = sys._getframe(depth)
    if frame.f_code.co_code[frame.f_lasti] != _UNPACK:
        return
    _, name, fix = noted
    raise ArgumentError(
        f"{name}: the result is one tensor of two rows, and is unpacked",
        tensor._made(),
        f"{fix} For its rows use tolist(), or index it.",
    )
