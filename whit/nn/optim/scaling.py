"""Loss scaling: small floats have few exponents, so gradients are computed of a larger loss and divided afterwards.

    scaler = LossScaler()
    opt.zero_grad()
    loss = scaler.backward(model(x).cross_entropy(y))
    scaler.unscale(opt)                         # only where gradients are looked at, as by clip_grad_norm
    scaler.step(opt)                            # or: loss.realize(*scaler.schedule_step(opt))

If a gradient is infinite or NaN the step changes nothing but the factor, which gets smaller; after `interval` good
steps in a row it grows. This is decided on the device: a step is a graph, and nothing is read back. Optimisers that
share a scaler belong in an OptimizerGroup: each step counts.
"""

from __future__ import annotations

from functools import reduce
from operator import or_
from typing import Any

from whit.dtype import dtypes
from whit.errors import ArgumentError, UserError
from whit.nn.optim.base import Optimizer, number
from whit.nn.optim.clip import joined_by_kind
from whit.tensor import Tensor
from whit.tensor.methods.gradients.backward import unrealised_roots


class LossScaler:
    """A factor for losses, which follows what the dtype of the gradients can hold.

    factor      the factor now, a tensor of one element
    good        steps since it last changed
    """

    def __init__(
        self,
        factor: float = 65536.0,
        growth: float = 2.0,
        backoff: float = 0.5,
        interval: int = 2000,
        device: str | None = None,
    ) -> None:
        first = number("LossScaler", "factor", factor)
        self.growth = number("LossScaler", "growth", growth, least=1.0)
        self.backoff = number("LossScaler", "backoff", backoff, below=1.0)
        if not first or not self.backoff:
            label = "factor" if not first else "backoff"
            raise ArgumentError(f"LossScaler: {label}=0", fix="Gradients are multiplied and divided by it: not 0.")
        if isinstance(interval, bool) or not isinstance(interval, int) or interval < 1:
            raise ArgumentError(f"LossScaler: interval={interval!r}", fix="It is an integer, 1 or more.")
        self.interval = interval
        self.factor = Tensor([first], dtype=dtypes.float32, device=device, requires_grad=False).realize()
        self.good = Tensor([0], dtype=dtypes.int32, device=device, requires_grad=False).realize()
        self._overflow: dict[int, Tensor] = {}  # of optimisers whose gradients are divided already

    def backward(self, loss: Tensor) -> Tensor:
        """`loss.backward()`, with gradients of `factor * loss`; the loss itself."""
        if not isinstance(loss, Tensor) or loss.numel() != 1:
            raise ArgumentError(f"LossScaler: {loss!r:.60} is no loss", fix="A loss is a tensor of one element.")
        return loss.backward(gradient=self._factor_for(loss).reshape(loss.shape).cast(loss.dtype))

    def unscale(self, optimizer: Optimizer) -> None:
        """Divides the gradients of an optimiser by the factor, once between two steps."""
        if id(optimizer) in self._overflow:
            raise UserError(
                "LossScaler: the gradients are divided by the factor already",
                fix="Call unscale() once between backward() and step().",
            )
        held = [tensor for tensor in optimizer._all_params() if tensor.grad is not None]
        if not held:
            raise ArgumentError("LossScaler: no parameter has a gradient", fix="Call backward() first.")
        wholes = joined_by_kind([tensor.grad for tensor in held])
        bad = [(~whole.isfinite()).any().to(self.factor.device) for whole in wholes]
        self._overflow[id(optimizer)] = reduce(or_, bad)
        for tensor in held:
            wide = dtypes.float32 if tensor.grad.dtype.itemsize < 4 else tensor.grad.dtype
            tensor.grad = tensor.grad.cast(wide) * (1.0 / self._factor_for(tensor)).reshape(()).cast(wide)

    def schedule_step(self, optimizer: Optimizer) -> list[Tensor]:
        """The tensors to realise for a step of the optimiser, and for the factor of the next one."""
        if id(optimizer) not in self._overflow:
            self.unscale(optimizer)
        overflow = self._overflow.pop(id(optimizer))
        changed = optimizer.schedule_step(skip=overflow)
        good = overflow.where(0, self.good + 1)
        grows = good == self.interval
        self.factor.assign(
            self.factor * overflow.where(self.backoff, grows.where(self.growth, 1.0)).cast(dtypes.float32)
        )
        self.good.assign(grows.where(0, good).cast(dtypes.int32))
        return [*changed, self.factor, self.good]

    def step(self, optimizer: Optimizer) -> None:
        """The same at once, with the loss if it is still lazy."""
        losses = unrealised_roots(optimizer._all_params())
        Tensor.realize(*self.schedule_step(optimizer), *losses)

    def _factor_for(self, tensor: Any) -> Tensor:
        return self.factor.to(tensor.device) if tensor.device is not None else self.factor
