"""Optimisers that divide gradients by what they were before: RMSprop, Adagrad, Adadelta, Adafactor; Rprop and ASGD."""

from __future__ import annotations

from typing import ClassVar, Unpack

from whit.dtype import dtypes
from whit.errors import ArgumentError
from whit.nn.optim.base import Params, StateOptions
from whit.nn.optim.counted import Counted
from whit.nn.optim.groups import Group
from whit.tensor import Tensor


class RMSprop(Counted):
    """Gradients over the root of a running mean of their squares; `centered` takes away the square of their mean."""

    below: ClassVar = {"alpha": 1.0}
    saved: ClassVar = {"square_avg": "v", "momentum_buffer": "b", "grad_avg": "m"}

    def __init__(
        self,
        params: Params,
        lr: float = 0.01,
        alpha: float = 0.99,
        eps: float = 1e-8,
        weight_decay: float = 0.0,
        momentum: float = 0.0,
        centered: bool = False,
        fused: bool | None = False,
        **kept: Unpack[StateOptions],
    ) -> None:
        settings = {"alpha": alpha, "eps": eps, "weight_decay": weight_decay, "momentum": momentum}
        super().__init__(params, lr, fused, {**settings, "centered": centered}, **kept)
        self.v = self._keep()
        self.b = self._keep() if self._asked("momentum") else []
        self.m = self._keep() if self._asked("centered") else []

    def _change(self, index: int, weight: Tensor, grad: Tensor) -> Tensor:
        group, grad = self._group(index), self._decayed(index, weight, grad)
        square = self._mix(self.v[index], grad * grad, group["alpha"])
        if group["centered"]:
            mean = self._mix(self.m[index], grad, group["alpha"])
            square = square - mean * mean
        way = grad / (square.sqrt() + group["eps"])
        if group["momentum"]:
            way = self._write(self.b[index], group["momentum"] * self.b[index].cast(way.dtype) + way)
        found: Tensor = way * self._rate(index, weight)
        return found


class Adagrad(Counted):
    """Gradients over the root of the sum of their squares."""

    saved: ClassVar = {"sum": "v"}

    def __init__(
        self,
        params: Params,
        lr: float = 0.01,
        lr_decay: float = 0.0,
        weight_decay: float = 0.0,
        initial_accumulator_value: float = 0.0,
        eps: float = 1e-10,
        fused: bool | None = False,
        **kept: Unpack[StateOptions],
    ) -> None:
        settings = {"lr_decay": lr_decay, "eps": eps, "weight_decay": weight_decay}
        start = {"initial_accumulator_value": initial_accumulator_value}
        super().__init__(params, lr, fused, {**settings, **start}, **kept)
        self.v = self._keep()
        for index, state in enumerate(self.v):
            first = self._group(index)["initial_accumulator_value"]
            if first:
                state.assign(Tensor.full(state.shape, first, dtype=state.dtype, device=state.device)).realize()

    def _numbers_at(self, step: Tensor, group: Group) -> list[Tensor]:
        return [group.lr / ((step - 1) * group["lr_decay"] + 1)]

    def _change(self, index: int, weight: Tensor, grad: Tensor) -> Tensor:
        grad = self._decayed(index, weight, grad)
        (rate,) = self._numbered(index, weight, 1)
        total = self._write(self.v[index], self.v[index].cast(grad.dtype) + grad * grad)
        found: Tensor = rate * grad / (total.sqrt() + self._group(index)["eps"])
        return found


class Adadelta(Counted):
    """Gradients times the ratio of a running mean of changes to one of gradients."""

    below: ClassVar = {"rho": 1.0}
    saved: ClassVar = {"square_avg": "v", "acc_delta": "m"}

    def __init__(
        self,
        params: Params,
        lr: float = 1.0,
        rho: float = 0.9,
        eps: float = 1e-6,
        weight_decay: float = 0.0,
        fused: bool | None = False,
        **kept: Unpack[StateOptions],
    ) -> None:
        super().__init__(params, lr, fused, {"rho": rho, "eps": eps, "weight_decay": weight_decay}, **kept)
        self.v, self.m = self._keep(), self._keep()

    def _change(self, index: int, weight: Tensor, grad: Tensor) -> Tensor:
        group, grad = self._group(index), self._decayed(index, weight, grad)
        before = self.m[index].cast(grad.dtype)
        square = self._mix(self.v[index], grad * grad, group["rho"])
        change = (before + group["eps"]).sqrt() / (square + group["eps"]).sqrt() * grad
        self._write(self.m[index], group["rho"] * before + (1 - group["rho"]) * change * change)
        found: Tensor = change * self._rate(index, weight)
        return found


class Rprop(Counted):
    """A step size for each element, larger after equal signs of two gradients, smaller after different ones."""

    saved: ClassVar = {"prev": "m", "step_size": "v"}

    def __init__(
        self,
        params: Params,
        lr: float = 0.01,
        etas: tuple[float, float] = (0.5, 1.2),
        step_sizes: tuple[float, float] = (1e-6, 50.0),
        fused: bool | None = False,
        **kept: Unpack[StateOptions],
    ) -> None:
        super().__init__(params, lr, fused, {"etas": tuple(etas), "step_sizes": tuple(step_sizes)}, **kept)
        for group in self.param_groups:
            less, more = group["etas"]
            if not 0 < less < 1 < more:
                raise ArgumentError(f"Rprop: etas={group['etas']!r}", fix="They are below 1, and above 1.")
        self.m, self.v = self._keep(), self._keep()
        for index, state in enumerate(self.v):
            state.assign(self._group(index).filled(state)).realize()

    def _change(self, index: int, weight: Tensor, grad: Tensor) -> Tensor:
        group, before = self._group(index), self.m[index].cast(grad.dtype)
        (less, more), (least, most) = group["etas"], group["step_sizes"]
        product = grad * before
        factor = (product > 0).where(more, (product < 0).where(less, 1.0))
        size = self._write(self.v[index], (self.v[index].cast(grad.dtype) * factor).clip(least, most))
        way = self._write(self.m[index], (product < 0).where(0.0, grad))
        return way.sign() * size


class ASGD(Counted):
    """Gradient descent whose rate falls, and the mean of parameters from step `t0` on, in `ax`."""

    saved: ClassVar = {"ax": "ax"}

    def __init__(
        self,
        params: Params,
        lr: float = 0.01,
        lambd: float = 1e-4,
        alpha: float = 0.75,
        t0: float = 1e6,
        weight_decay: float = 0.0,
        fused: bool | None = False,
        **kept: Unpack[StateOptions],
    ) -> None:
        settings = {"lambd": lambd, "alpha": alpha, "t0": t0, "weight_decay": weight_decay}
        super().__init__(params, lr, fused, settings, **kept)
        self.ax = self._keep()

    def _numbers_at(self, step: Tensor, group: Group) -> list[Tensor]:
        """The rate, and the share of new parameters in the mean: those that were known before the step."""
        rate = group.lr / ((step - 1) * group["lambd"] * group.lr + 1) ** group["alpha"]
        return [rate, 1 / (step - 1 - group["t0"]).maximum(1.0)]

    def _change(self, index: int, weight: Tensor, grad: Tensor) -> Tensor:
        grad = self._decayed(index, weight, grad)
        rate, share = self._numbered(index, weight, 2)
        change: Tensor = rate * (grad + self._group(index)["lambd"] * weight)
        mean = self.ax[index].cast(weight.dtype)
        self._write(self.ax[index], mean + (weight - change - mean) * share)
        return change


class Adafactor(Counted):
    """Gradients over roots of means of squares that are kept for rows and columns alone; rates in proportion to the
    size of a parameter. `eps` are the least square, that of the dtype if None, and the least size.
    """

    signed: ClassVar = frozenset({"beta2_decay"})
    takes_complex = False
    saved: ClassVar = {"row_var": "rows", "col_var": "columns", "variance": "v"}

    def __init__(
        self,
        params: Params,
        lr: float = 0.01,
        beta2_decay: float = -0.8,
        eps: tuple[float | None, float] = (None, 1e-3),
        d: float = 1.0,
        weight_decay: float = 0.0,
        fused: bool | None = False,
        **kept: Unpack[StateOptions],
    ) -> None:
        settings = {"eps": tuple(eps), "d": d, "weight_decay": weight_decay}
        if not beta2_decay <= 0:
            raise ArgumentError(f"Adafactor: beta2_decay={beta2_decay!r}", fix="It is at most 0.")
        super().__init__(params, lr, fused, {**settings, "beta2_decay": beta2_decay}, **kept)
        self.rows = [self._part(tensor, -1) for tensor in self.params]
        self.columns = [self._part(tensor, -2) for tensor in self.params]
        self.v = [self._part(tensor, None) for tensor in self.params]
        Tensor.realize(*self.rows, *self.columns, *self.v)

    def _check_fused(self, fused: bool) -> None:
        if fused:
            raise ArgumentError(
                "Adafactor: fused=True", fix="Rows and columns are those of each parameter: leave it out."
            )

    def _part(self, tensor: Tensor, axis: int | None) -> Tensor:
        """Zeros for a mean along an axis of matrices, or for all of a vector; one number where it is not needed."""
        shape = list(tensor.shape)
        if (tensor.ndim > 1) != (axis is not None):
            shape = []
        elif axis is not None:
            shape[axis] = 1
        wide = self.state_dtype or (dtypes.float32 if tensor.dtype.itemsize < 4 else tensor.dtype)
        return Tensor.zeros(*shape, dtype=wide, device=self._home(tensor), requires_grad=False)

    def _numbers_at(self, step: Tensor, group: Group) -> list[Tensor]:
        """The share of new squares, and the rate."""
        return [step ** group["beta2_decay"], group.lr.minimum(1 / step.sqrt())]

    def _change(self, index: int, weight: Tensor, grad: Tensor) -> Tensor:
        group = self._group(index)
        share, rate = self._numbered(index, weight, 2)
        least, smallest = group["eps"]
        least = 2.0 ** -dtypes.finfo(weight.dtype)[1] if least is None else least
        size = weight.square().mean().sqrt().maximum(smallest) * rate
        if weight.ndim > 1:
            rows = self._blend(self.rows[index], grad.square().mean(-1, keepdim=True), share)
            columns = self._blend(self.columns[index], grad.square().mean(-2, keepdim=True), share)
            square = rows * columns / rows.mean(-2, keepdim=True).maximum(least)
        else:
            square = self._blend(self.v[index], grad.square(), share)
        way = grad * square.maximum(least * least).rsqrt()
        change = way * (size / (way.square().mean().sqrt() / group["d"]).maximum(1.0))
        found: Tensor = change + self._rate(index, weight) * group["weight_decay"] * weight
        return found

    def _blend(self, state: Tensor, value: Tensor, share: Tensor) -> Tensor:
        kept = state.cast(value.dtype)
        return self._write(state, kept + (value - kept) * share)
