"""Recurrent layers: a cell is one step; LSTM and GRU run a cell over time, layer by layer."""

from __future__ import annotations

from whit.nn.linear import uniform_weight
from whit.tensor import Tensor

State = tuple[Tensor, Tensor]


class _Cell:
    """The weights of a step, `gates` of them side by side."""

    gates = 4

    def __init__(self, input_size: int, hidden_size: int, bias: bool = True) -> None:
        self.input_size, self.hidden_size = input_size, hidden_size
        wide = self.gates * hidden_size
        self.weight_ih = uniform_weight(wide, input_size, fan_in=hidden_size)
        self.weight_hh = uniform_weight(wide, hidden_size, fan_in=hidden_size)
        self.bias_ih = uniform_weight(wide, fan_in=hidden_size) if bias else None
        self.bias_hh = uniform_weight(wide, fan_in=hidden_size) if bias else None

    def _start(self, x: Tensor) -> Tensor:
        return Tensor.zeros(*x.shape[:-1], self.hidden_size, dtype=x.dtype, device=x.device)


class LSTMCell(_Cell):
    """One step of a long short-term memory: (hidden, cell) from an input and the state before."""

    def __call__(self, x: Tensor, hc: State | None = None) -> State:
        h, c = hc if hc is not None else (self._start(x), self._start(x))
        both = x.linear(self.weight_ih.transpose(), self.bias_ih) + h.linear(self.weight_hh.transpose(), self.bias_hh)
        take, forget, new, give = both.chunk(4, dim=-1)
        cell = forget.sigmoid() * c + take.sigmoid() * new.tanh()
        return give.sigmoid() * cell.tanh(), cell


class GRUCell(_Cell):
    """One step of a gated recurrent unit: the hidden state from an input and the one before."""

    gates = 3

    def __call__(self, x: Tensor, h: Tensor | None = None) -> Tensor:
        old = h if h is not None else self._start(x)
        inside = x.linear(self.weight_ih.transpose(), self.bias_ih).chunk(3, dim=-1)
        before = old.linear(self.weight_hh.transpose(), self.bias_hh).chunk(3, dim=-1)
        reset, keep = (inside[0] + before[0]).sigmoid(), (inside[1] + before[1]).sigmoid()
        new = (inside[2] + reset * before[2]).tanh()
        return (1 - keep) * new + keep * old


class LSTM:
    """Layers of LSTM cells over x of shape (time, batch, input); outputs of the last layer, and the last states."""

    def __init__(self, input_size: int, hidden_size: int, num_layers: int = 1, bias: bool = True) -> None:
        self.cells = [LSTMCell(input_size if i == 0 else hidden_size, hidden_size, bias) for i in range(num_layers)]

    def __call__(self, x: Tensor, hc: State | None = None) -> tuple[Tensor, State]:
        hidden, cell = [], []
        for layer, step in enumerate(self.cells):
            state = None if hc is None else (hc[0][layer], hc[1][layer])
            outputs = []
            for t in range(x.shape[0]):
                state = step(x[t], state)
                outputs.append(state[0])
            x = outputs[0].stack(*outputs[1:])
            assert state is not None
            hidden.append(state[0])
            cell.append(state[1])
        return x, (hidden[0].stack(*hidden[1:]), cell[0].stack(*cell[1:]))


class GRU:
    """Layers of GRU cells over x of shape (time, batch, input); outputs of the last layer, and the last states."""

    def __init__(self, input_size: int, hidden_size: int, num_layers: int = 1, bias: bool = True) -> None:
        self.cells = [GRUCell(input_size if i == 0 else hidden_size, hidden_size, bias) for i in range(num_layers)]

    def __call__(self, x: Tensor, h: Tensor | None = None) -> tuple[Tensor, Tensor]:
        last = []
        for layer, step in enumerate(self.cells):
            state = None if h is None else h[layer]
            outputs = []
            for t in range(x.shape[0]):
                state = step(x[t], state)
                outputs.append(state)
            x = outputs[0].stack(*outputs[1:])
            assert state is not None
            last.append(state)
        return x, last[0].stack(*last[1:])
