"""Pieces of matrices that are windows of images, copied to shared memory by the copy engine (TMA's im2col).

    cp.async.bulk.tensor.4d...im2col  [to], [map, {channel, w, h, image}], [barrier], {j, i};

copies 64 channels of so many windows in a row, from the one whose first element is at (image, h, w) on: at the end of a
line of windows it goes on with the next line, after the last line with the next image. All of them are moved by the tap
(i, j). What is outside of the image is copied as zeros. Windows are lines of 128 bytes in shared memory.
"""

from __future__ import annotations

from typing import Any

from whit.ir.args import MatrixArg
from whit.ir.uop import UOp
from whit.render.ptx.values import PtxWriter
from whit.target import GPU_LIMITS

PIECE_CHANNELS = 64  # channels of a copy; windows along a depth
SWIZZLE_BYTES = GPU_LIMITS.swizzle_bytes


def window_map(memory: UOp, matrix: MatrixArg, rows: int) -> dict[str, Any]:
    """What the copy engine has to know."""
    itemsize = memory.dtype.itemsize
    images, *axes = matrix.axes
    axes.reverse()
    after = [(axis.count - 1) * axis.step - axis.before - (axis.size - 1) for axis in axes]
    return {
        "slot": int(memory.arg.slot),
        "itemsize": itemsize,
        "start": matrix.start * itemsize,
        "sizes": [matrix.channels, *(axis.size for axis in axes), images.size],
        "strides": [axis.stride * itemsize for axis in (*axes, images)],
        "box": [PIECE_CHANNELS, rows if matrix.is_depth_major else PIECE_CHANNELS],
        "steps": [1, *(axis.step for axis in axes), 1],
        "corners": [[-axis.before for axis in axes], after],
    }


def copy_windows(
    w: PtxWriter, matrix: MatrixArg, at: str, rows: int, to: str, first: str, k: str, batch: str, goes_to: str
) -> None:
    """Rows of such a matrix from the first one on, from step k of the depth on."""
    barrier, *mask = goes_to.split(", ")
    how = ".multicast::cluster" if mask else ""
    rank = len(matrix.axes) + 1
    name = f"cp.async.bulk.tensor.{rank}d.shared::cluster.global.im2col.mbarrier::complete_tx::bytes{how}"
    windows = _windows(w, matrix, first if matrix.is_depth_major else k, batch)
    for chunk in range(1 if matrix.is_depth_major else rows // PIECE_CHANNELS):
        inside = k if matrix.is_depth_major else first
        if chunk:
            inside = w.value("b32", "row", "add.u32", first, str(chunk * PIECE_CHANNELS))
        channel, taps = _taps(w, matrix, inside)
        place = ", ".join((channel, *windows))
        goes = ", ".join((barrier, f"{{{', '.join(taps)}}}", *mask))
        w.line(f"{name} [{to}+{chunk * PIECE_CHANNELS * SWIZZLE_BYTES}], [{at}, {{{place}}}], {goes};")


def _windows(w: PtxWriter, matrix: MatrixArg, number: str, batch: str) -> list[str]:
    """Where the first element of a window is, the innermost axis first."""
    found = []
    for axis in reversed(matrix.axes[1:]):
        digit, number = _divided(w, number, axis.count)
        place = w.value("b32", "at", "mul.lo.u32", digit, str(axis.step)) if axis.step > 1 else digit
        found.append(w.value("b32", "at", "sub.s32", place, str(axis.before)) if axis.before else place)
    return [*found, w.value("b32", "image", "add.u32", number, batch)]


def _taps(w: PtxWriter, matrix: MatrixArg, number: str) -> tuple[str, list[str]]:
    """The channel of an element of a window, and how far its tap is along each axis, the innermost first."""
    channel, number = _divided(w, number, matrix.channels)
    found = []
    for axis in reversed(matrix.axes[1:]):
        tap, number = _divided(w, number, axis.taps)
        moved = w.value("b32", "tap", "mul.lo.u32", tap, str(axis.gap)) if axis.gap > 1 else tap
        found.append(w.value("b16", "tap", "cvt.u16.u32", moved))
    return channel, found


def _divided(w: PtxWriter, number: str, size: int) -> tuple[str, str]:
    """The remainder and the quotient."""
    rest = w.value("b32", "rest", "rem.u32", number, str(size))
    return rest, w.value("b32", "whole", "div.u32", number, str(size))
