"""The examples that train learn what they say, at small sizes."""

from __future__ import annotations

import gzip
import importlib.util
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest

from whit import Tensor, nn

pytestmark = pytest.mark.slow

EXAMPLES = Path(__file__).parents[2] / "examples"


def load(name: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location(f"examples_{name}", EXAMPLES / f"{name}.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def write_mnist(folder: Path) -> None:
    """Files as MNIST has them, with the digits that come with whit."""
    example = load("mnist_convnet")
    x, y, test_x, test_y = nn.datasets.digits()
    for name, images, labels in (("train", x, y), ("t10k", test_x, test_y)):
        points, classes = example.enlarged(images).numpy()[:, 0], labels.numpy()
        for kind, array in (("images-idx3", points), ("labels-idx1", classes)):
            head = bytes([0, 0, 8, array.ndim]) + np.array(array.shape, ">u4").tobytes()
            (folder / f"{name}-{kind}-ubyte.gz").write_bytes(gzip.compress(head + array.tobytes(), 1))


def test_mnist_convnet(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write_mnist(tmp_path)
    share = load("mnist_convnet").main(30, str(tmp_path))
    assert share > 0.85
    assert capsys.readouterr().out == f"{share:.2%} of 355 test digits are read correctly\n"


def test_mnist_convnet_says_that_it_has_no_files(capsys: pytest.CaptureFixture[str]) -> None:
    x, y, test_x, test_y = load("mnist_convnet").load(None)
    assert (x.shape, y.shape, test_x.shape, test_y.shape) == ((1442, 1, 28, 28), (1442,), (355, 1, 28, 28), (355,))
    assert x.max().item() == 255
    assert capsys.readouterr().out.startswith("no folder with MNIST was given")


def test_gpt(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    gpt, text, weights = load("gpt"), tmp_path / "text", str(tmp_path / "gpt.safetensors")
    text.write_text("the quick brown fox jumps over the lazy dog\n" * 50)
    small = {"width": 32, "layers": 1, "context": 16, "batch": 16, "lr": 0.01, "prompt": "the quick b"}
    losses, written = gpt.main(str(text), 120, count=20, save_to=weights, **small)
    assert losses[0] > 3.0 and losses[-1] < 0.5  # 3.33 is chance, and the first letters of a window are hard to guess
    assert written == "the quick brown fox jumps over "
    assert written in capsys.readouterr().out
    model = gpt.load(weights)
    assert gpt.sample(model, "the quick b", 8, top_k=1) == "the quick brown fox"
    np.testing.assert_array_equal(model.out.weight.numpy(), nn.state.safe_load(weights)["out.weight"].numpy())


def test_gpt_draws_from_the_likely_characters() -> None:
    gpt = load("gpt")

    class Fixed:
        letters = "abcd"

        def __call__(self, window: Tensor) -> Tensor:
            return Tensor([0.25, 0.5, 0.125, 0.125]).log().expand(*window.shape, 4)

    Tensor.manual_seed(0)
    window = Tensor.zeros(4000, 2, dtype="int32")
    drawn = [
        np.bincount(gpt.next_token(Fixed(), window, *how).numpy()[:, 0], minlength=4) for how in ((1.0, 9), (0.5, 2))
    ]
    np.testing.assert_allclose(drawn[0] / 4000, [0.25, 0.5, 0.125, 0.125], atol=0.03)
    np.testing.assert_allclose(drawn[1] / 4000, [0.2, 0.8, 0, 0], atol=0.03)  # squares of the probabilities


def test_resnet(capsys: pytest.CaptureFixture[str]) -> None:
    assert load("resnet").main(steps=40, width=8, size=8) > 0.75
    assert "176,258 weights\n" in capsys.readouterr().out


def test_resnet_18_is_that_of_torchvision() -> None:
    model = load("resnet").ResNet18(3)
    state = nn.state.get_state_dict(model)
    weights = sum(tensor.numel() for tensor in nn.state.get_parameters(model))
    # The usual one has a first convolution of 7 by 7, and 1,000 classes.
    assert weights == 11_689_512 - 3 * 64 * (49 - 9) - 513 * 990
    assert state["layer2.0.downsample.0.weight"].shape == (128, 64, 1, 1)
    assert "layer4.1.bn2.running_var" in state and "layer1.0.downsample.0.weight" not in state


def test_diffusion(tmp_path: Path) -> None:
    losses, drawn = load("diffusion").main(120, width=64, columns=2, folder=str(tmp_path))
    assert losses[0] > 0.7 and np.mean(losses[-20:]) < 0.25
    x, y, _, _ = (tensor.numpy() for tensor in nn.datasets.digits())
    points = x.reshape(-1, 64) / 8 - 1
    nearest = ((drawn.numpy()[:, None] - points) ** 2).sum(-1).argmin(1)
    assert np.mean(y[nearest] == np.arange(10).repeat(2)) >= 0.8  # it draws the digit that was asked for
    picture = (tmp_path / "diffusion.svg").read_text()
    assert picture.count("<rect") == 1 + 20 * 64


def test_lstm(capsys: pytest.CaptureFixture[str]) -> None:
    assert load("lstm").main(300, length=2, width=16) < 0.02  # 0.167 without learning
    assert "mean squared error" in capsys.readouterr().out


def test_the_adding_problem_marks_a_number_in_each_half() -> None:
    x, y = (tensor.numpy() for tensor in load("lstm").problems(50, 6))
    assert x.shape == (6, 50, 2)
    np.testing.assert_array_equal(x[:3, :, 1].sum(0), 1)
    np.testing.assert_array_equal(x[3:, :, 1].sum(0), 1)
    np.testing.assert_allclose(y, (x[..., 0] * x[..., 1]).sum(0), rtol=1e-6)


def test_policy_gradient() -> None:
    lengths = load("policy_gradient").main(rounds=12, moves=60)
    assert lengths[0] < 30
    assert np.mean(lengths[-3:]) > 1.5 * lengths[0]


def test_the_pole_falls_as_in_the_formulas() -> None:
    example = load("policy_gradient")
    state = np.array([[0.1, -0.2, 0.05, 0.3]])
    _, speed, angle, turn = state[0]
    push = (10.0 + 0.05 * turn**2 * np.sin(angle)) / 1.1
    turning = (9.8 * np.sin(angle) - np.cos(angle) * push) / (0.5 * (4 / 3 - 0.1 * np.cos(angle) ** 2 / 1.1))
    pushing = push - 0.05 * turning * np.cos(angle) / 1.1
    found = example.move(Tensor(state), Tensor([1])).numpy()
    np.testing.assert_allclose(found, state + 0.02 * np.array([[speed, pushing, turn, turning]]), rtol=1e-12)


def test_lora(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    example = load("lora")
    found = example.main(120, folder=str(tmp_path))
    assert found["upright"] > 0.9 and found["before"] < 0.6
    assert found["adapted"] > 0.8 and found["merged"] == pytest.approx(found["adapted"], abs=0.01)
    assert "adapters: 2,344 weights are trained" in capsys.readouterr().out


def test_lora_leaves_the_weights_as_they_are() -> None:
    example = load("lora")
    base, x = nn.Linear(6, 5), Tensor.randn(7, 6).realize()
    before, plain = base.weight.numpy(), base(x).numpy()
    layer = example.LoRA(base, 2)
    np.testing.assert_allclose(layer(x).numpy(), plain, rtol=1e-6)
    opt = nn.optim.SGD(nn.state.get_parameters(layer), lr=0.5)
    assert [tensor.shape for tensor in opt.params] == [(2, 6), (5, 2)]
    for _ in range(2):  # the first one moves `up` alone
        opt.zero_grad()
        layer(x).square().mean().backward()
        opt.step()
    np.testing.assert_array_equal(base.weight.numpy(), before)
    assert np.abs(layer(x).numpy() - plain).max() > 1e-3
    np.testing.assert_allclose(layer.merged()(x).numpy(), layer(x).numpy(), rtol=1e-5, atol=1e-6)
