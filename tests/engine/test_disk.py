"""Files as memory: layouts of views, reads and writes at positions, stores in graphs, copies."""

from __future__ import annotations

import os
import pathlib
import sys
import threading
from math import prod
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from whit.device import Device
from whit.dtype import dtypes
from whit.engine.devices.disk import DiskBuffer, file_buffer, new_file_buffer
from whit.engine.devices.file_views import copy_of_view, write_view
from whit.engine.memory.layout import StridedLayout, chain_of, follow, row_major, runs_of
from whit.engine.memory.storage import attach, from_bytes, storage
from whit.engine.memory.values import from_numpy, item, to_list, to_numpy
from whit.engine.realize.realize import realize, realize_one
from whit.engine.report.counters import GlobalCounters
from whit.errors import ArgumentError, DeviceError, FileError, OutOfRangeError
from whit.ir.interpret import evaluate
from whit.ir.uop import UOp
from whit.runtime.buffer import Buffer, usage
from whit.runtime.disk import open_file


@pytest.fixture
def file(tmp_path: pathlib.Path) -> pathlib.Path:
    path = tmp_path / "f"
    path.write_bytes(np.arange(24, dtype=np.int32).tobytes())
    return path


def node_of(path: pathlib.Path, shape: tuple[int, ...] = (24,)) -> UOp:
    return attach(file_buffer(f"DISK:{path}"), dtypes.int32, shape)


# ---- layouts


def addresses(layout: StridedLayout) -> Any:
    grid = np.indices(layout.sizes) if layout.sizes else np.zeros((0,), np.int64)
    return layout.start + sum(
        (axis * step for axis, step in zip(grid, layout.steps, strict=True)), 0 * grid.sum(axis=0)
    )


@pytest.mark.slow
@settings(max_examples=150, deadline=None)
@given(st.data())
def test_layouts_are_where_the_interpreter_finds_the_elements(data: Any) -> None:
    shape = tuple(data.draw(st.lists(st.sampled_from([1, 2, 3, 4, 6]), min_size=1, max_size=3)))
    memory = node = UOp.buffer(0, dtypes.int32, shape, "CPU")
    for _ in range(data.draw(st.integers(1, 5))):
        node = data.draw(_moves(node))
    values = np.arange(prod(shape), dtype=np.int32).reshape(shape)
    base, chain = chain_of(node)
    assert base is memory
    layout, done = follow(row_major(shape), chain)
    reached = chain[done - 1] if done else memory
    np.testing.assert_array_equal(addresses(layout), evaluate(reached, {memory: values}))
    runs = runs_of(layout)
    if runs is not None:
        assert runs.start == addresses(layout).min()
        assert list(runs.steps) == sorted(runs.steps, reverse=True)


def _moves(node: UOp) -> st.SearchStrategy[UOp]:
    """One movement op on a node."""
    rank, shape = len(node.shape), tuple(int(size) for size in node.shape)
    windows = st.tuples(*[st.integers(0, size - 1).flatmap(lambda f, s=size: _window(f, s)) for size in shape])  # type: ignore[misc]
    choices = [
        st.permutations(range(rank)).map(lambda order: node.permute(tuple(order))),
        windows.map(lambda parts: node.shrink(parts)),
        st.sets(st.integers(0, rank - 1), min_size=1).map(lambda axes: node.flip(tuple(sorted(axes)))),
        st.integers(2, 3).map(lambda step: _every(node, step)),
        st.sampled_from(_shapes(prod(shape))).map(node.reshape),
    ]
    if 1 in shape:
        choices.append(st.just(node.expand(tuple(2 if size == 1 else size for size in shape))))
    return st.one_of(choices)


def _window(first: int, size: int) -> st.SearchStrategy[tuple[int, int]]:
    return st.integers(1, size - first).map(lambda length: (first, length))


def _shapes(count: int) -> list[tuple[int, ...]]:
    pairs = [(a, count // a) for a in range(1, count + 1) if count % a == 0]
    return [(count,), *pairs, *[(2, a // 2, b) for a, b in pairs if a % 2 == 0]]


def _every(node: UOp, step: int) -> UOp:
    """node[..., ::step]"""
    *lead, last = node.shape
    count = -(-last // step)
    node = node.pad([*[(0, 0)] * len(lead), (0, count * step - last)]).reshape((*lead, count, step))
    return node.shrink([*[(0, size) for size in lead], (0, count), (0, 1)]).reshape((*lead, count))


def test_padding_that_shows_stops_a_layout() -> None:
    node = UOp.buffer(0, dtypes.int8, (5,), "CPU")
    padded = node.pad([(0, 1)]).reshape((3, 2))
    for view, done in ((padded.shrink([(0, 3), (0, 1)]), 3), (padded.shrink([(0, 3), (1, 1)]), 0), (padded, 0)):
        _, chain = chain_of(view)
        assert follow(row_major((5,)), chain)[1] == done


# ---- buffers


def test_parts_of_files_are_read_and_written(file: pathlib.Path) -> None:
    whole = file_buffer(f"DISK:{file}")
    assert whole.nbytes == 96 and usage(whole.device).now == 0
    part = whole.view(8, 8).view(4, 4)
    assert bytes(part.memory()) == (3).to_bytes(4, "little")
    memory = Buffer("CPU", 4)
    memory.copy_from(part)
    assert bytes(memory.memory()) == (3).to_bytes(4, "little")
    memory.memory()[:] = b"abcd"
    part.copy_from(memory)
    assert file.read_bytes()[12:16] == b"abcd"
    with pytest.raises(OutOfRangeError, match=r"bytes 90\.\.100 of a buffer of 96"):
        whole.view(90, 10)
    with pytest.raises(ArgumentError, match="a copy of 4 bytes into 96"):
        whole.copy_from(memory)
    with pytest.raises(TypeError):
        part.memory()[0] = 1


@pytest.mark.parametrize(("source", "target"), [(0, 8), (8, 0), (0, 0)])
def test_overlapping_copies_inside_a_file(
    file: pathlib.Path, source: int, target: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("whit.engine.devices.disk.CHUNK_BYTES", 8)
    expected = bytearray(file.read_bytes())
    expected[target : target + 80] = expected[source : source + 80]
    whole = file_buffer(f"DISK:{file}")
    whole.view(target, 80).copy_from(whole.view(source, 80))
    assert file.read_bytes() == bytes(expected)


def test_one_file_is_open_once(file: pathlib.Path, tmp_path: pathlib.Path) -> None:
    link = tmp_path / "link"
    os.link(file, link)
    assert open_file(str(file)) is open_file(str(link))
    first = open_file(str(file))
    descriptor = first._descriptor
    os.fstat(descriptor)
    del first
    with pytest.raises(OSError):
        os.fstat(descriptor)


def test_reading_while_the_file_is_opened_for_writing(file: pathlib.Path) -> None:
    wrong: list[object] = []

    def read() -> None:
        buffer = file_buffer(f"DISK:{file}")
        for _ in range(300):
            if bytes(buffer.view(4, 4).memory()) != (1).to_bytes(4, "little"):
                wrong.append(1)

    threads = [threading.Thread(target=read) for _ in range(3)]
    for thread in threads:
        thread.start()
    for i in range(100):
        buffer = new_file_buffer(f"DISK:{file}", 96)
        buffer.write(memoryview(i.to_bytes(4, "little")), 0)
        del buffer
    for thread in threads:
        thread.join()
    assert wrong == []


@pytest.mark.slow
def test_a_file_that_one_thread_lets_go_is_not_found_closed_by_another(file: pathlib.Path) -> None:
    problems: list[Exception] = []

    def read() -> None:
        try:
            for _ in range(6000):
                file_buffer(f"DISK:{file}").view(4, 4).memory()
        except OSError as error:
            problems.append(error)

    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)
    try:
        threads = [threading.Thread(target=read) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    finally:
        sys.setswitchinterval(before)
    assert problems == []


def test_the_device_stores_and_computes_nothing(file: pathlib.Path) -> None:
    device = Device[f"disk:{file}"]
    assert device.target is None and device.name == f"DISK:{file}"
    device.synchronize()
    os.remove(file)
    device.synchronize()
    with pytest.raises(DeviceError, match=r'nothing is computed on DISK:.*\n  Move it first: x.to\("CPU"\)'):
        device.load(None)  # type: ignore[arg-type]


# ---- graphs


def test_parts_need_no_read_until_they_are_asked_for(file: pathlib.Path) -> None:
    (part,) = realize([node_of(file, (6, 4)).shrink(((2, 1), (1, 2)))])
    assert isinstance(storage(part), DiskBuffer) and part.device == f"DISK:{file}"
    assert GlobalCounters.bytes_read == 0
    assert to_numpy(part).tolist() == [[9, 10]] and to_list(part) == [[9, 10]]
    assert GlobalCounters.bytes_read == 16
    (one,) = realize([node_of(file).shrink(((7, 1),))])
    assert item(one) == 7


def test_computing_on_a_file_is_an_error(file: pathlib.Path) -> None:
    for wrong in (node_of(file) + 1, node_of(file).stage(), node_of(file, (6, 4)).permute((1, 0))):
        with pytest.raises(DeviceError, match="nothing is computed on DISK"):
            realize([wrong])


def test_a_kernel_reads_what_was_copied(file: pathlib.Path) -> None:
    node = node_of(file, (6, 4))
    (total,) = realize([node.permute((1, 0)).shrink(((1, 2), (0, 6))).copy_to("CPU") * 2])
    np.testing.assert_array_equal(to_numpy(total), np.arange(24).reshape(6, 4).T[1:3] * 2)


def test_stores_to_a_file_are_carried_out_at_once(file: pathlib.Path) -> None:
    node = node_of(file)
    value = from_numpy(np.array([-1, -2], np.int32))
    write_view(node.shrink(((3, 2),)), value * 10, realize_one)
    write_view(node.shrink(((0, 1),)), UOp.const(dtypes.int32, 5).reshape((1,)), realize_one)
    assert np.fromfile(file, np.int32)[:6].tolist() == [5, 1, 2, -10, -20, 5]
    with pytest.raises(ArgumentError, match=r"assign: \(2,\) into \(24,\)"):
        write_view(node, value, realize_one)
    seven = UOp.const(dtypes.int32, 7).reshape((1,)).expand((24,))
    for part in (node, node.shrink(((0, 24),))):
        with pytest.raises(DeviceError, match="nothing is computed on DISK"):
            realize([node.after(part.store(seven))])
    assert np.fromfile(file, np.int32)[0] == 5


def test_a_copy_is_a_read_of_its_own(file: pathlib.Path) -> None:
    node = node_of(file)
    first, second = copy_of_view(node, "CPU"), copy_of_view(node, "CPU")
    assert first is not second
    realize([first])
    with open(file, "r+b") as raw:
        raw.write(bytes(4))
        raw.write((9).to_bytes(4, "little"))
    assert to_list(realize([second])[0])[:2] == [0, 9]
    assert to_list(realize([first])[0])[:2] == [0, 1]


def test_data_goes_straight_into_files(tmp_path: pathlib.Path) -> None:
    node = from_bytes(b"abcd", dtypes.uint8, (4,), f"disk:{tmp_path}/x")
    assert (tmp_path / "x").read_bytes() == b"abcd" and node.device == f"DISK:{tmp_path}/x"
    constant = UOp.const(dtypes.int32, 7).reshape((1,)).expand((3,))
    (result,) = realize([constant], f"disk:{tmp_path}/y")
    assert to_list(result) == [7, 7, 7] and (tmp_path / "y").stat().st_size == 12
    (null,) = realize([node.copy_to("NULL")])
    assert storage(null).nbytes == 4


def test_a_short_file_is_an_error_that_names_the_bytes(file: pathlib.Path) -> None:
    with pytest.raises(FileError, match=r"ends at byte 96\n  bytes 90 to 100 were asked for"):
        open_file(str(file)).read_into(90, memoryview(bytearray(10)))
