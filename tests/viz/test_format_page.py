"""docs/trace-format.md names every record and every field that is written, and no others."""

import re
from pathlib import Path
from time import perf_counter_ns

import whit
from whit import Tensor, nn
from whit.recording import hooks
from whit.viz import format
from whit.viz.format import Reading

PAGE = (Path(__file__).parents[2] / "docs" / "trace-format.md").read_text()


def test_records_and_fields_are_those_of_the_page(recorded: Path, tmp_path: Path) -> None:
    x = Tensor([1.0, 2.0], device="CPU").realize()
    (x * 3).realize()
    with whit.trace(tmp_path / "more"):
        (x * 3).realize()  # known
        nn.Sequential(nn.Linear(2, 2), nn.Linear(2, 2))(Tensor([[1.0, 2.0]])).realize()
        hooks.recorder.event("test")
        hooks.recorder.copied("CUDA", "host to device", 8)([perf_counter_ns()] * 2)
        hooks.recorder.writer.limit = 1
        hooks.recorder._flush()
    found: dict[str, list[str]] = {}
    for path in (recorded, tmp_path / "more"):
        for record in Reading(path):
            fields = sorted(set(record) - {"record"})
            assert found.setdefault(record["record"], fields) == fields
    rows = re.findall(r"^\| `(\w+)` \| ((?:`\w+`(?:, )?)+) \|", PAGE, re.MULTILINE)
    assert {name: sorted(re.findall(r"\w+", fields)) for name, fields in rows} == found


def test_limits_are_those_of_the_page() -> None:
    assert f"version {format.VERSION}" in PAGE
    assert f"at most {format.MOST_PACKED_BYTES >> 20} MiB" in PAGE
    assert f"at most {format.MOST_UNPACKED_BYTES >> 20} MiB" in PAGE
    assert f"{format.BLOCK_BYTES >> 10} KiB of records" in PAGE
    assert f"stops at {format.MOST_BYTES_IN_ALL >> 30} GiB" in PAGE
    assert format.MAGIC.decode().replace("\n", "\\n") in PAGE
