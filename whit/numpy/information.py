"""What the namespace can do, as the standard asks for it: `__array_namespace_info__()`."""

from __future__ import annotations

from typing import Any

from whit.dtype import DType, dtypes
from whit.engine.devices.device import Device, usable
from whit.numpy.data_types import STANDARD, isdtype


class Information:
    """Answers about devices and dtypes."""

    __slots__ = ()

    def capabilities(self) -> dict[str, Any]:
        """Masks index, shapes may depend on data, and there may be any number of axes."""
        return {"boolean indexing": True, "data-dependent shapes": True, "max dimensions": None}

    def default_device(self) -> str:
        """Where arrays are made if nothing else is said."""
        return Device.DEFAULT

    def default_dtypes(self, *, device: str | None = None) -> dict[str, DType]:
        """The dtypes of Python numbers and of positions."""
        _check(device)
        return {
            "real floating": dtypes.default_float,
            "complex floating": dtypes.default_complex,
            "integral": dtypes.default_int,
            "indexing": dtypes.default_int,
        }

    def dtypes(self, *, device: str | None = None, kind: Any = None) -> dict[str, DType]:
        """The dtypes of the standard by their names; those of a kind, or of several."""
        _check(device)
        return {dtype.name: dtype for dtype in STANDARD if kind is None or isdtype(dtype, kind)}

    def devices(self) -> list[str]:
        """The devices that arrays can be made on. PYTHON, the interpreter, is one too, and meant for tests."""
        return [name for name in Device.get_available_devices() if name not in ("NULL", "PYTHON")]


def _check(device: str | None) -> None:
    if device is not None:
        usable(device)


def namespace_info() -> Information:
    """What the namespace can do."""
    return Information()
