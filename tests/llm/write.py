"""GGUF files written by hand: the format in thirty lines, for tests that need no package.

gguf({"general.architecture": "llama"}, {"output_norm.weight": array})      # bytes
"""

from __future__ import annotations

import struct
from collections.abc import Mapping
from typing import Any

import numpy as np

KINDS = {"float32": 0, "float16": 1}
ALIGNMENT = 32


def text(value: str) -> bytes:
    """Length and bytes."""
    data = value.encode("utf-8", "surrogateescape")
    return struct.pack("<Q", len(data)) + data


def value(given: Any) -> bytes:
    """Type and value."""
    if isinstance(given, bool):
        return struct.pack("<I?", 7, given)
    if isinstance(given, int):
        return struct.pack("<Ii", 5, given)
    if isinstance(given, float):
        return struct.pack("<If", 6, given)
    if isinstance(given, str):
        return struct.pack("<I", 8) + text(given)
    first = given[0] if given else 0
    kind = 8 if isinstance(first, str) else 6 if isinstance(first, float) else 5
    body = b"".join(text(x) if kind == 8 else struct.pack("<f" if kind == 6 else "<i", x) for x in given)
    return struct.pack("<IIQ", 9, kind, len(given)) + body


def gguf(metadata: Mapping[str, Any], tensors: Mapping[str, np.ndarray]) -> bytes:
    """A file."""
    head = struct.pack("<4sIQQ", b"GGUF", 3, len(tensors), len(metadata))
    head += b"".join(text(key) + value(given) for key, given in metadata.items())
    body = b""
    for name, array in tensors.items():
        body += b"\0" * (-len(body) % ALIGNMENT)
        sizes = struct.pack(f"<I{array.ndim}Q", array.ndim, *array.shape[::-1])
        head += text(name) + sizes + struct.pack("<IQ", KINDS[array.dtype.name], len(body))
        body += array.tobytes()
    return head + b"\0" * (-len(head) % ALIGNMENT) + body
