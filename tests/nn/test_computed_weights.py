"""Weights that are computed from others: parametrizations, weight norm, spectral norm; fused and lazy layers."""

from __future__ import annotations

import copy
import importlib
import pickle
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from whit import Tensor, dtypes, nn
from whit.errors import ArgumentError, DTypeError, ShapeError
from whit.nn.utils import parametrizations, parametrize

pytestmark = pytest.mark.slow

SEED = np.random.default_rng(0)


def array(*shape: int) -> np.ndarray:
    return SEED.standard_normal(shape).astype("float32")


# ---- against PyTorch

NORMS: dict[str, tuple[Callable[[Any], Any], tuple[int, ...]]] = {
    "weight_norm": (lambda n: n.utils.weight_norm(n.Linear(3, 4)), (2, 3)),
    "weight_norm of an axis": (lambda n: n.utils.weight_norm(n.Linear(3, 4), dim=1), (2, 3)),
    "parametrized weight_norm": (lambda n: n.utils.parametrizations.weight_norm(n.Linear(3, 4)), (2, 3)),
    "of all axes": (lambda n: n.utils.parametrizations.weight_norm(n.Linear(3, 4), dim=None), (2, 3)),
    "spectral_norm": (lambda n: n.utils.spectral_norm(n.Linear(3, 4)), (2, 3)),
    "parametrized spectral_norm": (lambda n: n.utils.parametrizations.spectral_norm(n.Linear(3, 4)), (2, 3)),
    "of a transposed convolution": (
        lambda n: n.utils.parametrizations.spectral_norm(n.ConvTranspose1d(3, 4, 2)),
        (2, 3, 4),
    ),
    "orthogonal": (lambda n: n.utils.parametrizations.orthogonal(n.Linear(3, 3)), (2, 3)),
    "orthogonal columns": (lambda n: n.utils.parametrizations.orthogonal(n.Linear(3, 4)), (2, 3)),
    "orthogonal rows": (lambda n: n.utils.parametrizations.orthogonal(n.Linear(5, 3), orthogonal_map="cayley"), (2, 5)),
    "orthogonal by exp": (
        lambda n: n.utils.parametrizations.orthogonal(n.Linear(5, 3), "weight", "matrix_exp"),
        (2, 5),
    ),
    "orthogonal without a base": (
        lambda n: n.utils.parametrizations.orthogonal(n.Linear(5, 3), use_trivialization=False),
        (2, 5),
    ),
    "of a vector": (lambda n: n.utils.parametrizations.spectral_norm(n.Linear(3, 4), "bias"), (2, 3)),
}


@pytest.mark.parametrize("name", NORMS)
def test_norms_of_weights_are_those_of_pytorch(name: str) -> None:
    torch = pytest.importorskip("torch")
    make, shape = NORMS[name]
    ours, theirs = make(nn), make(torch.nn)
    assert sorted(ours.state_dict()) == sorted(theirs.state_dict())
    ours.load_state_dict({key: Tensor(value.detach().numpy()) for key, value in theirs.state_dict().items()})
    for mode in (False, True, True):
        ours.train(mode), theirs.train(mode)
        ours.zero_grad(), theirs.zero_grad()
        x = array(*shape)
        y, other = ours(Tensor(x)), theirs(torch.tensor(x))
        assert np.allclose(y.numpy(), other.detach().numpy(), atol=1e-5)
        y.square().sum().backward()
        other.square().sum().backward()
        for key, value in theirs.named_parameters():
            assert np.allclose(ours.get_parameter(key).grad.numpy(), value.grad.numpy(), atol=1e-3), key


def test_adaptive_log_softmax_is_that_of_pytorch() -> None:
    torch = pytest.importorskip("torch")
    given = (8, 20, [3, 7])
    ours = nn.AdaptiveLogSoftmaxWithLoss(*given, div_value=2.0, head_bias=True)
    theirs = torch.nn.AdaptiveLogSoftmaxWithLoss(*given, div_value=2.0, head_bias=True)
    ours.load_state_dict({key: Tensor(value.numpy()) for key, value in theirs.state_dict().items()})
    x, y = array(10, 8), SEED.integers(0, 20, 10)
    found, wanted = ours(Tensor(x), Tensor(y)), theirs(torch.tensor(x), torch.tensor(y))
    assert np.allclose(found.output.numpy(), wanted.output.detach().numpy(), atol=1e-5)
    found.loss.backward()
    wanted.loss.backward()
    for key, value in theirs.named_parameters():
        assert np.allclose(ours.get_parameter(key).grad.numpy(), value.grad.numpy(), atol=1e-5), key
    assert ours.predict(Tensor(x)).tolist() == theirs.predict(torch.tensor(x)).tolist()


# ---- without it


def test_probabilities_of_an_adaptive_softmax_are_one_together() -> None:
    loss = nn.AdaptiveLogSoftmaxWithLoss(4, 9, [2, 5])
    x = Tensor(array(3, 4))
    logarithms = loss.log_prob(x).numpy()
    assert np.allclose(np.exp(logarithms).sum(1), 1, atol=1e-5)
    output, mean = loss(x, Tensor([1, 3, 8]))
    assert np.allclose(output.numpy(), logarithms[[0, 1, 2], [1, 3, 8]], atol=1e-5)
    assert np.isclose(mean.item(), -output.numpy().mean())
    assert np.allclose(loss(x[0], Tensor(1)).output.numpy(), output.numpy()[0], atol=1e-5)
    assert np.isnan(loss(x, Tensor([1, 3, 9])).loss.item())
    with pytest.raises(ArgumentError, match="cutoffs="):
        nn.AdaptiveLogSoftmaxWithLoss(4, 9, [5, 2])
    with pytest.raises(ShapeError, match="target"):
        loss(x, Tensor([1, 2]))


def test_a_weight_norm_is_a_length_times_a_direction() -> None:
    layer = nn.Linear(3, 4)
    weight = layer.weight.numpy()
    nn.utils.weight_norm(layer)
    assert np.allclose(layer.weight.numpy(), weight, atol=1e-6)
    length = layer.get_parameter("weight_g")
    assert length.shape == (4, 1)
    length.assign(Tensor.ones(4, 1))
    assert np.allclose(np.linalg.norm(layer.weight.numpy(), axis=1), 1, atol=1e-6)
    with pytest.raises(ArgumentError, match="computed from other tensors"):
        layer.weight = Tensor.ones(4, 3)
    with pytest.raises(ArgumentError, match="has it already"):
        nn.utils.weight_norm(layer)
    nn.utils.remove_weight_norm(layer)
    assert sorted(layer.state_dict()) == ["bias", "weight"]
    with pytest.raises(ArgumentError, match="has none"):
        nn.utils.remove_weight_norm(layer)


def test_a_spectral_norm_finds_the_largest_singular_value() -> None:
    for norm in (nn.utils.spectral_norm, parametrizations.spectral_norm):
        layer = nn.Linear(6, 4)
        weight = np.diag([8.0, 0.5, 0.3, 0.2, 0.1, 0.1])[:4].astype("float32")
        layer.weight.assign(Tensor(weight)).realize()
        layer = norm(layer, n_power_iterations=3).train()
        layer(Tensor.ones(1, 6)).realize()
        assert np.allclose(layer.weight.numpy(), weight / np.linalg.norm(weight, 2), atol=1e-3)
        for other in (copy.deepcopy(layer).eval(), pickle.loads(pickle.dumps(layer)).eval()):
            assert np.allclose(other.weight.numpy(), layer.eval().weight.numpy(), atol=1e-6)
    nn.utils.remove_spectral_norm(nn.utils.spectral_norm(nn.Linear(2, 2)))


@pytest.mark.parametrize(
    ("kind", "shape"), [("matrix_exp", (4, 4)), ("cayley", (3, 5)), ("householder", (5, 3)), ("householder", (4, 4))]
)
def test_an_orthogonal_weight_stays_so(kind: str, shape: tuple[int, int]) -> None:
    layer = nn.Linear(shape[1], shape[0], bias=False)
    before = np.linalg.qr(array(max(shape), min(shape)))[0]
    before = before if shape[0] >= shape[1] else np.ascontiguousarray(before.T)
    layer.weight.assign(Tensor(before)).realize()
    parametrizations.orthogonal(layer, orthogonal_map=kind)
    assert np.allclose(layer.weight.numpy(), before, atol=1e-5)
    opt = nn.optim.SGD(nn.state.get_parameters(layer), lr=0.3)
    (layer(Tensor.eye(shape[1])) - Tensor(array(shape[1], shape[0]))).square().sum().backward()
    opt.step()
    after = layer.weight.numpy()
    gram = after @ after.T if shape[0] < shape[1] else after.T @ after
    assert np.abs(after - before).max() > 0.05 and np.allclose(gram, np.eye(min(shape)), atol=1e-5)
    layer.weight = Tensor(before)
    assert np.allclose(layer.weight.numpy(), before, atol=1e-5)


def test_weights_that_cannot_be_orthogonal() -> None:
    layer = nn.Linear(3, 3)
    with pytest.raises(ValueError, match="orthogonal: bias of Linear is"):
        parametrizations.orthogonal(layer, "bias")
    with pytest.raises(ArgumentError, match="orthogonal_map='exp'"):
        parametrizations.orthogonal(layer, orthogonal_map="exp")
    with pytest.raises(ArgumentError, match="matrix_exp has no inverse here"):
        parametrizations.orthogonal(layer, use_trivialization=False)
    assert sorted(layer.state_dict()) == ["bias", "weight"]


class Symmetric(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return x.triu() + x.triu(1).transpose()

    def right_inverse(self, x: Tensor) -> Tensor:
        return x.triu()


class Twice(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return x * 2

    def right_inverse(self, x: Tensor) -> Tensor:
        return x / 2


def test_parametrizations_compute_what_is_read_and_invert_what_is_set() -> None:
    layer = nn.Linear(3, 3)
    assert parametrize.register_parametrization(layer, "weight", Symmetric()) is layer
    parametrize.register_parametrization(layer, "weight", Twice())
    wanted = np.array([[1.0, 2, 3], [2, 4, 5], [3, 5, 6]], dtype="float32")
    layer.weight = Tensor(wanted)
    assert np.array_equal(layer.weight.numpy(), wanted)
    assert np.array_equal(layer.parametrizations["weight"].original.numpy(), np.triu(wanted) / 2)
    assert sorted(layer.state_dict()) == ["bias", "parametrizations.weight.original"]
    assert parametrize.is_parametrized(layer, "weight") and not parametrize.is_parametrized(layer, "bias")
    optimizer = nn.optim.SGD(layer.parameters(), lr=0.1)
    layer(Tensor.ones(1, 3)).sum().backward()
    optimizer.step()
    now = layer.weight.numpy()
    assert np.allclose(now, now.T) and not np.allclose(now, wanted)
    parametrize.remove_parametrizations(layer, "weight")
    assert np.array_equal(layer.weight.numpy(), now) and type(layer).__name__ == "Linear"
    assert not parametrize.is_parametrized(layer)


def test_wrong_parametrizations_are_told_and_leave_the_module() -> None:
    layer = nn.Linear(3, 2)
    before = layer.weight.numpy()
    with pytest.raises(ArgumentError, match="and would be"):
        parametrize.register_parametrization(layer, "weight", lambda x: x.sum())
    with pytest.raises(ArgumentError, match="has no tensor 'weights'"):
        parametrize.register_parametrization(layer, "weights", Twice())
    with pytest.raises(ArgumentError, match="has none"):
        parametrize.remove_parametrizations(layer, "weight")
    with pytest.raises(ArgumentError, match="has none"):
        nn.utils.remove_spectral_norm(layer)
    assert np.array_equal(layer.weight.numpy(), before) and sorted(layer.state_dict()) == ["bias", "weight"]


def test_a_convolution_and_its_batch_norm_are_one() -> None:
    for transpose, layer in (
        (False, nn.Conv1d(3, 4, 2)),
        (True, nn.ConvTranspose1d(3, 4, 2)),
        (False, nn.Linear(3, 4)),
    ):
        norm, shape = nn.BatchNorm1d(4), (2, 3) if isinstance(layer, nn.Linear) else (2, 3, 5)
        norm.load_state_dict(
            {"running_mean": Tensor(array(4)), "running_var": Tensor(array(4) ** 2), "weight": Tensor(array(4))},
            strict=False,
        )
        layer.eval(), norm.eval()
        x = Tensor(array(*shape))
        if isinstance(layer, nn.Linear):
            fused = nn.utils.fuse_linear_bn_eval(layer, norm)
        else:
            fused = nn.utils.fuse_conv_bn_eval(layer, norm, transpose)
        assert np.allclose(fused(x).numpy(), norm(layer(x)).numpy(), rtol=1e-3, atol=1e-3)
    with pytest.raises(ArgumentError, match="in training"):
        nn.utils.fuse_conv_bn_eval(layer.train(), norm)


# ---- made on the first call, on a device, of a dtype

LAZY: dict[str, tuple[tuple[Any, ...], tuple[int, ...], str]] = {
    "LazyLinear": ((4,), (2, 3), "Linear(3, 4)"),
    "LazyConv1d": ((4, 2), (3, 5), "Conv1d(3, 4, (2,))"),
    "LazyConv2d": ((4, 2), (2, 3, 5, 5), "Conv2d(3, 4, (2, 2))"),
    "LazyConvTranspose1d": ((4, 2), (2, 3, 5), "ConvTranspose1d(3, 4, (2,))"),
    "LazyBatchNorm1d": ((), (2, 3), "BatchNorm1d(3)"),
    "LazyBatchNorm2d": ((), (2, 3, 4, 4), "BatchNorm2d(3)"),
    "LazyInstanceNorm2d": ((), (2, 3, 4, 4), "InstanceNorm2d(3)"),
}


@pytest.mark.parametrize("name", LAZY)
def test_lazy_layers_become_those_of_their_first_input(name: str) -> None:
    given, shape, text = LAZY[name]
    layer = getattr(nn, name)(*given, dtype="float16").eval()
    assert not list(layer.parameters()) and layer.has_uninitialized_params()
    layer(Tensor.ones(*shape))
    assert repr(layer) == text and not layer.training
    assert {tensor.dtype for tensor in layer.parameters()} <= {dtypes.float16}


def test_a_lazy_layer_says_what_it_needs() -> None:
    assert repr(nn.LazyConv2d(4, kernel_size=3)) == "LazyConv2d(4, kernel_size=3)"
    with pytest.raises(ShapeError, match="It has 3 axes at least"):
        nn.LazyConv2d(4, 3)(Tensor.ones(3, 3))


LAYERS: dict[str, tuple[Any, ...]] = {
    "Linear": (3, 4),
    "Conv2d": (2, 3, 3),
    "ConvTranspose2d": (2, 3, 3),
    "Bilinear": (2, 3, 4),
    "BatchNorm": (4,),
    "BatchNorm2d": (4,),
    "InstanceNorm2d": (4, 1e-5, 0.1, True, True),
    "LayerNorm": (4,),
    "RMSNorm": (4,),
    "GroupNorm": (2, 4),
    "Embedding": (5, 4, 1),
    "EmbeddingBag": (5, 4),
    "LSTM": (3, 4, 2),
    "GRU": (3, 4),
    "RNN": (3, 4),
    "LSTMCell": (3, 4),
    "RNNCell": (3, 4),
    "MultiheadAttention": (4, 2),
    "TransformerDecoderLayer": (4, 2, 8),
    "Transformer": (4, 2, 1, 1, 8),
    "PReLU": (),
    "AdaptiveLogSoftmaxWithLoss": (4, 9, [2, 5]),
}


@pytest.mark.parametrize("name", LAYERS)
def test_layers_are_made_on_a_device_and_of_a_dtype(name: str) -> None:
    layer = getattr(nn, name)(*LAYERS[name], device="NULL", dtype=dtypes.float16)
    state = layer.state_dict()
    assert {tensor.device for tensor in state.values()} == {"NULL"}
    assert {tensor.dtype for key, tensor in state.items() if "batches" not in key} == {dtypes.float16}
    plain = getattr(nn, name)(*LAYERS[name])
    assert {tensor.dtype for key, tensor in plain.state_dict().items() if "batches" not in key} == {dtypes.float32}
    assert repr(plain) == repr(layer)


def test_where_and_as_what_a_layer_is_made_is_checked() -> None:
    assert nn.Linear(2, 2, True, "NULL", "float16").weight.dtype is dtypes.float16
    with pytest.raises(DTypeError, match="Weights are floats"):
        nn.Linear(2, 2, dtype=dtypes.int32)
    with pytest.raises(RuntimeError, match='there is no device "NOWHERE"'):
        nn.Linear(2, 2, device="NOWHERE")
    with pytest.raises(ArgumentError, match='Did you mean "dtype"'):
        nn.Linear(2, 2, dtypes="float16")  # type: ignore[call-arg]


# ---- states


def test_what_a_state_does_not_fit_is_returned() -> None:
    layer = nn.Linear(2, 2)
    found = layer.load_state_dict({"weight": Tensor.ones(2, 2), "extra": Tensor([1.0])}, strict=False)
    assert found.missing_keys == ["bias"] and found.unexpected_keys == ["extra"]
    assert layer.load_state_dict(layer.state_dict()) == ([], [])
    half = {"weight": Tensor.zeros(2, 2, dtype="float16"), "bias": Tensor.zeros(2, device="PYTHON")}
    layer.load_state_dict(half, assign=True)
    assert layer.weight.dtype is dtypes.float16 and layer.bias is not None and layer.bias.device == "PYTHON"
    with pytest.raises(RuntimeError, match="missing"):
        layer.load_state_dict({}, assign=True)
    into: dict[str, Any] = {"a": 1}
    assert layer.state_dict(destination=into, prefix="net.") is into
    assert list(into) == ["a", "net.weight", "net.bias"]


def test_modules_have_pytorchs_small_methods() -> None:
    net = nn.Sequential(nn.Linear(2, 3), nn.BatchNorm1d(3))
    assert next(net.parameters()) is net[0].weight
    assert [name for name, _ in net[0].named_parameters("net")] == ["net.weight", "net.bias"]
    assert list(net.named_parameters(recurse=False)) == []
    assert net.get_parameter("0.bias") is net[0].bias and net.get_buffer("1.running_var") is net[1].running_var
    with pytest.raises(ArgumentError, match=r"get_parameter: there is no '0.biass'"):
        net.get_parameter("0.biass")
    net.set_submodule("1", nn.Identity())
    net.add_module("2", nn.ReLU())
    assert repr(net[1]) == "Identity()" and len(net) == 3
    assert net.type("float64")[0].weight.dtype is dtypes.float64
    tied = nn.Sequential(net[0], net[0])
    assert len(list(tied.parameters())) == 2
    assert len(list(tied.named_parameters(remove_duplicate=False))) == 4

    class Named(nn.Module):
        def extra_repr(self) -> str:
            return "of 3"

    assert repr(Named()) == "Named(of 3)"
    assert importlib.import_module("whit.nn.utils").parametrize is parametrize
