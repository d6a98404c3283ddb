"""What a GPU allows a kernel, and how long it takes there: for the reports about kernels.

    roofline_of(gpu, "bfloat16 by tensor cores")    bytes and operations a second
    measure(function, "CUDA", 0.1)              the fastest run on memory of its own

The limits follow from clocks, the width of the memory's bus and the number of multiprocessors, which the driver knows,
and from what a multiprocessor does in a clock (`gpu_rates`).
"""

from __future__ import annotations

import time

from whit.engine.compile.cuda import CudaKernel, find_cuda_kernel, get_cuda_kernels, occupancy
from whit.engine.compile.tune.check import values
from whit.engine.devices.cuda import Arguments, CudaDevice
from whit.engine.devices.device import Device
from whit.engine.memory.storage import nbytes_of
from whit.ir import ops
from whit.ir.uop import UOp
from whit.kernel.rates import Rates, gpu_rates
from whit.runtime.cuda.buffer import CudaBuffer
from whit.runtime.cuda.gpu import Gpu

CLOCK_KHZ, MEMORY_CLOCK_KHZ, BUS_WIDTH_BITS = 13, 36, 37  # kHz, kHz, bits
IN_A_ROW = 10


def roofline_of(gpu: Gpu, units: str) -> Rates:
    """The limits of a GPU for kernels whose work these units do."""
    # two bits of a line in a clock
    bandwidth = 2 * gpu.attribute(MEMORY_CLOCK_KHZ) * 1e3 * gpu.attribute(BUS_WIDTH_BITS) / 8
    return gpu_rates(gpu.compute, gpu.multiprocessors, gpu.attribute(CLOCK_KHZ) * 1e3, bandwidth, units)


def known_units(function: UOp, device: str) -> str:
    """The units of a kernel; nothing if it was not compiled yet."""
    kernel = _compiled(function, device)
    return "" if kernel is None else kernel.units


def _compiled(function: UOp, device: str) -> CudaKernel | None:
    backend = Device[device]
    assert isinstance(backend, CudaDevice), "a name of CUDA is a CUDA device"
    return find_cuda_kernel(function, backend.target, backend.gpu)


def occupancies(function: UOp, device: str) -> list[str]:
    """How each launch of a kernel fills the GPU; nothing if it was not compiled yet."""
    kernel, gpu = _compiled(function, device), Device[device].gpu  # type: ignore[attr-defined]
    return [] if kernel is None else [occupancy(launch, gpu) for launch in kernel.launches]


def measure(function: UOp, device: str, seconds: float) -> float:
    """Runs a kernel for so long on random inputs, launch after launch; the time of the fastest run."""
    backend = Device[device]
    assert isinstance(backend, CudaDevice), "a name of CUDA is a CUDA device"
    gpu = backend.gpu
    (kernel,) = get_cuda_kernels([function], backend.target, gpu)
    params = {node.arg.slot: node for node in function.src[0].topological() if node.op is ops.PARAM}
    memory = {slot: CudaBuffer(device, nbytes_of(param.dtype, param.shape)) for slot, param in params.items()}
    for slot, param in params.items():
        content = values(param, "random", False, slot)
        if content.nbytes:
            gpu.transfers.upload(memory[slot].address, content.ctypes.data, content.nbytes)
    addresses = [memory[slot].address if slot in memory else 0 for slot in range(max(params, default=-1) + 1)]
    launches = [Arguments(launch) for launch in kernel.launches]
    for each in launches:
        each.fill(addresses, {})
    found: list[int] = []

    def note(moments: list[int]) -> None:
        found.extend(end - start for start, end in zip(moments[::2], moments[1::2], strict=True))

    end = time.perf_counter() + seconds
    with gpu.lock:
        while not found or time.perf_counter() < end:
            events = []
            for _ in range(IN_A_ROW):
                events.append(gpu.times.mark(gpu.stream))
                for each in launches:
                    backend.launch(each)
                events.append(gpu.times.mark(gpu.stream))
            gpu.times.tell(events, note)
            gpu.synchronize()
            gpu.times.settle()
    return min(found) * 1e-9
