"""Calls with arrays of shapes that were seen go straight to the program, and mean the same as the first one."""

import threading
from typing import Any

import numpy as np
import pytest

from onnx_models.write import model, node, tensor, value
from whit import Tensor, errors, onnx

FLOAT, INT64 = 1, 7
WEIGHT = np.arange(60, dtype=np.float32).reshape(3, 20) / 60


def of(*nodes: bytes, inputs: Any = None, outputs: Any = None, tensors: Any = ()) -> onnx.Model:
    given = [value("x", FLOAT, ["rows", 3])] if inputs is None else inputs
    return onnx.load(model(nodes, given, [value("y")] if outputs is None else outputs, tensors))


def product() -> onnx.Model:
    return of(node("MatMul", ["x", "w"], ["y"]), tensors=[tensor("w", WEIGHT)])


def is_quick(run: onnx.Model, *arrays: Any) -> bool:
    return (tuple(array.shape for array in arrays), ()) in run._quick._ready


def test_calls_give_what_the_first_one_gave() -> None:
    run, random = product(), np.random.default_rng(0)
    kept = []
    for rows in (2, 2, 5, 2, 5):
        x = random.standard_normal((rows, 3)).astype(np.float32)
        kept.append((run({"x": x})["y"], x @ WEIGHT))
        assert is_quick(run, x) or rows != 2  # the second shape is served by a program for many sizes
    for found, expected in kept:  # later calls change no result
        np.testing.assert_allclose(found.numpy(), expected, 1e-5, 1e-6)
    assert run.captures == 2


def test_arrays_that_are_views_are_copied_element_by_element() -> None:
    run = product()
    wide = np.random.default_rng(1).standard_normal((6, 4)).astype(np.float32)
    run(x=np.ones((4, 3), np.float32))
    for view in (wide.T[:, ::2], wide[:4, 1:], np.broadcast_to(wide[0, :3], (4, 3))):
        np.testing.assert_allclose(run(x=view)["y"].numpy(), view @ WEIGHT, 1e-5, 1e-6)


def test_a_weight_that_is_assigned_is_seen() -> None:
    run, x = product(), np.ones((1, 3), np.float32)
    run(x=x)
    run.weights["w"].assign(Tensor(WEIGHT * 2)).realize()
    np.testing.assert_allclose(run(x=x)["y"].numpy(), x @ WEIGHT * 2, 1e-5)


def test_an_output_that_is_the_input_stays_what_it_was() -> None:
    run = of(node("Identity", ["x"], ["y"]), node("Neg", ["x"], ["z"]), outputs=[value("y"), value("z")])
    first = run(x=np.ones((1, 3), np.float32))
    second = run(x=np.zeros((1, 3), np.float32))
    assert first["y"].tolist() == [[1.0] * 3]
    assert second["y"].tolist() == [[0.0] * 3]
    assert not is_quick(run, np.zeros((1, 3), np.float32))


def test_what_is_wrong_is_still_an_error() -> None:
    run = product()
    run(x=np.ones((1, 3), np.float32))
    with pytest.raises(errors.DTypeError, match="float64"):
        run(x=np.ones((1, 3)))
    with pytest.raises(errors.ShapeError, match=r"\(1, 4\)"):
        run(x=np.ones((1, 4), np.float32))
    with pytest.raises(errors.MissingError, match='no input "z"'):
        run({"z": np.ones((1, 3), np.float32)})
    with pytest.raises(errors.MissingError, match='no input "z"'):
        run({"x": np.ones((1, 3), np.float32), "z": np.ones((1, 3), np.float32)})


def test_tensors_and_arrays_take_turns() -> None:
    run = product()
    for x in (np.ones((1, 3), np.float32), np.zeros((1, 3), np.float32)):
        for given in (x, Tensor(x), x):
            np.testing.assert_allclose(run(x=given)["y"].numpy(), x @ WEIGHT, 1e-5)


def test_numbers_and_empty_arrays_are_inputs_too() -> None:
    given = [value("x", FLOAT, ["n"]), value("k", INT64, [])]
    nodes = [node("Cast", ["k"], ["f"], to=FLOAT), node("Mul", ["x", "f"], ["y"])]
    run = of(*nodes, inputs=given)
    for count in (0, 3, 0, 3):
        for k in (2, 5):
            found = run(x=np.ones(count, np.float32), k=np.array(k))["y"]
            assert found.tolist() == [float(k)] * count


def test_threads_do_not_mix_their_inputs() -> None:
    run = product()
    run(x=np.ones((2, 3), np.float32))
    wrong: list[int] = []

    def work(number: int) -> None:
        x = np.full((2, 3), number, np.float32)
        for _ in range(50):
            if not np.allclose(run(x=x)["y"].numpy(), x @ WEIGHT):
                wrong.append(number)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == []
