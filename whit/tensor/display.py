"""How a tensor is shown, as text and in notebooks: what is in memory as NumPy shows it, what is lazy as such.

    Tensor([[1., 2.],
            [3., 4.]], shape=(2, 2), dtype=float32, device=CPU)
    <Tensor (2, 2) float32 on CPU, lazy>

Nothing is computed. `numpy.set_printoptions` says how many digits and elements there are. What is left out is not read.
"""

from __future__ import annotations

from math import prod
from typing import TYPE_CHECKING, Any

from whit.engine.memory.placeholder import is_placeholder
from whit.engine.programs.overlay import current
from whit.errors import WhitError
from whit.ir import ops
from whit.ir.op import spell_shape
from whit.ir.placeholder import is_stand_in
from whit.ir.sizes import value_now
from whit.tensor.core import Core, without_views
from whit.tensor.engine import peek

if TYPE_CHECKING:
    import numpy.typing as npt

    Array = npt.NDArray[Any]

MOST_ELEMENTS_READ = 20_000  # elements that are read for what is left out to be seen: fewer at each end of many axes
DECIMAL_DIGITS = 4  # after the point, of floats of 8 bits and bfloat16, which NumPy does not know


def text_of(tensor: Core) -> str:
    """What `repr` gives."""
    found = _corners(tensor)
    if found is None:
        return f"<{_title(tensor)}, {_state(tensor)}>"
    values = _spell(*found, prefix="Tensor(")
    return f"Tensor({values}, shape={spell_shape(tensor.shape)}, dtype={tensor.dtype.name}, device={tensor.device})"


def html_of(tensor: Core) -> str:
    """What notebooks show: a table of one or two axes, the text of more."""
    found = _corners(tensor)
    if found is None:
        return f"<code>{_escaped(_title(tensor))}, {_state(tensor)}</code>"
    array, ends = found
    title = f"<code>{_escaped(_title(tensor))}</code>"
    if array.ndim not in (1, 2) or not array.size:
        return f"{title}<pre>{_escaped(_spell(array, ends))}</pre>"
    return f"{title}<table>{''.join(_rows(array.reshape(-1, array.shape[-1]), ends))}</table>"


def _title(tensor: Core) -> str:
    return f"Tensor {spell_shape(tensor.shape)} {tensor.dtype.name} on {tensor.device}"


def _state(tensor: Core) -> str:
    """Why there are no values."""
    node = without_views(tensor.uop)
    if node.op is not ops.BUFFER:
        return "lazy"
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

    precision = np.get_printoptions()["precision"]
    if array.dtype.kind not in "biufc":
        array, precision = array.astype(np.float32), min(precision, DECIMAL_DIGITS)
    limits: dict[str, Any] = {"threshold": 0, "edgeitems": ends} if ends else {"threshold": array.size}
    return np.array2string(array, separator=", ", prefix=prefix, precision=precision, **limits)


def _escaped(text: str) -> str:
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")


def _rows(array: Array, ends: int) -> list[str]:
    """The rows of a table; dots for what is left out."""
    flat = _spell(array.reshape(-1), 0).strip("[]").replace("\n", "")
    cells = [_escaped(cell.strip()) for cell in flat.split(",")]
    width = array.shape[-1]
    rows = [cells[start : start + width] for start in range(0, len(cells), width)]
    if ends and width > 2 * ends:
        rows = [[*row[:ends], "…", *row[ends + 1 :]] for row in rows]
    if ends and len(rows) > 2 * ends:
        rows[ends] = ["…"] * len(rows[0])
    return [f"<tr>{''.join(f'<td>{cell}</td>' for cell in row)}</tr>" for row in rows]
