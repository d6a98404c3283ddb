"""Values through the engine, on the device that is the oracle and on the CPU."""

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from tensor.check import some, value
from whit import Context, Tensor
from whit.dtype import dtypes
from whit.engine.report.counters import GlobalCounters
from whit.ir import ops

X = some(dtypes.float32, (3, 4))
PROGRAMS: dict[str, Any] = {
    "arithmetic": lambda x: (x * 2 + 1) / (x.abs() + 0.5) - x % 0.7,
    "broadcast": lambda x: x + x[0] + x[:, :1],
    "activations": lambda x: x.gelu() + x.sigmoid() * x.silu(),
    "softmax": lambda x: x.softmax(),
    "layernorm": lambda x: x.layernorm(),
    "moments": lambda x: x.var(0) + x.mean(0),
    "argmax": lambda x: x.argmax(1),
    "positions": lambda x: x.tril() + Tensor.arange(4) + Tensor.eye(3, 4),
    "slices": lambda x: x[::-1, ::2].T,
    "strided": lambda x: x[::2, ::3] + x[1, :2],
    "padded": lambda x: x.pad((1, 2), value=3.0),
    "joined": lambda x: x.cat(x[:1] * 2, dim=0).stack(x[:1].expand(4, 4), dim=2),
    "matmul": lambda x: x @ x.T,
    "half matmul": lambda x: x.half() @ x.half().T,
    "conv": lambda x: x.reshape(1, 1, 3, 4).conv2d(Tensor.ones(2, 1, 2, 2), padding=1, stride=2),
    "pool": lambda x: (
        x.reshape(1, 1, 3, 4).max_pool2d(2, 1, padding=1) + x.reshape(1, 1, 3, 4).avg_pool2d(3, 1, padding=1).sum()
    ),
    "cumsum": lambda x: x.cumsum(1),
    "gather": lambda x: x.gather(1, Tensor([[0, -1], [2, 2], [1, 0]])),
    "masked": lambda x: x.masked_fill(x > 0, -math.inf).max(1),
    "bools": lambda x: (x > 0).any(1) & (x < 3).all(1),
    "integers": lambda x: (x * 10).int() // 3 + (x * 10).int() % 3,
    "one_hot": lambda x: (x.abs().int()).one_hot(5),
    "bfloat16": lambda x: (x.bfloat16() * 3).sum(0),
    "scalar": lambda x: x.sum() * 2,
    "constant": lambda x: Tensor.full((2, 2), 7),
    "empty": lambda x: x[:, :0].sum(1),
    "angles": lambda x: x.cos() + x.tan().atan2(x.sinh()) + x.hypot(x.asinh()),
    "logarithms": lambda x: x.expm1().log1p() + x.cbrt() + x.sinc() + x.logaddexp(1.0),
    "powers": lambda x: (x * 3).int() ** 3 + (x * 3).int().abs() ** Tensor([0, 1, 2, 5]),
    "reflected": lambda x: x.pad(((1, 2), (5, 1)), "reflect") + x.pad(((1, 2), (5, 1)), "replicate"),
    "circular": lambda x: x.pad(((1, 2), (5, 1)), "circular").roll(2, 1),
    "rearranged": lambda x: x.rearrange("a (b c) -> b (c a)", b=2) + x.diagonal()[:2].unsqueeze(1),
    "unfolded": lambda x: x.unfold(1, 2, 1).sum(2) + x.repeat_interleave([1, 0, 2], 0)[:, :3],
    "einsum": lambda x: Tensor.einsum("ij,kj,il->kl", x, x, x),
    "kron": lambda x: x.kron(x[:2]).norm(3, 1),
    "conv_transpose": lambda x: x.reshape(1, 3, 4).conv_transpose2d(Tensor.ones(3, 2, 3), stride=2, padding=1),
    "indices": lambda x: x.reshape(1, 1, 3, 4).max_pool2d(2, 1, padding=1, return_indices=True)[1],
    "resized": lambda x: x.interpolate((5, 7), "linear") + x.interpolate((5, 7), "nearest"),
    "cubic": lambda x: x.interpolate((5, 7), "cubic", align_corners=True),
    "attention": lambda x: x.scaled_dot_product_attention(x, x, is_causal=True),
    "cross_entropy": lambda x: x.cross_entropy(Tensor([1, 3, 0]), label_smoothing=0.1),
    "binary_crossentropy": lambda x: x.binary_crossentropy_logits(x > 0, "none", 2.0),
    "newton_schulz": lambda x: x.newton_schulz(3, (1.5, -0.5)),
}


@pytest.mark.parametrize("device", ("PYTHON", "CPU"))
@pytest.mark.parametrize("name", PROGRAMS)
def test_realised_values_are_the_interpreters(name: str, device: str) -> None:
    with Context(DEV=device):
        result = PROGRAMS[name](Tensor(X))
        expected = value(result)
        found = result.numpy()
    assert found.dtype == expected.dtype
    rtol = 2.0**-7 if result.dtype.mantissa_bits in (7, 10) else 1e-5
    if result.dtype.is_float:
        np.testing.assert_allclose(found.astype(np.float64), expected.astype(np.float64), rtol=rtol, atol=1e-6)
    else:
        np.testing.assert_array_equal(found, expected)


@pytest.fixture
def _on_python() -> Any:
    with Context(DEV="PYTHON"):
        yield


@pytest.mark.usefixtures("_on_python")
def test_ways_to_read() -> None:
    x = Tensor([[1.0, 2.0], [3.0, 4.0]]) * 2
    assert x.tolist() == [[2, 4], [6, 8]]
    assert x.sum().item() == 20
    assert x.data().tolist() == [[2, 4], [6, 8]]
    assert bool(x.sum() > 3) and int(x[0, 0]) == 2 and float(x[1, 1]) == 8
    assert [10, 20, 30][Tensor(1)] == 20
    assert np.asarray(x).sum() == 20
    assert np.asarray(x, np.int32).dtype == np.int32
    assert Tensor([0.5], dtype=dtypes.bfloat16).tolist() == [0.5]
    assert Tensor(3).item() == 3 and Tensor(True).item() is True
    assert Tensor.zeros(0, 2).tolist() == []


@pytest.mark.usefixtures("_on_python")
def test_realize_leaves_a_buffer_and_returns_the_tensor() -> None:
    x, y = Tensor([1.0, 2.0]) + 1, Tensor([3.0]) * 2
    assert x.realize(y) is x
    assert x.uop.op is y.uop.op is ops.BUFFER
    assert (x.tolist(), y.tolist()) == ([2, 3], [6])
    z = Tensor.ones(2) + 1
    assert Tensor.realize(z) is z
    assert z.tolist() == [2, 2]


@pytest.mark.usefixtures("_on_python")
def test_reading_keeps_the_graph() -> None:
    x = Tensor([1.0, 2.0]) + 1
    graph = x.uop
    assert x.tolist() == [2, 3]
    assert x.uop is graph


def test_devices() -> None:
    x = Tensor([1.0, 2.0], device="PYTHON")
    assert x.device == "PYTHON"
    y = (x + 1).to("CPU")
    assert y.device == "CPU"
    assert y.tolist() == [2, 3]
    assert x.to("PYTHON") is x
    assert Tensor.ones(2).to("PYTHON").device == "PYTHON"
    assert Tensor.ones(2, device="PYTHON").realize().uop.device == "PYTHON"
    assert x.clone().tolist() == x.detach().tolist() == x.contiguous().tolist() == [1, 2]


def test_a_tensor_can_move_itself() -> None:
    x = Tensor([1.0, 2.0])
    same_one = x.to_("PYTHON")
    assert same_one is x
    assert x.device == "PYTHON"
    np.testing.assert_array_equal(x.numpy(), [1, 2])


VIEWS: dict[str, Callable[[Tensor], Tensor]] = {
    "permute": lambda t: t.permute(1, 0),
    "reshape": lambda t: t.reshape(16, 32),
    "flip": lambda t: t.flip(0, 1),
    "shrink": lambda t: t[3:9, 1:],
    "expand": lambda t: t.reshape(1, 32, 16).expand(4, 32, 16),
}


ARRAY = np.arange(512, dtype=np.float32).reshape(32, 16)


@pytest.mark.parametrize("is_copied", (False, True))
@pytest.mark.parametrize("name", VIEWS)
def test_a_view_of_a_value_that_is_gone_is_stored_once(name: str, is_copied: bool) -> None:
    base = Tensor(ARRAY).clone().realize()
    wanted = VIEWS[name](base).numpy() * 2
    value = base * 2
    shown = VIEWS[name](value.contiguous() if is_copied else value)
    del value
    is_copy_read_again = is_copied and name == "expand"
    expected = (2, wanted.nbytes + ARRAY.nbytes) if is_copy_read_again else (1, wanted.nbytes)
    assert counted(shown) == expected
    np.testing.assert_array_equal(shown.numpy(), wanted)


@pytest.mark.parametrize("name", VIEWS)
def test_a_view_of_a_copy_shows_the_memory_of_the_copy(name: str) -> None:
    base = Tensor(ARRAY).clone().realize()
    wanted = VIEWS[name](base).numpy() * 2
    copy = (base * 2).contiguous()
    shown = VIEWS[name](copy)
    assert counted(shown) == (1, ARRAY.nbytes)
    np.testing.assert_array_equal(shown.numpy(), wanted)
    copy += 1
    np.testing.assert_array_equal(shown.numpy(), wanted + 1)
    np.testing.assert_array_equal(base.numpy(), ARRAY)


def counted(tensor: Tensor) -> tuple[int, int]:
    """Kernels, and bytes written, of realising a tensor."""
    GlobalCounters.reset()
    tensor.realize()
    return GlobalCounters.kernel_count, GlobalCounters.bytes_written
