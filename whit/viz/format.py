"""The file: a magic, a version, and blocks of compressed JSON lines. docs/trace-format.md has it in full.

    file     "whit-trace" 0x0a, version (u32), block...
    block    bytes that follow (u32), bytes once unpacked (u32), CRC-32 of the bytes that follow (u32), zlib data

Numbers are little-endian. A block holds whole records, so the blocks of a process that was killed read up to the last
one it wrote. A reader takes nothing on trust: lengths have limits, unpacking stops at the length that was announced.
"""

from __future__ import annotations

import json
import os
import struct
import zlib
from collections.abc import Iterator
from typing import Any, BinaryIO

from whit.errors import FileError, FileMissingError, ParseError

MAGIC = b"whit-trace\n"
VERSION = 1
HEADER = struct.Struct("<I")
BLOCK = struct.Struct("<III")
BLOCK_BYTES = 64 << 10  # a writer closes a block of this many bytes before packing
MOST_PACKED_BYTES = 64 << 20  # bytes of a block that a reader accepts
MOST_UNPACKED_BYTES = 256 << 20
MOST_BYTES_IN_ALL = 2 << 30  # bytes of all blocks, unpacked
PLAIN_BYTES = 1 << 20  # bytes unpacked; a larger block must not be
MOST_RATIO = 100  # times as large as it is packed: records are 5 to 30 times, and zeros 1000 times

Record = dict[str, Any]


def file_start() -> bytes:
    """What every file begins with."""
    return MAGIC + HEADER.pack(VERSION)


def pack(lines: list[str]) -> bytes:
    """One block."""
    text = "\n".join(lines).encode()
    data = zlib.compress(text, 1)
    return BLOCK.pack(len(data), len(text), zlib.crc32(data)) + data


class Reading:
    """The records of a file, in order. `is_whole` is False where the file ends inside a block, once all are read."""

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = os.fspath(path)
        self.is_whole = True

    def __iter__(self) -> Iterator[Record]:
        try:
            file = open(self.path, "rb")  # noqa: SIM115  # closed below, where its errors are not those of opening
        except FileNotFoundError:
            raise FileMissingError(
                f"viz: there is no file {self.path}", fix="Record one: VIZ=file python program.py"
            ) from None
        except OSError as error:
            raise FileError(f"viz: {self.path} cannot be read", str(error), "Check the path.") from None
        with file:
            self._check_start(file)
            total = 0
            while text := self._block(file):
                total += len(text)
                if total > MOST_BYTES_IN_ALL:
                    raise self._bad(f"it has more than {MOST_BYTES_IN_ALL >> 30} GiB of records", file.tell())
                yield from self._records(text, file.tell())

    def _check_start(self, file: BinaryIO) -> None:
        start = file.read(len(MAGIC) + HEADER.size)
        if not start.startswith(MAGIC):
            raise ParseError(
                f"viz: {self.path} is no trace of whit",
                f"it begins with {start[:16]!r}",
                "Give a file that VIZ=file or whit.trace(file) has written.",
            )
        if len(start) < len(MAGIC) + HEADER.size:
            self.is_whole = False
            return
        (version,) = HEADER.unpack_from(start, len(MAGIC))
        if version != VERSION:
            raise ParseError(
                f"viz: {self.path} has version {version} of the trace format",
                f"this whit reads version {VERSION}",
                "Open it with the whit that wrote it, or record it again.",
            )

    def _block(self, file: BinaryIO) -> bytes:
        """The text of the next block; nothing at the end, be it sudden or not."""
        place = file.tell()
        head = file.read(BLOCK.size)
        if not head:
            return b""
        if len(head) < BLOCK.size:
            self.is_whole = False
            return b""
        packed, unpacked, checksum = BLOCK.unpack(head)
        if packed > MOST_PACKED_BYTES or unpacked > MOST_UNPACKED_BYTES:
            raise self._bad(f"a block says it has {packed:,} bytes, {unpacked:,} unpacked", place)
        if unpacked > max(PLAIN_BYTES, MOST_RATIO * packed):
            raise self._bad(f"a block of {packed:,} bytes says it has {unpacked:,} unpacked", place)
        if packed > os.fstat(file.fileno()).st_size - file.tell():  # nothing is allocated for what is not there
            self.is_whole = False
            return b""
        data = file.read(packed)
        if zlib.crc32(data) != checksum:
            raise self._bad("a block does not match its checksum", place)
        unpacker = zlib.decompressobj()
        try:
            text = unpacker.decompress(data, unpacked + 1)
        except zlib.error as error:
            raise self._bad(f"a block cannot be unpacked ({error})", place) from None
        if len(text) != unpacked or not unpacked:
            raise self._bad("a block does not have the length that it says", place)
        return text

    def _records(self, text: bytes, place: int) -> Iterator[Record]:
        try:
            # All records of a block at once: 40,000 took 0.31 s one by one, and take 0.13 s (a small GPT's training).
            records = json.loads(b"[%b]" % text.replace(b"\n", b","))
        except (ValueError, RecursionError) as error:
            raise self._bad(f"a record is no JSON ({type(error).__name__})", place) from None
        for record in records:
            if not isinstance(record, dict) or not isinstance(record.get("record"), str):
                raise self._bad("a record has no name", place)
            yield record

    def _bad(self, what: str, place: int) -> ParseError:
        return ParseError(
            f"viz: {self.path} is damaged: {what}", f"at byte {place:,}", "Copy it again, or record it again."
        )
