"""What GPUs allow at most: by what their driver says of one, or of one that is not here by its data sheet.

    gpu_roof((9, 0), 132, 1.98e9, 4.8e12, "bfloat16 by tensor cores")     bytes and operations a second
    known_roof("sm_90a", "float32")                                         those of an H200, for DEV=NULL:PTX:sm_90a

A busy GPU lowers its clocks, so kernels come near these limits, not to them.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from whit.dtype import DType, dtypes
from whit.engine.report.roofline import Roof

# Operations of a multiprocessor in a clock, two for a multiply-add: NVIDIA's tables of throughput, and data sheets.
PEAKS: dict[tuple[int, int], dict[str, int]] = {
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
    clock: float  # a second
    bandwidth: float  # bytes a second


# Clocks are those at which the operations of PEAKS are those of the data sheet; of the H200, what its driver says.
KNOWN = {
    "sm_75": KnownGpu("T4", 40, 1.59e9, 3.2e11),
    "sm_80": KnownGpu("A100 of 80 GB", 108, 1.41e9, 2.04e12),
    "sm_89": KnownGpu("RTX 4090", 128, 2.52e9, 1.01e12),
    "sm_90a": KnownGpu("H200", 132, 1.98e9, 4.8e12),
    "sm_100": KnownGpu("B200", 148, 1.85e9, 8e12),
    "sm_120": KnownGpu("RTX 5090", 170, 2.41e9, 1.79e12),
}


def gpu_roof(compute: tuple[int, int], multiprocessors: int, clock: float, bandwidth: float, units: str) -> Roof:
    """The limits for kernels whose work these units do (`cuda_compile.units_of`)."""
    known = [each for each in PEAKS if each <= compute] or [min(PEAKS)]
    return Roof(bandwidth, PEAKS[max(known)][_column(units)] * multiprocessors * clock, 1)


def known_roof(arch: str, units: str) -> tuple[Roof, str]:
    """The limits of a GPU of an architecture, and what it is called."""
    gpu = KNOWN[arch]
    compute = divmod(int(re.sub(r"\D", "", arch)), 10)  # "sm_90a": (9, 0)
    return gpu_roof(compute, gpu.multiprocessors, gpu.clock, gpu.bandwidth, units), f"{gpu.name}, by its data sheet"


def _column(units: str) -> str:
    """Where units stand in the tables."""
    name, _, tensor_cores = units.partition(" by ")
    if not tensor_cores or name == "tf32":
        return name
    dtype: DType = getattr(dtypes, name)
    if dtype.itemsize == 1:
        return "fp8" if dtype.is_float else "int8"
    return "half"
