"""Weights of the products in a scan are copied into panels once."""

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import whit
from whit import Tensor, nn
from whit.dtype import DType, dtypes
from whit.ir import ops
from whit.ir.uop import UOp
from whit.schedule.rewrites import pack_constants as packing
from whit.schedule.rewrites.pack_constants import LEAST_STEPS, pack_constants
from whit.target import parse_target

pytestmark = pytest.mark.slow

AVX512, AVX2 = parse_target("CPU:LLVM:znver4"), parse_target("CPU:LLVM:haswell")
random = np.random.default_rng(0)


def array(*shape: int, dtype: str = "f") -> Any:
    return (random.normal(size=shape) / 16).astype(dtype)


def hidden_states(x: Tensor, w: Tensor, h: Tensor) -> Tensor:
    """Of a recurrent layer: w of shape (size, size)."""

    def step(h: Tensor, x: Tensor) -> tuple[Tensor, Tensor]:
        h = (x + h @ w.T).tanh()
        return h, h

    outputs: Tensor = whit.scan(step, h, x)[1]
    return outputs


def by_hand(x: Any, w: Any, h: Any) -> Any:
    rows = []
    for part in x:
        h = np.tanh(part + h @ w.T)
        rows.append(h)
    return np.stack(rows)


def constant_of(value: Tensor, target: Any = AVX512) -> tuple[int, ...]:
    """The shape of the last operand of the one loop of a graph, once it is packed."""
    (loop,) = [n for n in pack_constants(UOp.group(value.uop), target).topological() if n.op is ops.LOOP]
    return loop.src[-1].shape


def states_of(rows: int, size: int, steps: int = LEAST_STEPS, dtype: DType = dtypes.float32) -> Tensor:
    shapes = (steps, rows, size), (size, size), (rows, size)
    return hidden_states(*[Tensor.empty(*shape, dtype=dtype) for shape in shapes])


def test_weights_are_panels_as_wide_as_a_register_tile() -> None:
    assert constant_of(states_of(32, 256)) == (4, 256, 64)
    assert constant_of(states_of(32, 256), AVX2) == (8, 256, 32)
    assert constant_of(states_of(32, 256, dtype=dtypes.float64)) == (8, 256, 32)


@pytest.mark.parametrize(
    "value",
    [
        lambda: states_of(4, 256),
        lambda: states_of(65, 256),
        lambda: states_of(32, 250),
        lambda: states_of(32, 128),
        lambda: states_of(32, 256, LEAST_STEPS - 1),
    ],
    ids=["few rows", "many rows", "no whole panels", "few panels", "few steps"],
)
def test_what_stays_as_it_is(value: Callable[[], Tensor]) -> None:
    found = constant_of(value())
    assert len(found) == 2


def test_weights_that_something_else_reads_stay_as_they_are() -> None:
    def step(h: Tensor, x: Tensor) -> tuple[Tensor, Tensor]:
        return (x + h @ w.T).tanh() + w[:32], h

    w = Tensor.empty(256, 256)
    _, outputs = whit.scan(step, Tensor.empty(32, 256), Tensor.empty(LEAST_STEPS, 32, 256))
    assert constant_of(outputs) == (256, 256)


@pytest.mark.parametrize("rows", [8, 13, 64])
@pytest.mark.parametrize("dtype", ["f", "d"])
def test_hidden_states_are_those_of_a_loop(rows: int, dtype: str) -> None:
    x, w, h = array(20, rows, 256, dtype=dtype), array(256, 256, dtype=dtype), array(rows, 256, dtype=dtype)
    found = hidden_states(Tensor(x), Tensor(w), Tensor(h)).numpy()
    np.testing.assert_allclose(found, by_hand(x, w, h), rtol=2e-4, atol=2e-5)


def test_other_views_of_weights_and_rows_of_two_axes() -> None:
    def step(h: Tensor, x: Tensor) -> tuple[Tensor, Tensor]:
        h = (x + h @ w[0] + h @ v.permute(1, 0)).tanh()
        return h, h

    x, w0, v0, h0 = array(17, 4, 3, 256), array(1, 256, 256), array(256, 256), array(4, 3, 256)
    w, v = Tensor(w0), Tensor(v0)
    found = whit.scan(step, Tensor(h0), Tensor(x))[1].numpy()
    flat = by_hand(x.reshape(17, 12, 256), w0[0].T + v0, h0.reshape(12, 256))
    np.testing.assert_allclose(found, flat.reshape(x.shape), rtol=2e-4, atol=2e-5)


@pytest.fixture
def unpacked(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[], None]]:
    """Turns the rewrite off."""

    def turn_off() -> None:
        monkeypatch.setattr(packing, "LEAST_STEPS", 1 << 30)
        whit.clear_caches()

    yield turn_off
    whit.clear_caches()


@pytest.mark.parametrize("kind", [nn.LSTM, nn.GRU])
def test_gradients_of_layers_are_the_same(kind: Any, unpacked: Callable[[], None]) -> None:
    model = kind(64, 256, bidirectional=True)
    weights = nn.state.get_parameters(model)
    x = Tensor(array(18, 9, 64))

    def slopes() -> list[Any]:
        for weight in weights:
            weight.grad = None
        (model(x)[0] ** 2).sum().backward()
        return [weight.grad.numpy() for weight in weights]

    packed = slopes()
    unpacked()
    for one, other in zip(packed, slopes(), strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-3, atol=1e-4 * np.abs(other).max())
