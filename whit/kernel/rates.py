"""What machines do in a second, and how long single things take there: one table for each kind of machine.

    rates_of(parse_target("CUDA:PTX:sm_90a"), "bfloat16 by tensor cores")     4.8e12 bytes, 1.07e15 operations a second
    rates_of(parse_target("CPU"))                                            what products and copies reach on a CPU

Those of a GPU are what its data sheet allows: a busy one lowers its clocks, so kernels come near them, not to them.
Those of a CPU were measured, and estimates go by them on every CPU; the limits of the processor that is here are
measured by `whit.engine.report.roofline`. What a kernel costs says `whit.kernel.cost`.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from whit.dtype import DType, dtypes
from whit.records import dataclass

if TYPE_CHECKING:
    from whit.target import Target


@dataclass(frozen=True, slots=True)
class Rates:
    """What a machine does in a second, and what it needs to start a kernel."""

    bytes_per_second: float  # read and written
    flops_per_second: float  # two for a multiply-add; of integers, operations
    launch_seconds: float = 0.0
    threads: int = 1  # that do it together


def rates_of(target: Target, units: str = "float32") -> Rates:
    """Those of a target whose work these units do (`whit.engine.compile.cuda.units_of`)."""
    if not target.is_gpu:
        return CPU_RATES
    gpu = GPUS[target.arch]
    compute = divmod(int(re.sub(r"\D", "", target.arch)), 10)  # "sm_90a": (9, 0)
    return gpu_rates(compute, gpu.multiprocessors, gpu.clock_hertz, gpu.bytes_per_second, units)


# ---- CPUs

# Products, bytes between kernels, and starting one: a fit to 3 x 3 convolutions by Winograd's algorithm on two cores of
# Ice Lake (bench/results/2026-11-15-convolutions.md).
CPU_RATES = Rates(bytes_per_second=31.25e9, flops_per_second=250e9, launch_seconds=10e-6, threads=2)


@dataclass(frozen=True, slots=True)
class CpuCycles:
    """How long single things take on one core, in cycles, and what its caches are made of."""

    # Measured on one core of Ice Lake, by leaving out one part of a kernel after the other (bench/contractions.py).
    fma_latency_cycles: float = 4  # between dependent FMAs: those of one accumulator
    load_cycles: float = 0.5  # there are two ports
    copy_vector_cycles: float = 3  # from and to the first cache
    # more for each line of a long run that comes from there
    l2_line_cycles: float = 4
    l3_line_cycles: float = 10
    memory_line_cycles: float = 18
    l3_stream_line_cycles: float = 8  # for a line that streams from there beside products
    l2_stream_vector_cycles: float = 0.3  # for a vector that does
    page_miss_cycles: float = 8  # of the first TLB
    first_tlb_pages: int = 64
    l1_way_bytes: int = 4096  # between addresses of one set of the first cache: its sets times the size of a line
    # Where cores share the depth of a product; the launches of CPU_RATES are of a fit to other kernels.
    launch_cycles: int = 15_000  # of another kernel
    element_read_cycles: float = 0.25  # to copy an element of a matrix
    window_element_read_cycles: float = 0.5  # the same of an image, whose elements are copied again and again
    add_part_cycles: float = 0.75  # for a result of a part: stored by one core, read by another, added


CPU_CYCLES = CpuCycles()

# ---- GPUs

# Operations of a multiprocessor in a clock, two for a multiply-add: NVIDIA's tables of throughput, and data sheets.
FLOPS_PER_CLOCK: dict[tuple[int, int], dict[str, int]] = {
    (7, 5): {"float64": 4, "float32": 128, "tf32": 128, "half": 1024, "fp8": 1024, "int8": 2048},
    (8, 0): {"float64": 64, "float32": 128, "tf32": 1024, "half": 2048, "fp8": 2048, "int8": 4096},
    (8, 6): {"float64": 4, "float32": 256, "tf32": 256, "half": 512, "fp8": 512, "int8": 2048},
    (8, 9): {"float64": 4, "float32": 256, "tf32": 256, "half": 512, "fp8": 1024, "int8": 2048},
    (9, 0): {"float64": 128, "float32": 256, "tf32": 2048, "half": 4096, "fp8": 8192, "int8": 8192},
    (10, 0): {"float64": 128, "float32": 256, "tf32": 4096, "half": 8192, "fp8": 16384, "int8": 16384},
    (12, 0): {"float64": 4, "float32": 256, "tf32": 256, "half": 512, "fp8": 1024, "int8": 2048},
}


@dataclass(frozen=True, slots=True)
class KnownGpu:
    """One GPU of an architecture."""

    name: str
    multiprocessors: int
    clock_hertz: float
    bytes_per_second: float


# Clocks are those at which FLOPS_PER_CLOCK make what the data sheet says; of the H200, what its driver says.
GPUS = {
    "sm_75": KnownGpu("T4", 40, 1.59e9, 3.2e11),
    "sm_80": KnownGpu("A100 of 80 GB", 108, 1.41e9, 2.04e12),
    "sm_89": KnownGpu("RTX 4090", 128, 2.52e9, 1.01e12),
    "sm_90a": KnownGpu("H200", 132, 1.98e9, 4.8e12),
    "sm_100": KnownGpu("B200", 148, 1.85e9, 8e12),
    "sm_120": KnownGpu("RTX 5090", 170, 2.41e9, 1.79e12),
}


def gpu_rates(
    compute: tuple[int, int], multiprocessors: int, clock_hertz: float, bytes_per_second: float, units: str
) -> Rates:
    """The limits of a GPU of some compute capability, for kernels whose work these units do."""
    known = [each for each in FLOPS_PER_CLOCK if each <= compute] or [min(FLOPS_PER_CLOCK)]
    per_clock = FLOPS_PER_CLOCK[max(known)][_column(units)]
    return Rates(bytes_per_second, per_clock * multiprocessors * clock_hertz)


def _column(units: str) -> str:
    """Where units stand in the table."""
    name, _, tensor_cores = units.partition(" by ")
    if not tensor_cores or name == "tf32":
        return name
    dtype: DType = getattr(dtypes, name)
    if dtype.itemsize == 1:
        return "fp8" if dtype.is_float else "int8"
    return "half"


@dataclass(frozen=True, slots=True)
class ScatterTimes:
    """What scattering values takes on a GPU, in picoseconds of the whole of it."""

    # Measured on an H200 (bench/gpu_memory.py).
    combine_ps: int = 10  # to combine a value in memory, or to go through a place
    search_ps: int = 3_000  # for each row that blocks look for
    ordered_step_ps: int = 130_000  # in order: for each value of one thread
    ordered_value_ps: int = 40  # and for each value of all


SCATTER_TIMES = ScatterTimes()
