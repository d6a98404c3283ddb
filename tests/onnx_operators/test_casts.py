"""Conversions, also to types of few bits and of text."""

import numpy as np
import pytest

from onnx_operators.nodes import run
from whit import Tensor, dtypes
from whit.errors import NotSupportedError
from whit.onnx.operators.casts import to_type
from whit.onnx.operators.element_types import element_type

INT4, UINT4, FLOAT4, E8M0, UINT2 = 22, 21, 23, 24, 25


def test_types_of_few_bits_keep_the_low_bits():
    x = Tensor([-9, -8, 7, 8, 17])
    assert to_type(x, INT4).tolist() == [7, -8, 7, -8, 1]
    assert to_type(x, UINT4).tolist() == [7, 8, 7, 8, 1]
    assert to_type(x, UINT2).tolist() == [3, 0, 3, 0, 1]
    assert (element_type(INT4).least, element_type(INT4).most, element_type(UINT2).most) == (-8, 7, 3)


def test_float4_rounds_to_its_eight_magnitudes():
    x = Tensor([0.2, 0.25, 0.75, 1.25, 1.75, 2.5, 3.5, 5.0, 9.0, -2.5, float("inf"), float("nan")])
    assert to_type(x, FLOAT4).float().tolist() == [0, 0, 1, 1, 2, 2, 4, 4, 6, -2, 6, 0]


@pytest.mark.parametrize("number", [17, 18, 19, 20])
def test_fp8_saturates_or_overflows(number):
    dtype = element_type(number).dtype
    x = Tensor([dtype.largest * 4, -dtype.largest * 4, float("inf"), 1.0, float("nan")])
    kept = to_type(x, number).float().tolist()
    assert kept[:4] == [dtype.largest, -dtype.largest, dtype.largest, 1.0]
    assert np.isnan(kept[4])
    lost = to_type(x, number, saturate=False).float().numpy()
    assert (np.isinf(lost[:3]) if dtype.has_inf else np.isnan(lost[:3])).all()


def test_powers_of_two_are_rounded_as_asked():
    x = Tensor([1.0, 1.1, 1.5, 3.0, 0.0])
    assert to_type(x, E8M0, mode="up").tolist()[:4] == [1, 2, 2, 4]
    assert to_type(x, E8M0, mode="down").tolist()[:4] == [1, 1, 1, 2]
    assert to_type(x, E8M0, mode="nearest").tolist()[:4] == [1, 1, 2, 4]
    assert to_type(x, E8M0).tolist()[4] == 2.0**-127


def test_strings_and_numbers():
    texts = np.array(["3.5", "-INF", "NaN", "1e2"], dtype=object)
    got = run("Cast", texts, to=1)
    assert got[[0, 1, 3]].tolist() == [3.5, -np.inf, 100.0]
    assert np.isnan(got[2])
    assert run("Cast", np.array([1.5, -2.0], np.float32), to=8).tolist() == ["1.5", "-2.0"]
    assert run("CastLike", np.array([1.5], np.float32), np.array(["x"], dtype=object)).tolist() == ["1.5"]


def test_cast_like_a_narrow_type_that_the_model_declares():
    got = run("CastLike", np.array([9, -9], np.int32), np.array([0], np.int8), types=(6, INT4))
    assert got.tolist() == [-7, 7]


def test_complex_numbers_are_an_error_that_says_what_to_do():
    with pytest.raises(NotSupportedError, match="complex64"):
        run("Cast", np.array([1.0], np.float32), to=14)
    assert element_type(16).dtype is dtypes.bfloat16
