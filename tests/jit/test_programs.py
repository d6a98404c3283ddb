"""Under TinyJit a program gives what it gives without, or raises: never anything else."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from jit.programs import EQUAL, RAISES
from whit import Context, JitError, Tensor, TinyJit

pytestmark = pytest.mark.slow


def seen_by(program: Any, jit: Any) -> list[Any]:
    found: list[Any] = []

    def plain(value: Any) -> Any:
        if isinstance(value, Tensor):
            return (value.dtype.name, value.shape, value.tolist())
        if isinstance(value, list | tuple):
            return [plain(part) for part in value]
        return value

    program(jit, lambda *values: found.append([plain(value) for value in values]))
    return found


def assert_same(left: Any, right: Any, where: str = "") -> None:
    assert type(left) is type(right), (where, left, right)
    if isinstance(left, list | tuple):
        assert len(left) == len(right), (where, left, right)
        for i, (a, b) in enumerate(zip(left, right, strict=True)):
            assert_same(a, b, f"{where}[{i}]")
    elif isinstance(left, float):
        np.testing.assert_allclose(left, right, rtol=2e-6, atol=1e-7, err_msg=where)
    else:
        assert left == right, (where, left, right)


@pytest.mark.parametrize("name", EQUAL)
def test_program_gives_the_same(name: str) -> None:
    program = EQUAL[name][1]
    with Context(DEV="CPU"):
        assert_same(seen_by(program, TinyJit), seen_by(program, lambda function: function))


@pytest.mark.parametrize("name", RAISES)
def test_program_raises(name: str) -> None:
    _, message, program = RAISES[name]
    with Context(DEV="CPU"), pytest.raises(JitError) as caught:
        seen_by(program, TinyJit)
    assert message in str(caught.value)
