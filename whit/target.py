"""What the compiler has to know about a machine: `parse_target("CPU:LLVM:znver4")` gives one frozen `Target`.

A target is written `device:renderer:arch`. The parts on the right may be left out, and are then what this machine has:

    parse_target("CPU")                     this machine's processor, through LLVM
    parse_target("CPU:C")                   the same, through C and a compiler
    parse_target("CPU:LLVM:x86-64")         any x86 with 64 bits: SSE2 and nothing more
    parse_target("CPU:LLVM:cortex-a76")     another architecture; compiles here, runs there
    parse_target("CUDA:PTX:sm_90a")         an NVIDIA GPU; of one whose architecture is left out, the oldest
    parse_target("NULL:PTX:sm_90a")         the same target: NULL stands for any device that is not here

`str(target)` is such a string, and reads back as the same target. Nothing here opens a device or loads a compiler.
The names of architectures are LLVM's.
"""

from __future__ import annotations

import functools
import os
import sys

from whit.cache import register_cache
from whit.dtype import DType, dtypes
from whit.errors import DeviceError, nearest
from whit.records import dataclass, replace

KiB = 1024
MiB = 1024 * KiB
CACHE_LINE_BYTES = 64  # of processors: what moves between caches and memory at once
PAGE_BYTES = 4096  # of processors: nothing is prefetched by the hardware beyond one


@dataclass(frozen=True, slots=True)
class Target:
    """One machine to compile for. The field order is the order of reading."""

    device: str  # "CPU"
    renderer: str  # "LLVM" or "C"
    arch: str  # LLVM's name of the processor; decides `features`
    family: str  # "x86_64" or "aarch64"
    vector_bytes: int  # width of a vector register
    vector_registers: int
    features: frozenset[str]  # instruction sets beyond the family's baseline, under LLVM's names
    cores: int
    l1_bytes: int  # data cache of one core
    l2_bytes: int  # of one core
    l3_bytes: int  # of all cores together; 0 where there is none
    system: str = "linux"  # "linux", "darwin" or "windows"
    shared_bytes: int = 0  # of a GPU: shared memory of a block that asks for it

    def __str__(self) -> str:
        return f"{self.device}:{self.renderer}:{self.arch}"

    @property
    def has_fma(self) -> bool:
        """Whether x * y + z with one rounding is an instruction."""
        return "fma" in self.features

    @property
    def multipliers(self) -> int:
        """Vectors that are multiplied and added in one cycle."""
        return 1 if self.arch == "znver4" else 2  # Zen 4 takes a vector of 64 bytes in halves

    @property
    def is_gpu(self) -> bool:
        """Whether code is run by blocks of threads."""
        return self.family == "nvptx64"

    @property
    def has_async_copies(self) -> bool:
        """Of a GPU: whether memory is copied to shared memory while a thread goes on (`cp.async`)."""
        return "sm_80" in self.features

    @property
    def has_bfloat16(self) -> bool:
        """Of a GPU: whether it computes with bfloat16, and its tensor cores multiply it."""
        return "sm_80" in self.features

    @property
    def has_tf32(self) -> bool:
        """Of a GPU: whether tensor cores multiply float32 with 10 bits of mantissa."""
        return "sm_80" in self.features

    @property
    def has_wide_mma(self) -> bool:
        """Of a GPU: whether a warp multiplies 16 x 16 by 16 x 8 float16, or twice as deep int8, in one instruction."""
        return "sm_80" in self.features

    @property
    def has_paired_conversions(self) -> bool:
        """Of a GPU: whether two float32 become two 16-bit floats of one register in one instruction."""
        return "sm_80" in self.features

    @property
    def has_extremes_of_nan(self) -> bool:
        """Of a GPU: whether there is a maximum of float32 that is NaN if either number is."""
        return "sm_80" in self.features

    @property
    def has_fp8(self) -> bool:
        """Of a GPU: whether it converts fp8, and its tensor cores multiply it."""
        return "sm_89" in self.features

    @property
    def has_early_launches(self) -> bool:
        """Of a GPU: whether a kernel is started before the one that it waits for has finished (`griddepcontrol`)."""
        return "sm_90" in self.features

    @property
    def has_wgmma(self) -> bool:
        """Of a GPU: whether four warps multiply together, tiles that a copy engine (TMA) brings and takes."""
        return self.arch == "sm_90a"  # not on newer ones

    @property
    def attention_dtypes(self) -> tuple[DType, ...] | None:
        """What attention is computed of block by block, so that its scores are never stored; None: anything."""
        if not self.is_gpu:
            return None
        return dtypes.float16s if self.has_bfloat16 else (dtypes.float16,)

    @property
    def has_half(self) -> bool:
        """Whether float16 <-> float32 is an instruction."""
        return "f16c" in self.features or self.family == "aarch64"

    @property
    def triple(self) -> str:
        """The machine in LLVM's words."""
        return f"{self.family}-{_VENDOR_AND_SYSTEM[self.system]}"

    @property
    def cpu(self) -> str:
        """LLVM's name of the processor."""
        return "generic" if self.arch == self.family else self.arch

    @property
    def llvm_features(self) -> str:
        """What LLVM must know besides the processor."""
        return "+reserve-x18" if self.system == "darwin" and self.family == "aarch64" else ""


# Objects are ELF everywhere, since they are only linked in memory. On macOS kernels follow Linux's calling convention,
# the same for pointers and integers, and leave alone the register that macOS keeps for itself (`llvm_features`).
_VENDOR_AND_SYSTEM = {"linux": "unknown-linux-gnu", "darwin": "unknown-linux-gnu", "windows": "pc-windows-msvc-elf"}

# ---- architectures

_SSE4 = frozenset({"sse3", "ssse3", "sse4.1", "sse4.2", "popcnt", "cx16"})
_AVX2 = _SSE4 | {"avx", "avx2", "fma", "f16c", "bmi", "bmi2", "lzcnt", "movbe"}
_AVX512 = _AVX2 | {"avx512f", "avx512bw", "avx512cd", "avx512dq", "avx512vl"}
_VNNI = _AVX512 | {"avx512vnni"}
_ICELAKE = _VNNI | {"avx512ifma", "avx512vbmi", "avx512vbmi2", "avx512bitalg", "avx512vpopcntdq", "gfni"}
_NEON = frozenset({"neon", "fma"})
_NEON_DOT = _NEON | {"fullfp16", "dotprod"}
_SVE = _NEON_DOT | {"sve"}


@dataclass(frozen=True, slots=True)
class _Arch:
    """A processor: what LLVM may use on it, and its caches where nothing better is known."""

    family: str
    features: frozenset[str]
    l1: int = 32 * KiB
    l2: int = 1 * MiB
    l3: int = 32 * MiB
    cores: int = 8
    shared: int = 0

    @property
    def vector_bytes(self) -> int:
        if "avx512f" in self.features:
            return 64
        return 32 if "avx2" in self.features else 16

    @property
    def vector_registers(self) -> int:
        return 32 if self.family == "aarch64" or "avx512f" in self.features else 16


@dataclass(frozen=True, slots=True)
class GpuLimits:
    """What all of these GPUs have in common, as far as kernels use it; what differs stands in a GPU's row."""

    launch_blocks: int = (1 << 31) - 1
    block_threads: int = 1024
    warp_threads: int = 32
    warp_group_threads: int = 128  # four warps: they multiply together, and registers are given to as many
    cluster_blocks: int = 8  # of any kernel; more have to be asked for
    resident_threads: int = 2048  # that a multiprocessor runs at once
    shared_bytes: int = 48 * KiB  # of a block that does not ask for more
    most_shared_bytes: int = 227 * KiB  # of one that does: on sm_80 163 KiB, on sm_75 64 KiB
    paired_shared_bytes: int = 113 * KiB  # of a block, where two are to run on a multiprocessor at once
    access_bytes: int = 16  # of a thread's widest access, at a multiple of it; params begin at one, too
    swizzle_bytes: int = 128  # of a line of shared memory, as warp groups and the copy engine (TMA) want it
    l2_line_bytes: int = 128  # that the second cache reads at once
    window_step: int = 8  # from one window of an image to the next, that the copy engine takes
    # how far a window may be outside of an image, by the number of axes: the same
    window_corners: tuple[int, ...] = (1 << 15, 1 << 7, 1 << 4)


GPU_LIMITS = GpuLimits()

# Of a GPU: cores are multiprocessors, vectors are what one thread loads at once, and l1 is a block's shared memory; if
# it asks for more it gets `shared`. Features beyond the oldest are whole generations: the instructions that came with
# sm_80 (bfloat16, tf32, cp.async, max.NaN), sm_89 (fp8) and sm_90 (griddepcontrol, cp.async.bulk).
_TURING = frozenset({"fma", "f16c"})
_AMPERE = _TURING | {"sm_80"}
_ADA = _AMPERE | {"sm_89"}
_HOPPER = _ADA | {"sm_90"}
_GPUS = {
    "sm_75": _Arch("nvptx64", _TURING, l1=48 * KiB, l2=4 * MiB, l3=0, cores=40, shared=64 * KiB),
    "sm_80": _Arch("nvptx64", _AMPERE, l1=48 * KiB, l2=40 * MiB, l3=0, cores=108, shared=163 * KiB),
    "sm_89": _Arch("nvptx64", _ADA, l1=48 * KiB, l2=72 * MiB, l3=0, cores=128, shared=99 * KiB),
    "sm_90a": _Arch("nvptx64", _HOPPER, l1=48 * KiB, l2=50 * MiB, l3=0, cores=132, shared=227 * KiB),
    "sm_100": _Arch("nvptx64", _HOPPER, l1=48 * KiB, l2=126 * MiB, l3=0, cores=148, shared=227 * KiB),
    "sm_120": _Arch("nvptx64", _HOPPER, l1=48 * KiB, l2=96 * MiB, l3=0, cores=170, shared=99 * KiB),
}

# From the best to the plainest: the first whose features a processor has describes it, unless its model says more.
_ARCHS = {
    "x86-64-v4": _Arch("x86_64", _AVX512),
    "x86-64-v3": _Arch("x86_64", _AVX2, l2=256 * KiB),
    "x86-64-v2": _Arch("x86_64", _SSE4, l2=256 * KiB),
    "x86-64": _Arch("x86_64", frozenset(), l2=256 * KiB),
    "haswell": _Arch("x86_64", _AVX2, l2=256 * KiB),
    "skylake": _Arch("x86_64", _AVX2, l2=256 * KiB, l3=8 * MiB),
    "alderlake": _Arch("x86_64", _AVX2 | {"avxvnni", "gfni"}, l1=48 * KiB),
    "skylake-avx512": _Arch("x86_64", _AVX512),
    "cascadelake": _Arch("x86_64", _VNNI),
    "icelake-server": _Arch("x86_64", _ICELAKE, l1=48 * KiB, l2=1280 * KiB),
    "sapphirerapids": _Arch("x86_64", _ICELAKE | {"avx512bf16", "avx512fp16", "avxvnni"}, l1=48 * KiB, l2=2 * MiB),
    "znver2": _Arch("x86_64", _AVX2, l2=512 * KiB),
    "znver3": _Arch("x86_64", _AVX2, l2=512 * KiB),
    "znver4": _Arch("x86_64", _ICELAKE | {"avx512bf16"}),
    "znver5": _Arch("x86_64", _ICELAKE | {"avx512bf16", "avxvnni"}, l1=48 * KiB),
    "aarch64": _Arch("aarch64", _NEON, l2=512 * KiB, l3=4 * MiB),
    "cortex-a72": _Arch("aarch64", _NEON, l3=0, cores=4),
    "cortex-a76": _Arch("aarch64", _NEON_DOT, l1=64 * KiB, l2=512 * KiB, l3=2 * MiB, cores=4),
    "neoverse-n1": _Arch("aarch64", _NEON_DOT, l1=64 * KiB),
    "neoverse-v1": _Arch("aarch64", _SVE, l1=64 * KiB),
    "apple-m1": _Arch("aarch64", _NEON_DOT, l1=128 * KiB, l2=12 * MiB, l3=0),
}
_LEVELS = ("x86-64-v4", "x86-64-v3", "x86-64-v2", "x86-64")

# (vendor, family) of /proc/cpuinfo -> [(last model number, name)]; beyond the last one the level decides.
_X86_MODELS = {
    ("AuthenticAMD", 23): [(255, "znver2")],
    ("AuthenticAMD", 25): [(0x0F, "znver3"), (0x1F, "znver4"), (0x5F, "znver3"), (0xAF, "znver4")],
    ("AuthenticAMD", 26): [(255, "znver5")],
    ("GenuineIntel", 6): [
        (0x54, ""),
        (0x55, "skylake-avx512"),
        (0x69, ""),
        (0x6A, "icelake-server"),
        (0x8E, ""),
        (0x8F, "sapphirerapids"),
        (0xCE, ""),
        (0xCF, "sapphirerapids"),
    ],
}

# What Linux calls a feature where LLVM calls it something else.
_LINUX_FLAGS = {
    "sse3": "pni",
    "sse4.1": "sse4_1",
    "sse4.2": "sse4_2",
    "bmi": "bmi1",
    "lzcnt": "abm",
    "avx512vnni": "avx512_vnni",
    "avx512vbmi2": "avx512_vbmi2",
    "avx512bitalg": "avx512_bitalg",
    "avx512vpopcntdq": "avx512_vpopcntdq",
    "avx512bf16": "avx512_bf16",
    "avx512fp16": "avx512_fp16",
    "avxvnni": "avx_vnni",
}
_LINUX_FLAGS_ARM = {"neon": "asimd", "fma": "asimd", "fullfp16": "asimdhp", "dotprod": "asimddp"}

# ---- this machine


def _machine() -> str:
    """The processor family in the system's words. The platform module knows too, but takes longer to load."""
    return os.uname().machine if hasattr(os, "uname") else os.environ.get("PROCESSOR_ARCHITECTURE", "")


@functools.cache
def host_target() -> Target:
    """This machine's processor, through LLVM. Reads two small files on Linux and nothing elsewhere; kept."""
    machine = _machine().lower()
    if machine in ("arm64", "aarch64"):
        arch = "apple-m1" if sys.platform == "darwin" else "aarch64"
    elif machine in ("x86_64", "amd64"):
        arch = _x86_arch(_first_processor())
    else:
        raise DeviceError(
            f"target: no code can be made for this machine, a {_machine() or 'nameless one'}",
            fix='Name another target, as in "CPU:LLVM:x86-64", to compile for a machine that is not this one.',
        )
    row = _ARCHS[arch]
    caches = _cache_bytes()
    system = {"darwin": "darwin", "win32": "windows"}.get(sys.platform, "linux")
    target = _described("LLVM", arch, system)
    return replace(
        target,
        cores=available_cores(),
        l1_bytes=caches.get(1, row.l1),
        l2_bytes=caches.get(2, row.l2),
        l3_bytes=caches.get(3, 0 if caches else row.l3),
    )


register_cache(host_target.cache_clear, "target.host")


def available_cores() -> int:
    """How many cores this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def _first_processor() -> dict[str, str]:
    """What Linux says about the first core: {"vendor_id": ..., "flags": ...}; {} where there is no such file."""
    try:
        with open("/proc/cpuinfo") as file:
            block = file.read(16 * KiB).partition("\n\n")[0]
    except OSError:
        return {}
    pairs = (line.partition(":") for line in block.splitlines())
    return {key.strip(): value.strip() for key, _, value in pairs}


def _x86_arch(processor: dict[str, str]) -> str:
    """The name of an x86 processor, all of whose features the machine has: a virtual machine may hide some."""
    flags = set(processor.get("flags", "").split())

    def has_all(arch: str) -> bool:
        return all(_LINUX_FLAGS.get(feature, feature) in flags for feature in _ARCHS[arch].features)

    models = _X86_MODELS.get((processor.get("vendor_id", ""), int(processor.get("cpu family", 0))), [])
    model = int(processor.get("model", 0))
    named = next((name for last, name in models if model <= last), "")
    if named and has_all(named):
        return named
    return next(level for level in _LEVELS if has_all(level))


def missing_features(target: Target) -> list[str]:
    """The instruction sets that code for this target may use and that this machine does not have."""
    host = host_target()
    if target.family != host.family:
        return [target.family]
    processor = _first_processor()
    flags = set(processor.get("flags", processor.get("Features", "")).split())
    if not flags:  # a system that does not say; what is known of the processor's name then
        return sorted(target.features - host.features)
    names = _LINUX_FLAGS if host.family == "x86_64" else _LINUX_FLAGS_ARM
    return sorted(feature for feature in target.features if names.get(feature, feature) not in flags)


def _cache_bytes() -> dict[int, int]:
    """Level -> bytes of the data caches that the first core uses."""
    found: dict[int, int] = {}
    folder = "/sys/devices/system/cpu/cpu0/cache"
    try:
        for entry in os.listdir(folder):
            if not entry.startswith("index"):
                continue
            kind, level, size = (_read(f"{folder}/{entry}/{name}") for name in ("type", "level", "size"))
            if kind != "Instruction":
                unit = {"K": KiB, "M": MiB, "G": 1024 * MiB}.get(size[-1:], 1)
                found[int(level)] = int(size.rstrip("KMG")) * unit
    except (OSError, ValueError):
        return {}
    return found


def _read(path: str) -> str:
    with open(path) as file:
        return file.read().strip()


# ---- names

_RENDERERS = {"CPU": ("LLVM", "C"), "CUDA": ("PTX",), "NULL": ("LLVM", "C", "PTX")}  # NULL is any that is not here


def _described(renderer: str, arch: str, system: str, device: str = "CPU") -> Target:
    row = (_GPUS if device == "CUDA" else _ARCHS)[arch]
    return Target(
        device=device,
        renderer=renderer,
        arch=arch,
        family=row.family,
        vector_bytes=row.vector_bytes,
        vector_registers=row.vector_registers,
        features=row.features,
        cores=row.cores,
        l1_bytes=row.l1,
        l2_bytes=row.l2,
        l3_bytes=row.l3,
        system=system,
        shared_bytes=row.shared,
    )


# For graphs that are scheduled for no machine: what is right on any processor.
ANY_CPU = _described("LLVM", "x86-64", "linux")


def parse_target(text: str, spelled: str = "") -> Target:
    """The target of that name: "device", "device:renderer" or "device:renderer:arch". Errors quote `spelled`."""
    spelled = spelled or text
    device, renderer, arch = (*text.strip().split(":", 2), "", "")[:3]
    if device.upper() not in _RENDERERS:
        raise _unknown(spelled, "device", device, _RENDERERS)
    device = device.upper()
    renderers = _RENDERERS[device]
    renderer = renderer.upper() or renderers[0]
    if renderer not in renderers:
        if renderer.lower() in (*_ARCHS, *_GPUS):
            arch = renderer.lower()
            kind = spelled.partition(":")[0].strip().upper()
            raise DeviceError(
                f'target: "{arch}" in "{spelled}" is an architecture, and a renderer stands before it',
                fix=f'Did you mean "{f"NULL:PTX:{arch}" if arch in _GPUS else f"{kind}:{renderers[0]}:{arch}"}"?',
            )
        raise _unknown(spelled, "renderer", renderer, renderers)
    if renderer == "PTX":
        arch = arch.lower() or next(iter(_GPUS))
        if arch not in _GPUS:
            raise _unknown(spelled, "architecture", arch, _GPUS)
        return _described(renderer, arch, "linux", "CUDA")
    if not arch:
        return replace(host_target(), renderer=renderer)
    if arch.lower() not in _ARCHS:
        raise _unknown(spelled, "architecture", arch, _ARCHS)
    arch = arch.lower()
    if is_host(arch):
        return replace(host_target(), renderer=renderer)
    return _described(renderer, arch, "darwin" if arch.startswith("apple") else "linux")


def is_host(arch: str) -> bool:
    """Whether this machine is one of that name."""
    try:
        return host_target().arch == arch
    except DeviceError:
        return False


def _unknown(text: str, what: str, name: str, known: object) -> DeviceError:
    names = list(known)  # type: ignore[call-overload]
    where = f' in "{text}"' if name != text else ""
    return DeviceError(
        f'target: there is no {what} "{name}"{where}.{nearest(name, names)}',
        f"known: {', '.join(names)}",
        'A target is "device:renderer:arch", as in "CPU", "CPU:C", "CPU:LLVM:znver4" or "NULL:PTX:sm_90a".',
    )
