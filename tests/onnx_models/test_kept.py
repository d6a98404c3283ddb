"""Captured programs of models are found again by the next process, and never those of another model."""

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from onnx_models.write import graph, model, node, tensor, value
from whit import Context, Tensor, clear_caches, onnx
from whit.engine.compile import disk_cache
from whit.engine.compile.compile import prepare_pool
from whit.jit.files import kept
from whit.onnx import run as running
from whit.onnx.capture import capture

pytestmark = pytest.mark.cpu
FLOAT, INT64, BOOL = 1, 7, 9
X = np.random.default_rng(0).standard_normal((2, 300)).astype(np.float32)
WEIGHT = np.random.default_rng(1).standard_normal((300, 4)).astype(np.float32)  # large: not a part of what a model is


class Watch:
    """How many parts were captured, and not found."""

    captured = 0


@pytest.fixture
def watch(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Watch]:
    prepare_pool()  # whose code stays where other tests look for it
    found = Watch()

    def counted(*arguments: Any) -> Any:
        found.captured += 1
        return capture(*arguments)

    monkeypatch.setattr(running, "capture", counted)
    with Context(CACHE=1, CHECK_PLAN=False, CACHE_DIR=str(tmp_path / "cache")):
        yield found


def product(weight: Any = WEIGHT, bias: Any = 1.0) -> bytes:
    nodes = [node("MatMul", ["x", "w"], ["m"]), node("Add", ["m", "b"], ["y"])]
    tensors = [tensor("w", weight), tensor("b", np.array(bias, np.float32))]
    return model(nodes, [value("x", FLOAT, ["rows", 300])], [value("y")], tensors)


def fresh(content: Any) -> onnx.Model:
    """A model as another process has it: no memory of programs."""
    clear_caches()
    return onnx.load(content)


def expected(x: Any = X, weight: Any = WEIGHT, bias: float = 1.0) -> Any:
    return x @ weight + np.float32(bias)


def entries() -> list[disk_cache.Entry]:
    """The programs in the cache folder."""
    found = disk_cache.entries(disk_cache.folder())
    return [entry for entry in found if (header := entry.header()) and header["name"] == "captured program"]


def test_a_program_is_found_again(watch: Watch) -> None:
    first = fresh(product())(x=X)["y"].numpy()
    assert (watch.captured, len(entries())) == (1, 1)
    again = fresh(product())
    assert again(x=X)["y"].numpy().tobytes() == first.tobytes()
    assert again(x=X)["y"].numpy().tobytes() == first.tobytes()
    assert (watch.captured, again.captures) == (1, 1)
    np.testing.assert_allclose(first, expected(), 1e-4, 1e-4)


def test_other_weights_give_other_results(watch: Watch) -> None:
    fresh(product())(x=X)
    found = fresh(product(2 * WEIGHT))(x=X)["y"].numpy()
    np.testing.assert_allclose(found, expected(weight=2 * WEIGHT), 1e-4, 1e-4)
    assert watch.captured == 1  # the program is the same one


def test_other_sizes_numbers_and_types_are_other_programs(watch: Watch) -> None:
    fresh(product())(x=X)
    np.testing.assert_allclose(fresh(product())(x=X[:1])["y"].numpy(), expected(X[:1]), 1e-4, 1e-4)
    np.testing.assert_allclose(fresh(product(bias=3.0))(x=X)["y"].numpy(), expected(bias=3.0), 1e-4, 1e-4)
    nodes = [node("MatMul", ["x", "w"], ["m"]), node("Sub", ["m", "b"], ["y"])]
    tensors = [tensor("w", WEIGHT), tensor("b", np.array(1, np.float32))]
    other = model(nodes, [value("x", FLOAT, ["rows", 300])], [value("y")], tensors)
    np.testing.assert_allclose(fresh(other)(x=X)["y"].numpy(), expected(bias=-1.0), 1e-4, 1e-4)
    assert watch.captured == 4


def table(rows: int) -> bytes:
    """A model whose shape comes from a place in a table that is large, and so not a part of what the model is."""
    sizes = np.full(200, -1, np.int64)
    sizes[7] = rows
    nodes = [
        node("Gather", ["table", "seven"], ["rows"], axis=0),
        node("Concat", ["rows", "rest"], ["shape"], axis=0),
        node("Reshape", ["x", "shape"], ["r"]),
        node("ReduceSum", ["r", "axes"], ["y"], keepdims=0),
    ]
    tensors = [tensor("table", sizes), tensor("seven", np.array([7], np.int64)), tensor("rest", np.array([-1]))]
    return model(nodes, [value("x", FLOAT, [2, 300])], [value("y")], [*tensors, tensor("axes", np.array([1]))])


def test_data_that_the_host_has_read_must_be_the_same(watch: Watch) -> None:
    for rows, captured in ((4, 1), (4, 1), (6, 2), (6, 2)):
        found = fresh(table(rows))(x=X)["y"].numpy()
        np.testing.assert_allclose(found, X.reshape(rows, -1).sum(1), 1e-4, 1e-4)
        assert watch.captured == captured


def test_weights_that_are_computed_from_others(watch: Watch) -> None:
    for scale, captured in ((1, 1), (3, 1)):
        nodes = [node("Transpose", ["w"], ["t"], perm=[1, 0]), node("MatMul", ["x", "t"], ["y"])]
        weight = scale * np.ascontiguousarray(WEIGHT.T)
        content = model(nodes, [value("x", FLOAT, ["rows", 300])], [value("y")], [tensor("w", weight)])
        np.testing.assert_allclose(fresh(content)(x=X)["y"].numpy(), X @ weight.T, 1e-4, 1e-4)
        assert watch.captured == captured


def test_weights_in_other_files(watch: Watch, tmp_path: Path) -> None:
    """A small one is a part of the kernels: a program with another one is another program."""
    place = tmp_path / "model.onnx"
    for scale, bias, captured in ((1, 1.0, 1), (2, 1.0, 1), (2, 5.0, 2), (2, 5.0, 2)):
        (tmp_path / "data").write_bytes((scale * WEIGHT).tobytes() + np.float32(bias).tobytes())
        outside = {"location": "data", "offset": "0", "length": str(WEIGHT.nbytes)}
        tensors = [tensor("w", WEIGHT, external=outside)]
        outside = {"location": "data", "offset": str(WEIGHT.nbytes), "length": "4"}
        tensors += [tensor("b", np.array(1, np.float32), external=outside)]
        nodes = [node("MatMul", ["x", "w"], ["m"]), node("Add", ["m", "b"], ["y"])]
        place.write_bytes(model(nodes, [value("x", FLOAT, ["rows", 300])], [value("y")], tensors))
        found = fresh(place)(x=X)["y"].numpy()
        np.testing.assert_allclose(found, expected(weight=scale * WEIGHT, bias=bias), 1e-4, 1e-4)
        assert watch.captured == captured


def test_weights_that_were_changed_are_not_those_of_the_file(watch: Watch) -> None:
    fresh(product())(x=X)
    run = fresh(product())
    run(x=X)
    for name, found in run.weights.items():
        run.weights[name].assign(found + 1).realize()
    for _ in range(2):
        found = run(x=X)["y"].numpy()
        assert not np.allclose(found, expected(), 1e-2)
        run.freeze()
    np.testing.assert_allclose(run(x=X)["y"].numpy(), found, 1e-4, 1e-4)
    np.testing.assert_allclose(fresh(product())(x=X)["y"].numpy(), expected(), 1e-4, 1e-4)


def test_parts_between_steps_that_read_data(watch: Watch) -> None:
    nodes = [node("Relu", ["x"], ["r"]), node("NonZero", ["r"], ["places"]), node("Neg", ["places"], ["y"])]
    content = model(nodes, [value("x", FLOAT, [2, 300])], [value("y")])
    first = fresh(content)(x=X)["y"].numpy()
    captured = watch.captured
    assert fresh(content)(x=X)["y"].numpy().tobytes() == first.tobytes()
    np.testing.assert_array_equal(first, -np.array(np.nonzero(X > 0)))
    assert len(entries()) == 2
    assert watch.captured - captured <= 1  # of the step that reads data, which is tried again


def branches(weight: Any) -> bytes:
    then = graph([node("MatMul", ["x", "w"], ["a"])], [], [value("a")], [tensor("w", weight)])
    other = graph([node("Neg", ["x"], ["b"])], [], [value("b")])
    chosen = node("If", ["c"], ["y"], then_branch=then, else_branch=other)
    return model([chosen], [value("x", FLOAT, ["rows", 300]), value("c", BOOL, [])], [value("y")])


def test_programs_of_branches(watch: Watch) -> None:
    inputs = {"x": X, "c": np.array(True)}
    for weight, found in ((WEIGHT, False), (-WEIGHT, True)):
        before, run = watch.captured, fresh(branches(weight))
        np.testing.assert_allclose(run(inputs)["y"].numpy(), X @ weight, 1e-4, 1e-4)
        np.testing.assert_array_equal(run({**inputs, "c": np.array(False)})["y"].numpy(), -X)
        assert len(entries()) == 2
        assert watch.captured - before <= (1 if found else 10)  # the step itself reads the condition


def test_arguments_that_share_memory_now(watch: Watch) -> None:
    content = model(
        [node("Sub", ["x", "z"], ["y"])], [value("x", FLOAT, [2, 300]), value("z", FLOAT, [2, 300])], [value("y")]
    )
    run = fresh(content)
    assert run(x=Tensor(X), z=Tensor(2 * X))["y"].numpy().tobytes() == (X - 2 * X).tobytes()
    run, x = fresh(content), Tensor(X).realize()
    for _ in range(2):
        assert not run(x=x, z=x.detach())["y"].numpy().any()
    assert run(x=Tensor(X), z=Tensor(2 * X))["y"].numpy().tobytes() == (X - 2 * X).tobytes()


@pytest.mark.parametrize("changed", ["sources_digest", "target_text_of", "code_settings", "settings_key"])
def test_another_whit_machine_or_setting_finds_nothing(
    watch: Watch, monkeypatch: pytest.MonkeyPatch, changed: str
) -> None:
    fresh(product())(x=X)
    before = getattr(kept, changed)
    monkeypatch.setattr(kept, changed, lambda *arguments: str(before(*arguments)) + "other")
    np.testing.assert_allclose(fresh(product())(x=X)["y"].numpy(), expected(), 1e-4, 1e-4)
    assert watch.captured == 2


def test_a_tiling_that_was_found_since(watch: Watch) -> None:
    from whit.engine.compile.tune import store

    fresh(product())(x=X)
    store.keep("ab" * 32, store.Tuned("f", "CPU", None, 1.0, 1.0, 1))
    fresh(product())(x=X)
    assert watch.captured == 2


def test_damaged_entries_are_none(watch: Watch) -> None:
    fresh(product())(x=X)
    (entry,) = entries()
    content = Path(entry.path).read_bytes()
    for place in range(0, len(content), len(content) // 7):
        damaged = bytearray(content)
        damaged[place] ^= 0x41
        Path(entry.path).write_bytes(damaged)
        before = watch.captured
        np.testing.assert_allclose(fresh(product())(x=X)["y"].numpy(), expected(), 1e-4, 1e-4)
        assert watch.captured == before + 1
    Path(entry.path).write_bytes(content[: len(content) // 2])
    np.testing.assert_allclose(fresh(product())(x=X)["y"].numpy(), expected(), 1e-4, 1e-4)


def _changes(header: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """Headers that no version of whit has written."""
    for name in ("program", "template", "tensors", "nodes"):
        yield {key: part for key, part in header.items() if key != name}
        yield {**header, name: [None]}
    program = header["program"]
    for name in ("program", "seen", "sites", "outputs", "result", "guards"):
        yield {**header, "program": {**program, name: []}}
    (part,) = program["program"]["parts"]
    for name, other in (
        ("linear", "%1 = neg"),
        ("offsets", [-64]),
        ("slots", 1 << 40),
        ("kernels", []),
        ("places", [9]),
    ):
        yield {**header, "program": {**program, "program": {**program["program"], "parts": [{**part, name: other}]}}}
    for row in ([1 << 30, "float32", [300, 4], "CPU"], [1, "float64", [300, 4], "CPU"], [1, "float32", [4], "CPU"]):
        yield {**header, "tensors": [row]}
    yield {**header, "nodes": {"text": "", "buffers": [[-1, "float32", [-3], "CPU"]]}}


def test_entries_that_make_no_sense_are_none(watch: Watch) -> None:
    fresh(product())(x=X)
    (entry,) = entries()
    name = Path(entry.path).name
    whole = disk_cache.unpack(Path(entry.path).read_bytes(), name=name)
    assert whole is not None
    header, data = whole
    for number, changed in enumerate(_changes(json.loads(json.dumps(header)))):
        Path(entry.path).write_bytes(disk_cache.pack(changed, data, name=name))
        before = watch.captured
        np.testing.assert_allclose(fresh(product())(x=X)["y"].numpy(), expected(), 1e-4, 1e-4)
        assert watch.captured == before + 1, number


@pytest.mark.parametrize("setting", [{"CACHE": 2}, {"CACHE": 0}, {"CHECK_PLAN": True}, {"DEBUG": 2}])
def test_nothing_is_kept_where_somebody_looks_or_does_not_want_it(watch: Watch, setting: dict[str, Any]) -> None:
    with Context(**setting):
        fresh(product())(x=X)
        assert entries() == []
    assert watch.captured == 1


PROGRAM = """
import sys
import numpy as np
from whit import onnx
model = onnx.load(sys.argv[1])
y = model(x=np.load(sys.argv[2]))["y"].numpy()
loaded = [name for name in ("whit.schedule", "whit.codegen", "llvmlite") if name in sys.modules]
print(y.tobytes().hex(), *loaded)
"""


def test_the_second_process_neither_schedules_nor_compiles(tmp_path: Path) -> None:
    (tmp_path / "model.onnx").write_bytes(product())
    np.save(tmp_path / "x.npy", X)
    environment = {**os.environ, "CACHE": "1", "CHECK_PLAN": "0", "VERIFY": "0", "CACHE_DIR": str(tmp_path / "cache")}
    command = [sys.executable, "-c", PROGRAM, str(tmp_path / "model.onnx"), str(tmp_path / "x.npy")]
    found = []
    for _ in range(2):
        done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
        found.append(done.stdout.split())
    assert found[0][1:] == ["whit.schedule", "whit.codegen", "llvmlite"]
    assert found[1] == found[0][:1]
