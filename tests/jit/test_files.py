"""Captured functions in files."""

from __future__ import annotations

import dataclasses
import enum
import json
import random
import subprocess
import sys
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from jit.programs import EQUAL
from whit import Context, Device, JitError, Tensor, TinyJit, Variable, nn
from whit.engine.compile.disk_cache import pack, unpack
from whit.errors import WhitError
from whit.jit.files import jit as jit_files
from whit.jit.files.jit import MAGIC
from whit.tensor.graphs import threefry

pytestmark = pytest.mark.slow


class Colour(enum.Enum):
    RED = 1


@dataclasses.dataclass
class Batch:
    x: Tensor
    colour: Colour = Colour.RED


class Pair(NamedTuple):
    first: Any
    second: Any


# ---- every call twice: from a file, and here


def copied(value: Any, memo: dict[int, Any]) -> Any:
    """Arguments with tensors of their own."""
    if isinstance(value, Tensor):
        if id(value) not in memo:
            node = value.uop
            is_known = node.device is not None and all(type(size) is int for size in value.shape)
            new = Tensor(value.numpy(), dtype=value.dtype, device=value.device) if is_known else Tensor._make(node)
            new.requires_grad, new._wanted = value.requires_grad, value._wanted
            new.grad = copied(value.grad, memo)
            memo[id(value)] = new
        return memo[id(value)]
    if isinstance(value, list | tuple):
        parts = [copied(part, memo) for part in value]
        return type(value)(*parts) if hasattr(value, "_fields") else type(value)(parts)
    if isinstance(value, dict):
        return {key: copied(part, memo) for key, part in value.items()}
    if isinstance(value, Batch):
        return Batch(copied(value.x, memo), value.colour)
    return value


def plain(value: Any) -> str:
    """What can be seen of a value, with every bit."""
    if isinstance(value, Tensor):
        try:
            return f"{value.dtype.name}{value.tolist()!r}"
        except JitError as error:
            return error.what
    if isinstance(value, list | tuple):
        return f"{type(value).__name__}{[plain(part) for part in value]}"
    if isinstance(value, Batch):
        return plain(list(vars(value).values()))
    return plain(list(value.items())) if isinstance(value, dict) else str(value)


class Saved:
    """A function under TinyJit that goes through a file before each call. Where that replays a program, the one from
    the file must give the same, and leave the same behind in captured tensors and in gradients."""

    def __init__(self, function: Any, path: Path, types: list[type]) -> None:
        self.jit, self.path, self.types = TinyJit(function), path, types
        self.compared = 0

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        count = len(self.jit.captured)
        loaded = None
        try:
            self.jit.save(self.path)
            loaded = TinyJit.load(self.path, types=self.types)
        except JitError as error:  # nothing is captured for what the function reads now
            if "is captured yet" not in str(error) and "fits what the function reads now" not in str(error):
                raise
        theirs = copied((args, kwargs), {})
        found, is_found = "", False
        state = threefry._state.seed, threefry._state.used
        if loaded is not None:
            try:
                found, is_found = plain(loaded(*theirs[0], **theirs[1])), True
            except JitError as error:
                if "the file has" not in str(error):
                    raise
        threefry._state.seed, threefry._state.used = state
        result = self.jit(*args, **kwargs)
        if len(self.jit.captured) > count:
            return result
        assert is_found and loaded is not None
        assert found == plain(result)
        assert plain(theirs) == plain((args, kwargs))
        for replay, watch in next(reversed(self.jit._captures.values())):
            for seen in replay.seen:
                name = watch.tensors.get(id(seen.tensor))
                if name in loaded.tensors:
                    tensor = loaded.tensors[name]
                    assert (plain(tensor), plain(tensor.grad)) == (plain(seen.tensor), plain(seen.tensor.grad)), name
        self.compared += 1
        return result


PROGRAMS = (
    "returned_view_of_input same_input_twice assigned_input lazy_inputs swapped cache_returned constant_written "
    "captured_view_written training_step gradient_accumulation gradients_of_arguments step_alone fused_optimiser "
    "dropout random_numbers odd_sizes chained shared_weights size_returned bound_variables"
)


@pytest.mark.parametrize("name", PROGRAMS.split())
def test_program_from_a_file_gives_the_same(name: str, tmp_path: Path) -> None:
    made: list[Saved] = []

    def jit(function: Any) -> Saved:
        made.append(Saved(function, tmp_path / "f.whit", []))
        return made[-1]

    with Context(DEV="CPU"):
        EQUAL[name][1](jit, lambda *values: None)
    assert sum(saved.compared for saved in made) > 0


def test_containers_enums_and_sizes_come_back(tmp_path: Path) -> None:
    def f(batch: Batch, mode: Any) -> Any:
        part = Batch(batch.x + 1, batch.colour)
        return Pair(
            part, [Colour.RED, b"\0a", 1 + 2j, range(3), ..., float("nan"), -0.0, batch.x.dtype, {2: None}]
        ), Batch

    g = Saved(f, tmp_path / "f.whit", [Batch, Pair, Colour])
    for x in (1.0, 2.0):
        (first, second), kind = g(Batch(Tensor([x])), (Colour.RED, frozenset({"a", "b"})))
        assert first.x.item() == x + 1 and second[0] is Colour.RED and kind is Batch
    assert g.compared == 1
    with pytest.raises(JitError, match=r"has a Pair, of which it knows nothing but the name"):
        TinyJit.load(tmp_path / "f.whit", types=[Batch, Colour])


# ---- in another process


def functions() -> dict[str, Any]:
    """Functions, their arguments and what is to be looked at afterwards, the same in every process."""
    Tensor.manual_seed(4)
    whole = Tensor([[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]]).realize()
    row, turned, count = whole[1], whole.T, Tensor([0.0]).realize()
    weight = Tensor([1.0, 2.0, 3.0], requires_grad=True).realize()
    there = Tensor([1.0, 2.0], device="CPU:1").realize()
    cache = Tensor.zeros(4, 2).contiguous().realize()
    table = Tensor([[1.0, 2.0], [3.0, 4.0]]).realize()
    net = nn.Linear(3, 2)

    def views(x: Tensor) -> Any:
        row.assign(row * x)
        count.assign(count + 1)
        return {"y": net(whole).relu(), "parts": (turned + 0, x), "noise": Tensor.rand(2), "n": 7}

    def gathers(x: Tensor) -> Tensor:
        return (weight * weight * x).sum().backward()

    def devices(x: Tensor) -> tuple[Tensor, Tensor]:
        there.assign(there + x.to("CPU:1"))
        return there * 2, there.to(x.device) + x

    def sizes(x: Tensor, position: Any) -> Tensor:
        cache[position] = x
        return cache[: position + 1].sum(0)

    return {
        "views": views,
        "gathers": gathers,
        "devices": devices,
        "sizes": sizes,
        "prunes": lambda x: x + (table * 3).sum(),
    }


def calls(found: dict[str, Any]) -> list[str]:
    """What the functions give."""
    Tensor.manual_seed(9)
    x, n = Tensor([3.0, 4.0]), Variable("n", 0, 3)
    seen = []
    for i in range(2):
        seen += [plain(found["views"](x[1:])), plain(found["gathers"](x[:1])), plain(list(found["devices"](x)))]
        seen += [plain(found["sizes"](x, n.bind(2 - i))), plain(found["prunes"](x))]
    return seen


def test_saved_functions_run_in_another_process(tmp_path: Path) -> None:
    jits = {name: TinyJit(f, prune=name == "prunes") for name, f in functions().items()}
    calls(jits)  # gradients: there are some from here on
    calls(jits)
    for name, jit in jits.items():
        jit.save(tmp_path / name)
    expected = calls(jits)
    code = f"""
import sys
sys.path.append({str(Path(__file__).parents[1])!r})
from jit.test_files import TinyJit, calls
found = {{name: TinyJit.load({str(tmp_path)!r} + "/" + name) for name in {list(jits)}}}
print("\\n".join(calls(found)))
print({{name: sorted(f.tensors) for name, f in found.items()}}, {{name: f.kernels for name, f in found.items()}})
for name in ("llvmlite", "whit.schedule", "whit.codegen", "whit.render"):
    assert name not in sys.modules, name
"""
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=120)
    assert not found.stderr, found.stderr
    *values, names = found.stdout.splitlines()
    assert values == expected
    tensors = {
        "views": ["count", "net.bias", "net.weight", "row", "turned", "whole"],
        "gathers": ["weight", "weight.grad"],
        "devices": ["there"],
        "sizes": ["cache"],
        "prunes": ["table"],
    }
    assert names == f"{tensors} { {name: jit.kernels for name, jit in jits.items()} }"


# ---- what is refused


def saved_scaling(path: Path) -> None:
    g = TinyJit(lambda x: x * 2)
    with pytest.raises(JitError, match=r"nothing of .* is captured yet"):
        g.save(path)
    g(Tensor([1.0]))
    g.save(path)


def test_other_targets_and_versions_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "g.whit"
    saved_scaling(path)
    assert TinyJit.load(path)(Tensor([3.0])).item() == 6.0
    with monkeypatch.context() as patch:
        patch.setattr(jit_files, "target_text_of", lambda device: "another machine")
        with pytest.raises(JitError, match=f"was compiled for another {Device.DEFAULT} than this one"):
            TinyJit.load(path)
    with monkeypatch.context() as patch:
        patch.setattr(jit_files, "FORMAT", 99)
        with pytest.raises(JitError, match="was saved by another version of whit"):
            TinyJit.load(path)
    with pytest.raises(FileNotFoundError, match="there is no file"):
        TinyJit.load(tmp_path / "nothing")


def test_every_cut_and_every_changed_byte_is_noticed(tmp_path: Path) -> None:
    path = tmp_path / "g.whit"
    saved_scaling(path)
    content = path.read_bytes()
    for length in (0, 5, len(MAGIC), len(MAGIC) + 32, len(MAGIC) + 40, len(content) // 2, len(content) - 1):
        path.write_bytes(content[:length])
        with pytest.raises(JitError, match="no file of captured functions"):
            TinyJit.load(path)
    for place in (0, len(MAGIC), len(MAGIC) + 33, len(content) - 1):
        path.write_bytes(content[:place] + bytes([content[place] ^ 1]) + content[place + 1 :])
        with pytest.raises(JitError, match="no file of captured functions"):
            TinyJit.load(path)


@pytest.mark.parametrize("number", [2**20 + 1, 2**31, 2**40, 2**63, 2**200, -1, 1.5, True, "1", None])
def test_a_file_of_more_places_than_programs_have(number: Any, tmp_path: Path) -> None:
    path = tmp_path / "g.whit"
    saved_scaling(path)
    found = unpack(path.read_bytes(), MAGIC)
    assert found is not None
    header, data = found
    for change in (
        lambda program: program.update(size=number),
        lambda program: program["parts"][0].update(slots=number),
    ):
        changed = json.loads(json.dumps(header))
        change(changed["programs"][0]["program"])
        path.write_bytes(pack(changed, data, MAGIC))
        with pytest.raises(JitError, match=r"a damaged one\n(.|\n)*places"):
            TinyJit.load(path)


def test_what_a_file_says_is_not_believed(tmp_path: Path) -> None:
    path = tmp_path / "g.whit"
    w = Tensor([1.0, 2.0], requires_grad=True).realize()
    view = w[1:]
    g = TinyJit(lambda x: ((w * x).sum() + view.sum()).backward())
    g(Tensor([1.0, 2.0]))
    g.save(path)
    found = unpack(path.read_bytes(), MAGIC)
    assert found is not None
    header, data = found
    chance = random.Random(0)
    refused = 0
    for _ in range(150):
        changed = json.loads(json.dumps(header))
        _change_one(changed["programs"][0] if chance.random() < 0.7 else changed, chance)
        path.write_bytes(pack(changed, data, MAGIC))
        try:
            TinyJit.load(path)
        except WhitError:
            refused += 1
    assert refused > 75  # others change what is not looked at before a call, as a name


def _change_one(value: Any, chance: random.Random) -> None:
    """Something else in one place of nested containers."""
    while True:
        places = list(value) if isinstance(value, dict) else list(range(len(value)))
        places = [place for place in places if place not in ("header", "settings")]
        place = chance.choice(places)
        inner = value[place]
        if isinstance(inner, dict | list) and inner and chance.random() < 0.9:
            value = inner
            continue
        if isinstance(value, dict) and chance.random() < 0.3:
            del value[place]
        else:
            value[place] = chance.choice([None, -1, 10**6, "x", [], {}, [0, 0], True])
        return


def test_what_is_no_data_is_refused(tmp_path: Path) -> None:
    class Model:
        scale = 2.0

    g = TinyJit(lambda x, model: x * model.scale)
    g(Tensor([1.0]), Model())
    with pytest.raises(JitError, match="an argument is a Model, which a file cannot hold"):
        g.save(tmp_path / "g.whit")


def test_a_program_for_other_settings_is_not_run(tmp_path: Path) -> None:
    path = tmp_path / "g.whit"
    g = TinyJit(lambda x: x * (2 if Tensor.training else 3))
    with Context(TRAINING=1):
        g(Tensor([1.0]))
    g.save(path)
    loaded = TinyJit.load(path)
    with pytest.raises(JitError, match="has no program for these arguments"):
        loaded(Tensor([1.0]))
    with Context(TRAINING=1):
        assert loaded(Tensor([1.0])).item() == 2.0


def test_gradients_that_are_there_now_are_told_apart(tmp_path: Path) -> None:
    path = tmp_path / "g.whit"
    w = Tensor([1.0, 2.0], requires_grad=True)
    g = TinyJit(lambda: (w * w).sum().backward())
    g()
    g.save(path)
    loaded = TinyJit.load(path)
    with pytest.raises(JitError, match="but not for what its tensors are now"):
        loaded()
    loaded.tensors["w"].grad = None
    loaded()
    assert loaded.tensors["w"].grad.tolist() == [2.0, 4.0]
