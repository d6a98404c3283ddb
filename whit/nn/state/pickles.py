"""Pickles without code: a reader of the format that builds plain values, and calls nothing that a file names.

Python's own unpickler looks names up in modules and calls what it finds, so a file can do anything. This one has a
table of names with what each of them builds; a name that is not in the table is an error. What a file can make: None,
bools, numbers, text, bytes, lists, tuples, dictionaries, sets, and what the table says. Nothing is allocated that is
larger than the bytes it is read from, and nothing is returned that is much larger when it is walked: lists of the same
list, of the same list, ... are refused.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Mapping
from typing import Any

from whit.dtype import DType
from whit.errors import ParseError, WhitError
from whit.tensor.source import CUT_OFF, Reader, shown

MOST_LINE_BYTES = 1 << 16  # bytes of a name, or of a number in text
MOST_DEPTH = 10_000  # lists in lists
MOST_WALKED_VALUES = 1 << 20  # values that are found by walking all of a result, or 16 for each byte of the file

Build = Callable[..., Any]
_SIZED = (list, tuple, set, frozenset, dict, bytes, bytearray, str)
_SCALARS = (bool, int, float, str, bytes, DType)


_NESTED = (list, tuple, set, frozenset, dict)


def _parts(value: Any) -> list[Any]:
    """What is in a container."""
    if isinstance(value, dict):
        return [*value.keys(), *value.values()]
    return list(value) if isinstance(value, _NESTED) else []


class Global:
    """A name in a file, and what stands for it: a value (a dtype), or something that builds one."""

    __slots__ = ("build", "name", "value")

    def __init__(self, name: str, value: Any = None, build: Build | None = None) -> None:
        self.name = name
        self.value = value
        self.build = build


class Stateful:
    """What is built first and told its state after that, as arrays of NumPy are."""

    def set_state(self, state: Any) -> None:
        """The state that the file has for it."""
        raise NotImplementedError


class Unpickler:
    """Reads one pickle. `globals_` are the names that a file may use; `persistent` builds what lies outside of it."""

    def __init__(
        self, reader: Reader, globals_: Mapping[str, Global], persistent: Callable[[Any], Any] | None = None
    ) -> None:
        self._reader = reader
        self._globals = globals_
        self._persistent = persistent
        self._memo: dict[int, Any] = {}
        self._stack: list[Any] = []
        self._marks: list[int] = []
        self._copied = 0  # elements of containers that were built from others

    def load(self) -> Any:
        """The value. The reader stands behind the pickle then."""
        reader = self._reader
        while True:
            place = reader.place
            code = reader.take(1)[0]
            if code == STOP:
                value = self._pop()
                self._check_walk(value)
                return value
            step = STEPS.get(code)
            if step is None:
                raise self._error(f"code {bytes([code])!r} at byte {place} is not one of a plain pickle")
            try:
                step(self, reader)
            except WhitError:
                raise
            except (
                IndexError,
                KeyError,
                TypeError,
                ValueError,
                AttributeError,
                OverflowError,
                RecursionError,
            ) as error:
                raise self._error(f"at byte {place}: {type(error).__name__}: {error}") from None

    def _check_walk(self, root: Any) -> None:
        """Refuses what is there once and found exponentially often."""
        most = max(MOST_WALKED_VALUES, 16 * self._reader.source.size)
        counts: dict[int, int] = {}  # of containers, by identity: 0 while they are walked
        stack = [(root, False)]
        while stack:
            value, is_done = stack.pop()
            parts = _parts(value)
            if is_done:
                counts[id(value)] = 1 + sum(counts.get(id(part), 1) for part in parts)
                if counts[id(value)] > most:
                    raise self._error("the same values are in it again and again", "Do not use it.")
            elif id(value) not in counts and parts:
                counts[id(value)] = 0
                stack.append((value, True))
                stack += [(part, False) for part in parts if isinstance(part, _NESTED)]

    def _error(self, details: str, fix: str = CUT_OFF) -> ParseError:
        return self._reader.source.error("the pickle in it cannot be read", details, fix)

    # ---- the stack

    def _pop(self) -> Any:
        if not self._stack or (self._marks and len(self._stack) <= self._marks[-1]):
            raise self._error("it takes a value where there is none")
        return self._stack.pop()

    def _pop_mark(self) -> list[Any]:
        """The values since the last mark."""
        if not self._marks:
            raise self._error("it takes values up to a mark, and there is none")
        start = self._marks.pop()
        values = self._stack[start:]
        del self._stack[start:]
        return values

    def _top(self, kind: type | tuple[type, ...]) -> Any:
        if not self._stack or not isinstance(self._stack[-1], kind):
            raise self._error("it fills a list or a dictionary where there is none")
        return self._stack[-1]

    def _key(self, value: Any) -> Any:
        """Only flat keys: Python hashes tuples in tuples recursively, without a limit, until the process crashes."""
        parts = value if isinstance(value, tuple) else (value,)
        if not all(part is None or isinstance(part, _SCALARS) for part in parts):
            raise self._error(f"a {type(value).__name__} with others inside is the key of a dictionary, or in a set")
        return value

    # ---- what the codes do

    def _mark(self, _: Reader) -> None:
        if len(self._marks) > MOST_DEPTH:
            raise self._error(f"more than {MOST_DEPTH} values in each other")
        self._marks.append(len(self._stack))

    def _push_global(self, name: str) -> None:
        found = self._globals.get(name)
        if found is None:
            raise self._reader.source.error(
                f"it asks for {name!r:.120}, which is not loaded from files",
                "a file could run any code that way; tensors, dictionaries, lists, numbers and text are loaded",
                "Where you trust the file, load it with the program that wrote it, and save the tensors alone.",
            )
        self._stack.append(found if found.build is not None else found.value)

    def _global(self, reader: Reader) -> None:
        module, name = (reader.line(MOST_LINE_BYTES).decode() for _ in range(2))
        self._push_global(f"{module}.{name}")

    def _stack_global(self, _: Reader) -> None:
        name, module = self._pop(), self._pop()
        if not isinstance(name, str) or not isinstance(module, str):
            raise self._error(f"it asks for a name that is no text: {shown(name)}")
        self._push_global(f"{module}.{name}")

    def _reduce(self, _: Reader) -> None:
        arguments, function = self._pop(), self._pop()
        if not isinstance(function, Global) or not isinstance(arguments, tuple):
            raise self._error(f"it calls a {type(function).__name__}")
        assert function.build is not None, "a Global without a builder never comes onto the stack"
        result = function.build(*arguments)
        if isinstance(result, _SIZED):  # what is copied was in the file once, so all copies together are not longer
            self._copied += len(result)
            if self._copied > self._reader.source.size:
                raise self._error("it copies the same values again and again")
        self._stack.append(result)

    def _build(self, _: Reader) -> None:
        """State of an object: dictionaries have attributes in PyTorch (`_metadata`), which are left out here."""
        state, target = self._pop(), self._top(object)
        if isinstance(target, Stateful):
            target.set_state(state)
        elif not isinstance(target, dict) or not isinstance(state, dict | tuple):
            raise self._error(f"it sets the state of a {type(target).__name__}")

    def _persistent_id(self, _: Reader) -> None:
        key = self._pop()
        if self._persistent is None:
            raise self._error("it refers to something outside of it")
        self._stack.append(self._persistent(key))

    def _append(self, _: Reader) -> None:
        value = self._pop()
        self._top(list).append(value)

    def _appends(self, _: Reader) -> None:
        values = self._pop_mark()
        self._top(list).extend(values)

    def _set_item(self, _: Reader) -> None:
        value, key = self._pop(), self._pop()
        self._top(dict)[self._key(key)] = value

    def _set_items(self, _: Reader) -> None:
        values = self._pop_mark()
        target = self._top(dict)
        for i in range(0, len(values), 2):
            target[self._key(values[i])] = values[i + 1]

    def _add_items(self, _: Reader) -> None:
        values = self._pop_mark()
        self._top(set).update(map(self._key, values))

    def _dict_of_mark(self, _: Reader) -> None:
        values = self._pop_mark()
        self._stack.append({self._key(values[i]): values[i + 1] for i in range(0, len(values), 2)})

    def _put(self, index: int) -> None:
        self._memo[index] = self._stack[-1]

    def _tuple(self, count: int) -> None:
        values = [self._pop() for _ in range(count)]
        self._stack.append(tuple(reversed(values)))

    def _int_line(self, reader: Reader) -> None:
        text = reader.line(MOST_LINE_BYTES)
        self._stack.append(text == b"01" if text in (b"00", b"01") else int(text))

    def _text(self, count: int) -> None:
        self._stack.append(self._reader.take(count).decode("utf-8", "surrogatepass"))

    def _string(self, count: int) -> None:
        """Text of Python 2."""
        self._stack.append(self._reader.take(count).decode("latin-1"))

    def _skip_frame(self, reader: Reader) -> None:
        reader.take(8)  # frames are there to be read ahead, and this reader does so on its own


def _pushing(make: Callable[[Reader], Any]) -> Callable[[Unpickler, Reader], None]:
    def step(self: Unpickler, reader: Reader) -> None:
        self._stack.append(make(reader))

    return step


def _protocol(self: Unpickler, reader: Reader) -> None:
    version = reader.number("B")
    if version > 5:
        raise self._error(f"protocol {version} is unknown")


def _pop_any(self: Unpickler, _: Reader) -> None:
    if self._marks and len(self._stack) == self._marks[-1]:
        self._marks.pop()
    else:
        self._pop()


STOP = ord(".")
STEPS: dict[int, Callable[[Unpickler, Reader], None]] = {
    0x80: _protocol,
    0x95: Unpickler._skip_frame,
    ord("("): Unpickler._mark,
    ord("0"): _pop_any,
    ord("1"): lambda self, _: self._pop_mark().clear(),
    ord("2"): lambda self, _: self._stack.append(self._stack[-1]),
    # numbers
    ord("N"): _pushing(lambda _: None),
    0x88: _pushing(lambda _: True),
    0x89: _pushing(lambda _: False),
    ord("I"): Unpickler._int_line,
    ord("L"): _pushing(lambda reader: int(reader.line(MOST_LINE_BYTES).rstrip(b"L"))),
    ord("J"): _pushing(lambda reader: reader.number("i")),
    ord("K"): _pushing(lambda reader: reader.number("B")),
    ord("M"): _pushing(lambda reader: reader.number("H")),
    0x8A: _pushing(lambda reader: int.from_bytes(reader.take(reader.number("B")), "little", signed=True)),
    0x8B: _pushing(lambda reader: int.from_bytes(reader.take(reader.number("I")), "little", signed=True)),
    ord("F"): _pushing(lambda reader: float(reader.line(MOST_LINE_BYTES))),
    ord("G"): _pushing(lambda reader: struct.unpack(">d", reader.take(8))[0]),
    # text and bytes
    ord("V"): _pushing(lambda reader: reader.line(MOST_LINE_BYTES).decode("raw-unicode-escape")),
    ord("X"): lambda self, reader: self._text(reader.number("I")),
    0x8C: lambda self, reader: self._text(reader.number("B")),
    0x8D: lambda self, reader: self._text(reader.number("Q")),
    ord("U"): lambda self, reader: self._string(reader.number("B")),
    ord("T"): lambda self, reader: self._string(reader.number("I")),
    ord("B"): _pushing(lambda reader: reader.take(reader.number("I"))),
    ord("C"): _pushing(lambda reader: reader.take(reader.number("B"))),
    0x8E: _pushing(lambda reader: reader.take(reader.number("Q"))),
    0x96: _pushing(lambda reader: bytearray(reader.take(reader.number("Q")))),
    # containers
    ord("]"): _pushing(lambda _: []),
    ord("}"): _pushing(lambda _: {}),
    ord(")"): _pushing(lambda _: ()),
    0x8F: _pushing(lambda _: set()),
    ord("l"): lambda self, _: self._stack.append(self._pop_mark()),
    ord("d"): Unpickler._dict_of_mark,
    ord("t"): lambda self, _: self._stack.append(tuple(self._pop_mark())),
    0x85: lambda self, _: self._tuple(1),
    0x86: lambda self, _: self._tuple(2),
    0x87: lambda self, _: self._tuple(3),
    0x91: lambda self, _: self._stack.append(frozenset(map(self._key, self._pop_mark()))),
    ord("a"): Unpickler._append,
    ord("e"): Unpickler._appends,
    ord("s"): Unpickler._set_item,
    ord("u"): Unpickler._set_items,
    0x90: Unpickler._add_items,
    # the memo
    ord("p"): lambda self, reader: self._put(int(reader.line(MOST_LINE_BYTES))),
    ord("q"): lambda self, reader: self._put(reader.number("B")),
    ord("r"): lambda self, reader: self._put(reader.number("I")),
    0x94: lambda self, _: self._put(len(self._memo)),
    ord("g"): lambda self, reader: self._stack.append(self._memo[int(reader.line(MOST_LINE_BYTES))]),
    ord("h"): lambda self, reader: self._stack.append(self._memo[reader.number("B")]),
    ord("j"): lambda self, reader: self._stack.append(self._memo[reader.number("I")]),
    # names
    ord("c"): Unpickler._global,
    0x93: Unpickler._stack_global,
    ord("R"): Unpickler._reduce,
    0x81: Unpickler._reduce,  # cls.__new__(*arguments): what the table builds is the same
    ord("b"): Unpickler._build,
    ord("Q"): Unpickler._persistent_id,
}
