"""A picture of whit beside PyTorch, out of what the other benchmarks print with --json.

    python bench/cpu.py --json > cpu.json; python bench/forward.py --json > forward.json
    python bench/plot.py cpu.json forward.json -o docs/pictures/performance.svg

One bar for each work, named after its file: the time of the fastest other contestant over whit's. Right of the line
whit is faster. The axis is logarithmic, so twice as fast is as far from the line as half as fast.
"""

from __future__ import annotations

import argparse
import json
from html import escape
from math import exp, log
from pathlib import Path

OURS = ("jit", "whit")  # the first that there is
OTHERS = ("torch", "compile")
ROW, TOP, LEFT, WIDTH = 22, 46, 320, 560
LEAST, MOST = 0.25, 16.0
TICKS = (0.25, 0.5, 1.0, 2.0, 4.0, 8.0, 16.0)


def ratios(results: dict[str, dict[str, float]]) -> dict[str, float]:
    """By work, how many times faster whit is than the fastest other."""
    found = {}
    for name, times in results.items():
        ours = [times[key] for key in OURS if key in times]
        others = [times[key] for key in OTHERS if times.get(key)]
        if ours and others:
            found[name] = min(others) / ours[0]
    return found


def place(ratio: float) -> float:
    """Where a ratio is on the axis."""
    inside = min(max(ratio, LEAST), MOST)
    return LEFT + WIDTH * log(inside / LEAST) / log(MOST / LEAST)


def picture(found: dict[str, float], title: str) -> str:
    """An SVG, readable on light and dark pages."""
    height = TOP + ROW * len(found) + 34
    mean = exp(sum(log(ratio) for ratio in found.values()) / max(len(found), 1))
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {LEFT + WIDTH + 70} {height}" font-size="13" '
        'font-family="system-ui, sans-serif">',
        f'<rect width="100%" height="100%" fill="#ffffff"/><text x="16" y="26" font-size="16">{escape(title)}</text>',
    ]
    for tick in TICKS:
        x, is_one = place(tick), tick == 1
        colour, wide = ("#333333", 2) if is_one else ("#dddddd", 1)
        parts.append(
            f'<line x1="{x:.1f}" x2="{x:.1f}" y1="{TOP - 6}" y2="{height - 28}" stroke="{colour}" '
            f'stroke-width="{wide}"/>'
        )
        parts.append(f'<text x="{x:.1f}" y="{height - 12}" text-anchor="middle" fill="#555555">{tick:g}x</text>')
    for row, (name, ratio) in enumerate(found.items()):
        y, start, end = TOP + ROW * row, *sorted((place(1), place(ratio)))
        colour = "#2f7d5b" if ratio >= 1 else "#b5543c"
        beside = f'x="{end + 6:.1f}"' if ratio >= 1 else f'x="{start - 6:.1f}" text-anchor="end"'
        parts.append(f'<text x="{LEFT - 70}" y="{y + 14}" text-anchor="end">{escape(name)}</text>')
        parts.append(
            f'<rect x="{start:.1f}" y="{y + 3}" width="{max(end - start, 1):.1f}" height="{ROW - 7}" fill="{colour}"/>'
        )
        parts.append(f'<text {beside} y="{y + 14}" fill="#333333">{ratio:.2f}</text>')
    parts.append(f'<text x="16" y="{height - 12}" fill="#555555">geometric mean {mean:.2f}x</text></svg>')
    return "\n".join(parts)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("files", nargs="+", type=Path)
    parser.add_argument("-o", "--output", type=Path, default=Path("build/performance.svg"))
    parser.add_argument("--title", default="Speed against PyTorch, the faster of eager and compiled")
    options = parser.parse_args()
    found: dict[str, float] = {}
    for file in options.files:
        found |= {f"{file.stem}: {name}": ratio for name, ratio in ratios(json.loads(file.read_text())).items()}
    if not found:
        raise SystemExit("no work in these files has times of whit and of another")
    options.output.parent.mkdir(parents=True, exist_ok=True)
    options.output.write_text(picture(found, options.title) + "\n")
    print(f"wrote {options.output}: {len(found)} works")


if __name__ == "__main__":
    main()
