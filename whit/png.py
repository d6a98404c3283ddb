"""Images as PNG files: 8 bits a channel, grey or coloured."""

from __future__ import annotations

import struct
import zlib

SIGNATURE = b"\x89PNG\r\n\x1a\n"
COLOUR_KINDS = {1: 0, 3: 2, 4: 6}  # channels -> grey, colours, colours with transparency


def png_of(pixels: bytes, height: int, width: int, channels: int) -> bytes:
    """Pixels row by row, channels last -> a file."""
    row = width * channels
    lines = b"".join(b"\0" + pixels[at * row : (at + 1) * row] for at in range(height))  # 0: a row as it is
    head = struct.pack(">IIBBBBB", width, height, 8, COLOUR_KINDS[channels], 0, 0, 0)
    return SIGNATURE + _chunk(b"IHDR", head) + _chunk(b"IDAT", zlib.compress(lines)) + _chunk(b"IEND", b"")


def _chunk(kind: bytes, data: bytes) -> bytes:
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))
