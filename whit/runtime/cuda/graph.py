"""A list of launches that a GPU takes as one: a graph of kernels, made once and launched again and again.

    graph = Graph(gpu)
    first = graph.add(function, 8, 256, parameters)
    second = graph.add(function, 8, 256, others, waits=[first])
    graph.finish()
    update(gpu, [graph.words[second]])  # its arguments have changed: they are taken from where they lie
    run, *arguments = graph.launching() # one call, in which no Python runs

Kernels that do not wait for each other may run at once. A kernel that waits for one other is brought to the
multiprocessors while that one still runs, where GPUs can do that (sm_90), and then waits itself: all our kernels begin
with `griddepcontrol.wait`, which ends when those before have finished and what they wrote can be read. Arguments are
read when a kernel is added or updated, so a launch that has begun keeps those that it had.
"""

from __future__ import annotations

import ctypes
from array import array
from collections.abc import Iterable, Sequence
from itertools import chain
from typing import Any

from whit.runtime.cuda.gpu import Gpu
from whit.runtime.pool.threads import call_each

Words = tuple[int, int, int]  # what `cuGraphExecKernelNodeSetParams` takes


class KernelParameters(ctypes.Structure):
    """CUDA_KERNEL_NODE_PARAMS_v2."""

    _fields_ = (
        ("function", ctypes.c_void_p),
        *((name, ctypes.c_uint) for name in ("grid_x", "grid_y", "grid_z", "block_x", "block_y", "block_z")),
        ("shared_bytes", ctypes.c_uint),
        ("parameters", ctypes.c_void_p),  # pointers to the arguments
        ("extra", ctypes.c_void_p),
        ("kernel", ctypes.c_void_p),
        ("context", ctypes.c_void_p),
    )


class Edge(ctypes.Structure):
    """CUgraphEdgeData."""

    _fields_ = (("from_port", ctypes.c_ubyte), ("to_port", ctypes.c_ubyte), ("type", ctypes.c_ubyte),
                ("reserved", ctypes.c_ubyte * 5))  # fmt: skip


MOST_EARLY = 1  # kernels that one may wait for by itself
EARLY = Edge(1, 0, 1)  # from the port PROGRAMMATIC of a kernel, of the type PROGRAMMATIC


class Graph:
    """Kernels with what each waits for."""

    def __init__(self, gpu: Gpu) -> None:
        self.gpu = gpu
        self.ready: Any = None  # what can be launched
        self._graph: Any = None
        gpu.use()
        self._graph = gpu.number("cuGraphCreate", ctypes.c_void_p, 0)
        self.words: list[Words] = []  # of each kernel
        self._nodes: list[Any] = []
        self._records: list[KernelParameters] = []

    def __len__(self) -> int:
        return len(self._nodes)

    def add(
        self, function: Any, blocks: int, threads: int, parameters: Any, waits: Sequence[int] = (), shared: int = 0
    ) -> int:
        """One more kernel; its number. `parameters` are pointers to its arguments, which must stay where they are."""
        record = KernelParameters(function, blocks, 1, 1, threads, 1, 1, shared, ctypes.addressof(parameters))
        nodes = (ctypes.c_void_p * max(len(waits), 1))(*(self._nodes[number] for number in waits))
        is_early = 0 < len(waits) <= MOST_EARLY and self.gpu.starts_early
        known = len(waits)
        node = self.gpu.number(
            "cuGraphAddKernelNode_v2",
            ctypes.c_void_p,
            self._graph,
            nodes,
            0 if is_early else known,
            ctypes.byref(record),
        )
        if is_early:
            later, kinds = (ctypes.c_void_p * known)(*[node] * known), (Edge * known)(*[EARLY] * known)
            self.gpu.driver.cuGraphAddDependencies_v2(self._graph, nodes, later, kinds, known)
        self._nodes.append(node)
        self._records.append(record)
        return len(self._nodes) - 1

    def finish(self) -> None:
        """Makes it ready to be launched."""
        self.ready = self.gpu.number("cuGraphInstantiateWithFlags", ctypes.c_void_p, self._graph, 0)
        records = [ctypes.addressof(record) for record in self._records]
        self.words = [(self.ready, node, record) for node, record in zip(self._nodes, records, strict=True)]

    def launching(self) -> tuple[Any, ...]:
        """The call that starts all kernels: a function, which returns a code, and its arguments."""
        return self.gpu.driver.function("cuGraphLaunch"), self.ready, self.gpu.stream

    def __del__(self) -> None:
        if self.gpu.is_gone:
            return
        if self.ready is not None:
            self.gpu.driver.cuGraphExecDestroy(self.ready)
        if self._graph is not None:
            self.gpu.driver.cuGraphDestroy(self._graph)


def update(gpu: Gpu, kernels: Iterable[Words]) -> None:
    """Takes the arguments of kernels of graphs anew, in one native call: 0.5 us a kernel, 1.7 from Python."""
    words = array("Q", chain.from_iterable(kernels))
    function = "cuGraphExecKernelNodeSetParams_v2"
    gpu.check(function, call_each()(gpu.driver.address(function), words.buffer_info()[0], len(words) // 3))
