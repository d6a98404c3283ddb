"""Recurrent layers over time: RNN, GRU, LSTM, in one or both directions, with sequences of different lengths.

What the weights of the input make of it is computed for all times at once. The rest is a scan: its step is compiled
once, whatever the length, and all steps are one native call. Both directions are in one scan, side by side, so that no
weight is copied out of the tensor of both.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

from whit.dtype import dtypes
from whit.errors import NotSupportedError
from whit.onnx.operators.registry import Node, Value, operator
from whit.onnx.sizes import is_same
from whit.records import dataclass
from whit.tensor import Tensor
from whit.tensor.control.loops import scan_pure

# With fewer rows a step is products of a matrix by vectors. Along lines of columns gates are vectors too: 10.5 -> 3.9
# us a step, of a GRU of 2 x 112. The products of an LSTM are kept for two results, so they have no gates in them.
LEAST_ROWS: Final = 8


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
    is_turned: bool = False  # the weight of the state is (directions, hidden, gates * hidden)
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

    def lines(self, weight: Tensor) -> Tensor:
        """The weight of the state as a product wants it."""
        return weight if self.is_turned else weight.transpose(1, 2)

    def bounded(self, x: Tensor) -> Tensor:
        """Between -clip and clip, if there is one."""
        return x.clip(-self.clip, self.clip) if self.clip else x


def in_bytes(x: Tensor, axes: tuple[int, ...]) -> Tensor:
    """A tensor as it is after it was quantised to bytes, by the range along axes and 0, and back."""
    low, high = x.min(axes, True).minimum(0), x.max(axes, True).maximum(0)
    scale = (high - low) / 255
    scale = (scale == 0).where(1.0, scale)
    zero = (-low / scale).round().clip(0, 255)
    return ((x / scale).round().add(zero).clip(0, 255) - zero) * scale


def _rnn(step: Step, inputs: Tensor, states: list[Tensor], weight: Tensor, *_: Tensor | None) -> list[Tensor]:
    return [step.activations[0](step.bounded(inputs + states[0] @ step.lines(weight)))]


def _gru(
    step: Step, inputs: Tensor, states: list[Tensor], weight: Tensor, bias: Tensor | None, *_: Tensor | None
) -> list[Tensor]:
    (h,), size = states, step.hidden
    gate, change = step.activations
    lines = step.lines(weight)
    both = h @ lines[..., : 2 * size]
    update = gate(step.bounded(inputs[..., :size] + both[..., :size]))
    reset = gate(step.bounded(inputs[..., size : 2 * size] + both[..., size:]))
    last = lines[..., 2 * size :]
    if step.reset_after:
        after = h @ last
        inner = reset * (after if bias is None else after + bias)
    else:
        inner = (reset * h) @ last
    new = change(step.bounded(inputs[..., 2 * size :] + inner))
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
    before = in_bytes(h, (1, 2)) if step.rounds else h
    take, out, forget, new = (inputs + before @ step.lines(weight)).split(size, dim=2)
    if peepholes is not None:
        seen = peepholes.split(size, dim=2)
        take, forget = take + seen[0] * c, forget + seen[2] * c
    taken = gate(step.bounded(take))
    kept = 1 - taken if step.coupled else gate(step.bounded(forget))
    cell = kept * c + taken * change(step.bounded(new))
    if peepholes is not None:
        out = out + peepholes[..., size : 2 * size] * cell
    return [gate(step.bounded(out)) * give(cell), cell]


_CELLS: Final[dict[str, Callable[..., list[Tensor]]]] = {"RNN": _rnn, "GRU": _gru, "LSTM": _lstm}
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
class Layer:
    """The tensors of a node: weights of all directions, and where sequences end."""

    w: Tensor  # (directions, gates * hidden, size)
    r: Tensor  # (directions, gates * hidden, hidden)
    b: Tensor | None  # (directions, 2 * gates * hidden): of the inputs, then of the hidden state
    lengths: Tensor | None
    p: Tensor | None = None

    def direction(self, i: int) -> Layer:
        """One direction alone."""
        bias, peepholes = (None if part is None else part[i : i + 1] for part in (self.b, self.p))
        return Layer(self.w[i : i + 1], self.r[i : i + 1], bias, self.lengths, peepholes)


def _projected(step: Step, layer: Layer, x: Tensor) -> tuple[Tensor, Tensor | None]:
    """What each direction reads, (time, directions, batch, size), by the weights of the input: (time, directions,
    batch, gates * hidden); and a bias for later."""
    directions, gates, size = (int(n) for n in layer.w.shape)
    time, _, batch, _ = x.shape
    rows = x.transpose(0, 1).reshape((directions, time * batch, size)) @ layer.w.transpose(1, 2)
    projected = rows.reshape((directions, time, batch, gates)).transpose(0, 1)
    if layer.b is None:
        return projected, None
    before, after = layer.b.unsqueeze(1).split(gates, dim=2)
    if step.cell != "GRU" or not step.reset_after:
        return projected + (before + after), None
    known = 2 * step.hidden
    return projected + (before + after[..., :known].pad([(0, 0), (0, 0), (0, step.hidden)])), after[..., known:]


def _turned(x: Tensor, lengths: Tensor | None) -> Tensor:
    """(time, directions, batch, …) backwards in time, each sequence within its length."""
    if lengths is None:
        return x.flip(0)
    step = Tensor.arange(x.shape[0], device=x.device, dtype=dtypes.int64).reshape((-1, 1))
    length = lengths.cast(dtypes.int64).reshape((1, -1))
    place = (step < length).where(length - 1 - step, step)
    return x.gather(0, place.reshape((x.shape[0], 1, x.shape[2], 1)).expand(x.shape))


def _second_turned(x: Tensor, lengths: Tensor | None) -> Tensor:
    """Of two directions the second one backwards."""
    return x[:, :1].cat(_turned(x[:, 1:], lengths), dim=1)


def _run(step: Step, layer: Layer, x: Tensor, states: list[Tensor], backwards: bool) -> tuple[Tensor, list[Tensor]]:
    """All directions side by side: outputs (time, directions, batch, hidden) and the last states.

    `backwards`: one direction, from the end on. Of two the second one is.
    """
    if is_same(x.shape[0], 0):
        return Tensor.zeros(0, *states[0].shape, dtype=x.dtype, device=x.device), states
    lengths, both = layer.lengths, int(layer.w.shape[0]) == 2
    turns = both or (backwards and lengths is not None)
    read = x.unsqueeze(1)
    if turns:  # each direction reads what it needs next, so that all go the same way
        read = read.cat(_turned(read, lengths), dim=1) if both else _turned(read, lengths)
    projected, late = _projected(step, layer, read)
    parts = [projected]
    if lengths is not None:
        time = Tensor.arange(x.shape[0], device=x.device, dtype=dtypes.int64).reshape((-1, 1, 1, 1))
        parts.append(time < lengths.cast(dtypes.int64).reshape((1, 1, -1, 1)))
    peepholes = None if layer.p is None else layer.p.unsqueeze(1)
    weight = layer.r.transpose(1, 2).contiguous() if step.is_turned else layer.r  # a captured model keeps it
    last, (outputs,) = scan_pure(step, parts, states, (weight, late, peepholes), backwards and not turns)
    if both:
        return _second_turned(outputs, lengths), last
    return _turned(outputs, lengths) if turns else outputs, last


def _recur(node: Node, x: Tensor, layer: Layer, first: Sequence[Tensor | None]) -> tuple[Value, ...]:
    """All directions, from the first states on; directions with other activations run by themselves."""
    batch_first, direction = bool(node.get("layout", 0)), node.get("direction", "forward")
    is_rounded = node.domain == "com.microsoft"
    x = x.transpose(0, 1) if batch_first else x
    x = in_bytes(x, (0, 1, 2)) if is_rounded else x
    directions, hidden = int(layer.w.shape[0]), int(layer.r.shape[2])
    states = [_first_state(state, directions, x, hidden, batch_first) for state in first]
    activations = _activations(node, directions)
    steps = [
        Step(
            node.op_type,
            each,
            float(node.get("clip", 0.0)),
            hidden,
            bool(node.get("linear_before_reset", 0)),
            bool(node.get("input_forget", 0)),
            node.op_type != "LSTM" and int(x.shape[1]) < LEAST_ROWS,
            is_rounded,
        )
        for each in activations
    ]
    if len(set(steps)) == 1:
        whole, ends = _run(steps[0], layer, x, states, direction == "reverse")
    else:
        found = [
            _run(step, layer.direction(i), x, [state[i : i + 1] for state in states], i == 1)
            for i, step in enumerate(steps)
        ]
        whole = found[0][0].cat(found[1][0], dim=1)
        ends = [a.cat(b, dim=0) for a, b in zip(found[0][1], found[1][1], strict=True)]
    if batch_first:
        return whole.permute((2, 0, 1, 3)), *(end.transpose(0, 1) for end in ends)
    return whole, *ends


def _first_state(state: Tensor | None, directions: int, x: Tensor, hidden: int, batch_first: bool) -> Tensor:
    if state is None:
        return Tensor.zeros(directions, x.shape[1], hidden, dtype=x.dtype, device=x.device)
    return state.transpose(0, 1) if batch_first else state


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
