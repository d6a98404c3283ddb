"""The page in a real browser: `make browser` installs one and runs these; without it they are skipped."""

import os
import random
import re
import shutil
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

import whit
from viz.hostile import ATTACK, write_hostile
from whit.viz.load import load
from whit.viz.page.documents import Documents
from whit.viz.page.export import write_html
from whit.viz.page.serve import Server

playwright = pytest.importorskip("playwright.sync_api", reason="no Playwright here: `make browser` installs it")
pytestmark = pytest.mark.slow

HERE = Path(__file__).parent
NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
Open = Callable[[str], Any]


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    with playwright.sync_playwright() as driver:
        found = os.environ.get("CHROMIUM") or next(filter(None, map(shutil.which, NAMES)), None)
        try:  # without a name: the one that Playwright has installed, if there is one
            opened = driver.chromium.launch(executable_path=found, args=["--no-sandbox"])
        except playwright.Error as error:
            pytest.skip(f"no Chromium here, `make browser` installs one ({str(error).splitlines()[0]})")
        yield opened
        opened.close()


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A recorded training of a GPT."""
    path = tmp_path_factory.mktemp("gpt") / "gpt.trace"
    settings = {"PYTHONPATH": str(HERE.parents[1]), "VIZ": str(path), "NOOPT": "1", "DEV": "CPU"}
    subprocess.run([sys.executable, str(HERE / "train_gpt.py")], env={**os.environ, **settings}, check=True)
    return path


@pytest.fixture(scope="module")
def served(trained: Path) -> Iterator[Server]:
    with Server(Documents(load(trained))) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield server
        server.shutdown()
        thread.join()


@pytest.fixture
def page(browser: Any) -> Iterator[Any]:
    """A page whose console must stay empty."""
    context = browser.new_context(viewport={"width": 1440, "height": 900}, color_scheme="light")
    page = context.new_page()
    said: list[str] = []
    page.on("console", lambda message: said.append(f"{message.type}: {message.text}"))
    page.on("pageerror", lambda error: said.append(f"error: {error}"))
    page.on("requestfailed", lambda request: said.append(f"failed: {request.url}"))
    yield page
    context.close()
    assert said == []


def _ready(page: Any) -> None:
    page.wait_for_selector("#main[data-ready=yes]")


@pytest.fixture
def at(page: Any, served: Server) -> Open:
    """Opens an address of the page, and waits for it."""

    def opens(address: str) -> Any:
        page.goto(f"{served.url}{address}")
        _ready(page)
        return page

    return opens


def _address(page: Any) -> str:
    return str(page.url.partition("#")[2])


def _press(page: Any, key: str) -> None:
    page.keyboard.press(key)
    page.wait_for_timeout(30)  # a key changes the address, and that the page, in the next turn
    _ready(page)


def _data(page: Any, name: str, selector: str = "canvas") -> int:
    return int(page.locator(selector).first.get_attribute(f"data-{name}") or 0)


def _until(page: Any, is_so: Callable[[], bool]) -> bool:
    """Waits two seconds at most. The policy of the page forbids what Playwright has for this: evaluating strings."""
    for _ in range(100):
        if is_so():
            return True
        page.wait_for_timeout(20)
    return False


# ---- the views


def test_the_model_is_a_graph_of_layers(at: Open) -> None:
    page = at("#/layers")
    assert _until(page, lambda: _data(page, "nodes") > 5)
    inner = _data(page, "nodes")
    rows = page.locator("ol[aria-label=layers] li")
    assert rows.count() > 8 and "GPT" in rows.first.inner_text()
    _press(page, "[")
    _press(page, "[")
    assert _until(page, lambda: 1 < _data(page, "nodes") < inner)
    _press(page, "]")
    _press(page, "]")
    assert _until(page, lambda: _data(page, "nodes") == inner)
    (row,) = [row for row in rows.all() if row.locator("button").get_attribute("title") == "blocks.0.ff1: Linear"]
    row.locator("button").click()
    _ready(page)
    assert _address(page) == "/layers/blocks.0.ff1"
    details = page.locator(".details").inner_text()
    for part in ("Linear", "forward", "backward", "weight", "float32(32, 8)", "values come from"):
        assert part in details, part
    page.get_by_role("tab", name="Kernels").click()
    kernels = page.locator("table[aria-label='kernels of the layer'] tbody tr")
    assert kernels.count() > 1 and "blocks.0.ff1 linear" in page.locator(".details").inner_text()
    kernels.first.locator("td").first.click()
    _ready(page)
    assert re.fullmatch(r"/kernel/\d+", _address(page))
    page = at("#/layers/blocks.0.ff1")
    assert page.locator(".details h3").inner_text() == "blocks.0.ff1"


def test_recordings_without_layers_say_so(page: Any, tmp_path: Path) -> None:
    with whit.trace(tmp_path / "plain.trace"):
        (whit.Tensor([1.0, 2.0]) * 3).realize()
    write_html(Documents(load(tmp_path / "plain.trace")), tmp_path / "plain.html")
    page.goto((tmp_path / "plain.html").as_uri() + "#/layers")
    _ready(page)
    assert "No layers were recorded" in page.locator("#main").inner_text()


def test_the_overview_lists_kernels_and_searches_them(at: Open) -> None:
    page = at("#/")
    assert page.title() == "gpt.trace · whit viz"
    assert page.locator("h1").inner_text() == "train_gpt.py"
    rows = page.locator("table[aria-label=kernels] tbody tr")
    every = rows.count()
    assert every > 20
    page.keyboard.press("/")
    page.keyboard.type("add_reduce")
    assert 0 < rows.count() < every
    page.keyboard.press("Enter")
    _press(page, "Enter")
    assert re.fullmatch(r"/kernel/\d+", _address(page))
    assert "add_reduce" in page.locator(".title h2").inner_text()


def _rewritten(served: Server) -> tuple[int, int]:
    """A kernel, and the first of its passes with rewrites, which are in the graph; a later pass has some, too."""
    documents = served.documents
    for number in documents.trace.kernels:
        passes = documents.get(f"kernel/{number}")["passes"]
        rewriting = [place for place, step in enumerate(passes, 1) if step["steps"]]
        if len(rewriting) > 1 and passes[rewriting[0] - 1]["steps"] > 2:
            return number, rewriting[0]
    raise AssertionError


def test_rewrites_are_gone_through_by_keyboard(at: Open, served: Server) -> None:
    number, first = _rewritten(served)
    page = at(f"#/kernel/{number}")
    assert page.locator(".stages .chosen .stage-name").inner_text() == "graph"
    _press(page, "j")
    assert _address(page) == f"/kernel/{number}/pass/{first}/step/1"
    assert page.locator(".step-head h4").inner_text().startswith("rewrite 1 of ")
    assert "def " in page.locator("pre[aria-label='source of the rule']").inner_text()
    assert page.locator("pre.removed").inner_text() != page.locator("pre.added").inner_text()
    before = _data(page, "nodes")
    assert before > 2
    _press(page, "ArrowRight")
    assert _address(page) == f"/kernel/{number}/pass/{first}/step/2"
    assert page.locator(".long-row.chosen .number").inner_text() == "2"
    _press(page, "k")
    assert _address(page).endswith("/step/1")
    total = int(page.locator(".step-head h4").inner_text().split(" of ")[1])
    for _ in range(total):
        _press(page, "j")
    passes = served.documents.get(f"kernel/{number}")["passes"]
    following = next(i for i, step in enumerate(passes, 1) if step["steps"] and i > first)
    assert _address(page) == f"/kernel/{number}/pass/{following}/step/1"
    _press(page, "g")
    assert _address(page) == f"/kernel/{number}/pass/{following}"


def test_an_address_leads_to_the_same_step(at: Open, served: Server) -> None:
    number, first = _rewritten(served)
    page = at(f"#/kernel/{number}/pass/{first}/step/2")
    assert page.locator(".long-row.chosen .number").inner_text() == "2"
    page.reload()
    _ready(page)
    assert page.locator(".step-head h4").inner_text().startswith("rewrite 2 of ")
    at("#/nowhere/3").wait_for_selector(".error >> text=There is nothing at #/nowhere/3.")


def test_nodes_are_searched_selected_and_followed(at: Open, served: Server) -> None:
    page = at(f"#/kernel/{_rewritten(served)[0]}/pass/9")
    page.keyboard.press("/")
    page.keyboard.type("store")
    assert re.fullmatch(r"1 of \d+", page.locator(".matches").inner_text())
    assert page.locator(".details h3").inner_text() == "store"
    page.keyboard.press("Escape")
    page.keyboard.press("/")
    page.keyboard.type("range")
    page.keyboard.press("Enter")
    page.keyboard.press("Tab")
    assert page.locator(".details h3").inner_text() == "range"
    assert page.locator(".facts").inner_text().startswith("type\nint64\nvalues\n0..")
    users = page.locator(".details .edge")
    name = users.first.inner_text().splitlines()[0]
    users.first.click()
    assert page.locator(".details h3").inner_text() in name


def test_a_node_folds_what_is_below_it(at: Open, served: Server) -> None:
    page = at(f"#/kernel/{_rewritten(served)[0]}/pass/0")
    every = _data(page, "nodes")
    page.keyboard.press("/")
    page.keyboard.type("store")
    page.keyboard.press("Enter")
    page.locator("canvas").focus()
    page.keyboard.press("c")
    assert _until(page, lambda: _data(page, "nodes") < every)
    page.keyboard.press("c")
    page.wait_for_selector(f"canvas[data-nodes='{every}']")


def test_source_and_machine_code_stand_beside_the_graph(at: Open) -> None:
    page = at("#/kernel/0")
    page.get_by_role("tab", name="Code").click()
    assert "define void @" in page.locator("pre[aria-label=source]").inner_text()
    assert "ret" in page.locator("pre[aria-label='machine code']").inner_text()
    assert page.locator("canvas").is_visible()


def test_a_schedule_opens_its_kernels(at: Open, served: Server) -> None:
    schedules = served.documents.trace.schedules
    number = max(schedules, key=lambda n: len(schedules[n].calls))
    page = at(f"#/schedule/{number}")
    assert _data(page, "nodes") == len(schedules[number].calls)
    page.keyboard.press("ArrowDown")
    page.keyboard.press("c")
    assert _until(page, lambda: _data(page, "nodes") > len(schedules[number].calls))
    page.locator("canvas").focus()
    _press(page, "o")
    assert re.fullmatch(r"/kernel/\d+", _address(page))


def test_the_timeline_zooms_and_leads_to_kernels(at: Open) -> None:
    page = at("#/timeline")
    whole = _data(page, "span")
    box = page.locator("canvas").bounding_box()
    page.mouse.move(box["x"] + 600, box["y"] + 150)
    page.mouse.wheel(0, -200)
    page.wait_for_timeout(100)
    assert _data(page, "span") < whole
    page.keyboard.press("f")
    assert abs(_data(page, "span") - whole) <= 2
    page.keyboard.press("n")
    assert _data(page, "span") < whole / 100
    page.keyboard.press("j")
    page.wait_for_selector(".details >> text=your line")
    assert "gpt.py:" in page.locator(".details .where").first.inner_text()
    page.wait_for_selector("table[aria-label='kernels in view'] tbody tr")
    _press(page, "Enter")
    assert re.fullmatch(r"/kernel/\d+", _address(page))


def test_memory_shows_the_peak_and_who_holds_it(at: Open, served: Server) -> None:
    page = at("#/memory")
    device = served.documents.get("memory")["devices"][0]
    text = page.locator("h3.peak").inner_text()
    assert re.fullmatch(r"Peak: [\d.]+ [kM]?B", text)
    assert page.locator(".holders tbody tr").count() == len(device["holders"])
    page.keyboard.press("p")
    page.keyboard.press("e")
    assert page.locator(".toolbar button").first.inner_text() == "By time"


def test_roofline_and_compile_time(at: Open, served: Server) -> None:
    page = at("#/roofline")
    ran = [k for k in served.documents.get("overview")["kernels"] if k["roofline"] and k["roofline"]["gflops"] > 0]
    assert page.locator("circle.kernel-dot").count() == len(ran)
    _press(page, "6")
    assert _data(page, "depth") == 1
    page.keyboard.press("ArrowDown")
    page.keyboard.press("ArrowDown")
    assert _data(page, "depth") == 3
    assert page.locator("table[aria-label=rules] tbody tr").count() > 5
    page.keyboard.press("u")
    assert _data(page, "depth") == 2


def test_dark_light_and_help(at: Open) -> None:
    page = at("#/")
    root = page.locator("html")
    assert root.get_attribute("data-theme") == "light"
    page.keyboard.press("T")
    assert root.get_attribute("data-theme") == "dark"
    page.reload()
    _ready(page)
    assert root.get_attribute("data-theme") == "dark"
    page.keyboard.press("?")
    assert "search kernels" in page.locator("dialog.help").inner_text()
    page.keyboard.press("Escape")
    assert page.locator("dialog.help").count() == 0


LAYOUT = """async ({count, widths, pairs}) => {
  const { layout } = await import("/page/layout.js");
  const { x, y, routes } = layout(count, widths, pairs);
  return { x: [...x], y: [...y], edges: routes.length };
}"""


def test_a_layout_has_sources_above_users_and_no_overlaps(at: Open) -> None:
    page = at("#/")
    chance = random.Random(1)
    count = 400
    widths = [chance.randint(40, 200) for _ in range(count)]
    pairs = [
        end for user in range(1, count) for _ in range(2) for end in (chance.randint(max(0, user - 40), user - 1), user)
    ]
    placed = page.evaluate(LAYOUT, {"count": count, "widths": widths, "pairs": pairs})
    x, y = placed["x"], placed["y"]
    assert placed["edges"] == len(pairs) // 2
    assert all(y[source] + 40 < y[user] for source, user in zip(pairs[::2], pairs[1::2], strict=True))
    for top in set(y):
        row = sorted((x[i] - widths[i] / 2, x[i] + widths[i] / 2) for i in range(count) if y[i] == top)
        assert all(left[1] < right[0] for left, right in pairwise(row))
    circle = page.evaluate(LAYOUT, {"count": 3, "widths": [50, 50, 50], "pairs": [0, 1, 1, 2, 2, 0]})
    assert len(set(circle["y"])) == 3 and circle["edges"] == 2


# ---- one file, and hostile ones


def test_an_exported_file_opens_without_a_network(page: Any, trained: Path, tmp_path: Path) -> None:
    out = tmp_path / "gpt.html"
    assert write_html(Documents(load(trained)), out) == []
    page.context.set_offline(True)
    asked: list[str] = []
    page.on("request", lambda request: asked.append(request.url))
    for address in ("#/", "#/kernel/1/pass/9", "#/timeline", "#/memory", "#/roofline", "#/compile", "#/schedule/0"):
        page.goto(f"{out.as_uri()}{address}")
        _ready(page)
        assert page.locator(".error").count() == 0
    assert [url for url in asked if not url.startswith(("file:", "blob:", "data:"))] == []


@pytest.mark.parametrize("is_exported", [False, True])
def test_hostile_text_is_shown_as_text(page: Any, tmp_path: Path, is_exported: bool) -> None:
    documents = Documents(load(write_hostile(tmp_path / "hostile.trace")))
    steps = [f"kernel/0/pass/1/step/{step}" for step in (1, 2, 3)]
    addresses = ["", *steps, "schedule/0", "layers", "timeline", "memory", "roofline", "compile", "kernel/0"]
    with Server(documents) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            write_html(documents, tmp_path / "out.html")
            start = (tmp_path / "out.html").as_uri() if is_exported else server.url
            for address in addresses:
                page.goto(f"{start}#/{address}")
                _ready(page)
                page.wait_for_timeout(50)
                assert page.locator("img").count() == 0 and page.evaluate("window.hacked === undefined")
            assert ATTACK in page.locator(".title h2").inner_text()
        finally:
            server.shutdown()
            thread.join()
