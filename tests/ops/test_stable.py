"""The forms that an op's record has for expressions of its result: the same value, and finite where it is."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from whit.dtype import dtypes
from whit.ir import ops
from whit.ir.interpret import evaluate
from whit.ir.op import Op
from whit.ir.uop import UOp
from whit.tensor.graphs import formulas

FORMS = [(op, text, form) for op in ops.OPS.values() for text, form in op.stable.items()]
NEAR = np.linspace(-8.0, 8.0, 33)  # where the expression as it is written is right in double
FAR = np.array([-1e4, -800.0, -40.0, 40.0, 800.0, 1e4])


def _value(form: Callable[..., UOp], numbers: Any) -> Any:
    x = UOp.buffer(0, dtypes.float64, numbers.shape)
    return evaluate(form(formulas, x), {x: numbers})


@pytest.mark.parametrize("op, text, form", FORMS, ids=[f"{op.name}: {text}" for op, text, _ in FORMS])
def test_a_stable_form_has_the_value_of_the_expression(op: Op, text: str, form: Callable[..., UOp]) -> None:
    x = UOp.buffer(0, dtypes.float64, NEAR.shape)
    y = evaluate(x.alu(op), {x: NEAR})
    expected = eval(text, {"log": np.log, "x": NEAR, "y": y})
    np.testing.assert_allclose(_value(form, NEAR), expected, rtol=1e-12, atol=1e-15)


@pytest.mark.parametrize("op, text, form", FORMS, ids=[f"{op.name}: {text}" for op, text, _ in FORMS])
def test_a_stable_form_is_finite_where_its_value_is(op: Op, text: str, form: Callable[..., UOp]) -> None:
    found = _value(form, FAR)
    assert not np.isnan(found).any()
    if text.startswith("log"):
        assert np.isfinite(found).all()
