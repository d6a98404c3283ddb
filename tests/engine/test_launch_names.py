"""Launches are named after the lines and layers that they compute; kernels and schedules know nothing of it."""

import subprocess
import sys
from pathlib import Path

import pytest

import whit
from whit import Context, GlobalCounters, Tensor, TinyJit, nn
from whit.engine.compile import compile as compile_module
from whit.engine.report import launch_names
from whit.engine.report.launch_names import running_names, watch
from whit.engine.report.launch_words import merged
from whit.engine.report.spoken import small

pytestmark = pytest.mark.cpu


class Attention:
    def __init__(self) -> None:
        self.q, self.k, self.v = (nn.Linear(16, 16) for _ in range(3))

    def __call__(self, x: Tensor) -> Tensor:
        q, k = [layer(x) for layer in (self.q, self.k)]
        scores = q @ k.transpose(-1, -2)
        weights = scores.contiguous().softmax().contiguous()
        return weights @ self.v(x)


class Block:
    def __init__(self) -> None:
        self.parts = {"attn": Attention()}
        self.up = [[nn.Linear(16, 32)]]

    def __call__(self, x: Tensor) -> Tensor:
        return self.helper(self.parts["attn"](x))

    def helper(self, x: Tensor) -> Tensor:
        return self.up[0][0](x.contiguous())[..., :16].contiguous()


class Model:
    def __init__(self) -> None:
        self.blocks = [Block() for _ in range(3)]

    def __call__(self, x: Tensor) -> Tensor:
        for block in self.blocks:
            x = block(x)
        return x.relu()


@pytest.fixture
def model() -> Model:
    found = Model()
    Tensor.realize(*nn.state.get_parameters(found))
    return found


@pytest.fixture
def x() -> Tensor:
    return Tensor.arange(2 * 8 * 16).reshape(2, 8, 16).float().contiguous().realize()


def names_of(run: object, count: int = 10**9) -> list[str]:
    """The labels of what ran, each kernel's without its line."""
    with whit.profile() as found:
        run()  # type: ignore[operator]
    return [name.partition("  ")[0] for row in found.kernels for name in row.labels]


def line_of(text: str) -> int:
    return next(i for i, line in enumerate(Path(__file__).read_text().splitlines(), 1) if text in line)


def test_layers_have_the_names_of_their_parameters(model: Model, x: Tensor) -> None:
    found = set(names_of(lambda: model(x).realize()))
    for i in range(3):
        assert f"blocks.{i}.parts.attn softmax" in found
        assert f"blocks.{i}.parts.attn.q linear" in found
        assert f"blocks.{i}.up.0.0 linear" + " + relu" * (i == 2) in found


def test_debug_names_line_and_layer(model: Model, x: Tensor, capsys: pytest.CaptureFixture[str]) -> None:
    with Context(DEBUG=2):
        model(x).realize()
    lines = capsys.readouterr().out.splitlines()
    where = f"MB  test_launch_names.py:{line_of('.softmax()')}  "
    (line,) = [line for line in lines if "blocks.2.parts.attn softmax " in line]
    assert line.index("blocks.2") == 17 and where in line  # first what it computes, last the name of the kernel
    assert "(" not in line.partition(where)[2]


def test_equal_layers_are_one_kernel_with_many_names(model: Model, x: Tensor) -> None:
    model(x).realize()
    before = len(compile_module._kernels)
    with whit.profile() as found:
        model(x).realize()
    assert len(compile_module._kernels) == before  # names are no part of any key
    (row,) = [row for row in found.kernels if "softmax" in row.label]
    assert row.calls == 3
    assert row.label == f"blocks.*.parts.attn softmax  test_launch_names.py:{line_of('.softmax()')}"
    assert row.label in str(found)


def test_the_same_layer_realised_alone_has_the_name_of_its_launch(model: Model, x: Tensor) -> None:
    scores = Tensor.ones(2, 8, 8).contiguous().realize()

    def first() -> None:
        (scores.softmax() * 2.5).realize()

    def second() -> None:
        (scores.softmax() * 2.5).realize()

    with whit.profile() as found:
        first()
        second()
    (row,) = found.kernels
    lines = [i for i, line in enumerate(Path(__file__).read_text().splitlines(), 1) if "softmax() * 2.5" in line]
    assert list(row.labels) == [f"softmax + mul  test_launch_names.py:{line}" for line in lines[:2]]


def test_explain_names_lines_and_classes_without_being_asked_before(model: Model, x: Tensor) -> None:
    GlobalCounters.reset()
    text = model(x).explain()
    assert GlobalCounters.kernel_count == 0
    assert "  Attention softmax  float32(2, 8, 8)\n" in text
    assert f"     test_launch_names.py:{line_of('.softmax()')}, kernel " in text
    assert any("Attention softmax" in kernel.label for kernel in model(x).kernels())
    assert any(kernel.explain().startswith("Attention softmax on ") for kernel in model(x).kernels())


def test_gradients_are_named_after_what_they_are_of(model: Model, x: Tensor) -> None:
    weight = model.blocks[1].up[0][0].weight
    found = names_of(lambda: model(x).sum().gradient(weight)[0].realize())
    assert "blocks.1.up.0.0 linear backward" in found
    assert "blocks.2.parts.attn softmax backward" in found


@pytest.mark.parametrize("is_watched", (False, True))
def test_captured_functions_have_names(model: Model, x: Tensor, is_watched: bool) -> None:
    f = TinyJit(lambda x: model(x).realize())
    end = watch() if is_watched else lambda: None
    for _ in range(3):
        f(x)
    end()
    found = names_of(lambda: f(x))
    where = "blocks.1.parts.attn" if is_watched else "Attention"
    assert f"{where} softmax" in found
    assert any(f"{where} softmax" in kernel.label for kernel in f.captured_kernels())


def test_nothing_is_kept_alive_and_nothing_is_noted_where_nobody_asks(model: Model, x: Tensor) -> None:
    assert not launch_names.watched
    place = launch_names.made(model(x).uop)
    assert place is not None and place[3] == ""
    with whit.profile():
        place = launch_names.made((x * 3.5).uop)
        assert launch_names.watched
    assert not launch_names.watched
    assert not any(running_names(2))
    used = GlobalCounters.mem_used
    with Context(DEBUG=2):
        model(x)  # never computed
    assert GlobalCounters.mem_used == used


def test_classes_in_small_letters() -> None:
    names = "Linear LayerNorm RMSNorm GELU LeakyReLU PReLU BatchNorm2d LSTM BCEWithLogitsLoss L1Loss MyBlock _Conv"
    words = (
        "linear layer_norm rms_norm gelu leaky_relu prelu batch_norm2d lstm bce_with_logits_loss l1_loss my_block conv"
    )
    assert [small(name) for name in names.split()] == words.split()


class Trained:
    def __init__(self) -> None:
        self.table = nn.Embedding(11, 16)
        self.body = nn.Sequential(nn.Linear(16, 32), Tensor.gelu, nn.LayerNorm(32), nn.Linear(32, 11))
        self.scale = Tensor.ones(11).contiguous()

    def __call__(self, ids: Tensor) -> Tensor:
        return self.body(self.table(ids)) * self.scale


def test_a_step_of_training_in_the_words_of_the_program(capsys: pytest.CaptureFixture[str]) -> None:
    net = Trained()
    optim = nn.optim.Adam(nn.state.get_parameters(net))
    ids = Tensor.arange(32).mod(11).realize()
    with whit.profile() as found, Tensor.train():
        net(ids).cross_entropy(ids).backward()
        optim.step()
    names = {name.partition("  ")[0] for row in found.kernels for name in row.labels}
    assert any(name.startswith("body.0 linear") and "backward" not in name for name in names)
    assert any(name.startswith("body.2 layer_norm backward") for name in names)
    assert any(name.startswith("cross_entropy") for name in names)
    assert "table embedding backward" in names
    assert {"body.0 linear backward + Adam step", "body.3 linear backward + Adam step"} <= names
    assert any(name.endswith(" Adam step") and name.startswith("table.weight") for name in names)
    assert not [name for name in names if "sequential" in name or name.startswith(("add", "mul", "Net", "body "))]
    assert all(len(name) <= 60 for name in names)


@whit.function
def wave(x: Tensor) -> Tensor:
    return (x @ x).contiguous().sin()


def test_kernels_of_functions_are_called_after_them(x: Tensor) -> None:
    w = Tensor.ones(8, 8).contiguous().realize()
    with whit.profile() as found:
        wave(wave(w) + 1).exp().realize()
        wave(w).sum().gradient(w)[0].realize()
    names = {row.name for row in found.launches}
    assert {"wave", "exp", "wave backward"} <= names and all(names)
    with whit.profile() as found:
        whit.scan(lambda c, v: (c * 0.5 + v, c), Tensor.ones(8).contiguous().realize(), w)[1].realize()
    assert "scan" in {row.name for row in found.launches}


def test_gradients_of_convolutions_keep_their_name_in_captured_functions() -> None:
    layer = nn.Conv2d(1, 4, 3)
    optim = nn.optim.SGD(nn.state.get_parameters(layer), lr=0.1)
    x = Tensor.ones(2, 1, 8, 8).contiguous().realize()

    @TinyJit
    def step(x: Tensor) -> None:
        layer(x).square().sum().backward()
        optim.step()
        optim.zero_grad()

    with Tensor.train(), whit.profile() as found:
        for _ in range(3):
            step(x)
    assert any(row.name == "conv2d backward + SGD step" for row in found.launches)


def test_a_kernel_is_named_after_the_most_important_thing_in_it(x: Tensor) -> None:
    w = Tensor.ones(16, 16).contiguous().realize()
    found = names_of(lambda: ((x * 2 + 1) @ w).relu().realize())
    assert found[-1].startswith("matmul")
    (kernel,) = (x * 2).softmax().kernels()
    assert (kernel.launch.name, kernel.launch.fused) == ("softmax + mul", ("softmax", "mul"))
    assert kernel.launch.also == "" and "with " not in kernel.explain()
    many = (x.exp().sin() * 2 + x.sqrt()).abs().tanh().sigmoid().kernels()[-1]
    assert many.launch.name == "exp + sin + mul + sqrt" and many.launch.also == "add, abs, tanh, sigmoid"
    assert "  with add, abs, tanh, sigmoid\n" in many.explain()


def test_names_of_many_launches() -> None:
    assert merged(["a.0.b f  x.py:1"]) == "a.0.b f  x.py:1"
    assert merged(["a.0.b f  x.py:1", "a.11.b f  x.py:1"]) == "a.*.b f  x.py:1"
    assert merged(["a.0 linear  x.py:1", "a.2 linear  x.py:1"]) == "a.* linear  x.py:1"
    assert merged(["", "a f  x.py:1", "b f  x.py:1", "c f  x.py:1"]) == "a f  x.py:1; b f  x.py:1; and 1 more"
    assert merged([]) == merged([""]) == ""


@pytest.mark.slow
def test_a_program_under_profile(tmp_path: Path) -> None:
    program = tmp_path / "train.py"
    program.write_text("from whit import Tensor\nx = Tensor([[1.0, 2.0]]).realize()\n(x * 2.5).softmax().realize()\n")
    command = [sys.executable, str(program)]
    environment = {"PROFILE": "1", "DEBUG": "2", "PATH": "", "CACHE": "0", "PYTHONPATH": ":".join(sys.path)}
    done = subprocess.run(command, capture_output=True, text=True, env=environment, check=True)
    assert "softmax + mul  train.py:3  " in done.stderr
    (line,) = [line for line in done.stdout.splitlines() if "softmax" in line]
    assert line.split()[3:7] == ["softmax", "+", "mul", "float32(1,"] and "  train.py:3  " in line


def test_kernels_before_a_loop_have_names_too() -> None:
    class Recurrent:
        def __init__(self) -> None:
            self.first, self.lstm = nn.Linear(8, 8), nn.LSTM(8, 8)

        def __call__(self, x: Tensor) -> Tensor:
            return self.lstm(self.first(x).relu())[0]

    recurrent = Recurrent()
    Tensor.realize(*nn.state.get_parameters(recurrent))
    with whit.profile() as profile:
        recurrent(Tensor.ones(3, 2, 8)).realize()
    names = [launch.name for launch in profile.launches]
    assert "first linear + relu" in names and all(launch.layer != "-" for launch in profile.launches), names
