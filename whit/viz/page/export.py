"""The page and a trace in one HTML file, which opens anywhere, without a server and without a network.

The modules become one script: each is a function that runs once and hands out what it exports. Documents are packed
(zlib) and unpacked by the browser when they are shown. The file's own policy lets this one script run and no other, and
nothing be fetched.
"""

from __future__ import annotations

import base64
import hashlib
import json
import os
import re
import zlib

from whit.errors import FileError, WhitError
from whit.progress import tqdm
from whit.viz.page.documents import DAMAGE, Documents
from whit.viz.page.serve import page_files

MOST_BYTES = 24_000_000  # of packed documents, as text: what opens in a moment, and can be mailed

_IMPORT = re.compile(r'^import \{([^}]*)\} from "\./([\w.]+)";\n', re.MULTILINE)
_EXPORT = re.compile(r"^export (?=(?:async )?(?:function|const|class) (\w+))", re.MULTILINE)


def write_html(documents: Documents, path: str | os.PathLike[str], most: int = MOST_BYTES) -> list[str]:
    """Writes the file; gives the names of the documents that did not fit."""
    text, left_out = html(documents, most)
    write_text(path, text)
    return left_out


def write_text(path: str | os.PathLike[str], text: str) -> None:
    """Writes a file that was asked for."""
    try:
        with open(path, "w", encoding="utf-8") as file:
            file.write(text)
    except OSError as error:
        raise FileError(
            f"viz: {os.fspath(path)} cannot be written", str(error), "Name a file in a folder that can be written."
        ) from None


def html(documents: Documents, most: int = MOST_BYTES) -> tuple[str, list[str]]:
    """The text of the file, and what did not fit."""
    files = page_files()
    packed, left_out = _packed(documents, most)
    script = bundle(files, "main.js")
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    policy = (
        f"default-src 'none'; script-src 'sha256-{digest}' blob:; worker-src blob:; style-src 'unsafe-inline'; "
        "img-src data:; connect-src 'none'; base-uri 'none'; form-action 'none'"
    )
    data = json.dumps({"documents": packed, "left_out": left_out}, separators=(",", ":"))
    page = files["index.html"]
    for mark, text in (
        ('<link rel="stylesheet" href="/page/style.css">', f"<style>\n{files['style.css']}</style>"),
        ("<!-- policy -->", f'<meta http-equiv="Content-Security-Policy" content="{policy}">'),
        (
            '<script type="module" src="/page/main.js"></script>',
            f'<script type="application/json" id="documents">{_in_html(data)}</script>\n'
            f'<script type="text/plain" id="worker">{_in_html(bundle(files, "worker.js"))}</script>\n'
            f"<script>{script}</script>",
        ),
    ):
        before, found, after = page.partition(mark)
        assert found, f"index.html has no line {mark!r}, which a script or a style takes the place of"
        page = f"{before}{text}{after}"
    return page, left_out


def _packed(documents: Documents, most: int) -> tuple[dict[str, str], list[str]]:
    """Documents as text, until they are too many."""
    packed: dict[str, str] = {}
    left_out: list[str] = []
    size = 0
    for name in tqdm(list(documents.names()), desc="viz: packing"):
        if size >= most:
            left_out.append(name)
            continue
        try:
            text = json.dumps(documents.get(name), separators=(",", ":"), allow_nan=False)
        except (WhitError, *DAMAGE):
            left_out.append(name)
            continue
        data = base64.b64encode(zlib.compress(text.encode(), 6)).decode()
        if size + len(data) > most:
            left_out.append(name)
            continue
        packed[name] = data
        size += len(data)
    return packed, left_out


def _in_html(text: str) -> str:
    """Nothing that could end a script element, or begin a comment in it; the same JSON, and the same JavaScript."""
    return text.replace("<!--", "<\\!--").replace("</", "<\\/")


def bundle(files: dict[str, str], main: str) -> str:
    """One script of a module and all that it imports."""
    order: list[str] = []

    def visit(name: str) -> None:
        for _, imported in _IMPORT.findall(files[name]):
            if imported not in order:
                visit(imported)
        if name not in order:
            order.append(name)

    visit(main)
    return '"use strict";\nconst modules = {};\n' + "".join(_module(name, files[name]) for name in order)


def _module(name: str, text: str) -> str:
    exported = _EXPORT.findall(text)
    text = _IMPORT.sub(lambda match: f'const {{{match[1]}}} = modules["{match[2]}"];\n', text)
    text = _EXPORT.sub("", text)
    return f'modules["{name}"] = (() => {{\n{text}return {{ {", ".join(exported)} }};\n}})();\n'
