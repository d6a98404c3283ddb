"""A transformer with a cache of keys and values that grows, as in tutorials, with a variable as its position."""

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from whit import Context, Tensor, TinyJit, Variable, nn
from whit.engine.compile import compile as compile_module
from whit.engine.plan import find_plan as plans_module
from whit.errors import OutOfRangeError

pytestmark = pytest.mark.slow  # compiles much

WORDS, WIDTH, HEADS, MAX_CONTEXT, LAYERS = 11, 8, 2, 12, 2
TOKENS = np.random.default_rng(0).integers(0, WORDS, (1, MAX_CONTEXT)).astype(np.int32)


class Attention:
    """What has been seen is kept in memory for the longest text."""

    def __init__(self) -> None:
        self.qkv, self.out = nn.Linear(WIDTH, 3 * WIDTH), nn.Linear(WIDTH, WIDTH)
        shape = (1, HEADS, MAX_CONTEXT, WIDTH // HEADS)
        self.keys, self.values = Tensor.zeros(shape).contiguous().realize(), Tensor.zeros(shape).contiguous().realize()

    def __call__(self, x: Tensor, start: Any, mask: Tensor) -> Tensor:
        _, count, _ = x.shape
        parts = self.qkv(x).chunk(3, dim=-1)
        q, k, v = (part.reshape(1, count, HEADS, WIDTH // HEADS).transpose(1, 2) for part in parts)
        self.keys[:, :, start : start + count].assign(k).realize()
        self.values[:, :, start : start + count].assign(v).realize()
        keys, values = self.keys[:, :, : start + count], self.values[:, :, : start + count]
        scores = q @ keys.transpose(2, 3) / math.sqrt(WIDTH // HEADS) + mask
        mixed = scores.softmax(-1) @ values
        return self.out(mixed.transpose(1, 2).reshape(1, count, WIDTH))


class Transformer:
    """Two layers of it."""

    def __init__(self) -> None:
        self.words, self.places = nn.Embedding(WORDS, WIDTH), nn.Embedding(MAX_CONTEXT, WIDTH)
        self.layers = [Attention() for _ in range(LAYERS)]
        self.norm, self.head = nn.LayerNorm(WIDTH), nn.Linear(WIDTH, WORDS, bias=False)

    def __call__(self, tokens: Tensor, start: Any) -> Tensor:
        _, count = tokens.shape
        x = self.words(tokens) + self.places(Tensor.arange(MAX_CONTEXT)[start : start + count])
        mask = Tensor.full((1, 1, count, start + count), -math.inf).triu(start + 1)
        for layer in self.layers:
            x = x + layer(x, start, mask)
        return self.head(self.norm(x))[:, -1].softmax().realize()


def made() -> Transformer:
    Tensor.manual_seed(3)
    model = Transformer()
    Tensor.realize(*nn.state.get_parameters(model))
    return model


def generated(step: Callable[..., Tensor], start_of: Callable[[int], Any], count: int) -> tuple[list[Any], set[Any]]:
    """The probabilities after each step, and the numbers of plans and kernels there were."""
    found, counts = [], set()
    for start in range(0, MAX_CONTEXT, count):
        found.append(step(Tensor(TOKENS[:, start : start + count]), start_of(start)).numpy())
        counts.add((len(plans_module._plans), len(compile_module._kernels)))
    return found, counts


@pytest.mark.parametrize("count", [1, 2])
@pytest.mark.parametrize("device", ["PYTHON", pytest.param("CPU", marks=pytest.mark.cpu), "CPU:C"])
def test_a_growing_cache_compiles_once(device: str, count: int) -> None:
    start = Variable("start_pos", 0, MAX_CONTEXT)
    with Context(DEV="PYTHON"):
        wanted, _ = generated(made(), int, count)
    with Context(DEV=device):
        model = made()
        found, counts = generated(model, start.bind, count)
        assert len(counts) == 1
        assert np.allclose(found, wanted, rtol=1e-4, atol=1e-6)
        captured = TinyJit(model)
        again, counts = generated(captured, start.bind, count)
        assert len(counts) == 1
        assert len(captured.captured) == 1
        assert np.allclose(again, wanted, rtol=1e-4, atol=1e-6)
        before = model.layers[0].keys.numpy()
        for step in (model, captured):
            with pytest.raises(OutOfRangeError, match=rf"to start_pos={MAX_CONTEXT} \+ {count} is not inside axis 0"):
                step(Tensor(TOKENS[:, :count]), start.bind(MAX_CONTEXT))
        assert (model.layers[0].keys.numpy() == before).all()
