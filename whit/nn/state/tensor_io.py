"""A tensor of bytes as a file that can be read: what `zipfile`, `json.load` and the like ask for."""

from __future__ import annotations

import io
import os
from typing import Any

from whit.errors import ArgumentError
from whit.tensor.source import open_source


class TensorIO(io.RawIOBase):
    """`TensorIO(tensor).read(10)`. Of a tensor on disk only what is asked for is read; a path and bytes work too."""

    def __init__(self, tensor: Any) -> None:
        super().__init__()
        self._source = open_source("TensorIO", tensor)
        self._place = 0

    def readable(self) -> bool:
        """True."""
        return True

    def seekable(self) -> bool:
        """True."""
        return True

    def tell(self) -> int:
        """Where the next read begins."""
        return self._place

    def seek(self, offset: int, whence: int = os.SEEK_SET) -> int:
        """Moves to a place counted from the start, from here (1) or from the end (2), and not beyond; returns it."""
        origins = {os.SEEK_SET: 0, os.SEEK_CUR: self._place, os.SEEK_END: self._source.size}
        if whence not in origins:
            raise ArgumentError(f"seek: whence is {whence!r}", fix="Use 0, 1 or 2.")
        self._place = min(max(origins[whence] + offset, 0), self._source.size)
        return self._place

    def read(self, size: int | None = -1) -> bytes:
        """The next bytes, fewer at the end; all that are left if no size is given."""
        count = self._source.size if size is None or size < 0 else size
        found = self._source.read_up_to(self._place, count)
        self._place += len(found)
        return found

    def readall(self) -> bytes:
        """All that is left."""
        return self.read()

    def readinto(self, buffer: Any) -> int:
        """Fills a buffer as far as there are bytes; returns how many."""
        target = memoryview(buffer).cast("B")
        found = self.read(len(target))
        target[: len(found)] = found
        return len(found)
