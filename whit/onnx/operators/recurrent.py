"""Recurrent layers over time: RNN, GRU, LSTM, in one or both directions, with sequences of different lengths.

What the weights of the input make of it is computed for all times at once. The rest is a scan: its step is compiled
once, whatever the length, and all steps are one native call.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final

from whit.dtype import dtypes
from whit.errors import NotSupportedError
from whit.onnx.operators.registry import Node, Value, operator
from whit.records import dataclass
from whit.tensor import Tensor
from whit.tensor.control.loops import scan_pure


@dataclass(frozen=True)
class Activation:
    """A function of gates with its two numbers."""

    name: str
    alpha: float
    beta: float

    def __call__(self, x: Tensor) -> Tensor:
        return _FUNCTIONS[self.name](x, self.alpha, self.beta)


_FUNCTIONS: Final[dict[str, Callable[[Tensor, float, float], Tensor]]] = {
    "relu": lambda x, a, b: x.relu(),
    "tanh": lambda x, a, b: x.tanh(),
    "sigmoid": lambda x, a, b: x.sigmoid(),
    "affine": lambda x, a, b: x * a + b,
    "leakyrelu": lambda x, a, b: x.leaky_relu(a),
    "thresholdedrelu": lambda x, a, b: (x >= a).where(x, 0),
    "scaledtanh": lambda x, a, b: (x * b).tanh() * a,
    "hardsigmoid": lambda x, a, b: (x * a + b).clip(0, 1),
    "elu": lambda x, a, b: (x < 0).where(a * x.minimum(0).expm1(), x),
    "softsign": lambda x, a, b: x.softsign(),
    "softplus": lambda x, a, b: x.softplus(),
}
_NUMBERS: Final = {  # alpha, beta where the node does not give them
    "affine": (1.0, 0.0),
    "leakyrelu": (0.01, 0.0),
    "thresholdedrelu": (1.0, 0.0),
    "scaledtanh": (1.0, 1.0),
    "hardsigmoid": (0.2, 0.5),
    "elu": (1.0, 0.0),
}
_TAKES: Final = {"affine": 2, "scaledtanh": 2, "hardsigmoid": 2, "leakyrelu": 1, "thresholdedrelu": 1, "elu": 1}


@dataclass(frozen=True)
class Step:
    """One step: which cell, its activations, and how it is bent."""

    cell: str
    activations: tuple[Activation, ...]
    clip: float
    hidden: int
    reset_after: bool  # of a GRU: the reset gate works on the product (linear_before_reset)
    coupled: bool  # of an LSTM: the forget gate is 1 - the input gate (input_forget)
    rounds: bool = False  # of an LSTM: the state is rounded to 256 steps of its range, as a product of bytes wants it

    def __call__(
        self, parts: Sequence[Tensor], states: Sequence[Tensor], weights: Sequence[Tensor | None]
    ) -> tuple[list[Tensor], list[Tensor]]:
        """([inputs] or [inputs, live], states, (weight, bias, peepholes)) -> next states and [output].

        Where a sequence has ended, its states stay and its output is 0.
        """
        inputs, *rest = parts
        new = _CELLS[self.cell](self, inputs, list(states), *weights)
        if not rest:
            return new, new[:1]
        (live,) = rest
        kept = [live.where(now, before) for now, before in zip(new, states, strict=True)]
        return kept, [live.where(new[0], 0)]

    @property
    def __name__(self) -> str:
        """What a call of it is named in a recording."""
        return self.cell

    def bounded(self, x: Tensor) -> Tensor:
        """Between -clip and clip, if there is one."""
        return x.clip(-self.clip, self.clip) if self.clip else x


def in_bytes(x: Tensor) -> Tensor:
    """A tensor as it is after it was quantised to bytes, by its own range and 0, and back."""
    low, high = x.min().minimum(0), x.max().maximum(0)
    scale = (high - low) / 255
    scale = (scale == 0).where(1.0, scale)
    zero = (-low / scale).round().clip(0, 255)
    return ((x / scale).round().add(zero).clip(0, 255) - zero) * scale


def _rnn(step: Step, inputs: Tensor, states: list[Tensor], weight: Tensor, *_: Tensor | None) -> list[Tensor]:
    return [step.activations[0](step.bounded(inputs + states[0] @ weight.transpose(0, 1)))]


def _gru(
    step: Step, inputs: Tensor, states: list[Tensor], weight: Tensor, bias: Tensor | None, *_: Tensor | None
) -> list[Tensor]:
    (h,), size = states, step.hidden
    gate, change = step.activations
    both = h @ weight[: 2 * size].transpose(0, 1)
    update = gate(step.bounded(inputs[:, :size] + both[:, :size]))
    reset = gate(step.bounded(inputs[:, size : 2 * size] + both[:, size:]))
    last = weight[2 * size :].transpose(0, 1)
    if step.reset_after:
        after = h @ last
        inner = reset * (after if bias is None else after + bias)
    else:
        inner = (reset * h) @ last
    new = change(step.bounded(inputs[:, 2 * size :] + inner))
    return [(1 - update) * new + update * h]


def _lstm(
    step: Step,
    inputs: Tensor,
    states: list[Tensor],
    weight: Tensor,
    bias: Tensor | None,
    peepholes: Tensor | None = None,
) -> list[Tensor]:
    (h, c), size = states, step.hidden
    gate, change, give = step.activations
    take, out, forget, new = (inputs + (in_bytes(h) if step.rounds else h) @ weight.transpose(0, 1)).split(size, dim=1)
    if peepholes is not None:
        seen = peepholes.split(size, dim=0)
        take, forget = take + seen[0] * c, forget + seen[2] * c
    taken = gate(step.bounded(take))
    kept = 1 - taken if step.coupled else gate(step.bounded(forget))
    cell = kept * c + taken * change(step.bounded(new))
    if peepholes is not None:
        out = out + peepholes[size : 2 * size] * cell
    return [gate(step.bounded(out)) * give(cell), cell]


_CELLS: Final[dict[str, Callable[..., list[Tensor]]]] = {"RNN": _rnn, "GRU": _gru, "LSTM": _lstm}
_GATES: Final = {"RNN": 1, "GRU": 3, "LSTM": 4}
_USUAL: Final = {"RNN": ("tanh",), "GRU": ("sigmoid", "tanh"), "LSTM": ("sigmoid", "tanh", "tanh")}


def _activations(node: Node, directions: int) -> list[tuple[Activation, ...]]:
    usual = _USUAL[node.op_type]
    names = [name.lower() for name in node.get("activations") or usual * directions]
    alphas, betas = list(node.get("activation_alpha") or ()), list(node.get("activation_beta") or ())
    records = []
    for name in names:
        if name not in _FUNCTIONS:
            raise NotSupportedError(f"{node}: activation {name!r}", "", f"Known are {', '.join(_FUNCTIONS)}.")
        alpha, beta = _NUMBERS.get(name, (0.0, 0.0))
        takes = _TAKES.get(name, 0)
        alpha = alphas.pop(0) if takes > 0 and alphas else alpha
        beta = betas.pop(0) if takes > 1 and betas else beta
        records.append(Activation(name, float(alpha), float(beta)))
    count = len(usual)
    return [tuple(records[i * count : (i + 1) * count]) for i in range(directions)]


@dataclass(frozen=True)
class Weights:
    """The tensors of one direction."""

    inputs: Tensor  # (gates * hidden, size)
    hidden: Tensor
    bias: Tensor | None  # (2 * gates * hidden,): of the inputs, then of the hidden state
    peepholes: Tensor | None


def _run(
    step: Step, weights: Weights, x: Tensor, states: list[Tensor], live: Tensor | None, is_reversed: bool
) -> tuple[Tensor, Any]:
    """x of (time, batch, size): outputs (time, batch, hidden) and the last states."""
    gates = _GATES[step.cell] * step.hidden
    projected = x @ weights.inputs.transpose(0, 1)
    late = None
    if weights.bias is not None:
        before, after = weights.bias[:gates], weights.bias[gates:]
        if step.cell == "GRU" and step.reset_after:
            late = after[2 * step.hidden :]
            after = after[: 2 * step.hidden].pad([(0, step.hidden)])
        projected = projected + (before + after)
    parts = [projected] if live is None else [projected, live]
    last, (outputs,) = scan_pure(step, parts, states, (weights.hidden, late, weights.peepholes), is_reversed)
    return outputs, last


def _turned(x: Tensor, lengths: Tensor) -> Tensor:
    """(time, batch, …) backwards in time, each sequence within its length."""
    step = Tensor.arange(x.shape[0], device=x.device, dtype=dtypes.int64).reshape((-1, 1))
    length = lengths.cast(dtypes.int64).reshape((1, -1))
    place = (step < length).where(length - 1 - step, step)
    return x.gather(0, place.reshape((*place.shape, *(1,) * (x.ndim - 2))).expand(x.shape))


@dataclass(frozen=True)
class Layer:
    """The tensors of a node: weights of all directions, and where sequences end."""

    w: Tensor  # (directions, gates * hidden, size)
    r: Tensor
    b: Tensor | None
    lengths: Tensor | None
    p: Tensor | None = None

    def direction(self, i: int) -> Weights:
        """The weights of one direction."""
        bias, peepholes = (None if part is None else part[i] for part in (self.b, self.p))
        return Weights(self.w[i], self.r[i], bias, peepholes)


def _recur(node: Node, x: Tensor, layer: Layer, first: Sequence[Tensor | None]) -> tuple[Value, ...]:
    """All directions, from the first states on."""
    lengths = layer.lengths
    batch_first, direction = bool(node.get("layout", 0)), node.get("direction", "forward")
    x = x.transpose(0, 1) if batch_first else x
    x = in_bytes(x) if node.domain == "com.microsoft" else x
    directions, hidden = int(layer.w.shape[0]), int(layer.r.shape[2])
    live = None
    if lengths is not None:
        step = Tensor.arange(x.shape[0], device=x.device, dtype=dtypes.int64).reshape((-1, 1, 1))
        live = step < lengths.cast(dtypes.int64).reshape((1, -1, 1))
    outputs, lasts = [], []
    for i, activations in enumerate(_activations(node, directions)):
        backwards = direction == "reverse" or i == 1
        cell = Step(
            node.op_type,
            activations,
            float(node.get("clip", 0.0)),
            hidden,
            bool(node.get("linear_before_reset", 0)),
            bool(node.get("input_forget", 0)),
            node.domain == "com.microsoft",
        )
        states = [_first_state(state, i, x, hidden, batch_first) for state in first]
        if not backwards or lengths is None:
            output, last = _run(cell, layer.direction(i), x, states, live, backwards)
        else:  # each sequence begins at its own end
            turned, last = _run(cell, layer.direction(i), _turned(x, lengths), states, live, False)
            output = _turned(turned, lengths)
        outputs.append(output)
        lasts.append(last)
    whole = outputs[0].stack(*outputs[1:], dim=1)
    ends = [lasts[0][k].stack(*(last[k] for last in lasts[1:]), dim=0) for k in range(len(first))]
    if batch_first:
        return whole.permute((2, 0, 1, 3)), *(end.transpose(0, 1) for end in ends)
    return whole, *ends


def _first_state(state: Tensor | None, i: int, x: Tensor, hidden: int, batch_first: bool) -> Tensor:
    if state is None:
        return Tensor.zeros(x.shape[1], hidden, dtype=x.dtype, device=x.device)
    return state[:, i] if batch_first else state[i]


@operator("RNN", since=(1, 7, 14, 22))
@operator("GRU", since=(1, 3, 7, 14, 22))
def recurrent(
    node: Node,
    x: Tensor,
    w: Tensor,
    r: Tensor,
    b: Tensor | None = None,
    lengths: Tensor | None = None,
    first: Tensor | None = None,
) -> tuple[Value, ...]:
    """Outputs of all times and the last state."""
    return _recur(node, x, Layer(w, r, b, lengths), (first,))


@operator("LSTM", since=(1, 7, 14, 22))
def lstm(
    node: Node,
    x: Tensor,
    w: Tensor,
    r: Tensor,
    b: Tensor | None = None,
    lengths: Tensor | None = None,
    first: Tensor | None = None,
    first_cell: Tensor | None = None,
    p: Tensor | None = None,
) -> tuple[Value, ...]:
    """Outputs of all times, the last hidden state and the last cell."""
    return _recur(node, x, Layer(w, r, b, lengths, p), (first, first_cell))
