"""A GPU of Python behind the functions of NVIDIA's driver: the interpreter runs its kernels, as late as it may.

Streams work by themselves: nothing is done before somebody waits for it, and then what streams and the kernels of a
graph may do in any order is done in a random one. So a missing edge, event or wait gives a wrong result. What Python
functions are called with is what a driver would see: references, structures, pointers to arguments.
"""

# ruff: noqa: N802, N815  # names are NVIDIA's

from __future__ import annotations

import ctypes
import functools
import random
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import numpy as np

import whit
from whit.engine.compile.cuda import CudaKernel, Launch
from whit.engine.devices import cuda as engine_cuda
from whit.engine.memory.storage import concrete_shape
from whit.engine.report import cuda as cuda_report
from whit.ir import ops
from whit.ir.interpret import numpy_dtype, run
from whit.ir.uop import UOp
from whit.runtime.cuda import gpu as runtime_cuda
from whit.runtime.cuda.driver import Driver
from whit.runtime.cuda.graph import KernelParameters


@dataclass
class Kernel:
    """What a function handle stands for."""

    function: UOp
    params: list[UOp]
    variables: list[UOp]

    def read(self, pointers: int) -> list[int]:
        """The arguments, as they are now."""
        count = len(self.params) + len(self.variables)
        addresses = (ctypes.c_void_p * count).from_address(pointers)
        return [ctypes.c_uint64.from_address(address).value for address in addresses]  # type: ignore[arg-type]

    def run(self, arguments: list[int]) -> None:
        numbers = arguments[len(self.params) :]
        values: dict[UOp, Any] = {node: int(np.int64(n)) for node, n in zip(self.variables, numbers, strict=True)}
        named = {node.arg.name: value for node, value in values.items()}
        for param, address in zip(self.params, arguments, strict=False):
            values[param] = _array(param, address, named)
        run(self.function.call(*self.params), values)


def _array(node: UOp, address: int, variables: dict[str, int]) -> Any:
    shape, storage = concrete_shape(node.shape, variables), numpy_dtype(node.dtype)
    count = int(np.prod(shape))
    memory = (ctypes.c_char * (count * storage.itemsize)).from_address(address)
    return np.frombuffer(memory, storage, count).reshape(shape)


@dataclass
class Stream:
    """What is still to be done, in order: each a test whether it may begin, and the deed."""

    pending: list[tuple[Callable[[], bool], Callable[[], None]]] = field(default_factory=list)
    context: int = 0
    is_held: bool = False  # nothing is done for the time being


LEGACY = 1  # the stream of libraries that name none


@dataclass
class Node:
    kernel: Kernel
    arguments: list[int]
    waits: list[int]


@dataclass
class FakeLibrary:
    """The functions of the driver."""

    source: random.Random
    calls: list[str] = field(default_factory=list)  # the names of functions that do or order something
    kernels: dict[int, Kernel] = field(default_factory=dict)
    made: dict[UOp, CudaKernel] = field(default_factory=dict)
    memory: dict[int, Any] = field(default_factory=dict)
    pinned: list[tuple[int, int]] = field(default_factory=list)
    streams: dict[int, Stream] = field(default_factory=lambda: {LEGACY: Stream()})
    events: dict[int, list[bool]] = field(default_factory=dict)  # whether the last record of each is done
    graphs: dict[int, list[Node]] = field(default_factory=dict)
    newest: int = 2  # handle
    context: int = 0
    has_peers: bool = True
    owners: dict[int, int] = field(default_factory=dict)  # the contexts of events
    now: float = 0.0  # milliseconds on the device: everything that is done takes one
    moments: dict[int, float] = field(default_factory=dict)  # of events
    codes: dict[str, int] = field(default_factory=dict)  # what functions return that are to fail
    compute: tuple[int, int] = (8, 0)
    missing: set[str] = field(default_factory=set)  # functions that an old driver does not have

    def __getattr__(self, name: str) -> Any:
        if name in self.missing:
            raise AttributeError(name)
        method = getattr(type(self), "_" + name)

        def function(*arguments: Any) -> int:
            self.calls.append(name)
            plain = [a.value if isinstance(a, ctypes.c_void_p) else a for a in arguments]
            return self.codes.get(name, 0) or method(self, *plain) or 0

        function.__name__ = name
        found: Any = function
        if name == "cuGraphExecKernelNodeSetParams_v2":  # is called by native code
            found = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_void_p)(function)
        setattr(self, name, found)
        return found

    def _new(self) -> int:
        self.newest += 1
        return self.newest

    def _fill(self, out: Any, value: Any) -> None:
        out._obj.value = value

    # ---- work

    def submit(self, stream: int, deed: Callable[[], None], may_begin: Callable[[], bool] = lambda: True) -> None:
        self.streams[stream].pending.append((may_begin, deed))

    def work(self, until: Callable[[], bool]) -> None:
        while not until():
            able = [s for s in self.streams.values() if s.pending and not s.is_held and s.pending[0][0]()]
            assert able, "the streams wait for each other"
            self.source.choice(able).pending.pop(0)[1]()
            self.now += 1.0

    def _cuStreamCreate(self, out: Any, flags: int) -> None:
        number = self._new()
        self.streams[number] = Stream(context=self.context)
        self._fill(out, number)

    def _cuCtxSynchronize(self) -> None:
        self.work(lambda: not any(stream.pending for stream in self.streams.values()))

    def _cuStreamSynchronize(self, stream: int) -> None:
        self.work(lambda: not self.streams[stream].pending)

    def _cuEventCreate(self, out: Any, flags: int) -> None:
        number = self._new()
        self.events[number] = [True]
        self.owners[number] = self.context
        self._fill(out, number)

    def _cuEventDestroy_v2(self, event: int) -> None:
        del self.events[event]

    def _cuEventRecord(self, event: int, stream: int) -> None:
        done = self.events[event] = [False]
        assert stream == LEGACY or self.owners[event] == self.streams[stream].context

        def deed() -> None:
            done[0] = True
            self.moments[event] = self.now

        self.submit(stream, deed)

    def _cuEventQuery(self, event: int) -> int:
        return 0 if self.events[event][0] else 600

    def _cuStreamWaitEvent(self, stream: int, event: int, flags: int) -> None:
        done = self.events[event]
        self.submit(stream, lambda: None, lambda: done[0])

    def _cuEventSynchronize(self, event: int) -> None:
        done = self.events[event]
        self.work(lambda: done[0])

    def _cuEventElapsedTime(self, out: Any, start: int, end: int) -> None:
        assert self.events[start][0] and self.events[end][0]
        self._fill(out, self.moments[end] - self.moments[start])

    # ---- memory

    def _cuMemAlloc_v2(self, out: Any, nbytes: int) -> None:
        memory = ctypes.create_string_buffer(bytes([0xAB]) * (nbytes + 512), nbytes + 512)
        address = -(-ctypes.addressof(memory) // 512) * 512
        self.memory[address] = memory
        self._fill(out, address)

    def _cuMemFree_v2(self, address: int) -> None:
        del self.memory[address]

    def _cuMemHostAlloc(self, out: Any, nbytes: int, flags: int) -> None:
        memory = ctypes.create_string_buffer(nbytes)
        self.memory[ctypes.addressof(memory)] = memory
        self.pinned.append((ctypes.addressof(memory), nbytes))
        self._fill(out, ctypes.addressof(memory))

    def _cuMemFreeHost(self, address: int) -> None:
        self.pinned = [piece for piece in self.pinned if piece[0] != address]
        del self.memory[address]

    def _is_pinned(self, address: int) -> bool:
        return any(start <= address < start + size for start, size in self.pinned)

    def _cuPointerGetAttribute(self, out: Any, attribute: int, address: int) -> int:
        self._fill(out, 1 if self._is_pinned(address) else 2)
        return 0 if any(start <= address < start + len(memory) for start, memory in self.memory.items()) else 1

    def _cuMemcpyHtoDAsync_v2(self, target: int, source: int, nbytes: int, stream: int) -> None:
        if self._is_pinned(source):
            self.submit(stream, lambda: _move(target, source, nbytes))
        else:  # taken now, written later
            staged = ctypes.create_string_buffer(ctypes.string_at(source, nbytes), max(nbytes, 1))
            self.submit(stream, lambda: _move(target, ctypes.addressof(staged), nbytes))

    def _cuMemcpyDtoHAsync_v2(self, target: int, source: int, nbytes: int, stream: int) -> None:
        self.submit(stream, lambda: _move(target, source, nbytes))
        if not self._is_pinned(target):
            self._cuStreamSynchronize(stream)

    def _cuMemcpyDtoDAsync_v2(self, target: int, source: int, nbytes: int, stream: int) -> None:
        self.submit(stream, lambda: _move(target, source, nbytes))

    def _cuDeviceCanAccessPeer(self, out: Any, device: int, peer: int) -> None:
        self._fill(out, int(self.has_peers))

    def _cuCtxEnablePeerAccess(self, peer: int, flags: int) -> None:
        assert self.has_peers and peer != self.context

    def _cuMemcpyPeerAsync(self, target: int, here: int, source: int, there: int, nbytes: int, stream: int) -> None:
        assert self.streams[stream].context == here == self.context != there
        self.submit(stream, lambda: _move(target, source, nbytes))

    # ---- kernels

    def _cuLaunchKernel(self, function: int, *rest: Any) -> None:
        stream, pointers = rest[7], rest[8]
        kernel = self.kernels[function]
        assert self.streams[stream].context == self.context
        arguments = kernel.read(ctypes.addressof(pointers))
        self.submit(stream, lambda: kernel.run(arguments))

    def _cuGraphCreate(self, out: Any, flags: int) -> None:
        number = self._new()
        self.graphs[number] = []
        self._fill(out, number)

    def _cuGraphAddKernelNode_v2(self, out: Any, graph: int, waits: Any, count: int, record: Any) -> None:
        kernel = self.kernels[record._obj.function]
        arguments = kernel.read(record._obj.parameters)
        self.graphs[graph].append(Node(kernel, arguments, [waits[i] - 1 for i in range(count)]))
        self._fill(out, len(self.graphs[graph]))

    def _cuGraphAddDependencies_v2(self, graph: int, earlier: Any, later: Any, kinds: Any, count: int) -> None:
        assert bytes(kinds) == bytes((1, 0, 1, 0, 0, 0, 0, 0)) * count  # kernels that begin with a wait
        for i in range(count):
            self.graphs[graph][later[i] - 1].waits.append(earlier[i] - 1)

    def _cuGraphInstantiateWithFlags(self, out: Any, graph: int, flags: int) -> None:
        number = self._new()
        self.graphs[number] = self.graphs[graph]
        self._fill(out, number)

    def _cuGraphExecKernelNodeSetParams_v2(self, ready: int, node: int, record: Any) -> None:
        changed = self.graphs[ready][node - 1]
        changed.arguments = changed.kernel.read(KernelParameters.from_address(record).parameters)

    def _cuGraphLaunch(self, ready: int, stream: int) -> None:
        nodes = [(node.kernel, node.arguments, node.waits) for node in self.graphs[ready]]

        def deed() -> None:
            done: set[int] = set()
            while len(done) < len(nodes):
                able = [i for i in range(len(nodes)) if i not in done and set(nodes[i][2]) <= done]
                number = self.source.choice(able)
                nodes[number][0].run(nodes[number][1])
                done.add(number)

        self.submit(stream, deed)

    def _cuGraphExecDestroy(self, ready: int) -> None:
        del self.graphs[ready]

    _cuGraphDestroy = _cuGraphExecDestroy

    # ---- what has nothing to do

    def _cuDeviceGet(self, out: Any, ordinal: int) -> None:
        self._fill(out, ordinal)

    def _cuDeviceGetName(self, name: Any, length: int, device: int) -> None:
        name.value = b"a GPU of Python"

    def _cuDeviceGetAttribute(self, out: Any, attribute: int, device: int) -> None:
        known = {
            13: 1_000_000,
            36: 2_000_000,
            37: 1024,
            39: 2048,
            75: self.compute[0],
            76: self.compute[1],
            97: 166_912,
        }
        self._fill(out, known.get(attribute, 4))

    def _cuFuncGetAttribute(self, out: Any, attribute: int, function: int) -> None:
        self._fill(out, {1: 1024, 3: 0, 4: 40}[attribute])

    def _cuOccupancyMaxActiveBlocksPerMultiprocessor(self, out: Any, function: int, threads: int, shared: int) -> None:
        self._fill(out, 3)

    def _cuDevicePrimaryCtxRetain(self, out: Any, device: int) -> None:
        self._fill(out, 1000 + device)

    def _cuCtxSetCurrent(self, context: int) -> None:
        self.context = context

    def _cuGetErrorName(self, code: Any, out: Any) -> int:
        return 1

    _cuGetErrorString = _cuGetErrorName

    def _cuInit(self, flags: int) -> None: ...

    def _cuDeviceGetCount(self, out: Any) -> None:
        self._fill(out, 0)

    def _cuMemGetInfo_v2(self, free: Any, total: Any) -> None:
        self._fill(free, 1000)
        self._fill(total, 2000)

    def _cuModuleLoadDataEx(self, out: Any, text: bytes, *options: Any) -> None:
        self._fill(out, self._new())

    def get_kernels(self, functions: Sequence[UOp], target: Any, gpu: Any) -> list[CudaKernel]:
        """In place of the compiler."""
        return [self._kernel(function) for function in functions]

    def _kernel(self, function: UOp) -> CudaKernel:
        nodes = function.topological(enter_functions=True)
        params = sorted({n for n in nodes if n.op is ops.PARAM}, key=lambda n: n.arg.slot)
        variables = sorted({n for n in nodes if n.op is ops.VARIABLE}, key=lambda n: n.arg.name)
        handle = self._new()
        self.kernels[handle] = Kernel(function, params, variables)
        names = tuple(node.arg.name for node in variables)
        name, slots = function.arg.name, tuple(param.arg.slot for param in params)
        started = name, (f"// {name}".encode,)
        launch = Launch(name, 1, 1, slots, names, ctypes.c_void_p(handle), started=started)
        kernel = self.made[function.src[0]] = CudaKernel((launch,), 0, 0, 0, None)
        return kernel

    def find_kernel(self, function: UOp, target: Any, gpu: Any) -> CudaKernel | None:
        """The same, of what is compiled."""
        return self.made.get(function.src[0])


def _move(target: int, source: int, nbytes: int) -> None:
    ctypes.memmove(target, source, nbytes)


@contextmanager
def fake_gpu(monkeypatch: Any, seed: int = 0, gpus: int = 1) -> Iterator[FakeLibrary]:
    """The device CUDA is made of Python inside."""
    library = FakeLibrary(random.Random(seed))
    driver = Driver(library)
    whit.clear_caches()
    with monkeypatch.context() as patch:
        patch.setattr(runtime_cuda, "load_driver", functools.cache(lambda: driver))
        patch.setattr(runtime_cuda, "device_count", lambda: gpus)
        patch.setattr(runtime_cuda, "_open", {})
        patch.setattr(runtime_cuda, "_forked", "")
        patch.setattr(engine_cuda, "get_cuda_kernels", library.get_kernels)
        patch.setattr(cuda_report, "get_cuda_kernels", library.get_kernels)
        patch.setattr(cuda_report, "find_cuda_kernel", library.find_kernel)
        yield library
    whit.clear_caches()
