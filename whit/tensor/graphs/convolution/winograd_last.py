"""Winograd's algorithm for images that lie with channels last, and weights that do not change (`winograd.py`).

    weights   (out, in, 3, 3)   -> (36, in, out)          once, by whoever captures the program
    input     (batch, h, w, in) -> (36, tiles, in)
    products                       (36, tiles, out)       36 matrix products, whose rows are tiles
    results                     -> (batch, h, w, out)

All transforms are of vectors of channels: what is loaded and stored lies side by side.
"""

from __future__ import annotations

from whit.ir import ops
from whit.ir.uop import UOp
from whit.tensor.graphs.convolution.winograd import Pads, both_ways, combined, folded, matrices


def winograd_last(last: UOp, w: UOp, m: int, padding: Pads, sizes: tuple[int, ...]) -> UOp:
    """(batch, h, w, in) with (out, in, 3, 3) -> (batch, *sizes, out), from tiles of m x m results."""
    batch, inputs, outputs = last.shape[0], w.shape[1], w.shape[0]
    back, of_weights, of_inputs = matrices(m)
    rows, columns = (-(-size // m) for size in sizes)
    points, tiles = (m + 2) ** 2, batch * rows * columns
    around = _in_blocks(last, m, (rows, columns), padding)
    places = [[_at_place(around, m, (i, j)) for j in range(m + 2)] for i in range(m + 2)]
    taps = [[_tap(w, (i, j)) for j in range(3)] for i in range(3)]
    seen = both_ways(lambda values: folded(combined(of_inputs, values)), places).stage()
    weights = both_ways(lambda values: folded(combined(of_weights, values)), taps).stage()
    full = (points, tiles, outputs, inputs)
    left = seen.reshape((points, tiles, 1, inputs)).expand(full)
    right = weights.permute((0, 2, 1)).reshape((points, 1, outputs, inputs)).expand(full)
    products = (left * right).reduce(ops.ADD, (3,)).stage()
    values = [_one(products, i).reshape((batch, rows, columns, outputs)) for i in range(points)]
    square = [values[start : start + m + 2] for start in range(0, points, m + 2)]
    found = both_ways(lambda values: combined(back, folded([*values])), square)
    found = found.reshape((m, m, batch, rows, columns, outputs)).permute((2, 3, 0, 4, 1, 5))
    found = found.reshape((batch, rows * m, columns * m, outputs)).stage()
    return found.shrink([(0, n) for n in (batch, *sizes, outputs)]) if (rows * m, columns * m) != sizes else found


def _in_blocks(last: UOp, m: int, tiles: tuple[int, int], padding: Pads) -> UOp:
    """The input with zeros around it, in blocks of m: (batch, tiles + 1, m, tiles + 1, m, in)."""
    axes = zip(last.shape[1:3], tiles, padding, strict=True)
    pads = [(before, (count + 1) * m - before - n) for n, count, (before, _) in axes]
    rows, columns = tiles
    around = last.pad([(0, 0), *pads, (0, 0)]).stage()
    return around.reshape((last.shape[0], rows + 1, m, columns + 1, m, last.shape[3]))


def _at_place(around: UOp, m: int, place: tuple[int, int]) -> UOp:
    """The element at one place of all tiles, which reach two into the next blocks: (tiles, in)."""
    batch, rows, _, columns, _, inputs = around.shape
    (down, i), (right, j) = (divmod(p, m) for p in place)
    cut = [(0, batch), (down, rows - 1), (i, 1), (right, columns - 1), (j, 1), (0, inputs)]
    return around.shrink(cut).reshape((batch * (rows - 1) * (columns - 1), inputs))


def _tap(w: UOp, place: tuple[int, int]) -> UOp:
    """One element of all windows: (in, out)."""
    outputs, inputs = w.shape[:2]
    i, j = place
    return w.shrink([(0, outputs), (0, inputs), (i, 1), (j, 1)]).reshape((outputs, inputs)).permute((1, 0))


def _one(products: UOp, i: int) -> UOp:
    """Those of one element of the tiles: (tiles, out)."""
    _, tiles, outputs = products.shape
    return products.shrink([(i, 1), (0, tiles), (0, outputs)]).reshape((tiles, outputs))
