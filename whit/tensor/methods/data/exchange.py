"""Tensors and other libraries: DLPack both ways, memory at an address, files from the network.

    torch.from_dlpack(x), np.from_dlpack(x)       # the tensor's own memory, not copied
    Tensor.from_dlpack(y), Tensor(y, copy=False)  # the memory of y, where it is row-major and aligned
    Tensor(y)                                     # a copy, unless y is read-only

The same on CUDA: whose work waits for whose is told in `engine.devices.cuda_exchange`.

Memory that is shared is never written by whit: a tensor that is assigned to gets memory of its own. Others should not
write to it either; NumPy sees it as read-only.
"""

from __future__ import annotations

from typing import Any, Self

from whit.dtype import DTypeLike, dtypes
from whit.engine.devices.device import is_disk, usable
from whit.errors import ArgumentError, DeviceError, ShapeError
from whit.helpers import fetch
from whit.tensor.core import storable
from whit.tensor.engine import export_dlpack, from_address, import_dlpack
from whit.tensor.topic import Topic

HOST = (1, 0)  # DLPack's name for the memory of the host
CUDA = 2  # and of a GPU, with its number


class NotSharedError(DeviceError, BufferError):
    """The elements cannot be handed to another library as they are."""


class Exchange(Topic):
    """Memory shared with others."""

    __slots__ = ()

    def __dlpack__(
        self,
        *,
        stream: Any = None,
        max_version: tuple[int, int] | None = None,
        dl_device: tuple[int, int] | None = None,
        copy: bool | None = None,
    ) -> Any:
        """The elements for another library, computed first. They are a copy if it asks for one. On CUDA its work on
        `stream` waits for them: by default the legacy stream, 1, or 2 for that of the thread, or a handle; -1: none."""
        device = self.__dlpack_device__()
        if dl_device is not None and tuple(dl_device) != device:
            if tuple(dl_device) == HOST and copy is not False:
                return self.to("CPU").__dlpack__(max_version=max_version)
            where = f"the host, {HOST}" if device == HOST else f"where it is, {device}"
            raise NotSharedError(f"__dlpack__: {tuple(dl_device)} is not {where}", self._made(), "Copy it there.")
        if stream is not None and device == HOST:
            raise ArgumentError(f"__dlpack__: the host has no streams, and stream is {stream!r}", fix="Leave it out.")
        if stream is not None and (type(stream) is not int or stream < -1 or not stream):
            raise ArgumentError(
                f"__dlpack__: {stream!r} is no stream of CUDA",
                fix="1 is the default one, 2 that of the thread, -1 none.",
            )
        versioned = max_version is not None and max_version[0] >= 1
        return export_dlpack(self._buffer(), bool(copy), versioned, stream)

    def __dlpack_device__(self) -> tuple[int, int]:
        """Where the elements are, in DLPack's numbers."""
        if is_disk(self.device) or self.device.startswith("NULL"):
            raise NotSharedError(f"__dlpack__: {self.device} has no memory to share", fix='Move it first: x.to("CPU").')
        if self.device.startswith("CUDA"):
            return CUDA, int(self.device.partition(":")[2] or 0)
        return HOST

    @classmethod
    def from_dlpack(cls, x: Any, device: str | None = None) -> Self:
        """A tensor on the memory of another library's array, or of a DLPack capsule. Nothing is copied where the
        elements are row-major and aligned, and on the device that is asked for; an array of a GPU stays there if none
        is."""
        node = import_dlpack(x, None if device is None else usable(device), copy=False)
        return cls._make(node, node.device)

    @classmethod
    def from_blob(
        cls,
        ptr: int,
        shape: tuple[int, ...] | list[int],
        dtype: DTypeLike | None = None,
        device: str | None = None,
    ) -> Self:
        """A tensor on the memory at an address, which the caller keeps alive; it is never written."""
        wanted = dtypes.default_float if dtype is None else storable("from_blob", dtype)
        sizes = tuple(shape) if isinstance(shape, tuple | list) else (shape,)
        if any(not isinstance(size, int) or size < 0 for size in sizes):
            raise ShapeError(f"from_blob: {sizes} is no shape", fix="Sizes are integers, zero or more.")
        if not isinstance(ptr, int) or ptr < 0 or (not ptr and 0 not in sizes):
            raise ArgumentError(f"from_blob: {ptr!r} is no address", fix="Give an integer, as array.ctypes.data.")
        name = usable(device)
        if is_disk(name):
            raise DeviceError(f"from_blob: {name} has no addresses", fix="Give no device, and use to().")
        return cls._make(from_address(ptr, wanted, sizes, name), name)

    @classmethod
    def from_url(cls, url: str, gunzip: bool = False, **kw: Any) -> Self:
        """The bytes of a file from the network, downloaded once: a tensor on DISK, unless `device` says otherwise."""
        if not isinstance(url, str):
            raise ArgumentError(f"from_url: {url!r:.60} is no address", fix='Give a string: "https://...".')
        return cls(fetch(url, gunzip=gunzip), **kw)
