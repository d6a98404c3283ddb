"""How a tensor is shown, as text and in notebooks: what is in memory as NumPy shows it, what is lazy as such.

    Tensor([[1., 2.],
            [3., 4.]], shape=(2, 2), dtype=float32, device=CPU)
    <Tensor (2, 2) float32 on CPU, lazy: mul>

Nothing is computed. `numpy.set_printoptions` says how many elements there are, and it or PRINT_DIGITS how many digits;
what is left out is not read. Notebooks, and `Tensor.show`, have the least, the mean and the largest besides, and a
picture (`pictures`): of large tensors those of a sample.
"""

from __future__ import annotations

import importlib
import sys
from math import prod
from typing import TYPE_CHECKING, Any, BinaryIO

from whit.config import PRINT_DIGITS
from whit.engine.memory.placeholder import is_placeholder
from whit.engine.programs.overlay import current
from whit.errors import ArgumentError, FileError, ShapeError, WhitError
from whit.ir import ops
from whit.ir.op import spell_shape
from whit.ir.placeholder import is_stand_in
from whit.ir.sizes import value_now
from whit.tensor.core import Core, without_views
from whit.tensor.engine import peek
from whit.tensor.place import what_made

if TYPE_CHECKING:
    import numpy.typing as npt

    Array = npt.NDArray[Any]

MOST_ELEMENTS_READ = 20_000  # elements that are read for what is left out to be seen: fewer at each end of many axes
MOST_CELLS = 64  # elements that are listed beside a picture
SMALLEST_PICTURE = 8  # elements
DECIMAL_DIGITS = 4  # after the point, of floats of 8 bits and bfloat16, which NumPy does not know


def text_of(tensor: Core) -> str:
    """What `repr` gives."""
    found = _corners(tensor)
    if found is None:
        return f"<{_title(tensor)}, {_state(tensor)}>"
    values = _spell(*found, prefix="Tensor(")
    return f"Tensor({values}, shape={spell_shape(tensor.shape)}, dtype={tensor.dtype.name}, device={tensor.device})"


def html_of(tensor: Core) -> str:
    """What notebooks show: facts, a picture, and a table of few elements of one or two axes, the text of others."""
    found = _corners(tensor)
    if found is None:
        return f"<code>{escape(_title(tensor))}, {escape(_state(tensor))}</code>"
    array, ends = found
    parts = [f"<code>{escape(_title(tensor))}</code>"]
    seen = _seen(tensor) if array.size > 1 else None
    picture = ""
    if seen is not None:
        parts.append(f"<div><small>{escape(_facts(tensor, *seen))}</small></div>")
        picture = _picture(seen[0])
        parts.append(f"<div>{picture}</div>" if picture else "")
    if array.ndim in (1, 2) and array.size:
        values = f"<table>{''.join(_rows(array.reshape(-1, array.shape[-1]), ends))}</table>"
    else:
        values = f"<pre>{escape(_spell(array, ends))}</pre>"
    is_long = picture and array.size > MOST_CELLS
    parts.append(f"<details><summary>values</summary>{values}</details>" if is_long else values)
    return "".join(parts)


def show(tensor: Core, path: str | None, columns: int = 64) -> None:
    """Draws a tensor whose values are in memory: into a file, a notebook, or the terminal."""
    if path is not None:
        _write(tensor, path)
        return
    if (shell := _notebook()) is not None:
        shell.display(shell.HTML(html_of(tensor)))
        return
    seen = _seen(tensor)
    if seen is None or seen[0].size <= SMALLEST_PICTURE:
        print(text_of(tensor))
        return
    drawn = _module().blocks(seen[0], columns, sys.stdout.isatty())
    print("\n".join(filter(None, (f"{_title(tensor)}, {_facts(tensor, *seen)}", drawn))))


def _write(tensor: Core, path: str) -> None:
    """A file of a kind that its name says."""
    if path.endswith(".html"):
        data = f"<!doctype html><meta charset=utf-8>{html_of(tensor)}\n".encode()
    elif path.endswith(".png"):
        seen = _seen(tensor)
        pixels = None if seen is None else _module().pixels_of(seen[0][None] if seen[0].ndim == 1 else seen[0])
        if pixels is None:
            raise ShapeError(
                f"show: a tensor of shape {spell_shape(tensor.shape)} is no picture",
                tensor._made(),
                "Pictures have elements, and at least one axis.",
            )
        data = _module().png(pixels)
    else:
        raise ArgumentError(f"show: {path!r} has no kind that is known", fix='Files are "name.png" or "name.html".')
    with open_file(path) as file:
        file.write(data)


def open_file(path: str) -> BinaryIO:
    """A file to write, or an error that says why not."""
    try:
        return open(path, "wb")
    except OSError as error:
        raise FileError(f"show: {path} cannot be written", str(error), "Name a file in a folder that exists.") from None


def _notebook() -> Any:
    """What shows HTML, in a notebook."""
    module = sys.modules.get("IPython")
    shell = None if module is None else module.get_ipython()
    return sys.modules.get("IPython.display") if shell is not None and "IPKernelApp" in shell.config else None


def _seen(tensor: Core) -> tuple[Array, bool] | None:
    """The elements of which facts and pictures are made, and whether they are a sample; None where there are none."""
    import numpy as np  # lazy: `import whit` must not load it

    sizes = [value_now(size) for size in tensor.shape]
    known = [size for size in sizes if size is not None]
    if len(known) != len(sizes) or not prod(known):
        return None
    places = _module().positions(known)
    try:
        array = peek(tensor.uop, places)
    except WhitError:
        return None
    if array is None:
        return None
    array = array if array.dtype.kind in "biufc" else array.astype(np.float32)
    array = np.abs(array) if array.dtype.kind == "c" else array
    return array, [*map(len, places)] != known


def _facts(tensor: Core, array: Array, is_sample: bool) -> str:
    """The least, the mean and the largest, and what is no number; of complex ones those of their absolute values."""
    import numpy as np  # lazy: as above

    if array.dtype.kind == "b":
        return f"{100 * array.mean():.4g} % true{' of a sample' if is_sample else ''}"
    values = array.astype(np.float64)
    finite = values[np.isfinite(values)]
    parts = []
    if finite.size:
        with np.errstate(over="ignore", invalid="ignore"):
            parts = [f"min {finite.min():.4g}", f"mean {finite.mean():.4g}", f"max {finite.max():.4g}"]
    for name, count in (("NaN", int(np.isnan(values).sum())), ("infinite", int(np.isinf(values).sum()))):
        parts += [f"{count:,} {name}"] if count else []
    whose = "absolute values: " if tensor.dtype.name.startswith("complex") else ""
    return whose + ", ".join(parts) + (" of a sample" if is_sample else "")


def _picture(array: Array) -> str:
    pictures = _module()
    if array.ndim < 2:
        return str(pictures.histogram_tag(array)) if array.size > MOST_CELLS else ""
    pixels = pictures.pixels_of(array) if array.size > SMALLEST_PICTURE else None
    return "" if pixels is None else str(pictures.image_tag(pixels))


def _module() -> Any:
    """How pictures are made; a program that shows none does not load it."""
    return importlib.import_module("whit.tensor.pictures")  # lazy: the same


def _title(tensor: Core) -> str:
    return f"Tensor {spell_shape(tensor.shape)} {tensor.dtype.name} on {tensor.device}"


def _state(tensor: Core) -> str:
    """Why there are no values."""
    node = without_views(tensor.uop)
    if node.op is not ops.BUFFER:
        what = what_made(getattr(tensor.uop, "made", None) or tensor._place)
        return f"lazy: {what}" if what else "lazy"
    if is_stand_in(node):
        return "one of many"
    if is_placeholder(node) and current() is not None:
        return "captured"
    return "no data" if tensor.device.startswith("NULL") else "memory is gone"


def _corners(tensor: Core) -> tuple[Array, int] | None:
    """The elements to show, and how many there are at each end of an axis of which some are left out, 0 for all; one
    that is not shown stands in the middle then. None where they are not in memory."""
    sizes = [value_now(size) for size in tensor.shape]
    known = [size for size in sizes if size is not None]
    if len(known) != len(sizes):
        return None
    shown, ends = _positions(known)
    try:
        array = peek(tensor.uop, shown)
    except WhitError:  # a file that was cut off, a GPU that has failed: who looks around gets no second error
        return None
    return None if array is None else (array, ends)


def _positions(sizes: list[int]) -> tuple[list[list[int]], int]:
    import numpy as np  # lazy: `import whit` must not load it

    options = np.get_printoptions()
    if prod(sizes) <= options["threshold"]:
        return [list(range(size)) for size in sizes], 0
    ends = max(options["edgeitems"], 1)
    while ends > 1 and (2 * ends + 1) ** len(sizes) > MOST_ELEMENTS_READ:
        ends -= 1
    return [
        [*range(ends + 1), *range(size - ends, size)] if size > 2 * ends else list(range(size)) for size in sizes
    ], ends


def _spell(array: Array, ends: int, prefix: str = "") -> str:
    import numpy as np  # lazy: as above

    precision = min(np.get_printoptions()["precision"], PRINT_DIGITS.value)
    if array.dtype.kind not in "biufc":
        array, precision = array.astype(np.float32), min(precision, DECIMAL_DIGITS)
    limits: dict[str, Any] = {"threshold": 0, "edgeitems": ends} if ends else {"threshold": array.size}
    return np.array2string(array, separator=", ", prefix=prefix, precision=precision, **limits)


def escape(text: str) -> str:
    """Text in HTML."""
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")


def _rows(array: Array, ends: int) -> list[str]:
    """The rows of a table; dots for what is left out."""
    flat = _spell(array.reshape(-1), 0).strip("[]").replace("\n", "")
    cells = [escape(cell.strip()) for cell in flat.split(",")]
    width = array.shape[-1]
    rows = [cells[start : start + width] for start in range(0, len(cells), width)]
    if ends and width > 2 * ends:
        rows = [[*row[:ends], "…", *row[ends + 1 :]] for row in rows]
    if ends and len(rows) > 2 * ends:
        rows[ends] = ["…"] * len(rows[0])
    return [f"<tr>{''.join(f'<td>{cell}</td>' for cell in row)}</tr>" for row in rows]
