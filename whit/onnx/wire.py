"""Protobuf's wire format, read lazily: fields of a message, without knowing what they mean.

    wire = Wire(open_source("onnx", "model.onnx"))
    for number, value in wire.fields(wire.whole):       # 8, 3 | 7, Span(12, 40) | ...
        ...

A field is a number (varints and fixed widths) or a `Span`, the place of its bytes in the file. Bytes are read when
somebody asks for them, in chunks: the weights of a model, which are most of it, never are. A file is hostile until
shown otherwise: no length is believed before it is compared with what there is, and the number of fields that one file
may have is bounded, so that small files cannot ask for much memory.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Iterator
from typing import NamedTuple

from whit.tensor.source import CUT_OFF, Source

CHUNK_BYTES = 1 << 16  # bytes that are read at once; messages of up to that size are read whole
HEADER_BYTES = 20  # bytes; a tag and a length or number, both as varints, have at most that many
MOST_FIELDS = 20_000_000  # of one file; a node has about ten
MOST_FIELD_NUMBER = (1 << 29) - 1

VARINT, FIXED64, BYTES, FIXED32 = 0, 1, 2, 5  # how a field is written; 3 and 4, groups, are of protobuf 1


class Span(NamedTuple):
    """Bytes of a file: the first, and the one after the last."""

    start: int
    end: int

    @property
    def size(self) -> int:
        """How many there are."""
        return self.end - self.start


class Fixed(int):
    """The bits of a number of fixed width: floats are written so."""


class Wire:
    """A source of bytes, read as protobuf."""

    __slots__ = ("_chunk", "_fields_left", "_first", "source")

    def __init__(self, source: Source) -> None:
        self.source = source
        self._chunk = b""
        self._first = 0  # the place of the chunk
        self._fields_left = MOST_FIELDS

    @property
    def whole(self) -> Span:
        """All of it."""
        return Span(0, self.source.size)

    def read(self, span: Span) -> bytes:
        """The bytes of a span, by way of the chunk that is in memory if it lies there."""
        offset = span.start - self._first
        if offset >= 0 and offset + span.size <= len(self._chunk):
            return self._chunk[offset : offset + span.size]
        if span.size > CHUNK_BYTES:
            return self.source.read(span.start, span.size)
        self._chunk = self.source.read_up_to(span.start, CHUNK_BYTES)
        self._first = span.start
        if len(self._chunk) < span.size:
            raise self._cut_off(span.start, span.size)
        return self._chunk[: span.size]

    def fields(self, span: Span) -> Iterable[tuple[int, int | Span]]:
        """The fields of a message in the order of the file: number, and value or place."""
        return self._fields_in(self.read(span), span) if span.size <= CHUNK_BYTES else self._fields_of_large(span)

    def _fields_of_large(self, span: Span) -> Iterator[tuple[int, int | Span]]:
        """The same of a message that is not read as a whole."""
        place = span.start
        while place < span.end:
            head = self.read(Span(place, min(place + HEADER_BYTES, span.end)))
            number, value, used = self._field(head, 0, place)
            self._count(1)
            if isinstance(value, Span):
                self._check_inside(value, span)
                place = value.end
            else:
                place += used
            yield number, value

    def _fields_in(self, data: bytes, span: Span) -> list[tuple[int, int | Span]]:
        """The same of a message whose bytes are in memory. Most fields have one byte for what they are, and one for
        their value or length: 2.0 -> 0.9 us each."""
        found: list[tuple[int, int | Span]] = []
        offset, size, first = 0, len(data), span.start
        while offset < size:
            tag = data[offset]
            kind = tag & 7
            if 8 <= tag < 0x80 and kind in (BYTES, VARINT) and offset + 1 < size and data[offset + 1] < 0x80:
                value = data[offset + 1]
                offset += 2
                if kind == VARINT:
                    found.append((tag >> 3, value))
                    continue
                if offset + value > size:
                    raise self._cut_off(first + offset, value, span.end)
                found.append((tag >> 3, Span(first + offset, first + offset + value)))
                offset += value
                continue
            number, other, used = self._field(data, offset, first + offset)
            if isinstance(other, Span):
                self._check_inside(other, span)
                offset = other.end - first
            else:
                offset += used
            found.append((number, other))
        self._count(len(found))
        return found

    def _field(self, data: bytes, offset: int, place: int) -> tuple[int, int | Span, int]:
        """Number and value of the field at an offset, whose place in the file is `place`; its bytes, without those of
        a span."""
        start = offset
        try:
            tag, offset = varint(data, offset)
            kind = tag & 7
            if kind == BYTES:
                size, offset = varint(data, offset)
                first = place + offset - start
                return self._number(tag, place), Span(first, first + size), offset - start
            if kind == VARINT:
                value, offset = varint(data, offset)
                return self._number(tag, place), value, offset - start
            if kind in (FIXED32, FIXED64):
                code, width = ("<I", 4) if kind == FIXED32 else ("<Q", 8)
                return self._number(tag, place), Fixed(*struct.unpack_from(code, data, offset)), offset + width - start
        except (IndexError, struct.error):
            raise self._cut_off(place, len(data) - start) from None
        except OverflowError:
            raise self.source.error(
                "this is no protobuf", f"a number of more than 64 bits at {place}", NOT_ONNX
            ) from None
        raise self.source.error("this is no protobuf", f"a field of kind {kind} at {place}", NOT_ONNX)

    def _number(self, tag: int, place: int) -> int:
        number = tag >> 3
        if not 0 < number <= MOST_FIELD_NUMBER:
            raise self.source.error("this is no protobuf", f"a field of number {number} at {place}", NOT_ONNX)
        return number

    def _count(self, fields: int) -> None:
        self._fields_left -= fields
        if self._fields_left < 0:
            raise self.source.error("it has too many parts", f"more than {MOST_FIELDS} fields", "Split the model.")

    def _check_inside(self, inner: Span, outer: Span) -> None:
        if inner.end > outer.end:
            raise self._cut_off(inner.start, inner.size, outer.end)

    def _cut_off(self, start: int, size: int, end: int | None = None) -> Exception:
        last = self.source.size if end is None else end
        return self.source.error(
            f"it ends at byte {self.source.size}" if last == self.source.size else f"a part of it ends at byte {last}",
            f"{size} bytes from {start} on were expected",
            CUT_OFF,
        )


NOT_ONNX = "Check what the file is. If it is a model for ONNX, it is damaged: get it again."


def varint(data: bytes, offset: int) -> tuple[int, int]:
    """A number of up to 64 bits, seven in each byte, and the offset after it."""
    byte = data[offset]
    offset += 1
    if byte < 0x80:
        return byte, offset
    value, shift = byte & 0x7F, 7
    while byte >= 0x80:
        byte = data[offset]
        offset += 1
        value |= (byte & 0x7F) << shift
        shift += 7
        if shift > 70:
            raise OverflowError("a varint has at most ten bytes")
    return value & 0xFFFFFFFFFFFFFFFF, offset


def signed(value: int) -> int:
    """The 64 bits of a varint as a signed number."""
    return value - (1 << 64) if value >= 1 << 63 else value
