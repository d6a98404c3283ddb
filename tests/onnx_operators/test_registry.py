"""The table: who computes a node, by version."""

import numpy as np
import pytest

from onnx_operators.nodes import node
from whit import Tensor
from whit.errors import NotSupportedError
from whit.onnx.operators.registry import find, given_ints, host_array, host_int_list, known_operators


def test_the_newest_version_that_is_not_above_the_asked_one_is_found():
    assert find("", "Resize", 10).function is not find("", "Resize", 11).function
    assert find("", "Resize", 27) is find("", "Resize", 11)
    assert find("ai.onnx", "Relu", 14) is find("", "Relu", 14)


def test_an_operator_that_nobody_knows_is_an_error_that_says_the_nearest():
    with pytest.raises(NotSupportedError, match=r"no operator Rellu in ai.onnx 14") as error:
        find("", "Rellu", 14)
    assert "Relu" in str(error.value)


def test_a_version_before_the_first_is_an_error_that_says_the_first():
    with pytest.raises(NotSupportedError, match="known from these versions on: 20"):
        find("", "Gelu", 13)


def test_every_record_has_versions_and_a_docstring_or_a_row():
    records = known_operators()
    assert len({(record.domain, record.op_type) for record in records}) > 250
    for record in records:
        assert record.since == tuple(sorted(record.since)), record.op_type
        assert all(version > 0 for version in record.since)


def test_host_values_are_read_from_tensors_and_arrays():
    assert host_int_list(Tensor([1, -2])) == host_int_list(np.array([[1], [-2]])) == [1, -2]
    assert host_int_list(np.array(3)) == [3]
    assert given_ints(node("X", axes=[1]), "axes", None) == [1]
    assert given_ints(node("X"), "axes", None) is None
    with pytest.raises(TypeError, match="left out"):
        host_array(None)


def test_arrays_become_tensors_where_they_are_not_wanted_on_the_host():
    made = node("Add")
    (result,) = find("", "Add", 14)(made, np.array([1.0], np.float32), Tensor([2.0]))
    assert isinstance(result, Tensor)
    assert result.tolist() == [3.0]
