"""Tar and zip files as tensors of bytes by name.

Members that are not compressed are parts of the archive, read when they are needed; others are unpacked into memory.
Nothing is ever written to disk. Names that lead out of a folder (`/etc/x`, `../x`) are refused all the same: whoever
writes the members to files would be led out of it.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

from whit.dtype import dtypes
from whit.errors import FileError, WhitError
from whit.nn.state.tensor_io import TensorIO
from whit.tensor import Tensor
from whit.tensor.source import CUT_OFF, Source, open_source

if TYPE_CHECKING:
    import zipfile

LIMIT_BYTES = 1 << 30  # bytes that are unpacked into memory, unless more are asked for
BOMB = "If you trust it, raise the limit: limit=..."
BLOCK_BYTES = 512  # bytes, the unit of tar
MOST_HEADER_BYTES = 1 << 20  # bytes of a long name, or of an extended header


def zip_extract(fn: Any, limit: int = LIMIT_BYTES) -> dict[str, Tensor]:
    """The files in a zip archive, as tensors of uint8. `limit`: bytes that may be unpacked, where they are packed."""
    source = open_source("zip_extract", fn)
    return {name: part.tensor(0, dtypes.uint8, (part.size,)) for name, part in zip_members(source, limit).items()}


def tar_extract(fn: Any, limit: int = LIMIT_BYTES) -> dict[str, Tensor]:
    """The files in a tar archive, as tensors of uint8; also of .tar.gz, .tar.bz2 and .tar.xz, which are unpacked."""
    source = _unpacked(open_source("tar_extract", fn), limit)
    return {name: part.tensor(0, dtypes.uint8, (part.size,)) for name, part in tar_members(source).items()}


def check_name(source: Source, name: str) -> str:
    """The name of a member, which must stay inside of a folder."""
    parts = name.replace("\\", "/").split("/")
    if not name or name.startswith(("/", "\\")) or ".." in parts or "\0" in name or name[1:2] == ":":
        raise source.error(f"the member {name!r:.120} leads out of the archive", "", "Do not use the file.")
    return name


# ---- zip


def zip_members(source: Source, limit: int = LIMIT_BYTES) -> dict[str, Source]:
    """The files in a zip archive, by name."""
    import lzma  # lazy: few programs unpack anything
    import zipfile  # lazy: as above
    import zlib  # lazy: as above

    members: dict[str, Source] = {}
    unpacked = 0
    try:
        with zipfile.ZipFile(TensorIO(_bytes_of(source))) as archive:
            for info in archive.infolist():
                if info.filename.endswith("/"):
                    continue
                name = check_name(source, info.filename)
                if name in members:
                    raise source.error(f"the member {name!r:.120} is there twice", "", CUT_OFF)
                if info.flag_bits & 1:
                    raise source.error(f"the member {name!r:.120} is encrypted", "", "Unpack it with its password.")
                if info.compress_type == zipfile.ZIP_STORED:
                    members[name] = _stored(source, info)
                    continue
                unpacked += info.file_size
                if unpacked > limit:
                    raise source.error(
                        "it unpacks to too much", f"{unpacked} bytes or more, the limit is {limit}", BOMB
                    )
                members[name] = Source(source.reader, name, memoryview(archive.read(info)))
    except FileError as error:
        if error.errno is not None:  # the disk's own; without a number it is a place before the start of the file
            raise
        raise source.error("no readable zip archive", error.what, CUT_OFF) from None
    except WhitError:
        raise
    except (
        zipfile.BadZipFile,
        zlib.error,
        lzma.LZMAError,
        EOFError,
        struct.error,
        OSError,
        IndexError,
        ValueError,
        RuntimeError,
        OverflowError,
    ) as error:  # all of them seen from damaged archives
        raise source.error("no readable zip archive", f"{type(error).__name__}: {error}", CUT_OFF) from None
    return members


def _bytes_of(source: Source) -> Tensor:
    return source.tensor(0, dtypes.uint8, (source.size,))


def _stored(source: Source, info: zipfile.ZipInfo) -> Source:
    """A member that is not compressed: behind its own header, whose length only it knows."""
    header = source.read(info.header_offset, 30)
    if header[:4] != b"PK\3\4":
        raise source.error(f"the member {info.filename!r:.120} has no header at {info.header_offset}", "", CUT_OFF)
    lengths = struct.unpack("<HH", header[26:30])
    if info.compress_size != info.file_size:
        raise source.error(
            f"the member {info.filename!r:.120} has two sizes", f"{info.compress_size} and {info.file_size}", CUT_OFF
        )
    return source.part(info.header_offset + 30 + sum(lengths), info.file_size, info.filename)


# ---- tar


def _unpacked(source: Source, limit: int) -> Source:
    """The archive itself where it is compressed."""
    import bz2  # lazy: few programs unpack anything
    import gzip  # lazy: as above
    import lzma  # lazy: as above

    start = source.read_up_to(0, 6)
    openers: dict[bytes, Callable[[Any], Any]] = {
        b"\x1f\x8b": lambda file: gzip.GzipFile(fileobj=file),
        b"BZh": bz2.BZ2File,
        b"\xfd7zXZ\0": lzma.LZMAFile,
    }
    for magic, opener in openers.items():
        if start.startswith(magic):
            return Source(source.reader, source.name, memoryview(_unpack(source, opener, limit)))
    return source


def gunzip(source: Source, limit: int = LIMIT_BYTES) -> bytes:
    """What a gzip file holds."""
    import gzip  # lazy: few programs unpack anything

    return _unpack(source, lambda file: gzip.GzipFile(fileobj=file), limit)


def _unpack(source: Source, opener: Callable[[Any], Any], limit: int) -> bytes:
    """All that a compressed file holds, if it is not too much."""
    import lzma  # lazy: few programs unpack anything
    import zlib  # lazy: as above

    found = bytearray()
    try:
        with opener(TensorIO(_bytes_of(source))) as packed:
            while chunk := packed.read(1 << 20):
                found += chunk
                if len(found) > limit:
                    raise source.error("it unpacks to too much", f"more than {limit} bytes", BOMB)
    except (zlib.error, lzma.LZMAError, EOFError, OSError) as error:  # gzip and bz2 raise OSError
        if isinstance(error, WhitError):
            raise
        raise source.error("it cannot be unpacked", f"{error}", CUT_OFF) from None
    return bytes(found)


def tar_members(source: Source) -> dict[str, Source]:
    """The regular files in a tar archive, by name. Links, folders and devices are left out."""
    members: dict[str, Source] = {}
    for name, kind, start, size in _tar_entries(source):
        if kind in (b"0", b"\0", b"7") and not name.endswith("/"):
            if source.size - start < size:
                raise source.error(f"the member {name!r:.120} is cut off", f"{size} bytes from {start} on", CUT_OFF)
            members[check_name(source, name)] = source.part(start, size, name)
    return members


def _tar_entries(source: Source) -> Iterator[tuple[str, bytes, int, int]]:
    """Name, kind, first byte and size of everything in a tar archive."""
    place, long_name, changes = 0, None, dict[str, bytes]()
    is_tar = False
    while place + BLOCK_BYTES <= source.size:
        header = source.read(place, BLOCK_BYTES)
        if not any(header):
            is_tar = True
            break
        size = _tar_header(source, header, place)
        is_tar, kind, place = True, header[156:157], place + BLOCK_BYTES
        if kind in (b"L", b"x", b"g"):  # the name, or more about the next entry, or about all of them
            if size > MOST_HEADER_BYTES:
                raise source.error("an extended tar header is too long", f"{size} bytes at {place}", CUT_OFF)
            data = source.read(place, size)
            if kind == b"L":
                long_name = data.rstrip(b"\0")
            elif kind == b"x":
                changes = _pax(source, data)
        elif kind != b"K":
            size = _pax_size(source, changes, size)
            yield _tar_name(header, long_name, changes), kind, place, size
            long_name, changes = None, {}
        place += -(-size // BLOCK_BYTES) * BLOCK_BYTES
    if not is_tar:
        raise source.error("no tar archive", f"{source.size} bytes", "Check what the file is.")


def _tar_header(source: Source, header: bytes, place: int) -> int:
    """The size of an entry whose header is whole."""
    total = sum(header) - sum(header[148:156]) + 8 * ord(" ")
    if _tar_number(header[148:156]) != total:
        raise source.error("no tar archive", f"the header at byte {place} has another checksum than it says", CUT_OFF)
    size = _tar_number(header[124:136])
    if size < 0 or size > source.size:
        raise source.error("a member is larger than the archive", f"{size} bytes at {place}", CUT_OFF)
    return size


def _tar_number(field: bytes) -> int:
    """Octal digits, or for large numbers bytes behind a set bit; -1 if it is neither."""
    if field[0] & 0x80:
        return int.from_bytes(bytes([field[0] & 0x7F]) + field[1:], "big")
    text = field.rstrip(b"\0 ").lstrip(b" ").partition(b"\0")[0]
    return int(text or b"0", 8) if all(digit in b"01234567" for digit in text) else -1


def _tar_name(header: bytes, long_name: bytes | None, changes: dict[str, bytes]) -> str:
    name = header[:100].partition(b"\0")[0]
    if header[257:263] == b"ustar\0" and header[345]:
        name = header[345:500].partition(b"\0")[0] + b"/" + name
    return changes.get("path", long_name or name).decode("utf-8", "surrogateescape").removeprefix("./")


def _pax(source: Source, data: bytes) -> dict[str, bytes]:
    """Records "length key=value", each length counting itself."""
    found: dict[str, bytes] = {}
    place, end = 0, len(data.rstrip(b"\0"))
    while place < end:
        length = data[place : place + 20].partition(b" ")[0]
        count = int(length) if length.isdigit() and len(length) < 20 else 0
        record = data[place + len(length) + 1 : place + count]
        key, equals, value = record.partition(b"=")
        if not equals or place + count > len(data) or not value.endswith(b"\n"):
            raise source.error("a record of an extended tar header cannot be read", f"{data[place:][:40]!r}", CUT_OFF)
        found[key.decode("utf-8", "replace")] = value[:-1]
        place += count
    return found


def _pax_size(source: Source, changes: dict[str, bytes], size: int) -> int:
    text = changes.get("size")
    if text is None:
        return size
    if not text.isdigit() or len(text) > 19 or int(text) > source.size:
        raise source.error("a member is larger than the archive", f"size {text[:40]!r}", CUT_OFF)
    return int(text)
