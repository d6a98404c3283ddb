"""Attention by blocks, compiled: values and gradients against NumPy in float64, for sizes that no tile divides."""

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

from whit import Context, Tensor
from whit.dtype import dtypes

pytestmark = pytest.mark.slow

RNG = np.random.default_rng(5)


def numbers(*shape: int) -> Any:
    return RNG.standard_normal(shape)


def expected(arrays: Sequence[Any], seen: Any, factor: Any = 1) -> list[Any]:
    """Of queries, keys, values and an upstream gradient: the result, and the gradients of the first three. A row that
    sees nothing is 0. The factor is what dropout makes of weights."""
    q, k, v, g = arrays
    scale = 1 / math.sqrt(q.shape[-1])
    scores = np.where(seen, q @ k.swapaxes(-1, -2) * scale, -np.inf)
    top = scores.max(-1, keepdims=True)
    power = np.exp(scores - np.where(np.isinf(top), 0, top))
    total = power.sum(-1, keepdims=True)
    p = power / np.where(total == 0, 1, total)
    out = p * factor @ v
    inner = p * (factor * (g @ v.swapaxes(-1, -2)) - (g * out).sum(-1, keepdims=True)) * scale
    return [out, inner @ k, inner.swapaxes(-1, -2) @ q, (p * factor).swapaxes(-1, -2) @ g]


def causal(rows: int, keys: int) -> Any:
    return np.tril(np.ones((rows, keys), np.bool_))


def masked() -> Any:
    mask = RNG.random((37, 53)) > 0.3
    mask[[0, 5, 36]] = False
    return mask


# name -> heads, rows, keys, depth, columns; what is seen; arguments
CASES: dict[str, tuple[tuple[int, int, int, int, int], Any, dict[str, Any]]] = {
    "one kernel for all gradients": ((8, 53, 53, 24, 40), causal(53, 53), {"is_causal": True}),
    "fewer heads": ((2, 70, 70, 16, 16), causal(70, 70), {"is_causal": True}),
    "more keys than rows": ((2, 37, 53, 24, 40), np.True_, {}),
    "a mask": ((2, 37, 53, 9, 33), (mask := masked()), {"attn_mask": mask}),
    "several blocks of keys": ((1, 33, 4200, 16, 16), causal(33, 4200), {"is_causal": True}),
}


@pytest.mark.parametrize("name", CASES)
def test_values_and_gradients(name: str) -> None:
    (heads, rows, keys, depth, columns), seen, given = CASES[name]
    arguments: dict[str, Any] = {key: Tensor(value) if key == "attn_mask" else value for key, value in given.items()}
    arrays = [numbers(heads, rows, depth), numbers(heads, keys, depth), numbers(heads, keys, columns)]
    upstream = numbers(heads, rows, columns)
    with Context(CHECK_OOB=heads == 1):  # the proof takes longer than everything else
        q, k, v, g = (Tensor(array.astype(np.float32)).realize() for array in (*arrays, upstream))
        out = q.scaled_dot_product_attention(k, v, **arguments)
        assert "attention by blocks" in out.explain()
        found = [out, *out.gradient(q, k, v, gradient=g)]
        Tensor.realize(*found)
    for ours, right in zip(found, expected([*arrays, upstream], seen), strict=True):
        assert np.abs(ours.numpy() - right).max() <= 3e-6 * max(np.abs(right).max(), 1)


@pytest.mark.parametrize("dtype, error", [(dtypes.float64, 1e-14), (dtypes.float16, 2e-3)], ids=["float64", "float16"])
def test_other_dtypes(dtype: Any, error: float) -> None:
    arrays = [numbers(2, 40, 16) for _ in range(3)]
    q, k, v = (Tensor(array).cast(dtype).realize() for array in arrays)
    out = q.scaled_dot_product_attention(k, v)
    assert "attention by blocks" in out.explain() and out.dtype is dtype
    right = expected([*(t.cast(dtypes.float64).numpy() for t in (q, k, v)), arrays[0]], np.True_)[0]
    assert np.abs(out.cast(dtypes.float64).numpy() - right).max() <= error


def test_dropout_drops_the_same_as_without_blocks() -> None:
    q, k, v = (Tensor(numbers(2, 40, 16).astype(np.float32)).realize() for _ in range(3))
    results = []
    for blocks in (0, 1):
        with Context(FLASH_ATTENTION=blocks, TRAINING=1):
            Tensor.manual_seed(7)
            results.append(q.scaled_dot_product_attention(k, v, dropout_p=0.4).numpy())
    assert np.allclose(results[0], results[1], atol=1e-6) and results[0].any()


def test_a_window_computed_in_place_of_another_value() -> None:
    """x + attention(x), whose result may lie where x lies: rows that are computed twice are stored once."""
    x = Tensor(numbers(2, 75, 16).astype(np.float32)).realize()
    i, j = Tensor.arange(75).reshape(75, 1), Tensor.arange(75).reshape(1, 75)
    inside = (j <= i) & (j > i - 20)

    def layer(y: Tensor) -> Tensor:
        return y + (inside.where(y @ y.transpose(-2, -1) / 4, -math.inf).softmax() @ y)

    found = layer(x * 2)
    assert "row i sees those from i-19 to i" in found.explain()
    values = x.numpy().astype(np.float64) * 2
    right = values + expected([values] * 4, inside.numpy())[0]
    assert np.abs(found.numpy() - right).max() < 1e-5


def interleaved(x: Any, cos: Any, sin: Any) -> Any:
    """Rotary embedding of neighbours, as Tensors or as arrays."""
    a, b = x[..., ::2], x[..., 1::2]
    parts = a * cos - b * sin, a * sin + b * cos
    stacked = Tensor.stack(*parts, dim=-1) if isinstance(x, Tensor) else np.stack(parts, -1)
    return stacked.reshape(x.shape)


def shuffled(x: Any) -> Any:
    """Four parts of the depth, interleaved."""
    parts = [x[..., 4 * i : 4 * i + 4] * (i + 1) for i in range(4)]
    stacked = Tensor.stack(*parts, dim=-1) if isinstance(x, Tensor) else np.stack(parts, -1)
    return stacked.reshape(x.shape)


ANGLES = numbers(1, 40, 1, 8)
ROTATED: dict[str, tuple[Any, Any, Any]] = {  # what becomes of queries, keys and values
    "queries and keys": (interleaved, interleaved, None),
    "queries": (interleaved, None, None),
    "keys": (None, interleaved, None),
    "values": (None, None, interleaved),
    "in four parts": (shuffled, shuffled, None),
}


@pytest.mark.parametrize("name", ROTATED)
def test_operands_that_are_stored_in_another_order_than_they_are_read(name: str) -> None:
    arrays = [numbers(2, 40, 4, 16) for _ in range(3)]
    both = np.cos(ANGLES), np.sin(ANGLES)
    tensors = [Tensor(array.astype(np.float32)).realize() for array in arrays]
    waves = [Tensor(array.astype(np.float32)).realize() for array in both]

    def moved(values: list[Any], beside: Any) -> list[Any]:
        results = []
        for value, change in zip(values, ROTATED[name], strict=True):
            given = beside if change is interleaved else ()
            results.append((value if change is None else change(value, *given)).swapaxes(1, 2))
        return results

    q, k, v = moved(tensors, waves)
    out = q.scaled_dot_product_attention(k, v, is_causal=True)
    text = out.explain()
    assert text.count("attention by blocks") == 1
    assert "2 kernels" in text  # one for what is rotated
    right = expected([*moved(arrays, both), np.zeros((2, 4, 40, 16))], causal(40, 40))[0]
    assert np.abs(out.numpy() - right).max() <= 3e-6 * max(np.abs(right).max(), 1)
