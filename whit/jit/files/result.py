"""What captured functions are given and return, in files: signatures as text, results without their tensors as JSON.

    key       ((2, 3), float32, "CPU", None), (int, 2)             "((2, 3), float32, 'CPU', None), (int, 2)"
    result    {"y": hole 0, "n": 7}                                {"dict": [["y", {"hole": [0, false]}], ...]}

Of classes a file has the names; the classes themselves are given by who loads it (`Classes`), so that nothing that a
file says makes Python import or run anything.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from enum import Enum
from typing import Any

from whit.dtype import DType, to_dtype
from whit.errors import JitError
from whit.ir.text.write import to_text
from whit.ir.uop import UOp
from whit.jit.files.program import JsonReader, JsonWriter
from whit.jit.signature import PLAIN, Hole
from whit.records import dataclass, fields, is_dataclass
from whit.tensor.tensor import Tensor

_IN_JSON = (bool, int, float, str, type(None))


class Classes:
    """The classes that results consist of, by name."""

    def __init__(self, known: Iterable[type] = ()) -> None:
        self._known: dict[str, type] = {kind.__name__: kind for kind in (Tensor, *known)}

    def to(self, kind: type) -> str:
        """The name of a class."""
        if self._known.setdefault(kind.__name__, kind) is not kind:
            raise JitError(
                f"save: there are two classes of the name {kind.__name__}", fix="Give one of them another name."
            )
        return kind.__name__

    def of(self, name: str) -> Any:
        """The class of a name."""
        if name not in self._known:
            raise JitError(
                f"load: the file has a {name}, of which it knows nothing but the name",
                fix=f"Give the class: TinyJit.load(path, types=[{name}]).",
            )
        return self._known[name]


def spell_key(key: Any) -> str:
    """A signature as text, the same in every process."""
    if isinstance(key, tuple):
        if len(key) == 2 and isinstance(key[0], type) and key[0] is not int and type(key[1]) is int:
            raise _not_data("an argument", key[0])  # the number is its id
        return f"({', '.join([spell_key(part) for part in key])})"
    if isinstance(key, type):
        return key.__name__
    if isinstance(key, DType):
        return key.name
    if isinstance(key, Enum):
        return f"{type(key).__name__}.{key.name}"
    if isinstance(key, frozenset):
        return f"{{{', '.join(sorted(spell_key(part) for part in key))}}}"
    if isinstance(key, UOp):
        return to_text(key, types=False)  # with the ranges of its variables
    if type(key) not in PLAIN and type(key) is not float:
        raise _not_data("an argument", type(key))
    return repr(key)


def _not_data(what: str, kind: type) -> JitError:
    return JitError(
        f"{what} is a {kind.__name__}, which a file cannot hold",
        fix="Use tensors, numbers, strings, and lists, tuples, dictionaries or dataclasses of them.",
    )


@dataclass(frozen=True, slots=True)
class _Saving:
    """Where parts of a result go."""

    writer: JsonWriter
    classes: Classes

    def parts(self, values: Iterable[Any]) -> list[Any]:
        return [template_to(part, self.writer, self.classes) for part in values]


@dataclass(frozen=True, slots=True)
class _Loading:
    """Where parts of a result come from."""

    reader: JsonReader
    classes: Classes

    def parts(self, values: list[Any]) -> list[Any]:
        return [template_from(part, self.reader, self.classes) for part in values]


@dataclass(frozen=True, slots=True)
class _Kind:
    """A kind of parts of results: which they are, what a file has of one, and how that becomes one again."""

    holds: Callable[[Any], bool]
    to: Callable[[Any, _Saving], Any]
    of: Callable[[Any, _Loading], Any]


def _exactly(*kinds: type) -> Callable[[Any], bool]:
    return lambda part: type(part) in kinds


def _instance_of(kinds: Any) -> Callable[[Any], bool]:
    """Also objects of classes derived from these."""
    return lambda part: isinstance(part, kinds)


def _fields_to(part: Any, file: _Saving) -> list[Any]:
    names = [field.name for field in fields(part) if field.init]
    return [file.classes.to(type(part)), names, file.parts(getattr(part, name) for name in names)]


def _fields_of(data: list[Any], file: _Loading) -> Any:
    name, names, values = data
    return file.classes.of(name)(**dict(zip(names, file.parts(values), strict=True)))


# By the name in a file; the first that holds a part is its kind.
_KINDS = {
    "hole": _Kind(_exactly(Hole), lambda hole, _: [hole.number, hole.is_argument], lambda data, _: Hole(*data)),
    "value": _Kind(_exactly(*_IN_JSON), lambda value, _: value, lambda data, _: data),
    "bytes": _Kind(
        _exactly(bytes), lambda text, file: file.writer.bytes(text), lambda data, file: file.reader.bytes(data)
    ),
    "complex": _Kind(_exactly(complex), lambda z, _: [z.real, z.imag], lambda data, _: complex(*data)),
    "range": _Kind(_exactly(range), lambda r, _: [r.start, r.stop, r.step], lambda data, _: range(*data)),
    "ellipsis": _Kind(_exactly(type(Ellipsis)), lambda *_: None, lambda *_: Ellipsis),
    "dtype": _Kind(_instance_of(DType), lambda dtype, _: dtype.name, lambda data, _: to_dtype(data)),
    "node": _Kind(
        _instance_of(UOp), lambda node, file: file.writer.node(node), lambda data, file: file.reader.node(data)
    ),
    "type": _Kind(
        _instance_of(type), lambda kind, file: file.classes.to(kind), lambda data, file: file.classes.of(data)
    ),
    "enum": _Kind(
        _instance_of(Enum),
        lambda member, file: [file.classes.to(type(member)), member.name],
        lambda data, file: file.classes.of(data[0])[data[1]],
    ),
    "list": _Kind(_exactly(list), lambda parts, file: file.parts(parts), lambda data, file: file.parts(data)),
    "tuple": _Kind(_exactly(tuple), lambda parts, file: file.parts(parts), lambda data, file: tuple(file.parts(data))),
    "dict": _Kind(
        _exactly(dict),
        lambda pairs, file: [file.parts(pair) for pair in pairs.items()],
        lambda data, file: dict([file.parts(pair) for pair in data]),
    ),
    "named": _Kind(
        lambda part: isinstance(part, tuple | list) and hasattr(part, "_fields"),
        lambda parts, file: [file.classes.to(type(parts)), file.parts(parts)],
        lambda data, file: file.classes.of(data[0])(*file.parts(data[1])),
    ),
    "sequence": _Kind(
        _instance_of((tuple, list)),
        lambda parts, file: [file.classes.to(type(parts)), file.parts(parts)],
        lambda data, file: file.classes.of(data[0])(file.parts(data[1])),
    ),
    "fields": _Kind(is_dataclass, _fields_to, _fields_of),
}


def template_to(template: Any, writer: JsonWriter, classes: Classes) -> dict[str, Any]:
    """A result without tensors as something that JSON can hold."""
    for name, kind in _KINDS.items():
        if kind.holds(template):
            return {name: kind.to(template, _Saving(writer, classes))}
    raise _not_data("a part of the result", type(template))


def template_from(data: dict[str, Any], reader: JsonReader, classes: Classes) -> Any:
    """What `template_to` was given."""
    ((name, content),) = data.items()
    if name not in _KINDS:
        raise ValueError(f"a result with {name!r}")
    return _KINDS[name].of(content, _Loading(reader, classes))
