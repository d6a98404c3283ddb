"""Values as pictures: images where a shape looks like one, else heat maps, histograms; as HTML, and for terminals.

    (H, W) of uint8 or bool, (H, W, 1 3 4), (1 3 4, H, W), (N, 1 3, H, W)     the image, several side by side
    other two axes or more                                                    a heat map: red below 0, blue above
    one axis                                                                  a histogram

All of this is given arrays: what is read of a tensor, and how much, is decided in `display`.
"""

from __future__ import annotations

import base64
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from whit.png import png_of

if TYPE_CHECKING:
    import numpy.typing as npt

    Array = npt.NDArray[Any]
    Bytes = npt.NDArray[Any]

LEAST_IMAGE = 8  # pixels on a side, of what counts as an image
MOST_PIXELS = 256  # on a side of a picture: more is sampled
MOST_IMAGES = 16  # of a batch
COLUMNS = 8  # of a batch
SHOWN_PIXELS = 160  # how large small pictures are drawn
BINS = 32
NEGATIVE, POSITIVE, MISSING = (178, 24, 43), (33, 102, 172), (255, 210, 60)  # at the ends; NaN
SHADES = " ░▒▓█"
BARS = "▁▂▃▄▅▆▇█"


class Layout(NamedTuple):
    """How an image lies in a tensor: its axes, and whether there are several."""

    height: int
    width: int
    channels: int | None  # the axis; None: there is none
    batch: int | None


def layout_of(shape: Sequence[int], is_byte: bool) -> Layout | None:
    """The image that a shape looks like, if it does. `is_byte`: of dtypes that images without channels have."""
    if len(shape) == 2:
        return Layout(0, 1, None, None) if is_byte and min(shape) >= LEAST_IMAGE else None
    if len(shape) == 3 and shape[2] in (1, 3, 4) and min(shape[:2]) >= LEAST_IMAGE:
        return Layout(0, 1, 2, None)
    if len(shape) == 3 and shape[0] in (1, 3, 4) and min(shape[1:]) >= LEAST_IMAGE:
        return Layout(1, 2, 0, None)
    if len(shape) == 4 and shape[1] in (1, 3) and shape[0] and min(shape[2:]) >= LEAST_IMAGE:
        return Layout(2, 3, 1, 0)
    return None


def positions(shape: Sequence[int]) -> list[list[int]]:
    """Which places of each axis a picture is made of."""
    found = layout_of(shape, is_byte=True)
    if found is not None and found.channels is not None:
        most = {found.height: MOST_PIXELS, found.width: MOST_PIXELS, found.batch: MOST_IMAGES}
        if found.batch is not None:
            most |= {found.height: MOST_PIXELS // 4, found.width: MOST_PIXELS // 4}
        return [spread(size, most.get(axis, size)) for axis, size in enumerate(shape)]
    if len(shape) <= 1:
        return [spread(size, MOST_PIXELS**2) for size in shape]
    places = [spread(size, MOST_PIXELS) for size in shape]
    rows = 1
    for axis in range(len(shape) - 2, -1, -1):  # axes in front become rows, as many as there is room for
        places[axis] = spread(shape[axis], max(MOST_PIXELS // max(rows, 1), 1))
        rows *= max(len(places[axis]), 1)
    return places


def spread(size: int, most: int) -> list[int]:
    """So many places of an axis, evenly."""
    return list(range(size)) if size <= most else [place * size // most for place in range(most)]


# ---- pixels


def pixels_of(array: Array) -> Bytes | None:
    """Rows of pixels with their channels; None where there is nothing to draw."""
    import numpy as np  # lazy: `import whit` must not load it

    if array.ndim < 2 or not array.size:
        return None
    found = layout_of(array.shape, array.dtype.kind == "b" or array.dtype == np.uint8)
    if found is not None and _is_light(array):
        return _image(array, found)
    return heat_map(array.reshape(-1, array.shape[-1]))


def _is_light(array: Array) -> bool:
    """Whether values are those of pixels: bytes, or between 0 and 1."""
    import numpy as np  # lazy: as above

    if array.dtype.kind == "b" or array.dtype == np.uint8:
        return True
    return bool(array.dtype.kind == "f" and (array >= 0).all() and (array <= 1).all())


def _image(array: Array, found: Layout) -> Bytes:
    import numpy as np  # lazy: as above

    light = array if array.dtype == np.uint8 else (array.astype(np.float32) * 255 + 0.5).astype(np.uint8)
    axes = [axis for axis in (found.batch, found.height, found.width, found.channels) if axis is not None]
    light = light.transpose(axes)
    if found.channels is None:
        light = light[..., None]
    if found.batch is None:
        return light
    count, height, width, channels = light.shape
    columns = min(count, COLUMNS)
    rows = -(-count // columns)
    sheet = np.full((rows * (height + 1) - 1, columns * (width + 1) - 1, channels), 255, np.uint8)
    for number in range(count):
        top, left = number // columns * (height + 1), number % columns * (width + 1)
        sheet[top : top + height, left : left + width] = light[number]
    return sheet


def heat_map(array: Array) -> Bytes:
    """Numbers as colours: white is 0, or the smallest where all are on one side of it; yellow is NaN."""
    import numpy as np  # lazy: as above

    values = np.asarray(array, np.float64)
    low, high = span(values)
    if low >= 0 or high <= 0:
        distance = (values - low) if low >= 0 else (values - high)
        scale = max(high - low, 0.0)
    else:
        distance, scale = values, max(-low, high)
    with np.errstate(invalid="ignore", over="ignore"):
        share = np.clip(distance / (scale or 1.0), -1, 1)
    strength = np.nan_to_num(np.abs(share), nan=0.0)[..., None]
    ends = np.where((share < 0)[..., None], np.array(NEGATIVE, np.float64), np.array(POSITIVE, np.float64))
    pixels = 255 + (ends - 255) * strength
    pixels[np.isnan(values)] = MISSING
    found: Bytes = (pixels + 0.5).astype(np.uint8)
    return found


def span(values: Array) -> tuple[float, float]:
    """The least and the largest number that is finite; 0 and 0 where none is."""
    import numpy as np  # lazy: as above

    finite = values[np.isfinite(values)]
    return (float(finite.min()), float(finite.max())) if finite.size else (0.0, 0.0)


def counts_of(array: Array) -> tuple[list[int], float, float]:
    """A histogram of what is finite: how many in each of equal parts, and its ends."""
    import numpy as np  # lazy: as above

    values = np.asarray(array, np.float64).reshape(-1)
    low, high = span(values)
    finite = values[np.isfinite(values)]
    if not finite.size:
        return [], low, high
    with np.errstate(over="ignore"):
        share = (finite / 2 - low / 2) / max(high / 2 - low / 2, 1e-300)
    counts = np.bincount(np.minimum((share * BINS).astype(np.int64), BINS - 1), minlength=BINS)
    return counts.tolist(), low, high


# ---- as text


def png(pixels: Bytes) -> bytes:
    """A file."""
    height, width, channels = pixels.shape
    return png_of(pixels.tobytes(), height, width, channels)


def image_tag(pixels: Bytes) -> str:
    """An element for HTML, small pictures enlarged."""
    height, width, _ = pixels.shape
    scale = max(1, SHOWN_PIXELS // max(height, width, 1))
    data = base64.b64encode(png(pixels)).decode()
    size = f"width={width * scale} height={height * scale}"
    return f'<img {size} style="image-rendering:pixelated" alt="" src="data:image/png;base64,{data}">'


def histogram_tag(array: Array) -> str:
    """A histogram for HTML."""
    counts, low, high = counts_of(array)
    if not counts:
        return ""
    most, wide, tall = max(counts), 8, 60
    bars = "".join(
        f'<rect x="{place * wide}" y="{tall - tall * count / most:.1f}" width="{wide - 1}" '
        f'height="{tall * count / most:.1f}" fill="#2166ac"/>'
        for place, count in enumerate(counts)
        if count
    )
    words = f'<text y="{tall + 12}">{low:.4g}</text>'
    words += f'<text x="{wide * BINS}" y="{tall + 12}" text-anchor="end">{high:.4g}</text>'
    style = 'font-size="10" fill="currentColor"'
    return f'<svg width="{wide * BINS}" height="{tall + 16}" {style}>{bars}{words}</svg>'


def blocks(array: Array, columns: int, is_coloured: bool) -> str:
    """A picture or a histogram as lines of text."""
    if array.ndim < 2:
        return _bars(array)
    pixels = pixels_of(array)
    if pixels is None:
        return ""
    height, width, channels = pixels.shape
    step = max(1.0, width / max(columns, 1), height / (columns if is_coloured else columns / 2))
    across = [int(place * step) for place in range(max(int(width / step), 1))]
    down = [int(place * step) for place in range(max(int(height / step), 1))]
    small = pixels[down][:, across][..., : 3 if channels > 2 else 1]
    small = small.repeat(3, axis=2) if small.shape[2] == 1 else small
    return _coloured(small) if is_coloured else _shaded(small)


def _coloured(pixels: Bytes) -> str:
    """Two rows of pixels in a line: the upper one is the colour of the letter, the lower one that behind it."""
    lines = []
    for top in range(0, len(pixels), 2):
        cells = []
        for place, upper in enumerate(pixels[top].tolist()):
            lower = pixels[top + 1][place].tolist() if top + 1 < len(pixels) else None
            behind = "\033[49m" if lower is None else f"\033[48;2;{lower[0]};{lower[1]};{lower[2]}m"
            cells.append(f"\033[38;2;{upper[0]};{upper[1]};{upper[2]}m{behind}▀")
        lines.append(f"{''.join(cells)}\033[0m")
    return "\n".join(lines)


def _shaded(pixels: Bytes) -> str:
    """Two letters a pixel, the fuller the darker."""
    dark = 255 - pixels.astype(int).sum(axis=2) // 3
    return "\n".join("".join(SHADES[value * len(SHADES) // 256] * 2 for value in row) for row in dark.tolist())


def _bars(array: Array) -> str:
    counts, low, high = counts_of(array)
    if not counts:
        return ""
    most = max(counts)
    bars = "".join(BARS[min(count * len(BARS) // most, len(BARS) - 1)] if count else " " for count in counts)
    return f"{low:.4g} {bars} {high:.4g}"
