"""The page without a browser: its documents, its server, and the file that can be mailed."""

import base64
import hashlib
import http.client
import json
import re
import socket
import subprocess
import sys
import threading
import time
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from viz.hostile import ATTACK, write_hostile
from whit.cli.main import main as whit_main
from whit.errors import ArgumentError, FileError, MissingError
from whit.ir.text.parse import parse
from whit.viz.cli import main
from whit.viz.load import load
from whit.viz.model import Trace
from whit.viz.page.documents import Documents
from whit.viz.page.export import bundle, html, write_html
from whit.viz.page.replay import Replay, places
from whit.viz.page.serve import POLICY, Server, page_files

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def documents(recorded: Path) -> Documents:
    return Documents(load(recorded))


# ---- documents


def test_every_document_is_json_of_bounded_numbers(documents: Documents) -> None:
    names = list(documents.names())
    assert names[:7] == ["overview", "rules", "stacks", "layers", "timeline", "memory", "compile"]
    assert {"schedule/0", "kernel/2", "graph/0", "steps/k0.2/0"} <= set(names)
    assert len(names) == len(set(names))
    for name in names:
        json.dumps(documents.get(name), allow_nan=False)


@pytest.mark.parametrize(
    "name",
    [
        "",
        "kernel",
        "kernel/99",
        "kernel/-1",
        "kernel/1/2",
        "../overview",
        "graph/9999999999",
        "steps/k0.1/9",
        "steps/k9.1/0",
    ],
)
def test_a_name_that_is_none_is_missing(documents: Documents, name: str) -> None:
    with pytest.raises(MissingError, match="the recording has no"):
        documents.get(name)


def test_a_graph_has_a_row_for_each_line_of_its_text(documents: Documents, trace: Trace) -> None:
    graph = documents.get(f"graph/{trace.kernels[0].graph}")
    lines = graph["text"].splitlines()
    assert len(graph["rows"]) == len(graph["names"]) == len(lines)
    for (op, operands, _, kind, span), name, line in zip(graph["rows"], graph["names"], lines, strict=True):
        assert line.startswith(f"{name} = {op} " if name else f"{op} ")
        assert all(isinstance(operand, str) or 0 <= operand < len(lines) for operand in operands)
        if op == "range":
            assert operands == [str(int(span.partition("..")[2]) + 1)] and kind == "weakint"
    assert graph["root"] == len(lines) - 1


def test_calls_name_their_functions_and_what_they_wait_for(documents: Documents) -> None:
    schedule = documents.get("schedule/0")
    graph = documents.get(f"graph/{schedule['linear']}")
    assert graph["rows"][graph["root"]][0] == "linear"
    called = [graph["functions"][graph["calls"][call]]["name"] for call in graph["rows"][graph["root"]][1]]
    names = {int(row["id"][1:]): row["name"] for row in documents.get("overview")["kernels"]}
    assert called == [names[kernel] for kernel in schedule["calls"]]
    assert schedule["needs"][0] == []
    assert all(call < number for number, needs in enumerate(schedule["needs"]) for call, _ in needs)
    assert schedule["needs"][1][0][0] == 0


def _expression(rows: list[Any], became: dict[int, int], slot: int) -> tuple[Any, ...]:
    while slot in became:
        slot = became[slot]
    op, operands, argument, *_ = rows[slot]
    below = tuple(o if isinstance(o, str) else _expression(rows, became, o) for o in operands)
    return op, below, argument


def test_replaying_the_rewrites_of_a_pass_gives_the_graph_after_it(trace: Trace, documents: Documents) -> None:
    """`flatten` is made of rules alone, but for what it does to scalars."""
    kernels = {n: k for n, k in trace.kernels.items() if not re.search(r"param \d+, \w+$", trace.graphs[k.graph], re.M)}
    assert kernels
    for number, kernel in kernels.items():
        position = [step.name for step in kernel.passes].index("flatten")
        place = places(trace)[f"k{number}.{position + 1}"]
        assert place.title == "flatten"
        chunk = Replay(trace, place).chunk(0)
        assert chunk is not None
        became = {before: after for _, before, after, _ in chunk["steps"] if before != after}
        after = documents.get(f"graph/{kernel.passes[position].graph}")
        assert _expression(chunk["rows"], became, chunk["root"]) == _expression(after["rows"], {}, after["root"])


def test_a_rewrite_that_wraps_its_node_makes_no_circle(tmp_path: Path) -> None:
    trace = load(write_hostile(tmp_path / "t"))
    trace.nodes.update({1: "range 4, id=0, kind=loop", 2: "add %1, 0", 3: "mul %2, 2"})
    kernel = trace.kernels[0]
    kernel.passes[0].rewriting.steps = [(0, 2, 3)]
    chunk = Replay(trace, places(trace)["k0.1"]).chunk(0)
    assert chunk is not None
    ((_, before, after, _),) = chunk["steps"]
    assert _expression(chunk["rows"], {before: after}, chunk["root"])[1][0][1][2] == (
        "mul",
        (("add", (("range", ("4",), "id=0, kind=loop"), "0"), ""), "2"),
        "",
    )


def test_damage_makes_documents_empty_and_no_errors(tmp_path: Path) -> None:
    documents = Documents(load(write_hostile(tmp_path / "hostile")))
    for name in documents.names():
        json.dumps(documents.get(name), allow_nan=False)
    assert documents.get("graph/1")["rows"] == []
    assert documents.get("steps/k0.1/0")["steps"][1][1:3] == [-1, -1]


def test_a_graph_that_means_nothing_is_said_and_left_out(tmp_path: Path) -> None:
    """Its function has no store: what it writes cannot be told."""
    trace = load(write_hostile(tmp_path / "hostile"))
    function = 'f = function "f" {\n  p0 = param 0, float32(4,)\n  group p0\n}\n'
    trace.graphs[1] = f"{function}p0 = param 0, float32(4,)\n%1 = call f, p0\nlinear %1"
    assert parse(trace.graphs[1]).op.name == "linear"
    documents = Documents(trace)
    _, left_out = html(documents)
    assert left_out == ["schedule/0"]
    with Server(documents) as server:
        threading.Thread(target=server.handle_request).start()
        status, _, body = _ask(server, "/data/schedule/0.json")
    assert status == 500 and b"schedule/0: " in body


# ---- the server


@pytest.fixture(scope="module")
def server(documents: Documents) -> Iterator[Server]:
    with Server(documents) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield server
        server.shutdown()
        thread.join()


def _ask(server: Server, path: str, method: str = "GET", **headers: str) -> tuple[int, dict[str, str], bytes]:
    connection = http.client.HTTPConnection("127.0.0.1", server.server_port, timeout=20)
    connection.request(method, path, headers=headers)
    answer = connection.getresponse()
    found = answer.status, dict(answer.getheaders()), answer.read()
    connection.close()
    return found


def test_the_server_has_the_page_and_the_documents(server: Server) -> None:
    status, headers, body = _ask(server, "/")
    assert status == 200 and headers["Content-Type"] == "text/html; charset=utf-8"
    assert body == (ROOT / "whit/viz/page/static/index.html").read_bytes()
    for name in ("main.js", "style.css", "worker.js"):
        assert _ask(server, f"/page/{name}")[0] == 200
    status, headers, body = _ask(server, "/data/overview.json")
    assert status == 200 and json.loads(body)["trace"]["runs"] > 0
    assert headers["Content-Security-Policy"] == POLICY and headers["X-Content-Type-Options"] == "nosniff"
    assert _ask(server, "/data/kernel/0.json", method="HEAD")[2] == b""


@pytest.mark.parametrize(
    "path",
    [
        "/page/../serve.py",
        "/page/..%2fserve.py",
        "/page//etc/passwd",
        "//etc/passwd",
        "/etc/passwd",
        "/page/",
        "/data/../page/main.js",
        "/data/..%2f..%2foverview.json",
        "/data/kernel/99.json",
        "/data/.json",
        "/static/main.js",
    ],
)
def test_the_server_has_nothing_else(server: Server, path: str) -> None:
    assert _ask(server, path)[0] == 404


def test_the_server_is_for_this_machine_alone(server: Server) -> None:
    assert server.socket.getsockname()[0] == "127.0.0.1"
    assert _ask(server, "/data/overview.json", Host="evil.example")[0] == 403
    assert _ask(server, "/", Host=f"localhost:{server.server_port}")[0] == 200
    assert _ask(server, "/data/overview.json", method="POST")[0] == 501
    assert "Access-Control-Allow-Origin" not in _ask(server, "/data/overview.json")[1]


def test_a_port_in_use_is_said(documents: Documents) -> None:
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        port = other.getsockname()[1]
        with pytest.raises(ArgumentError, match=f"viz: port {port} is in use"):
            Server(documents, port)


@pytest.mark.slow
def test_serving_ends_quietly(recorded: Path) -> None:
    command = [sys.executable, "-m", "whit", "viz", str(recorded), "--serve", "--no-open"]
    code = "import os, signal; signal.signal(signal.SIGINT, signal.default_int_handler); os.execv(*{!r})"
    process = subprocess.Popen(
        [sys.executable, "-c", code.format((sys.executable, command))],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    line = process.stdout.readline()
    assert re.fullmatch(r"http://127\.0\.0\.1:\d+/  \(only on this machine; Ctrl-C ends it\)\n", line)
    process.send_signal(2)
    _, errors = process.communicate(timeout=30)
    assert process.returncode == 0 and errors == ""


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([], "say what you want to know: list, layers, top"),
        (["--serve", "list"], "--serve and list do not go together"),
        (["--serve", "--html", "x"], "--serve and --html do not go together"),
        (["--port", "70000", "--serve"], "invalid _port value: '70000'"),
    ],
)
def test_wrong_usage(recorded: Path, arguments: list[str], message: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main([str(recorded), *arguments])
    assert ended.value.code == 2 and message in capsys.readouterr().err
    assert whit_main(["viz", str(recorded), *arguments]) == 2


def test_without_a_browser_the_address_is_said(
    recorded: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    asked = threading.Event()

    def refuse(url: str) -> bool:
        asked.set()
        return False

    def stop(self: Server) -> None:
        assert asked.wait(10)
        time.sleep(0.1)  # until that is said
        raise KeyboardInterrupt

    monkeypatch.setattr("webbrowser.open", refuse)
    monkeypatch.setattr(Server, "serve_forever", stop)
    assert main([str(recorded), "--serve"]) == 0
    assert "no browser could be opened: open that address in one" in capsys.readouterr().err


# ---- one file


def _embedded(page: str) -> dict[str, Any]:
    found = re.search(r'<script type="application/json" id="documents">(.*)</script>', page)
    assert found is not None
    data: dict[str, Any] = json.loads(found[1])
    return data


def test_the_exported_file_has_everything(documents: Documents, tmp_path: Path) -> None:
    assert write_html(documents, tmp_path / "out.html") == []
    page = (tmp_path / "out.html").read_text()
    packed = _embedded(page)["documents"]
    assert list(packed) == list(documents.names())
    unpacked = json.loads(zlib.decompress(base64.b64decode(packed["kernel/0"])))
    assert unpacked == json.loads(json.dumps(documents.get("kernel/0")))
    assert not re.search(r'(src|href)="', page) and "import {" not in page and "\nexport " not in page


def test_only_the_one_script_of_an_exported_file_may_run(documents: Documents) -> None:
    page, _ = html(documents)
    scripts = re.findall(r"<script>(.*?)</script>", page, re.DOTALL)
    assert len(scripts) == 1
    digest = base64.b64encode(hashlib.sha256(scripts[0].encode()).digest()).decode()
    assert f"script-src 'sha256-{digest}' blob:;" in page and "connect-src 'none'" in page


def test_a_large_export_leaves_out_rewrites_first(documents: Documents) -> None:
    whole, _ = html(documents)
    size = sum(map(len, _embedded(whole)["documents"].values()))
    page, left_out = html(documents, most=size - 200)
    assert left_out and all(name.startswith("steps/") for name in left_out)
    assert _embedded(page)["left_out"] == left_out


def test_hostile_text_stays_out_of_the_html(tmp_path: Path) -> None:
    page, left_out = html(Documents(load(write_hostile(tmp_path / "hostile"))))
    assert left_out == [] and ATTACK not in page and "hacked" not in page
    assert page.count("<script") == 3


def test_a_file_that_cannot_be_written_is_said(documents: Documents, tmp_path: Path) -> None:
    with pytest.raises(FileError, match="cannot be written"):
        write_html(documents, tmp_path / "none" / "out.html")


def test_the_command_says_what_it_wrote(recorded: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = str(tmp_path / "out.html")
    assert main([str(recorded), "--html", out]) == 0
    assert re.fullmatch(re.escape(out) + r": \d+\.\d kB\n", capsys.readouterr().out)


# ---- the sources of the page


def test_modules_import_what_is_exported_and_use_it() -> None:
    files = page_files()
    exports = {
        name: set(re.findall(r"^export (?:async )?(?:function|const|class) (\w+)", text, re.M))
        for name, text in files.items()
    }
    for name, text in files.items():
        for names, module in re.findall(r'^import \{([^}]*)\} from "\./([\w.]+)";$', text, re.M):
            wanted = {word.strip() for word in names.split(",")}
            assert wanted <= exports[module], (name, module)
            unused = [word for word in wanted if len(re.findall(rf"\b{re.escape(word)}\b", text)) < 2]
            assert not unused, (name, unused)
        assert len(re.findall(r"^import ", text, re.M)) == len(re.findall(r'^import \{[^}]*\} from "\./', text, re.M))
    used = set(re.findall(r'from "\./([\w.]+)";', "".join(files.values()))) | {
        "main.js",
        "worker.js",
        "index.html",
        "style.css",
    }
    assert used == set(files)


def test_the_page_never_takes_text_for_html() -> None:
    for name, text in page_files().items():
        assert not re.search(r"innerHTML|outerHTML|insertAdjacentHTML|document\.write|\beval\b|new Function", text), (
            name
        )
        assert len(text.splitlines()) < 400, name
        assert "http://" not in text.replace("http://www.w3.org/2000/svg", "") and "https://" not in text, name


def test_a_bundle_has_each_module_once_and_before_its_users() -> None:
    files = {"a.js": 'import { b } from "./b.js";\nexport const a = b;\n', "b.js": "export function b() {}\n"}
    text = bundle(files, "a.js")
    assert text.index('modules["b.js"] =') < text.index('modules["a.js"] =')
    assert 'const { b } = modules["b.js"];\nconst a = b;\nreturn { a };' in text


def test_parse_of_the_hostile_graph() -> None:
    """The fixture of these tests is a graph, so that rewrites of it are shown."""
    from viz.hostile import GRAPH

    assert parse(GRAPH).op.name == "group"
