"""A plugin of pytest that writes down every graph that tests schedule, and every kernel that they make by hand.

    pytest -p tools.replay.record --record-graphs build/replay/recorded       one file for each process of the run

`corpus.py` reads these files. Graphs are kept as text (`whit.ir.text`), each once, with the first test that made it.
"""

from __future__ import annotations

import importlib
import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

LONGEST = 100_000  # characters of a text; longer ones are models, and `programs.py` has those


class Recorder:
    """What the tests of this process have scheduled and generated."""

    def __init__(self) -> None:
        self.graphs: dict[str, str] = {}  # text -> test
        self.bodies: dict[str, str] = {}  # the same of kernels
        self.scheduled: set[Any] = set()  # bodies that a schedule has: they are no kernels by hand
        self.inside = 0  # functions that are called are scheduled within schedules

    def install(self) -> None:
        """Puts itself in front of the scheduler and the code generator, wherever they are imported from later."""
        self._wrap(("whit.schedule", "whit.schedule.pipeline"), "schedule", self._scheduling)
        self._wrap(("whit.codegen", "whit.codegen.pipeline"), "generate", self._generating)

    def _wrap(self, modules: tuple[str, ...], name: str, wrapper: Callable[[Any], Any]) -> None:
        found = [importlib.import_module(module) for module in modules]
        wrapped = wrapper(getattr(found[0], name))
        for module in found:
            setattr(module, name, wrapped)

    def _scheduling(self, schedule: Any) -> Any:
        def recorded(graph: Any, *arguments: Any, **named: Any) -> Any:
            self.inside += 1
            try:
                linear = schedule(graph, *arguments, **named)
            finally:
                self.inside -= 1
            self.scheduled.update(call.src[0].src[0] for call in linear.src)
            if not self.inside:
                self._note(self.graphs, graph)
            return linear

        return recorded

    def _generating(self, generate: Any) -> Any:
        def recorded(body: Any, *arguments: Any, **named: Any) -> Any:
            program = generate(body, *arguments, **named)
            if body not in self.scheduled:
                self._note(self.bodies, body)
            return program

        return recorded

    def _note(self, texts: dict[str, str], graph: Any) -> None:
        text = importlib.import_module("whit.ir.text.write").to_text(graph, types=False)
        if len(text) <= LONGEST:
            texts.setdefault(text, os.environ.get("PYTEST_CURRENT_TEST", "").partition(" ")[0])

    def write(self, path: Path) -> None:
        """One line for each text."""
        path.parent.mkdir(parents=True, exist_ok=True)
        with path.open("w", encoding="utf-8") as file:
            for kind, texts in (("graph", self.graphs), ("kernel", self.bodies)):
                for text, test in texts.items():
                    file.write(json.dumps({"kind": kind, "test": test, "text": text}) + "\n")


_recorder = Recorder()


def pytest_addoption(parser: pytest.Parser) -> None:
    """The folder that is written to."""
    parser.addoption("--record-graphs", metavar="FOLDER", help="write what tests schedule into this folder")


def pytest_configure(config: pytest.Config) -> None:
    """Before any test is imported."""
    if config.getoption("--record-graphs"):
        _recorder.install()


def pytest_unconfigure(config: pytest.Config) -> None:
    """At the end of each process."""
    folder = config.getoption("--record-graphs")
    if folder:
        _recorder.write(Path(folder) / f"{os.environ.get('PYTEST_XDIST_WORKER', 'main')}-{os.getpid()}.jsonl")
