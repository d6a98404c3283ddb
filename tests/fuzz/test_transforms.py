"""Random functions under random transforms give what `torch.func` gives; without PyTorch, that all of them run."""

from importlib.util import find_spec

import numpy as np
import pytest

from fuzz.transforms import make_program, ours, problem_of

BATCH, COUNT = 20, 60


@pytest.mark.slow
@pytest.mark.skipif(find_spec("torch") is None, reason="PyTorch is not installed")
@pytest.mark.parametrize("first", range(0, COUNT, BATCH))
def test_programs_agree_with_torch(first: int) -> None:
    assert not [p for p in map(problem_of, map(make_program, range(first, first + BATCH))) if p]


@pytest.mark.slow
def test_programs_are_computed_twice_to_the_same_numbers() -> None:
    """Graphs of stand-ins leave nothing behind that another run would see."""
    for seed in range(8):
        program = make_program(seed)
        try:
            first = program.run(ours())
        except Exception:  # sizes of steps may not fit
            continue
        np.testing.assert_array_equal(first, program.run(ours()))
