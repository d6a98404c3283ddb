"""Bytes that are loaded as one: whatever is made of them, a machine in Python gets the same."""

import numpy as np
import pytest
from ptx_machine import run_ptx

from whit import Tensor
from whit.codegen import generate
from whit.dtype import DType, dtypes
from whit.engine.normalise import below, normalise
from whit.render import render
from whit.schedule import schedule
from whit.target import parse_target

TARGET = parse_target("CUDA:PTX:sm_90a")
BYTES = np.random.default_rng(0).integers(0, 256, (48, 4), np.uint8)


def run_text(value: Tensor, given: np.ndarray) -> tuple[np.ndarray, str]:
    """A value of one tensor as the machine computes it, and the text of its kernel."""
    node = value.uop
    (call,) = schedule(normalise([node], below([node])[0]).graph, TARGET).src
    program = generate(call.src[0].src[0], TARGET)
    text = render({"parts": program.linear}, TARGET)
    result = np.zeros_like(value.numpy())
    run_ptx(text, program.total, program.threads, {"p0": result.reshape(-1), "p1": given.reshape(-1)})
    return result, text


@pytest.mark.parametrize("dtype", (dtypes.uint16, dtypes.int16, dtypes.float16, dtypes.uint32, dtypes.int32))
def test_bytes_as_wider_numbers(dtype: DType) -> None:
    x = Tensor(BYTES, device="CPU")
    value = x.bitcast(dtype).cast(dtypes.float32 if dtype.is_float else dtypes.int64)
    got, text = run_text(value, BYTES)
    np.testing.assert_array_equal(got, value.numpy())
    assert "ld.global.u32" in text or "ld.global.u16" in text


@pytest.mark.parametrize("shift", (8, 16))
def test_signed_bytes_are_not_put_together(shift: int) -> None:
    x = Tensor(BYTES, device="CPU").bitcast(dtypes.int8)
    for dtype in (dtypes.int16, dtypes.int32, dtypes.uint16):
        value = (x[:, 0::2].cast(dtype) | (x[:, 1::2].cast(dtype) << shift)).cast(dtypes.int64)
        np.testing.assert_array_equal(run_text(value, BYTES)[0], value.numpy())


def test_signed_bytes_as_floats() -> None:
    value = Tensor(BYTES, device="CPU").bitcast(dtypes.int8)[:, :2].cast(dtypes.float32).sum(1)
    np.testing.assert_array_equal(run_text(value, BYTES)[0], value.numpy())


def test_upper_halves_shifted_in_their_own_dtype_are_nothing() -> None:
    given = BYTES.view(np.uint16).copy()
    x = Tensor(given, device="CPU")
    for value in (
        x << 16,
        x.cast(dtypes.uint32) << 16,
        x.bitcast(dtypes.bfloat16).cast(dtypes.float32).bitcast(dtypes.uint32),
    ):
        np.testing.assert_array_equal(run_text(value, given)[0], value.numpy())
