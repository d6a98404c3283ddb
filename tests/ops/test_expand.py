"""An op's expansion into simpler ops has exactly the op's value, for every dtype the op accepts."""

import math
from typing import Any

import pytest

from ops.corners import accepted, graph_on, is_same, name_of, samples, source_dtypes, to_array, to_python
from whit.dtype import DType, dtypes
from whit.ir.interpret import evaluate
from whit.ir.op import Op


def _specified(dtype: DType, operands: tuple[Any, ...]) -> bool:
    """Infinities in fp8e5m2 come only from foreign bits; the first arithmetic op that sees one makes it finite."""
    return dtype is not dtypes.fp8e5m2 or not any(isinstance(x, float) and math.isinf(x) for x in operands)


@pytest.mark.parametrize("op, dtype", [(op, d) for op, d in accepted() if op.expand is not None], ids=name_of)
def test_expansion_has_the_value_of_the_op(op: Op, dtype: DType) -> None:
    operands = [values for values in samples(source_dtypes(op, dtype)) if _specified(dtype, values)]
    node, buffers = graph_on(op, dtype, len(operands))
    assert op.expand is not None
    expansion = op.expand(node)
    assert op not in {inner.op for inner in expansion.topological()}
    assert (expansion.dtype, expansion.shape) == (node.dtype, node.shape)
    inputs = {b: to_array(b.dtype, [v[i] for v in operands]) for i, b in enumerate(buffers)}
    results = to_python(node.dtype, evaluate(expansion, inputs))
    expected = to_python(node.dtype, evaluate(node, inputs))
    for values, result, wanted in zip(operands, results, expected, strict=True):
        assert is_same(node.dtype, result, wanted), f"{op.name}{values} of {dtype.name}: {wanted}, expanded {result}"
