"""`torch.device`: the name of a device, in PyTorch's spelling; and the defaults of tensors that say nothing.

device = torch.device("cuda:1")         device.type, device.index: "cuda", 1;  device == "CUDA:1"
"""

from __future__ import annotations

from typing import Any

from whit.device import Device, canonicalize
from whit.dtype import DType, dtypes, to_dtype
from whit.errors import DTypeError


class device(str):  # noqa: N801  # PyTorch's name
    """A device by name: a string that whit takes, and that compares with other spellings."""

    __slots__ = ()

    def __new__(cls, type: Any, index: int | None = None) -> device:
        name = str.__str__(type) if isinstance(type, str) else type
        return super().__new__(cls, canonicalize(name if index is None else f"{name}:{index}"))

    @property
    def type(self) -> str:
        """The kind: "cpu", "cuda"."""
        return str.__str__(self).partition(":")[0].lower()

    @property
    def index(self) -> int | None:  # type: ignore[override]  # of a device; that of str looks for letters
        """Which one of its kind; None where nobody said."""
        number = str.__str__(self).partition(":")[2]
        return int(number) if number else None

    def __str__(self) -> str:
        return str.__str__(self).lower()

    def __format__(self, spec: str) -> str:
        return format(str(self), spec)

    def __repr__(self) -> str:
        place = "" if self.index is None else f", index={self.index}"
        return f"device(type={self.type!r}{place})"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, str) and str.__str__(self).upper() == str.__str__(other).upper()

    def __ne__(self, other: object) -> bool:
        return not self == other

    def __hash__(self) -> int:
        return hash(str.__str__(self).upper())

    def __enter__(self) -> None:
        _before.append(Device.DEFAULT)
        Device.DEFAULT = str.__str__(self)

    def __exit__(self, *error: object) -> None:
        Device.DEFAULT = _before.pop()


_before: list[str] = []  # the defaults outside of `with torch.device(...)` blocks


def set_default_device(device: Any) -> None:
    """Where tensors are made that say nothing."""
    Device.DEFAULT = canonicalize(None if device is None else str.__str__(device))


def get_default_device() -> device:
    """The same, asked."""
    return device(Device.DEFAULT)


def set_default_dtype(d: DType) -> None:
    """What Python's floats become."""
    if not to_dtype(d).is_float:
        raise DTypeError(f"set_default_dtype: {to_dtype(d).name} is no float", fix="As in torch.float64.")
    dtypes.default_float = to_dtype(d)


def get_default_dtype() -> DType:
    """The same, asked."""
    return dtypes.default_float
