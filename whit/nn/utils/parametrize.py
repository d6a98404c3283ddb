"""Tensors of a module that are computed from others, which are trained: `torch.nn.utils.parametrize`.

    register_parametrization(layer, "weight", Symmetric())     # layer.weight is Symmetric()(its original), each time
    layer.parametrizations["weight"].original                  # what is trained

A parametrization is a module, or any function. With a `right_inverse` the original is what that makes of the value.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

from whit.errors import ArgumentError
from whit.nn.module import Module
from whit.nn.own_class import compute, compute_no_more, trained_as
from whit.records import dataclass
from whit.tensor import Tensor

__all__ = ["ParametrizationList", "cached", "is_parametrized", "register_parametrization", "remove_parametrizations"]


class ParametrizationList(Module):
    """What one tensor is computed from (`original`, or `original0`, `original1` ...), and by what (`0`, `1` ...)."""

    def __init__(self, value: Tensor, parametrization: Any) -> None:
        self._count = 0
        self.is_tensor = True
        self._append(parametrization)
        self.put(value)

    def _append(self, parametrization: Any) -> None:
        setattr(self, str(self._count), parametrization)
        self._count += 1

    def __len__(self) -> int:
        return self._count

    def __getitem__(self, place: int) -> Any:
        return getattr(self, str(range(self._count)[place]))

    def put(self, value: Tensor) -> None:
        """The originals become those that give this value."""
        found: Any = value
        for place in reversed(range(self._count)):
            inverse = getattr(self[place], "right_inverse", None)
            found = found if inverse is None else inverse(found)
        self.is_tensor = isinstance(found, Tensor)
        names = ["original"] if self.is_tensor else [f"original{i}" for i in range(len(found))]
        for name, tensor in zip(names, [found] if self.is_tensor else found, strict=True):
            known = vars(self).get(name)
            if known is None:
                setattr(self, name, value if tensor is value else trained_as(tensor.detach().realize(), value))
            else:
                known.assign(tensor.detach())

    def __call__(self) -> Tensor:
        """The value."""
        if self.is_tensor:
            found = self[0](vars(self)["original"])
        else:
            count = sum(name.startswith("original") for name in vars(self))
            found = self[0](*[vars(self)[f"original{i}"] for i in range(count)])
        for place in range(1, self._count):
            found = self[place](found)
        if not isinstance(found, Tensor):
            raise ArgumentError(f"parametrization: it gives {found!r:.60}", fix="It has to give a tensor.")
        return found


@dataclass(frozen=True, slots=True)
class Read:
    """Reads and writes a tensor of this name through its parametrizations."""

    name: str

    def __call__(self, module: Any) -> Tensor:
        found: Tensor = module.parametrizations[self.name]()
        return found

    def put(self, module: Any, value: Tensor) -> None:
        """`module.name = value`."""
        module.parametrizations[self.name].put(value)


def register_parametrization(module: Any, tensor_name: str, parametrization: Any, *, unsafe: bool = False) -> Any:
    """From now on, a tensor of the module is computed by a parametrization, after those that it has. `unsafe` allows
    another shape or dtype. Returns the module."""
    if not callable(parametrization):
        raise ArgumentError(f"register_parametrization: {parametrization!r:.60}", fix="Give a module or a function.")
    lists = vars(module).setdefault("parametrizations", {})
    value = getattr(module, tensor_name, None)
    if not isinstance(value, Tensor):
        raise ArgumentError(
            f"register_parametrization: {type(module).__name__} has no tensor {tensor_name!r}",
            fix="Give the name of a tensor that it has already.",
        )
    if tensor_name in lists:
        lists[tensor_name]._append(parametrization)
        if hasattr(parametrization, "right_inverse"):
            lists[tensor_name].put(value)
        found = lists[tensor_name]()
    else:
        made = ParametrizationList(value, parametrization)
        found = made()
        lists[tensor_name] = made
        compute(module, tensor_name, Read(tensor_name))
    if not unsafe and (found.shape != value.shape or found.dtype is not value.dtype):
        remove_parametrizations(module, tensor_name, leave_parametrized=False)
        raise ArgumentError(
            f"register_parametrization: {tensor_name} is {value.dtype.name} {value.shape}, and would be "
            f"{found.dtype.name} {found.shape}",
            fix="Give the same shape and dtype, or unsafe=True.",
        )
    return module


def is_parametrized(module: Any, tensor_name: str | None = None) -> bool:
    """Whether a tensor of the module is computed from others; without a name, whether any is."""
    lists = vars(module).get("parametrizations", {})
    return bool(lists) if tensor_name is None else tensor_name in lists


def remove_parametrizations(module: Any, tensor_name: str, leave_parametrized: bool = True) -> Any:
    """The tensor is a plain one again: its value of now, or the original. Returns the module."""
    if not is_parametrized(module, tensor_name):
        raise ArgumentError(
            f"remove_parametrizations: {type(module).__name__}.{tensor_name} has none",
            fix="is_parametrized(module, name) says whether it has.",
        )
    made = module.parametrizations.pop(tensor_name)
    if not leave_parametrized and not made.is_tensor:
        raise ArgumentError(
            f"remove_parametrizations: {tensor_name} is computed from several tensors",
            fix="Use leave_parametrized=True.",
        )
    first = made.original if made.is_tensor else made.original0
    value = trained_as(made().detach().realize(), first) if leave_parametrized else first
    compute_no_more(module, tensor_name)
    setattr(module, tensor_name, value)
    if not module.parametrizations:
        del module.parametrizations
    return module


@contextlib.contextmanager
def cached() -> Iterator[None]:
    """Has no effect: what is computed twice from the same tensors is one node of the graph."""
    yield
