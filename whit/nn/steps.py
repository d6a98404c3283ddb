"""One step of recurrent layers: functions of nothing but tensors, which `recurrent.py` runs over time.

`inputs` is what the weights of the input made of it, `weight` and `bias` are those of the hidden state. Each returns
the next states; the first one is also the output.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

from whit.tensor import Tensor

State = tuple[Tensor, Tensor]
Step = Callable[..., Sequence[Tensor]]


def project(x: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
    """What goes into the gates: x of shape (..., size) by weights (gates * hidden, size)."""
    return x.linear(weight.transpose(), bias)


def lstm_step(inputs: Tensor, h: Tensor, c: Tensor, weight: Tensor, bias: Tensor | None) -> State:
    """The next (hidden, cell)."""
    take, forget, new, give = (inputs + project(h, weight, bias)).chunk(4, dim=-1)
    cell = forget.sigmoid() * c + take.sigmoid() * new.tanh()
    return give.sigmoid() * cell.tanh(), cell


def projected_lstm_step(
    inputs: Tensor, h: Tensor, c: Tensor, weight: Tensor, bias: Tensor | None, smaller: Tensor
) -> State:
    """The same, with the hidden state times one more weight."""
    hidden, cell = lstm_step(inputs, h, c, weight, bias)
    return project(hidden, smaller, None), cell


def gru_step(inputs: Tensor, h: Tensor, weight: Tensor, bias: Tensor | None) -> tuple[Tensor]:
    """The next hidden state."""
    inside, before = inputs.chunk(3, dim=-1), project(h, weight, bias).chunk(3, dim=-1)
    reset, keep = (inside[0] + before[0]).sigmoid(), (inside[1] + before[1]).sigmoid()
    new = (inside[2] + reset * before[2]).tanh()
    return ((1 - keep) * new + keep * h,)


def tanh_step(inputs: Tensor, h: Tensor, weight: Tensor, bias: Tensor | None) -> tuple[Tensor]:
    """The next hidden state."""
    return ((inputs + project(h, weight, bias)).tanh(),)


def relu_step(inputs: Tensor, h: Tensor, weight: Tensor, bias: Tensor | None) -> tuple[Tensor]:
    """The next hidden state."""
    return ((inputs + project(h, weight, bias)).relu(),)


# ---- steps as a scan takes them

Rows = Sequence[Tensor]


def _over_time(step: Step) -> Callable[[Rows, Rows, Sequence[Tensor | None]], tuple[list[Tensor], list[Tensor]]]:
    """A step -> one from ([inputs] or [inputs, live], states, weights) to (states, [output]). Where a sequence has
    ended, its states stay and its output is 0."""

    @functools.wraps(step)
    def scan_step(parts: Rows, states: Rows, weights: Sequence[Tensor | None]) -> tuple[list[Tensor], list[Tensor]]:
        inputs, *rest = parts
        new = list(step(inputs, *states, *weights))
        if not rest:
            return new, new[:1]
        (live,) = rest
        kept = [live.where(now, before) for now, before in zip(new, states, strict=True)]
        return kept, [live.where(new[0], 0)]

    return scan_step


OVER_TIME: dict[Step, Any] = {
    step: _over_time(step) for step in (lstm_step, projected_lstm_step, gru_step, tanh_step, relu_step)
}


# ---- steps from the input itself


def lstm_cell(
    x: Tensor, h: Tensor, c: Tensor, w_ih: Tensor, w_hh: Tensor, b_ih: Tensor | None, b_hh: Tensor | None
) -> State:
    """A step of an LSTM."""
    return lstm_step(project(x, w_ih, b_ih), h, c, w_hh, b_hh)


def gru_cell(
    x: Tensor, h: Tensor, w_ih: Tensor, w_hh: Tensor, b_ih: Tensor | None, b_hh: Tensor | None
) -> tuple[Tensor]:
    """A step of a GRU."""
    return gru_step(project(x, w_ih, b_ih), h, w_hh, b_hh)


def tanh_cell(
    x: Tensor, h: Tensor, w_ih: Tensor, w_hh: Tensor, b_ih: Tensor | None, b_hh: Tensor | None
) -> tuple[Tensor]:
    """A step of an RNN."""
    return tanh_step(project(x, w_ih, b_ih), h, w_hh, b_hh)


def relu_cell(
    x: Tensor, h: Tensor, w_ih: Tensor, w_hh: Tensor, b_ih: Tensor | None, b_hh: Tensor | None
) -> tuple[Tensor]:
    """The same with relu."""
    return relu_step(project(x, w_ih, b_ih), h, w_hh, b_hh)


def call_step(step: Callable[..., Sequence[Tensor]], *tensors: Tensor | None) -> list[Tensor]:
    """A step as one node of the graph: all steps have the same kernels."""
    from whit.tensor.calls import call_pure  # lazy: it loads the runtime, which `import whit.nn` must not

    return call_pure(step, *tensors)
