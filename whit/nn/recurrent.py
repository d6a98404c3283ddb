"""Recurrent layers: a cell is one step; LSTM and GRU run a cell over time, layer by layer.

A step is a call of a function, so that all steps are the same kernels, however many there are. What the weights of the
input make of it does not depend on the step before: layers compute it for all times at once.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from whit.nn.linear import uniform_weight
from whit.nn.module import Module
from whit.tensor import Tensor

State = tuple[Tensor, Tensor]


def _call(step: Callable[..., Sequence[Tensor]], *tensors: Tensor | None) -> list[Tensor]:
    """A step as one node of the graph: all steps have the same kernels."""
    from whit.tensor.calls import call_pure  # lazy: it loads the runtime, which `import whit.nn` must not

    return call_pure(step, *tensors)


def project(x: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
    """What goes into the gates: x of shape (..., size) by weights (gates * hidden, size)."""
    return x.linear(weight.transpose(), bias)


def lstm_step(inputs: Tensor, h: Tensor, c: Tensor, weight: Tensor, bias: Tensor | None) -> State:
    """The next (hidden, cell) from the projected input."""
    take, forget, new, give = (inputs + project(h, weight, bias)).chunk(4, dim=-1)
    cell = forget.sigmoid() * c + take.sigmoid() * new.tanh()
    return give.sigmoid() * cell.tanh(), cell


def gru_step(inputs: Tensor, h: Tensor, weight: Tensor, bias: Tensor | None) -> tuple[Tensor]:
    """The next hidden state from the projected input."""
    inside, before = inputs.chunk(3, dim=-1), project(h, weight, bias).chunk(3, dim=-1)
    reset, keep = (inside[0] + before[0]).sigmoid(), (inside[1] + before[1]).sigmoid()
    new = (inside[2] + reset * before[2]).tanh()
    return ((1 - keep) * new + keep * h,)


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


class _Cell(Module):
    """The weights of a step, `gates` of them side by side."""

    gates = 4

    def __init__(self, input_size: int, hidden_size: int, bias: bool = True) -> None:
        self.input_size, self.hidden_size = input_size, hidden_size
        wide = self.gates * hidden_size
        self.weight_ih = uniform_weight(wide, input_size, fan_in=hidden_size)
        self.weight_hh = uniform_weight(wide, hidden_size, fan_in=hidden_size)
        self.bias_ih = uniform_weight(wide, fan_in=hidden_size) if bias else None
        self.bias_hh = uniform_weight(wide, fan_in=hidden_size) if bias else None

    def start(self, x: Tensor) -> Tensor:
        """The state before the first input x."""
        return Tensor.zeros(*x.shape[:-1], self.hidden_size, dtype=x.dtype, device=x.device)


class LSTMCell(_Cell):
    """One step of a long short-term memory: (hidden, cell) from an input and the state before."""

    def __call__(self, x: Tensor, hc: State | None = None) -> State:
        """x of shape (batch, input_size) and the state before, zeros if there is none: the next (hidden, cell)."""
        state = hc if hc is not None else (self.start(x), self.start(x))
        h, c = _call(lstm_cell, x, *state, self.weight_ih, self.weight_hh, self.bias_ih, self.bias_hh)
        return h, c


class GRUCell(_Cell):
    """One step of a gated recurrent unit: the hidden state from an input and the one before."""

    gates = 3

    def __call__(self, x: Tensor, h: Tensor | None = None) -> Tensor:
        """x of shape (batch, input_size) and the state before, zeros if there is none: the next hidden state."""
        old = h if h is not None else self.start(x)
        (new,) = _call(gru_cell, x, old, self.weight_ih, self.weight_hh, self.bias_ih, self.bias_hh)
        return new


class LSTM(Module):
    """Layers of LSTM cells over x of shape (time, batch, input); outputs of the last layer, and the last states."""

    def __init__(self, input_size: int, hidden_size: int, num_layers: int = 1, bias: bool = True) -> None:
        self.cells = [LSTMCell(input_size if i == 0 else hidden_size, hidden_size, bias) for i in range(num_layers)]

    def __call__(self, x: Tensor, hc: State | None = None) -> tuple[Tensor, State]:
        """x of shape (time, batch, input_size) and (hidden, cell) of each layer: (time, batch, hidden_size), and the
        last (hidden, cell), each of shape (num_layers, batch, hidden_size)."""
        hidden, cell = [], []
        for layer, step in enumerate(self.cells):
            h, c = (step.start(x[0]), step.start(x[0])) if hc is None else (hc[0][layer], hc[1][layer])
            inputs = project(x, step.weight_ih, step.bias_ih)
            outputs = []
            for t in range(x.shape[0]):
                h, c = _call(lstm_step, inputs[t], h, c, step.weight_hh, step.bias_hh)
                outputs.append(h)
            x = outputs[0].stack(*outputs[1:])
            hidden.append(h)
            cell.append(c)
        return x, (hidden[0].stack(*hidden[1:]), cell[0].stack(*cell[1:]))


class GRU(Module):
    """Layers of GRU cells over x of shape (time, batch, input); outputs of the last layer, and the last states."""

    def __init__(self, input_size: int, hidden_size: int, num_layers: int = 1, bias: bool = True) -> None:
        self.cells = [GRUCell(input_size if i == 0 else hidden_size, hidden_size, bias) for i in range(num_layers)]

    def __call__(self, x: Tensor, h: Tensor | None = None) -> tuple[Tensor, Tensor]:
        """x of shape (time, batch, input_size) and the hidden state of each layer: (time, batch, hidden_size), and the
        last hidden states, of shape (num_layers, batch, hidden_size)."""
        last = []
        for layer, step in enumerate(self.cells):
            state = step.start(x[0]) if h is None else h[layer]
            inputs = project(x, step.weight_ih, step.bias_ih)
            outputs = []
            for t in range(x.shape[0]):
                (state,) = _call(gru_step, inputs[t], state, step.weight_hh, step.bias_hh)
                outputs.append(state)
            x = outputs[0].stack(*outputs[1:])
            last.append(state)
        return x, last[0].stack(*last[1:])
