"""`python -m whit cache list|size|clear [tuned]`: the compiled kernels on disk, and what `tune` has found."""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import time
from dataclasses import dataclass
from typing import Any

from whit.cli.answer import OK, PROBLEM, Answer, columns, spell_bytes, spell_count
from whit.config import CACHE
from whit.engine.compile import disk_cache
from whit.engine.compile.tune import store
from whit.helpers import downloads_folder

SHOWN_ENTRIES = 20  # entries that `list` prints as text, unless told otherwise


@dataclass(frozen=True, slots=True)
class Folder:
    """A folder that whit fills."""

    name: str
    path: str
    files: int
    nbytes: int
    limit: int | None  # bytes that it is kept below; None: nothing is ever removed

    def data(self) -> dict[str, Any]:
        """For --json."""
        return {
            "name": self.name,
            "folder": self.path,
            "files": self.files,
            "bytes": self.nbytes,
            "limit_bytes": self.limit,
        }

    def text(self) -> str:
        """For people."""
        limit = f" of {spell_bytes(self.limit)}" if self.limit is not None else ""
        return f"{spell_count(self.files, 'file')}, {spell_bytes(self.nbytes)}{limit}"


ENDINGS = {"kernels": disk_cache.ENDING, "tuned": store.ENDING}


def kernels(what: str = "kernels") -> Folder:
    """The compiled kernels; "tuned": the tilings that searches have found."""
    where = disk_cache.folder()
    return _kernels(what, where, disk_cache.entries(where, ENDINGS[what]))


def _kernels(what: str, where: str, found: list[disk_cache.Entry]) -> Folder:
    limit = disk_cache.LIMIT_BYTES if what == "kernels" else None
    return Folder(what, where, len(found), sum(entry.nbytes for entry in found), limit)


def tuned() -> Folder:
    """What searches have found."""
    return kernels("tuned")


def downloads() -> Folder:
    """The downloaded files."""
    where = str(downloads_folder())
    sizes = []
    for folder, _, names in os.walk(where):
        for name in names:
            path = os.path.join(folder, name)
            if not os.path.islink(path) and os.path.exists(path):
                sizes.append(os.path.getsize(path))
    return Folder("downloads", where, len(sizes), sum(sizes), None)


def folders() -> list[Folder]:
    """Those that have a place: a user without a home folder has none."""
    found = []
    for look in (kernels, tuned, downloads):
        with contextlib.suppress(OSError, RuntimeError):
            found.append(look())
    return found


def configure(parser: argparse.ArgumentParser) -> None:
    """The arguments."""
    parser.description = """\
The compiled kernels, and the schedules that call them, which whit keeps on disk for the next process.

actions:
  list     the kernels, used last first
  size     how many bytes they take, and where; downloaded files too
  clear    removes the kernels, and nothing else: later programs compile theirs again

`list tuned` and `clear tuned` are about what `python -m whit tune` has found instead.

The folder is the setting CACHE_DIR; CACHE=0 keeps nothing."""
    parser.add_argument("action", choices=("list", "size", "clear"), help="what to do")
    parser.add_argument("what", nargs="?", choices=tuple(ENDINGS), default="kernels", help="of what; kernels")
    parser.add_argument(
        "-n", type=_count, default=SHOWN_ENTRIES, metavar="N", help=f"list N kernels; {SHOWN_ENTRIES}, 0: all"
    )


def _count(text: str) -> int:
    if not text.isdecimal():
        raise argparse.ArgumentTypeError(f'"{text}" is no number of kernels')
    return int(text)


def run(options: argparse.Namespace) -> Answer:
    """The command."""
    if options.action == "list":
        return _list_tuned(options.n) if options.what == "tuned" else _list(options.n)
    return _clear(options.what) if options.action == "clear" else _size()


def _size() -> Answer:
    found = folders()
    lines = columns([(folder.name, folder.path, folder.text()) for folder in found], indent="")
    if not CACHE:
        lines.append("CACHE=0 is set: kernels are neither kept nor found.")
    return Answer({"in_use": bool(CACHE), "caches": [folder.data() for folder in found]}, "\n".join(lines))


def _list(most: int) -> Answer:
    where = disk_cache.folder()
    found = disk_cache.entries(where)[::-1]
    folder = _kernels("kernels", where, found)
    shown = found[:most] if most else found
    now = time.time()
    data = []
    rows = [("kernel", "size", "used", "file")]
    for entry in shown:
        header = entry.header() or {}
        name = str(header.get("title") or header.get("name") or "(damaged)")
        file = os.path.basename(entry.path)
        data.append({"name": name, "bytes": entry.nbytes, "used": entry.used, "file": file})
        rows.append((name, spell_bytes(entry.nbytes), _spell_age(now - entry.used), file[:12] + "..."))
    lines = [f"{folder.path}: {folder.text()}"]
    if shown:
        lines += columns(rows, right=(1, 2))
    if len(shown) < len(found):
        lines.append(f"  and {len(found) - len(shown)} more; -n 0 lists all")
    return Answer({**folder.data(), "entries": data}, "\n".join(lines))


def _list_tuned(most: int) -> Answer:
    where = disk_cache.folder()
    found = disk_cache.entries(where, store.ENDING)[::-1]
    folder = _kernels("tuned", where, found)
    shown = found[:most] if most else found
    data: list[dict[str, Any]] = []
    rows = [("kernel", "default us", "tuned us", "gain", "target", "file")]
    for entry in shown:
        known = store.read(entry.header() or {})
        file = os.path.basename(entry.path)
        data.append({"file": file, "used": entry.used, **_tuned_data(known)})
        if known is None:
            rows.append(("(damaged)", "", "", "", "", file[:12] + "..."))
            continue
        times = (f"{known.default_seconds * 1e6:.1f}", f"{known.seconds * 1e6:.1f}", f"{known.gain:.2f}")
        rows.append((known.title, *times, known.target, file[:12] + "..."))
    lines = [f"{folder.path}: {folder.text()}"]
    if shown:
        lines += columns(rows, right=(1, 2, 3))
    if len(shown) < len(found):
        lines.append(f"  and {len(found) - len(shown)} more; -n 0 lists all")
    return Answer({**folder.data(), "entries": data}, "\n".join(lines))


def _tuned_data(known: store.Tuned | None) -> dict[str, Any]:
    if known is None:
        return {"kernel": None, "target": None, "default_seconds": None, "seconds": None, "choice": None}
    return {
        "kernel": known.title,
        "target": known.target,
        "default_seconds": known.default_seconds,
        "seconds": known.seconds,
        "choice": None if known.choice is None else json.loads(known.choice),
    }


def _spell_age(seconds: float) -> str:
    for unit, length in (("d", 86400), ("h", 3600), ("min", 60)):
        if seconds >= length:
            return f"{seconds / length:.0f} {unit} ago"
    return f"{max(seconds, 0):.0f} s ago"


def _clear(what: str) -> Answer:
    before = kernels(what)
    freed = disk_cache.clean(before.path, -1, ENDINGS[what])
    left = kernels(what)
    data = {
        "folder": before.path,
        "removed_files": before.files - left.files,
        "removed_bytes": freed,
        "left_files": left.files,
    }
    text = f"{before.path}: removed {spell_count(before.files - left.files, 'file')}, {spell_bytes(freed)}"
    if left.files:
        text += f"\n{spell_count(left.files, 'file')} could not be removed; check who owns the folder."
    return Answer(data, text, PROBLEM if left.files else OK)
