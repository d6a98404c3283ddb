"""What all optimisers share: checked parameters, a learning rate in memory, and steps as graphs.

A subclass says what it keeps for each parameter (`_keep`, in its constructor) and how one changes (`_change`). States
are at least float32, whatever the parameter is. With `fused=True` all parameters become views of one flat tensor: the
update is one kernel, however many there are, after one for every sixteen gradients that brings them together.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from whit.dtype import DType, dtypes
from whit.errors import ArgumentError, DTypeError, UserError
from whit.ir.op import spell_shape
from whit.nn.optim.flat import flatten, joined
from whit.tensor import Tensor
from whit.tensor.gradient import unrealised_roots, unrealised_states


class Optimizer:
    """Parameters and a learning rate. `lr` is a tensor of one element: writing to it changes no kernel."""

    def __init__(self, params: Iterable[Tensor], lr: float, fused: bool = False) -> None:
        name = type(self).__name__
        self.params = _checked(name, params)
        if not isinstance(lr, int | float) or lr < 0:
            raise ArgumentError(f"{name}: lr={lr!r}", fix="The learning rate is a number, 0 or more.")
        self.device = self.params[0].device
        self.lr = Tensor([float(lr)], dtype=dtypes.float32, device=self.device, requires_grad=False)
        self.fused = fused
        Tensor.realize(*self.params)  # weights that are computed from nothing would be computed again in every step
        self._whole = [flatten(name, self.params)] if fused else self.params

    # ---- for subclasses

    def _keep(self, like: Callable[[Tensor], Tensor] | None = None) -> list[Tensor]:
        """A state of zeros for each parameter, or for the flat tensor."""
        make = like or zeros_for
        states = [make(tensor) for tensor in self._whole]
        Tensor.realize(*states)
        return states

    def _change(self, index: int, weight: Tensor, grad: Tensor) -> Tensor:
        """What is subtracted from one parameter; writes the states on the way. All in at least float32."""
        raise NotImplementedError(type(self).__name__)

    def _begin(self) -> list[Tensor]:
        """Changes what is kept once for all parameters, and returns it."""
        return []

    def _states(self) -> list[Tensor]:
        """What is kept for parameters."""
        return []

    # ---- for programs

    def zero_grad(self) -> None:
        """Forgets the gradients."""
        for tensor in self.params:
            tensor.grad = None

    def step(self) -> None:
        """Changes the parameters, and computes the loss with them if it is still lazy."""
        losses = unrealised_roots(self.params)
        Tensor.realize(*self.schedule_step(), *losses)

    def schedule_step(self) -> list[Tensor]:
        """The same without computing anything: the tensors to realise, best together with the loss.

        Among them are other tensors that the batch has changed, as running statistics.
        """
        changed = unrealised_states()
        gradients = [self._gradient(tensor) for tensor in self.params]
        if self.fused:
            gradients = [joined(gradients)]
        shared = self._begin()
        for index, (weight, grad) in enumerate(zip(self._whole, gradients, strict=True)):
            wide = wide_dtype(weight.dtype)
            old = weight.detach().cast(wide)
            new = old - self._change(index, old, grad.detach().cast(wide))
            weight.assign(new.cast(weight.dtype).detach())
        return [*self._whole, *self._states(), *shared, *changed]

    def _gradient(self, tensor: Tensor) -> Tensor:
        if tensor.grad is not None:
            return tensor.grad  # type: ignore[no-any-return]
        raise UserError(
            f"{type(self).__name__}: a parameter of shape {spell_shape(tensor.shape)} has no gradient",
            f"parameter {tensor._made()}",
            "Call backward() on a loss that is computed from it before the step, or leave it out of the parameters.",
        )


class OptimizerGroup(Optimizer):
    """Several optimisers that step together, as for parameters with and without weight decay."""

    def __init__(self, *optimizers: Optimizer) -> None:
        if not optimizers or not all(isinstance(part, Optimizer) for part in optimizers):
            raise ArgumentError("OptimizerGroup: nothing to group", repr(optimizers)[:200], "Give optimisers.")
        self.optimizers = optimizers
        self.params = _checked("OptimizerGroup", [tensor for part in optimizers for tensor in part.params])
        self.device, self.lr = optimizers[0].device, optimizers[0].lr

    def __getitem__(self, index: int) -> Optimizer:
        return self.optimizers[index]

    def schedule_step(self) -> list[Tensor]:
        """The tensors of all of them."""
        return [tensor for part in self.optimizers for tensor in part.schedule_step()]


def wide_dtype(dtype: DType) -> DType:
    """What a parameter is updated in: no less than float32."""
    return dtypes.float32 if dtype.itemsize < 4 else dtype


def zeros_for(tensor: Tensor) -> Tensor:
    """A state for a parameter."""
    return Tensor.zeros(*tensor.shape, dtype=wide_dtype(tensor.dtype), device=tensor.device, requires_grad=False)


def number(name: str, label: str, value: Any, least: float = 0.0, below: float | None = None) -> float:
    """A setting in its range."""
    if not isinstance(value, int | float) or value < least or (below is not None and value >= below):
        limit = f"at least {least:g}" + ("" if below is None else f" and below {below:g}")
        raise ArgumentError(f"{name}: {label}={value!r}", fix=f"It is a number, {limit}.")
    return float(value)


def _checked(name: str, params: Iterable[Tensor]) -> list[Tensor]:
    """The parameters to train; those with requires_grad=False are left out."""
    given = list(params)
    for place, tensor in enumerate(given):
        if not isinstance(tensor, Tensor):
            raise ArgumentError(
                f"{name}: parameter {place} is no tensor: {tensor!r:.60}", fix="Use nn.state.get_parameters(model)."
            )
        if tensor.requires_grad is not False and not tensor.dtype.is_float:
            raise DTypeError(
                f"{name}: parameter {place} is {tensor.dtype.name}, and only floats have gradients",
                f"parameter {tensor._made()}",
                "Leave it out, or make it with requires_grad=False.",
            )
    found: dict[int, int] = {}
    for place, tensor in enumerate(given):
        if found.setdefault(id(tensor), place) != place:
            raise ArgumentError(
                f"{name}: parameters {found[id(tensor)]} and {place} are the same tensor, of shape "
                f"{spell_shape(tensor.shape)}",
                f"parameter {tensor._made()}",
                "Give each tensor once: nn.state.get_parameters(model) does.",
            )
    wanted = [tensor for tensor in given if tensor.requires_grad is not False]
    if not wanted:
        why = "all of them have requires_grad=False" if given else "the list is empty"
        raise ArgumentError(f"{name}: there are no parameters: {why}", fix="Use nn.state.get_parameters(model).")
    for tensor in wanted:
        tensor.requires_grad = True
    return wanted
