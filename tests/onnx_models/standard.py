"""The tests that come with the package `onnx`: a model, inputs and outputs each. Shared by pytest and the report.

python -m onnx_models.standard [part of a name ...]        in tests/: what fails, and the pass rate
    python -m onnx_models.standard --write                      the same of all tests, kept for docs/onnx.md
"""

from __future__ import annotations

import collections
import json
import re
import signal
import sys
import time
import traceback
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from whit import onnx as models
from whit.onnx import types
from whit.onnx.proto import read_model
from whit.onnx.tensors import standing_for
from whit.onnx.wire import Wire
from whit.tensor import Tensor
from whit.tensor.source import open_source

KINDS = ("node", "simple", "pytorch-converted", "pytorch-operator")
RESULTS = Path(__file__).with_name("results.txt")  # what docs/make_onnx.py reads


@dataclass(frozen=True)
class Case:
    """One test: its name, the folder of its model, how close numbers must be."""

    kind: str
    name: str
    folder: Path
    rtol: float
    atol: float


def data_folder() -> Path | None:
    """Where the package has its tests; None if it is not installed, or too new to have them."""
    for place in map(Path, sys.path):
        folder = place / "onnx" / "backend" / "test" / "data"
        if (folder / "node").is_dir():
            return folder
    return None


def cases() -> list[Case]:
    """All of them."""
    root = data_folder()
    found: list[Case] = []
    if root is None:
        return found
    for kind in KINDS:
        for folder in sorted((root / kind).iterdir()):
            if (folder / "model.onnx").exists():
                settings = folder / "data.json"
                limits = json.loads(settings.read_text()) if settings.exists() else {}
                found.append(Case(kind, folder.name, folder, limits.get("rtol", 1e-3), limits.get("atol", 1e-7)))
    return found


def run(case: Case) -> None:
    """Raises where a model does not load, does not run, or gives other values."""
    model = models.load(case.folder / "model.onnx")
    for data in sorted(case.folder.glob("test_data_set_*")):
        names = [port.name for port in model.inputs]
        given = [read(path, port.type) for path, port in zip(_files(data, "input"), model.inputs, strict=False)]
        found = model(dict(zip(names, given, strict=False)))
        for path, port in zip(_files(data, "output"), model.outputs, strict=False):
            compare(found[port.name], read(path, port.type), case, port.name)


def _files(folder: Path, what: str) -> list[Path]:
    return sorted(folder.glob(f"{what}_*.pb"), key=lambda path: int(re.findall(r"\d+", path.stem)[-1]))


def read(path: Path, kind: types.ValueType) -> Any:
    """A value of a test: an array, a list, a dictionary or None."""
    import onnx

    data = path.read_bytes()
    if kind.kind == "sequence":
        return of_sequence(onnx.SequenceProto.FromString(data))
    if kind.kind == "optional":
        proto = onnx.OptionalProto.FromString(data)
        if proto.elem_type == 0:
            return None
        return of_sequence(proto.sequence_value) if proto.elem_type == 3 else of_tensor(proto.tensor_value)
    return of_tensor(onnx.TensorProto.FromString(data))


def of_sequence(proto: Any) -> list[Any]:
    """The values of a sequence; of a sequence of maps, dictionaries."""
    from onnx import numpy_helper

    if proto.elem_type == 4:
        return [numpy_helper.to_dict(value) for value in proto.map_values]
    if proto.elem_type == 3:
        return [of_sequence(value) for value in proto.sequence_values]
    return [of_tensor(value) for value in proto.tensor_values]


def of_tensor(proto: Any) -> Any:
    """The values of a tensor, in the dtypes that stand for its type here."""
    from onnx import numpy_helper

    array = numpy_helper.to_array(proto)
    if array.dtype.kind == "c":
        return standing_for(array, proto.data_type)
    if proto.data_type == types.STRING:
        return array.astype(object)
    if proto.data_type in types.STANDS_FOR:
        dtype = types.STANDS_FOR[proto.data_type]
        return np.asarray(Tensor(array.astype(np.float32)).cast(dtype).numpy())
    return array


def compare(found: Any, expected: Any, case: Case, name: str) -> None:
    """Kind, dtype, shape and values."""
    if isinstance(expected, list):
        assert isinstance(found, list), f"{name} is a {type(found).__name__}, and should be a list"
        assert len(found) == len(expected), f"{name} has {len(found)} values instead of {len(expected)}"
        for one, other in zip(found, expected, strict=True):
            compare(one, other, case, name)
        return
    if expected is None or isinstance(expected, dict):
        assert found == expected, f"{name}: {found!r:.100} instead of {expected!r:.100}"
        return
    array = found.numpy() if isinstance(found, Tensor) else np.asarray(found)
    if expected.dtype.kind == "O":
        np.testing.assert_array_equal(array.astype(str), expected.astype(str))
        return
    assert array.dtype == expected.dtype, f"{name} is {array.dtype} instead of {expected.dtype}"
    assert array.shape == expected.shape, f"{name} has the shape {array.shape} instead of {expected.shape}"
    if array.dtype.kind not in "biuf" or array.dtype.itemsize < 2:
        array, expected = array.astype(np.float32), expected.astype(np.float32)
    np.testing.assert_allclose(array, expected, case.rtol, case.atol)


def operators_of(case: Case) -> set[str]:
    """The operators that a test runs, by domain and name; not those in graphs of nodes."""
    model = read_model(Wire(open_source("onnx", case.folder / "model.onnx")))
    nodes = () if model.graph is None else model.graph.nodes
    return {f"{node.domain or 'ai.onnx'} {node.op_type}" for node in nodes}


class TooSlowError(Exception):
    pass


def _alarm(*_: Any) -> None:
    raise TooSlowError("more than 60 s")


def report(wanted: list[str]) -> Iterator[tuple[Case, str]]:
    """Runs all tests whose names have one of the words; each with what went wrong, or ""."""
    signal.signal(signal.SIGALRM, _alarm)
    for case in cases():
        if wanted and not any(word in case.name for word in wanted):
            continue
        signal.alarm(60)
        try:
            run(case)
            yield case, ""
        except (Exception, AssertionError) as error:
            if "--trace" in sys.argv:
                traceback.print_exc()
            yield case, f"{type(error).__name__}: {error}".strip()
        finally:
            signal.alarm(0)


def main() -> None:
    """Prints what fails, and the pass rate."""
    start, count, by_operator = time.time(), collections.Counter[str](), collections.Counter[tuple[str, bool]]()
    failed: list[str] = []
    for case, problem in report([word for word in sys.argv[1:] if not word.startswith("-")]):
        count[f"{case.kind} {'failed' if problem else 'passed'}"] += 1
        by_operator.update((name, not problem) for name in operators_of(case))
        if problem:
            shown = " | ".join(problem.splitlines()[:4]) if "--long" not in sys.argv else problem
            failed.append(case.name)
            print(f"{case.name}: {shown[:300]}", flush=True)
    total, bad = sum(count.values()), len(failed)
    print(dict(sorted(count.items())))
    if "--write" in sys.argv:
        names = sorted({name for name, _ in by_operator})
        lines = [f"{n} {by_operator[n, True]} {by_operator[n, True] + by_operator[n, False]}" for n in names]
        lines += [f"all {total - bad} {total}", *(f"failed {name}" for name in failed)]
        RESULTS.write_text("\n".join(lines) + "\n")
    print(f"{total - bad} of {total} passed, {100 * (total - bad) / max(total, 1):.2f} %, {time.time() - start:.0f} s")
    new = sorted(set(failed) - known_failures())
    if new:
        sys.exit(f"{len(new)} failed that passed before: {', '.join(new)}")


def known_failures() -> set[str]:
    """What docs/onnx.md gives a reason for."""
    lines = RESULTS.read_text().splitlines()
    return {line.removeprefix("failed ") for line in lines if line.startswith("failed ")}


if __name__ == "__main__":
    main()
