"""Models that print their layers, with and without a base class, and layers without weights beside PyTorch's."""

from __future__ import annotations

import copy
import pickle
from typing import Any

import numpy as np
import pytest

from whit import GlobalCounters, Tensor, TinyJit, nn
from whit.errors import ArgumentError


class Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = nn.Linear(784, 128), nn.Linear(128, 10)

    def forward(self, x: Tensor) -> Tensor:
        return self.second(self.first(x).relu())


class Plain:
    def __init__(self) -> None:
        self.stem = nn.Sequential(nn.Conv2d(3, 8, 3, stride=2, padding=1), nn.BatchNorm2d(8), nn.ReLU())
        self.blocks = [nn.Linear(8, 8, bias=False) for _ in range(2)]
        self.tied = self.blocks[0]
        self.functions = [Tensor.relu, nn.Dropout(0.1)]
        self.scale = Tensor.ones(3)
        self.name, self.size = "plain", 3


def test_a_model_prints_its_layers_with_shapes_and_numbers_of_parameters() -> None:
    GlobalCounters.reset()
    assert repr(Net()) == str(Net()) == nn.summary(Net())
    assert str(Net()).splitlines() == [
        "Net: 101,770 parameters",
        "  first   Linear(784, 128)  weight (128, 784), bias (128,)  100,480",
        "  second  Linear(128, 10)   weight (10, 128), bias (10,)      1,290",
    ]
    assert GlobalCounters.kernel_count == 0


def test_any_object_has_a_summary() -> None:
    words = [line.split() for line in nn.summary(Plain()).splitlines()]
    assert words[0] == ["Plain:", "371", "parameters"]
    assert [" ".join(line) for line in words[1:]] == [
        "scale (3,) 3",
        "stem.0 Conv2d(3, 8, (3, 3), stride=2, padding=1) weight (8, 3, 3, 3), bias (8,) 224",
        "stem.1 BatchNorm2d(8) weight (8,), bias (8,); running_mean, running_var, num_batches_tracked 16",
        "stem.2 ReLU()",
        "blocks.0 Linear(8, 8, bias=False) weight (8, 8) 64",
        "blocks.1 Linear(8, 8, bias=False) weight (8, 8) 64",
        "tied Linear(8, 8, bias=False) weight (8, 8)",
        "functions.0 relu",
        "functions.1 Dropout(p=0.1)",
    ]
    counted = sum(int(np.prod(tensor.shape)) for tensor in nn.state.get_parameters(Plain()))
    assert counted == 371
    assert nn.summary([nn.Linear(2, 2)]).startswith("list: 6 parameters\n  0  Linear(2, 2)")
    assert nn.summary({}) == "dict: 0 parameters"
    assert nn.summary({"a": Tensor.ones(1)}).splitlines()[0] == "dict: 1 parameter"


def test_a_model_that_contains_itself_is_walked_once() -> None:
    net = Net()
    net.me = net  # type: ignore[attr-defined]
    assert nn.summary(net).count("\n") == 2


@pytest.mark.parametrize(
    "layer, text",
    (
        (nn.Linear(3, 4), "Linear(3, 4)"),
        (nn.Linear(3, 4, bias=False), "Linear(3, 4, bias=False)"),
        (nn.Conv1d(4, 6, 3, groups=2), "Conv1d(4, 6, (3,), groups=2)"),
        (nn.Conv3d(1, 2, 3), "Conv3d(1, 2, (3, 3, 3))"),
        (nn.ConvTranspose2d(4, 6, 2, stride=2, groups=2), "ConvTranspose2d(4, 6, (2, 2), stride=2, groups=2)"),
        (nn.Embedding(10, 4), "Embedding(10, 4)"),
        (nn.BatchNorm(4, affine=False), "BatchNorm(4, affine=False)"),
        (nn.LayerNorm(4, eps=1e-6), "LayerNorm((4,), eps=1e-06)"),
        (nn.RMSNorm(4, elementwise_affine=False), "RMSNorm(4, elementwise_affine=False)"),
        (nn.GroupNorm(2, 4), "GroupNorm(2, 4)"),
        (nn.InstanceNorm(4), "InstanceNorm(4)"),
        (nn.LSTMCell(3, 4), "LSTMCell(3, 4)"),
        (nn.GELU("tanh"), "GELU(approximate='tanh')"),
        (nn.MaxPool2d(2), "MaxPool2d(2)"),
        (nn.CrossEntropyLoss(label_smoothing=0.1), "CrossEntropyLoss(label_smoothing=0.1)"),
        (nn.Sequential(), "Sequential()"),
    ),
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_a_layer_prints_how_it_was_made(layer: Any, text: str) -> None:
    assert repr(layer) == text


def test_layers_of_layers_print_a_table() -> None:
    assert repr(nn.LSTM(3, 4, bidirectional=True)) == "LSTM(3, 4, bidirectional=True)"
    assert repr(nn.TransformerBlock(8, 2)).count("\n") == 8


# ---- the base class


def test_forward_is_what_a_module_calls_and_methods_are_pytorchs() -> None:
    net = Net()
    x = Tensor.ones(2, 784)
    assert net(x).shape == (2, 10)
    assert [name for name, _ in net.named_parameters()] == [
        "first.weight",
        "first.bias",
        "second.weight",
        "second.bias",
    ]
    assert [id(tensor) for tensor in net.parameters()] == [id(tensor) for _, tensor in net.named_parameters()]
    other = Net()
    other.load_state_dict(net.state_dict())
    assert np.array_equal(other(x).numpy(), net(x).numpy())
    assert net.to("PYTHON") is net
    assert {tensor.device for tensor in net.parameters()} == {"PYTHON"}


def test_modules_are_copied_and_pickled() -> None:
    net = nn.Sequential(nn.Linear(2, 3), nn.ReLU())
    x = Tensor.ones(1, 2)
    for twin in (copy.deepcopy(net), pickle.loads(pickle.dumps(net))):
        assert np.array_equal(twin(x).numpy(), net(x).numpy())
        assert twin[0] is not net[0]


def test_what_a_forward_reads_is_watched_by_the_jit() -> None:
    class Scaled(nn.Module):
        def __init__(self) -> None:
            self.scale = 2.0

        def forward(self, x: Tensor) -> Tensor:
            return x * self.scale

    for net in (Scaled(), nn.Sequential(Scaled())):
        inner = net if isinstance(net, Scaled) else net[0]
        step = TinyJit(lambda x, net=net: net(x))
        assert step(Tensor([1.0, 2.0])).tolist() == [2, 4]
        inner.scale = 3.0
        assert step(Tensor([1.0, 2.0])).tolist() == [3, 6]
        whole = TinyJit(net)
        assert whole(Tensor([1.0, 2.0])).tolist() == [3, 6]
        inner.scale = 4.0
        assert whole(Tensor([1.0, 2.0])).tolist() == [4, 8]


def test_mistakes_with_modules() -> None:
    class Empty(nn.Module):
        pass

    with pytest.raises(ArgumentError, match=r"Empty: the class has no forward(.|\n)*Define forward"):
        Empty()(3)
    with pytest.raises(AttributeError, match=r"Module has no `share_memory`; instead: `nn.state.safe_save`"):
        Net().share_memory()  # type: ignore[attr-defined]
    assert not hasattr(nn.Linear, "init")
    with pytest.raises(
        TypeError, match=r"Linear: there is no argument `use_bias`(.|\n)*It takes in_features(.|\n)*`bias=`"
    ):
        nn.Linear(3, 4, use_bias=False)  # type: ignore[call-arg]
    with pytest.raises(TypeError, match=r"Net: there is no argument `wide`(.|\n)*called at test_module.py"):
        Net(wide=3)  # type: ignore[call-arg]
    with pytest.raises(TypeError, match=r"BatchNorm2d: there is no argument `epsilon`"):
        nn.BatchNorm2d(3, epsilon=3)  # type: ignore[call-arg]
    with pytest.raises(TypeError, match=r"Tanh\(\) takes no arguments"):
        nn.Tanh(3)  # type: ignore[call-arg]
    with pytest.raises(TypeError, match="missing 1 required positional argument"):
        nn.Linear(3)  # type: ignore[call-arg]
    with pytest.raises(ArgumentError, match="Sequential: 3 is no layer"):
        nn.Sequential(nn.ReLU(), 3)


def test_sequential_is_a_list_of_layers_under_pytorchs_names() -> None:
    layers: list[Any] = [nn.Linear(4, 8), Tensor.relu, nn.Linear(8, 1)]
    for net in (nn.Sequential(*layers), nn.Sequential(layers)):
        assert len(net) == 3 and list(net) == layers and net[-1] is layers[2]
        assert isinstance(net[1:], nn.Sequential) and list(net[1:]) == layers[1:]
        assert sorted(nn.state.get_state_dict(net)) == ["0.bias", "0.weight", "2.bias", "2.weight"]
        x = Tensor.ones(2, 4)
        assert np.array_equal(net(x).numpy(), x.sequential(layers).numpy())
    assert nn.Sequential()(3) == 3


def test_lists_dictionaries_and_parameters_are_plain() -> None:
    assert type(nn.ModuleList([nn.ReLU()])) is list and type(nn.ModuleDict({"a": nn.ReLU()})) is dict
    parameter = nn.Parameter(Tensor.zeros(3))
    assert isinstance(parameter, Tensor) and parameter.requires_grad is True
    assert nn.Parameter([1.0], requires_grad=False).requires_grad is False


# ---- layers without weights

X = np.random.default_rng(0).standard_normal((2, 4, 6, 6)).astype(np.float32) * 3
WEIGHTLESS = """
ReLU()
ReLU(inplace=True)
ReLU6()
SiLU()
Mish()
SELU()
CELU(0.5)
ELU(0.5)
LeakyReLU(0.2)
Hardswish()
Hardsigmoid()
Hardtanh(-2, 0.5)
Sigmoid()
LogSigmoid()
Tanh()
Softsign()
Softplus()
Softplus(2)
GELU()
GELU(approximate="tanh")
Softmax(dim=1)
LogSoftmax(1)
Identity()
Identity(3, unused=4)
Dropout(0.5)
Flatten()
Flatten(2)
Flatten(0, 1)
Unflatten(1, (2, 2))
MaxPool2d(2)
MaxPool2d(3, 2, 1)
MaxPool2d(3, stride=2, padding=1)
MaxPool2d((3, 2), 1, dilation=2)
AvgPool2d(2)
AvgPool2d(3, 2, 1)
AvgPool2d(3, 1, padding=1, count_include_pad=False)
Flatten(1, 2), MaxPool1d(2)
Flatten(1, 2), AvgPool1d(3, 2, 1)
AdaptiveAvgPool2d(1)
AdaptiveAvgPool2d((2, 3))
Upsample(scale_factor=2)
Upsample(size=9)
Upsample(scale_factor=2, mode="bilinear")
"""


@pytest.mark.parametrize("made", WEIGHTLESS.strip().splitlines())
def test_layers_without_weights_compute_what_pytorchs_do(made: str) -> None:
    torch = pytest.importorskip("torch")
    theirs = eval(f"Sequential({made})", vars(torch.nn).copy()).eval()(torch.tensor(X)).numpy()
    ours = eval(f"Sequential({made})", vars(nn).copy())(Tensor(X))
    assert ours.shape == theirs.shape
    np.testing.assert_allclose(ours.numpy(), theirs, rtol=2e-5, atol=2e-6)


LOSSES = """
MSELoss() real
MSELoss(reduction="sum") real
L1Loss() real
SmoothL1Loss(beta=0.5) real
HuberLoss(delta=0.5) real
BCELoss() share
BCEWithLogitsLoss() label
CrossEntropyLoss() classes
CrossEntropyLoss(label_smoothing=0.1, ignore_index=2) classes
NLLLoss() classes
NLLLoss(ignore_index=2, reduction="sum") classes
"""


@pytest.mark.parametrize("made", LOSSES.strip().splitlines())
def test_losses_compute_what_pytorchs_do(made: str) -> None:
    torch = pytest.importorskip("torch")
    expression, _, kind = made.rpartition(" ")
    rng = np.random.default_rng(1)
    x = rng.random((5, 4)).astype(np.float32) if kind == "share" else X[0, :, :5, 0].T.copy()
    y = {
        "real": rng.standard_normal((5, 4)).astype(np.float32),
        "share": rng.random((5, 4)).astype(np.float32),
        "label": rng.random((5, 4)).astype(np.float32),
        "classes": np.array([0, 3, 2, 1, 2]),
    }[kind]
    theirs = eval(f"nn.{expression}", {"nn": torch.nn})(torch.tensor(x), torch.tensor(y)).item()
    assert eval(f"nn.{expression}", {"nn": nn})(Tensor(x), Tensor(y)).item() == pytest.approx(theirs, rel=1e-5)


def test_dropout_drops_while_training_only() -> None:
    x = Tensor.ones(1000)
    assert (nn.Dropout(0.5)(x).numpy() == 1).all()
    with Tensor.train():
        dropped = nn.Dropout(0.5)(x).numpy()
    assert set(np.unique(dropped)) == {0.0, 2.0}


def test_convolutions_of_three_axes() -> None:
    torch = pytest.importorskip("torch")
    ours, theirs = nn.Conv3d(2, 3, 2, stride=2), torch.nn.Conv3d(2, 3, 2, stride=2)
    nn.state.load_state_dict(
        ours, {name: Tensor(value.detach().numpy()) for name, value in theirs.state_dict().items()}
    )
    x = X.reshape(1, 2, 4, 6, 6)
    np.testing.assert_allclose(ours(Tensor(x)).numpy(), theirs(torch.tensor(x)).detach().numpy(), rtol=1e-4, atol=1e-5)


# ---- training or not, and what is in a model


class Deep(nn.Module):
    def __init__(self) -> None:
        self.drop, self.blocks = nn.Dropout(0.5), [Net(), Net()]
        self.tied = self.blocks[0]

    def forward(self, x: Tensor) -> Tensor:
        return self.drop(x)


def test_train_and_eval_hold_for_all_modules_whatever_tensor_training_is() -> None:
    deep, x = Deep(), Tensor.ones(1000)
    assert not deep.training and not deep.drop.training
    with Tensor.train():
        assert deep.training and deep.drop.training
        assert deep.eval() is deep and not deep.drop.training
        assert (deep(x) == 1).all().item()
    assert deep.train().drop.training and deep.blocks[1].first.training
    assert 300 < (deep(x) == 0).sum().item() < 700
    deep.drop.training = False
    assert (deep(x) == 1).all().item()
    assert copy.deepcopy(deep).training
    assert "training" not in "".join(nn.state.get_state_dict(deep))


def test_a_captured_step_follows_train_and_eval() -> None:
    drop = nn.Dropout(1.0)
    step = TinyJit(lambda x: drop(x) + 0)
    x = Tensor.ones(4)
    for mode, wanted in ((True, 0.0), (False, 4.0), (True, 0.0), (False, 4.0)):
        drop.train(mode)
        for _ in range(3):
            assert step(x).sum().item() == wanted


def test_modules_are_walked_with_their_names() -> None:
    deep = Deep()
    names = [name for name, _ in deep.named_modules()]
    assert names == [
        "",
        "drop",
        "blocks.0",
        "blocks.0.first",
        "blocks.0.second",
        "blocks.1",
        "blocks.1.first",
        "blocks.1.second",
    ]
    assert [name for name, _ in deep.named_children()] == ["drop", "blocks.0", "blocks.1"]
    assert list(deep.children()) == [deep.drop, *deep.blocks]
    assert next(deep.modules()) is deep
    seen: list[nn.Module] = []
    assert deep.apply(seen.append) is deep
    assert seen == list(deep.modules())[::-1]
    assert deep.get_submodule("blocks.1.first") is deep.blocks[1].first
    with pytest.raises(ArgumentError, match="get_submodule: Deep has no 'block'"):
        deep.get_submodule("block")


def test_buffers_parameters_and_dtypes_of_a_module() -> None:
    norm = nn.BatchNorm2d(3)
    assert [name for name, _ in norm.named_buffers()] == ["running_mean", "running_var", "num_batches_tracked"]
    norm.register_buffer("table", Tensor.ones(2))
    assert len(list(norm.buffers())) == 4 and len(list(norm.parameters())) == 2
    norm.half()
    assert {tensor.dtype.name for tensor in norm.state_dict().values()} == {"float16", "int64"}
    norm.requires_grad_(False)
    assert list(norm.parameters()) == []
    net = Net()
    next(net.parameters()).grad = Tensor.ones(128, 784)
    net.zero_grad()
    assert next(net.parameters()).grad is None
    grown = nn.Sequential(nn.Linear(2, 3)).append(nn.ReLU())
    assert len(grown) == 2 and isinstance(grown[1], nn.ReLU)
