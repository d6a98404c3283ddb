"""Some of the standard's own tests, where the package `onnx` is installed; all of them: `make test-onnx`."""

import pytest

from onnx_models.standard import Case, cases, run

FOUND = cases()
CONTROL = ("test_if", "test_loop", "test_scan", "test_sequence", "test_optional", "test_range", "test_split_to")


@pytest.mark.skipif(not FOUND, reason="the package onnx is not installed, or has no test data")
@pytest.mark.parametrize("case", [case for case in FOUND if case.name.startswith(CONTROL)], ids=lambda case: case.name)
def test_of_the_standard(case: Case) -> None:
    run(case)
