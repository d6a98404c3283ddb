"""The devices of this process, under the name that programs import: `from whit.device import Device`."""

from whit.engine.device import Device, canonicalize
from whit.runtime.buffer import Buffer, OutOfMemoryError

__all__ = ["Buffer", "Device", "OutOfMemoryError", "canonicalize"]
