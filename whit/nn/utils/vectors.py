"""Parameters as one vector, and back."""

from __future__ import annotations

from collections.abc import Iterable

from whit.errors import ShapeError
from whit.ir.op import spell_shape
from whit.tensor import Tensor


def parameters_to_vector(parameters: Iterable[Tensor]) -> Tensor:
    """All elements, one after the other."""
    first, *others = [tensor.reshape(-1) for tensor in parameters]
    return first.cat(*others) if others else first


def vector_to_parameters(vec: Tensor, parameters: Iterable[Tensor]) -> None:
    """Writes the elements into the parameters."""
    found = list(parameters)
    if vec.ndim != 1 or vec.shape[0] != sum(tensor.numel() for tensor in found):
        raise ShapeError(
            f"vector_to_parameters: a vector {spell_shape(vec.shape)} for "
            f"{sum(tensor.numel() for tensor in found)} elements",
            vec._made(),
            "Give one number for each.",
        )
    start = 0
    for tensor in found:
        part = vec[start : start + tensor.numel()].reshape(tensor.shape)
        tensor.assign(part.to(tensor.device).cast(tensor.dtype).detach())
        start += tensor.numel()
