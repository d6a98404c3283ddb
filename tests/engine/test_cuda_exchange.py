"""Memory of GPUs shared with other libraries by DLPack: nothing is copied, and whose work waits for whose.

Most of it is tested on a GPU of Python; PyTorch is asked where there is a GPU.
"""

from __future__ import annotations

import ctypes
import gc
from collections.abc import Iterator
from functools import partial
from typing import Any

import numpy as np
import pytest
from gpus import needs_gpu
from tensor.test_interop import Producer, address

from engine.fake_gpu import LEGACY, FakeLibrary, fake_gpu
from whit import Context, Device, Tensor, dtypes
from whit.errors import ArgumentError, DeviceError
from whit.runtime import dlpack
from whit.runtime.buffer import usage

pytestmark = pytest.mark.slow


@pytest.fixture(params=range(2))
def gpu(request: Any, monkeypatch: pytest.MonkeyPatch) -> Iterator[FakeLibrary]:
    with fake_gpu(monkeypatch, request.param, gpus=2) as library:
        yield library


def new_stream(gpu: FakeLibrary) -> int:
    return Device["CUDA"].gpu.number("cuStreamCreate", ctypes.c_void_p, 1)  # type: ignore[attr-defined]


def seen(gpu: FakeLibrary, stream: int, taken: dlpack.Taken) -> list[float]:
    """The float32 elements that work on a stream will see, once it is done."""
    found: list[float] = []
    count = int(np.prod(taken.shape))
    floats = (ctypes.c_float * count).from_address(taken.address)
    gpu.submit(stream, lambda: found.extend(floats))
    return found


_kept: list[Any] = []  # as a library keeps its arrays until their deleters are called


class GpuProducer(Producer):
    """An array on a GPU, computed on the default stream when somebody waits for it."""

    def __init__(self, gpu: FakeLibrary, data: np.ndarray[Any, Any], *arguments: Any, ordinal: int = 0) -> None:
        out = ctypes.c_uint64()
        gpu._cuMemAlloc_v2(ctypes.byref(out), data.nbytes)
        memory = np.frombuffer((ctypes.c_char * data.nbytes).from_address(out.value), data.dtype)
        super().__init__(memory, *(arguments or (data.shape,)), device=2, device_id=ordinal)
        self.gpu, self.ordinal = gpu, ordinal
        _kept.append(self)
        self.streams: list[int] = []
        gpu.submit(LEGACY, lambda: np.copyto(memory, data.reshape(-1)))

    def __dlpack__(self, *, stream: int, **_: Any) -> Any:  # type: ignore[override]
        event = Device["CUDA"].gpu.number("cuEventCreate", ctypes.c_void_p, 2)  # type: ignore[attr-defined]
        self.gpu.cuEventRecord(event, LEGACY)
        self.gpu.cuStreamWaitEvent(stream, event, 0)
        self.streams.append(stream)
        return super().__dlpack__()

    def __dlpack_device__(self) -> tuple[int, int]:
        return 2, self.ordinal


@pytest.mark.parametrize("is_copy", [False, True])
def test_their_work_waits_for_ours(gpu: FakeLibrary, is_copy: bool) -> None:
    x = Tensor([1.0, 2.0], device="CUDA").realize()
    for stream, asked in ((LEGACY, None), (LEGACY, LEGACY), (other := new_stream(gpu), other)):
        y = (x + 1).realize()
        taken = dlpack.take(y.__dlpack__(stream=asked, max_version=(1, 0), copy=is_copy))
        assert (taken.address == address(y)) is not is_copy and taken.gpu == 0
        found = seen(gpu, stream, taken)
        gpu._cuStreamSynchronize(stream)
        assert found == [2.0, 3.0]
    assert y.__dlpack_device__() == (2, 0)
    assert Tensor([1.0], device="CUDA:1").__dlpack_device__() == (2, 1)


def test_what_takes_the_memory_next_waits_for_them(gpu: FakeLibrary) -> None:
    for stream in (LEGACY, new_stream(gpu)):
        gc.collect()  # what other tests have left
        used = usage("CUDA").now
        x = Tensor([1.0, 2.0], device="CUDA").realize()
        taken = dlpack.take(x.__dlpack__(stream=stream))
        found, place = seen(gpu, stream, taken), address(x)
        del x
        gc.collect()
        assert usage("CUDA").now > used
        del taken
        assert dlpack.exported() == 0 and usage("CUDA").now == used
        y = Tensor([5.0, 6.0], device="CUDA").realize()
        assert address(y) == place
        Device["CUDA"].synchronize()
        assert found == [1.0, 2.0]


def test_who_asks_for_no_order_gets_none(gpu: FakeLibrary) -> None:
    x = Tensor([1.0, 2.0], device="CUDA").realize()
    before = len(gpu.calls)
    kept = x.__dlpack__(stream=-1)
    assert "cuStreamWaitEvent" not in gpu.calls[before:]
    del kept
    for stream in (0, -2, True, "x"):
        with pytest.raises(ArgumentError, match="no stream of CUDA"):
            x.__dlpack__(stream=stream)
    with pytest.raises(BufferError, match=r"\(2, 1\) is not where it is, \(2, 0\)"):
        x.__dlpack__(dl_device=(2, 1))
    with pytest.raises(BufferError, match=r"\(1, 0\) is not where it is"):
        x.__dlpack__(dl_device=(1, 0), copy=False)


def test_the_host_gets_a_copy(gpu: FakeLibrary) -> None:
    x = Tensor([[1.0, 2.0], [3.0, 4.0]], device="CUDA")
    assert np.from_dlpack(x, device="cpu").tolist() == [[1, 2], [3, 4]]


def test_what_went_out_is_not_written(gpu: FakeLibrary) -> None:
    x = Tensor([1.0, 2.0], device="CUDA").realize()
    taken = dlpack.take(x.__dlpack__())
    x.assign(x + 1).realize()
    found = seen(gpu, LEGACY, taken)
    gpu._cuStreamSynchronize(LEGACY)
    assert found == [1.0, 2.0] and x.tolist() == [2.0, 3.0]


def test_our_work_waits_for_theirs(gpu: FakeLibrary) -> None:
    for make in (Tensor.from_dlpack, partial(Tensor, copy=False)):
        producer = GpuProducer(gpu, np.arange(6, dtype=np.float32).reshape(2, 3))
        x = make(producer)
        assert (x.device, address(x)) == ("CUDA", producer.data.ctypes.data)
        assert producer.streams == [Device["CUDA"].gpu.stream]  # type: ignore[attr-defined]
        assert (x + 1).tolist() == [[1, 2, 3], [4, 5, 6]]
    there = Tensor.from_dlpack(GpuProducer(gpu, np.ones(3, np.float32), ordinal=1))
    assert there.device == "CUDA:1" and (there + 1).tolist() == [2, 2, 2]


def test_capsules_wait_for_the_default_stream(gpu: FakeLibrary) -> None:
    producer = GpuProducer(gpu, np.arange(3, dtype=np.float32))
    assert (Tensor.from_dlpack(Producer.__dlpack__(producer)) + 1).tolist() == [1, 2, 3]


def test_arrays_of_gpus_with_gaps_or_for_other_devices_are_copied(gpu: FakeLibrary) -> None:
    data = np.arange(24, dtype=np.float32)
    turned = Tensor.from_dlpack(GpuProducer(gpu, data, (3, 2), (1, 3)))
    assert turned.device == "CUDA" and turned.tolist() == [[0, 3], [1, 4], [2, 5]]
    back = GpuProducer(gpu, data, (2, 3), (-12, 2))
    back.record.array.offset = 13 * 4
    assert Tensor.from_dlpack(back).tolist() == [[13, 15, 17], [1, 3, 5]]
    host = Tensor.from_dlpack(GpuProducer(gpu, data), device="CPU")
    assert host.device == "CPU" and host.tolist() == data.tolist()
    other = Tensor.from_dlpack(GpuProducer(gpu, data), device="CUDA:1")
    assert other.device == "CUDA:1" and other.tolist() == data.tolist()
    assert Tensor.from_dlpack(GpuProducer(gpu, data, (0, 3))).shape == (0, 3)


def test_they_get_their_memory_back_when_our_work_is_done(gpu: FakeLibrary) -> None:
    producer = GpuProducer(gpu, np.arange(3, dtype=np.float32))
    x = Tensor.from_dlpack(producer)
    y = (x + 1).realize()
    del x
    gc.collect()
    assert producer.deleted == 0  # the kernel has not run
    Device["CUDA"].synchronize()
    assert producer.deleted == 1 and y.tolist() == [1, 2, 3]


def test_what_came_in_is_not_written(gpu: FakeLibrary) -> None:
    producer = GpuProducer(gpu, np.arange(3, dtype=np.float32))
    x = Tensor.from_dlpack(producer)
    x.assign(x + 1).realize()
    assert x.tolist() == [1, 2, 3] and producer.data.tolist() == [0, 1, 2]


def test_memory_of_a_gpu_by_its_address(gpu: FakeLibrary) -> None:
    x = Tensor([1.0, 2.0, 3.0, 4.0], device="CUDA").realize()
    y = Tensor.from_blob(address(x), (2, 2), device="CUDA")
    assert address(y) == address(x) and (y * 2).tolist() == [[2, 4], [6, 8]]
    host = np.zeros(4, np.float32)
    with pytest.raises(ArgumentError, match="cannot use memory of the machine"):
        Tensor.from_blob(host.ctypes.data, (4,), device="CUDA")


def test_an_array_of_a_gpu_that_is_not_there(gpu: FakeLibrary) -> None:
    with pytest.raises(DeviceError, match="there is no GPU 7"):
        Tensor.from_dlpack(GpuProducer(gpu, np.zeros(3, np.float32), ordinal=7))


# ---- PyTorch


@needs_gpu
def test_torch_takes_tensors_and_gives_them_without_copies() -> None:
    torch = pytest.importorskip("torch")
    with Context(DEV="CUDA"):
        for dtype in (dtypes.float32, dtypes.bfloat16, dtypes.int64, dtypes.bool):
            x = Tensor.arange(24).reshape(4, 6).cast(dtype).realize()
            theirs = torch.from_dlpack(x)
            assert theirs.is_cuda and theirs.data_ptr() == address(x)
            assert theirs.float().cpu().tolist() == x.cast(dtypes.float32).tolist()
            again = Tensor.from_dlpack(theirs)
            assert again.dtype is dtype and address(again) == address(x)
            assert Tensor(theirs).device == "CUDA"
        y = torch.arange(12, device="cuda", dtype=torch.float32).reshape(3, 4)
        assert Tensor(y.T).tolist() == y.T.cpu().tolist()
        assert Tensor(y[:, 1:]).tolist() == y[:, 1:].cpu().tolist()
        assert Tensor.from_dlpack(y, device="CPU").tolist() == y.cpu().tolist()
        assert np.from_dlpack(Tensor(y), device="cpu").tolist() == y.cpu().tolist()


@needs_gpu
def test_long_work_of_both_libraries_comes_in_order() -> None:
    torch = pytest.importorskip("torch")
    side = torch.cuda.Stream()
    for stream in (torch.cuda.default_stream(), side):
        with torch.cuda.stream(stream):
            big = torch.randn(4096, 4096, device="cuda")
            for _ in range(20):
                y = torch.full((1 << 22,), 1.0, device="cuda")
                for _ in range(3):
                    big = (big @ big).clamp(-1, 1)
                y += big[0, 0] * 0 + 1  # late
                x = Tensor.from_dlpack(y)
                z = torch.from_dlpack(x * 2 + 1)
                total = z.sum()
                del x, y, z
                assert total.item() == 5.0 * (1 << 22)
