"""Every other function of the standard against `array_api_strict`, on what Hypothesis draws."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from arrays import draws
from arrays.strict import ALL, COMPLEX, FLOATS, NUMERIC, REAL, check

pytestmark = pytest.mark.slow

FLOATING = FLOATS + COMPLEX
CASES = {
    # creation
    "arange": draws.counting,
    "eye": draws.diagonal,
    "full": draws.filling,
    "full_like": draws.like_filled,
    "linspace": draws.lining,
    "meshgrid": draws.crossing_rows,
    "ones": draws.constant,
    "ones_like": draws.like,
    "tril": draws.triangle,
    "triu": draws.triangle,
    "zeros": draws.constant,
    "zeros_like": draws.like,
    # dtypes
    "astype": draws.casting,
    "broadcast_arrays": draws.broadcasting_all,
    "broadcast_to": draws.broadcasting,
    "clip": draws.bounding,
    # positions
    "take": draws.taking,
    "take_along_axis": draws.taking_along,
    "argmax": draws.positioning,
    "argmin": draws.positioning,
    "count_nonzero": draws.reducing(ALL),
    "nonzero": draws.alone(ALL, draws.WITH_AXES),
    "searchsorted": draws.seeking,
    "where": draws.choosing,
    "unique_values": draws.alone(specials=True),
    "unique_counts": draws.alone(specials=True),
    "unique_inverse": draws.alone(specials=True),
    "unique_all": draws.alone(specials=True),
    "argsort": draws.ordering,
    "sort": draws.ordering,
    # movement
    "concat": draws.joining,
    "expand_dims": draws.expanding,
    "flip": draws.flipping,
    "moveaxis": draws.moving,
    "permute_dims": draws.permuting,
    "repeat": draws.repeating,
    "reshape": draws.reshaping,
    "roll": draws.rolling,
    "squeeze": draws.squeezing,
    "stack": draws.stacking,
    "tile": draws.tiling,
    "unstack": draws.along(),
    # statistics
    "all": draws.reducing(ALL),
    "any": draws.reducing(ALL),
    "cumulative_prod": draws.running,
    "cumulative_sum": draws.running,
    "diff": draws.differing,
    "max": draws.reducing(REAL, empty=False, specials=True),
    "mean": draws.reducing(FLOATING, empty=False),
    "min": draws.reducing(REAL, empty=False, specials=True),
    "prod": draws.reducing(NUMERIC, low=-2, high=2),
    "std": draws.deviating,
    "sum": draws.reducing(NUMERIC),
    "var": draws.deviating,
    # products
    "matmul": draws.multiplying,
    "matrix_transpose": draws.alone(ALL, [(2, 3), (2, 3, 2)]),
    "tensordot": draws.contracting,
    "vecdot": draws.dotting,
    "linalg.cross": draws.upright,
    "linalg.diagonal": draws.part_of_matrix,
    "linalg.outer": draws.outward,
    "linalg.trace": draws.part_of_matrix,
    "linalg.vector_norm": draws.vector_norms,
    "fft.fftfreq": draws.frequencies,
    "fft.rfftfreq": draws.frequencies,
    "fft.fftshift": draws.shifting,
    "fft.ifftshift": draws.shifting,
    "fft.fft": draws.transforming(COMPLEX),
    "fft.ifft": draws.transforming(COMPLEX),
    "fft.rfft": draws.transforming(FLOATS),
    "fft.irfft": draws.transforming(COMPLEX),
    "fft.hfft": draws.transforming(COMPLEX),
    "fft.ihfft": draws.transforming(FLOATS),
    "fft.fftn": draws.transforming_all(COMPLEX),
    "fft.ifftn": draws.transforming_all(COMPLEX),
    "fft.rfftn": draws.transforming_all(FLOATS),
    "fft.irfftn": draws.transforming_all(COMPLEX),
}


@pytest.mark.parametrize("name", CASES)
@settings(max_examples=max(settings.default.max_examples // 12, 2))
@given(data=st.data())
def test_function(name: str, data: Any) -> None:
    args, keywords = CASES[name](data.draw)
    check(name, *args, scale=4.0, **keywords)
