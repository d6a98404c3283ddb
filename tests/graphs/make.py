"""Writes the corpus again: index arithmetic of typical kernels, the golden cases, and random graphs.

    python tests/graphs/make.py

A file holds several graphs in text form, an empty line between them.
"""

from __future__ import annotations

import random
import sys
from collections.abc import Sequence
from pathlib import Path

FOLDER = Path(__file__).parent
sys.path.insert(0, str(FOLDER.parent))

from simplify.generate import random_condition, random_index  # noqa: E402
from simplify.golden import CASES, read  # noqa: E402

from whit.dtype import dtypes  # noqa: E402
from whit.ir.text.write import to_text  # noqa: E402
from whit.ir.uop import UOp, const  # noqa: E402

Position = list[UOp]
Named = list[tuple[str, UOp]]


def zero() -> UOp:
    return const(dtypes.weakint, 0)


def ranges(*sizes: int | UOp) -> Position:
    return [UOp.range(size, i) for i, size in enumerate(sizes)]


def flat(position: Position, shape: Sequence[int | UOp]) -> UOp:
    """The place in row-major order, without any shortcut: what a pass builds, not what a person writes."""
    place = zero()
    for p, size in zip(position, shape, strict=True):
        place = place * size + p
    return place


def unflat(place: UOp, shape: Sequence[int | UOp]) -> Position:
    """The position on each axis of a place in row-major order."""
    position: Position = []
    for size in reversed(shape):
        position.append(place % size)
        place = place // size
    return position[::-1]


def reshaped(position: Position, new: Sequence[int], old: Sequence[int]) -> Position:
    """Where an element of the reshaped array is in the old one."""
    return unflat(flat(position, new), old)


def padded(position: UOp, before: int, size: int) -> tuple[UOp, UOp]:
    """Position in an axis without its padding, and whether it is inside."""
    inner = position - before
    return inner, (inner >= 0) & (inner < size)


def reshapes() -> Named:
    pairs = [
        ((4, 6), (24,)),
        ((24,), (4, 6)),
        ((4, 6), (6, 4)),
        ((2, 3, 4), (6, 4)),
        ((2, 3, 4), (2, 12)),
        ((6, 4), (2, 3, 4)),
        ((8, 16, 4), (32, 16)),
        ((1, 7, 1), (7,)),
        ((3, 5, 7), (7, 5, 3)),
        ((128, 64), (16, 8, 8, 8)),
        ((16, 8, 8, 8), (128, 64)),
        ((12, 10), (4, 30)),
    ]
    found: Named = []
    for new, old in pairs:
        position = reshaped(ranges(*new), new, old)
        found.append((f"reshape {old} to {new}", flat(position, old)))
        found += [(f"reshape {old} to {new}, axis {i}", p) for i, p in enumerate(position)]
    back = reshaped(reshaped(ranges(8, 8), (8, 8), (4, 16)), (4, 16), (2, 32))
    found.append(("reshape twice", flat(back, (2, 32))))
    turned = reshaped(ranges(6, 4), (6, 4), (4, 6))[::-1]
    found.append(("reshape, then transpose", flat(turned, (6, 4))))
    return found


def matmuls() -> Named:
    found: Named = []
    for m, n, k in ((16, 16, 16), (128, 64, 32), (7, 5, 3)):
        i, j, r = ranges(m, n, k)
        found += [(f"matmul {m}x{n}x{k}, left", i * k + r), (f"matmul {m}x{n}x{k}, right", r * n + j)]
        tile = flat([i // 4, j // 4, i % 4, j % 4], (m // 4 or 1, n // 4 or 1, 4, 4))
        found.append((f"matmul {m}x{n}x{k}, tiled result", tile))
        back = unflat(flat([i // 4, i % 4], (m // 4 or 1, 4)), (m,))
        found.append((f"matmul {m}x{n}x{k}, tiled and back", flat(back, (m,))))
    size = UOp.variable("n", 1, 4096)
    i, j = ranges(size, size)
    found += [("matmul of symbolic size", i * size + j), ("row of a symbolic matrix", (i * size + j) // size)]
    split = UOp.range(8, 0) * 32 + UOp.range(32, 1)
    found += [("split range", split), ("outer half", split // 32), ("inner half", split % 32)]
    found += [("a split range is inside", split < 256), ("and maybe inside", split < 250)]
    return found


def convolutions() -> Named:
    found: Named = []
    for channels, size, kernel, stride, pad in ((3, 8, 3, 1, 1), (4, 9, 3, 2, 0), (2, 16, 5, 2, 2), (8, 7, 1, 1, 0)):
        out = (size + 2 * pad - kernel) // stride + 1
        b, c, oy, ox, ky, kx = ranges(2, channels, out, out, kernel, kernel)
        y, y_inside = padded(oy * stride + ky, pad, size)
        x, x_inside = padded(ox * stride + kx, pad, size)
        name = f"convolution {channels}x{size}x{size}, kernel {kernel}, stride {stride}, pad {pad}"
        place = flat([b, c, y, x], (2, channels, size, size))
        found += [(name, place), (f"{name}, gate", y_inside & x_inside)]
        found.append((f"{name}, gated", (y_inside & x_inside).where(place, zero())))
        column = flat([b, oy, ox, c, ky, kx], (2, out, out, channels, kernel, kernel))
        back = unflat(column, (2 * out * out, channels * kernel * kernel))
        found += [(f"{name}, row of im2col", back[0]), (f"{name}, column of im2col", back[1])]
        again = unflat(back[1], (channels, kernel, kernel))
        found.append((f"{name}, position in the kernel", flat(again, (channels, kernel, kernel))))
    return found


def pools() -> Named:
    found: Named = []
    for size, kernel, stride in ((8, 2, 2), (9, 3, 2), (7, 2, 1)):
        out = (size - kernel) // stride + 1
        o, k = ranges(out, kernel)
        # windows by repeating the axis: the element k of window o of an axis that was repeated and shrunk
        place = (k * (size + stride) + o * stride) % size
        found += [(f"pool {size}/{kernel}/{stride}, by repetition", place), (f"pool {size}, by steps", o * stride + k)]
    for size, before, after in ((8, 1, 1), (5, 0, 3), (5, 3, 0)):
        (r,) = ranges(size + before + after)
        inner, inside = padded(r, before, size)
        found.append((f"pad {size} by {before}, {after}", inside.where(inner, zero())))
        twice, still_inside = padded(inner, 2, size + 4)
        found.append((f"pad {size} twice", (inside & still_inside).where(twice, zero())))
        found.append((f"pad {size}, gate given twice", inside & inside & (r < size + before)))
    (r,) = ranges(16)
    found += [("flip", r * -1 + 15), ("flip twice", (r * -1 + 15) * -1 + 15), ("flip and halve", (r * -1 + 15) // 2)]
    found += [("shrink", (r + 4) % 32), ("arange of a triangle", (r < UOp.range(16, 1)).where(r, zero()))]
    return found


def golden() -> Named:
    return [(f"{theme}: {before}", read(before)) for theme, before, _ in CASES]


def randoms() -> Named:
    generator = random.Random(7)
    found = [(f"random {i}", random_index(generator, 8)) for i in range(40)]
    return found + [(f"random condition {i}", random_condition(generator, 8)) for i in range(20)]


FILES = {
    "reshape": reshapes,
    "matmul": matmuls,
    "convolution": convolutions,
    "pool_pad": pools,
    "golden": golden,
    "random": randoms,
}


def main() -> None:
    for name, build in FILES.items():
        blocks = [f"# {title}\n{to_text(root)}\n" for title, root in build()]
        (FOLDER / f"{name}.uop").write_text("\n".join(blocks))


if __name__ == "__main__":
    main()
