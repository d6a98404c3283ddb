"""The kernel diff where there is nothing to compare with. What it says about kernels is checked by using it."""

from pathlib import Path

import pytest

from tools.replay.__main__ import main
from tools.replay.checkouts import NoCommitError, unpack


def test_a_commit_that_a_shallow_clone_does_not_have_fails_unless_nothing_may(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    arguments = ["--against", "no-such-commit", "--cache", str(tmp_path)]
    assert main(arguments) == 2
    assert capsys.readouterr().out.startswith('replay: there is no commit "no-such-commit" here')
    assert main([*arguments, "--no-fail"]) == 0
    with pytest.raises(NoCommitError, match="no-such-commit"):
        unpack("no-such-commit", tmp_path)


def test_a_name_that_nothing_has_is_an_error(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--only", "no such graph", "--cache", str(tmp_path)]) == 2
    assert capsys.readouterr().out == "replay: nothing in the corpus has no such graph in its name\n"
