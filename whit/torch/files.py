"""`torch.save` and `torch.load`: files that PyTorch reads too, and no code in them (`nn.state.torch_load`)."""

from __future__ import annotations

from typing import Any

from whit.device import canonicalize
from whit.nn.state import torch_load, torch_save
from whit.tensor import Tensor
from whit.tensor.nested import map_tensors


def save(obj: Any, f: Any, **options: Any) -> None:
    """Writes containers of tensors, numbers and text to a path or an open file."""
    torch_save(obj, f)


def load(f: Any, map_location: Any = None, *, weights_only: bool = True, mmap: bool | None = None) -> Any:
    """What `save` wrote, or PyTorch. `map_location`: the device for the tensors, a dictionary or a function."""
    found = torch_load(f.read() if hasattr(f, "read") else f)

    def place(tensor: Tensor) -> Tensor:
        moved = tensor.to(_device(map_location)).realize()
        moved.requires_grad = False
        return moved

    return map_tensors(place, found)


def _device(wanted: Any) -> str:
    if isinstance(wanted, dict):
        wanted = wanted.get("cpu")
    if callable(wanted):  # a function of storages, which are not here
        wanted = None
    return canonicalize(None if wanted is None else str.__str__(wanted))
