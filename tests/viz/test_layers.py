"""The model in recordings: layers with their parameters, what gives values to what, and the launches of each."""

import re
from pathlib import Path

import pytest

import whit
from whit import Tensor, nn
from whit.viz.cli import main
from whit.viz.load import load
from whit.viz.model import Trace
from whit.viz.report.layers import layers_data, layers_text, owner_of

pytestmark = pytest.mark.cpu


class Block:
    def __init__(self) -> None:
        self.norm = nn.LayerNorm(16)
        self.up, self.down = nn.Linear(16, 32), nn.Linear(32, 16)

    def __call__(self, x: Tensor) -> Tensor:
        return x + self.down(self.up(self.norm(x)).relu())


class Net:
    def __init__(self) -> None:
        self.table = nn.Embedding(11, 16)
        self.blocks = [Block() for _ in range(2)]
        self.head = nn.Linear(16, 11, bias=False)

    def __call__(self, ids: Tensor) -> Tensor:
        x = self.table(ids)
        for block in self.blocks:
            x = block(x)
        return self.head(x)


@pytest.fixture(scope="module")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("layers") / "run.trace"
    net = Net()
    optim = nn.optim.SGD(nn.state.get_parameters(net), lr=0.1)
    ids = Tensor.arange(32).mod(11).realize()
    with whit.trace(path, rewrites=False), Tensor.train():
        for _ in range(2):
            optim.zero_grad()
            net(ids).cross_entropy(ids).backward()
            optim.step()
    return path


@pytest.fixture(scope="module")
def trace(recorded: Path) -> Trace:
    return load(recorded)


def test_layers_have_classes_and_parameters(trace: Trace) -> None:
    kinds = {path: layer.kind for path, layer in trace.layers.items()}
    inside = {"norm": "LayerNorm", "up": "Linear", "down": "Linear"}
    blocks = {f"blocks.{i}.{name}": kind for i in range(2) for name, kind in inside.items()}
    outer = {"": "Net", "table": "Embedding", "head": "Linear", "blocks.0": "Block", "blocks.1": "Block"}
    assert kinds == {**outer, **blocks}
    assert trace.layers["blocks.1.up"].parameters == [
        ("weight", "float32", [32, 16], 2048),
        ("bias", "float32", [32], 128),
    ]
    assert [row[0] for row in trace.layers["head"].parameters] == ["weight"]


def test_values_flow_from_layer_to_layer(trace: Trace) -> None:
    """What a block does itself is its relu between its layers, and after them the sum."""
    wanted = {("table", "blocks.0.norm"), ("table", "blocks.0#2"), ("blocks.0#2", "blocks.1.norm")}
    wanted |= {("blocks.0#2", "blocks.1#2"), ("blocks.1#2", "head")}
    for i in range(2):
        wanted |= {(f"blocks.{i}.norm", f"blocks.{i}.up"), (f"blocks.{i}.down", f"blocks.{i}#2")}
        wanted |= {(f"blocks.{i}.up", f"blocks.{i}"), (f"blocks.{i}", f"blocks.{i}.down")}
    assert set(trace.flows) == wanted


def test_views_of_one_value_that_layers_share_lead_from_none_to_the_other(tmp_path: Path) -> None:
    class Three:
        def __init__(self) -> None:
            self.norm, self.a, self.b, self.c = nn.LayerNorm(8), nn.Linear(8, 8), nn.Linear(8, 8), nn.Linear(8, 8)

        def __call__(self, x: Tensor) -> Tensor:
            y = self.norm(x)
            return self.a(y) * self.b(y) + self.c(y)

    x = Tensor.ones(2, 3, 8).contiguous().realize()
    with whit.trace(tmp_path / "three"):
        Three()(x).realize()
    found = set(load(tmp_path / "three").flows)
    assert found == {*(("norm", name) for name in "abc"), *((name, "") for name in "abc")}


def test_each_launch_belongs_to_one_layer_and_times_add_up(trace: Trace) -> None:
    data = layers_data(trace)
    by_path = {layer["path"]: layer for layer in data["layers"]}
    assert next(iter(by_path)) == "" and list(by_path).index("blocks") < list(by_path).index("blocks.0.up")
    launches = sum(layer["launches"] for layer in data["layers"]) + data["rest"]["launches"]
    assert launches == sum(len(run.times) for run in trace.runs)
    spent = sum(end - start for run in trace.runs for start, end in run.times)
    assert sum(by_path[""]["all_ns"].values()) + sum(data["rest"]["ns"].values()) == spent
    up = by_path["blocks.1.up"]
    assert {row["phase"] for row in up["kernels"]} >= {"forward", "backward"}
    assert any("linear backward + SGD step" in row["name"] for row in up["kernels"])
    parameters = sum(p["bytes"] for layer in data["layers"] for p in layer["parameters"])
    assert by_path[""]["all_bytes"] == parameters == 4 * (11 * 16 * 2 + 2 * (16 * 2 + 16 * 32 * 2 + 32 + 16))


def test_as_text(recorded: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([str(recorded), "layers"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].split()[:4] == ["layer", "class", "parameters", "bytes"]
    assert lines[1].startswith("the model  ") and "outside of layers" in lines[-1]
    assert any(re.match(r" {6}up +Linear +weight \(32, 16\), bias \(32,\) +2.2 kB  ", line) for line in lines)


def test_a_launch_is_found_by_its_name(recorded: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([str(recorded), "list"]) == 0
    assert "head linear backward + SGD step" in capsys.readouterr().out
    assert main([str(recorded), "show", "head linear backward + SGD step"]) == 0
    assert "computes head linear backward + SGD step  test_layers.py:" in capsys.readouterr().out


def test_recordings_without_layers(trace: Trace, tmp_path: Path) -> None:
    with whit.trace(tmp_path / "plain"):
        (Tensor([1.0, 2.0]) * 3).realize()
    data = layers_data(load(tmp_path / "plain"))
    assert not data["layers"] and data["rest"]["launches"] == 1
    assert "no layers were recorded" in layers_text(data)


def test_the_layer_of_a_path() -> None:
    known = {"a": {}, "a.b": {}}
    assert owner_of("a.b.weight", known) == "a.b" and owner_of("a.c.d", known) == "a"
    assert owner_of("z", known) is None and owner_of("", known) is None
    assert owner_of("", {"": {}}) == "" and owner_of("-", {"": {}}) is None
