"""RNN, GRU and LSTM in all directions, with few rows and many, and sequences that end early, against NumPy."""

from typing import Any

import numpy as np
import pytest
from onnx_models.write import model, node, tensor, value

from whit import onnx

FLOAT, INT32 = 1, 6
TIME, SIZE, HIDDEN = 5, 3, 4
GATES = {"RNN": 1, "GRU": 3, "LSTM": 4}


def sigmoid(x: Any) -> Any:
    return 1 / (1 + np.exp(-x))


def stepped(kind: str, inputs: Any, h: Any, c: Any, r: Any, b: Any) -> tuple[Any, Any]:
    """One step of one direction; `inputs` are products with the weights of the input."""
    before = h @ r.T + b
    if kind == "RNN":
        return np.tanh(inputs + before), c
    if kind == "GRU":
        x, a = np.split(inputs, 3, -1), np.split(before, 3, -1)
        update, reset = sigmoid(x[0] + a[0]), sigmoid(x[1] + a[1])
        return (1 - update) * np.tanh(x[2] + reset * a[2]) + update * h, c
    take, give, forget, new = np.split(inputs + before, 4, -1)
    c = sigmoid(forget) * c + sigmoid(take) * np.tanh(new)
    return sigmoid(give) * np.tanh(c), c


def run_over(kind: str, x: Any, weights: Any, lengths: Any, backwards: bool) -> tuple[Any, Any]:
    """Outputs (time, batch, hidden) and the last state of one direction, row by row."""
    w, r, b = weights
    half = len(b) // 2
    outputs = np.zeros((TIME, x.shape[1], HIDDEN), np.float32)
    last = np.zeros((x.shape[1], HIDDEN), np.float32)
    for row, length in enumerate(lengths):
        h = c = np.zeros(HIDDEN)
        for t in reversed(range(length)) if backwards else range(length):
            h, c = stepped(kind, x[t, row] @ w.T + b[:half], h, c, r, b[half:])
            outputs[t, row] = h
        last[row] = h
    return outputs, last


@pytest.mark.parametrize("direction", ["forward", "reverse", "bidirectional"])
@pytest.mark.parametrize("kind", ["RNN", "GRU", "LSTM"])
@pytest.mark.parametrize(("rows", "ends_early"), [(1, False), (3, True), (9, True)])
def test_steps_of_a_layer(kind: str, direction: str, rows: int, ends_early: bool) -> None:
    random = np.random.default_rng(rows)
    count, wide = 1 + (direction == "bidirectional"), GATES[kind] * HIDDEN

    def drawn(*shape: int) -> Any:
        return (random.standard_normal(shape) * 0.5).astype(np.float32)

    x = drawn(TIME, rows, SIZE)
    w, r, b = drawn(count, wide, SIZE), drawn(count, wide, HIDDEN), drawn(count, 2 * wide)
    lengths = random.integers(1, TIME + 1, rows).astype(np.int32) if ends_early else np.full(rows, TIME, np.int32)
    extra: dict[str, Any] = {"linear_before_reset": 1} if kind == "GRU" else {}
    names = ["x", "w", "r", "b", "lengths" if ends_early else ""]
    made = node(kind, names, ["y", "last"], hidden_size=HIDDEN, direction=direction, **extra)
    inputs = [value("x", FLOAT, ["t", "n", SIZE]), *([value("lengths", INT32, ["n"])] if ends_early else [])]
    tensors = [tensor("w", w), tensor("r", r), tensor("b", b)]
    run = onnx.load(model([made], inputs, [value("y"), value("last")], tensors))
    given = {"x": x, "lengths": lengths} if ends_early else {"x": x}
    ways = [direction == "reverse", True][:count]
    wanted = [run_over(kind, x, (w[i], r[i], b[i]), lengths, way) for i, way in enumerate(ways)]
    for _ in range(2):
        found = {name: each.numpy() for name, each in run(given).items()}
        np.testing.assert_allclose(found["y"], np.stack([outputs for outputs, _ in wanted], 1), 1e-4, 1e-5)
        np.testing.assert_allclose(found["last"], np.stack([last for _, last in wanted]), 1e-4, 1e-5)
    assert run.captures == 1


def test_weights_that_are_assigned_are_turned_again() -> None:
    random = np.random.default_rng(0)
    w, r = (random.standard_normal((1, 36, 12)).astype(np.float32) * 0.3 for _ in range(2))
    b = np.zeros(72, np.float32)
    made = node("GRU", ["x", "w", "r", ""], ["y", "last"], hidden_size=12, linear_before_reset=1)
    tensors = [tensor("w", w), tensor("r", r)]
    run = onnx.load(model([made], [value("x", FLOAT, [2, 1, 12])], [value("y"), value("last")], tensors))
    x = random.standard_normal((2, 1, 12)).astype(np.float32)
    for scale in (1.0, -2.0):
        run.weights["r"].assign(r * np.float32(scale)).realize()
        h = np.zeros(12)
        for t in range(2):
            h, _ = stepped("GRU", x[t, 0] @ w[0].T + b[:36], h, h, r[0] * scale, b[36:])
        np.testing.assert_allclose(run(x=x)["last"].numpy()[0, 0], h, 1e-4, 1e-5)
