"""Memory shared with others (DLPack, the buffer protocol, NumPy): who owns it, who may write it, for how long."""

from __future__ import annotations

import array
import ctypes
import gc
import mmap
import pathlib
import subprocess
import sys
import threading
from typing import Any

import numpy as np
import pytest

from whit import Tensor, TinyJit, dtypes
from whit.dtype import DType
from whit.engine.memory.storage import storage
from whit.engine.report.counters import GlobalCounters
from whit.errors import ArgumentError, DTypeError, NotSupportedError
from whit.ir.interpret import numpy_dtype
from whit.runtime import dlpack
from whit.runtime.buffer import usage

pytestmark = [pytest.mark.slow, pytest.mark.cpu]  # many; test_cuda_exchange.py has those of GPUs

PLAIN = [dtype for dtype in dtypes.scalars if dtype.name not in ("bfloat16", *(d.name for d in dtypes.fp8s))]


def address(tensor: Tensor) -> int:
    return storage(tensor.realize().uop).address


def torch() -> Any:
    return pytest.importorskip("torch")


class Producer:
    """An array that counts how often its deleter is called."""

    def __init__(
        self, data: Any, shape: tuple[int, ...], strides: tuple[int, ...] | None = None, **fields: Any
    ) -> None:
        self.data = data
        self.deleted = 0
        self.deleter = ctypes.CFUNCTYPE(None, ctypes.c_void_p)(self.delete)
        self.shape = (ctypes.c_int64 * max(len(shape), 1))(*shape)
        self.strides = (ctypes.c_int64 * max(len(shape), 1))(*strides) if strides is not None else None
        self.record = dlpack.ManagedVersioned(major=fields.pop("major", 1), minor=0)
        self.record.deleter = ctypes.cast(self.deleter, ctypes.c_void_p).value
        inner = self.record.array
        inner.data, inner.ndim, inner.shape = data.ctypes.data, len(shape), self.shape
        if self.strides is not None:
            inner.strides = self.strides
        for name, value in {"device": 1, "code": 2, "bits": 32, "lanes": 1, **fields}.items():
            setattr(inner, name, value)

    def delete(self, place: int) -> None:
        assert place == ctypes.addressof(self.record)
        self.deleted += 1

    def __dlpack__(self, **_: Any) -> Any:
        return dlpack._capsule_new(ctypes.addressof(self.record), ctypes.addressof(dlpack.VERSIONED), None)


# ---- DLPack out


@pytest.mark.parametrize("dtype", PLAIN, ids=lambda dtype: dtype.name)
@pytest.mark.parametrize("shape", [(), (1,), (0, 3), (5,), (2, 3, 4)], ids=str)
def test_numpy_takes_tensors(dtype: DType, shape: tuple[int, ...]) -> None:
    expected = np.arange(np.prod(shape)).reshape(shape).astype(numpy_dtype(dtype))
    x = Tensor(expected.copy())
    found = np.from_dlpack(x)
    assert found.dtype == expected.dtype and found.shape == shape
    np.testing.assert_array_equal(found, expected)
    if found.size:
        assert not found.flags.writeable
        assert found.ctypes.data == address(x)


@pytest.mark.parametrize("dtype", dtypes.scalars, ids=lambda dtype: dtype.name)
def test_torch_takes_tensors_of_every_dtype(dtype: DType) -> None:
    x = Tensor(np.arange(6).reshape(2, 3).astype(numpy_dtype(dtype))).realize()
    found = torch().from_dlpack(x)
    assert str(found.dtype).removeprefix("torch.") == {
        "fp8e4m3": "float8_e4m3fn",
        "fp8e5m2": "float8_e5m2",
        "fp8e4m3fnuz": "float8_e4m3fnuz",
        "fp8e5m2fnuz": "float8_e5m2fnuz",
    }.get(dtype.name, dtype.name)
    assert found.data_ptr() == address(x)
    assert found.float().tolist() == x.cast(dtypes.float32).tolist()
    again = Tensor(found, copy=False)
    assert again.dtype is dtype and address(again) == address(x)


def test_lazy_tensors_are_computed_first() -> None:
    x = Tensor([1.0, 2.0]) + 1
    assert np.from_dlpack(x).tolist() == [2, 3]
    assert np.from_dlpack(Tensor.ones(2, 2)).tolist() == [[1, 1], [1, 1]]
    assert np.from_dlpack(Tensor([[1, 2], [3, 4]]).T).tolist() == [[1, 3], [2, 4]]
    assert np.from_dlpack(Tensor([1.5], device="PYTHON") + 1).tolist() == [2.5]


def test_copies_are_the_consumers_own() -> None:
    x = Tensor([1.0, 2.0]).realize()
    found = np.from_dlpack(x, copy=True)
    assert found.flags.writeable and found.ctypes.data != address(x)
    found[0] = 9
    assert x.tolist() == [1, 2]


def test_plain_capsules_for_old_consumers() -> None:
    x = Tensor([1, 2, 3], dtype=dtypes.int32).realize()

    class Old:
        def __dlpack__(self) -> Any:
            return x.__dlpack__()

        def __dlpack_device__(self) -> tuple[int, int]:
            return x.__dlpack_device__()

    assert "dltensor" in repr(x.__dlpack__()) and "versioned" not in repr(x.__dlpack__())
    assert '"dltensor_versioned"' in repr(x.__dlpack__(max_version=(1, 2)))
    assert '"dltensor"' in repr(x.__dlpack__(max_version=(0, 8)))
    assert Tensor.from_dlpack(Old()).tolist() == [1, 2, 3]
    assert Tensor.from_dlpack(x.__dlpack__()).tolist() == [1, 2, 3]


def test_what_cannot_be_shared(tmp_path: pathlib.Path) -> None:
    (tmp_path / "x").write_bytes(b"abc")
    with pytest.raises(BufferError, match=r"__dlpack__: DISK:.* has no memory to share"):
        np.from_dlpack(Tensor(tmp_path / "x"))
    with pytest.raises(BufferError, match="NULL has no memory"):
        Tensor([1], device="NULL").__dlpack__()
    with pytest.raises(BufferError, match=r"\(2, 0\) is not the host"):
        Tensor([1]).__dlpack__(dl_device=(2, 0))
    with pytest.raises(ArgumentError, match="the host has no streams"):
        Tensor([1]).__dlpack__(stream=3)
    assert Tensor([1]).__dlpack_device__() == (1, 0)


# ---- lifetimes


def test_memory_lives_until_the_consumer_lets_go() -> None:
    before, count = usage("CPU:5").now, dlpack.exported()
    x = Tensor([1.0] * 100, device="CPU:5").realize()
    found = np.from_dlpack(x)
    part = found[50:]
    del x, found
    gc.collect()
    assert usage("CPU:5").now - before == 400
    assert part.tolist() == [1.0] * 50
    del part
    assert dlpack.exported() == count
    assert usage("CPU:5").now == before


def test_memory_is_freed_without_anybody_asking() -> None:
    before = usage("CPU:5").now
    found = [np.from_dlpack(Tensor([1.0] * 100, device="CPU:5")) for _ in range(100)]  # more than Python's queue holds
    assert usage("CPU:5").now - before == 40_000
    found.clear()
    for _ in range(3):  # Python looks at the queue between instructions
        gc.collect()
    assert usage("CPU:5").now == before


def test_a_capsule_that_nobody_takes_frees_its_memory() -> None:
    count, before = dlpack.exported(), usage("CPU:5").now
    x = Tensor([1.0, 2.0], device="CPU:5")
    capsule = x.__dlpack__()
    assert dlpack.exported() == count + 1
    del capsule, x
    assert dlpack.exported() == count
    assert usage("CPU:5").now == before


def test_an_exception_on_its_way_survives_the_deleter() -> None:
    count = dlpack.exported()
    with pytest.raises(TypeError, match="not 'PyCapsule'"):
        int(Tensor([1.0]).__dlpack__())
    with pytest.raises(ValueError, match="cannot reshape"):
        np.from_dlpack(Tensor([1.0])).reshape(7)
    if "torch" in sys.modules:
        with pytest.raises(RuntimeError, match="is invalid for input of size 1"):
            torch().from_dlpack(Tensor([1.0])).reshape(7)
    assert dlpack.exported() == count


def test_consumers_in_other_threads() -> None:
    count = dlpack.exported()
    x = Tensor([1.0, 2.0]).realize()

    def work() -> None:
        for _ in range(50):
            results.append(float(np.from_dlpack(x).sum()))

    results: list[float] = []
    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert results == [3.0] * 200
    assert dlpack.exported() == count


@pytest.mark.parametrize("consumer", ["numpy", "torch"])
def test_consumers_may_outlive_python(consumer: str, tmp_path: pathlib.Path) -> None:
    pytest.importorskip(consumer)
    program = f"""
import atexit, sys
import {consumer} as library
from whit import Tensor
x = Tensor([1.0, 2.0, 3.0]) * 2
held = library.from_dlpack(x)
sys.modules["kept"] = held              # dies late
capsule = x.__dlpack__()
class Late:
    def __del__(self): self.array = None
late = Late(); late.array = library.from_dlpack(x); late.me = late
atexit.register(lambda: library.from_dlpack(x))
other = Tensor(library.ones(3)); sys.modules["kept too"] = other
print(held.tolist())
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert (done.returncode, done.stdout, done.stderr) == (0, "[2.0, 4.0, 6.0]\n", "")


# ---- DLPack in


def test_torch_tensors_come_in() -> None:
    t = torch()
    y = t.arange(6, dtype=t.float32).reshape(2, 3)
    x = Tensor(y, copy=False)
    assert address(x) == y.data_ptr() and x.tolist() == [[0, 1, 2], [3, 4, 5]]
    assert address(Tensor.from_dlpack(y)) == y.data_ptr()
    assert address(Tensor(y, device="CPU:1", copy=False)) == y.data_ptr() != address(Tensor(y))
    y[0, 0] = 7
    assert x.tolist()[0][0] == 7  # it is the same memory
    bf16 = t.tensor([1.5, -2.0], dtype=t.bfloat16)
    assert Tensor(bf16).dtype is dtypes.bfloat16 and Tensor(bf16).tolist() == [1.5, -2]
    assert Tensor(y.T).tolist() == y.T.tolist()
    assert Tensor(y[:, 1:]).tolist() == y[:, 1:].tolist()
    assert Tensor(t.tensor(3)).shape == ()
    assert Tensor(t.zeros(0, 3)).shape == (0, 3)
    assert Tensor(t.tensor([True, False])).tolist() == [True, False]
    assert (Tensor(y) + 1).tolist() == (y + 1).tolist()
    assert Tensor(y, dtype=dtypes.int32).tolist() == y.int().tolist()


def test_torch_tensors_that_cannot_come_in() -> None:
    t = torch()
    with pytest.raises(ArgumentError, match=r"the Parameter cannot be shared\n(.|\n)*detach it first"):
        Tensor(t.nn.Parameter(t.ones(2)))
    with pytest.raises(DTypeError, match="there is no dtype for elements of code 5 with 32 bits"):
        Tensor(t.ones(2, dtype=t.complex32))
    assert Tensor(t.ones(2, dtype=t.complex64)).tolist() == [1, 1]


def test_the_producers_deleter_is_called_once() -> None:
    producer = Producer(np.array([[1, 2, 3], [4, 5, 6]], np.float32), (2, 3))
    x = Tensor(producer, copy=False)
    assert address(x) == producer.data.ctypes.data
    y = x[1:].realize()
    del x
    gc.collect()
    assert producer.deleted == 0 and y.tolist() == [[4, 5, 6]]
    del y
    gc.collect()
    assert producer.deleted == 1


def test_arrays_with_gaps_and_offsets_are_copied() -> None:
    data = np.arange(24, dtype=np.float32)
    producer = Producer(data, (2, 3), (-12, 2))
    producer.record.array.offset = 13 * 4
    x = Tensor.from_dlpack(producer)
    assert x.tolist() == [[13, 15, 17], [1, 3, 5]]
    assert producer.deleted == 1  # nothing of it is needed any more
    assert Tensor.from_dlpack(Producer(data, (3, 1, 2), (2, 77, 1))).tolist() == [[[0, 1]], [[2, 3]], [[4, 5]]]
    odd = Producer(data, (2,), offset=2)
    assert Tensor.from_dlpack(odd).numpy().tobytes() == data.tobytes()[2:10] and odd.deleted == 1


@pytest.mark.parametrize(
    ("fields", "error", "words"),
    [
        ({"major": 2}, NotSupportedError, "in version 2.0 of DLPack"),
        ({"device": 10}, NotSupportedError, "the array is on ROCm"),
        ({"device": 99}, NotSupportedError, "a device of kind 99"),
        ({"lanes": 4}, NotSupportedError, "elements of 4 lanes"),
        ({"code": 5, "bits": 32}, DTypeError, "no dtype for elements of code 5 with 32 bits"),
        ({"code": 0, "bits": 4}, DTypeError, "elements of code 0 with 4 bits"),
    ],
)
def test_arrays_that_are_refused_are_given_back(fields: dict[str, Any], error: type[Exception], words: str) -> None:
    producer = Producer(np.zeros(4, np.float32), (2,), **fields)
    with pytest.raises(error, match=words):
        Tensor.from_dlpack(producer)
    assert producer.deleted == 1


def test_a_capsule_is_used_once() -> None:
    capsule = Tensor([1.0, 2.0]).__dlpack__(max_version=(1, 0))
    assert Tensor.from_dlpack(capsule).tolist() == [1, 2]
    with pytest.raises(ArgumentError, match="this is no capsule with an array"):
        Tensor.from_dlpack(capsule)
    with pytest.raises(ArgumentError, match="a list has no __dlpack__"):
        Tensor.from_dlpack([1, 2])


# ---- writes and shared memory


def written(x: Tensor) -> Tensor:
    """x with its first element replaced by the engine, in place where it may."""
    from whit.engine.realize.realize import realize

    old = x.uop
    x.uop = old.after(old.shrink(((0, 1),)).store(Tensor([9], dtype=x.dtype).realize().uop))
    del old
    (x.uop,) = realize([x.uop])
    return x


def test_what_went_out_does_not_change() -> None:
    for view in (np.from_dlpack, np.asarray, lambda x: x.data()):
        x = Tensor([1, 2, 3], dtype=dtypes.int32).clone().realize()
        shown = view(x)
        assert written(x).tolist() == [9, 2, 3]
        assert shown.tolist() == [1, 2, 3]
        place = address(x)
        assert written(x).tolist() == [9, 2, 3] and address(x) == place  # nobody looks at the new memory: in place


def _sources() -> dict[str, tuple[Any, Any]]:
    """Objects that can be written to, each with what writes a number into it."""
    base = np.zeros(2, np.float32)
    read_only = base[:]
    read_only.flags.writeable = False
    raw, grown, ints = np.zeros(1, np.float32), bytearray(4), array.array("f", [0])
    strided, big, owner = np.zeros((2, 2), np.float32), np.zeros(1, ">f4"), np.zeros(1, np.float32)
    numbers = (ctypes.c_float * 1)()
    return {
        "array": (raw, lambda k: raw.fill(k)),
        "read-only view": (read_only, lambda k: base.fill(k)),
        "view of a view": (strided[0], lambda k: strided.fill(k)),
        "transposed": (strided.T, lambda k: strided.fill(k)),
        "big-endian": (big, lambda k: big.fill(k)),
        "memoryview": (memoryview(raw), lambda k: raw.fill(k)),  # type: ignore[arg-type]
        "read-only memoryview": (memoryview(raw).toreadonly(), lambda k: raw.fill(k)),  # type: ignore[arg-type]
        "bytearray": (grown, lambda k: grown.__setitem__(slice(0, 4), np.float32(k).tobytes())),
        "array.array": (ints, lambda k: ints.__setitem__(0, k)),
        "ctypes": (numbers, lambda k: numbers.__setitem__(0, k)),
        "0 axes": (raw.reshape(()), lambda k: raw.fill(k)),
        "__array__": (type("Own", (), {"__array__": lambda self, *_, **__: owner})(), lambda k: owner.fill(k)),
    }


SOURCES = _sources()


@pytest.mark.parametrize("name", SOURCES)
def test_what_is_written_later_is_not_seen(name: str) -> None:
    source, write = SOURCES[name]
    results = []
    for k in range(3):
        write(k)
        results.append(Tensor(source, dtype=dtypes.float32) * 2)
    assert [np.unique(y.numpy()).tolist() for y in results] == [[0], [2], [4]]


@pytest.mark.parametrize("name", [name for name in SOURCES if name not in ("big-endian", "transposed")])
def test_sharing_is_asked_for_by_name(name: str) -> None:
    source, write = SOURCES[name]
    write(1)
    x = Tensor(source, dtype=dtypes.float32, copy=False)
    write(5)
    assert np.unique(x.numpy()).tolist() == [5]


def test_tensors_of_pytorch_that_are_written_later() -> None:
    theirs, results = torch().zeros(1, 2), []
    for k in range(3):
        theirs.fill_(k)
        results.append(
            (Tensor(theirs) * 2, Tensor(theirs.T) * 2, Tensor(theirs[0], copy=False), Tensor.from_dlpack(theirs))
        )
    assert [[y.tolist() for y in row] for row in results] == [
        [[[2 * k, 2 * k]], [[2 * k], [2 * k]], [2, 2], [[2, 2]]] for k in range(3)
    ]


def test_what_nobody_can_write_is_shared(tmp_path: pathlib.Path) -> None:
    raw = np.arange(4, dtype=np.float32).tobytes()
    place = np.frombuffer(raw, np.uint8).ctypes.data
    assert address(Tensor(raw)) == address(Tensor(np.frombuffer(raw, np.float32))) == place
    assert address(Tensor(np.frombuffer(raw, np.float32)[1:])) == place + 4
    assert address(Tensor(memoryview(raw).cast("f"))) == place
    np.save(tmp_path / "x.npy", np.arange(4, dtype=np.float32))
    mapped = np.load(tmp_path / "x.npy", mmap_mode="r")
    assert address(Tensor(mapped)) == mapped.ctypes.data
    own = np.arange(4, dtype=np.float32)
    own.flags.writeable = False  # its owner can take that back
    assert address(Tensor(own)) != own.ctypes.data


def test_an_array_is_copied_once() -> None:
    for source in (np.zeros(1000, np.float32), np.zeros((10, 10), np.float32).T, np.zeros(1000, ">f4")):
        GlobalCounters.reset()
        x = Tensor(source)
        assert storage(x.uop).writable and GlobalCounters.kernel_count == 0


def test_what_went_out_does_not_change_in_replays() -> None:
    x = Tensor(np.zeros(2, np.float32))
    step = TinyJit(lambda: x.assign(x + 1))
    shown, own, view = np.asarray(x), x.numpy(), x.data()
    for _ in range(3):
        step()
    x += 1
    assert x.tolist() == [4, 4]
    assert shown.tolist() == own.tolist() == view.tolist() == [0, 0]


def test_what_came_in_is_not_written() -> None:
    for source in (
        np.array([1, 2, 3], np.int32),
        bytearray(np.array([1, 2, 3], np.int32).tobytes()),
        array.array("i", [1, 2, 3]),
        memoryview(bytearray(12)).cast("i"),
    ):
        x = Tensor(source, dtype=dtypes.int32)
        before = bytes(source)
        assert written(x).tolist()[0] == 9
        assert bytes(source) == before
    if "torch" in sys.modules:
        y = torch().tensor([1, 2, 3], dtype=torch().int32)
        assert written(Tensor(y)).tolist() == [9, 2, 3] and y.tolist() == [1, 2, 3]


# ---- the buffer protocol


@pytest.mark.parametrize("code", "bBhHiIlLqQfd")
def test_arrays_of_the_array_module(code: str) -> None:
    source = array.array(code, [1, 2, 3])
    x = Tensor(source, copy=False)
    assert x.dtype.itemsize == source.itemsize and x.dtype.is_float == (code in "fd")
    assert x.dtype.is_unsigned == code.isupper()
    assert x.tolist() == [1, 2, 3]
    assert address(x) == source.buffer_info()[0]


def test_memory_of_python_objects_is_used_as_it_is(tmp_path: pathlib.Path) -> None:
    raw = bytearray(b"abcdefgh")
    x = Tensor(raw, copy=False)
    assert x.dtype is dtypes.uint8 and x.tolist() == list(b"abcdefgh")
    raw[0] = 0
    assert x.tolist()[0] == 0
    assert Tensor(raw, dtype=dtypes.int32).tolist() == np.frombuffer(raw, np.int32).tolist()
    text = b"abcd" * 3
    assert bytes(ctypes.string_at(address(Tensor(text)), 12)) == text
    grid = memoryview(bytearray(range(12))).cast("B", (3, 4))
    assert Tensor(grid).shape == (3, 4) and Tensor(grid, dtype=dtypes.float32).tolist()[2] == [8, 9, 10, 11]
    assert Tensor(memoryview(b"abcdef")[::2]).tolist() == [97, 99, 101]
    assert Tensor(memoryview(b"abcdef")[1:5].cast("H")).tolist() == np.frombuffer(b"bcde", np.uint16).tolist()
    assert Tensor(memoryview(b"")).shape == (0,)
    assert Tensor((ctypes.c_float * 3)(1, 2, 3)).tolist() == [1, 2, 3]
    path = tmp_path / "x"
    path.write_bytes(np.arange(4, dtype=np.float64).tobytes())
    with open(path, "rb") as file:
        mapped = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
        x = Tensor(mapped, dtype=dtypes.float64)
        assert x.tolist() == [0, 1, 2, 3]
        with pytest.raises(BufferError):
            mapped.close()  # it is in use
        del x
        mapped.close()


# ---- NumPy


@pytest.mark.parametrize("dtype", dtypes.scalars, ids=lambda dtype: dtype.name)
def test_numpy_arrays_go_both_ways(dtype: DType) -> None:
    source = np.arange(6).reshape(2, 3).astype(numpy_dtype(dtype))
    x = Tensor(source, copy=False)
    assert x.dtype is dtype and address(x) == source.ctypes.data
    own = x.numpy()
    assert own.dtype == source.dtype and own.tobytes() == source.tobytes()
    assert own.flags.writeable and own.flags.owndata and own.ctypes.data != source.ctypes.data
    shared = np.asarray(x)
    assert shared.ctypes.data == source.ctypes.data and not shared.flags.writeable
    if dtype.fmt is not None and dtype.fmt != "e":
        view = x.data()
        assert (view.shape, view.format, view.readonly) == ((2, 3), dtype.fmt, True)
        assert view.tolist() == source.tolist()
    else:
        assert bytes(x.data()) == source.tobytes()


def test_asarray_converts_and_copies_as_numpy_asks() -> None:
    x = Tensor([1.0, 2.0]).realize()
    assert np.asarray(x, np.int64).tolist() == [1, 2]
    assert np.array(x).flags.writeable and np.array(x).ctypes.data != address(x)
    assert np.asarray(x, copy=False).ctypes.data == address(x)
    with pytest.raises(ValueError, match="needs a copy"):
        np.asarray(x, np.int64, copy=False)
    assert np.asarray(Tensor(3)).shape == () and float(np.asarray(Tensor(3.5))) == 3.5
    assert (np.asarray(Tensor.arange(4).reshape(2, 2).T) == [[0, 2], [1, 3]]).all()


def test_shared_arrays_keep_memory_alive() -> None:
    before = usage("CPU:5").now
    x = Tensor([1.0] * 10, device="CPU:5").realize()
    array_, view = np.asarray(x), x.data()
    del x
    assert usage("CPU:5").now - before == 40
    assert array_.tolist() == view.tolist() == [1.0] * 10
    del array_, view
    assert usage("CPU:5").now == before
