"""LBFGS: Newton's method with what the last gradients say about curvature. For few parameters and exact losses.

    opt = LBFGS(params, line_search_fn="strong_wolfe")
    def closure():
        opt.zero_grad()
        return loss_of(params).backward()
    opt.step(closure)

A step calls the closure several times, and decides by the numbers that it gives, so it cannot be captured by `TinyJit`;
the closure can.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple, Unpack

from whit.errors import ArgumentError
from whit.nn.optim.base import Optimizer, Params, StateOptions
from whit.nn.optim.parts import as_parts, from_parts
from whit.tensor import Tensor

LEAST_CURVATURE = 1e-10  # of a pair that is kept
DECREASE, SLOPE = 1e-4, 0.9  # the shares of Wolfe's conditions
MOST_TRIES = 25  # of a line search


class Point(NamedTuple):
    """How far along a line, the loss and the gradient there, and the slope along the line."""

    t: float
    loss: float
    grad: Tensor
    slope: float


class LBFGS(Optimizer):
    """`max_iter` directions a step, no more than `max_eval` calls of the closure; one group of parameters.

    `line_search_fn="strong_wolfe"` looks for a good length in each direction; without it the length is the rate.
    """

    def __init__(
        self,
        params: Params,
        lr: float = 1.0,
        max_iter: int = 20,
        max_eval: int | None = None,
        tolerance_grad: float = 1e-7,
        tolerance_change: float = 1e-9,
        history_size: int = 100,
        line_search_fn: str | None = None,
        **kept: Unpack[StateOptions],
    ) -> None:
        if line_search_fn not in (None, "strong_wolfe"):
            raise ArgumentError(f"LBFGS: line_search_fn={line_search_fn!r}", fix='It is None or "strong_wolfe".')
        settings = {
            "max_iter": max_iter,
            "max_eval": max_iter * 5 // 4 if max_eval is None else max_eval,
            "tolerance_grad": tolerance_grad,
            "tolerance_change": tolerance_change,
            "history_size": history_size,
            "line_search_fn": line_search_fn,
        }
        super().__init__(params, lr, False, settings, **kept)
        if len(self.param_groups) != 1:
            raise ArgumentError(f"LBFGS: {len(self.param_groups)} groups", fix="It has one direction for all.")
        self.directions: list[Tensor] = []  # changes of gradients, the oldest first
        self.lengths: list[Tensor] = []  # changes of parameters
        self._way: Tensor | None = None
        self._before: Tensor | None = None  # the gradient before the last change
        self._t, self._scale, self._iterations = 0.0, 1.0, 0

    def add_param_group(self, param_group: Mapping[str, Any]) -> None:
        """Refuses: there is one direction for all."""
        raise ArgumentError("LBFGS: 2 groups", fix="It has one direction for all.")

    def _checked_setting(self, name: str, key: str, value: Any) -> Any:
        found = super()._checked_setting(name, key, value)
        return int(found) if key in ("max_iter", "max_eval", "history_size") else found

    # ---- all parameters as one vector

    def _gradient(self, tensor: Tensor) -> Tensor:
        return tensor.grad if tensor.grad is not None else tensor.detach() * 0

    def _flat_gradient(self) -> Tensor:
        first, *others = [as_parts(self._gradient(tensor).detach()).reshape(-1) for tensor in self.params]
        sign = -1.0 if self.param_groups[0]["maximize"] else 1.0
        return ((first.cat(*others) if others else first) * sign).realize()

    def _set(self, start: list[Tensor], way: Tensor, t: float) -> None:
        """The parameters at start + t * way."""
        at = 0
        for tensor, first in zip(self.params, start, strict=True):
            parts = as_parts(first)
            part = way[at : at + parts.numel()].reshape(parts.shape)
            tensor.assign(from_parts(parts + part.cast(parts.dtype) * t, tensor.dtype).detach())
            at += parts.numel()
        Tensor.realize(*self.params)

    def _copies(self) -> list[Tensor]:
        copies = [tensor.detach().clone() for tensor in self.params]
        Tensor.realize(*copies)
        return copies

    # ---- a step

    def step(self, skip: Tensor | Callable[[], Any] | None = None) -> Any:
        """Goes on in several directions; the loss that the closure gave first."""
        if skip is None or isinstance(skip, Tensor):
            raise ArgumentError(
                "LBFGS: step() without a closure", fix="Give a function that computes loss and gradients."
            )
        closure, group = skip, self.param_groups[0]
        first = closure()
        loss, grad = _number(first), self._flat_gradient()
        calls = 1
        for n in range(1, group["max_iter"] + 1):
            if _largest(grad) <= group["tolerance_grad"]:
                break
            way = self._direction(grad)
            self._before, before = grad, loss
            self._iterations += 1
            rate = group.number()
            self._t = min(1.0, 1.0 / float(grad.abs().sum().item())) * rate if self._iterations == 1 else rate
            slope = _dot(grad, way)
            if slope > -group["tolerance_change"]:
                break
            start = self._copies()
            if group["line_search_fn"]:
                found, more = self._searched(closure, start, way, Point(0.0, loss, grad, slope))
                self._t, loss, grad, _ = found
                self._set(start, way, self._t)
                calls += more
            else:
                self._set(start, way, self._t)
                if n < group["max_iter"]:
                    loss, grad = _number(closure()), self._flat_gradient()
                    calls += 1
            is_small = _largest(way) * self._t <= group["tolerance_change"]
            if calls >= group["max_eval"] or is_small or abs(loss - before) < group["tolerance_change"]:
                break
        return first

    def _direction(self, grad: Tensor) -> Tensor:
        """Where to go: the gradient times what is known of the inverse of the second derivatives."""
        if self._before is None or self._way is None:
            self._way = (-grad).realize()
            return self._way
        change, length = (grad - self._before).realize(), (self._way * self._t).realize()
        curvature = _dot(change, length)
        if curvature > LEAST_CURVATURE:
            most = self.param_groups[0]["history_size"]
            self.directions = [*self.directions, change][-most:]
            self.lengths = [*self.lengths, length][-most:]
            self._scale = curvature / _dot(change, change)
        pairs = list(zip(self.directions, self.lengths, strict=True))
        rates = [1.0 / _dot(y, s) for y, s in pairs]
        q, shares = -grad, []
        for (y, s), rate in zip(reversed(pairs), reversed(rates), strict=True):
            shares.append(_dot(s, q) * rate)
            q = (q - y * shares[-1]).realize()
        way = q * self._scale
        for (y, s), rate, share in zip(pairs, rates, reversed(shares), strict=True):
            way = (way + s * (share - _dot(y, way) * rate)).realize()
        self._way = way.realize()
        return self._way

    # ---- a line search

    def _searched(
        self, closure: Callable[[], Any], start: list[Tensor], way: Tensor, origin: Point
    ) -> tuple[Point, int]:
        """A point on the line where the loss is low enough and the slope flat enough, and the calls it took."""
        calls = 0

        def look(t: float) -> Point:
            nonlocal calls
            calls += 1
            self._set(start, way, t)
            loss, grad = _number(closure()), self._flat_gradient()
            return Point(t, loss, grad, _dot(grad, way))

        before, now = origin, look(self._t)
        while calls < MOST_TRIES:
            if not _is_low(now, origin) or (calls > 1 and now.loss >= before.loss):
                return self._narrowed(look, origin, before, now, MOST_TRIES - calls), calls
            if abs(now.slope) <= -SLOPE * origin.slope:
                return now, calls
            if now.slope >= 0:
                return self._narrowed(look, origin, now, before, MOST_TRIES - calls), calls
            further = _lowest(before, now, now.t + 0.01 * (now.t - before.t), now.t * 10)
            before, now = now, look(further)
        return now, calls

    def _narrowed(self, look: Callable[[float], Point], origin: Point, low: Point, high: Point, tries: int) -> Point:
        """Between two points, of which the first has the lower loss."""
        tolerance = self.param_groups[0]["tolerance_change"]
        for _ in range(tries):
            width = abs(high.t - low.t)
            if width * _largest(low.grad) < tolerance:
                break
            least, most = min(low.t, high.t) + 0.1 * width, max(low.t, high.t) - 0.1 * width
            now = look(_lowest(low, high, least, most))
            if not _is_low(now, origin) or now.loss >= low.loss:
                high = now
                continue
            if abs(now.slope) <= -SLOPE * origin.slope:
                return now
            if now.slope * (high.t - low.t) >= 0:
                high = low
            low = now
        return low


def _is_low(point: Point, origin: Point) -> bool:
    return point.loss <= origin.loss + DECREASE * point.t * origin.slope  # NaN is not


def _lowest(first: Point, second: Point, least: float, most: float) -> float:
    """Where the cubic through two points with these slopes is lowest, kept between limits; else their middle."""
    low, high = (first, second) if first.t <= second.t else (second, first)
    if low.t == high.t or not all(map(math.isfinite, (low.loss, high.loss, low.slope, high.slope))):
        return (least + most) / 2
    d = low.slope + high.slope - 3 * (low.loss - high.loss) / (low.t - high.t)
    inside = d * d - low.slope * high.slope
    if inside < 0:
        return (least + most) / 2
    root = math.sqrt(inside)
    below = high.slope - low.slope + 2 * root
    if below == 0:
        return (least + most) / 2
    return min(max(high.t - (high.t - low.t) * (high.slope + root - d) / below, least), most)


def _number(loss: Any) -> float:
    return float(loss.item()) if isinstance(loss, Tensor) else float(loss)


def _dot(first: Tensor, second: Tensor) -> float:
    return float((first * second).sum().item())


def _largest(x: Tensor) -> float:
    return float(x.abs().max().item())
