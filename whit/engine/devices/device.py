"""Devices by name: which there are, which one is the default, and how one is opened.

    Device["CPU"].synchronize()
    Device.DEFAULT                      # "CPU"; settable; also DEV in the environment and Context(DEV=...)
    Device.canonicalize("cuda:0")       # "CUDA"
    Device["CPU:C"].target              # what its kernels are compiled for

A name is a kind and an optional index, target or path: `CPU`, `CPU:1`, `CPU:C`, `NULL:LLVM:cortex-a76`, `DISK:/data/x`.
Index 0 is left out, and so is what a target says about this machine anyway: `CPU:LLVM` is `CPU`. Paths are made
absolute. Each name is a device of its own. Asking for a name opens nothing; `Device[name]` does, once, and this is the
one place where backends are loaded by name.
"""

from __future__ import annotations

import importlib
import os
import threading
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Protocol

from whit.cache import register_cache
from whit.config import DEV
from whit.dtype import DType, dtypes
from whit.errors import ArgumentError, DeviceError, WhitError, nearest

if TYPE_CHECKING:
    from whit.engine.plan.plan import Plan
    from whit.target import Target

# kind -> the module of its backend, which has `open_device(name)`; "" where whit knows the name and cannot open it yet
BACKENDS: dict[str, str] = {
    "CPU": "whit.engine.devices.cpu",
    "PYTHON": "whit.engine.devices.python",
    "NULL": "whit.engine.devices.null",
    "CUDA": "whit.engine.devices.cuda",
    "CL": "",
    "WEBGPU": "",
    "DISK": "whit.engine.devices.disk",
    "REMOTE": "",
}
WITH_PATH = ("DISK", "REMOTE")
WITH_TARGET = ("CPU", "NULL")  # kinds that compile for what their names say

Calls = Sequence[tuple[Any, ...]]  # functions of C with their arguments
NOTHING: Calls = ()


class Renderer:
    """What a device can be asked about the language of its kernels."""

    __slots__ = ("device",)

    def __init__(self, device: str) -> None:
        self.device = device

    def supported_dtypes(self) -> set[DType]:
        """The dtypes that kernels can compute in: all, as those that a machine lacks are computed in others."""
        return set(dtypes.all)


class Rendering:
    """A device that says what its kernels can be."""

    name: str

    @property
    def renderer(self) -> Renderer:
        """What its kernels can be."""
        return Renderer(self.name)


class Backend(Protocol):
    """An open device."""

    name: str
    target: Target | None  # what kernels are compiled for; None where nothing is compiled

    @property
    def renderer(self) -> Renderer:
        """What its kernels can be."""

    def load(self, plan: Plan) -> Any:
        """The plan as something that `run` takes: kernels compiled and linked."""

    def run(self, loaded: Any, buffers: Any, variables: Any, then: Calls = NOTHING) -> None:
        """Executes a loaded plan on these buffers, by slot, with these values of variables, by name. Then it makes the
        calls that note which memory was written over, best with no Python in between, where an interrupt may come."""

    def synchronize(self) -> None:
        """Returns when everything that was started has finished."""


def canonicalize(name: str | None) -> str:
    """The one spelling of a device's name; of None, the default device."""
    if name is None:
        return Device.DEFAULT
    known = _canonical.get(name) if isinstance(name, str) else None
    return known if known is not None else _canonicalize(name)


_canonical: dict[str, str] = {}


def _canonicalize(name: str) -> str:
    if not isinstance(name, str):
        raise ArgumentError(f"device: {name!r} is no name of a device", fix='Give a string, as in "CPU".')
    kind, _, rest = name.strip().partition(":")
    kind = kind.upper()
    if kind not in BACKENDS:
        raise DeviceError(
            f'device: there is no device "{name}".{nearest(kind, BACKENDS)}', f"known: {', '.join(BACKENDS)}"
        )
    if kind == "DISK":
        if not rest:
            raise DeviceError(f'device: "{name}" names no file', fix='Write the path after it: "DISK:/data/x".')
        return f"DISK:{os.path.abspath(rest)}"  # not kept: the current folder may change
    if kind in WITH_PATH:
        result = f"{kind}:{rest}"
    elif not rest or rest.isdecimal():
        result = f"{kind}:{int(rest)}" if rest and int(rest) else kind
    elif kind in WITH_TARGET:
        result = kind + _canonical_target(kind, rest, name)
    else:
        raise DeviceError(
            f'device: "{rest}" in "{name}" is no number', fix=f'Write "{kind}" or "{kind}:1".{_only(rest)}'
        )
    _canonical[name] = result
    return result


def _only(rest: str) -> str:
    """What to add about a target of a GPU."""
    return f' "NULL:{rest}" compiles for that, and runs nothing.' if rest.upper().startswith("PTX") else ""


def _canonical_target(kind: str, rest: str, name: str) -> str:
    """What follows the kind: nothing for this machine through LLVM, `:C` through C, `:LLVM:haswell` for another one."""
    from whit.target import is_host, parse_target  # lazy: most names need none, and it reads what the machine is

    target = parse_target(f"{kind}:{rest}", name)
    if not is_host(target.arch):
        return f":{target.renderer}:{target.arch}"
    return "" if target.renderer == "LLVM" else f":{target.renderer}"


def target_text(name: str) -> str:
    """What `parse_target` reads, of the canonical name of a device that compiles: "CPU" for "CPU:1"."""
    kind, _, rest = name.partition(":")
    return kind if rest.isdecimal() else name


def usable(name: str | None) -> str:
    """`canonicalize` of a device that this version of whit can open."""
    canonical = canonicalize(name)
    _backend(canonical)
    return canonical


def _backend(name: str) -> str:
    """The module of a device's backend."""
    module = BACKENDS[name.partition(":")[0]]
    if not module:
        raise DeviceError(
            f"device: {name} cannot be opened by this version of whit",
            f"devices that can: {', '.join(kind for kind in BACKENDS if BACKENDS[kind])}",
        )
    return module


def _able(name: str) -> str:
    """A device that can compute, as the default one must."""
    _backend(name)
    if is_disk(name):
        raise DeviceError(
            f"device: {name} cannot be the default", "it is a file", 'Use it by name: x.to("disk:/path").'
        )
    return name


def is_disk(device: str | None) -> bool:
    """Whether this is the canonical name of a file."""
    return device is not None and device.startswith("DISK:")


def is_gpu(device: str) -> bool:
    """Whether kernels of a device, by its canonical name, are for a GPU, also for one that is not here."""
    return device.startswith(("CUDA", "NULL:PTX"))


class Devices:
    """The devices of this process; use the one instance, `Device`."""

    __slots__ = ("_assigned", "_lock", "_open")

    def __init__(self) -> None:
        self._assigned = ""
        self._open: dict[str, Backend] = {}
        self._lock = threading.RLock()

    def __getitem__(self, name: str | None) -> Backend:
        """The device of that name, opened if it is not yet."""
        canonical = canonicalize(name)
        found = self._open.get(canonical)
        return found if found is not None else self._opened(canonical)

    def _opened(self, name: str) -> Backend:
        module = _backend(name)
        with self._lock:
            if name not in self._open:
                backend = importlib.import_module(module)  # lazy: a device that nobody uses is not loaded
                self._open[name] = backend.open_device(name)
            return self._open[name]

    @property
    def DEFAULT(self) -> str:  # noqa: N802  # the name that programs use
        """The device of tensors that name none."""
        scoped = DEV.scoped
        if scoped is None and self._assigned:
            return self._assigned
        name = DEV.value
        return _able(canonicalize(name)) if name else "CPU"

    @DEFAULT.setter
    def DEFAULT(self, name: str) -> None:  # noqa: N802
        canonical = _able(canonicalize(name))
        if DEV.scoped is not None:
            DEV.assign(canonical)
        else:  # threads start with an empty context, so an assignment has to be process-wide to reach them
            self._assigned = canonical

    def canonicalize(self, name: str | None) -> str:
        """The one spelling of a device's name; of None, the default device."""
        return canonicalize(name)

    @property
    def default(self) -> Backend:
        """The device of tensors that name none, opened."""
        return self[self.DEFAULT]

    def get_available_devices(self) -> list[str]:
        """The kinds of devices that compute and can be opened here; looking for GPUs opens them."""
        found = []
        for kind, module in BACKENDS.items():
            if module and kind != "DISK" and self._can_open(kind):
                found.append(kind)
        return found

    def _can_open(self, kind: str) -> bool:
        try:
            self[kind]
        except WhitError:
            return False
        return True

    def opened(self) -> list[str]:
        """The devices opened so far."""
        return list(self._open)

    def synchronize(self) -> None:
        """Returns when all devices are done."""
        for backend in list(self._open.values()):
            backend.synchronize()

    def close(self) -> None:
        """Forgets the open devices; the next use opens them again."""
        self._open.clear()


Device = Devices()
_targets: dict[str, Target | None] = {}  # of devices by their canonical names


def target_of(name: str) -> Target | None:
    """What kernels of a device, by its canonical name, are compiled for; None where nothing is compiled.

    A GPU is opened, which alone knows what it is. One that is not here counts as the oldest: its graphs can be built.
    """
    if name not in _targets:
        _targets[name] = _target_of(name)
    return _targets[name]


def _target_of(name: str) -> Target | None:
    from whit.target import parse_target  # lazy: as above

    kind = name.partition(":")[0]
    if kind in WITH_TARGET:
        return parse_target(target_text(name))
    if kind != "CUDA":
        return None
    try:
        return Device[name].target
    except DeviceError:
        return parse_target(kind)


register_cache(Device.close, "engine.devices")
register_cache(_targets.clear, "engine.targets")
register_cache(_canonical.clear, "engine.device_names")
