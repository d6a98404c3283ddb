"""`python -m whit`: what is here, whether it works, how fast it is, and where to go on."""

from __future__ import annotations

import argparse
import importlib
import platform
import sys
import textwrap
from dataclasses import asdict
from typing import Any

import whit
from whit.cli import cache
from whit.cli.answer import OK, PROBLEM, Answer, columns, spell_bytes
from whit.cli.machine import package_versions
from whit.engine.devices.device import BACKENDS, Device
from whit.errors import DeviceError, WhitError
from whit.runtime.code.gcc import find_compiler
from whit.runtime.pool.threads import thread_count
from whit.target import host_target

WIDTH = 100

NEXT = (
    ("python -m whit doctor", "if something does not work, or is slow"),
    ("python -m whit bench", "kernels against what this machine can do"),
    ("python -m whit -h", "all commands"),
    ("make demo, examples/, docs/", "a first program, more of them, and how everything works"),
)


def configure(parser: argparse.ArgumentParser) -> None:
    """The arguments."""
    parser.add_argument("--quick", action="store_true", help="a self-check on tiny sizes, whose speeds mean little")
    parser.add_argument("--no-check", action="store_true", help="no self-check: compiles and runs nothing")


def run(options: argparse.Namespace) -> Answer:
    """The command."""
    data: dict[str, Any] = {
        "python": {
            "version": platform.python_version(),
            "executable": sys.executable,
            "system": f"{platform.system()} {platform.machine()}",
        },
        "packages": package_versions(),
        "processor": _processor(),
        "default_device": Device.DEFAULT,
        "devices": _devices(),
        "caches": [folder.data() for folder in cache.folders()],
        "check": None if options.no_check else _check(options.quick),
        "next": [{"what": what, "why": why} for what, why in NEXT],
    }
    is_ok = data["check"] is None or data["check"]["ok"]
    return Answer(data, _text(data), OK if is_ok else PROBLEM)


def _processor() -> dict[str, Any] | None:
    """What kernels are compiled for; None on a machine that whit has no code for."""
    try:
        target = host_target()
    except DeviceError:
        return None
    data = asdict(target)
    del data["shared_bytes"]  # of GPUs
    data["features"] = sorted(target.features)
    return {"target": str(target), **data, "threads": thread_count()}


def _devices() -> list[dict[str, Any]]:
    compiler = find_compiler()
    rows = [
        ("CPU", "this machine's processor, through LLVM", True),
        ("CPU:C", f"the same through C: {compiler or 'no compiler is found'}", compiler is not None),
        ("PYTHON", "the interpreter: slow, and what the others are compared with", True),
        ("NULL", "plans and compiles, also for GPUs (NULL:PTX:sm_90a); runs nothing", True),
        ("DISK", "tensors in files", True),
        ("CUDA", *_cuda()),
    ]
    known = {name.partition(":")[0] for name, _, _ in rows}
    rows += [
        (name, "" if module else "not in this version", bool(module))
        for name, module in BACKENDS.items()
        if name not in known
    ]
    return [{"name": name, "what": what, "usable": usable} for name, what, usable in rows]


def _cuda() -> tuple[str, bool]:
    """What there is of NVIDIA, and whether it can be used."""
    from whit.runtime.cuda.gpu import device_count  # lazy: looks for the driver

    try:
        count = device_count()
    except WhitError:
        return "NVIDIA's GPUs, through PTX: no driver is found", False
    return f"NVIDIA's GPUs, through PTX: {count}", count > 0


def _check(quick: bool) -> dict[str, Any]:
    """The self-check, loaded here because it needs NumPy."""
    module = importlib.import_module("whit.cli.check")  # lazy: `--no-check` works where NumPy does not
    check = module.self_check(quick)
    data = {"ok": check.ok, **asdict(check), "quick": quick}
    for case in data["cases"]:
        if case["error"] == float("inf"):
            case["error"] = None  # JSON has no infinity
    return data


# ---- text


def _text(data: dict[str, Any]) -> str:
    python = data["python"]
    packages = ", ".join(f"{name} {version or 'missing'}" for name, version in data["packages"].items())
    lines = [f"whit {whit.__version__}, Python {python['version']} on {python['system']}, {packages}"]
    lines += ["", "processor", *_processor_lines(data["processor"])]
    lines += ["", "devices", *_device_lines(data)]
    folders = [(f["name"], f["folder"], _filled(f)) for f in data["caches"]]
    lines += ["", "caches", *columns(folders)]
    if data["check"] is not None:
        lines += ["", "self-check", *_check_lines(data["check"])]
    lines += ["", "next", *columns(NEXT)]
    return "\n".join(lines)


def _processor_lines(processor: dict[str, Any] | None) -> list[str]:
    if processor is None:
        return ["  unknown: kernels cannot be compiled here; DEV=PYTHON runs them in the interpreter"]
    caches = ", ".join(f"L{level} {spell_bytes(processor[f'l{level}_bytes'])}" for level in (1, 2, 3))
    features = " ".join(processor["features"]) or "none beyond the family's"
    rows = [
        ("target", processor["target"]),
        ("cores", f"{processor['cores']}, and {processor['threads']} threads for kernels"),
        ("vectors", f"{processor['vector_registers']} registers of {processor['vector_bytes']} bytes"),
        ("caches", caches),
    ]
    wrapped = textwrap.wrap(features, WIDTH - 12, break_on_hyphens=False)
    return columns([*rows, ("features", wrapped[0]), *(("", line) for line in wrapped[1:])])


def _device_lines(data: dict[str, Any]) -> list[str]:
    rows = []
    for device in data["devices"]:
        mark = "*" if device["name"] == data["default_device"] else " " if device["usable"] else "-"
        rows.append((mark, device["name"], device["what"]))
    return [*columns(rows), f"  * is the default ({data['default_device']}), - cannot be used"]


def _filled(folder: dict[str, Any]) -> str:
    return cache.Folder(folder["name"], "", folder["files"], folder["bytes"], folder["limit_bytes"]).text()


def _check_lines(check: dict[str, Any]) -> list[str]:
    right = [case["name"] for case in check["cases"] if case["ok"]]
    lines = [f"  ok     {', '.join(right)}: as the interpreter says"] if right else []
    for case in check["cases"]:
        if not case["ok"]:
            size = "" if case["error"] is None else f", by {case['error']:.1e} of its largest element"
            lines.append(f"  WRONG  {case['name']}{size}")
    size, array = check["matmul_size"], spell_bytes(check["copy_bytes"])
    rows = [
        ("matmul", f"{size}x{size}, float32", f"{check['matmul_gflops']:.1f} GFLOP/s"),
        ("copy", array, f"{check['copy_gbs']:.1f} GB/s, read and written"),
        ("sum", array, f"{check['sum_gbs']:.1f} GB/s"),
    ]
    return [*lines, *columns(rows)]
