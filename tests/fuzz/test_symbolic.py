"""Random programs at bound variables agree with the same programs at plain numbers."""

import pytest

from fuzz.symbolic import find_difference

pytestmark = pytest.mark.slow

BATCH = 10


@pytest.mark.parametrize("first", range(0, 60, BATCH))
def test_interpreted_programs_agree(first: int) -> None:
    assert [find_difference(seed, "PYTHON") for seed in range(first, first + BATCH)] == [""] * BATCH


@pytest.mark.parametrize(("first", "scale"), [(1000, 1), (2000, 7)])
def test_compiled_programs_agree(first: int, scale: int) -> None:
    assert [find_difference(seed, "CPU", scale) for seed in range(first, first + BATCH)] == [""] * BATCH
