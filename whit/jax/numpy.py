"""`jax.numpy`: `whit.numpy`, whose names, defaults and arrays are the same ones."""

import whit.numpy as _numpy
from whit.numpy import *  # noqa: F403  # the same names, all of them
from whit.numpy import fft, linalg

globals().update({name: getattr(_numpy, name) for name in dir(_numpy) if not name.startswith("_")})
__array_api_version__ = _numpy.__array_api_version__
__array_namespace_info__ = _numpy.__array_namespace_info__

__all__ = ["fft", "linalg"]
