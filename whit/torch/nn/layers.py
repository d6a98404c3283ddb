"""The layers of `whit.nn` with the habits of PyTorch's: they train until `eval()`, and their parameters are leaves.

    Linear = layers()["Linear"]
    Linear(2, 3).training                       True; of whit.nn.Linear it is Tensor.training
    Linear(2, 3).weight.requires_grad           True; of whit.nn.Linear None, which an optimiser makes True

Each is a subclass of the layer of `whit.nn`, so that what is written for one takes the other.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator
from typing import Any

from whit import nn
from whit.nn import layers as all_layers
from whit.nn.state import get_parameters
from whit.tensor import Tensor


class Module(nn.Module):
    """A base for models, as `torch.nn.Module`."""

    _training = True

    def __init__(self, *args: Any, **given: Any) -> None:
        super().__init__(*args, **given)

    def parameters(self, recurse: bool = True) -> Iterator[Tensor]:
        """The tensors that are trained."""
        return (tensor for _, tensor in self.named_parameters(recurse=recurse))

    def named_parameters(
        self, prefix: str = "", recurse: bool = True, remove_duplicate: bool = True
    ) -> Iterator[tuple[str, Tensor]]:
        """The same with their names."""
        before = f"{prefix}." if prefix else ""
        for name, tensor in super().named_parameters():
            if recurse or "." not in name:
                yield before + name, tensor

    def buffers(self, recurse: bool = True) -> Iterator[Tensor]:
        """The tensors that are not trained."""
        return iter(super().buffers())

    def zero_grad(self, set_to_none: bool = True) -> None:
        """Forgets the gradients of the parameters."""
        for tensor in self.parameters():
            tensor.grad = None if set_to_none or tensor.grad is None else tensor.grad.zeros_like()

    def register_buffer(self, name: str, tensor: Tensor | None, persistent: bool = True) -> None:
        """`self.name = tensor`, which is not trained."""
        super().register_buffer(name, tensor)

    def add_module(self, name: str, module: Any) -> None:
        """`self.name = module`."""
        setattr(self, name, module)

    def get_parameter(self, target: str) -> Tensor:
        """The parameter at the end of a way as `layers.0.weight`."""
        return self.get_submodule(target)  # type: ignore[no-any-return]

    register_module = add_module
    get_buffer = get_parameter


def _class(layer: type[nn.Module]) -> type[nn.Module]:
    """The layer, whose parameters are leaves that take gradients, and which trains with all that is in it."""
    made = layer.__init__

    @functools.wraps(made)
    def init(self: Any, *args: Any, **given: Any) -> None:
        made(self, *args, **given)
        self.train()
        for tensor in get_parameters(self):
            tensor.requires_grad = True

    fields = {"__init__": init, "__doc__": layer.__doc__, "__module__": "whit.torch.nn"}
    found: type[nn.Module] = type(layer.__name__, (Module, layer), fields)
    return found


def layers() -> dict[str, Any]:
    """The layers, by name, and the base."""
    classes = {name: getattr(all_layers, name) for name in all_layers.__all__}
    kinds = {
        name: kind
        for name, kind in classes.items()
        if isinstance(kind, type) and issubclass(kind, nn.Module) and kind is not nn.Module
    }
    return {"Module": Module} | {name: _class(kind) for name, kind in kinds.items()}
