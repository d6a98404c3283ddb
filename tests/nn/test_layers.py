"""Layers: values, gradients and names of states as in PyTorch."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from whit import Tensor, nn

pytestmark = pytest.mark.slow  # a minute of compiling
RNG = np.random.default_rng(0)


def values(*shape: int) -> np.ndarray:
    return RNG.normal(size=shape).astype(np.float32)


def copy_weights(ours: Any, theirs: Any) -> None:
    """Gives our layer the weights of PyTorch's, by name: all names and shapes are the same."""
    state = {name: Tensor(tensor.detach().numpy()) for name, tensor in theirs.state_dict().items()}
    nn.state.load_state_dict(ours, state, verbose=False)


LAYERS: dict[str, tuple[Callable[[], Any], Callable[[Any], Any], tuple[int, ...]]] = {
    "linear": (lambda: nn.Linear(5, 3), lambda t: t.Linear(5, 3), (4, 5)),
    "linear-no-bias": (lambda: nn.Linear(5, 3, bias=False), lambda t: t.Linear(5, 3, bias=False), (2, 4, 5)),
    "conv1d": (lambda: nn.Conv1d(4, 6, 3, padding=1), lambda t: t.Conv1d(4, 6, 3, padding=1), (2, 4, 9)),
    "conv2d": (lambda: nn.Conv2d(4, 6, 3), lambda t: t.Conv2d(4, 6, 3), (2, 4, 9, 7)),
    "conv2d-odd": (
        lambda: nn.Conv2d(4, 6, (3, 2), stride=2, padding=(1, 0), dilation=(1, 2), groups=2, bias=False),
        lambda t: t.Conv2d(4, 6, (3, 2), stride=2, padding=(1, 0), dilation=(1, 2), groups=2, bias=False),
        (2, 4, 9, 7),
    ),
    "conv2d-same": (
        lambda: nn.Conv2d(3, 2, 4, padding="same"),
        lambda t: t.Conv2d(3, 2, 4, padding="same"),
        (2, 3, 9, 7),
    ),
    "transpose1d": (lambda: nn.ConvTranspose1d(4, 6, 3, stride=2), lambda t: t.ConvTranspose1d(4, 6, 3, 2), (2, 4, 5)),
    "transpose2d": (
        lambda: nn.ConvTranspose2d(4, 6, 3, stride=2, padding=1, output_padding=1, groups=2),
        lambda t: t.ConvTranspose2d(4, 6, 3, stride=2, padding=1, output_padding=1, groups=2),
        (2, 4, 5, 6),
    ),
    "batchnorm": (lambda: nn.BatchNorm(3), lambda t: t.BatchNorm2d(3).eval(), (4, 3, 5, 2)),
    "batchnorm-plain": (
        lambda: nn.BatchNorm(3, affine=False, track_running_stats=False),
        lambda t: t.BatchNorm2d(3, affine=False, track_running_stats=False),
        (4, 3, 5, 2),
    ),
    "layernorm": (lambda: nn.LayerNorm(6), lambda t: t.LayerNorm(6), (2, 3, 6)),
    "layernorm-two": (lambda: nn.LayerNorm((3, 6), eps=1e-2), lambda t: t.LayerNorm((3, 6), eps=1e-2), (2, 3, 6)),
    "rmsnorm": (lambda: nn.RMSNorm(6), lambda t: t.RMSNorm(6, eps=1e-6), (2, 3, 6)),
    "groupnorm": (lambda: nn.GroupNorm(2, 6), lambda t: t.GroupNorm(2, 6), (2, 6, 3, 5)),
    "instancenorm": (lambda: nn.InstanceNorm(3), lambda t: t.InstanceNorm2d(3, affine=True), (2, 3, 4, 5)),
}


@pytest.mark.parametrize("name", LAYERS)
def test_values_and_gradients_are_those_of_torch(name: str) -> None:
    torch = pytest.importorskip("torch")
    make, make_torch, shape = LAYERS[name]
    torch.manual_seed(0)
    ours, theirs = make(), make_torch(torch.nn)
    with torch.no_grad():
        for parameter in theirs.parameters():  # ones and zeros would hide a missing scale or shift
            parameter.copy_(torch.randn_like(parameter))
    copy_weights(ours, theirs)
    array = values(*shape)
    x, y = Tensor(array, requires_grad=True), torch.tensor(array, requires_grad=True)
    weights = nn.state.get_state_dict(ours)
    for tensor in nn.state.get_parameters(ours):
        tensor.requires_grad = True
    found, wanted = ours(x), theirs(y)
    np.testing.assert_allclose(found.numpy(), wanted.detach().numpy(), rtol=1e-4, atol=2e-5)
    factors = values(*wanted.shape)
    (found * Tensor(factors, requires_grad=False)).sum().backward()
    (wanted * torch.tensor(factors)).sum().backward()
    np.testing.assert_allclose(x.grad.numpy(), y.grad.numpy(), rtol=1e-3, atol=1e-4)
    for key, parameter in theirs.named_parameters():
        np.testing.assert_allclose(weights[key].grad.numpy(), parameter.grad.numpy(), rtol=1e-3, atol=1e-4)


def test_a_linear_layer_is_a_product_and_a_sum() -> None:
    layer, x = nn.Linear(5, 3), values(4, 5)
    np.testing.assert_allclose(layer(Tensor(x)).numpy(), x @ layer.weight.numpy().T + layer.bias.numpy(), rtol=1e-5)
    assert nn.Linear(5, 3, bias=False).bias is None
    assert np.abs(layer.weight.numpy()).max() <= 5**-0.5


def test_an_embedding_gives_rows_and_its_gradient_counts_them() -> None:
    layer = nn.Embedding(5, 3)
    rows = np.array([[0, 2], [2, 4]])
    found = layer(Tensor(rows))
    np.testing.assert_array_equal(found.numpy(), layer.weight.numpy()[rows])
    layer.weight.requires_grad = True
    found.sum().backward()
    np.testing.assert_array_equal(layer.weight.grad.numpy()[:, 0], [1, 0, 2, 0, 1])


def test_layernorm2d_is_over_channels() -> None:
    x = values(2, 6, 3, 4)
    wanted = (x - x.mean(1, keepdims=True)) / np.sqrt(x.var(1, keepdims=True) + 1e-5)
    np.testing.assert_allclose(nn.LayerNorm2d(6)(Tensor(x)).numpy(), wanted, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("shape", [(6, 3), (4, 3, 5), (4, 3, 5, 2), (2, 3, 2, 2, 2)], ids=str)
def test_batchnorm_keeps_running_statistics_while_training(shape: tuple[int, ...]) -> None:
    torch = pytest.importorskip("torch")
    kind = {2: "BatchNorm1d", 3: "BatchNorm1d", 4: "BatchNorm2d", 5: "BatchNorm3d"}[len(shape)]
    ours, theirs = getattr(nn, kind)(3), getattr(torch.nn, kind)(3)
    for step in range(3):
        x = values(*shape) * (step + 1) + step
        with Tensor.train():
            found = ours(Tensor(x))
        np.testing.assert_allclose(found.numpy(), theirs(torch.tensor(x)).detach().numpy(), rtol=1e-3, atol=1e-5)
    assert set(nn.state.get_state_dict(ours)) == set(theirs.state_dict())
    for name, tensor in theirs.state_dict().items():
        np.testing.assert_allclose(nn.state.get_state_dict(ours)[name].numpy(), tensor.numpy(), rtol=1e-5, atol=1e-6)
    x = values(*shape)
    np.testing.assert_allclose(
        ours(Tensor(x)).numpy(), theirs.eval()(torch.tensor(x)).detach().numpy(), rtol=1e-4, atol=1e-5
    )
    assert ours.num_batches_tracked.item() == 3


def test_statistics_are_no_parameters() -> None:
    assert len(nn.state.get_parameters(nn.BatchNorm(3))) == 2


@pytest.mark.parametrize("bias", [True, False])
def test_cells_are_those_of_torch(bias: bool) -> None:
    torch = pytest.importorskip("torch")
    x, h, c = values(4, 5), values(4, 3), values(4, 3)
    ours, theirs = nn.LSTMCell(5, 3, bias), torch.nn.LSTMCell(5, 3, bias)
    copy_weights(ours, theirs)
    wanted = theirs(torch.tensor(x), (torch.tensor(h), torch.tensor(c)))
    for one, other in zip(ours(Tensor(x), (Tensor(h), Tensor(c))), wanted, strict=True):
        np.testing.assert_allclose(one.numpy(), other.detach().numpy(), rtol=1e-4, atol=1e-6)
    for one, other in zip(ours(Tensor(x)), theirs(torch.tensor(x)), strict=True):
        np.testing.assert_allclose(one.numpy(), other.detach().numpy(), rtol=1e-4, atol=1e-6)
    unit, torch_unit = nn.GRUCell(5, 3, bias), torch.nn.GRUCell(5, 3, bias)
    copy_weights(unit, torch_unit)
    wanted = torch_unit(torch.tensor(x), torch.tensor(h)).detach().numpy()
    np.testing.assert_allclose(unit(Tensor(x), Tensor(h)).numpy(), wanted, rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize("is_causal", [True, False])
def test_attention_is_that_of_torch(is_causal: bool) -> None:
    torch = pytest.importorskip("torch")
    ours, theirs = nn.MultiHeadAttention(8, 2), torch.nn.MultiheadAttention(8, 2, batch_first=True)
    weights = theirs.in_proj_weight.detach().numpy().reshape(3, 8, 8)
    for layer, weight in zip((ours.query, ours.key, ours.value), weights, strict=True):
        layer.weight.assign(Tensor(weight.copy()))
        layer.bias.assign(Tensor.zeros(8))
    copy_weights(ours.out, theirs.out_proj)
    x = values(2, 5, 8)
    mask = torch.triu(torch.ones(5, 5, dtype=torch.bool), 1) if is_causal else None
    wanted, _ = theirs(*[torch.tensor(x)] * 3, attn_mask=mask)
    found = ours(Tensor(x), is_causal=is_causal).numpy()
    np.testing.assert_allclose(found, wanted.detach().numpy(), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("prenorm", [True, False])
def test_a_transformer_block_keeps_the_shape_and_all_weights_get_gradients(prenorm: bool) -> None:
    block = nn.TransformerBlock(8, 2, prenorm=prenorm)
    params = nn.state.get_parameters(block)
    for tensor in params:
        tensor.requires_grad = True
    found = block(Tensor(values(2, 5, 8)), is_causal=True)
    assert found.shape == (2, 5, 8)
    found.square().sum().backward()
    assert len(params) == 16
    Tensor.realize(*(tensor.grad for tensor in params))
    for tensor in params:
        assert np.isfinite(tensor.grad.numpy()).all()


def test_initial_values_are_spread_as_in_torch() -> None:
    torch = pytest.importorskip("torch")
    Tensor.manual_seed(1)
    torch.manual_seed(1)
    for ours, theirs in (
        (nn.Linear(300, 200), torch.nn.Linear(300, 200)),
        (nn.Conv2d(30, 40, 3), torch.nn.Conv2d(30, 40, 3)),
        (nn.LSTMCell(50, 60), torch.nn.LSTMCell(50, 60)),
        (nn.Embedding(300, 50), torch.nn.Embedding(300, 50)),
    ):
        for name, tensor in nn.state.get_state_dict(ours).items():
            other = theirs.state_dict()[name].numpy()
            assert tensor.shape == other.shape
            tolerance = max(0.1, 2 / other.size**0.5)  # of forty values, the deviation is known to about 10 %
            assert abs(tensor.numpy().std() - other.std()) < tolerance * other.std(), name


def test_nn_is_imported_beside_tensor() -> None:
    namespace: dict[str, Any] = {}
    exec("from whit import Tensor, nn\nfound = nn.optim.Adam, nn.state.get_parameters, nn.Linear", namespace)
    assert len(namespace["found"]) == 3


def test_norms_of_batches_take_the_name_that_tinygrad_has_for_channels() -> None:
    for name in ("BatchNorm", "BatchNorm1d", "BatchNorm2d", "BatchNorm3d"):
        assert getattr(nn, name)(sz=4).num_features == 4
