"""Trace files that are damaged, foreign or hostile: a clear error, or what was written before."""

import json
import struct
import tracemalloc
import zlib
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from whit.errors import FileMissingError, ParseError, WhitError
from whit.viz.cli import main
from whit.viz.format import MAGIC, VERSION, Reading, file_start, pack
from whit.viz.load import load
from whit.viz.writer import TraceWriter

pytestmark = pytest.mark.slow


def _write(path: Path, *records: Any) -> Path:
    path.write_bytes(file_start() + pack([json.dumps(record) for record in records]))
    return path


def test_what_is_written_is_read(tmp_path: Path) -> None:
    writer = TraceWriter(tmp_path / "a", 1000)
    writer.add("start", text="ä\n", numbers=[1, -2])
    writer.flush()
    writer.add("end", at=3)
    writer.close()
    reading = Reading(tmp_path / "a")
    assert list(reading) == [
        {"record": "start", "text": "ä\n", "numbers": [1, -2]},
        {"record": "end", "at": 3},
    ]
    assert reading.is_whole


def test_a_file_cut_anywhere_gives_its_whole_blocks(tmp_path: Path) -> None:
    first, second = pack(['{"record":"a"}']), pack(['{"record":"b"}', '{"record":"c"}'])
    data = file_start() + first + second
    path = tmp_path / "cut"
    for length in range(len(MAGIC), len(data) + 1):
        path.write_bytes(data[:length])
        reading = Reading(path)
        names = "".join(record["record"] for record in reading)
        begins = len(file_start())
        expected = "abc" if length == len(data) else "a" if length >= begins + len(first) else ""
        assert names == expected
        assert reading.is_whole == (length in (begins, begins + len(first), len(data)))


def test_a_recording_cut_anywhere_can_be_listed(recorded: Path, tmp_path: Path) -> None:
    data = recorded.read_bytes()
    path = tmp_path / "cut"
    for part in range(1, 8):
        path.write_bytes(data[: len(data) * part // 8])
        assert not load(path).is_whole
        assert main(["list", str(path)]) == 0


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "is no trace of whit"),
        (b"\x80\x04\x95pickle", "is no trace of whit"),
        (MAGIC + struct.pack("<I", VERSION + 1), f"has version {VERSION + 1} of the trace format"),
        (file_start() + struct.pack("<III", 1 << 31, 10, 0), "a block says it has 2,147,483,648 bytes, 10 unpacked"),
        (file_start() + struct.pack("<III", 10, 1 << 31, 0), "a block says it has 10 bytes, 2,147,483,648 unpacked"),
        (file_start() + struct.pack("<III", 3, 3, 0) + b"abc", "a block does not match its checksum"),
        (file_start() + struct.pack("<III", 3, 3, zlib.crc32(b"abc")) + b"abc", "a block cannot be unpacked"),
        (file_start() + pack(["[" * 100_000]), "a record is no JSON (RecursionError)"),
        (file_start() + pack(["{"]), "a record is no JSON (JSONDecodeError)"),
        (file_start() + pack(["9" * 5000]), "a record is no JSON (ValueError)"),
        (file_start() + pack(["[]"]), "a record has no name"),
        (file_start() + pack(['{"record":3}']), "a record has no name"),
    ],
)
def test_damaged_files_say_what_is_wrong(content: bytes, message: str, tmp_path: Path) -> None:
    path = tmp_path / "bad"
    path.write_bytes(content)
    with pytest.raises(ParseError) as error:
        list(Reading(path))
    assert message in str(error.value)


def test_a_block_that_unpacks_to_more_than_it_says_is_not_unpacked(tmp_path: Path) -> None:
    bomb = zlib.compress(b" " * (50 << 20), 9)
    path = tmp_path / "bomb"
    path.write_bytes(file_start() + struct.pack("<III", len(bomb), 1000, zlib.crc32(bomb)) + bomb)
    tracemalloc.start()
    with pytest.raises(ParseError, match="does not have the length that it says"):
        list(Reading(path))
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 2 << 20


@pytest.mark.parametrize("text", [b"\0", b" ", b"0,"])
def test_much_of_little_is_not_unpacked(text: bytes, tmp_path: Path) -> None:
    """Twelve blocks of a quarter of a GB each, in a file of 3 MB."""
    length = (255 << 20) - 255 % len(text)
    packer = zlib.compressobj(9)
    piece = text * ((1 << 20) // len(text))
    data = b"".join(packer.compress(piece) for _ in range(length // len(piece))) + packer.flush()
    block = struct.pack("<III", len(data), length // len(piece) * len(piece), zlib.crc32(data)) + data
    path = tmp_path / "much"
    path.write_bytes(file_start() + block * 12)
    tracemalloc.start()
    with pytest.raises(ParseError, match=r"a block of [\d,]+ bytes says it has 26[\d,]+ unpacked"):
        load(path)
    assert tracemalloc.get_traced_memory()[1] < 4 << 20
    tracemalloc.stop()


def test_a_length_beyond_the_end_allocates_nothing(tmp_path: Path) -> None:
    path = tmp_path / "long"
    path.write_bytes(file_start() + struct.pack("<III", 60 << 20, 200 << 20, 0) + b"abc")
    tracemalloc.start()
    reading = Reading(path)
    assert list(reading) == []
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert not reading.is_whole
    assert peak < 2 << 20


@pytest.mark.parametrize(
    ("record", "field"),
    [
        ({"record": "kernel", "id": "1", "name": "a", "graph": 0}, "id"),
        ({"record": "kernel", "id": True, "name": "a", "graph": 0}, "id"),
        ({"record": "kernel", "id": 1, "graph": 0}, "name"),
        ({"record": "kernel", "id": 1 << 80, "name": "a", "graph": 0}, "id"),
        ({"record": "nodes", "nodes": [[1]]}, "nodes"),
        ({"record": "nodes", "nodes": 3}, "nodes"),
        ({"record": "memory", "events": [["+", 1]]}, "events"),
        ({"record": "memory", "events": [3]}, "events"),
        ({"record": "run", "schedule": 0, "stack": 0, "thread": 0, "times": [1.5]}, "times"),
    ],
)
def test_a_field_of_another_kind_is_named(record: dict[str, Any], field: str, tmp_path: Path) -> None:
    path = _write(tmp_path / "bad", record)
    with pytest.raises(ParseError, match=f"a record '{record['record']}' has no proper '{field}'"):
        load(path)


def test_unknown_records_and_numbers_without_a_record_are_passed_over(tmp_path: Path) -> None:
    run = {"record": "run", "schedule": 7, "stack": 9, "thread": 0, "times": [1, 2]}
    path = _write(
        tmp_path / "odd", {"record": "of the future"}, {"record": "kernel", "id": 0, "name": "a", "graph": 5}, run
    )
    for command in (["list"], ["top"], ["show", "k0", "--all"], ["memory"], ["compile"], ["grep", "x"]):
        assert main([str(path), *command]) == 0


def test_a_missing_file_and_a_folder(tmp_path: Path) -> None:
    with pytest.raises(FileMissingError, match="there is no file"):
        load(tmp_path / "none")
    with pytest.raises(OSError, match="cannot be read"):
        load(tmp_path)


def _values() -> st.SearchStrategy[Any]:
    leaves = st.none() | st.booleans() | st.integers(-3, 40) | st.text(max_size=5) | st.floats(allow_nan=False)
    return st.recursive(leaves, lambda inner: st.lists(inner, max_size=7), max_leaves=10)


@pytest.mark.slow
@settings(max_examples=25, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])
@given(data=st.data())
def test_changed_records_raise_errors_of_whit_or_none(data: st.DataObject, recorded: Path, tmp_path: Path) -> None:
    records = list(Reading(recorded))
    number = data.draw(st.integers(0, len(records) - 1))
    name = data.draw(st.sampled_from(sorted(records[number])))
    records[number][name] = data.draw(_values())
    path = _write(tmp_path / "changed", *records)
    commands = (["list"], ["show", "k0", "--all"], ["memory"], ["compile"], ["grep", "--rewrites", "add"])
    for command in commands:
        assert main([str(path), *command]) in (0, 1)  # anything else that is raised would come through


def test_the_terminal_is_not_given_what_moves_its_cursor(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    names = {"record": "names", "schedule": 0, "names": ["b\x1b[2J", 7]}  # not all are texts: left out
    kernel = {"record": "kernel", "id": 0, "name": "a\x1b[2J", "graph": 0}
    path = _write(tmp_path / "odd", kernel, names, {**names, "schedule": 5})
    assert main([str(path), "list"]) == 0
    assert "\x1b" not in capsys.readouterr().out


def test_errors_of_the_command_go_to_stderr_with_status_1(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], recorded: Path
) -> None:
    assert main([str(tmp_path / "none"), "list"]) == 1
    assert "there is no file" in capsys.readouterr().err
    assert main([str(recorded), "show", "k99"]) == 1
    assert 'there is no kernel "k99"' in capsys.readouterr().err
    assert main([str(recorded), "grep", "("]) == 1
    assert "is no regular expression" in capsys.readouterr().err
    with pytest.raises(SystemExit):
        main([str(recorded), "top", "-n", "0"])
    assert issubclass(ParseError, WhitError)
