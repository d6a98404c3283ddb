"""Random harm to files of ONNX: bytes that are changed, and nodes that are told nonsense. An error of ours must say so.

A program is a file. It is read, and if that works called, until the graph is built: what nodes say about shapes and
attributes is wrong then at the latest. An error that is no `UserError`, much memory and much time are problems:

    python tests/fuzz/onnx.py --seed 0 --seconds 600
"""

from __future__ import annotations

import argparse
import functools
import inspect
import random
import re
import resource
import signal
import sys
import time
import traceback
import warnings
from pathlib import Path
from typing import Any

import numpy as np

if __name__ == "__main__":
    sys.path[0] = str(Path(__file__).parent.parent)  # this file has the name of a package that other code looks for

from onnx_models import write

from whit import onnx as models
from whit.errors import UserError
from whit.onnx import operators as operators  # fills the table
from whit.onnx.control import FUNCTIONS
from whit.onnx.examples import example_inputs
from whit.onnx.operators.registry import Operator, known_operators

SECONDS = 10  # of the processors, for one file; they have a hundred bytes
MEGABYTES = 512  # more than before, for one file
SMALL = 1 << 16  # elements of results that are computed

INTEGERS = (-(1 << 63), -(1 << 31), -5, -2, -1, 0, 0, 1, 1, 1, 2, 2, 3, 4, 7, 1 << 20, 1 << 31, 1 << 40, (1 << 63) - 1)
FLOATS = (float("nan"), float("inf"), -float("inf"), 0.0, -1.0, 0.5, 1.0, 2.0, 1e30)
WORDS = (
    *(
        "",
        "?",
        "\0",
        "ij,jk->ik",
        "...ij->...ji",
        "ii->i",
        "i,",
        "constant",
        "reflect",
        "edge",
        "wrap",
        "linear",
        "nearest",
    ),
    *("cubic", "sizes", "asymmetric", "align_corners", "tf_crop_and_resize", "SAME_UPPER", "SAME_LOWER", "VALID"),
    *("NOTSET", "bidirectional", "reverse", "forward", "Tanh", "Sigmoid", "sum", "mean", "none", "add", "mul", "max"),
    *(
        "SOFTMAX",
        "LOGISTIC",
        "PROBIT",
        "BRANCH_LEQ",
        "LEAF",
        "RBF",
        "POLY",
        "L1",
        "MAX",
        "DCR",
        "CRD",
        "UPPER",
        "TF",
        "TFIDF",
    ),
)
SHAPES = (
    (),
    (1,),
    (3,),
    (4,),
    (0,),
    (2, 3),
    (3, 2),
    (1, 1),
    (2, 0),
    (2, 3, 4),
    (1, 2, 4, 4),
    (1, 3, 5, 5),
    (2, 1, 3, 3, 3),
)
DTYPES = (
    "float32",
    "float32",
    "float32",
    "int64",
    "int64",
    "bool",
    "uint8",
    "int8",
    "int32",
    "float16",
    "float64",
    "object",
)

Draw = random.Random


def number(draw: Draw) -> int:
    """A whole number, more often one that may be right."""
    return draw.choice(INTEGERS) if draw.random() < 0.5 else draw.randint(-2, 5)


def array(draw: Draw) -> Any:
    """A tensor; of whole numbers often what shapes and axes are made of."""
    dtype, shape = draw.choice(DTYPES), draw.choice(SHAPES)
    count = int(np.prod(shape))
    if dtype == "object":
        return np.array([draw.choice(WORDS) for _ in range(count)], object).reshape(shape)
    if dtype.startswith("float"):
        values = [draw.choice(FLOATS) if draw.random() < 0.2 else draw.uniform(-2, 2) for _ in range(count)]
    elif dtype == "int64":
        values = [number(draw) for _ in range(count)]
    else:
        values = [draw.randint(0, 3) for _ in range(count)]
    with np.errstate(all="ignore"):
        return np.array(values, dtype).reshape(shape)


def attribute(draw: Draw) -> Any:
    """A value of any kind."""
    kind = draw.choice("iiifsnnnmtx")
    values: dict[str, Any] = {
        "i": number(draw),
        "f": draw.choice(FLOATS),
        "s": draw.choice(WORDS),
        "n": [number(draw) for _ in range(draw.randint(0, 4))],
        "m": [draw.randint(0, 3) for _ in range(draw.randint(1, 4))],
        "t": array(draw),
        "x": write.graph([write.node("Neg", ["x0"], ["n"])], [], [write.value("n")]),
    }
    return values[kind]


@functools.cache
def names_of(record: Operator) -> tuple[str, ...]:
    """Attributes that an operator may ask for: all that its module does."""
    source = inspect.getsource(inspect.getmodule(record.function) or sys)
    return tuple(sorted({*re.findall(r"""\.get\("(\w+)\"""", source), "axis", "axes"}))


def wrong_node(draw: Draw) -> bytes:
    """A file of one node, which is told something."""
    inputs, tensors, names = [], [], []
    for place in range(draw.choice((0, 1, 1, 1, 2, 2, 2, 3, 3, 4, 5, 6, 9))):
        value = array(draw)
        if draw.random() < 0.1:
            names.append("")
            continue
        names.append(f"x{place}")
        if draw.random() < 0.5:
            tensors.append(write.tensor(f"x{place}", value, is_raw=value.dtype.name not in ("object",)))
        else:
            inputs.append(write.value(f"x{place}", write.TYPES[value.dtype.name], value.shape))
    outputs = [f"y{place}" for place in range(draw.choice((1, 1, 1, 1, 2, 3, 4)))]
    results = [write.value(name) for name in outputs]
    if draw.random() < 0.07:
        domain, kind = draw.choice(sorted(FUNCTIONS))
        given = {name: attribute(draw) for name in ("body", "then_branch", "else_branch") if draw.random() < 0.9}
        body = wrong_body(draw)
        given = {name: body if draw.random() < 0.8 else value for name, value in given.items()}
        given |= {name: attribute(draw) for name in ("num_scan_inputs", "scan_input_axes") if draw.random() < 0.5}
        return write.model([write.node(kind, names, outputs, domain, **given)], inputs, results, tensors, version=21)
    record = draw.choice(_records())
    known = names_of(record)
    chosen = draw.sample(known, min(len(known), draw.choice((0, 0, 1, 1, 2, 3, 5))))
    given = {name: attribute(draw) for name in chosen}
    node = write.node(record.op_type, names, outputs, record.domain, **given)
    more = b"".join(write.field(8, write.opset(record.domain, max(record.since))) for _ in range(1))
    return write.model([node], inputs, results, tensors, version=max(*record.since, 13)) + more


def wrong_body(draw: Draw) -> bytes:
    """A graph for a loop or a branch."""
    names = [f"i{place}" for place in range(draw.randint(0, 4))]
    nodes = [
        write.node(
            draw.choice(("Identity", "Add", "Shape", "Neg")),
            draw.choices([*names, "x0", "x1"], k=2)[: draw.randint(1, 2)],
            [f"o{i}"],
        )
        for i in range(draw.randint(0, 3))
    ]
    outs = [
        write.value(draw.choice([*names, *(f"o{i}" for i in range(len(nodes))), "x0"]))
        for _ in range(draw.randint(0, 4))
    ]
    return write.graph(nodes, [write.value(name) for name in names], outs)


@functools.cache
def _records() -> list[Operator]:
    return known_operators()


@functools.cache
def good_files() -> tuple[bytes, ...]:
    """Files in which nothing is wrong, with most of what files have."""
    x, y = write.value("x", 1, ["n"]), write.value("y")
    body = write.graph(
        [write.node("Add", ["v", "x"], ["next"])],
        [write.value("i"), write.value("c"), write.value("v")],
        [write.value("c"), write.value("next")],
    )
    looped = write.model(
        [
            write.node("Loop", ["m", "", "x"], ["l"], body=body),
            write.node("Reshape", ["l", "shape"], ["r"]),
            write.node("Gemm", ["r", "w"], ["y"], transB=1, alpha=0.5),
        ],
        [x, write.value("m", 7, [])],
        [y],
        [write.tensor("w", np.ones((2, 3), np.float32)), write.tensor("shape", np.array([-1, 3]), is_raw=False)],
    )
    called = write.function("F", [write.node("Mul", ["a", "a"], ["b"])], ["a"], ["b"])
    folded = write.model(
        [
            write.node("F", ["x"], ["f"], domain="own"),
            write.node("ConstantOfShape", ["sizes"], ["ones"], value=np.ones(1, np.float32)),
            write.node("Pad", ["ones", "pads"], ["p"]),
            write.node("Tile", ["p", "times"], ["t"]),
            write.node("Slice", ["t", "zero", "two"], ["s"]),
            write.node(
                "If",
                ["c"],
                ["z"],
                then_branch=write.graph([], [], [write.value("f")]),
                else_branch=write.graph([write.node("Neg", ["f"], ["g"])], [], [write.value("g")]),
            ),
            write.node("Concat", ["z", "s"], ["y"], axis=0),
        ],
        [x],
        [y],
        [
            write.tensor("sizes", np.array([3])),
            write.tensor("pads", np.array([1, 2]), is_raw=False),
            write.tensor("times", np.array([2])),
            write.tensor("zero", np.array([0])),
            write.tensor("two", np.array([2])),
            write.tensor("c", np.array(True)),
        ],
        [called],
    )
    return looped, folded


def damaged(draw: Draw) -> bytes:
    """A good file with other bytes here and there."""
    data = bytearray(draw.choice(good_files()))
    for _ in range(draw.choice((1, 1, 1, 2, 3, 8))):
        place = draw.randrange(len(data))
        kind = draw.random()
        if kind < 0.4:
            data[place] ^= 1 << draw.randrange(8)
        elif kind < 0.6:
            data[place] = draw.choice((0, 1, 0x7F, 0x80, 0xFF, draw.randrange(256)))
        elif kind < 0.75:
            del data[place : place + draw.choice((1, 2, 7))]
        elif kind < 0.9:
            data[place:place] = draw.choice((b"\xff" * 9 + b"\x01", b"\x80", bytes([draw.randrange(256)])))
        else:
            start = draw.randrange(len(data))
            data[place:place] = data[start : start + draw.randrange(40)]
    return bytes(data[: draw.randrange(len(data))] if draw.random() < 0.1 else data)


def file_of(seed: int) -> bytes:
    """The file of a seed."""
    draw = Draw(seed)
    return damaged(draw) if draw.random() < 0.4 else wrong_node(draw)


class TooSlowError(Exception):
    pass


def _alarm(*_: Any) -> None:
    raise TooSlowError(f"more than {SECONDS} s")


def problem_of(data: bytes) -> str:
    """What is wrong with how a file is treated; nothing, if it runs or an error says what is wrong with it."""
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    signal.signal(signal.SIGPROF, _alarm)
    signal.setitimer(signal.ITIMER_PROF, SECONDS)
    try:
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                run(data)
        finally:
            signal.setitimer(signal.ITIMER_PROF, 0)
    except UserError as error:
        return "" if str(error).strip() else "an error without words"
    except Exception:
        return traceback.format_exc()
    grown = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) >> 10
    return f"{grown} MiB" if grown > MEGABYTES else ""


def run(data: bytes) -> None:
    """Reads a file, and builds the graph of its results."""
    model = models.load(data, jit=False)
    if all(port.type.kind == "tensor" and port.type.shape is not None for port in model.inputs):
        model(example_inputs(model.inputs, {"n": 3}))


def main() -> None:
    """Until the time is up."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--seconds", type=float, default=60)
    options = parser.parse_args()
    end, seed, found = time.monotonic() + options.seconds, options.seed, 0
    while time.monotonic() < end:
        problem = problem_of(file_of(seed))
        if problem:
            found += 1
            print(f"seed {seed}: {problem}", flush=True)
        seed += 1
    print(f"{seed - options.seed} files, {found} problems")
    sys.exit(found > 0)


if __name__ == "__main__":
    main()
