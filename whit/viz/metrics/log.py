"""The log: a line of JSON for each thing that is noted, written at once.

    {"step": 3, "time": 12.5, "numbers": {"loss": 0.25}}
    {"step": 3, "time": 12.5, "histogram": {"name": "weight", "low": -1.0, "high": 1.0, "counts": [1, 5, 2]}}
    {"step": 3, "time": 12.5, "image": {"name": "samples", "png": "iVBOR..."}}

A process that is killed leaves a file that reads up to its last line. Opening a log that is there goes on in it; what
is noted again for a step replaces what was noted before, so a run that is resumed has no doubled parts.
"""

from __future__ import annotations

import base64
import json
import math
import time
from os import PathLike
from pathlib import Path
from typing import Any

from whit.dtype import dtypes
from whit.errors import ArgumentError, FileError, ShapeError
from whit.ir.op import spell_shape
from whit.png import COLOUR_KINDS, png_of
from whit.tensor import Tensor
from whit.viz.metrics.entries import read
from whit.viz.metrics.page import write_page

IMAGES_IN_A_ROW = 8


class Metrics:
    """A log in a file. Tensors that are given to it are computed and read."""

    def __init__(self, path: str | PathLike[str]) -> None:
        self.path = Path(path)
        _end_last_line(self.path)
        self._start = time.monotonic() - max((entry["time"] for entry in read(self.path, missing_ok=True)), default=0.0)

    def add(self, step: int, **numbers: Any) -> None:
        """Numbers, or tensors of one element, by name."""
        found = {name: _spelled(_number(name, value)) for name, value in numbers.items()}
        self._write(step, "numbers", found)

    def histogram(self, step: int, name: str, values: Any, bins: int = 40) -> None:
        """How many elements of a tensor lie where, in equal parts from the smallest to the largest."""
        if isinstance(bins, bool) or not isinstance(bins, int) or bins < 1:
            raise ArgumentError(f"Metrics.histogram: bins={bins!r}", fix="It is an integer, 1 or more.")
        flat = _tensor(values).detach().flatten().float()
        finite = flat.isfinite()
        count = int(finite.sum().item()) if flat.numel() else 0
        low = float(finite.where(flat, math.inf).min().item()) if count else 0.0
        high = float(finite.where(flat, -math.inf).max().item()) if count else 0.0
        counts = [0] * bins
        if count:
            width = (high - low) / bins or 1.0
            place = ((finite.where(flat, low) - low) / width).floor().clip(0, bins - 1).cast(dtypes.int32)
            counts = Tensor.zeros(bins, dtype=dtypes.int32).scatter_add(0, place, finite.cast(dtypes.int32)).tolist()
        found = {"name": name, "low": low, "high": high, "counts": counts, "left_out": flat.numel() - count}
        self._write(step, "histogram", found)

    def image(self, step: int, name: str, values: Any) -> None:
        """(height, width), (channels, height, width), or a batch side by side; floats 0 to 1, or integers to 255."""
        tensor = _tensor(values).detach()
        x = tensor.unsqueeze(0) if tensor.ndim == 2 else tensor
        x = x.unsqueeze(0) if x.ndim == 3 else x
        if x.ndim != 4 or x.shape[1] not in COLOUR_KINDS or not x.numel():
            raise ShapeError(
                f"Metrics.image: {spell_shape(tensor.shape)}",
                tensor._made(),
                "It is (height, width), (channels, height, width) or (batch, channels, ...) with 1, 3 or 4 channels.",
            )
        batch, channels, height, width = x.shape
        columns = min(batch, IMAGES_IN_A_ROW)
        rows = -(-batch // columns)
        levels = x.float() if x.dtype.is_int else (x.isnan().where(0, x).clip(0, 1) * 255).round()
        grid = levels.pad(((0, rows * columns - batch), (0, 0), (0, 0), (0, 0)))
        grid = grid.reshape(rows, columns, channels, height, width).permute(0, 3, 1, 4, 2)
        pixels = grid.clip(0, 255).cast(dtypes.uint8).contiguous().data()
        png = png_of(bytes(pixels), rows * height, columns * width, channels)
        self._write(step, "image", {"name": name, "png": base64.b64encode(png).decode("ascii")})

    def page(self, path: str | PathLike[str]) -> None:
        """Writes a page about this log: one file, which needs no network."""
        write_page(path, [self.path])

    def _write(self, step: int, kind: str, content: Any) -> None:
        if isinstance(step, bool) or not isinstance(step, int):
            raise ArgumentError(f"Metrics: step={step!r:.60}", fix="It is an integer.")
        entry = {"step": step, "time": round(time.monotonic() - self._start, 3), kind: content}
        line = json.dumps(entry, separators=(",", ":"), allow_nan=False)
        try:
            with self.path.open("a", encoding="utf-8") as file:
                file.write(line + "\n")
        except OSError as error:
            raise FileError(f"Metrics: {self.path} cannot be written: {error}") from error


def _end_last_line(path: Path) -> None:
    """A line that a killed process has not finished is ended, so that the next one is whole."""
    if path.is_file() and path.stat().st_size:
        with path.open("rb+") as file:
            file.seek(-1, 2)
            if file.read(1) != b"\n":
                file.write(b"\n")


def _number(name: str, value: Any) -> float:
    if isinstance(value, Tensor):
        if value.numel() != 1:
            raise ShapeError(
                f"Metrics.add: {name} is a tensor {spell_shape(value.shape)}", value._made(), "Add a number."
            )
        return float(value.item())
    try:
        return float(value)
    except (TypeError, ValueError) as error:
        raise ArgumentError(
            f"Metrics.add: {name}={value!r:.60}", fix="Add a number, or a tensor of one element."
        ) from error


def _spelled(value: float) -> float | str:
    if math.isnan(value):
        return "nan"
    return value if math.isfinite(value) else "inf" if value > 0 else "-inf"


def _tensor(values: Any) -> Tensor:
    return values if isinstance(values, Tensor) else Tensor(values)
