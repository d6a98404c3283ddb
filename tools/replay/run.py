"""Drivers in parallel: each is a process of one checkout, which is sent work until there is none."""

from __future__ import annotations

import base64
import json
import os
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from queue import Empty, Queue
from typing import Any

from tools.replay.checkouts import Checkout
from tools.replay.corpus import BENCH, Item

DRIVER = Path(__file__).with_name("drive.py")
UNKNOWN_OP = "there is no op"  # in the error of a checkout that cannot read a text
KEPT_VARIABLES = ("PATH", "HOME", "LANG", "SYSTEMROOT", "TMPDIR", "TEMP", "VIRTUAL_ENV")


class DriverError(Exception):
    """A checkout in which nothing can be made."""


Work = tuple[Item, tuple[str, ...]]  # with its targets
Answer = tuple[Item, dict[str, dict[str, Any]], dict[str, bytes]]


def run_all(checkout: Checkout, works: Sequence[Work], processes: int, seed: int = 0) -> Iterator[Answer]:
    """The answers to all pieces of work, in any order."""
    waiting: Queue[Work] = Queue()
    for work in works:
        waiting.put(work)
    answers: Queue[Answer | Exception | None] = Queue()
    count = max(min(processes, len(works)), 1)
    stop = threading.Event()
    threads = [
        threading.Thread(target=_serve, args=(checkout, waiting, answers.put, stop, seed), daemon=True)
        for _ in range(count)
    ]
    for thread in threads:
        thread.start()
    left = count
    try:
        while left:
            answer = answers.get()
            if answer is None:
                left -= 1
            elif isinstance(answer, Exception):
                raise answer
            else:
                yield answer
    finally:
        stop.set()


def _serve(
    checkout: Checkout,
    waiting: Queue[Work],
    put: Callable[[Answer | Exception | None], None],
    stop: threading.Event,
    seed: int,
) -> None:
    """One driver, from its first piece of work to the last. One that dies is reported and replaced."""
    driver = None
    try:
        while not stop.is_set():
            try:
                item, targets = waiting.get_nowait()
            except Empty:
                break
            if driver is None:
                driver = _start(checkout, seed)
            put(_ask(driver, item, targets))
            if driver.poll() is not None:
                driver = None
    except Exception as error:
        put(error)
    finally:
        if driver is not None:
            driver.terminate()
        put(None)


def _start(checkout: Checkout, seed: int) -> subprocess.Popen[str]:
    """A driver whose settings are the same for every checkout."""
    environment = {name: os.environ[name] for name in KEPT_VARIABLES if name in os.environ}
    environment |= {
        "PYTHONPATH": os.pathsep.join([str(checkout.folder), str(BENCH)]),
        "PYTHONHASHSEED": str(seed),
        "REPLAY_CHECKOUT": str(checkout.folder),
        "CACHE": "0",
        "WINO": "0",  # products as they are written; checkouts before whit/kernel/forms.py had no other for NULL
    }
    driver = subprocess.Popen(
        [sys.executable, str(DRIVER)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        cwd=checkout.folder,
        env=environment,
        text=True,
        encoding="utf-8",
    )
    assert driver.stdout is not None
    if not driver.stdout.readline():
        raise DriverError(f"{checkout.name}: its package cannot be used (status {driver.wait()}); see the error above")
    return driver


def _ask(driver: subprocess.Popen[str], item: Item, targets: tuple[str, ...]) -> Answer:
    """The answer to one piece of work; an error of all targets if the driver dies of it."""
    answer = _ask_about(driver, item, targets)
    if item.older and any(UNKNOWN_OP in record["error"] for record in answer[1].values()):
        _, records, texts = _ask_about(driver, replace(item, text=item.older), targets)
        return item, records, texts
    return answer


def _ask_about(driver: subprocess.Popen[str], item: Item, targets: tuple[str, ...]) -> Answer:
    assert driver.stdin is not None and driver.stdout is not None
    request = {"id": 0, "kind": item.kind, "name": item.name, "text": item.text, "targets": targets}
    try:
        driver.stdin.write(json.dumps(request) + "\n")
        driver.stdin.flush()
        line = driver.stdout.readline()
    except BrokenPipeError:
        line = ""
    if not line:
        error = f"the driver ended with status {driver.wait()}"
        return item, {target: {"kernels": [], "error": error, "seconds": 0.0} for target in targets}, {}
    answer = json.loads(line)
    texts = {digest: base64.b64decode(text) for digest, text in answer["texts"].items()}
    return item, answer["records"], texts
