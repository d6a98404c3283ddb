"""Many parameters in one memory, so that an optimiser has one tensor to change."""

from __future__ import annotations

from whit.errors import DeviceError, DTypeError
from whit.ir.op import spell_shape
from whit.tensor import Tensor


def flatten(name: str, params: list[Tensor]) -> Tensor:
    """One tensor with the elements of all parameters, which become views of it."""
    first = params[0]
    for tensor in params[1:]:
        where = f"{spell_shape(first.shape)} {first._made()}, {spell_shape(tensor.shape)} {tensor._made()}"
        if tensor.dtype is not first.dtype:
            what = f"{name}: fused=True with parameters of {first.dtype.name} and {tensor.dtype.name}"
            raise DTypeError(what, where, "Group optimisers, one for each dtype.")
        if tensor.device != first.device:
            what = f"{name}: fused=True with parameters on {first.device} and {tensor.device}"
            raise DeviceError(what, where, "Group optimisers, one for each device.")
    flat = joined(params).detach().contiguous().realize()
    flat.requires_grad = False
    start = 0
    for tensor in params:
        end = start + tensor.numel()
        tensor._become_view(flat[start:end].reshape(tensor.shape))
        start = end
    return flat


def joined(tensors: list[Tensor]) -> Tensor:
    """The elements of all, one after the other."""
    rows = [tensor.reshape(-1) for tensor in tensors]
    return rows[0].cat(*rows[1:])
