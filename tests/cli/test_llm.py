"""`python -m whit llm`: text goes to standard output, messages come from arguments or standard input."""

import io
import json
from pathlib import Path

import pytest
from llm.test_generate import written

from whit.cli.main import main


@pytest.fixture
def file(tmp_path: Path) -> str:
    return str(written(tmp_path))


def test_a_prompt_is_continued(file: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["llm", file, "-p", "ab", "-n", "3", "--json"]) == 0
    assert isinstance(json.loads(capsys.readouterr().out)["text"], str)


def test_what_a_model_is(file: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["llm", file, "--info"]) == 0
    shown = capsys.readouterr().out
    assert "2 layers, 32 wide, 4 heads, 2 of keys and values" in shown
    assert "259 words, made for 64 positions" in shown


def test_lines_are_messages(file: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stdin", io.StringIO("a\n\n"))
    assert main(["llm", file, "-n", "2", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)["messages"]
    assert [message["role"] for message in found] == ["user", "assistant"]


def test_wrong_usage(file: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["llm", file, "-p", "a", "--chat", "b"]) == 2
    assert main(["llm", file, "-p", "a", "-n", "0"]) == 2
    assert main(["llm", "nowhere.gguf", "-p", "a"]) == 1
    assert "nowhere.gguf" in capsys.readouterr().err
