"""Gradients of random programs against small steps. `cd tests; python -m grad.test_graphs 0 3000` runs more."""

import sys
from collections import Counter

import numpy as np
import pytest

from grad.graphs import Program, difference, gradient_along, make_program

pytestmark = pytest.mark.slow

PROGRAMS, EACH = 240, 40
COMPILED = (5, 23, 42)


def problem(program: Program, order: int) -> str | None:
    """What is wrong with the gradient, "kink" if nothing can be said, None if it is right."""
    function = program if order == 1 else program.slope
    wanted = difference(program, function)
    if wanted is None:
        return "kink"
    found = gradient_along(program, function)
    close = abs(found - wanted) <= 1e-5 * (1 + abs(wanted))
    return None if close else f"order {order}: {found} and {wanted} by small steps, {program.text}"


def order_of(seed: int) -> int:
    return 2 if seed % 4 == 0 else 1


@pytest.mark.slow
@pytest.mark.parametrize("first", range(0, PROGRAMS, EACH))
def test_gradients_of_random_programs(first: int) -> None:
    counts: Counter[str] = Counter()
    wrong = []
    for seed in range(first, first + EACH):
        found = problem(make_program(seed), order_of(seed))
        counts["right" if found is None else "kink" if found == "kink" else "wrong"] += 1
        if found is not None and found != "kink":
            wrong.append(found)
    print(f"{EACH} programs: {dict(counts)}")
    assert not wrong, "\n".join(wrong)
    assert counts["kink"] <= EACH // 4


@pytest.mark.slow
@pytest.mark.parametrize("seed", COMPILED)
def test_compiled_gradients_of_random_programs(seed: int) -> None:
    program = make_program(seed)
    found, wanted = gradient_along(program, program, "CPU"), gradient_along(program, program)
    np.testing.assert_allclose(found, wanted, rtol=1e-9, atol=1e-12)


def test_a_seed_is_always_the_same_program() -> None:
    for seed in range(4):
        assert make_program(seed).text == make_program(seed).text
        assert gradient_along(make_program(seed), make_program(seed)) == gradient_along(
            make_program(seed), make_program(seed)
        )


if __name__ == "__main__":
    start, count = int(sys.argv[1]), int(sys.argv[2])
    tally: Counter[str] = Counter()
    for number in range(start, start + count):
        try:
            what = problem(make_program(number), order_of(number))
        except Exception as error:
            what = f"{type(error).__name__}: {str(error)[:300]} {make_program(number).text}"
        tally["right" if what is None else "kink" if what == "kink" else "wrong"] += 1
        if what is not None and what != "kink":
            print(what, flush=True)
        if number % 100 == 99:
            print(number + 1, dict(tally), flush=True)
