"""`torch.cuda`: whether there is a GPU, and what programs ask of it."""

from __future__ import annotations

from typing import Any

from whit.device import Device, canonicalize
from whit.engine.report.counters import GlobalCounters
from whit.errors import WhitError
from whit.tensor.graphs.threefry import seed_with


def is_available() -> bool:
    """Whether a GPU can be opened."""
    try:
        Device["CUDA"]
    except WhitError:
        return False
    return True


def device_count() -> int:
    """How many GPUs there are: at least the one that can be opened."""
    return int(is_available())


def current_device() -> int:
    """The number of the default GPU."""
    return 0


def get_device_name(device: Any = None) -> str:
    """What the default GPU is called."""
    return str(Device["CUDA"].target) if is_available() else ""


def is_bf16_supported() -> bool:
    """Whether bfloat16 works there: it does everywhere."""
    return True


def synchronize(device: Any = None) -> None:
    """Waits for what was queued."""
    Device.synchronize()


def empty_cache() -> None:
    """Nothing to do: memory that nobody uses is free."""


def manual_seed(seed: int) -> None:
    """`torch.manual_seed`: there is one generator."""
    seed_with(seed)


def manual_seed_all(seed: int) -> None:
    """The same."""
    seed_with(seed)


def memory_allocated(device: Any = None) -> int:
    """Bytes in use."""
    return int(GlobalCounters.mem_used)


def max_memory_allocated(device: Any = None) -> int:
    """Most bytes in use so far."""
    return int(GlobalCounters.mem_peak)


def reset_peak_memory_stats(device: Any = None) -> None:
    """Starts over with that."""
    GlobalCounters.reset()


def set_device(device: Any) -> None:
    """The default device."""
    Device.DEFAULT = canonicalize(f"CUDA:{device}" if isinstance(device, int) else device)
