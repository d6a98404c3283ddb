"""Values between nodes: from the host to a device, also while a function is traced."""

from __future__ import annotations

from typing import Any

import numpy as np

from whit.dtype import to_dtype
from whit.tensor import Tensor


def lifted(value: Any, device: str | None) -> Any:
    """An array of numbers -> a tensor; one element -> a number, which is part of the kernels that read it. The rest
    stays as it is.

    Arrays of others cannot be read while a function is traced, as they may change; what the host has computed does not.
    """
    if not isinstance(value, np.ndarray | np.generic) or value.dtype.kind in "OUSc":
        return value
    dtype = to_dtype(value.dtype.name)
    if value.size == 1 and value.dtype.kind in "biuf":
        return Tensor(value.reshape(-1)[0].item(), device=device, dtype=dtype).reshape(value.shape)
    return Tensor(value.tobytes(), device=device, dtype=dtype).reshape(value.shape)
