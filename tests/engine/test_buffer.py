"""Memory: alignment, reuse, views, counting, wrapping, running out."""

import gc
import os
import re
import subprocess
import sys
import threading
from itertools import pairwise
from typing import Any

import numpy as np
import pytest

from whit import Tensor
from whit.errors import ArgumentError, DeviceError, OutOfRangeError
from whit.runtime import blocks
from whit.runtime import buffer as buffer_module
from whit.runtime.buffer import Buffer, OutOfMemoryError, usage

pytestmark = pytest.mark.slow  # many


@pytest.mark.parametrize("nbytes", [0, 1, 63, 64, 65, 1000, 70_000, 3 << 20])
def test_memory_is_aligned_and_all_of_it_can_be_written(nbytes: int) -> None:
    buffer = Buffer("CPU", nbytes)
    assert buffer.address % 64 == 0
    buffer.memory()[:] = b"\xa5" * nbytes
    assert bytes(buffer.memory()) == b"\xa5" * nbytes


@pytest.mark.parametrize("nbytes", [*range(1, 300), 1023, 1024, 1025, 65536, 65537, (2 << 20) + 1, 100 << 20])
def test_blocks_are_large_enough_and_not_much_larger(nbytes: int) -> None:
    size = blocks.size_class(nbytes)
    assert size >= nbytes and size % 64 == 0
    assert size <= max(nbytes * 1.25 + 64, nbytes + (2 << 20))
    assert blocks.size_class(size) == size


def test_live_buffers_do_not_overlap() -> None:
    buffers = [Buffer("CPU", 1 + 37 * i) for i in range(200)]
    spans = sorted((b.address, b.address + b.nbytes) for b in buffers)
    assert all(end <= start for (_, end), (start, _) in pairwise(spans))


def test_freed_memory_is_used_again() -> None:
    buffer = Buffer("CPU", 5 << 20)
    address = buffer.address
    del buffer
    assert Buffer("CPU", 5 << 20).address == address


def test_released_memory_goes_back_to_the_system() -> None:
    buffer = Buffer("CPU", 8 << 20)
    del buffer
    assert blocks.cached_bytes() >= 8 << 20
    blocks.release()
    assert blocks.cached_bytes() == 0


def test_the_cache_of_freed_memory_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    blocks.release()
    monkeypatch.setattr(blocks, "_limit", 16 << 20)
    buffers = [Buffer("CPU", 4 << 20) for _ in range(10)]
    del buffers
    assert 0 < blocks.cached_bytes() <= 16 << 20


def test_usage_counts_what_was_asked_for_on_each_device() -> None:
    before = usage("CPU:7").now
    first = Buffer("CPU:7", 1000)
    second = Buffer("CPU:7", 500)
    assert usage("CPU:7").now - before == 1500
    del first
    assert usage("CPU:7").now - before == 500
    assert usage("CPU:7").peak - before == 1500
    del second
    assert usage("CPU:7").now == before
    assert usage("CPU:8").now == 0


def test_a_view_shares_memory_and_keeps_it_alive() -> None:
    base = Buffer("CPU:6", 100)
    view = base.view(10, 50)
    part = view.view(5, 10)
    view.memory()[:] = bytes(range(50))
    assert bytes(part.memory()) == bytes(range(5, 15))
    assert base.is_shared and part.is_shared
    assert usage("CPU:6").now == 100
    del base, view
    assert bytes(part.memory()) == bytes(range(5, 15))
    assert usage("CPU:6").now == 100
    del part
    assert usage("CPU:6").now == 0


def test_a_buffer_is_no_longer_shared_when_its_views_are_gone() -> None:
    base = Buffer("CPU", 100)
    view = base.view(0, 10).view(2, 3)
    assert base.is_shared
    del view
    assert not base.is_shared


def test_a_memoryview_keeps_its_buffer() -> None:
    buffer = Buffer("CPU:5", 64)
    memory = buffer.memory()
    del buffer
    assert usage("CPU:5").now == 64
    memory[:3] = b"abc"
    del memory
    assert usage("CPU:5").now == 0


@pytest.mark.parametrize(("offset", "nbytes"), [(-1, 4), (0, 101), (90, 11), (4, -1)])
def test_a_view_outside_is_refused(offset: int, nbytes: int) -> None:
    with pytest.raises(OutOfRangeError, match=r"of a buffer of 100\n  Stay inside"):
        Buffer("CPU", 100).view(offset, nbytes)


def test_wrapped_memory_is_not_copied_not_counted_and_not_written() -> None:
    array = np.arange(10, dtype=np.int32)
    before = usage("CPU").now
    buffer = Buffer.wrap("CPU", array)
    array[3] = 99
    assert np.frombuffer(buffer.memory(), np.int32)[3] == 99
    assert usage("CPU").now == before
    with pytest.raises(TypeError, match="read-only"):
        buffer.memory()[0] = 1
    with pytest.raises(ArgumentError, match="read-only memory"):
        buffer.copy_from(Buffer("CPU", 40))


def test_wrapped_memory_can_be_written_if_asked() -> None:
    array = np.zeros(3, np.uint8)
    Buffer.wrap("CPU", array, writable=True).memory()[:] = b"abc"
    assert array.tobytes() == b"abc"
    with pytest.raises(ArgumentError, match="read-only"):
        Buffer.wrap("CPU", b"abc", writable=True)
    with pytest.raises(ArgumentError, match="gaps"):
        Buffer.wrap("CPU", np.zeros((4, 4))[:, 1])


def test_copies_need_equal_sizes() -> None:
    source, target = Buffer("CPU", 4), Buffer("CPU", 4)
    source.memory()[:] = b"wxyz"
    target.copy_from(source)
    assert bytes(target.memory()) == b"wxyz"
    with pytest.raises(ArgumentError, match="a copy of 4 bytes into 5"):
        Buffer("CPU", 5).copy_from(source)


def test_null_buffers_count_and_hold_nothing() -> None:
    buffer = Buffer("NULL", 1 << 40)
    assert usage("NULL").now == 1 << 40
    with pytest.raises(DeviceError, match="NULL has no data"):
        buffer.memory()
    del buffer
    assert usage("NULL").now == 0


def test_out_of_memory_names_the_largest_buffers_and_who_made_them() -> None:
    big = Buffer("CPU", 32 << 20)
    gc.collect()  # what earlier tests left
    before = usage("CPU").now
    with pytest.raises(OutOfMemoryError) as caught:
        Buffer("CPU", 1 << 55)
    message = str(caught.value)
    assert isinstance(caught.value, MemoryError)
    assert message.startswith("out of memory: 36,028,797,018,963,968 bytes on CPU, asked for at test_buffer.py:")
    assert f"{32 << 20:,} bytes on CPU, made at test_buffer.py:" in message
    gc.collect()
    assert usage("CPU").now == before
    assert big.nbytes


@pytest.mark.cpu
def test_a_tensor_that_does_not_fit_names_the_largest_ones_and_their_lines() -> None:
    kept = [Tensor.ones(size << 18).contiguous().realize() for size in (3, 8, 5)]
    with pytest.raises(OutOfMemoryError) as caught:
        Tensor.empty(1 << 50).realize()
    lines = str(caught.value).splitlines()
    assert lines[0].startswith(f"out of memory: {4 << 50:,} bytes on CPU, asked for at test_buffer.py:")
    assert re.fullmatch(r"  [\d,]+ bytes are in use on CPU, [\d,]+ are kept for reuse", lines[1])
    named = [line for line in lines[2:-1] if "made at test_buffer.py:" in line]
    sizes = [int(re.sub(r"\D", "", line.partition(" bytes")[0])) for line in named]
    assert sizes == sorted(sizes, reverse=True)
    assert {8 << 20, 5 << 20, 3 << 20} <= set(sizes)
    assert lines[-1].startswith("  Use smaller batches or dtypes")
    assert len(kept) == 3


@pytest.mark.cpu
def test_a_computation_that_does_not_fit_can_be_tried_again(monkeypatch: pytest.MonkeyPatch) -> None:
    x = Tensor.ones(1 << 20).contiguous().realize()
    real = blocks.take

    def refuse_large(nbytes: int) -> Any:
        if nbytes >= 2 << 20:
            raise MemoryError
        return real(nbytes)

    result = x * 2 + 1
    monkeypatch.setattr(buffer_module, "take", refuse_large)
    with pytest.raises(MemoryError, match=r"out of memory: 4,194,304 bytes on CPU, asked for at test_buffer.py:\d+"):
        result.realize()
    monkeypatch.undo()
    assert result.sum().item() == 3 << 20


def test_memory_in_reference_cycles_is_collected_before_giving_up(monkeypatch: pytest.MonkeyPatch) -> None:
    class Cycle:
        def __init__(self) -> None:
            self.me = self
            self.buffer = Buffer("CPU:3", 4 << 20)

    real = blocks.take
    Cycle()

    def refuse_while_used(nbytes: int) -> Any:
        if usage("CPU:3").now:
            raise MemoryError
        return real(nbytes)

    monkeypatch.setattr(buffer_module, "take", refuse_while_used)
    assert Buffer("CPU:3", 64).address


LIMITED = """
import resource
from whit import Tensor
x = Tensor.ones(4 << 20).contiguous().realize()
(x + 1).sum().item()  # what compiles needs memory too
limit = 1 << 30
resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
kept = []
try:
    while True:
        kept.append(Tensor.empty(32 << 20).realize())
except MemoryError as error:
    text = str(error)
kept.clear()
print(text)
print((x + 1).sum().item())
"""


@pytest.mark.cpu
@pytest.mark.skipif(sys.platform != "linux", reason="needs a limit of address space")
def test_a_system_that_gives_no_more_memory() -> None:
    done = subprocess.run([sys.executable, "-c", LIMITED], capture_output=True, text=True, check=True)
    *message, total = done.stdout.splitlines()
    assert message[0] == f"out of memory: {128 << 20:,} bytes on CPU, asked for at <string>:11"
    assert f"  {128 << 20:,} bytes on CPU, made at <string>:11" in message
    assert float(total) == 8 << 20


def test_threads_can_allocate_and_free_at_once() -> None:
    def work(seed: int) -> None:
        for i in range(300):
            size = (seed * 31 + i * 97) % 5000
            buffer = Buffer("CPU:4", size)
            buffer.memory()[:] = bytes([seed]) * size
            if bytes(buffer.memory()) != bytes([seed]) * size:
                failures.append(seed)

    failures: list[int] = []
    threads = [threading.Thread(target=work, args=(seed,)) for seed in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failures == []
    assert usage("CPU:4").now == 0


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")
def test_a_child_process_has_its_own_copy() -> None:
    buffer = Buffer("CPU", 4 << 20)
    buffer.memory()[:4] = b"mine"
    child = os.fork()
    if child == 0:
        is_right = bytes(buffer.memory()[:4]) == b"mine"
        buffer.memory()[:4] = b"hers"
        other = Buffer("CPU", 4 << 20)
        other.memory()[:4] = b"also"
        os._exit(0 if is_right and bytes(buffer.memory()[:4]) == b"hers" else 1)
    _, status = os.waitpid(child, 0)
    assert status == 0
    # Python's mmap maps shared memory unless told otherwise: both processes would write the same pages.
    assert bytes(buffer.memory()[:4]) == b"mine"


AT_EXIT = """
import os, sys
sys.path.insert(0, sys.argv[1])
from pytest import MonkeyPatch
from engine.fake_gpu import fake_gpu
from whit import Tensor
patched = fake_gpu(MonkeyPatch())
patched.__enter__()
kept = [Tensor([1.0, 2.0, 3.0]).to(device).realize() for device in ("CPU", "CUDA")]
kept += [(tensor * 2).realize() for tensor in kept] + [tensor[1:].realize() for tensor in kept]
os.kept = kept, patched, list(sys.modules.values())  # goes when the names in all modules are None
"""


def test_what_is_left_when_python_ends_goes_without_a_word() -> None:
    tests = os.path.dirname(os.path.dirname(__file__))
    done = subprocess.run([sys.executable, "-c", AT_EXIT, tests], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
