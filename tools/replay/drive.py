"""Runs inside one checkout: schedules, generates and renders what it is sent, and answers with the kernels.

Goes in: one JSON object a line, {"id": 7, "kind": "graph", "name": ..., "text": ..., "targets": ["CPU:LLVM:haswell"]}.
Comes out: one a line too, {"id": 7, "records": {target: record}, "texts": {digest: text}}, where a record is
{"kernels": [[digest, name, ops, bytes read, bytes written], ...], "seconds": ..., "error": ""}; a text is sent once.

The checkout is whatever PYTHONPATH has. Only few of its names are used, and those that may move are looked for in its
sources (`find`), because the two checkouts of a comparison may have them in different files. Kinds of work:

    graph     the text of a tensor graph over params: scheduled for each target, then as a kernel
    kernel    the text of a kernel's body: generated and rendered
    program   a name of `programs.py`: run on a device that computes nothing, up to the graphs that it schedules
"""

from __future__ import annotations

import base64
import hashlib
import importlib
import importlib.util
import json
import os
import re
import sys
import time
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

Record = dict[str, Any]


def find(*names: str) -> Any:
    """The function of the checkout that has the first of these names that there is, in whatever file it is."""
    root = Path(importlib.import_module("whit").__file__ or "").parent
    for name in names:
        definition = re.compile(rf"^def {name}\(", re.MULTILINE)
        for path in sorted(root.rglob("*.py")):
            if definition.search(path.read_text("utf-8")):
                parts = path.relative_to(root.parent).with_suffix("").parts
                module = ".".join(parts[:-1] if parts[-1] == "__init__" else parts)
                return getattr(importlib.import_module(module), name)
    raise LookupError(
        f"no function of the checkout has the name {' or '.join(names)}: tell tools/replay/drive.py which"
    )


def module(*names: str) -> Any:
    """The first of these modules that the checkout has: files move, what is asked of them stays."""
    found = next((name for name in names if _is_there(name)), names[0])
    return importlib.import_module(found)


def _is_there(name: str) -> bool:
    try:
        return importlib.util.find_spec(name) is not None
    except ModuleNotFoundError:  # its folder is a file, or not there
        return False


class Driver:
    """What is known of the checkout, and what was made with it so far."""

    def __init__(self) -> None:
        self.parse: Callable[[str], Any] = module("whit.ir.text.parse", "whit.ir.parse").parse
        self.parse_target: Callable[[str], Any] = importlib.import_module("whit.target").parse_target
        self.load_scheduler: Callable[[str], Callable[[Any], Any]] = find("load_scheduler")
        self.compile_ptx: Callable[..., Any] = find("compile_ptx")
        self.generate: Callable[..., Any] = importlib.import_module("whit.codegen").generate
        self.render: Callable[..., str] = importlib.import_module("whit.render").render
        self.made: dict[tuple[Any, str], tuple[list[Any], str]] = {}  # (body, target) -> kernel, error
        self.texts: dict[str, str] = {}  # those that the answer has to contain
        self.sent: set[str] = set()

    def answer(self, work: dict[str, Any]) -> dict[str, Any]:
        """The kernels of a piece of work for each of its targets."""
        self.texts.clear()
        records = {target: self.record(work, target) for target in work["targets"]}
        return {"id": work["id"], "records": records, "texts": dict(self.texts)}

    def record(self, work: dict[str, Any], target: str) -> Record:
        """The kernels for one target. An error is a result like others."""
        start = time.perf_counter()
        found: Record = {"kernels": [], "error": ""}
        try:
            for body, name in self.bodies(work, target):
                kernel, error = self.kernel(body, target)
                found["kernels"].append([kernel[0], name, *kernel[1:]])
                found["error"] = found["error"] or error
        except Exception as error:  # whatever a broken checkout raises
            found["error"] = _described(error)
        found["seconds"] = time.perf_counter() - start
        return found

    def bodies(self, work: dict[str, Any], target: str) -> Iterator[tuple[Any, str]]:
        """The bodies of the kernels, each with its name."""
        if work["kind"] == "kernel":
            yield self.parse(work["text"]), "kernel"
            return
        device = device_of(target)
        graphs = self.graphs_of(work["name"], device) if work["kind"] == "program" else [self.parse(work["text"])]
        schedule = self.load_scheduler(device)
        for graph in graphs:
            for call in schedule(graph).src:
                function = call.src[0]
                yield function.src[0], str(function.arg.name)

    def kernel(self, body: Any, target: str) -> tuple[list[Any], str]:
        """Digest of the text, and what one run does. Equal bodies are generated once."""
        known = self.made.get((body, target))
        if known is None:
            try:
                text, numbers = self.rendered(body, target)
                known = [self.keep(text), *numbers], ""
            except Exception as error:  # as above
                known = [_digest(_described(error)), 0, 0, 0], _described(error)
            self.made[body, target] = known
        return known

    def rendered(self, body: Any, target: str) -> tuple[str, list[int]]:
        """The text, which begins with how it is launched, and operations, bytes read and written. The name of a kernel
        is no part of it."""
        machine = self.parse_target(device_of(target))
        function = body.function("kernel")
        if machine.is_gpu:
            header, code = self.compile_ptx(function, machine)
            numbers = [header["ops"], header["bytes_read"], header["bytes_written"]]
            return f"// {json.dumps(header['launches'], sort_keys=True)}\n{code.decode()}", numbers
        program = self.generate(body, machine)
        text = self.render({program.name: program.linear}, machine)
        return f"// over cores: {program.total}\n{text}", [program.ops, program.bytes_read, program.bytes_written]

    def keep(self, text: str) -> str:
        """The digest of a text, which the answer has to contain unless another had it."""
        digest = _digest(text)
        if digest not in self.sent:
            self.sent.add(digest)
            self.texts[digest] = base64.b64encode(zlib.compress(text.encode(), 3)).decode()
        return digest

    def graphs_of(self, name: str, device: str) -> list[Any]:
        """The graphs that a program schedules on a device that computes nothing."""
        program = importlib.import_module("programs").PROGRAMS[name]
        tensor = importlib.import_module("whit")
        found: dict[Any, None] = {}
        before = tensor.Device.DEFAULT
        tensor.Device.DEFAULT = device
        try:
            with caught_graphs(found):
                program()
        finally:
            tensor.Device.DEFAULT = before
            importlib.import_module("whit").clear_caches()
        return list(found)


@contextmanager
def caught_graphs(found: dict[Any, None]) -> Iterator[None]:
    """Graphs are noted instead of being scheduled: programs of no kernels are run."""
    package: Any = importlib.import_module("whit.schedule")
    ops, make = importlib.import_module("whit.ir.ops"), importlib.import_module("whit.ir.uop").make
    before = package.schedule

    def note(graph: Any, *_: Any, **__: Any) -> Any:
        found[graph] = None
        return make(ops.LINEAR, ())

    package.schedule = note
    try:
        yield
    finally:
        package.schedule = before


def device_of(target: str) -> str:
    """The device that plans for a target: "CPU:LLVM:haswell" -> "NULL:LLVM:haswell"."""
    return "NULL:" + target.partition(":")[2]


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:32]


def _described(error: Exception) -> str:
    """An error in a line: the rest of a message may have paths."""
    return f"{type(error).__name__}: {(str(error).splitlines() or [''])[0]}"[:300]


def main() -> None:
    """Answers until there are no more lines."""
    lines, sys.stdout = sys.stdout, sys.stderr  # what a program prints is no answer
    wanted = os.environ["REPLAY_CHECKOUT"]
    package = importlib.import_module("whit").__file__ or ""
    if not os.path.realpath(package).startswith(os.path.realpath(wanted) + os.sep):
        raise SystemExit(f"replay: {package} was imported instead of the package in {wanted}")
    driver = Driver()
    print("ready", file=lines, flush=True)
    for line in sys.stdin:
        lines.write(json.dumps(driver.answer(json.loads(line))) + "\n")
        lines.flush()


if __name__ == "__main__":
    main()
