"""`jax.numpy`: `whit.numpy`, whose names, defaults and arrays are the same ones."""

from typing import TYPE_CHECKING, Any

import whit.numpy as _numpy

_NAMES = {name: getattr(_numpy, name) for name in dir(_numpy) if not name.startswith("_")}
globals().update(_NAMES)
__array_api_version__ = _numpy.__array_api_version__
__array_namespace_info__ = _numpy.__array_namespace_info__

if TYPE_CHECKING:

    def __getattr__(name: str) -> Any:
        """The names of `whit.numpy`."""


__all__ = list(_NAMES)
