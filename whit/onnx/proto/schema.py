"""What protobuf does not say itself: which field of a message is called what, and what it holds.

    NODE = Message(NodeProto, {1: texts("inputs"), 4: text("op_type"), 5: messages("attributes", lambda: ATTRIBUTE)})
    parse(wire, span, NODE)         # a NodeProto

Unknown fields are skipped: they are of newer versions of the format. Of large data only the place is kept.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Mapping
from itertools import chain
from typing import Any

from whit.errors import ParseError
from whit.onnx.wire import Fixed, Span, Wire, signed, varint
from whit.records import dataclass, fields, is_dataclass

MOST_DEPTH = 64  # messages in messages: a graph in an attribute of a node is three
Decode = Callable[[Wire, "int | Span", int], Any]


@dataclass(frozen=True, slots=True)
class Field:
    """A field: the name of it in the record, how its value is read, whether there may be several."""

    name: str
    decode: Decode
    kind: str  # "one", "each": a value each time, "many": several values each time, "parts": of one message

    def put(self, values: dict[str, Any], value: Any) -> None:
        """Adds a value to those of a record."""
        if self.kind == "one":
            values[self.name] = value  # the last one counts, as protobuf says
        elif self.kind in ("each", "parts"):
            values.setdefault(self.name, []).append(value)
        else:
            values.setdefault(self.name, []).extend(value)


@dataclass(frozen=True, slots=True)
class Message:
    """A kind of message: the record that it becomes, and its fields by number."""

    record: type
    fields: Mapping[int, Field]


def parse(wire: Wire, span: Span, message: Message, depth: int = 0) -> Any:
    """A message as a record."""
    if depth > MOST_DEPTH:
        raise wire.source.error(
            "its parts are nested too deeply", f"more than {MOST_DEPTH} levels", "No program writes such a file."
        )
    values: dict[str, Any] = {}
    in_parts: set[str] = set()
    known = message.fields
    for number, value in wire.fields(span):
        field = known.get(number)
        if field is not None:
            field.put(values, field.decode(wire, value, depth))
            if field.kind == "parts":
                in_parts.add(field.name)
    for name, found in values.items():
        if type(found) is list:
            values[name] = _joined(found) if name in in_parts else tuple(found)
    return message.record(**values)


def _joined(parts: list[Any]) -> Any:
    """A message that is there several times: protobuf makes one of them, with the lists of all."""
    if len(parts) == 1:
        return parts[0]
    kind, empty = type(parts[0]), type(parts[0])()
    found: dict[str, Any] = {}
    for field in fields(kind):
        given = [value for part in parts if (value := getattr(part, field.name)) != getattr(empty, field.name)]
        if given and isinstance(given[0], tuple):
            found[field.name] = tuple(chain.from_iterable(given))
        elif given:
            found[field.name] = _joined(given) if is_dataclass(given[0]) else given[-1]
    return kind(**found)


# ---- kinds of fields


def text(name: str) -> Field:
    """Text in UTF-8."""
    return Field(name, _text, "one")


def texts(name: str) -> Field:
    """Text, several times."""
    return Field(name, _text, "each")


def integer(name: str) -> Field:
    """A signed number of up to 64 bits."""
    return Field(name, _integer, "one")


def integers(name: str) -> Field:
    """Signed numbers."""
    return Field(name, _integers, "many")


def real(name: str) -> Field:
    """A float of 32 bits."""
    return Field(name, _real, "one")


def reals(name: str) -> Field:
    """Floats of 32 bits."""
    return Field(name, _reals, "many")


def raw(name: str) -> Field:
    """Bytes, read now."""
    return Field(name, _raw, "one")


def raws(name: str) -> Field:
    """Bytes, several times."""
    return Field(name, _raw, "each")


def place(name: str) -> Field:
    """Bytes, of which only the place is kept."""
    return Field(name, _place, "one")


def places(name: str) -> Field:
    """Numbers, of which only the places are kept; of those that do not lie together, the values."""
    return Field(name, lambda wire, value, depth: value, "each")


def message(name: str, kind: Callable[[], Message]) -> Field:
    """Another message. `kind` is a function, as messages contain each other."""
    return Field(name, lambda wire, value, depth: parse(wire, _span(wire, value), kind(), depth + 1), "parts")


def messages(name: str, kind: Callable[[], Message]) -> Field:
    """Other messages."""
    return Field(name, lambda wire, value, depth: parse(wire, _span(wire, value), kind(), depth + 1), "each")


# ---- their values


def _span(wire: Wire, value: int | Span) -> Span:
    if isinstance(value, Span):
        return value
    raise _wrong(wire, "a number stands where text or a message was expected")


def _number(wire: Wire, value: int | Span) -> int:
    if not isinstance(value, Span):
        return value
    raise _wrong(wire, "text or a message stands where a number was expected")


def _wrong(wire: Wire, what: str) -> ParseError:
    return wire.source.error("this is no ONNX model", what, "Check what the file is, or get it again.")


def _text(wire: Wire, value: int | Span, depth: int) -> str:
    found = wire.read(_span(wire, value))
    try:
        return found.decode("utf-8")
    except UnicodeDecodeError:
        raise _wrong(wire, f"a name is no text: {found!r:.60}") from None


def _raw(wire: Wire, value: int | Span, depth: int) -> bytes:
    return wire.read(_span(wire, value))


def _place(wire: Wire, value: int | Span, depth: int) -> Span:
    return _span(wire, value)


def _integer(wire: Wire, value: int | Span, depth: int) -> int:
    return signed(_number(wire, value))


def _integers(wire: Wire, value: int | Span, depth: int) -> list[int]:
    """One number, or many that lie together."""
    if not isinstance(value, Span):
        return [signed(value)]
    data, offset, found = wire.read(value), 0, []
    try:
        while offset < len(data):
            number, offset = varint(data, offset)
            found.append(signed(number))
    except (IndexError, OverflowError):
        raise _wrong(wire, "a list of numbers is cut off") from None
    return found


def _real(wire: Wire, value: int | Span, depth: int) -> float:
    number = _number(wire, value)
    if not isinstance(number, Fixed) or number >= 1 << 32:
        raise _wrong(wire, "another number stands where a float was expected")
    return float(struct.unpack("<f", struct.pack("<I", number))[0])


def _reals(wire: Wire, value: int | Span, depth: int) -> list[float]:
    if not isinstance(value, Span):
        return [_real(wire, value, depth)]
    if value.size % 4:
        raise _wrong(wire, "a list of floats is cut off")
    return list(struct.unpack(f"<{value.size // 4}f", wire.read(value)))
