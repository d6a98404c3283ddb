"""Values, gradients and states of every expression of the tables."""

import pytest

from nn.pytorch import compare

ALL = [(table, key) for table in compare.TABLES for key in compare.load_table(table)]


@pytest.mark.slow
@pytest.mark.parametrize(("table", "key"), ALL, ids=[f"{table}: {key}" for table, key in ALL])
def test_values_gradients_and_states_are_those_of_torch(table: str, key: str) -> None:
    compare.check(table, key)


@pytest.mark.parametrize("table", compare.TABLES)
def test_the_files_are_what_torch_gives(table: str) -> None:
    pytest.importorskip("torch")
    assert list(compare.expected_of(table)) == list(compare.load_table(table))
    for key in compare.load_table(table):
        compare.check_file(table, key)
