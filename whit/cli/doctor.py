"""`python -m whit doctor`: what is wrong here, and what to do about it.

A diagnosis is a function from the facts (`Machine`) to findings; `DIAGNOSES` lists them in the order of the report. A
*problem* stops whit from working, a *warning* makes it slower or odd, a *note* is worth knowing.
"""

from __future__ import annotations

import argparse
import difflib
import importlib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict, dataclass

from whit.cli.answer import OK, PROBLEM, Answer, spell_bytes, spell_count
from whit.cli.machine import PACKAGES, PYTHON, Machine, this_machine
from whit.config import settings
from whit.engine.devices.device import BACKENDS, Device
from whit.errors import WhitError

LEVELS = ("ok", "note", "warning", "problem")

LITTLE_DISK_BYTES = 64 << 20
LITTLE_MEMORY_BYTES = 512 << 20
# Settings that are for looking for mistakes, and what they cost.
FOR_DEBUGGING = {
    "NOOPT": "kernels are not optimised",
    "DEBUG": "whit prints what it does, and from 2 on runs kernels one by one",
    "CHECK_OOB": "every access of every kernel is proved, slowly",
    "CHECK_INDEX": "index tensors are computed at every call",
    "CHECK_PLAN": "every schedule and its memory is proved, slowly",
    "VERIFY": "every schedule, kernel and program is checked",
    "TRACK_MATCH_STATS": "every rewrite rule is timed",
    "VIZ": "every rewrite is recorded",
    "PROFILE": "kernels run one by one, because each is timed",
}


@dataclass(frozen=True, slots=True)
class Finding:
    """One line of the report."""

    topic: str
    level: str  # one of LEVELS
    what: str
    fix: str = ""


# ---- diagnoses


def check_python(machine: Machine) -> Iterator[Finding]:
    """The versions of Python and of what whit is made with."""
    shown = ".".join(map(str, machine.python))
    if machine.python < PYTHON:
        yield Finding("python", "problem", f"Python {shown} is too old", f"Use {_dotted(PYTHON)} or newer.")
    else:
        yield Finding("python", "ok", f"Python {shown}")


def check_packages(machine: Machine) -> Iterator[Finding]:
    """NumPy, ml_dtypes and llvmlite: there, and new enough."""
    for name, needed in PACKAGES.items():
        version = machine.packages.get(name)
        fix = f'Run: python -m pip install "{name}>={_dotted(needed)}"'
        if version is None:
            yield Finding("packages", "problem", f"{name} is not installed", fix)
        elif _numbers(version) < needed:
            yield Finding("packages", "problem", f"{name} {version} is older than {_dotted(needed)}", fix)
        else:
            yield Finding("packages", "ok", f"{name} {version}")


def _dotted(version: tuple[int, ...]) -> str:
    return ".".join(map(str, version))


def _numbers(version: str) -> tuple[int, ...]:
    """The leading numbers of a version: (1, 26) of "1.26rc1"."""
    found = []
    for part in version.split("."):
        digits = part[: len(part) - len(part.lstrip("0123456789"))]
        found.append(int(digits or 0))
        if digits != part:
            break
    return tuple(found)


def check_processor(machine: Machine) -> Iterator[Finding]:
    """What instructions there are."""
    target = machine.target
    if target is None:
        yield Finding(
            "processor",
            "problem",
            f"whit makes no code for this processor ({machine.processor})",
            "DEV=PYTHON runs everything in the interpreter, slowly. Use a machine with x86-64 or 64-bit ARM.",
        )
    elif target.family == "x86_64" and not {"avx2", "fma"} <= target.features:
        yield Finding(
            "processor",
            "warning",
            f"{target.arch}: no AVX2 and FMA, so kernels run at about a quarter of the usual speed",
            "An older processor, or a virtual machine that hides them: choose a CPU type that passes them on.",
        )
    else:
        yield Finding("processor", "ok", f"{target.arch}, vectors of {target.vector_bytes} bytes")


def check_threads(machine: Machine) -> Iterator[Finding]:
    """Whether kernels can use the cores."""
    usual = machine.cores if machine.quota is None else max(1, min(machine.cores, round(machine.quota)))
    if machine.threads > usual:
        limited = f"may use {machine.quota:.1f} cores' worth of time" if usual < machine.cores else f"has {usual} cores"
        yield Finding(
            "threads",
            "warning",
            f"kernels use {machine.threads} threads, and this process {limited}",
            f"Set THREADS={usual}.",
        )
    elif machine.threads < machine.cores and machine.quota is None:
        yield Finding(
            "threads",
            "warning",
            f"kernels use {machine.threads} of {machine.cores} cores: THREADS is set",
            "Unset THREADS to use all of them.",
        )
    elif machine.cores < machine.all_cores:
        yield Finding(
            "threads",
            "note",
            f"this process may use {machine.cores} of {machine.all_cores} cores",
            "If that is not meant: look at `taskset -p $$` and at the limits of the container or batch job.",
        )
    else:
        yield Finding("threads", "ok", f"{machine.threads} of {spell_count(machine.cores, 'core')}")


def check_memory(machine: Machine) -> Iterator[Finding]:
    """Whether there is some left."""
    if machine.memory is None:
        yield Finding("memory", "note", "the system does not say how much is free")
    elif machine.memory < LITTLE_MEMORY_BYTES:
        yield Finding(
            "memory",
            "warning",
            f"{spell_bytes(machine.memory)} can be had",
            "Close other programs, or raise the limit of the container.",
        )
    else:
        yield Finding("memory", "ok", f"{spell_bytes(machine.memory)} can be had")


def check_cache(machine: Machine) -> Iterator[Finding]:
    """Whether compiled kernels can be kept."""
    if not machine.cache_on:
        yield Finding(
            "cache",
            "warning",
            "CACHE=0 is set: every process compiles its kernels again",
            "Unset CACHE to keep them on disk.",
        )
        return
    if machine.cache_error:
        yield Finding(
            "cache",
            "problem",
            f"kernels cannot be kept in {machine.cache_folder or 'the cache folder'}: {machine.cache_error}",
            "Set CACHE_DIR to a folder that can be written, or correct the rights of this one.",
        )
        return
    yield Finding("cache", "ok", f"{machine.cache_folder} can be written")
    if machine.disk_free is not None and machine.disk_free < LITTLE_DISK_BYTES:
        yield Finding(
            "cache",
            "problem",
            f"{spell_bytes(machine.disk_free)} are free on the disk of {machine.cache_folder}",
            "Free some space (python -m whit cache clear removes kernels), or set CACHE_DIR to another disk.",
        )


def check_settings(machine: Machine) -> Iterator[Finding]:
    """Settings in the environment: unreadable ones, slow ones, and names that are nearly right."""
    known = {variable.setting.name: variable.setting for variable in settings()}
    is_clean = True
    for text in machine.bad_settings.values():
        is_clean = False
        yield Finding("settings", "problem", text, "Correct its value, or unset it.")
    for name, cost in FOR_DEBUGGING.items():
        if machine.environment.get(name, "") not in ("", "0") and name not in machine.bad_settings:
            is_clean = False
            what = f"{name}={machine.environment[name]} is set: {cost}"
            yield Finding("settings", "warning", what, f"Unset {name} unless you are looking for a mistake.")
    for name in sorted(machine.environment):
        near = _meant(name, known)
        if near and near not in machine.environment:
            is_clean = False
            is_ours = name.startswith("WHIT_")
            fix = f"Did you mean {near}?" if is_ours else f"Did you mean {near}? Other programs may have meant {name}."
            what = f"{name} is set, which is no setting of whit"
            yield Finding("settings", "warning" if is_ours else "note", what, fix)
    if is_clean:
        given = [name for name in known if machine.environment.get(name)]
        yield Finding("settings", "ok", f"set: {', '.join(given)}" if given else "none is set")


def _meant(name: str, known: Mapping[str, object]) -> str:
    """The setting that an unknown name of the environment was probably meant to be, or ""."""
    if name in known or name != name.upper():
        return ""
    bare = name.removeprefix("WHIT_")
    if bare in known:
        return bare
    near = difflib.get_close_matches(bare, known, n=1, cutoff=0.75 if bare != name else 0.85)
    alike = [setting for setting in known if setting.replace("_", "") == bare.replace("_", "")]
    return (alike or near or [""])[0]


def check_accelerators(machine: Machine) -> Iterator[Finding]:
    """GPUs, their drivers, and whether this version of whit uses them."""
    kinds = {"NVIDIA": "CUDA", "AMD": "CL"}
    if not machine.gpus:
        yield Finding("accelerators", "ok", "no GPU is found; everything runs on the processor")
    for vendor, has_driver in machine.gpus:
        if not BACKENDS[kinds[vendor]]:
            driver = "with" if has_driver else "without"
            what = f"a GPU by {vendor} is here, {driver} its driver; this version of whit does not use it"
            yield Finding("accelerators", "note", what)
        elif not has_driver:
            yield Finding(
                "accelerators",
                "problem",
                f"a GPU by {vendor} is here, and its driver is not",
                f"Install the driver of {vendor}. In a container, start it with access to the GPU.",
            )
        else:
            yield Finding("accelerators", "ok", f"a GPU by {vendor}, with its driver")


def check_compiler(machine: Machine) -> Iterator[Finding]:
    """The C compiler, which only one device needs."""
    if machine.compiler is None:
        yield Finding(
            "compiler", "note", "no C compiler is found: the device CPU:C cannot be used", "Nothing needs it."
        )
    else:
        yield Finding("compiler", "ok", f"{machine.compiler}, for the device CPU:C")


DIAGNOSES: tuple[Callable[[Machine], Iterator[Finding]], ...] = (
    check_python,
    check_packages,
    check_processor,
    check_threads,
    check_memory,
    check_cache,
    check_settings,
    check_accelerators,
    check_compiler,
)


def diagnose(machine: Machine) -> list[Finding]:
    """Everything that the facts tell."""
    return [finding for diagnosis in DIAGNOSES for finding in diagnosis(machine)]


# ---- and does it run?


def try_kernels() -> list[Finding]:
    """Opens the default device, and compares kernels with the interpreter."""
    try:
        name = Device.DEFAULT
        Device[name].synchronize()
    except WhitError as error:
        return [Finding("device", "problem", error.what, "Correct DEV in the environment, or unset it.")]
    try:
        check = importlib.import_module("whit.cli.check")  # lazy: loads NumPy, which may be what is missing
        wrong = [case.name for case in check.compare() if not case.ok]
    except Exception as error:  # whatever it is, it is what the user came here for
        what = error.what if isinstance(error, WhitError) else f"{type(error).__name__}: {error}"
        return [Finding("kernels", "problem", f"a small computation fails: {what}", _fix_of(error))]
    if wrong:
        return [
            Finding(
                "kernels",
                "problem",
                f"compiled kernels differ from the interpreter: {', '.join(wrong)}",
                "This is a bug in whit: report it with the output of python -m whit --json.",
            )
        ]
    return [Finding("kernels", "ok", f"kernels compile and are right; the default device is {name}")]


def _fix_of(error: Exception) -> str:
    if isinstance(error, ImportError):
        package = (error.name or "numpy").partition(".")[0]
        return f"Install it again: python -m pip install --force-reinstall {package}"
    if isinstance(error, WhitError) and error.fix:
        return error.fix
    return "If there is no problem above, this is a bug in whit: report it with the output of python -m whit --json."


def configure(parser: argparse.ArgumentParser) -> None:
    """The arguments."""
    parser.description = """\
Looks for what is wrong or slow here, and says what to do: versions, processor, threads, memory, the cache folder,
settings in the environment, drivers, and whether kernels compile and are right."""
    parser.add_argument("--strict", action="store_true", help="warnings count as problems for the exit code")


def run(options: argparse.Namespace) -> Answer:
    """The command."""
    findings = diagnose(this_machine())
    findings += try_kernels()
    counts = {level: sum(finding.level == level for finding in findings) for level in LEVELS}
    is_bad = counts["problem"] > 0 or (options.strict and counts["warning"] > 0)
    data = {"ok": not is_bad, "counts": counts, "findings": [asdict(finding) for finding in findings]}
    return Answer(data, report(findings), PROBLEM if is_bad else OK)


def report(findings: list[Finding]) -> str:
    """The findings for people, with a last line that sums them up."""
    lines = []
    for finding in findings:
        lines.append(f"{finding.level:8} {finding.topic:13} {finding.what}")
        if finding.fix:
            lines.append(f"{'':22} {finding.fix}")
    problems, warnings = (sum(f.level == level for f in findings) for level in ("problem", "warning"))
    if problems or warnings:
        lines.append(f"\n{spell_count(problems, 'problem')}, {spell_count(warnings, 'warning')}.")
    else:
        lines.append("\nAll is well.")
    return "\n".join(lines)
