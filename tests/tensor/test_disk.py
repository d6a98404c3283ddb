"""Tensors in files: lazy views, exact reads, writes of just those bytes, copies between all devices, errors."""

from __future__ import annotations

import errno
import multiprocessing
import os
import pathlib
import resource
import subprocess
import sys
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from whit import Context, Device, GlobalCounters, Tensor, dtypes
from whit.dtype import DType
from whit.errors import DeviceError, DTypeError, FileError, FileMissingError, FileReadOnlyError, ShapeError
from whit.ir.interpret import numpy_dtype

pytestmark = pytest.mark.slow  # many

GIB = 1 << 30


@pytest.fixture
def file(tmp_path: pathlib.Path) -> pathlib.Path:
    """1000 bytes that count."""
    path = tmp_path / "Data.bin"
    path.write_bytes(np.arange(1000).astype(np.uint8).tobytes())
    return path


def content(path: pathlib.Path, dtype: Any = np.uint8) -> Any:
    return np.frombuffer(path.read_bytes(), dtype).copy()


def read_bytes(tensor: Tensor) -> tuple[Any, int]:
    """The elements, and how many bytes of files were read for them."""
    GlobalCounters.reset()
    array = tensor.numpy()
    return array, sum(GlobalCounters.device(name).bytes_read for name in (tensor.device,))


# ---- names and laziness


def test_a_path_is_a_tensor_of_its_bytes(file: pathlib.Path) -> None:
    GlobalCounters.reset()
    t = Tensor(file)
    assert (t.shape, t.dtype, t.device) == ((1000,), dtypes.uint8, f"DISK:{file}")
    assert GlobalCounters.bytes_read == 0
    assert t.tolist() == content(file).tolist()
    assert Tensor(file, dtype=dtypes.int16).tolist() == content(file, np.int16).tolist()
    assert Tensor(file, device="CPU").device == "CPU"


def test_paths_keep_their_case_and_become_absolute(file: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(file.parent)
    assert Device.canonicalize("disk:Data.bin") == Device.canonicalize(f"DISK:{file}") == f"DISK:{file}"
    assert Tensor(pathlib.Path("Data.bin")).device == f"DISK:{file}"
    monkeypatch.chdir("/")
    assert Device.canonicalize("Disk:Data.bin") == "DISK:/Data.bin"
    with pytest.raises(DeviceError, match='"disk:" names no file'):
        Device.canonicalize("disk:")


@pytest.mark.parametrize(
    ("cut", "nbytes"),
    [
        (lambda t: t[10:20], 10),
        (lambda t: t[7], 1),
        (lambda t: t[-3:], 3),
        (lambda t: t[5:5], 0),
        (lambda t: t.reshape(10, 100)[4], 100),
        (lambda t: t.reshape(10, 100)[4, 10:20], 10),
        (lambda t: t.reshape(10, 100)[2:4], 200),
        (lambda t: t[::-1], 1000),
        (lambda t: t[100:200][::-1], 100),
        (lambda t: t.reshape(1, 1000)[:, ::-1], 1000),
        (lambda t: t[100:200:10], 91),  # the pieces lie close: one read from the first to the last
        (lambda t: t.reshape(10, 100)[2:4, 10:20], 110),
        (lambda t: t.reshape(10, 100)[:, 3], 901),
        (lambda t: t.reshape(10, 100).T, 1000),
        (lambda t: t.reshape(2, 5, 100)[1, ::2, 7:3:-1], 404),
        (lambda t: t[4:8].reshape(1, 4).expand(3, 4), 4),
        (lambda t: t[0:4].reshape(2, 2).T.reshape(4), 4),
        (lambda t: t[1:3].pad(((1, 2),)), 2),
        (lambda t: t[None, 3:5, None], 2),
        (lambda t: t.reshape(10, 100).permute(1, 0)[5:7, 1:3], 102),
    ],
)
def test_only_the_bytes_of_a_view_are_read(file: pathlib.Path, cut: Any, nbytes: int) -> None:
    expected = cut(Tensor(content(file), device="PYTHON")).numpy()
    found, read = read_bytes(cut(Tensor(file)))
    np.testing.assert_array_equal(found, expected)
    assert found.shape == expected.shape
    assert read == nbytes
    assert cut(Tensor(file)).to("CPU").tolist() == expected.tolist()


def test_pieces_that_lie_apart_are_read_alone(tmp_path: pathlib.Path) -> None:
    array = np.arange(64 * 20_000, dtype=np.int32).reshape(64, 20_000)
    path = tmp_path / "x"
    array.tofile(path)
    t = Tensor(path, dtype=dtypes.int32).reshape(64, 20_000)
    found, read = read_bytes(t[::3, 100:110])
    np.testing.assert_array_equal(found, array[::3, 100:110])
    assert read == 22 * 10 * 4
    found, read = read_bytes(t[5::-1, 3])
    np.testing.assert_array_equal(found, array[5::-1, 3])
    assert read == 6 * 4
    found, read = read_bytes(t.reshape(64, 100, 200)[::30, 1:3, ::50])  # apart outside, close inside
    np.testing.assert_array_equal(found, array.reshape(64, 100, 200)[::30, 1:3, ::50])
    assert read == 3 * (200 + 151) * 4


@settings(max_examples=100, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.data())
def test_random_views_read_and_write_what_numpy_does(tmp_path: pathlib.Path, data: Any) -> None:
    shape = tuple(data.draw(st.lists(st.integers(1, 6), min_size=1, max_size=3)))
    array = np.arange(np.prod(shape), dtype=np.int16).reshape(shape)
    path = tmp_path / "random"
    path.write_bytes(array.tobytes())
    t, view = Tensor(path, dtype=dtypes.int16).reshape(shape), array
    for _ in range(data.draw(st.integers(1, 3))):
        index = []
        for size in view.shape:
            start, stop = sorted(data.draw(st.tuples(st.integers(0, size), st.integers(0, size))))
            step = data.draw(st.sampled_from([1, 2, 3, -1, -2]))
            index.append(slice(start, stop, step) if step > 0 else slice(None, None, step))
        t, view = t[tuple(index)], view[tuple(index)]
        order = data.draw(st.permutations(range(view.ndim)))
        t, view = t.permute(tuple(order)), view.transpose(order)
    np.testing.assert_array_equal(t.numpy(), view)
    value = -np.arange(1, view.size + 1, dtype=np.int16).reshape(view.shape)
    t.assign(value)
    view[...] = value
    np.testing.assert_array_equal(content(path, np.int16).reshape(shape), array)


# ---- bitcasts on the side of the file


@pytest.mark.parametrize("dtype", dtypes.all, ids=lambda dtype: dtype.name)
def test_bytes_of_a_file_as_any_dtype(tmp_path: pathlib.Path, dtype: DType) -> None:
    array = np.arange(24).astype(numpy_dtype(dtype))
    path = tmp_path / "x"
    path.write_bytes(b"head" + array.tobytes())
    t = Tensor(path)[4:].bitcast(dtype)
    assert t.dtype is dtype and t.shape == (24,) and t.device.startswith("DISK")
    found, read = read_bytes(t[6:10])
    assert read == 4 * dtype.itemsize
    assert found.dtype == array.dtype and found.tobytes() == array[6:10].tobytes()
    wide = array.astype(np.complex128 if dtype.is_complex else np.float64)
    assert t.reshape(4, 6)[1].to("CPU").tolist() == wide.reshape(4, 6)[1].tolist()
    assert t[3].item() == array[3]


def test_bitcasts_of_views_with_gaps(file: pathlib.Path) -> None:
    t, array = Tensor(file).reshape(10, 100), content(file).reshape(10, 100)
    for cut in (np.s_[:, 4:12], np.s_[2:8:2, 8:16], np.s_[::-1, 96:], np.s_[4:, 1:9]):
        found = t[cut].bitcast(dtypes.float32)
        assert found.device.startswith("DISK")
        np.testing.assert_array_equal(found.numpy(), np.ascontiguousarray(array[cut]).view(np.float32))
    np.testing.assert_array_equal(
        t.permute(1, 0).reshape(100, 10).permute(1, 0)[3].bitcast(dtypes.int16).numpy(), array[3].view(np.int16)
    )
    with pytest.raises(ShapeError, match="do not lie side by side in the file"):
        t[:, ::2].bitcast(dtypes.int16)
    with pytest.raises(ShapeError, match="has 3 uint8, which is no whole number of int16"):
        t[:, :3].bitcast(dtypes.int16)
    with pytest.raises(ShapeError, match=r"the elements of \(5, 4\) do not lie"):
        Tensor(file)[:995].reshape(5, 199)[:, 1:5].bitcast(dtypes.int16)


def test_any_byte_of_a_file_is_a_bool(tmp_path: pathlib.Path) -> None:
    path = tmp_path / "x"
    path.write_bytes(bytes([0, 1, 2, 255]))
    t = Tensor(path).bitcast(dtypes.bool)
    assert t.numpy().tobytes() == b"\0\1\1\1"
    assert t.to("CPU").cast(dtypes.int32).tolist() == [0, 1, 1, 1]


@pytest.mark.parametrize("old", dtypes.all, ids=lambda dtype: dtype.name)
def test_bitcasts_in_memory_are_numpys_views(old: DType) -> None:
    if old.is_bool:
        return
    data = np.random.default_rng(0).integers(0, 256, (3, 16), np.uint8)
    x = Tensor(data.view(numpy_dtype(old)))
    for new in (dtypes.uint8, dtypes.int16, dtypes.uint32, dtypes.int64, dtypes.float16, dtypes.complex64):
        found = x[1:].bitcast(new).numpy()
        assert found.dtype == numpy_dtype(new) and found.shape == (2, 16 // new.itemsize)
        assert found.tobytes() == data[1:].tobytes()
    with pytest.raises(ShapeError, match="one float64 of 8 bytes is not one int32 of 4"):
        Tensor(1.0, dtype=dtypes.float64).bitcast(dtypes.int32)


# ---- large files


def test_positions_past_four_gibibytes(tmp_path: pathlib.Path) -> None:
    path = tmp_path / "sparse"
    t = Tensor.empty(9 * GIB, dtype=dtypes.uint8, device=f"disk:{path}")
    assert path.stat().st_size == 9 * GIB
    assert path.stat().st_blocks == 0
    t[5 * GIB + 3 : 5 * GIB + 7] = [1, 2, 3, 4]
    assert t[5 * GIB + 2 : 5 * GIB + 8].tolist() == [0, 1, 2, 3, 4, 0]
    whole = t.bitcast(dtypes.int64)
    whole[-1] = -5
    found, read = read_bytes(Tensor(path)[-8:].bitcast(dtypes.int64))
    assert (found.tolist(), read) == ([-5], 8)
    found, read = read_bytes(t[3 :: 2 * GIB + GIB // 2])
    assert (found.tolist(), read) == ([0, 0, 1, 0], 4)
    assert path.stat().st_blocks * 512 < 1 << 20


# ---- writes


def test_writes_change_just_those_bytes(file: pathlib.Path) -> None:
    t, expected = Tensor(file), content(file)
    GlobalCounters.reset()
    t[10:14] = [200, 201, 202, 203]
    expected[10:14] = [200, 201, 202, 203]
    assert GlobalCounters.device(t.device).bytes_written == 4
    t[20:24].assign(Tensor([1, 2, 3, 4], dtype=dtypes.uint8))
    t[30] = 9
    t.reshape(10, 100)[3:5, 7:9] = [[50, 51], [52, 53]]
    t.reshape(10, 100)[:, 99] = 7
    t[40:48].bitcast(dtypes.float32)[1] = 1.5
    expected[20:24], expected[30] = [1, 2, 3, 4], 9
    expected.reshape(10, 100)[3:5, 7:9] = [[50, 51], [52, 53]]
    expected.reshape(10, 100)[:, 99] = 7
    expected[40:48].view(np.float32)[1] = 1.5
    np.testing.assert_array_equal(content(file), expected)
    np.testing.assert_array_equal(t.numpy(), expected)


def test_a_part_of_a_file_moved_inside_it(file: pathlib.Path) -> None:
    t, expected = Tensor(file), content(file)
    t[1:] = t[:-1]
    expected[1:] = expected[:-1].copy()
    np.testing.assert_array_equal(content(file), expected)
    t[:] = t[::-1]
    np.testing.assert_array_equal(content(file), expected[::-1])


def test_values_are_computed_and_moved_as_needed(file: pathlib.Path, tmp_path: pathlib.Path) -> None:
    t = Tensor(file)[:8].bitcast(dtypes.float32)
    t[:] = Tensor([1.0, 2.0]) * 3
    assert t.tolist() == [3, 6]
    t[0] = Tensor(4.0, device="PYTHON") + 1
    assert t.tolist() == [5, 6]
    t[:] = Tensor.zeros(1)
    assert t.tolist() == [0, 0]
    other = tmp_path / "other"
    other.write_bytes(np.array([7, 8], np.float32).tobytes())
    t[:] = Tensor(other).bitcast(dtypes.float32)
    assert t.tolist() == [7, 8]


def test_reads_asked_for_before_a_write_have_the_old_content(file: pathlib.Path) -> None:
    t = Tensor(file)
    before = t[:3].to("CPU")
    lazy = t[:3].to("CPU").cast(dtypes.int32) + 1
    t[:3] = [9, 9, 9]
    after = t[:3].to("CPU")
    assert (before.tolist(), lazy.tolist(), after.tolist()) == ([0, 1, 2], [1, 2, 3], [9, 9, 9])
    again = t[:3].to("CPU")
    Tensor(file)[:3] = [4, 4, 4]  # through another tensor
    assert (again.tolist(), t[:3].to("CPU").tolist()) == ([9, 9, 9], [4, 4, 4])
    Tensor([6, 6, 6], dtype=dtypes.uint8, device=t.device)
    assert (after.tolist(), t[:3].tolist()) == ([9, 9, 9], [6, 6, 6])


def test_reads_that_nobody_holds_are_never_carried_out(file: pathlib.Path) -> None:
    t = Tensor(file)
    pending = t.to("CPU")
    del pending
    GlobalCounters.reset()
    t[0] = 5
    assert GlobalCounters.device(t.device).bytes_read == 0


def test_what_others_write_is_seen(file: pathlib.Path) -> None:
    t = Tensor(file)
    part = t[:4]
    held = part.to("CPU").realize()
    with open(file, "r+b") as raw:
        raw.write(b"\7\7\7\7")
    assert part.tolist() == t[:4].to("CPU").tolist() == [7, 7, 7, 7]
    assert held.tolist() == [0, 1, 2, 3]


def test_values_that_do_not_fit_are_refused(file: pathlib.Path) -> None:
    t, before = Tensor(file), content(file)
    with pytest.raises(ShapeError, match=r"setitem: a value of shape \(3,\) for \(4,\)"):
        t[0:4] = [1, 2, 3]
    with pytest.raises(DTypeError, match="assign: the file holds uint8 and the value is float32"):
        t[0:4].assign(Tensor([1.0, 2.0, 3.0, 4.0]))
    with pytest.raises(DTypeError, match="256 is outside uint8"):
        t[0] = 256
    with pytest.raises(NotImplementedError, match="cannot be written through"):
        t[0:1].expand(4).assign([1, 2, 3, 4])
    with pytest.raises(IndexError):
        t[1000] = 1
    t[5:5] = []
    np.testing.assert_array_equal(content(file), before)


# ---- files that come into being and grow


def test_empty_makes_and_grows_files_and_never_shrinks_them(tmp_path: pathlib.Path) -> None:
    path = tmp_path / "new"
    t = Tensor.empty(2, 3, dtype=dtypes.int32, device=f"disk:{path}")
    assert t.shape == (2, 3) and path.stat().st_size == 24
    t.assign(np.arange(6, dtype=np.int32).reshape(2, 3))
    grown = Tensor.empty(10, dtype=dtypes.int32, device=f"disk:{path}")
    assert grown.tolist() == [0, 1, 2, 3, 4, 5, 0, 0, 0, 0]
    assert Tensor.empty(1, dtype=dtypes.uint8, device=f"disk:{path}").tolist() == [0]
    assert path.stat().st_size == 40
    assert Tensor.empty(0, device=f"disk:{tmp_path}/none").tolist() == []
    with pytest.raises(FileMissingError, match=r"there is no folder .*/no"):
        Tensor.empty(3, device=f"disk:{tmp_path}/no/x")


def test_tensors_written_to_new_files(tmp_path: pathlib.Path) -> None:
    path = tmp_path / "x"
    moved = (Tensor([1.0, 2.0, 3.0]) * 2).to(f"disk:{path}")
    assert not path.exists()  # lazy
    assert moved.realize() is moved
    assert content(path, np.float32).tolist() == [2, 4, 6]
    assert moved[1:].tolist() == [4, 6] and moved.to("CPU").tolist() == [2, 4, 6]
    Tensor([[1, 2], [3, 4]], dtype=dtypes.int16, device=f"disk:{tmp_path}/now")
    assert content(tmp_path / "now", np.int16).tolist() == [1, 2, 3, 4]
    assert Tensor.full((5000,), 7, dtype=dtypes.int32).to(f"disk:{tmp_path}/c").realize()[4999].item() == 7
    for i, x in enumerate((Tensor.arange(6), Tensor(list(range(6))), Tensor(list(range(6))) * 1)):
        view = x.to(f"disk:{tmp_path}/l{i}").reshape(2, 3).T
        assert view.realize().tolist() == [[0, 3], [1, 4], [2, 5]]
        x.to(f"disk:{tmp_path}/m{i}").reshape(2, 3)[:, 1] = 7
        assert content(tmp_path / f"l{i}", np.int32).tolist() == [0, 1, 2, 3, 4, 5]
        assert content(tmp_path / f"m{i}", np.int32).tolist() == [0, 7, 2, 3, 7, 5]


def test_files_are_not_overwritten_by_what_is_computed_later(file: pathlib.Path) -> None:
    before = content(file)
    t = Tensor(file)
    for other in (t.zeros_like(), t.ones_like(), t.empty_like(), t.full_like(3)):
        assert other.realize().device == Device.DEFAULT and other.shape == t.shape
    for constant in (Tensor.ones(3, device=t.device), Tensor(5, device=t.device), Tensor.ones(3).to(t.device)):
        assert constant.device == t.device
        with pytest.raises(DeviceError, match="add: nothing is computed on DISK"):
            constant + 1
    with pytest.raises(DeviceError, match="cannot be the default\n  it is a file"):
        Device.DEFAULT = t.device
    with Context(DEV=t.device), pytest.raises(DeviceError, match="cannot be the default"):
        Tensor.ones(3).realize()
    np.testing.assert_array_equal(content(file), before)


@pytest.mark.parametrize("source", ["CPU", "CPU:1", "PYTHON", "DISK"])
@pytest.mark.parametrize("target", ["CPU", "CPU:1", "PYTHON", "DISK"])
def test_copies_in_all_directions(tmp_path: pathlib.Path, source: str, target: str) -> None:
    array = np.arange(12, dtype=np.float32).reshape(3, 4)
    names = [f"DISK:{tmp_path}/{end}" if kind == "DISK" else kind for end, kind in (("a", source), ("b", target))]
    x = Tensor(array, device=names[0]).realize()
    GlobalCounters.reset()
    y = x.to(names[1]).realize()
    assert y.device == names[1]
    if names[0] != names[1]:
        assert (GlobalCounters.copy_count, GlobalCounters.kernel_count) == (1, 0)
        assert (GlobalCounters.bytes_read, GlobalCounters.bytes_written) == (48, 48)
    np.testing.assert_array_equal(y.numpy(), array)
    np.testing.assert_array_equal(x.T.to(names[1]).numpy(), array.T)


def test_large_copies_from_file_to_file_go_through_little_memory(tmp_path: pathlib.Path) -> None:
    data = np.random.default_rng(0).integers(0, 256, 40 << 20, np.uint8)
    (tmp_path / "a").write_bytes(data.tobytes())
    used = GlobalCounters.mem_used
    GlobalCounters.reset()
    Tensor(tmp_path / "a").to(f"disk:{tmp_path}/b").realize()
    assert (tmp_path / "b").read_bytes() == data.tobytes()
    assert GlobalCounters.mem_peak == used


# ---- nothing is computed on files


@pytest.mark.parametrize(
    ("name", "wrong"),
    [
        ("add", lambda t: t + 1),
        ("sum", lambda t: t.sum()),
        ("softmax", lambda t: t.softmax()),
        ("cast", lambda t: t.cast(dtypes.int32)),
        ("cat", lambda t: Tensor.cat(t, t)),
        ("where", lambda t: Tensor.where(t.bitcast(dtypes.bool), 1, 0)),
        ("clone", lambda t: t.clone()),
        ("iadd", lambda t: t[0:2].__iadd__(1)),
    ],
)
def test_arithmetic_says_to_move_it_first(file: pathlib.Path, name: str, wrong: Any) -> None:
    with pytest.raises(DeviceError) as caught:
        wrong(Tensor(file))
    assert [caught.value.what, caught.value.details, caught.value.fix] == [
        f"{name}: nothing is computed on DISK:{file}",
        "a tensor in a file can be sliced, reshaped, bitcast, read and assigned to",
        'Move it first: x.to("CPU").',
    ]


def test_realising_a_view_of_a_file_reads_nothing(file: pathlib.Path) -> None:
    GlobalCounters.reset()
    t = Tensor(file).reshape(10, 100)[:, 3]
    assert t.realize() is t and t.contiguous() is t
    x = Tensor([1.0]) + 1
    t.realize(x)
    assert GlobalCounters.device(t.device).bytes_read == 0
    assert x.tolist() == [2]


# ---- what can go wrong


def test_a_missing_file_names_the_nearest(file: pathlib.Path) -> None:
    with pytest.raises(FileNotFoundError) as caught:
        Tensor(file.parent / "data.bni")
    assert isinstance(caught.value, FileMissingError)
    assert caught.value.errno == errno.ENOENT and caught.value.filename == str(file.parent / "data.bni")
    assert [caught.value.what, caught.value.details, caught.value.fix] == [
        f"file: {file.parent}/data.bni cannot be opened",
        f'{file.parent} has no data.bni. Did you mean "Data.bin"?',
        "Check the path.",
    ]


def test_folders_and_files_without_a_size_are_refused(tmp_path: pathlib.Path) -> None:
    with pytest.raises(
        FileError, match=r"is no regular file\n  it is a folder\n  in Tensor, called at .*\n  Name a file in it"
    ):
        Tensor(tmp_path)
    with pytest.raises(FileError, match="does not say how long it is"):
        Tensor(pathlib.Path("/proc/self/maps"))
    (tmp_path / "empty").touch()
    assert Tensor(tmp_path / "empty").shape == (0,)


def test_a_file_cut_off_later_is_an_error_not_a_crash(file: pathlib.Path) -> None:
    t = Tensor(file)
    os.truncate(file, 100)
    assert t[:100].numpy().tolist() == list(range(100))
    with pytest.raises(FileError) as caught:
        t[90:110].numpy()
    assert [caught.value.what, caught.value.details, caught.value.fix] == [
        f"file: {file} ends at byte 100",
        "bytes 90 to 110 were asked for",
        "It was cut off after the tensor was made. Build the tensor again.",
    ]


def test_a_deleted_or_replaced_file_stays_readable(file: pathlib.Path) -> None:
    t = Tensor(file)
    new = file.with_name("new")
    new.write_bytes(bytes(1000))
    os.replace(new, file)
    assert t[:3].tolist() == [0, 1, 2]
    assert Tensor(file)[:3].tolist() == [0, 0, 0]
    with pytest.raises(FileError, match="is another file now"):
        t[0] = 1
    os.remove(file)
    assert t[:3].tolist() == [0, 1, 2]


def test_read_only_files_are_read_and_not_written(file: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As for anybody but root."""
    system_open = os.open

    def refuse(path: Any, flags: int, *rest: Any, **more: Any) -> int:
        if flags & os.O_RDWR:
            raise PermissionError(errno.EACCES, "Permission denied")
        return system_open(path, flags, *rest, **more)

    monkeypatch.setattr(os, "open", refuse)
    t = Tensor(file)
    assert t[:2].tolist() == [0, 1]
    assert Tensor.empty(10, dtype=dtypes.uint8, device=f"disk:{file}")[:2].tolist() == [0, 1]
    with pytest.raises(PermissionError) as caught:
        t[0] = 9
    assert isinstance(caught.value, FileReadOnlyError)
    assert [caught.value.what, caught.value.details, caught.value.fix] == [
        f"file: {file} cannot be written",
        "Permission denied",
        "Change who may write it, or copy it.",
    ]
    assert content(file)[0] == 0


def test_a_full_disk_loses_nothing(file: pathlib.Path) -> None:
    before = content(file)
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (2000, hard))
    try:
        with pytest.raises(FileError) as caught:
            Tensor(np.zeros(3000, np.uint8)).to(f"disk:{file}").realize()
        assert caught.value.errno == errno.EFBIG
        assert "made longer" in str(caught.value) and "it has 1000 bytes and needs 3000" in str(caught.value)
        assert "Make room on the disk" in str(caught.value)
        with pytest.raises(FileError, match="needs 3000"):
            Tensor.empty(3000, dtype=dtypes.uint8, device=f"disk:{file}")
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    np.testing.assert_array_equal(content(file), before)


def test_blocks_are_reserved_before_a_byte_is_written(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "sparse"
    path.write_bytes(b"old!")
    t = Tensor.empty(1 << 20, dtype=dtypes.uint8, device=f"disk:{path}")

    def full(*_: Any) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "posix_fallocate", full)
    with pytest.raises(FileError, match=r"No space left on device\n.*the file is as it was\n.*\n  Make room"):
        t.assign(Tensor.zeros(1 << 20, dtype=dtypes.uint8))
    assert path.read_bytes()[:4] == b"old!" and path.stat().st_size == 1 << 20
    monkeypatch.setattr(os, "posix_fallocate", lambda *_: None)
    monkeypatch.setattr(os, "pwrite", full)
    with pytest.raises(FileError, match="bytes 0 to 0 of 0 to 4 are written"):
        t[:4] = 1


def test_too_many_open_files(file: pathlib.Path, tmp_path: pathlib.Path) -> None:
    held = [Tensor(file) for _ in range(50)]  # one file is open once
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    used = len(os.listdir("/proc/self/fd"))
    paths = [tmp_path / f"f{i}" for i in range(20)]
    for path in paths:
        path.write_bytes(b"x")
    resource.setrlimit(resource.RLIMIT_NOFILE, (used + 8, hard))
    try:
        with pytest.raises(FileError, match="Too many files are open at once"):
            held += [Tensor(path) for path in paths]
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    del held


# ---- several processes


def _write_slice(path: str, start: int, value: int) -> None:
    t = Tensor(pathlib.Path(path))
    for i in range(100):
        t[start + i] = value


def test_several_processes_write_one_file(tmp_path: pathlib.Path) -> None:
    path = tmp_path / "shared"
    t = Tensor.empty(400, dtype=dtypes.uint8, device=f"disk:{path}")
    context = multiprocessing.get_context("fork")
    processes = [context.Process(target=_write_slice, args=(str(path), 100 * i, i + 1)) for i in range(4)]
    for process in processes:
        process.start()
    for process in processes:
        process.join()
    assert [process.exitcode for process in processes] == [0] * 4
    assert t.tolist() == [1 + i // 100 for i in range(400)]


def test_a_program_reads_files_without_numpy(file: pathlib.Path) -> None:
    program = (
        "import sys, pathlib; from whit import Tensor, dtypes\n"
        f"t = Tensor(pathlib.Path({str(file)!r}))\n"
        "t[0:2] = [9, 8]; print(t[:4].tolist(), t[4:8].bitcast(dtypes.int32).item(), 'numpy' in sys.modules)"
    )
    found = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True).stdout
    assert found == "[9, 8, 2, 3] 117835012 False\n"
