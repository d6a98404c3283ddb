"""Pictures in files: PNG, BMP and PNM are read here, other formats by Pillow where it is installed."""

from __future__ import annotations

import importlib
import io
import re
import struct
import zlib
from typing import Any, Final

import numpy

from whit.errors import MissingError, NotSupportedError
from whit.onnx.operators.registry import Node, Value, host_array, operator
from whit.tensor import Tensor

Array = numpy.ndarray[Any, Any]
PNG: Final = b"\x89PNG\r\n\x1a\n"
MOST_PIXELS: Final = 1 << 28
_CHANNELS: Final = {0: 1, 2: 3, 3: 1, 4: 2, 6: 4}  # of PNG, by its kind of colour
_LUMA: Final = (19595, 38470, 7471)  # shares of red, green and blue of 65536


@operator("ImageDecoder", since=(20,), host=(0,))
def image_decoder(node: Node, stream: Value) -> Tensor:
    """The bytes of a file -> (height, width, channels); of a file that cannot be read, nothing."""
    data = host_array(stream).astype(numpy.uint8).tobytes()
    wanted = node.get("pixel_format", "RGB")
    try:
        pixels = decoded(data)
    except (ValueError, IndexError, KeyError, struct.error, zlib.error, OSError) as error:
        if isinstance(error, NotSupportedError | MissingError):
            raise
        return Tensor(numpy.zeros((0, 0, 1 if wanted == "Grayscale" else 3), dtype=numpy.uint8))
    if wanted == "Grayscale":
        if pixels.shape[2] == 3:
            total = (pixels.astype(numpy.uint32) * numpy.array(_LUMA, dtype=numpy.uint32)).sum(2, keepdims=True)
            pixels = ((total + 0x8000) >> 16).astype(numpy.uint8)
    elif pixels.shape[2] == 1:
        pixels = pixels.repeat(3, axis=2)
    return Tensor(numpy.ascontiguousarray(pixels[:, :, ::-1] if wanted == "BGR" else pixels))


def decoded(data: bytes) -> Array:
    """(height, width, 1 or 3) bytes."""
    if data.startswith(PNG):
        return _png(data)
    if data.startswith(b"BM"):
        return _bmp(data)
    if re.match(rb"P[23456]\s", data):
        return _pnm(data)
    return _by_pillow(data)


def _by_pillow(data: bytes) -> Array:
    try:
        images: Any = importlib.import_module("PIL.Image")  # lazy: it may not be installed
    except ImportError as error:
        raise MissingError(
            "onnx: ImageDecoder reads PNG, BMP and PNM itself, and other files by Pillow", "", "pip install pillow"
        ) from error
    picture = images.open(io.BytesIO(data))
    array = numpy.asarray(picture if picture.mode in ("L", "RGB") else picture.convert("RGB"))
    return array.reshape(*array.shape[:2], -1)


def _checked(width: int, height: int) -> None:
    if width < 1 or height < 1 or width * height > MOST_PIXELS:
        raise ValueError("no picture has this size")


# ---- PNG


def _png(data: bytes) -> Array:
    at, parts, palette = len(PNG), [], b""
    width = height = depth = colour = laced = 0
    while at + 8 <= len(data):
        (size,), kind = struct.unpack(">I", data[at : at + 4]), data[at + 4 : at + 8]
        body = data[at + 8 : at + 8 + size]
        at += 12 + size
        if kind == b"IHDR":
            width, height, depth, colour, _, _, laced = struct.unpack(">IIBBBBB", body)
        elif kind == b"PLTE":
            palette = body
        elif kind == b"IDAT":
            parts.append(body)
        elif kind == b"IEND":
            break
    _checked(width, height)
    if laced or (depth not in (8, 16) and colour not in (0, 3)):
        return _by_pillow(data)
    channels = _CHANNELS[colour]
    stride = (width * channels * depth + 7) // 8
    raw = zlib.decompressobj().decompress(b"".join(parts), height * (stride + 1))
    rows = _unfiltered(numpy.frombuffer(raw, numpy.uint8).reshape(height, stride + 1), max(channels * depth // 8, 1))
    return _colours(_samples(rows, depth, width * channels).reshape(height, width, channels), depth, colour, palette)


def _samples(rows: Array, depth: int, count: int) -> Array:
    if depth == 8:
        return rows
    if depth == 16:
        return rows[:, ::2]
    bits = numpy.unpackbits(rows, axis=1).reshape(len(rows), -1, depth)
    values: Array = bits @ (1 << numpy.arange(depth)[::-1])
    return values[:, :count].astype(numpy.uint8)


def _colours(pixels: Array, depth: int, colour: int, palette: bytes) -> Array:
    if colour == 3:
        return numpy.frombuffer(palette, numpy.uint8).reshape(-1, 3)[pixels[:, :, 0]]
    if colour in (4, 6):  # transparency is left out
        return pixels[:, :, :-1]
    return pixels if depth >= 8 else pixels * (255 // ((1 << depth) - 1))


def _unfiltered(rows: Array, step: int) -> Array:
    """Each row is said as differences from what is left of it and above it."""
    result = numpy.zeros((len(rows), rows.shape[1] - 1), dtype=numpy.uint8)
    above = numpy.zeros(rows.shape[1] - 1, dtype=numpy.uint8)
    for number, row in enumerate(rows):
        kind, line = int(row[0]), row[1:].copy()
        if kind == 1:
            line = numpy.cumsum(_columns(line, step), axis=0, dtype=numpy.uint8).reshape(-1)[: len(line)]
        elif kind == 2:
            line += above
        elif kind in (3, 4):
            line = _predicted(line, above, step, kind == 4)
        elif kind:
            raise ValueError("an unknown filter")
        result[number] = above = line
    return result


def _columns(line: Array, step: int) -> Array:
    return numpy.pad(line, (0, -len(line) % step)).reshape(-1, step)


def _predicted(line: Array, above: Array, step: int, by_paeth: bool) -> Array:
    values, before = line.tolist(), above.tolist()
    for i, value in enumerate(values):
        left = values[i - step] if i >= step else 0
        up = before[i]
        if by_paeth:
            corner = before[i - step] if i >= step else 0
            guess = left + up - corner
            near = min((abs(guess - left), 0, left), (abs(guess - up), 1, up), (abs(guess - corner), 2, corner))
            values[i] = (value + near[2]) & 255
        else:
            values[i] = (value + (left + up) // 2) & 255
    return numpy.array(values, dtype=numpy.uint8)


# ---- BMP and PNM


def _bmp(data: bytes) -> Array:
    (start,) = struct.unpack("<I", data[10:14])
    width, height, _, depth, packed = struct.unpack("<iiHHI", data[18:34])
    if depth not in (24, 32) or packed not in (0, 3):
        return _by_pillow(data)
    _checked(width, abs(height))
    stride = (width * depth // 8 + 3) // 4 * 4
    rows = numpy.frombuffer(data, numpy.uint8, stride * abs(height), start).reshape(abs(height), stride)
    pixels = rows[:, : width * depth // 8].reshape(abs(height), width, depth // 8)[:, :, 2::-1]
    return pixels[::-1] if height > 0 else pixels


def _pnm(data: bytes) -> Array:
    head = re.match(rb"P([2356])(?:\s+|#[^\n]*\n)+(\d+)(?:\s+|#[^\n]*\n)+(\d+)(?:\s+|#[^\n]*\n)+(\d+)\s", data)
    if head is None:
        return _by_pillow(data)
    kind, width, height, most = (int(group) for group in head.groups())
    _checked(width, height)
    channels = 3 if kind in (3, 6) else 1
    count = width * height * channels
    if kind in (2, 3):
        values = numpy.array(data[head.end() :].split()[:count], dtype=numpy.uint32)
    else:
        values = numpy.frombuffer(data, ">u2" if most > 255 else numpy.uint8, count, head.end()).astype(numpy.uint32)
    pixels = values if most == 255 else (values * 255 + most // 2) // most
    return pixels.astype(numpy.uint8).reshape(height, width, channels)
