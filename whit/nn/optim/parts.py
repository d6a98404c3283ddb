"""Complex parameters, as optimisers compute with them: both parts on a last axis of two, as in PyTorch.

parameter of complex64, shape (3,)  ->  change, gradient and states of float32, shape (3, 2)
"""

from __future__ import annotations

from whit.dtype import DType, dtypes
from whit.tensor import Tensor


def as_parts(tensor: Tensor) -> Tensor:
    """Both parts of complex numbers; other tensors as they are."""
    return tensor.view_as_real() if tensor.dtype.is_complex else tensor


def from_parts(tensor: Tensor, dtype: DType) -> Tensor:
    """What `as_parts` gave, in the dtype of a parameter; other tensors as they are."""
    if not dtype.is_complex:
        return tensor
    return tensor.cast(parts_dtype(dtype)).view_as_complex()


def parts_dtype(dtype: DType) -> DType:
    """That of the parts of complex numbers; another dtype is its own."""
    if not dtype.is_complex:
        return dtype
    return dtypes.float64 if dtype is dtypes.complex128 else dtypes.float32
