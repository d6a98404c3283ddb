"""Messages between processes: a header in JSON and bytes, with their lengths before them."""

from __future__ import annotations

import json
import struct
from typing import Any, BinaryIO

LENGTHS = struct.Struct("<QQ")

Message = tuple[dict[str, Any], bytes]


def send(pipe: BinaryIO, header: dict[str, Any], data: bytes = b"") -> None:
    """Writes a message."""
    text = json.dumps(header).encode()
    pipe.write(LENGTHS.pack(len(text), len(data)) + text + data)
    pipe.flush()


def receive(pipe: BinaryIO) -> Message | None:
    """Reads a message; None at the end."""
    start = pipe.read(LENGTHS.size)
    if len(start) < LENGTHS.size:
        return None
    text, data = LENGTHS.unpack(start)
    content = pipe.read(text + data)
    if len(content) < text + data:
        return None
    return json.loads(content[:text]), content[text:]
