"""Functions that ONNX has an operator for become that operator, where it means the same."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from onnx_models.test_export import HAS_RUNTIME, check, in_runtime, kinds, normal, same
from whit import Tensor, nn, onnx
from whit.errors import ArgumentError
from whit.onnx.proto import read_model
from whit.onnx.wire import Wire
from whit.tensor.source import open_source

pytestmark = pytest.mark.cpu
functional: Any = nn.functional


def _eval(layer: Any) -> Any:
    """A layer for inference, with weights that are not 0 and 1."""
    tensors = list(nn.state.get_state_dict(layer).values())
    for number, tensor in enumerate(tensors):
        if tensor.is_floating_point():
            steps = Tensor.arange(tensor.shape[0]).reshape(-1, *[1] * (tensor.ndim - 1)) / 8
            tensor.assign(Tensor.full(tensor.shape, 0.5 + number / 4) + steps)
    if tensors:
        Tensor.realize(*tensors)
    return layer.eval()


IMAGE, ROWS = (2, 4, 6, 8), (3, 5, 16)
LAYERS: dict[str, tuple[Callable[[], Any], tuple[int, ...], list[str], int]] = {
    "layer norm": (lambda: nn.LayerNorm(16), ROWS, ["LayerNormalization"], 18),
    "layer norm of two axes": (lambda: nn.LayerNorm((5, 16)), ROWS, ["LayerNormalization"], 18),
    "layer norm, no bias": (lambda: nn.LayerNorm(16, bias=False), ROWS, ["LayerNormalization"], 18),
    "layer norm, no weights": (lambda: nn.LayerNorm(16, elementwise_affine=False), ROWS, ["LayerNormalization"], 18),
    "rms norm": (lambda: nn.RMSNorm(16), ROWS, ["RMSNormalization"], 23),
    "batch norm": (lambda: nn.BatchNorm2d(4), IMAGE, ["BatchNormalization"], 18),
    "batch norm, no weights": (lambda: nn.BatchNorm2d(4, affine=False), IMAGE, ["BatchNormalization"], 18),
    "instance norm": (lambda: nn.InstanceNorm2d(4, affine=True), IMAGE, ["InstanceNormalization"], 18),
    "instance norm, no weights": (lambda: nn.InstanceNorm2d(4), IMAGE, ["InstanceNormalization"], 18),
    "group norm": (lambda: nn.GroupNorm(2, 4), IMAGE, ["GroupNormalization"], 21),
    "gelu": (lambda: nn.GELU(), ROWS, ["Gelu"], 20),
    "gelu, tanh": (lambda: nn.GELU("tanh"), ROWS, ["Gelu"], 20),
    "softmax": (lambda: nn.Softmax(1), ROWS, ["Softmax"], 18),
    "log softmax": (lambda: nn.LogSoftmax(1), ROWS, ["LogSoftmax"], 18),
    "elu": (lambda: nn.ELU(0.7), ROWS, ["Elu"], 18),
    "celu": (lambda: nn.CELU(0.7), ROWS, ["Celu"], 18),
    "selu": (lambda: nn.SELU(), ROWS, ["Selu"], 18),
    "leaky relu": (lambda: nn.LeakyReLU(0.2), ROWS, ["LeakyRelu"], 18),
    "hard sigmoid": (lambda: nn.Hardsigmoid(), ROWS, ["HardSigmoid"], 18),
    "hard swish": (lambda: nn.Hardswish(), ROWS, ["HardSwish"], 18),
    "mish": (lambda: nn.Mish(), ROWS, ["Mish"], 18),
    "softplus": (lambda: nn.Softplus(), ROWS, ["Softplus"], 18),
    "softsign": (lambda: nn.Softsign(), ROWS, ["Softsign"], 18),
    "average pool": (lambda: nn.AvgPool2d(2), IMAGE, ["AveragePool"], 18),
    "average pool, padded": (lambda: nn.AvgPool2d(3, 2, 1), IMAGE, ["AveragePool"], 18),
    "average pool of a line": (lambda: nn.AvgPool1d(3, 2, 1), (2, 4, 9), ["AveragePool"], 18),
    "average of the whole": (lambda: nn.AdaptiveAvgPool2d(1), IMAGE, ["GlobalAveragePool"], 18),
    "average to a size": (lambda: nn.AdaptiveAvgPool2d((3, 4)), IMAGE, ["AveragePool"], 18),
    "convolution": (lambda: nn.Conv2d(4, 6, 3, 2, 1, groups=2), IMAGE, ["Conv"], 18),
    "convolution, no bias": (lambda: nn.Conv2d(4, 6, 3, bias=False), IMAGE, ["Conv"], 18),
    "transposed": (lambda: nn.ConvTranspose2d(4, 6, 3, 2, 1, 1), IMAGE, ["ConvTranspose"], 18),
    "transposed, groups": (lambda: nn.ConvTranspose2d(4, 6, 3, groups=2, dilation=2), IMAGE, ["ConvTranspose"], 18),
    "transposed line": (lambda: nn.ConvTranspose1d(4, 2, 4, 3, bias=False), (2, 4, 9), ["ConvTranspose"], 18),
}


@pytest.mark.parametrize("name", LAYERS)
def test_a_layer_is_one_node(name: str) -> None:
    make, shape, wanted, opset = LAYERS[name]
    layer = _eval(make())
    assert kinds(check(layer, normal(*shape), opset=opset)) == wanted


@pytest.mark.parametrize("opset", [18, 20])
@pytest.mark.parametrize("name", ["rms norm", "group norm", "gelu"])
def test_older_versions_have_the_parts(name: str, opset: int) -> None:
    make, shape, wanted, since = LAYERS[name]
    found = kinds(check(_eval(make()), normal(*shape), opset=opset))
    assert (found == wanted) is (opset >= since)


RESIZES: dict[str, tuple[dict[str, Any], tuple[int, ...]]] = {
    "nearest, twice": ({"scale_factor": 2, "mode": "nearest"}, IMAGE),
    "nearest, a size": ({"size": (4, 11), "mode": "nearest"}, IMAGE),
    "nearest-exact": ({"size": (4, 11), "mode": "nearest-exact"}, IMAGE),
    "linear, a size": ({"size": (9, 5), "mode": "bilinear"}, IMAGE),
    "linear, a factor": ({"scale_factor": 1.7, "mode": "bilinear"}, IMAGE),
    "linear, corners": ({"size": (9, 12), "mode": "bilinear", "align_corners": True}, IMAGE),
    "cubic": ({"size": (12, 16), "mode": "bicubic"}, IMAGE),
    "of a line": ({"size": 21, "mode": "linear"}, (2, 3, 8)),
    "to one": ({"size": (1, 1), "mode": "bilinear"}, IMAGE),
}


@pytest.mark.parametrize("name", RESIZES)
def test_a_resize_is_one_node(name: str) -> None:
    options, shape = RESIZES[name]
    assert kinds(check(lambda x: functional.interpolate(x, **options), normal(*shape))) == ["Resize"]


@pytest.mark.parametrize("kind", ["plain", "causal", "a mask of floats", "fewer heads of keys", "a scale"])
def test_attention_is_one_node(kind: str) -> None:
    heads = 2 if kind == "fewer heads of keys" else 4
    q, k, v = normal(2, 4, 6, 8), normal(2, heads, 6, 8), normal(2, heads, 6, 8) + 1
    options: dict[str, Any] = {"enable_gqa": True} if heads == 2 else {}
    options |= {"is_causal": True} if kind == "causal" else {"scale": 0.3} if kind == "a scale" else {}
    mask = [normal(6, 6)] if kind == "a mask of floats" else []

    def attend(q: Any, k: Tensor, v: Tensor, *mask: Tensor) -> Any:
        return q.scaled_dot_product_attention(k, v, *mask, **options)

    names = ["q", "k", "v", "mask"][: 3 + len(mask)]
    assert kinds(check(attend, q, k, v, *mask, opset=23, input_names=names)) == ["Attention"]


def test_what_means_something_else_is_written_in_parts() -> None:
    seen = normal(2, 4, 6, 8)
    mask = Tensor.arange(6).reshape(1, 6) < Tensor.arange(6).reshape(6, 1)  # the first query sees nothing
    found = check(lambda x: x.scaled_dot_product_attention(x, x, mask), seen, opset=23)
    assert "Attention" not in kinds(found)
    assert "AveragePool" not in kinds(check(lambda x: x.avg_pool2d((2, 3), ceil_mode=True), seen))
    assert "LayerNormalization" not in kinds(check(lambda x: x.layernorm(axis=1), seen))
    assert "Softplus" not in kinds(check(lambda x: x.softplus(2.0), seen))
    assert "Softmax" not in kinds(check(lambda x: x.softmax((1, 2)), seen))
    assert "Gelu" not in kinds(check(lambda x: x.gelu(), (seen * 4).cast("int32"), opset=20))


def test_a_part_of_a_function_is_not_taken_for_the_function() -> None:
    """The same numbers are used besides, and what follows is not lost."""
    layer = _eval(nn.LayerNorm(16))
    x = normal(*ROWS)
    found = check(lambda x: (layer(x).gelu("none") + x, x.layernorm()), x, opset=20)
    assert sorted(kinds(found)) == ["Add", "Gelu", "LayerNormalization", "LayerNormalization"]


def test_a_size_may_have_a_name() -> None:
    model = nn.Sequential(nn.LayerNorm(16), nn.GELU(), nn.Softmax(-1))
    others = [(normal(7, 5, 16),), (normal(1, 2, 16),)]
    data = check(_eval(model), normal(*ROWS), others=others, opset=20, dynamic_axes={"x": {0: "n", 1: "m"}})
    assert kinds(data) == ["LayerNormalization", "Gelu", "Softmax"]


# ---- names, texts, data beside the file


class _Block:
    def __init__(self) -> None:
        self.norm, self.up = nn.LayerNorm(16), nn.Linear(16, 32)

    def __call__(self, x: Tensor) -> Tensor:
        return self.up(self.norm(x)).relu()


class _Net:
    def __init__(self) -> None:
        self.blocks = [_Block()]
        self.head = nn.Linear(32, 4)

    def __call__(self, x: Tensor) -> Tensor:
        return self.head(self.blocks[0](x))


def test_nodes_are_called_after_layers_and_are_seen_so_again() -> None:
    data = onnx.export(_Net(), normal(2, 16), doc_string="a small net", metadata={"author": "someone", "classes": "4"})
    proto = read_model(Wire(open_source("onnx", data)))
    assert proto.graph is not None
    scopes = [node.name.rpartition("/")[0] for node in proto.graph.nodes]
    assert set(scopes) == {"/blocks.0/norm", "/blocks.0/up", "/blocks.0", "/head"}
    assert len({node.name for node in proto.graph.nodes}) == len(proto.graph.nodes)
    assert b"a small net" in data and onnx.load(data).metadata == {"author": "someone", "classes": "4"}


@pytest.mark.parametrize("given", [True, "weights.bin"])
def test_weights_lie_in_a_file_beside(given: bool | str, tmp_path: Path) -> None:
    net, x = _Net(), normal(2, 16)
    path = tmp_path / "net.onnx"
    data = onnx.export(net, x, path, external_data=given)
    beside = tmp_path / ("net.onnx.data" if given is True else str(given))
    assert sorted(tmp_path.iterdir()) == sorted([path, beside]) and path.read_bytes() == data
    assert beside.stat().st_size >= 16 * 32 * 4 > 1024 and len(data) < 3000
    wanted = net(x).numpy()
    np.testing.assert_allclose(onnx.load(path)({"x": x})["output"].numpy(), wanted, 1e-5, 1e-6)
    if HAS_RUNTIME:
        same([wanted], in_runtime(path, {"x": x.numpy()}))


def test_wrong_places_for_data(tmp_path: Path) -> None:
    x = normal(2, 16)
    with pytest.raises(ArgumentError, match="external_data without a path"):
        onnx.export(_Net(), x, external_data=True)
    for name in ("../w.bin", "net.onnx"):
        with pytest.raises(ArgumentError, match="external_data="):
            onnx.export(_Net(), x, tmp_path / "net.onnx", external_data=name)
    with pytest.raises(ValueError, match="draws random numbers"):
        onnx.export(lambda x: x + Tensor.rand(2, 16), x, tmp_path / "net.onnx", external_data=True)
    assert not list(tmp_path.iterdir())
