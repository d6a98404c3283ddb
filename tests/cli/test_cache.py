"""`cache list`, `cache size`, `cache clear`, in a folder of their own."""

import json
import os
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from cli.schemas import differences, document
from whit import Context
from whit.cli.main import main
from whit.engine.compile import disk_cache

NOW = 1_800_000_000.0
KEYS = ["a" * 64, "b" * 64, "c" * 64]


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Three kernels, used an hour, a day and a minute ago, and files that are none."""
    with Context(CACHE_DIR=str(tmp_path), CACHE=1):
        for key, age, title in zip(KEYS, (3600, 86400, 60), ("add_4", "add_reduce_2", ""), strict=True):
            disk_cache.keep(key, {"name": "kernel", **({"title": title} if title else {})}, b"x" * 100)
            os.utime(tmp_path / f"{key}.kernel", (NOW - age, NOW - age))
        (tmp_path / "notes.kernel").write_text("mine")
        (tmp_path / "downloads").mkdir()
        (tmp_path / "downloads" / "data.bin").write_bytes(bytes(2048))
        monkeypatch.setattr(time, "time", lambda: NOW)
        yield tmp_path


def test_list(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["cache", "list"]) == 0
    sizes = [(folder / f"{key}.kernel").stat().st_size for key in KEYS]
    assert capsys.readouterr().out == (
        f"{folder}: 3 files, {sum(sizes)} B of 512.0 MiB\n"
        "  kernel         size       used  file\n"
        f"  kernel        {sizes[2]} B  1 min ago  cccccccccccc...\n"
        f"  add_4         {sizes[0]} B    1 h ago  aaaaaaaaaaaa...\n"
        f"  add_reduce_2  {sizes[1]} B    1 d ago  bbbbbbbbbbbb...\n"
    )
    assert main(["cache", "list", "-n", "1"]) == 0
    assert capsys.readouterr().out.endswith("cccccccccccc...\n  and 2 more; -n 0 lists all\n")


def test_list_as_json(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["cache", "list", "--json", "-n", "0"]) == 0
    printed = json.loads(capsys.readouterr().out)
    assert differences(printed, document("cache list")) == []
    assert [entry["name"] for entry in printed["entries"]] == ["kernel", "add_4", "add_reduce_2"]
    assert printed["entries"][0]["used"] == NOW - 60


def test_a_damaged_entry_is_listed_as_such(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (folder / f"{KEYS[0]}.kernel").write_bytes(b"not a kernel")
    (folder / f"{KEYS[1]}.kernel").write_bytes(disk_cache.MAGIC + b"short")
    (folder / f"{KEYS[2]}.kernel").write_bytes(disk_cache.MAGIC + bytes(32) + b"\xff" * 8 + b"[]")
    assert main(["cache", "list"]) == 0
    assert capsys.readouterr().out.count("(damaged)") == 3


def test_size(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["cache", "size", "--json"]) == 0
    printed = json.loads(capsys.readouterr().out)
    assert differences(printed, document("cache size")) == []
    kernels, tuned, downloads = printed["caches"]
    assert (tuned["name"], tuned["files"], tuned["limit_bytes"]) == ("tuned", 0, None)
    assert (kernels["files"], kernels["limit_bytes"]) == (3, disk_cache.LIMIT_BYTES)
    assert downloads == {
        "name": "downloads",
        "folder": str(folder / "downloads"),
        "files": 1,
        "bytes": 2048,
        "limit_bytes": None,
    }
    with Context(CACHE=0):
        assert main(["cache", "size"]) == 0
    first, second, third, last = capsys.readouterr().out.splitlines()
    assert first.startswith(f"kernels    {folder} ") and first.endswith(" B of 512.0 MiB")
    assert second.startswith(f"tuned      {folder} ") and second.endswith(" 0 files, 0 B")
    assert third == f"downloads  {folder}/downloads  1 file, 2.0 KiB"
    assert last == "CACHE=0 is set: kernels are neither kept nor found."


def test_clear_removes_kernels_and_nothing_else(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (folder / f"{KEYS[0]}.12.34.part").write_bytes(b"")  # what a crashed process left
    total = sum((folder / f"{key}.kernel").stat().st_size for key in KEYS)
    assert main(["cache", "clear", "--json"]) == 0
    printed = json.loads(capsys.readouterr().out)
    assert differences(printed, document("cache clear")) == []
    assert (printed["removed_files"], printed["removed_bytes"], printed["left_files"]) == (4, total, 0)
    assert sorted(path.name for path in folder.iterdir()) == ["downloads", "notes.kernel"]
    assert main(["cache", "clear"]) == 0
    assert capsys.readouterr().out == f"{folder}: removed 0 files, 0 B\n"


def test_what_cannot_be_removed_is_a_problem(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def refuse(path: str) -> None:
        raise PermissionError(13, "Permission denied", path)

    monkeypatch.setattr(os, "remove", refuse)
    assert main(["cache", "clear"]) == 1
    first, second = capsys.readouterr().out.splitlines()
    assert first == f"{folder}: removed 0 files, 0 B"
    assert second == "3 files could not be removed; check who owns the folder."


def test_a_folder_that_is_not_there_is_empty(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with Context(CACHE_DIR=str(tmp_path / "nowhere")):
        assert [main(["cache", action]) for action in ("list", "size", "clear")] == [0, 0, 0]
    assert capsys.readouterr().out.startswith(f"{tmp_path}/nowhere: 0 files, 0 B of 512.0 MiB\n")
    assert not (tmp_path / "nowhere").exists()
