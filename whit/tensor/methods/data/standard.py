"""What the Python Array API standard asks of arrays, beyond the methods that are here anyway.

xp = x.__array_namespace__()        # whit.numpy: this is how SciPy, scikit-learn and einops find it
x.to_device("CPU")
"""

from __future__ import annotations

import importlib
from types import ModuleType
from typing import Any, Final, Self

from whit.errors import ArgumentError
from whit.tensor.topic import Topic

VERSIONS: Final = ("2021.12", "2022.12", "2023.12", "2024.12")


class Standard(Topic):
    """Of arrays in the standard's sense."""

    __slots__ = ()

    def __array_namespace__(self, *, api_version: str | None = None) -> ModuleType:
        """The module of functions that take tensors: `whit.numpy`."""
        if api_version is not None and api_version not in VERSIONS:
            raise ArgumentError(
                f"__array_namespace__: there is no version {api_version!r}", fix=f"Use one of {', '.join(VERSIONS)}."
            )
        return importlib.import_module("whit.numpy")  # lazy: it stands on Tensor

    def to_device(self, device: str, /, *, stream: Any = None) -> Self:
        """The same value on another device (Array API)."""
        if stream is not None:
            raise ArgumentError(
                f"to_device: stream is {stream!r:.40}", self._made(), "Copies are ordered by themselves: leave it out."
            )
        return self.to(device)
