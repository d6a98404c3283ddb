"""The log of numbers, histograms and images, and the page about it."""

from __future__ import annotations

import base64
import math
import re
import struct
import subprocess
import sys
import zlib
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from whit import Tensor
from whit.errors import ArgumentError, FileError, ShapeError
from whit.viz.metrics import Metrics, read, write_page
from whit.viz.metrics.page import MOST_POINTS, thinned


class Tags(HTMLParser):
    """What is on a page, and whether all that was opened was closed."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.found: list[tuple[str, dict[str, str | None]]] = []
        self.open: list[str] = []
        self.feed(text)
        assert self.open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.found.append((tag, dict(attrs)))
        if tag not in ("meta", "img"):
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.found.append((tag, dict(attrs)))

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def all(self, tag: str) -> list[dict[str, str | None]]:
        return [attributes for name, attributes in self.found if name == tag]


def decoded(png: bytes) -> np.ndarray:
    """The pixels of a PNG file."""
    assert png[:8] == b"\x89PNG\r\n\x1a\n"
    at, data, head = 8, b"", b""
    while at < len(png):
        (length,), kind = struct.unpack(">I", png[at : at + 4]), png[at + 4 : at + 8]
        content = png[at + 8 : at + 8 + length]
        assert struct.unpack(">I", png[at + 8 + length : at + 12 + length])[0] == zlib.crc32(kind + content)
        head, data = (content, data) if kind == b"IHDR" else (head, data + content)
        at += 12 + length
    width, height, bits, colour = struct.unpack(">IIBB", head[:10])
    assert bits == 8
    rows = np.frombuffer(zlib.decompress(data), np.uint8).reshape(height, -1)
    assert (rows[:, 0] == 0).all()
    return rows[:, 1:].reshape(height, width, {0: 1, 2: 3, 6: 4}[colour])


def pixels_of(entry: dict[str, Any]) -> np.ndarray:
    return decoded(base64.b64decode(entry["image"]["png"]))


def test_numbers_are_written_at_once_and_read_again(tmp_path: Path) -> None:
    log = Metrics(tmp_path / "run.metrics")
    log.add(0, loss=Tensor([0.5]), rate=1e-3)
    log.add(1, loss=float("nan"), rate=math.inf)
    found = list(read(log.path))
    assert [(entry["step"], entry["numbers"]["rate"]) for entry in found] == [(0, 1e-3), (1, math.inf)]
    assert found[0]["numbers"]["loss"] == 0.5 and math.isnan(found[1]["numbers"]["loss"])
    with log.path.open("a") as file:
        file.write('{"step": 2, "time": 9')  # the process was killed here
    again = Metrics(log.path)
    again.add(3, loss=0.25)
    assert [entry["step"] for entry in read(log.path)] == [0, 1, 3]
    assert list(read(log.path))[-1]["time"] >= found[-1]["time"]


def test_a_histogram_counts_what_numpy_counts(tmp_path: Path) -> None:
    log = Metrics(tmp_path / "run.metrics")
    values = np.random.default_rng(0).normal(size=(30, 40)).astype(np.float32)
    log.histogram(4, "weight", Tensor(values), bins=10)
    log.histogram(5, "bad", Tensor([1.0, math.nan, 3.0, math.inf]), bins=2)
    log.histogram(6, "one", Tensor([2.0, 2.0]), bins=3)
    log.histogram(7, "none", Tensor.zeros(0), bins=2)
    first, bad, one, none = (entry["histogram"] for entry in read(log.path))
    counts, edges = np.histogram(values, 10)
    assert np.abs(np.array(first["counts"]) - counts).sum() <= 4  # edges are rounded in another way
    assert sum(first["counts"]) == 1200 and (first["low"], first["high"]) == pytest.approx((edges[0], edges[-1]))
    assert (bad["counts"], bad["left_out"]) == ([1, 1], 2)
    assert one["counts"] == [2, 0, 0] and none["counts"] == [0, 0]


def test_images_are_pixels_in_a_grid(tmp_path: Path) -> None:
    log = Metrics(tmp_path / "run.metrics")
    batch = np.random.default_rng(0).integers(0, 256, (9, 3, 4, 5)).astype(np.uint8)
    log.image(0, "bytes", Tensor(batch))
    log.image(0, "floats", Tensor([[0.0, 0.5], [1.0, 7.0]]))
    grid, floats = (pixels_of(entry) for entry in read(log.path))
    assert grid.shape == (8, 40, 3)
    assert np.array_equal(grid[:4, 5:10], batch[1].transpose(1, 2, 0))
    assert np.array_equal(grid[4:, :5], batch[8].transpose(1, 2, 0)) and not grid[4:, 5:].any()
    assert floats[..., 0].tolist() == [[0, 128], [255, 255]]
    with pytest.raises(ShapeError, match=r"Metrics\.image: \(2, 4, 4\)"):
        log.image(0, "two channels", Tensor.zeros(2, 4, 4))


def test_the_page_shows_all_and_needs_nothing_else(tmp_path: Path) -> None:
    for name, shift in (("first <run>", 0.0), ("second", 1.0)):
        log = Metrics(tmp_path / f"{name}.metrics")
        for step in range(20):
            log.add(step, **{"loss & co": 100 * 0.5**step + shift, "constant": 2.0})
        log.add(20, **{"loss & co": math.nan})
        log.histogram(5, "weight", Tensor.arange(10))
        log.histogram(6, "weight", Tensor.arange(20))
        log.image(5, "samples", Tensor.ones(1, 4, 4))
    page = tmp_path / "run.html"
    write_page(page, sorted(tmp_path.glob("*.metrics")))
    text = page.read_text("utf-8")
    tags = Tags(text)
    assert not re.search(r"https?://|<script|<link|@import|url\(", text)
    assert len(tags.all("polyline")) == 4 and len(tags.all("img")) == 2 and len(tags.all("rect")) > 20
    assert "loss &amp; co" in text and "first &lt;run&gt;" in text and "not finite at step 20" in text
    for line in tags.all("polyline"):
        places = [tuple(map(float, place.split(","))) for place in str(line["points"]).split()]
        assert len(places) == 20 and all(0 <= x <= 520 and 0 <= y <= 260 for x, y in places)
    Metrics(tmp_path / "empty.metrics").path.touch()
    write_page(page, [tmp_path / "empty.metrics"])
    assert "nothing in the log yet" in page.read_text("utf-8")


def test_a_step_that_is_noted_again_counts_once(tmp_path: Path) -> None:
    log = Metrics(tmp_path / "run.metrics")
    for loss in (3.0, 2.0):
        for step in range(2):
            log.add(step, loss=loss - step)
    log.page(tmp_path / "run.html")
    (line,) = Tags((tmp_path / "run.html").read_text("utf-8")).all("polyline")
    assert len(str(line["points"]).split()) == 2


def test_long_curves_keep_their_highest_and_lowest_points() -> None:
    curve = [(step, float(step % 7)) for step in range(100_000)]
    curve[54_321] = (54_321, 99.0)
    found = thinned(curve)
    assert len(found) <= MOST_POINTS + 2 and (54_321, 99.0) in found and found == sorted(found)
    assert thinned(curve[:10]) == curve[:10]


def test_the_command_writes_a_page(tmp_path: Path) -> None:
    log = Metrics(tmp_path / "run.metrics")
    log.add(1, loss=1.0)
    page = tmp_path / "run.html"
    subprocess.run([sys.executable, "-m", "whit.viz.metrics", page, log.path], check=True)
    assert len(Tags(page.read_text("utf-8")).all("circle")) == 1
    done = subprocess.run([sys.executable, "-m", "whit.viz.metrics", page], capture_output=True, text=True, check=False)
    assert done.returncode == 1 and "usage" in done.stderr


def test_mistakes_with_logs(tmp_path: Path) -> None:
    log = Metrics(tmp_path / "run.metrics")
    with pytest.raises(ArgumentError, match=r"Metrics\.add: loss='low'"):
        log.add(0, loss="low")
    with pytest.raises(ShapeError, match=r"Metrics\.add: loss is a tensor \(2,\)"):
        log.add(0, loss=Tensor([1.0, 2.0]))
    with pytest.raises(ArgumentError, match=r"Metrics: step=0\.5"):
        log.add(0.5, loss=1)  # type: ignore[arg-type]
    with pytest.raises(ArgumentError, match="bins=0"):
        log.histogram(0, "x", Tensor([1.0]), bins=0)
    with pytest.raises(FileError, match="cannot be read"):
        list(read(tmp_path / "none.metrics"))
    with pytest.raises(FileError, match="cannot be written"):
        Metrics(tmp_path / "no folder" / "run.metrics").add(0, loss=1)
    with pytest.raises(ArgumentError, match="there are no logs"):
        write_page(tmp_path / "x.html", [])
