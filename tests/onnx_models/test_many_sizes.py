"""Shapes that were not seen before: one program for many of them, its guards, and numbers that depend on sizes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest

from onnx_models.write import model, node, tensor, value
from whit import Tensor, onnx
from whit.ir.uop import UOp
from whit.onnx import host, symbolic
from whit.onnx.many_sizes import Choice, ManySizes
from whit.onnx.operators.registry import Node
from whit.onnx.sizes import Sizes, Undecided, divided, of_numbers

FLOAT, INT64 = 1, 7
Run = Callable[..., Any]


def whole(name: str, *numbers: int) -> bytes:
    return tensor(name, np.array(numbers, np.int64))


def of(nodes: Sequence[bytes], tensors: Sequence[bytes] = (), shape: Sequence[Any] = ("rows", 3)) -> bytes:
    return model(nodes, [value("x", FLOAT, list(shape))], [value("y")], tensors)


def same(data: bytes, shapes: Sequence[tuple[int, ...]], programs: int, close: float = 0.0) -> onnx.Model:
    """The model in so many programs gives what it gives step by step."""
    run, plain = onnx.load(data), onnx.load(data, jit=False)
    rng = np.random.default_rng(0)
    for shape in shapes:
        x = rng.standard_normal(shape).astype(np.float32)
        found, expected = np.asarray(run(x=x)["y"]), np.asarray(plain(x=x)["y"])
        assert (found.shape, found.dtype) == (expected.shape, expected.dtype)
        np.testing.assert_allclose(found, expected, rtol=close, atol=close)
    assert run.captures == programs
    return run


FLATTENED = of(
    [
        node("Shape", ["x"], ["s"]),
        node("Gather", ["s", "zero"], ["rows"]),
        node("Mul", ["rows", "three"], ["all"]),
        node("Unsqueeze", ["all", "first"], ["shape"]),
        node("Reshape", ["x", "shape"], ["flat"]),
        node("ConstantOfShape", ["shape"], ["zeros"]),
        node("Range", ["nothing", "all", "step"], ["places"]),
        node("Cast", ["places"], ["numbers"], to=FLOAT),
        node("Add", ["flat", "zeros"], ["a"]),
        node("Mul", ["a", "numbers"], ["y"]),
    ],
    [
        *(tensor(name, np.array(number, np.int64)) for name, number in (("zero", 0), ("three", 3), ("step", 1))),
        *(whole("first", 0), tensor("nothing", np.array(0, np.int64))),
    ],
)


def test_one_program_serves_many_sizes() -> None:
    same(FLATTENED, [(4, 3), (9, 3), (5, 3), (7, 3), (12, 3), (4, 3), (9, 3)], programs=2, close=1e-6)


def test_sizes_of_one_and_none_have_programs_of_their_own() -> None:
    same(FLATTENED, [(4, 3), (9, 3), (1, 3), (0, 3), (6, 3), (1, 3)], programs=4, close=1e-6)


@pytest.mark.filterwarnings("ignore:realize")  # step by step, a Variable would do
def test_a_size_beyond_the_bounds_is_another_program() -> None:
    same(FLATTENED, [(4, 3), (9, 3), (100, 3), (90, 3), (8, 3)], programs=3, close=1e-6)


def test_a_size_that_the_unit_does_not_divide_is_another_program() -> None:
    run = same(FLATTENED, [(16, 3), (48, 3), (32, 3), (17, 3), (18, 3), (64, 3)], programs=3, close=1e-6)
    (many,) = run._runner._many.values()
    assert [dimension.unit for sized in many.programs for dimension in sized.choice.dimensions] == [1, 16]


def test_sizes_that_were_equal_are_compared() -> None:
    """Two rows of one size are one variable; where they differ, the model says so as it does without programs."""
    data = model(
        [node("Add", ["x", "z"], ["y"])],
        [value("x", FLOAT, ["n"]), value("z", FLOAT, ["m"])],
        [value("y")],
    )
    run = onnx.load(data)
    for n, m in ((4, 4), (6, 6), (5, 5), (5, 1), (1, 7)):
        x, z = np.arange(n, dtype=np.float32), np.arange(m, dtype=np.float32)
        np.testing.assert_array_equal(run(x=x, z=z)["y"].numpy(), x + z)
    with pytest.raises(ValueError, match="do not broadcast"):
        run(x=np.ones(5, np.float32), z=np.ones(3, np.float32))


def test_what_depends_on_a_size_has_a_program_for_each_shape() -> None:
    """Squeeze of all axes of size 1: which those are is another question for each shape."""
    asks = of(
        [
            node("Slice", ["x", "zero", "some"], ["part"]),
            node("Squeeze", ["part"], ["y"]),
        ],
        [whole("zero", 0), whole("some", 1)],
    )
    same(asks, [(4, 3), (9, 3), (5, 3)], programs=2)
    halves = of(
        [
            node("Shape", ["x"], ["s"], end=1),
            node("Div", ["s", "two"], ["half"]),
            node("Concat", ["half", "rest"], ["shape"], axis=0),
            node("Reshape", ["x", "shape"], ["y"]),
        ],
        [whole("two", 2), whole("rest", 2, -1)],
        ("rows", 4),
    )
    same(halves, [(8, 4), (16, 4), (24, 4)], programs=2)  # units of 8
    same(halves, [(6, 4), (10, 4), (14, 4)], programs=3)


def resize(mode: str, *scales: float, **more: Any) -> bytes:
    return of(
        [node("Resize", ["x", "", "scales"], ["y"], mode=mode, **more)],
        [tensor("scales", np.array(scales, np.float32))],
        (1, 2, "h", "w"),
    )


IMAGES = [(1, 2, 4, 6), (1, 2, 10, 10), (1, 2, 2, 16), (1, 2, 6, 2), (1, 2, 12, 12)]


@pytest.mark.parametrize("mode", ["nearest", "linear", "cubic"])
def test_images_grow_by_whole_numbers(mode: str) -> None:
    same(resize(mode, 1, 1, 2, 3), IMAGES, programs=2, close=1e-5)


def test_images_that_grow_otherwise_have_programs_of_their_own() -> None:
    same(resize("linear", 1, 1, 1.5, 2), IMAGES[:3], programs=3, close=1e-6)


@pytest.mark.parametrize("mode", ["reflect", "edge", "constant"])
def test_padding(mode: str) -> None:
    pad = of([node("Pad", ["x", "pads"], ["y"], mode=mode)], [whole("pads", 1, 0, 2, 0)])
    same(pad, [(4, 3), (9, 3), (5, 3), (7, 3), (3, 3)], programs=2)


def test_convolutions_and_pools() -> None:
    rng = np.random.default_rng(1)
    weights = [
        tensor("w", rng.standard_normal((4, 2, 3, 3)).astype(np.float32)),
        tensor("t", rng.standard_normal((4, 3, 2, 2)).astype(np.float32)),
    ]
    nodes = [
        node("Conv", ["x", "w"], ["c"], pads=[1, 1, 1, 1], strides=[2, 2]),
        node("MaxPool", ["c"], ["m"], kernel_shape=[2, 2], strides=[1, 1], auto_pad="SAME_UPPER"),
        node("ConvTranspose", ["m", "t"], ["o"], strides=[2, 2]),
        node("GlobalAveragePool", ["o"], ["g"]),
        node("Sub", ["o", "g"], ["y"]),
    ]
    same(of(nodes, weights, (1, 2, "h", "w")), IMAGES, programs=2, close=1e-5)


def test_recurrent_layers() -> None:
    rng = np.random.default_rng(2)
    weights = [tensor(name, rng.standard_normal((1, 12, n)).astype(np.float32) / 4) for name, n in (("w", 5), ("r", 4))]
    layer = node("GRU", ["x", "w", "r"], ["y"], hidden_size=4)
    same(of([layer], weights, ("time", 2, 5)), [(4, 2, 5), (9, 2, 5), (5, 2, 5), (7, 2, 5)], programs=2, close=1e-5)


def test_results_are_fresh_tensors_of_plain_shape() -> None:
    run = onnx.load(FLATTENED)
    found = [run(x=np.full((size, 3), size, np.float32))["y"] for size in (4, 9, 5, 6)]
    assert [each.shape for each in found] == [(12,), (27,), (15,), (18,)]
    assert [float((each / 2).numpy()[2]) for each in found] == [4.0, 9.0, 5.0, 6.0]


def test_a_shape_that_loses_more_time_than_a_program_costs_gets_one() -> None:
    run = onnx.load(FLATTENED)
    x = np.ones((5, 3), np.float32)
    for size in (4, 9, 5):
        run(x=np.ones((size, 3), np.float32))
    before = run.captures
    (many,) = run._runner._many.values()
    many.programs[0].loss, many.programs[0].seconds = 0.5, 1e-9
    for _ in range(2):
        expected = run(x=x)["y"].numpy()
    assert run.captures == before + 1
    np.testing.assert_array_equal(run(x=x)["y"].numpy(), expected)
    assert run.captures == before + 1


# ---- which sizes are variables


def choice(*seen: tuple[tuple[int, ...], ...]) -> Choice | None:
    many = ManySizes()
    for shapes in seen[:-1]:
        many.note_own(shapes, None, 1, 0.0)
    return many.choose(seen[-1])


def test_sizes_that_change_together_are_one_variable() -> None:
    found = choice(((1, 3, 64), (64,)), ((1, 3, 96), (96,)))
    assert found is not None
    (dimension,) = found.dimensions
    assert (dimension.unit, dimension.low, dimension.high) == (32, 1, 4)
    assert dimension.places == ((0, 2), (1, 0))
    assert found.values(((1, 3, 32), (32,))) == {"size0": 1}
    for shapes in (((1, 3, 32), (64,)), ((1, 3, 33), (33,)), ((1, 3, 160), (160,)), ((2, 3, 64), (64,))):
        assert found.values(shapes) is None


def test_sizes_of_one_and_none_are_no_variables() -> None:
    assert choice(((1,),), ((7,),)) is None
    assert choice(((7,),), ((1,),)) is None
    assert choice(((7,),), ((0,),)) is None
    assert choice(((7,),), ((7,),)) is None
    assert choice(((1,),), ((5,),), ((7,),)) is not None
    found = choice(((1, 9),), ((4, 8),), ((1, 7),))
    assert found is not None
    assert [dimension.places for dimension in found.dimensions] == [((0, 1),)]


# ---- numbers that depend on variables

N, M = UOp.variable("n", 2, 40).bind(5), UOp.variable("m", 1, 8).bind(3)


def evaluated(op: str, inputs: list[Any], **attributes: Any) -> Any:
    made = Node(op, "", 25, "", 1, attributes)
    depends = any(isinstance(x, Sizes) for x in inputs)
    found = symbolic.evaluate(made, inputs) if depends else host.evaluate(made, inputs)
    return None if found is None else found[0]


NUMBERS = np.array([3, 4], np.int64)
CASES: dict[str, tuple[Callable[[Any], list[Any]], dict[str, Any]]] = {
    "Add": (lambda s: [s, NUMBERS], {}),
    "Cast": (lambda s: [s], {"to": 1}),
    "Concat": (lambda s: [NUMBERS, s], {"axis": 0}),
    "Div": (lambda s: [s, np.array(3, np.int64)], {}),
    "Equal": (lambda s: [s, np.array(-1, np.int64)], {}),
    "Gather": (lambda s: [s, np.array([1, -2], np.int64)], {}),
    "Greater": (lambda s: [s, np.array(0, np.int64)], {}),
    "GreaterOrEqual": (lambda s: [s, np.array(1, np.int64)], {}),
    "Identity": (lambda s: [s], {}),
    "Less": (lambda s: [s, np.array(1, np.int64)], {}),
    "LessOrEqual": (lambda s: [s, np.array(900, np.int64)], {}),
    "Max": (lambda s: [s, NUMBERS, np.array([9, 1], np.int64)], {}),
    "Min": (lambda s: [s, np.array(12, np.int64)], {}),
    "Mod": (lambda s: [s, np.array(5, np.int64)], {}),
    "Mul": (lambda s: [s, s], {}),
    "Neg": (lambda s: [s], {}),
    "ReduceProd": (lambda s: [s], {"keepdims": 0}),
    "ReduceSum": (lambda s: [s, np.array([0], np.int64)], {}),
    "Reshape": (lambda s: [s, np.array([2, 1], np.int64)], {}),
    "ScatterND": (lambda s: [s, np.array([[1]], np.int64), np.array([5], np.int64)], {}),
    "Shape": (lambda s: [s], {}),
    "Size": (lambda s: [s], {}),
    "Slice": (lambda s: [s, np.array([1], np.int64), np.array([9], np.int64)], {}),
    "Squeeze": (lambda s: [s], {}),
    "Sub": (lambda s: [NUMBERS, s], {}),
    "Tile": (lambda s: [s, np.array([2], np.int64)], {}),
    "Transpose": (lambda s: [s], {}),
    "Unsqueeze": (lambda s: [s, np.array([0], np.int64)], {}),
    "Where": (lambda s: [np.array([True, False]), s, NUMBERS], {}),
}


@pytest.mark.parametrize("op", CASES)
def test_numbers_that_depend_on_variables_are_those_of_the_host(op: str) -> None:
    inputs, attributes = CASES[op]
    found = evaluated(op, inputs(of_numbers([N * 8 + 3, M * 5])), **attributes)
    for n, m in ((2, 1), (5, 3), (40, 8)):
        expected = evaluated(op, inputs(np.array([n * 8 + 3, m * 5], np.int64)), **attributes)
        now = found.now({"n": n, "m": m}) if isinstance(found, Sizes) else found
        np.testing.assert_array_equal(now, expected)
        assert now.dtype == expected.dtype


@pytest.mark.parametrize("op", ["Equal", "Less", "Greater", "Mod", "Div"])
def test_what_has_another_answer_for_another_value_is_undecided(op: str) -> None:
    with pytest.raises(Undecided):
        evaluated(op, [of_numbers([N - 10]), np.array([7], np.int64)])


def test_whole_floats_may_depend_on_variables_and_others_not() -> None:
    sizes = evaluated("Cast", [of_numbers([N * 2])], to=1)
    doubled = evaluated("Cast", [evaluated("Floor", [evaluated("Mul", [sizes, np.array(2.0, np.float32)])])], to=7)
    assert doubled.now({"n": 7}).tolist() == [28]
    with pytest.raises(Undecided):
        evaluated("Mul", [sizes, np.array(1.5, np.float32)])
    with pytest.raises(Undecided):
        divided(N * 3, 2)


def test_numbers_that_depend_on_variables_become_tensors() -> None:
    sizes = of_numbers([[N * 2, 7]])
    assert isinstance(sizes, Sizes)
    assert isinstance(sizes.tensor(None), Tensor)
    assert sizes.tensor(None).tolist() == [[10, 7]]


def test_windows_fit_into_sizes_above_a_bound() -> None:
    weight = tensor("w", np.random.default_rng(3).standard_normal((1, 2, 5, 5)).astype(np.float32))
    conv = of([node("Conv", ["x", "w"], ["y"])], [weight], (1, 2, "h", "w"))
    shapes = [(1, 2, 30, 21), (1, 2, 41, 33), (1, 2, 25, 60), (1, 2, 17, 17), (1, 2, 7, 9), (1, 2, 9, 7)]
    run = same(conv, shapes, programs=4, close=1e-4)
    with pytest.raises(ValueError, match=r"[Cc]onv"):
        run(x=np.ones((1, 2, 4, 9), np.float32))
