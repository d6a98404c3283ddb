"""How many NVIDIA GPUs this machine has, asked in a way that leaves the process able to fork."""

import ctypes

import pytest


def _count() -> int:
    try:
        library = ctypes.CDLL("libcuda.so.1")
    except OSError:
        return 0
    count = ctypes.c_int()
    return count.value if not library.cuInit(0) and not library.cuDeviceGetCount(ctypes.byref(count)) else 0


GPUS = _count()
needs_gpu = pytest.mark.skipif(not GPUS, reason="there is no NVIDIA GPU")
