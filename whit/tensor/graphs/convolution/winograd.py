"""Convolutions of 3 x 3 windows with fewer products: Winograd's algorithm F(m x m, 3 x 3).

    y = A' [(G w G') * (B' d B)] A          for a tile d of m+2 by m+2 elements and m by m results; ' is transposed

The middle is one product for each element of the tile, so that all tiles and channels together are (m+2)^2 matrix
products: m = 2 has 16 products where 36 are written, m = 4 has 36 for 144.

    weights   (out, in, 3, 3)   -> (36, out, in)
    input     (batch, in, h, w) -> (in, 36, tiles)          tiles = batch * ceil(h / 4) * ceil(w / 4)
    products                       (out, 36, tiles)         36 matrix products
    results                     -> (batch, out, h, w)

The matrices follow from m+1 points: products of polynomials are known from their values there and their leading
coefficients. Points come as a and -a, whose polynomials have the same even part and opposite odd parts: the matrices
here have a row (A': a column) for each part, and `folded` makes their sum and difference.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from fractions import Fraction
from functools import cache
from itertools import chain
from math import prod

from whit.ir import ops
from whit.ir.uop import UOp, const

Matrix = tuple[tuple[Fraction, ...], ...]
Pads = Sequence[tuple[int, int]]

# Points besides 0, each with its opposite. For m = 4 the usual 1 and 2 would have four times the error.
POINTS = {2: (Fraction(1),), 4: (Fraction(3, 4), Fraction(3, 2))}


@cache
def matrices(m: int) -> tuple[Matrix, Matrix, Matrix]:
    """A' (m, m+2), G (m+2, 3), B' (m+2, m+2), folded."""
    zero, one, pairs = Fraction(0), Fraction(1), POINTS[m]
    points = (zero, *chain.from_iterable((p, -p) for p in pairs))
    back = []
    for i in range(m):
        powers = chain.from_iterable((zero, p**i) if i % 2 else (p**i, zero) for p in pairs)
        back.append((zero**i, *powers, Fraction(i == m - 1)))
    weights, inputs = [], []
    for p in (zero, *pairs):
        others = tuple(other for other in points if other != p)
        scale = prod((p - other for other in others), start=one)
        weights += _parts(tuple(p**k / scale for k in range(3)), p)
        inputs += _parts((*_coefficients(others), zero), p)
    weights.append((zero, zero, one))
    inputs.append(_coefficients(points))
    return tuple(back), tuple(weights), tuple(inputs)


def _coefficients(roots: Sequence[Fraction]) -> tuple[Fraction, ...]:
    """Of the polynomial with these roots, the constant one first."""
    found = [Fraction(1)]
    for root in roots:
        found = [up - root * same for up, same in zip([Fraction(0), *found], [*found, Fraction(0)], strict=True)]
    return tuple(found)


def _parts(row: tuple[Fraction, ...], point: Fraction) -> list[tuple[Fraction, ...]]:
    """The even and the odd part of a row; the row itself if its point is its own opposite."""
    if point == 0:
        return [row]
    return [tuple(c if k % 2 == parity else Fraction(0) for k, c in enumerate(row)) for parity in (0, 1)]


def folded(values: list[UOp]) -> list[UOp]:
    """a, b, c, ..., z -> a, b + c, b - c, ..., z"""
    found = list(values)
    for i in range(1, len(values) - 1, 2):
        found[i], found[i + 1] = values[i] + values[i + 1], values[i] - values[i + 1]
    return found


def combined(matrix: Matrix, values: Sequence[UOp]) -> list[UOp]:
    """The matrix times a column of values."""
    results = []
    for row in matrix:
        terms = [(factor, value) for factor, value in zip(row, values, strict=True) if factor]
        terms.sort(key=lambda term: term[0] < 0)  # a positive one first: nothing is negated alone
        (first, value), *others = terms
        total = _times(value, first)
        for factor, value in others:
            term = _times(value, abs(factor))
            total = total + term if factor > 0 else total - term
        results.append(total)
    return results


def _times(value: UOp, factor: Fraction) -> UOp:
    return value if factor == 1 else value * const(value.dtype, float(factor))


def both_ways(transform: Callable[[Sequence[UOp]], list[UOp]], square: list[list[UOp]]) -> UOp:
    """The transform of all columns, then of all rows, one after the other on a new first axis."""
    columns = [transform(column) for column in zip(*square, strict=True)]
    rows = [transform(row) for row in zip(*columns, strict=True)]
    return UOp.stack(*chain.from_iterable(rows))


def winograd(x: UOp, w: UOp, m: int, groups: int, padding: Pads, sizes: tuple[int, ...]) -> UOp:
    """(batch, in, h, w) with (out, in / groups, 3, 3) -> (batch, out, *sizes), from tiles of m x m results."""
    batch, outputs, part = x.shape[0], w.shape[0], w.shape[1]
    back, of_weights, of_inputs = matrices(m)
    rows, columns = (-(-size // m) for size in sizes)
    points, tiles = (m + 2) ** 2, batch * rows * columns
    around = _in_blocks(x, m, (rows, columns), padding)
    places = [[_at_place(around, m, (i, j), groups) for j in range(m + 2)] for i in range(m + 2)]
    taps = [[_tap(w, (i, j), groups) for j in range(3)] for i in range(3)]
    seen = both_ways(lambda values: folded(combined(of_inputs, values)), places)
    seen = seen.permute((1, 2, 0, 3, 4, 5)).stage()  # what a tile is made into lies close together
    weights = both_ways(lambda values: folded(combined(of_weights, values)), taps).stage()
    full = (points, groups, outputs // groups, tiles, part)
    left = weights.reshape((*full[:3], 1, part)).expand(full)
    right = seen.reshape((groups, part, points, tiles)).permute((2, 0, 3, 1)).reshape((points, groups, 1, tiles, part))
    products = (left * right.expand(full)).reduce(ops.ADD, (4,)).reshape((points, outputs, tiles))
    products = products.permute((1, 0, 2)).stage()
    values = [_one(products, i).reshape((outputs, batch, rows, columns)) for i in range(points)]
    square = [values[start : start + m + 2] for start in range(0, points, m + 2)]
    found = both_ways(lambda values: combined(back, folded([*values])), square)
    found = found.reshape((m, m, outputs, batch, rows, columns)).permute((3, 2, 4, 0, 5, 1))
    found = found.reshape((batch, outputs, rows * m, columns * m)).stage()
    return found.shrink([(0, n) for n in (batch, outputs, *sizes)]) if (rows * m, columns * m) != sizes else found


def _in_blocks(x: UOp, m: int, tiles: tuple[int, int], padding: Pads) -> UOp:
    """The input with zeros around it, in blocks of m: (batch, in, tiles + 1, m, tiles + 1, m)."""
    axes = zip(x.shape[2:], tiles, padding, strict=True)
    pads = [(before, (count + 1) * m - before - n) for n, count, (before, _) in axes]
    rows, columns = tiles
    return x.pad([(0, 0), (0, 0), *pads]).stage().reshape((*x.shape[:2], rows + 1, m, columns + 1, m))


def _at_place(around: UOp, m: int, place: tuple[int, int], groups: int) -> UOp:
    """The element at one place of all tiles, which reach two into the next blocks: (groups, in, batch, *tiles)."""
    batch, inputs, rows, _, columns, _ = around.shape
    (down, i), (right, j) = (divmod(p, m) for p in place)
    cut = [(0, batch), (0, inputs), (down, rows - 1), (i, 1), (right, columns - 1), (j, 1)]
    found = around.shrink(cut).permute((1, 0, 2, 4, 3, 5))
    return found.reshape((groups, inputs // groups, batch, rows - 1, columns - 1))


def _tap(w: UOp, place: tuple[int, int], groups: int) -> UOp:
    """One element of all windows: (groups, out, in)."""
    outputs, inputs = w.shape[:2]
    i, j = place
    return w.shrink([(0, outputs), (0, inputs), (i, 1), (j, 1)]).reshape((groups, outputs // groups, inputs))


def _one(products: UOp, i: int) -> UOp:
    """Those of one element of the tiles: (out, tiles)."""
    outputs, _, tiles = products.shape
    return products.shrink([(0, outputs), (i, 1), (0, tiles)]).reshape((outputs, tiles))
