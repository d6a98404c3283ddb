"""Facts about this process and its machine, for `doctor`; gathering them changes nothing but for the cache folder.

`Machine` is a plain record, so that every diagnosis can be tested on machines that are not here.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import platform
import shutil
import sys
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path

from whit.config import CACHE, settings
from whit.engine.compile import disk_cache
from whit.errors import DeviceError, ParseError
from whit.runtime.code.gcc import find_compiler
from whit.runtime.pool.threads import thread_count
from whit.target import Target, available_cores, host_target

# What pyproject.toml asks for.
PYTHON = (3, 11)
PACKAGES = {"numpy": (1, 26), "ml_dtypes": (0, 5), "llvmlite": (0, 45)}

# Vendors of GPUs on the PCI bus, and the library that a driver of theirs brings.
VENDORS = {"0x10de": ("NVIDIA", "libcuda.so.1"), "0x1002": ("AMD", "libamdhip64.so")}
GPU_CLASSES = ("0x0300", "0x0302", "0x0380", "0x1200")  # displays, 3D controllers, accelerators


@dataclass(frozen=True, slots=True)
class Machine:
    """What `doctor` looks at."""

    python: tuple[int, ...]
    packages: Mapping[str, str | None]  # name -> version, None if it is not installed
    environment: Mapping[str, str]
    bad_settings: Mapping[str, str]  # name -> what is wrong with its value
    target: Target | None  # None if whit has no code for the processor
    processor: str  # in the system's words
    cores: int  # that this process may use
    all_cores: int
    quota: float | None  # cores' worth of time that a container may use; None: no limit
    threads: int  # that a kernel uses
    memory: int | None  # bytes that can be had now; None: unknown
    cache_on: bool
    cache_folder: str
    cache_error: str  # why it cannot be written, or ""
    disk_free: int | None  # bytes free where the cache folder is
    gpus: tuple[tuple[str, bool], ...]  # vendor, and whether its driver's library can be loaded
    compiler: str | None  # of C


def this_machine() -> Machine:
    """The facts."""
    folder, problem = _cache_folder()
    return Machine(
        python=tuple(sys.version_info[:3]),
        packages=package_versions(),
        environment=dict(os.environ),
        bad_settings=_bad_settings(),
        target=_target(),
        processor=platform.machine() or "unknown",
        cores=available_cores(),
        all_cores=os.cpu_count() or 1,
        quota=_quota(),
        threads=_threads(),
        memory=_memory(),
        cache_on=_cache_on(),
        cache_folder=folder,
        cache_error=problem,
        disk_free=_disk_free(folder),
        gpus=_gpus(),
        compiler=find_compiler(),
    )


def package_versions() -> dict[str, str | None]:
    """The installed versions of what whit needs."""
    found: dict[str, str | None] = {}
    for name in PACKAGES:
        try:
            found[name] = metadata.version(name)
        except metadata.PackageNotFoundError:
            found[name] = None
    return found


def _bad_settings() -> dict[str, str]:
    found = {}
    for variable in settings():
        try:
            _ = variable.value
        except ParseError as error:
            found[variable.setting.name] = error.what
    return found


def _target() -> Target | None:
    try:
        return host_target()
    except DeviceError:
        return None


def _threads() -> int:
    try:
        return thread_count()
    except ParseError:  # THREADS is no number, which is among the bad settings
        return available_cores()


def _cache_on() -> bool:
    try:
        return bool(CACHE)
    except ParseError:
        return True


# ---- memory and time, also inside a container


def _quota() -> float | None:
    """Cores' worth of time that a container may use."""
    allowed, _, period = _read("/sys/fs/cgroup/cpu.max").partition(" ")
    try:
        return int(allowed) / int(period)
    except (ValueError, ZeroDivisionError):  # "max", or no such file
        return None


def _memory() -> int | None:
    """Bytes that can still be had: of the machine, and of the container."""
    found = []
    for line in _read("/proc/meminfo").splitlines():
        if line.startswith("MemAvailable:"):
            found.append(int(line.split()[1]) * 1024)
    with contextlib.suppress(ValueError):
        limit = int(_read("/sys/fs/cgroup/memory.max"))
        found.append(limit - int(_read("/sys/fs/cgroup/memory.current")))
    return max(min(found), 0) if found else None


def _read(path: str) -> str:
    try:
        return Path(path).read_text().strip()
    except (OSError, UnicodeDecodeError):
        return ""


# ---- the cache folder


def _cache_folder() -> tuple[str, str]:
    """The folder, and why it cannot be written. It is made if it is not there, as the first kernel would do."""
    folder = ""
    try:
        folder = disk_cache.folder()
        disk_cache.make_folder(folder)
        with tempfile.TemporaryFile(dir=folder) as file:
            file.write(bytes(4096))
    except OSError as error:
        return folder, error.strerror or str(error)
    return folder, ""


def _disk_free(folder: str) -> int | None:
    try:
        return shutil.disk_usage(folder).free
    except OSError:
        return None


# ---- accelerators


def _gpus() -> tuple[tuple[str, bool], ...]:
    """The vendors of the GPUs that are plugged in, each once, and whether there is a driver."""
    found: dict[str, bool] = {}
    for device in sorted(Path("/sys/bus/pci/devices").glob("*")):
        vendor = VENDORS.get(_read(f"{device}/vendor"))
        if vendor is not None and _read(f"{device}/class")[:6] in GPU_CLASSES:
            name, library = vendor
            found[name] = _can_load(library)
    return tuple(found.items())


def _can_load(library: str) -> bool:
    try:
        ctypes.CDLL(library)
    except OSError:
        return False
    return True
