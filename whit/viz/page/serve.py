"""A server for one browser on this machine: the page's own files, and documents of one trace.

It binds to 127.0.0.1 and nothing else, knows only the paths that it lists here, and refuses requests that name another
host, so that no other page in the browser can have its name point here and read along.
"""

from __future__ import annotations

import errno
import json
import sys
import threading
import webbrowser
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from importlib import resources
from typing import Any

from whit.errors import ArgumentError, WhitError
from whit.viz.page.documents import DAMAGE, Documents

ADDRESS = "127.0.0.1"
KINDS = {"html": "text/html", "js": "text/javascript", "css": "text/css"}
POLICY = "default-src 'none'; script-src 'self'; worker-src 'self'; style-src 'self'; connect-src 'self'; img-src data:"


def page_files() -> dict[str, str]:
    """The files of the page, by name."""
    folder = resources.files("whit.viz.page").joinpath("static")
    return {f.name: f.read_text("utf-8") for f in folder.iterdir() if f.name.rpartition(".")[2] in KINDS}


class Server(ThreadingHTTPServer):
    """Serves one trace. Port 0 takes any that is free."""

    daemon_threads = True
    allow_reuse_address = sys.platform != "win32"  # there it would let two servers have one port

    def __init__(self, documents: Documents, port: int = 0) -> None:
        self.documents = documents
        self.files = page_files()
        try:
            super().__init__((ADDRESS, port), Handler)
        except (OSError, OverflowError) as error:
            raise _no_port(port, error) from None

    @property
    def url(self) -> str:
        """Where the page is."""
        return f"http://{ADDRESS}:{self.server_port}/"

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A browser that goes away in the middle of an answer is no error."""
        if not isinstance(sys.exception(), ConnectionError):
            super().handle_error(request, client_address)


def _no_port(port: int, error: Exception) -> ArgumentError:
    if isinstance(error, OSError) and error.errno == errno.EADDRINUSE:
        what = f"viz: port {port} is in use"
    else:
        what = f"viz: port {port} cannot be had ({error})"
    return ArgumentError(what, fix="Name another one with --port, or none: then any that is free is taken.")


class Handler(BaseHTTPRequestHandler):
    """One request."""

    server: Server
    protocol_version = "HTTP/1.1"
    server_version = "whit"
    sys_version = ""
    timeout = 60

    def do_GET(self) -> None:
        """Files and documents; all else is refused."""
        names = (f"{ADDRESS}:{self.server.server_port}", f"localhost:{self.server.server_port}")
        if self.headers.get("Host") not in names:
            self._answer(HTTPStatus.FORBIDDEN, "text/plain", b"this server answers to this machine alone")
            return
        path = self.path.partition("?")[0]
        name = "index.html" if path == "/" else path.removeprefix("/page/") if path.startswith("/page/") else ""
        if name in self.server.files:
            kind = KINDS[name.rpartition(".")[2]]
            self._answer(HTTPStatus.OK, f"{kind}; charset=utf-8", self.server.files[name].encode())
        elif path.startswith("/data/") and path.endswith(".json"):
            self._document(path.removeprefix("/data/").removesuffix(".json"))
        else:
            self._answer(HTTPStatus.NOT_FOUND, "text/plain", b"there is no such page")

    def do_HEAD(self) -> None:
        """The same without the body."""
        self.do_GET()

    def _document(self, name: str) -> None:
        try:
            text = json.dumps(self.server.documents.get(name), separators=(",", ":"), allow_nan=False)
        except WhitError as error:
            self._answer(HTTPStatus.NOT_FOUND, "application/json", json.dumps({"error": error.what}).encode())
        except DAMAGE as error:
            problem = {"error": f"{name:.60}: {type(error).__name__}: {error}"}
            self._answer(HTTPStatus.INTERNAL_SERVER_ERROR, "application/json", json.dumps(problem).encode())
        else:
            self._answer(HTTPStatus.OK, "application/json", text.encode())

    def _answer(self, status: HTTPStatus, kind: str, body: bytes) -> None:
        self.send_response(status)
        for name, value in (
            ("Content-Type", kind),
            ("Content-Length", str(len(body))),
            ("Content-Security-Policy", POLICY),
            ("X-Content-Type-Options", "nosniff"),
            ("Referrer-Policy", "no-referrer"),
            ("Cross-Origin-Resource-Policy", "same-origin"),
            ("Cache-Control", "no-store"),
        ):
            self.send_header(name, value)
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    def log_message(self, format: str, *arguments: Any) -> None:
        """Nothing: a terminal full of requests helps nobody."""


def serve(documents: Documents, port: int, open_browser: bool) -> None:
    """Serves until Ctrl-C."""
    with Server(documents, port) as server:
        try:
            print(f"{server.url}  (only on this machine; Ctrl-C ends it)", flush=True)
            if open_browser:  # in a thread: a browser in the terminal is open until it is closed
                threading.Thread(target=_open, args=(server.url,), daemon=True).start()
            server.serve_forever()
        except KeyboardInterrupt:
            print()


def _open(url: str) -> None:
    try:
        is_open = webbrowser.open(url)
    except (webbrowser.Error, OSError):
        is_open = False
    if not is_open:
        print("no browser could be opened: open that address in one", file=sys.stderr, flush=True)
