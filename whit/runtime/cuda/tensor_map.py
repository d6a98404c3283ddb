"""Tensor maps: what the copy engine of a GPU (TMA) is told about a matrix in memory.

map = TensorMap(driver, slot=1, itemsize=2, start=0, sizes=(64, 512, 1), strides=(128, 128), box=(64, 128, 1))
map.encode(address)                  # 128 bytes at map.address, a parameter of a kernel
"""

from __future__ import annotations

import ctypes
from typing import Any

from whit.runtime.cuda.driver import Driver

MAP_BYTES, MAP_ALIGNMENT_BYTES = 128, 64
DTYPES = {1: 0, 2: 1, 4: 2}  # bytes of an element -> the driver's unsigned integer of that size
SWIZZLE_128, PROMOTE_TO_256 = 3, 3


class TensorMap:
    """One map; its bytes never move. Sizes are those of all axes from the innermost; strides those of all but it.

    With corners it is of windows of images (im2col): how far the first windows are before the image, and the last ones
    after its last element; `steps` from one window to the next, and in the box channels and windows.
    """

    def __init__(
        self,
        driver: Driver,
        slot: int,
        itemsize: int,
        start: int,
        sizes: Any,
        strides: Any,
        box: Any,
        steps: Any = (),
        corners: Any = (),
    ) -> None:
        self.driver = driver
        self.slot = slot
        self.itemsize = itemsize
        self.start = start
        self.sizes = (ctypes.c_uint64 * len(sizes))(*sizes)
        self.strides = (ctypes.c_uint64 * len(strides))(*strides)
        self.box = (ctypes.c_uint32 * len(box))(*box)
        self.steps = (ctypes.c_uint32 * len(sizes))(*(steps or [1] * len(sizes)))
        self.corners = [(ctypes.c_int * len(corner))(*corner) for corner in corners]
        self._room = (ctypes.c_char * (MAP_BYTES + MAP_ALIGNMENT_BYTES))()
        self.address = -(-ctypes.addressof(self._room) // MAP_ALIGNMENT_BYTES) * MAP_ALIGNMENT_BYTES
        self._of = 0  # the memory that it describes now

    def encode(self, memory: int) -> None:
        """Describes a matrix at an address."""
        if memory == self._of:
            return
        matrix = (self.address, DTYPES[self.itemsize], len(self.sizes), memory + self.start, self.sizes, self.strides)
        how = (self.steps, 0, SWIZZLE_128, PROMOTE_TO_256, 0)
        if self.corners:
            (lower, upper), (channels, windows) = self.corners, self.box
            self.driver.cuTensorMapEncodeIm2col(*matrix, lower, upper, channels, windows, *how)
        else:
            self.driver.cuTensorMapEncodeTiled(*matrix, self.box, *how)
        self._of = memory
