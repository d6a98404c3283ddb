"""One expression, evaluated by both libraries: values, gradients, and names and shapes of states must agree.

    Case("nn.LSTM(3, 4)", "m(x)", x="5,2,3")

What PyTorch gives is kept in `expected/`, so that tests mean the same where it is not installed. They are written by
`python -m nn.pytorch.compare` in tests/, which needs PyTorch; where it is there, tests check that the files are right.
"""

from __future__ import annotations

import importlib
import json
import math
import sys
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from whit import Tensor, nn

FOLDER = Path(__file__).parent / "expected"
TABLES = ("recurrent", "attention", "losses", "layers", "functional")


class Case(NamedTuple):
    """A layer `m` or none, what is called, and its inputs: `kind shape`, the kind being that of `_array`."""

    layer: str
    call: str
    inputs: dict[str, str]
    train: bool = False
    tolerance: float = 2e-5


def case(layer: str, call: str, *, train: bool = False, tolerance: float = 2e-5, **inputs: str) -> Case:
    return Case(layer, call, inputs, train, tolerance)


def load_table(name: str) -> dict[str, Case]:
    """The cases of a table by what they call."""
    cases: list[Case] = importlib.import_module(f"nn.pytorch.{name}").CASES
    found = {_key(each): each for each in cases}
    assert len(found) == len(cases), "each case once"
    return found


def _key(each: Case) -> str:
    inputs = ", ".join(f"{name} {spec}" for name, spec in each.inputs.items())
    return f"{each.layer} {each.call}".strip() + f" of {inputs}" + (", training" if each.train else "")


def _array(key: str, spec: str) -> np.ndarray:
    """`3,4` normal numbers, `p3,4` from 0 to 1, `s3,4` signs, `b3,4` bools, `i3,4<7` integers below 7, `=[1]` those."""
    if spec.startswith("="):
        return np.array(eval(spec[1:], {"inf": math.inf, "nan": math.nan}))
    random = np.random.RandomState(zlib.crc32(key.encode()))  # its numbers never change
    kind, rest = (spec[0], spec[1:]) if spec[:1].isalpha() else ("", spec)
    sizes, _, limit = rest.partition("<")
    shape = tuple(int(size) for size in sizes.split(",") if size)
    if kind == "i":
        return random.randint(0, int(limit), shape)
    if kind == "b":
        return random.rand(*shape) < 0.6
    if kind == "s":
        return np.where(random.rand(*shape) < 0.5, -1.0, 1.0).astype(np.float32)
    values = 0.05 + 0.9 * random.rand(*shape) if kind == "p" else random.randn(*shape)
    return np.asarray(values).astype(np.float32)


def _tensors_in(value: Any, kind: type) -> Iterator[Any]:
    if isinstance(value, kind):
        yield value
    elif isinstance(value, list | tuple):
        for part in value:
            yield from _tensors_in(part, kind)


def _state(key: str, shapes: dict[str, tuple[int, ...]]) -> dict[str, np.ndarray]:
    """Values for the tensors of a layer: variances above 0, counts as they are."""
    found = {}
    for name, shape in shapes.items():
        spec = ("p" if "var" in name else "") + ",".join(map(str, shape))
        if name.endswith("num_batches_tracked"):
            found[name] = np.zeros((), np.int64)
        else:
            found[name] = np.asarray(_array(key + name, spec) * (1.0 if "var" in name else 0.5)).astype(np.float32)
    return found


Result = dict[str, Any]


def _listed(found: dict[str, np.ndarray]) -> Result:
    """Shapes and numbers of five digits."""
    lists = {}
    for name, value in found.items():
        flat = [float(f"{number:.5g}") for number in value.astype(np.float64).reshape(-1)]
        lists[name] = {"shape": list(value.shape), "values": flat}
    return lists


def by_torch(key: str, each: Case) -> tuple[Result, dict[str, list[int]]]:
    """Outputs and gradients by name, and the shapes of the state."""
    import torch

    names: dict[str, Any] = {"nn": torch.nn, "F": torch.nn.functional, "math": math}
    arrays = {name: _array(key + name, spec) for name, spec in each.inputs.items()}
    inputs = {name: torch.tensor(array) for name, array in arrays.items()}
    wanted = {name: t for name, t in inputs.items() if t.is_floating_point() and not name.startswith("_")}
    for tensor in wanted.values():
        tensor.requires_grad_()
    shapes: dict[str, list[int]] = {}
    if each.layer:
        layer = eval(each.layer, names)
        layer.train(each.train)
        shapes = {name: list(tensor.shape) for name, tensor in layer.state_dict().items()}
        state = _state(key, {name: tuple(shape) for name, shape in shapes.items()})
        layer.load_state_dict({name: torch.tensor(array) for name, array in state.items()})
        names["m"] = layer
        wanted |= dict(layer.named_parameters())
    outputs = list(_tensors_in(eval(each.call, names | inputs), torch.Tensor))
    found = {f"out{i}": output.detach().numpy() for i, output in enumerate(outputs)}
    floats = [(i, output) for i, output in enumerate(outputs) if output.requires_grad]
    if floats and wanted:
        total = sum((output * torch.tensor(_factors(key, i, output.shape))).sum() for i, output in floats)
        gradients = torch.autograd.grad(total, list(wanted.values()), allow_unused=True)
        for name, gradient in zip(wanted, gradients, strict=True):
            if gradient is not None:
                found[f"d {name}"] = gradient.detach().numpy()
    return _listed(found), shapes


def _factors(key: str, place: int, shape: Any) -> np.ndarray:
    return _array(f"{key} factors {place}", ",".join(map(str, shape)))


def by_whit(key: str, each: Case, gradients: list[str]) -> tuple[dict[str, np.ndarray], dict[str, list[int]]]:
    """The same, with these gradients."""
    names: dict[str, Any] = {"nn": nn, "F": nn.functional, "math": math}
    arrays = {name: _array(key + name, spec) for name, spec in each.inputs.items()}
    inputs = {
        name: Tensor(array.astype(np.float32) if array.dtype == np.float64 else array) for name, array in arrays.items()
    }
    wanted = dict(inputs)
    shapes: dict[str, list[int]] = {}
    if each.layer:
        layer = eval(each.layer, names)
        if each.train:
            layer.train()
        shapes = {name: list(tensor.shape) for name, tensor in nn.state.get_state_dict(layer).items()}
        state = _state(key, {name: tuple(shape) for name, shape in shapes.items()})
        nn.state.load_state_dict(layer, {name: Tensor(array) for name, array in state.items()})
        names["m"] = layer
        wanted |= nn.state.get_state_dict(layer)
    outputs = list(_tensors_in(eval(each.call, names | inputs), Tensor))
    found = {f"out{i}": output for i, output in enumerate(outputs)}
    floats = [(i, output) for i, output in enumerate(outputs) if output.dtype.is_float]
    targets = [wanted[name.removeprefix("d ")] for name in gradients]
    if targets:
        total = sum((output * Tensor(_factors(key, i, output.shape))).sum() for i, output in floats)
        assert isinstance(total, Tensor)
        found |= dict(zip(gradients, total.gradient(*targets), strict=True))
    Tensor.realize(*found.values())
    return {name: tensor.numpy() for name, tensor in found.items()}, shapes


def expected_of(table: str) -> dict[str, Any]:
    """What PyTorch gave, by case."""
    found: dict[str, Any] = json.loads((FOLDER / f"{table}.json").read_text("utf-8"))
    return found


def check(table: str, key: str) -> None:
    """Ours is what the file says."""
    each, wanted = load_table(table)[key], expected_of(table)[key]
    gradients = [name for name in wanted["tensors"] if name.startswith("d ")]
    found, shapes = by_whit(key, each, gradients)
    assert shapes == wanted["state"], "names and shapes of the state"
    assert list(found) == list(wanted["tensors"])
    for name, value in wanted["tensors"].items():
        array = np.array(value["values"], np.float64).reshape(value["shape"])
        assert list(found[name].shape) == value["shape"], name
        np.testing.assert_allclose(found[name], array, rtol=10 * each.tolerance, atol=each.tolerance, err_msg=name)


def check_file(table: str, key: str) -> None:
    """The file says what the PyTorch that is installed gives."""
    tensors, shapes = by_torch(key, load_table(table)[key])
    wanted = expected_of(table)[key]
    assert shapes == wanted["state"]
    assert list(tensors) == list(wanted["tensors"])
    for name, value in wanted["tensors"].items():
        np.testing.assert_allclose(tensors[name]["values"], value["values"], rtol=1e-4, atol=1e-5, err_msg=name)


def write(table: str) -> None:
    """The file of a table, a line for each case."""
    lines = []
    for key, each in load_table(table).items():
        try:
            tensors, shapes = by_torch(key, each)
        except Exception as error:
            raise SystemExit(f"{key}: {error}") from error
        lines.append(f"{json.dumps(key)}: {json.dumps({'state': shapes, 'tensors': tensors}, separators=(',', ':'))}")
    (FOLDER / f"{table}.json").write_text("{\n" + ",\n".join(lines) + "\n}\n", "utf-8")


if __name__ == "__main__":
    for given in sys.argv[1:] or TABLES:
        write(given)
