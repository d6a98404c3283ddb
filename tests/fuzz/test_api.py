"""Random programs of the public API, those of fixed numbers; and that the checker sees what it should."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from fuzz import api_meaning as M
from fuzz.api import problem_of, report, shrink
from fuzz.api_programs import Block, Program, Step, make_program, text_of

EACH = 12  # programs of a test


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:.*programs that differ only in sizes:RuntimeWarning")
@pytest.mark.parametrize("first", range(0, 30 * EACH, EACH))
def test_random_programs_mean_what_numpy_says(first: int) -> None:
    for seed in range(first, first + EACH):
        program = make_program(seed)
        problem = problem_of(program)
        assert not problem, (
            f"python tests/fuzz/api.py --shrink {seed} makes this smaller:\n{report(seed, program, problem)}"
        )


@pytest.mark.slow
def test_programs_have_every_kind_of_step() -> None:
    text = "\n".join(text_of(make_program(seed)) for seed in range(150))
    for call in (
        "@TinyJit",
        "Tensor.realize",
        "look(",
        "del v",
        "] = v",
        ".assign",
        " += ",
        "index_add",
        "scatter_add",
    ):
        assert call in text
    for call in (
        "cat(",
        "stack(",
        "pad(",
        "repeat",
        "reshape",
        "permute",
        "expand",
        "cumsum",
        "sort",
        "gradient",
        "@ v",
    ):
        assert call in text


def test_a_number_names_one_program() -> None:
    assert text_of(make_program(7)) == text_of(make_program(7))


WRONG = Program(
    0,
    "exact",
    "float32",
    (
        Step("v0 = Tensor(M.whole((2, 3), 1, dtype))", "v0 = M.own(M.whole((2, 3), 1, dtype))", ("v0",)),
        Step("v1 = v0.sum(1)", "v1 = M.sum(v0, 1)", ("v1",), ("v0",)),
        Step("v2 = v0 * 2", "v2 = M.own(v0 * 3)", ("v2",), ("v0",)),  # this line
        Step("v2 += 1", "v2[...] = M.own(v2 + 1)", (), ("v2",), writes="v2", kind="write"),
        Step("v3 = v2.max()", "v3 = M.max(v2)", ("v3",), ("v2",)),
    ),
)


@pytest.mark.cpu  # smaller programs run in children, and a fork has no GPU
def test_a_wrong_line_is_seen_and_all_others_are_taken_away() -> None:
    assert problem_of(WRONG).startswith("wrong: v2: ")
    smallest, problem = shrink(WRONG, "wrong")
    assert [step.gives for step in smallest.steps] == [("v0",), ("v2",)]
    assert problem.startswith("wrong: v2: ")


def test_a_wrong_gradient_is_seen() -> None:
    steps = (
        Step("v0 = Tensor(M.wave((3,), 1))", 'v0 = leaf("v0", M.wave((3,), 1))', ("v0",)),
        Step("v1 = v0 * v0.detach() * v0", "v1 = M.own(v0 * v0 * v0)", ("v1",), ("v0",)),
    )
    right = Step("v1 = v0 * v0 * v0", steps[1].meaning, ("v1",), ("v0",))
    program = Program(0, "smooth", "float64", steps, ("v0",), ("v1",))
    assert problem_of(program).startswith("wrong: derivative 1 ")
    assert problem_of(replace(program, steps=(steps[0], right), orders=2)) == ""
    assert problem_of(replace(program, steps=(steps[0], right), orders=2, is_captured=True)) == ""


def test_a_function_that_is_called_twice_writes_twice() -> None:
    leaf, write = WRONG.steps[0], Step("v0[0] += 1", "v0[0] = M.own(v0[0] + 1)", (), ("v0",), writes="v0", kind="write")
    assert isinstance(leaf, Step)
    block = Block("f0", (write, WRONG.steps[1]), ("v0",), ("v1",), ((("v0",), ("v1_00",)), (("v0",), ("v1",))))  # type: ignore[arg-type]
    program = replace(WRONG, steps=(leaf, block))
    assert problem_of(program) == ""
    once = replace(block, calls=block.calls[1:])
    assert text_of(replace(program, steps=(leaf, once))).count("f0(v0)") == 2  # its definition, and a call


@pytest.mark.parametrize(
    "function, derivative",
    [(M.absolute, np.sign), (M.relu, lambda x: x > 0), (M.sigmoid, lambda x: np.exp(-x) / (1 + np.exp(-x)) ** 2)],
    ids=["abs", "relu", "sigmoid"],
)
def test_imaginary_parts_are_derivatives(function: object, derivative: object) -> None:
    x = M.wave((9,), 3)
    assert np.allclose(function(x + 1e-30j).imag / 1e-30, derivative(x), rtol=1e-14)  # type: ignore[operator]


def test_equal_elements_have_no_single_derivative() -> None:
    x = np.array([1.0, 1.0]) + 1e-30j * np.array([1.0, 2.0])
    with pytest.raises(M.Unclear):
        M.max(x, 0)
    assert M.max(x.real, 0) == 1
