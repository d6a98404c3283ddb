"""Switches of PyTorch that programs set, and what whit makes of them."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

from whit.config import THREADS
from whit.dtype import DType, dtypes
from whit.errors import DTypeError
from whit.records import dataclass


def compile(model: Any = None, **options: Any) -> Any:
    """The function or model itself: every graph is compiled. `TinyJit` replays a whole step without Python, too."""
    if model is None:
        return _compiled
    return model


def _compiled(model: Callable[..., Any]) -> Callable[..., Any]:
    return model


def use_deterministic_algorithms(mode: bool, *, warn_only: bool = False) -> None:
    """Nothing to do: results are the same each time."""


def are_deterministic_algorithms_enabled() -> bool:
    """They always are."""
    return True


def set_float32_matmul_precision(precision: str) -> None:
    """Nothing to do: products of float32 are of float32."""


def get_float32_matmul_precision() -> str:
    """What they are."""
    return "highest"


def set_num_threads(count: int) -> None:
    """Nothing to do: kernels choose how many cores they use; `Context(THREADS=1)` limits them."""


def get_num_threads() -> int:
    """How many cores a kernel may use."""
    return THREADS.value or os.cpu_count() or 1


@dataclass(frozen=True)
class FloatLimits:
    """The limits of a float."""

    dtype: str
    bits: int
    eps: float
    max: float
    min: float
    tiny: float
    smallest_normal: float
    resolution: float


@dataclass(frozen=True)
class IntegerLimits:
    """The limits of an integer."""

    dtype: str
    bits: int
    max: int
    min: int


def finfo(type: DType | None = None) -> FloatLimits:
    """The limits of a float; of the default one if none is named."""
    dtype = dtypes.default_float if type is None else type
    exponent, mantissa = dtypes.finfo(dtype)
    top = 2 ** (exponent - 1) - 1
    eps, tiny = 2.0**-mantissa, 2.0 ** (1 - top)
    largest = (2.0 - eps) * 2.0**top
    resolution = 10.0 ** -int(mantissa * 0.30103)
    return FloatLimits(dtype.name, dtype.bitsize, eps, largest, -largest, tiny, tiny, resolution)


def iinfo(type: DType) -> IntegerLimits:
    """The limits of an integer."""
    if type.is_float:
        raise DTypeError(f"iinfo: {type.name} is a float", fix="Use torch.finfo.")
    return IntegerLimits(type.name, type.bitsize, type.max, type.min)
