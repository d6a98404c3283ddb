"""The page: curves of numbers, histograms over steps, and images, of one or more logs. One file without scripts."""

from __future__ import annotations

import html
import math
from collections.abc import Callable, Iterable, Sequence
from os import PathLike
from pathlib import Path
from typing import Any

from whit.errors import ArgumentError
from whit.viz.metrics.entries import read

Points = list[tuple[int, float]]

COLOURS = ("#2a6fdb", "#d9480f", "#2b8a3e", "#9c36b5", "#c2255c", "#0b7285", "#5c940d", "#495057")
WIDTH, HEIGHT, LEFT, BOTTOM = 520, 260, 64, 26  # of a chart, and the margins of its axes
MOST_POINTS = 600  # of a curve; more are joined, the lowest and the highest of each part
MOST_COLUMNS = 60  # of a histogram over steps
MOST_IMAGES = 6  # of a name, the last ones
LOG_RATIO = 50  # from which on the largest by the smallest number makes an axis of powers of ten
MOST_NAMED = 8  # steps in a remark
TICKS = 4

STYLE = """
body { font: 14px system-ui, sans-serif; margin: 24px; color: #212529; background: #fff; }
h1 { font-size: 20px; } h2 { font-size: 15px; margin: 0 0 4px; }
main { display: flex; flex-wrap: wrap; gap: 28px; } figure { margin: 0; }
svg text { font: 11px system-ui, sans-serif; fill: #495057; } .axis { stroke: #ced4da; }
.curve { fill: none; stroke-width: 1.5; }
img { image-rendering: pixelated; min-height: 64px; border: 1px solid #ced4da; } figcaption { color: #495057; }
.keys span { margin-right: 16px; } .bad { color: #c92a2a; }
@media (prefers-color-scheme: dark) { body { color: #e9ecef; background: #16181b; }
svg text, figcaption { fill: #adb5bd; color: #adb5bd; } .axis { stroke: #495057; } }
"""


class Log:
    """What one log has, by name: the last word on each step."""

    def __init__(self, title: str, entries: Iterable[dict[str, Any]]) -> None:
        self.title = title
        self.numbers: dict[str, dict[int, float]] = {}
        self.histograms: dict[str, dict[int, dict[str, Any]]] = {}
        self.images: dict[str, dict[int, str]] = {}
        for entry in entries:
            step = entry["step"]
            for name, value in entry.get("numbers", {}).items():
                self.numbers.setdefault(name, {})[step] = float(value)
            if found := entry.get("histogram"):
                self.histograms.setdefault(found["name"], {})[step] = found
            if found := entry.get("image"):
                self.images.setdefault(found["name"], {})[step] = found["png"]


def write_page(path: str | PathLike[str], logs: Sequence[str | PathLike[str]]) -> None:
    """Writes the page about these logs."""
    if not logs:
        raise ArgumentError("write_page: there are no logs", fix="Give the paths of one or more.")
    Path(path).write_text(page_of([Log(Path(log).stem, read(log)) for log in logs]), "utf-8")


def page_of(logs: Sequence[Log]) -> str:
    """The text of the page."""
    title = html.escape(", ".join(log.title for log in logs))
    keys = "".join(
        f'<span style="color:{_colour(n)}">&#9644; {html.escape(log.title)}</span>' for n, log in enumerate(logs)
    )
    names = dict.fromkeys(name for log in logs for name in log.numbers)
    parts = [_curves(name, [log.numbers.get(name, {}) for log in logs]) for name in names]
    for n, log in enumerate(logs):
        parts += [_histograms(name, found, _colour(n)) for name, found in log.histograms.items()]
        parts += [_images(name, found) for name, found in log.images.items()]
    body = "\n".join(parts) or "<p>There is nothing in the log yet.</p>"
    return (
        f'<!doctype html>\n<html lang="en"><head><meta charset="utf-8"><title>{title}</title>'
        f"<style>{STYLE}</style></head>\n<body><h1>{title}</h1>\n"
        f'<p class="keys">{keys if len(logs) > 1 else ""}</p>\n<main>\n{body}\n</main></body></html>\n'
    )


def _colour(place: int) -> str:
    return COLOURS[place % len(COLOURS)]


# ---- curves


def thinned(points: Points) -> Points:
    """No more than MOST_POINTS: of each part of a longer curve the lowest and the highest."""
    if len(points) <= MOST_POINTS:
        return points
    size = -(-2 * len(points) // MOST_POINTS)
    found: Points = []
    for at in range(0, len(points), size):
        part = points[at : at + size]
        ends = {min(part, key=lambda point: point[1]), max(part, key=lambda point: point[1])}
        found += sorted(ends)
    return found


def _curves(name: str, runs: Sequence[dict[int, float]]) -> str:
    """A chart with a curve for each log; numbers that are not finite are named below it."""
    curves = [[(step, value) for step, value in sorted(run.items()) if math.isfinite(value)] for run in runs]
    note = _not_finite(sorted({step for run in runs for step, value in run.items() if not math.isfinite(value)}))
    points = [point for curve in curves for point in curve]
    if not points:
        return f"<figure><h2>{html.escape(name)}</h2>{note}</figure>"
    steps, values = zip(*points, strict=True)
    low, high = min(values), max(values)
    is_log = low > 0 and high / low > LOG_RATIO
    scale: Callable[[float], float] = math.log10 if is_log else float
    across = _axis(min(steps), max(steps), LEFT, WIDTH - 8)
    up = _axis(scale(low), scale(high), HEIGHT - BOTTOM, 12)
    lines = [_frame(low, high, is_log, up), _step_marks(min(steps), max(steps), across)]
    for n, curve in enumerate(curves):
        lines.append(_line([(across(step), up(scale(value))) for step, value in thinned(curve)], _colour(n)))
    last = [f"{curve[-1][1]:.6g}" for curve in filter(None, curves)]
    return _figure(f"{name}: {', '.join(last)}", lines, note)


def _not_finite(steps: Sequence[int]) -> str:
    if not steps:
        return ""
    more = " ..." if len(steps) > MOST_NAMED else ""
    return f'<figcaption class="bad">not finite at step {", ".join(map(str, steps[:MOST_NAMED]))}{more}</figcaption>'


def _line(places: Sequence[tuple[float, float]], colour: str) -> str:
    """A curve; of one place, a dot."""
    if len(places) == 1:
        ((x, y),) = places
        return f'<circle r="2.5" fill="{colour}" cx="{x:.1f}" cy="{y:.1f}"/>'
    points = " ".join(f"{x:.1f},{y:.1f}" for x, y in places)
    return f'<polyline class="curve" stroke="{colour}" points="{points}"/>' if places else ""


def _axis(low: float, high: float, start: float, end: float) -> Callable[[float], float]:
    """From numbers to places; of one number, the middle."""
    width = high - low
    return lambda value: start + (end - start) * ((value - low) / width if width else 0.5)


def _frame(low: float, high: float, is_log: bool, up: Callable[[float], float]) -> str:
    """Lines across with their numbers."""
    parts = []
    for n in range(TICKS + 1):
        share = n / TICKS
        value = low * (high / low) ** share if is_log else low + (high - low) * share
        y = up(math.log10(value) if is_log else value)
        parts.append(
            f'<line class="axis" x1="{LEFT}" x2="{WIDTH - 8}" y1="{y:.1f}" y2="{y:.1f}"/>'
            f'<text x="{LEFT - 6}" y="{y + 4:.1f}" text-anchor="end">{value:.3g}</text>'
        )
        if low == high:
            break
    return "".join(parts)


def _step_marks(first: int, last: int, across: Callable[[float], float]) -> str:
    marks = dict.fromkeys((first, (first + last) // 2, last))
    return "".join(
        f'<text x="{across(step):.1f}" y="{HEIGHT - 6}" text-anchor="middle">{step:,}</text>' for step in marks
    )


def _figure(title: str, lines: Sequence[str], note: str = "") -> str:
    return (
        f'<figure><h2>{html.escape(title)}</h2><svg width="{WIDTH}" height="{HEIGHT}" '
        f'viewBox="0 0 {WIDTH} {HEIGHT}" role="img">{"".join(lines)}</svg>{note}</figure>'
    )


# ---- histograms and images


def _histograms(name: str, found: dict[int, dict[str, Any]], colour: str) -> str:
    """Steps across, values up; the darker, the more elements of that step lie there."""
    steps = sorted(found)
    stride = -(-len(steps) // MOST_COLUMNS)
    shown = steps[::-1][::stride][::-1]  # the last one is always there
    low, high = min(found[step]["low"] for step in shown), max(found[step]["high"] for step in shown)
    up = _axis(low, high, HEIGHT - BOTTOM, 12)
    wide = (WIDTH - 8 - LEFT) / len(shown)
    lines = [_frame(low, high, False, up)]
    for place, step in enumerate(shown):
        column = found[step]
        most = max(*column["counts"], 1)
        width = (column["high"] - column["low"]) / len(column["counts"])
        for n, count in enumerate(column["counts"]):
            if not count:
                continue
            top, bottom = up(column["low"] + (n + 1) * width), up(column["low"] + n * width)
            lines.append(
                f'<rect x="{LEFT + place * wide:.1f}" y="{top:.1f}" width="{wide:.1f}" '
                f'height="{max(bottom - top, 1):.1f}" fill="{colour}" fill-opacity="{count / most:.2f}"/>'
            )
    middle = wide / 2
    lines.append(_step_marks(shown[0], shown[-1], _axis(shown[0], shown[-1], LEFT + middle, WIDTH - 8 - middle)))
    left_out = sum(found[step].get("left_out", 0) for step in shown)
    note = f'<figcaption class="bad">{left_out:,} elements are not finite</figcaption>' if left_out else ""
    return _figure(f"{name}, from {low:.3g} to {high:.3g}", lines, note)


def _images(name: str, found: dict[int, str]) -> str:
    """The last images of a name, the newest first."""
    shown = [
        f'<figure><img alt="{html.escape(name)}" src="data:image/png;base64,{html.escape(found[step])}">'
        f"<figcaption>step {step:,}</figcaption></figure>"
        for step in sorted(found)[::-1][:MOST_IMAGES]
    ]
    return f"<figure><h2>{html.escape(name)}</h2>{''.join(shown)}</figure>"
