"""Recurrent layers: RNN, LSTM and GRU run a step over time, layer by layer, in one or both directions.

A layer is a scan (`whit.scan`): its step is compiled once, whatever the length, and all steps are one native call. What
the weights of the input make of it does not depend on the step before: layers compute it for all times at once. The
loop over time stands in one place, `recur`; the steps themselves are in `steps.py`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from whit.dtype import DTypeLike
from whit.errors import ArgumentError, ShapeError
from whit.ir.op import spell_shape
from whit.nn.dropout import dropped
from whit.nn.linear import uniform_weight
from whit.nn.module import Module
from whit.nn.placed import placed
from whit.nn.sequences import PackedSequence
from whit.nn.steps import (
    OVER_TIME,
    State,
    call_step,
    gru_cell,
    gru_step,
    lstm_cell,
    lstm_step,
    project,
    projected_lstm_step,
    relu_cell,
    relu_step,
    tanh_cell,
    tanh_step,
)
from whit.tensor import Tensor

States = list[Tensor]


class Loop(NamedTuple):
    """What runs over time: the step, its weights, and which way."""

    step: Callable[..., Sequence[Tensor]]
    weights: tuple[Tensor | None, ...]
    is_reversed: bool


def recur(loop: Loop, inputs: Tensor, states: States, live: Tensor | None) -> tuple[Tensor, States]:
    """Inputs (time, batch, ...) and the first states: the first state at each time, and all after the last one.

    `live`, (time, batch, 1), says where a sequence has not ended: behind its end states stay, and outputs are 0.
    """
    from whit.tensor.control.loops import scan_pure  # lazy: it loads the runtime, which `import whit.nn` must not

    parts = [inputs] if live is None else [inputs, live]
    last, (outputs,) = scan_pure(OVER_TIME[loop.step], parts, states, loop.weights, loop.is_reversed)
    return outputs, last


# ---- cells: one step


class _Cell(Module):
    """The weights of a step, `gates` of them side by side."""

    gates = 4

    @placed
    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        bias: bool = True,
        device: str | None = None,
        dtype: DTypeLike | None = None,
    ) -> None:
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
        h, c = call_step(lstm_cell, x, *state, self.weight_ih, self.weight_hh, self.bias_ih, self.bias_hh)
        return h, c


class GRUCell(_Cell):
    """One step of a gated recurrent unit: the hidden state from an input and the one before."""

    gates = 3

    def __call__(self, x: Tensor, h: Tensor | None = None) -> Tensor:
        """x of shape (batch, input_size) and the state before, zeros if there is none: the next hidden state."""
        old = h if h is not None else self.start(x)
        (new,) = call_step(gru_cell, x, old, self.weight_ih, self.weight_hh, self.bias_ih, self.bias_hh)
        return new


class RNNCell(_Cell):
    """One step of a plain recurrent layer: tanh or relu of sums."""

    gates = 1

    @placed
    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        bias: bool = True,
        nonlinearity: str = "tanh",
        device: str | None = None,
        dtype: DTypeLike | None = None,
    ) -> None:
        super().__init__(input_size, hidden_size, bias)
        self.nonlinearity = _known_nonlinearity("RNNCell", nonlinearity)

    def __call__(self, x: Tensor, h: Tensor | None = None) -> Tensor:
        """x of shape (batch, input_size) and the state before, zeros if there is none: the next hidden state."""
        old = h if h is not None else self.start(x)
        cell = tanh_cell if self.nonlinearity == "tanh" else relu_cell
        (new,) = call_step(cell, x, old, self.weight_ih, self.weight_hh, self.bias_ih, self.bias_hh)
        return new


# ---- layers: steps over time


class _Recurrent(Module):
    """Layers of steps. Weights have PyTorch's names: `weight_ih_l0`, `bias_hh_l1_reverse` ..."""

    gates = 1
    states = 1
    sums_biases = True  # whether both biases are added to the same: then the one of the state is added for all times

    @placed
    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        num_layers: int = 1,
        bias: bool = True,
        batch_first: bool = False,
        dropout: float = 0.0,
        bidirectional: bool = False,
        device: str | None = None,
        dtype: DTypeLike | None = None,
    ) -> None:
        self._make(input_size, hidden_size, num_layers, bias, batch_first, dropout, bidirectional, 0)

    def _make(
        self,
        input_size: int,
        hidden_size: int,
        num_layers: int,
        bias: bool,
        batch_first: bool,
        dropout: float,
        bidirectional: bool,
        proj_size: int,
    ) -> None:
        name = type(self).__name__
        if hidden_size < 1 or num_layers < 1:
            raise ArgumentError(f"{name}: hidden_size={hidden_size}, num_layers={num_layers}", fix="Both are above 0.")
        if not 0 <= proj_size < hidden_size:
            raise ArgumentError(
                f"{name}: proj_size={proj_size} of hidden_size={hidden_size}", fix="It is 0, or less than hidden_size."
            )
        if not isinstance(dropout, int | float) or not 0 <= dropout <= 1:
            raise ArgumentError(f"{name}: dropout={dropout!r} is no probability", fix="Use one from 0 to 1.")
        self.input_size, self.hidden_size, self.num_layers, self.bias = input_size, hidden_size, num_layers, bias
        self.batch_first, self.dropout, self.bidirectional, self.proj_size = (
            batch_first,
            dropout,
            bidirectional,
            proj_size,
        )
        given, wide = proj_size or hidden_size, self.gates * hidden_size
        for layer in range(num_layers):
            inputs = input_size if layer == 0 else given * len(self._ways)
            for way in self._ways:
                shapes: dict[str, tuple[int, ...]] = {"weight_ih": (wide, inputs), "weight_hh": (wide, given)}
                shapes |= {"bias_ih": (wide,), "bias_hh": (wide,)} if bias else {}
                shapes |= {"weight_hr": (proj_size, hidden_size)} if proj_size else {}
                for label, shape in shapes.items():
                    setattr(self, f"{label}_l{layer}{way}", uniform_weight(*shape, fan_in=hidden_size))

    @property
    def _ways(self) -> tuple[str, ...]:
        return ("", "_reverse") if self.bidirectional else ("",)

    def _step(self) -> Callable[..., Sequence[Tensor]]:
        """The function of one step."""
        raise NotImplementedError(type(self).__name__)

    def _loop(self, layer: int, way: str) -> tuple[Tensor, Tensor | None, Loop]:
        """The weights of the inputs, and the loop of one layer in one direction."""
        w_ih, w_hh, b_ih, b_hh, w_hr = (
            getattr(self, f"{label}_l{layer}{way}", None)
            for label in ("weight_ih", "weight_hh", "bias_ih", "bias_hh", "weight_hr")
        )
        assert w_ih is not None, "every layer has weights"
        if self.sums_biases and b_ih is not None and b_hh is not None:
            b_ih, b_hh = b_ih + b_hh, None
        weights = (w_hh, b_hh, w_hr) if self.proj_size else (w_hh, b_hh)
        return w_ih, b_ih, Loop(self._step(), weights, way != "")

    def _sizes(self) -> tuple[int, ...]:
        """The last axis of each state."""
        return (self.proj_size or self.hidden_size, self.hidden_size)[: self.states]

    def _run(self, x: Any, given: Sequence[Tensor] | None) -> tuple[Any, States]:
        """Outputs of the last layer and the last states, in the form of the input."""
        if isinstance(x, PackedSequence):
            outputs, last = self._over_time(x.sequences, given, x.live())
            return PackedSequence(outputs, x.lengths), last
        if x.ndim not in (2, 3) or x.shape[-1] != self.input_size:
            raise ShapeError(
                f"{type(self).__name__}: an input of shape {spell_shape(x.shape)} for input_size={self.input_size}",
                x._made(),
                "It is (batch, time, input_size), or without the batch."
                if self.batch_first
                else "It is (time, batch, input_size), or without the batch.",
            )
        if x.ndim == 2:
            states = None if given is None else [state.unsqueeze(1) for state in given]
            outputs, last = self._over_time(x.unsqueeze(1), states, None)
            return outputs.squeeze(1), [state.squeeze(1) for state in last]
        outputs, last = self._over_time(x.transpose(0, 1) if self.batch_first else x, given, None)
        return outputs.transpose(0, 1) if self.batch_first else outputs, last

    def _start(self, x: Tensor, given: Sequence[Tensor] | None) -> Sequence[Tensor]:
        """The states before the first time, each (layers * directions, batch, size); zeros if none are given."""
        if not x.shape[0]:
            raise ShapeError(f"{type(self).__name__}: a sequence of no time", x._made(), "Give at least one step.")
        rows = self.num_layers * len(self._ways)
        wanted = [(rows, x.shape[1], size) for size in self._sizes()]
        if given is None:
            return [Tensor.zeros(*shape, dtype=x.dtype, device=x.device) for shape in wanted]
        found = [state.shape for state in given]
        if found != wanted:
            raise ShapeError(
                f"{type(self).__name__}: states {', '.join(map(spell_shape, found))} for an input "
                f"{spell_shape(x.shape)} (time, batch, size)",
                x._made(),
                f"They are {', '.join(map(spell_shape, wanted))}: (layers * directions, batch, size).",
            )
        return given

    def _over_time(self, x: Tensor, given: Sequence[Tensor] | None, live: Tensor | None) -> tuple[Tensor, States]:
        """x of shape (time, batch, input_size) through all layers."""
        starts: Sequence[Tensor] = self._start(x, given)
        ends: list[States] = []
        for layer in range(self.num_layers):
            if layer and self.dropout:
                x = dropped(x, self.dropout, self.training)
            outputs = []
            for way in self._ways:
                w_ih, b_ih, loop = self._loop(layer, way)
                states = [state[len(ends)] for state in starts]
                output, states = recur(loop, project(x, w_ih, b_ih), states, live)
                outputs.append(output)
                ends.append(states)
            x = outputs[0] if len(outputs) == 1 else outputs[0].cat(outputs[1], dim=-1)
        return x, [first.stack(*others) for first, *others in zip(*ends, strict=True)]


class LSTM(_Recurrent):
    """Layers of long short-term memory over time; outputs of the last layer, and the last (hidden, cell).

    With `proj_size`, hidden states are products by one more weight, `weight_hr_l0`, and have that size.
    """

    gates = 4
    states = 2

    @placed
    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        num_layers: int = 1,
        bias: bool = True,
        batch_first: bool = False,
        dropout: float = 0.0,
        bidirectional: bool = False,
        proj_size: int = 0,
        device: str | None = None,
        dtype: DTypeLike | None = None,
    ) -> None:
        self._make(input_size, hidden_size, num_layers, bias, batch_first, dropout, bidirectional, proj_size)

    def _step(self) -> Callable[..., Sequence[Tensor]]:
        return projected_lstm_step if self.proj_size else lstm_step

    def __call__(self, x: Any, hc: State | None = None) -> tuple[Any, State]:
        """x of shape (time, batch, input_size), or (batch, time, ...) with `batch_first`, and (hidden, cell) before:
        outputs (time, batch, hidden_size * directions), and the last (hidden, cell), each of shape
        (num_layers * directions, batch, size)."""
        outputs, (h, c) = self._run(x, hc)
        return outputs, (h, c)


class GRU(_Recurrent):
    """Layers of gated recurrent units over time; outputs of the last layer, and the last hidden states."""

    gates = 3
    sums_biases = False

    def _step(self) -> Callable[..., Sequence[Tensor]]:
        return gru_step

    def __call__(self, x: Any, h: Tensor | None = None) -> tuple[Any, Tensor]:
        """x of shape (time, batch, input_size), or (batch, time, ...) with `batch_first`, and the hidden states before:
        outputs (time, batch, hidden_size * directions), and the last hidden states, of shape
        (num_layers * directions, batch, hidden_size)."""
        outputs, (last,) = self._run(x, None if h is None else [h])
        return outputs, last


class RNN(_Recurrent):
    """Layers of h = tanh(x w_ih' + b_ih + h w_hh' + b_hh) over time; `nonlinearity="relu"` in place of tanh."""

    @placed
    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        num_layers: int = 1,
        nonlinearity: str = "tanh",
        bias: bool = True,
        batch_first: bool = False,
        dropout: float = 0.0,
        bidirectional: bool = False,
        device: str | None = None,
        dtype: DTypeLike | None = None,
    ) -> None:
        self.nonlinearity = _known_nonlinearity("RNN", nonlinearity)
        self._make(input_size, hidden_size, num_layers, bias, batch_first, dropout, bidirectional, 0)

    def _step(self) -> Callable[..., Sequence[Tensor]]:
        return tanh_step if self.nonlinearity == "tanh" else relu_step

    def __call__(self, x: Any, h: Tensor | None = None) -> tuple[Any, Tensor]:
        """As GRU."""
        outputs, (last,) = self._run(x, None if h is None else [h])
        return outputs, last


def _known_nonlinearity(name: str, nonlinearity: str) -> str:
    if nonlinearity not in ("tanh", "relu"):
        raise ArgumentError(f"{name}: nonlinearity={nonlinearity!r}", fix='It is "tanh" or "relu".')
    return nonlinearity
