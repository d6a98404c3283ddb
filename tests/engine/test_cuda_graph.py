"""Captured programs on a GPU: one launch of a graph, and copies beside it. The GPU is one of Python."""

from __future__ import annotations

import ctypes
import os
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

from engine.fake_gpu import FakeLibrary, fake_gpu
from whit import Context, Device, Tensor, TinyJit, Variable
from whit.engine.memory.storage import storage
from whit.errors import BackendError, DeviceError
from whit.runtime.cuda import transfers as cuda_transfers

pytestmark = [pytest.mark.slow, pytest.mark.cpu]  # where tensors are that name no device
rng = np.random.default_rng(0)


@pytest.fixture(params=range(2))
def gpu(request: Any, monkeypatch: pytest.MonkeyPatch) -> Iterator[FakeLibrary]:
    with fake_gpu(monkeypatch, request.param) as library:
        yield library


def array(*shape: int) -> np.ndarray[Any, Any]:
    return rng.standard_normal(shape).astype(np.float32)


def counted(gpu: FakeLibrary, run: Callable[[], Any]) -> dict[str, int]:
    """How often functions of the driver are called."""
    before = len(gpu.calls)
    run()
    made = gpu.calls[before:]
    return {name: made.count(name) for name in dict.fromkeys(made)}


def branches(x: Tensor, w: Tensor) -> tuple[Tensor, Tensor]:
    left, right = (x @ w).softmax(-1), (w @ x).relu()
    return (left @ right).sum(1), left.sum() + right.max()


def test_plain_kernels(gpu: FakeLibrary) -> None:
    a, b = array(4, 5), array(5, 3)
    got = (Tensor(a, device="CUDA") @ Tensor(b, device="CUDA")).relu().numpy()
    np.testing.assert_allclose(got, np.maximum(a @ b, 0), rtol=1e-5, atol=1e-6)


def test_a_replay_is_one_launch_with_the_results_of_a_plain_run(gpu: FakeLibrary) -> None:
    step = TinyJit(branches)
    kept = []
    for _ in range(4):
        x, w = array(5, 5), array(5, 5)
        expected = [t.numpy() for t in branches(Tensor(x, device="PYTHON"), Tensor(w, device="PYTHON"))]
        kept.append((step(Tensor(x, device="CUDA"), Tensor(w, device="CUDA")), expected))
    assert len(step.captured) == 1 and step.kernels > 3
    for got, expected in kept:  # results are fresh
        for one, other in zip(got, expected, strict=True):
            np.testing.assert_allclose(one.numpy(), other, rtol=1e-5, atol=1e-6)
    y, z = (Tensor(array(5, 5), device="CUDA").realize() for _ in range(2))
    step(y, z)
    calls = counted(gpu, lambda: step(y, z))
    assert calls["cuGraphLaunch"] == 1 and "cuLaunchKernel" not in calls
    assert not {"cuGraphCreate", "cuGraphInstantiateWithFlags", "cuStreamSynchronize"} & calls.keys()


def test_only_kernels_with_other_arguments_are_updated(gpu: FakeLibrary) -> None:
    w = Tensor(array(6, 6), device="CUDA").realize()
    total = Tensor.zeros(6, device="CUDA").contiguous().realize()

    @TinyJit
    def step(x: Tensor) -> None:
        y = x
        for _ in range(4):
            y = (y @ w).softmax(-1)
        total.assign(total + y.sum(0))

    x = Tensor(array(6, 6), device="CUDA").realize()
    step(x)
    assert step.kernels >= 5
    assert counted(gpu, lambda: step(x)) == {"cuGraphLaunch": 1}
    other = Tensor(array(6, 6), device="CUDA").realize()
    assert counted(gpu, lambda: step(other)) == {"cuGraphExecKernelNodeSetParams_v2": 1, "cuGraphLaunch": 1}


def test_weights_are_written_in_place(gpu: FakeLibrary) -> None:
    start, moves = array(4, 4), [array(4, 4) for _ in range(3)]
    w = Tensor(start, device="CUDA").realize()
    address = storage(w.uop).address

    @TinyJit
    def step(x: Tensor) -> Tensor:
        before = (w @ x).sum()
        w.assign(w - x * 2)
        return before

    now = start
    for move in moves:
        got = step(Tensor(move, device="CUDA")).item()
        np.testing.assert_allclose(got, (now @ move).sum(), rtol=1e-4, atol=1e-5)
        now = now - move * 2
    np.testing.assert_allclose(w.numpy(), now, rtol=1e-5, atol=1e-6)
    assert storage(w.uop).address == address


def test_variables_are_updated(gpu: FakeLibrary) -> None:
    data = array(8, 3)
    x = Tensor(data, device="CUDA").realize()
    n = Variable("n", 1, 8)
    step = TinyJit(lambda x, k: x[:k].sum(0))
    for count in (1, 5, 8, 5):
        np.testing.assert_allclose(step(x, n.bind(count)).numpy(), data[:count].sum(0), rtol=1e-5, atol=1e-6)
    assert len(step.captured) == 1


def test_memory_that_is_not_aligned_is_run_without_the_graph(gpu: FakeLibrary) -> None:
    step = TinyJit(lambda x: (x * 2).sum() + x)
    data = array(9)
    x = Tensor(data, device="CUDA").realize()
    whole, part = x[:8].realize(), x[1:].realize()
    for tensor, values in ((whole, data[:8]), (part, data[1:]), (whole, data[:8])):
        np.testing.assert_allclose(step(tensor).numpy(), values.sum() * 2 + values, rtol=1e-5, atol=1e-5)
    assert "cuLaunchKernel" in counted(gpu, lambda: step(part))
    assert "cuLaunchKernel" not in counted(gpu, lambda: step(whole))


def copies(x: Tensor, y: Tensor) -> tuple[Tensor, Tensor]:
    """x is on the CPU, y on the GPU."""
    there = x.to("CUDA")
    deep = ((y @ y).softmax(-1) @ y).relu()
    back = (deep.sum(0) + there.sum(1)).to("CPU")
    return back * x.sum(0), (deep @ there).softmax(-1)


def test_copies_run_beside_kernels_and_in_order(gpu: FakeLibrary) -> None:
    step = TinyJit(copies)
    found = []
    for _ in range(3):
        a, b = array(4, 4), array(4, 4)
        x = Tensor(a, device="CPU").realize()
        got = step(x, Tensor(b, device="CUDA"))
        x.assign(Tensor.zeros(4, 4, device="CPU")).realize()  # the copy has been read
        found.append((got, a, b))
    for got, a, b in found:
        y = Tensor(b, device="PYTHON")
        deep = ((y @ y).softmax(-1) @ y).relu().numpy()
        expected = (deep.sum(0) + a.sum(1)) * a.sum(0), Tensor(deep @ a, device="PYTHON").softmax(-1).numpy()
        for one, other in zip(got, expected, strict=True):
            np.testing.assert_allclose(one.numpy(), other, rtol=1e-4, atol=1e-5)
    (capture,) = step.captured
    assert {batch.queue for batch in capture.program.batches()} == {"CUDA", "CUDA copies", "CPU"}


def test_pinned_memory_may_change_after_a_copy_too(gpu: FakeLibrary) -> None:
    address = Device["CUDA"].gpu.number("cuMemHostAlloc", ctypes.c_void_p, 64, 0)  # type: ignore[attr-defined]
    pinned = np.frombuffer((ctypes.c_char * 64).from_address(address), np.float32)
    step = TinyJit(lambda x: x.to("CUDA") * 2)
    x = Tensor(pinned, device="CPU", copy=False)
    pinned[:] = 1
    first = step(x)
    pinned[:] = 2
    second = step(x)
    pinned[:] = 3
    assert first.tolist() == [2.0] * 16 and second.tolist() == [4.0] * 16


def test_a_copy_waits_for_kernels_of_the_last_run_that_read_the_one_before(gpu: FakeLibrary) -> None:
    step = TinyJit(lambda x: (x.to("CUDA") @ x.to("CUDA")).sum(0))
    arrays = [array(3, 3) for _ in range(6)]
    results = [step(Tensor(data, device="CPU")) for data in arrays]
    for got, data in zip(results, arrays, strict=True):
        np.testing.assert_allclose(got.numpy(), (data @ data).sum(0), rtol=1e-4, atol=1e-5)


def test_what_a_program_is_given_is_read_before_it_begins(gpu: FakeLibrary) -> None:
    step = TinyJit(lambda x: (x.to("CUDA") @ x.to("CUDA"), x + 1))
    x = Tensor(data := array(3, 3), device="CPU")
    step(x)
    Device["CUDA"].synchronize()
    main = gpu.streams[Device["CUDA"].gpu.stream]  # type: ignore[attr-defined]
    main.is_held = True
    got, _ = step(x)  # does not wait for the GPU
    assert main.pending
    main.is_held = False
    np.testing.assert_allclose(got.numpy(), data @ data, rtol=1e-5, atol=1e-6)


def test_what_comes_from_a_gpu_in_a_program_comes_into_pinned_memory(gpu: FakeLibrary) -> None:
    step = TinyJit(lambda x: (x * 2).to("CPU") + 1)
    for _ in range(3):
        data = array(3, 3)
        np.testing.assert_allclose(step(Tensor(data, device="CUDA")).numpy(), data * 2 + 1, rtol=1e-6)
    copied = [buffer for buffer in step.captured[0].program.fixed.values() if buffer.device == "CPU"]
    assert any(gpu._is_pinned(buffer.address) for buffer in copied)


def test_what_a_program_computes_is_copied_when_it_is_there(gpu: FakeLibrary) -> None:
    step = TinyJit(lambda x: (x * 2).to("CUDA") + 1)
    for _ in range(3):
        data = array(3, 3)
        np.testing.assert_allclose(step(Tensor(data, device="CPU")).numpy(), data * 2 + 1, rtol=1e-6)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(4))
def test_random_functions_under_the_jit(gpu: FakeLibrary, seed: int) -> None:
    from jit.test_random_programs import seen_by  # here: that module is a slow one

    with Context(DEV="CUDA"):
        assert seen_by(seed, TinyJit) == seen_by(seed, lambda function: function)


def test_a_child_of_a_process_that_has_used_a_gpu_has_none(monkeypatch: pytest.MonkeyPatch) -> None:
    with fake_gpu(monkeypatch, gpus=2):
        x = Tensor([1.0, 2.0], device="CUDA").realize()
        step = TinyJit(lambda x: x + 1)
        step(x)
        read, write = os.pipe()
        child = os.fork()
        if child == 0:
            for run in (x.numpy, lambda: step(x), lambda: Tensor([1.0], device="CUDA:1").realize()):
                try:
                    run()
                    os.write(write, b"no error")
                except DeviceError as error:
                    os.write(write, f"{str(error).partition(chr(10))[0]}, {'spawn' in str(error)}\n".encode())
            os._exit(0)
        os.waitpid(child, 0)
        assert os.read(read, 1000).decode() == "CUDA: the process was forked after it had used the GPU, True\n" * 3
        assert step(x).tolist() == [2.0, 3.0]


def test_a_thread_uses_two_gpus_in_turn(monkeypatch: pytest.MonkeyPatch) -> None:
    with fake_gpu(monkeypatch, gpus=2) as library:
        x, y = (Tensor([1.0, 2.0], device=device).realize() for device in ("CUDA", "CUDA:1"))
        for tensor, context in ((x, 1000), (y, 1001), (x, 1000)):
            (tensor + 1).realize()
            assert library.context == context
        assert y.to("CUDA").tolist() == [1.0, 2.0]


@pytest.mark.parametrize("has_peers", [True, False])
@pytest.mark.parametrize("seed", range(3))
def test_copies_between_gpus_come_in_order(monkeypatch: pytest.MonkeyPatch, has_peers: bool, seed: int) -> None:
    with fake_gpu(monkeypatch, seed, gpus=2) as library:
        library.has_peers = has_peers
        found = []
        for _ in range(4):
            data = array(4, 4)
            there = (Tensor(data, device="CUDA:1") * 2).realize()
            here = (there.to("CUDA") + 1).realize()
            there.assign(Tensor.zeros(4, 4, device="CUDA:1")).realize()  # after the copy has read it
            found.append((here.to("CUDA:1") * 3, data))
            del there, here
        for got, data in found:
            np.testing.assert_allclose(got.numpy(), (data * 2 + 1) * 3, rtol=1e-6)
        assert library.calls.count("cuMemcpyPeerAsync") == 8 and "cuMemcpyDtoHAsync_v2" in library.calls
        assert library.calls.count("cuCtxEnablePeerAccess") == (4 if has_peers else 0)
        assert library.calls.count("cuMemcpyDtoHAsync_v2") == 4  # of the results


def test_copies_of_many_pieces_by_many_threads(gpu: FakeLibrary, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cuda_transfers, "MOST_PIECE_BYTES", 1 << 20)
    data = rng.integers(0, 255, (9 << 20) + 13).astype(np.uint8)
    np.testing.assert_array_equal(Tensor(data, device="CUDA").numpy(), data)
    np.testing.assert_array_equal(Tensor(data, device="CPU").to("CUDA").to("CPU").numpy(), data)


def test_new_tensors_are_filled_beside_kernels(gpu: FakeLibrary, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cuda_transfers, "LARGE_BYTES", 0)
    step = TinyJit(lambda x, w: ((x @ w).relu() @ w).sum(1))
    w = Tensor(weights := array(4, 4), device="CUDA").realize()
    found = []
    for _ in range(8):  # memory of tensors that are gone is taken again while kernels that read it have yet to run
        data = array(4, 4)
        x = Tensor(data, device="CUDA") if len(found) % 2 else Tensor(data, device="CPU").to("CUDA").realize()
        found.append((step(x, w), np.maximum(data @ weights, 0) @ weights))
        del x
    for got, expected in found:
        np.testing.assert_allclose(got.numpy(), expected.sum(1), rtol=1e-4, atol=1e-5)


def test_a_new_tensor_does_not_wait_for_kernels(gpu: FakeLibrary, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cuda_transfers, "LARGE_BYTES", 0)
    monkeypatch.setattr(cuda_transfers, "MOST_PIECE_BYTES", 16)  # bytes, so that copies wait for pinned memory
    x = Tensor(array(16), device="CUDA").realize()
    _kept = (x * 2).realize()
    main = gpu.streams[Device["CUDA"].gpu.stream]  # type: ignore[attr-defined]
    main.is_held = True
    y = Tensor(data := array(16), device="CUDA").realize()
    assert main.pending
    main.is_held = False
    np.testing.assert_array_equal((y + 1).numpy(), data + 1)


def test_a_launch_that_fails_is_an_error_with_names(gpu: FakeLibrary) -> None:
    step = TinyJit(lambda x: (x @ x).sum(0))
    x = Tensor(array(3, 3), device="CUDA").realize()
    step(x)
    gpu.codes["cuGraphLaunch"] = 719
    with pytest.raises(
        BackendError, match=r"(?s)cuGraphLaunch: unknown \(719\).*a graph of 1 kernels \(add_reduce_3\)"
    ):
        step(x)
    with pytest.raises(DeviceError, match="an earlier kernel failed"):
        step(x)


def test_a_kernel_that_waits_for_one_other_is_started_early(monkeypatch: pytest.MonkeyPatch) -> None:
    with fake_gpu(monkeypatch) as gpu:
        gpu.compute = (9, 0)
        step = TinyJit(lambda x: x @ x @ x)
        x = Tensor(data := array(5, 5), device="CUDA").realize()
        for _ in range(3):
            np.testing.assert_allclose(step(x).numpy(), data @ data @ data, rtol=1e-4, atol=1e-5)
        assert gpu.calls.count("cuGraphAddDependencies_v2") == step.kernels - 1 == 1
        gpu.calls.clear()
        both = TinyJit(branches)
        y, w = (Tensor(array(5, 5), device="CUDA").realize() for _ in range(2))
        for one, other in zip(both(y, w), branches(y, w), strict=True):
            np.testing.assert_allclose(one.numpy(), other.numpy(), rtol=1e-5, atol=1e-6)
        assert "cuGraphLaunch" in gpu.calls


def test_where_graphs_are_unknown_to_the_driver_kernels_are_started_one_by_one(monkeypatch: pytest.MonkeyPatch) -> None:
    with fake_gpu(monkeypatch) as gpu:
        gpu.missing.add("cuGraphAddKernelNode_v2")
        step = TinyJit(branches)
        x, w = (Tensor(array(5, 5), device="CUDA").realize() for _ in range(2))
        for one, other in zip(step(x, w), branches(x, w), strict=True):
            np.testing.assert_allclose(one.numpy(), other.numpy(), rtol=1e-5, atol=1e-6)
        assert "cuGraphLaunch" not in gpu.calls
