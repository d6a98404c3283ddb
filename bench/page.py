"""How fast the page of recordings is: opening a long trace, a graph of 5,000 nodes, frames while it is moved.

    python bench/page.py [trace ...]        needs what `make browser` installs

Without arguments it makes a trace with a graph of 5,500 nodes and one with 100,000 rewrites. Times are those a person
sees: from the command, or a click, to pixels.
"""

from __future__ import annotations

import json
import os
import random
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from playwright.sync_api import sync_playwright

from whit.dtype import dtypes
from whit.ir.text.write import to_text
from whit.ir.uop import UOp
from whit.viz.format import file_start, pack
from whit.viz.load import load
from whit.viz.page.documents import Documents

NODES = 7_000  # of which 5,500 are part of the result
REWRITES = 100_000
KERNELS = 20
CHROMIUM = os.environ.get("CHROMIUM") or shutil.which("chromium") or shutil.which("google-chrome")

MOVE = """async () => {
  const canvas = document.querySelector("canvas");
  const box = canvas.getBoundingClientRect();
  const painted = { ...canvas.painted };
  const times = [];
  const at = (i) => ({ clientX: box.left + 300 + 2 * i, clientY: box.top + 300 + i, pointerId: 1, button: 0 });
  const send = (type, i) => canvas.dispatchEvent(new PointerEvent(type, at(i)));
  canvas.setPointerCapture = () => {};
  const frame = () => new Promise((next) => requestAnimationFrame(next));
  await frame();
  send("pointerdown", 0);
  for (let i = 1; i <= 120; i++) {
    if (i === 40) send("pointerup", i);
    if (i < 40) send("pointermove", i);
    else canvas.dispatchEvent(new WheelEvent("wheel", { ...at(60), deltaY: i < 80 ? -40 : 40, cancelable: true }));
    times.push(await frame());
  }
  const frames = canvas.painted.frames - painted.frames;
  return { gaps: times.slice(1).map((t, i) => t - times[i]), paint: (canvas.painted.ms - painted.ms) / frames, frames };
}"""


def graph_text(count: int) -> str:
    """A graph of random arithmetic, most of it near in time to what it uses."""
    chance = random.Random(0)
    source = UOp.param(1, dtypes.float32, (1024,))
    place = UOp.range(1024, 0)
    nodes: list[UOp] = [source.index(place + i) for i in range(64)]
    while len(nodes) < count - 200:
        left, right = (nodes[-1 - int(chance.random() ** 3 * min(len(nodes), 400))] for _ in range(2))
        nodes.append(left * right if chance.random() < 0.5 else left + right)
    total = nodes[-64]
    for node in nodes[-63:]:
        total = total + node
    return to_text(UOp.param(0, dtypes.float32, (1024,)).store(total, place), types=False)


def write_trace(path: Path, text: str, rewrites: int) -> None:
    """A trace of kernels that share the rewrites."""
    records: list[dict[str, Any]] = [
        {"record": "start", "program": ["made.py"], "target": "", "whit": "", "cores": 2, "memory": {}},
        {"record": "graph", "id": 0, "digest": "", "text": text},
        {
            "record": "rule",
            "id": 0,
            "name": "(x + 0) -> x",
            "file": "whit/simplify/algebra.py",
            "line": 1,
            "source": "",
        },
    ]
    lines: list[list[Any]] = [[1, "range 64, id=0, kind=loop"]]
    number = 0
    for kernel in range(KERNELS):
        records.append({"record": "kernel", "id": kernel, "name": f"kernel_{kernel}", "graph": 0})
        steps = []
        for i in range(rewrites // KERNELS):
            number += 2
            lines += [[number, f"mul %1, {number}"], [number + 1, f"add %{number}, {i}"]]
            steps.append([0, number + 1, number])
        records.append({"record": "nodes", "nodes": lines})
        lines = []
        records.append({"record": "pass", "kernel": kernel, "name": "tile", "why": "", "graph": 0, "ns": 1000})
        records.append({"record": "rewrites", "schedule": -1, "kernel": kernel, "pass": "tile", "steps": steps})
    records.append({"record": "end", "at": 1, "runs_left_out": 0})
    path.write_bytes(file_start() + b"".join(pack([json.dumps(record)]) for record in records))


def cpu_seconds(action: Callable[[], Any]) -> float:
    """The least of five: what a machine with nothing else to do would take."""
    best = float("inf")
    for _ in range(5):
        begun = time.process_time()
        action()
        best = min(best, time.process_time() - begun)
    return best


def ready(page: Any) -> None:
    page.wait_for_selector("#main[data-ready=yes]")


def measure(browser: Any, trace: Path, address: str) -> None:
    """One trace: opened with the server, its graph moved, and the exported file opened."""
    print(f"{trace.name}: {trace.stat().st_size / 1e6:.1f} MB")
    page = browser.new_page(viewport={"width": 1440, "height": 900})
    spent = cpu_seconds(lambda: Documents(load(trace)).get("overview"))
    print(f"  processor time to load it: {spent:.2f} s, without starting Python")
    begun = time.perf_counter()
    command = [sys.executable, "-m", "whit", "viz", str(trace), "--serve", "--no-open"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as server:
        assert server.stdout is not None
        url = server.stdout.readline().split()[0]
        listening = time.perf_counter() - begun
        page.goto(url)
        ready(page)
        opened = time.perf_counter() - begun
        print(f"  served: {opened:.2f} s from the command to the list, {listening:.2f} s of it loading")
        best = float("inf")
        for _ in range(3):
            page.goto("about:blank")
            page.goto(url)
            ready(page)
            begun = time.perf_counter()
            page.goto(f"{url}#/{address}")
            page.wait_for_selector("canvas[data-nodes]")
            best = min(best, time.perf_counter() - begun)
        nodes = page.locator("canvas").get_attribute("data-nodes")
        print(f"  graph of {nodes} nodes: {best:.2f} s from a click to pixels (best of 3)")
        results = [page.evaluate(MOVE) for _ in range(5)]
        gaps = [statistics.median(result["gaps"]) for result in results]
        worst = min(max(result["gaps"]) for result in results)
        paint = min(result["paint"] for result in results)
        longest = f"median; the longest {worst:.0f} ms"
        print(f"  moving it: {min(gaps):.1f} ms between frames ({longest}), {paint:.1f} ms of it drawing")
        server.send_signal(2)
    out = trace.with_suffix(".html")
    begun = time.perf_counter()
    subprocess.run(
        [sys.executable, "-m", "whit", "viz", str(trace), "--html", str(out)], check=True, capture_output=True
    )
    written = time.perf_counter() - begun
    best = float("inf")
    for _ in range(3):
        page.goto("about:blank")
        begun = time.perf_counter()
        page.goto(out.as_uri())
        ready(page)
        best = min(best, time.perf_counter() - begun)
    print(f"  exported in {written:.1f} s, {out.stat().st_size / 1e6:.1f} MB; opens in {best:.2f} s (best of 3)")
    page.close()


def main() -> None:
    """All of it."""
    with tempfile.TemporaryDirectory() as folder, sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        given = [Path(name) for name in sys.argv[1:]]
        for trace in given:
            copied = Path(folder) / trace.name
            shutil.copy(trace, copied)
            measure(browser, copied, "kernel/0")
        if not given:
            write_trace(Path(folder) / "graph.trace", graph_text(NODES), 20)
            measure(browser, Path(folder) / "graph.trace", "kernel/0")
            write_trace(Path(folder) / "rewrites.trace", graph_text(200), REWRITES)
            measure(browser, Path(folder) / "rewrites.trace", "kernel/0/pass/1/step/7")
        browser.close()


if __name__ == "__main__":
    main()
