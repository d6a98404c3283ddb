"""The devices of this process, under the name that programs import: `from whit.device import Device`."""

from whit.engine.devices.device import Device, canonicalize

__all__ = ["Device", "canonicalize"]
