"""Compiled kernels on disk, so that the next process does not compile them again.

    keep(key, header, code)          # key: 64 hexadecimal digits; header: what JSON can hold; code: bytes
    find(key)                        # (header, code), or None

One file an entry, written under another name and renamed, so that processes never see half of one; each carries a
checksum, and a damaged one is removed. The folder is kept below `LIMIT` bytes: what was not used for the longest time
goes first. Where it cannot be written, whit works without it and says so once.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import re
import struct
import sys
import threading
import warnings
from dataclasses import dataclass
from typing import Any

from whit.config import CACHE, CACHE_DIR

LIMIT = 512 * 1024 * 1024
MAGIC = b"whit kernel 1\n"
ENDING = ".kernel"
WRITES_BETWEEN_CLEANING = 256

_lengths = struct.Struct("<Q")
_UNFINISHED = r"\.\d+\.\d+\.part"
_state = {"writes": 0, "warned": 0}


def folder() -> str:
    """Where the entries are."""
    chosen = CACHE_DIR.value
    if chosen:
        return chosen
    home = os.path.expanduser("~")
    if not os.path.isabs(home):
        raise FileNotFoundError("this user has no home folder")
    if sys.platform == "darwin":
        return os.path.join(home, "Library", "Caches", "whit", "kernels")
    if sys.platform == "win32":
        return os.path.join(home, "AppData", "Local", "whit", "kernels")
    return os.path.join(os.environ.get("XDG_CACHE_HOME") or os.path.join(home, ".cache"), "whit", "kernels")


def find(key: str, ending: str = ENDING) -> tuple[dict[str, Any], bytes] | None:
    """The entry under this key. It counts as used now. Other things than kernels have another ending."""
    if not CACHE:
        return None
    try:
        path = os.path.join(folder(), key + ending)
        with open(path, "rb") as file:
            content = file.read()
    except OSError:
        return None
    entry = unpack(content)
    try:
        if entry is None:
            os.remove(path)
        else:
            os.utime(path)
    except OSError:  # somebody else's folder, or just removed
        pass
    return entry


def keep(key: str, header: dict[str, Any], code: bytes, ending: str = ENDING) -> None:
    """Stores an entry; does nothing where the folder cannot be written."""
    if not CACHE:
        return
    where = temporary = ""
    try:
        where = folder()
        os.makedirs(where, exist_ok=True)
        temporary = os.path.join(where, f"{key}.{os.getpid()}.{threading.get_ident()}.part")  # nobody else's name
        with open(temporary, "wb") as file:
            file.write(pack(header, code))
        os.replace(temporary, os.path.join(where, key + ending))
    except OSError as error:
        _remove(temporary)
        _warn(where, error)
        return
    _state["writes"] += 1
    if _state["writes"] % WRITES_BETWEEN_CLEANING == 1:
        clean(where, LIMIT)


def clean(where: str, limit: int, ending: str = ENDING) -> int:
    """Removes the entries used longest ago until the folder is small enough, and what crashed processes left.

    Gives the number of bytes that were freed.
    """
    found = entries(where, ending)
    total = before = sum(entry.nbytes for entry in found)
    for entry in found:
        if total <= limit:
            break
        if _remove(entry.path):
            total -= entry.nbytes
    return before - total


@dataclass(frozen=True, slots=True)
class Entry:
    """One file of the folder."""

    path: str
    nbytes: int
    used: float  # when it was used last, in seconds since 1970

    def header(self) -> dict[str, Any] | None:
        """What is known of the kernel, read without its code; None if there is no such thing in the file."""
        try:
            with open(self.path, "rb") as file:
                start = file.read(len(MAGIC) + 32 + _lengths.size)
                if start[: len(MAGIC)] != MAGIC:
                    return None
                (length,) = _lengths.unpack(start[-_lengths.size :])
                header = json.loads(file.read(min(length, self.nbytes)))
        except (OSError, ValueError, struct.error):
            return None
        return header if isinstance(header, dict) else None


def entries(where: str, ending: str = ENDING) -> list[Entry]:
    """What a cache folder holds, the entry used longest ago first; nothing if the folder cannot be read.

    Only files that `keep` has named are entries: the folder may be one that holds other things too.
    """
    result = []
    name = re.compile(rf"[0-9a-f]+({re.escape(ending)}|{_UNFINISHED})")
    try:
        with os.scandir(where) as found:
            for entry in found:
                if name.fullmatch(entry.name):
                    with contextlib.suppress(FileNotFoundError):  # another process has just removed it
                        status = entry.stat(follow_symlinks=False)
                        result.append(Entry(entry.path, status.st_size, status.st_mtime))
    except OSError:
        return []
    return sorted(result, key=lambda entry: (entry.used, entry.nbytes, entry.path))


def pack(header: dict[str, Any], code: bytes, magic: bytes = MAGIC) -> bytes:
    """An entry as bytes, with a digest."""
    text = json.dumps(header).encode()
    payload = _lengths.pack(len(text)) + text + code
    return magic + hashlib.sha256(payload).digest() + payload


def unpack(content: bytes, magic: bytes = MAGIC) -> tuple[dict[str, Any], bytes] | None:
    """The entry that was packed; None if the bytes are damaged, or something else."""
    start = len(magic) + 32
    payload = content[start:]
    if content[: len(magic)] != magic or hashlib.sha256(payload).digest() != content[len(magic) : start]:
        return None
    try:
        (length,) = _lengths.unpack_from(payload)
        begin = _lengths.size
        header = json.loads(payload[begin : begin + length])
    except (ValueError, struct.error, RecursionError):
        return None
    return (header, payload[begin + length :]) if isinstance(header, dict) else None


def _remove(path: str) -> bool:
    try:
        os.remove(path)
    except OSError:
        return False
    return True


def _warn(where: str, error: OSError) -> None:
    if not _state["warned"]:
        _state["warned"] = 1
        warnings.warn(
            f"whit cannot keep compiled kernels in {where or 'its cache folder'} ({error}); "
            "it compiles them anew in each process. Set CACHE_DIR to a folder that can be written, or CACHE=0.",
            RuntimeWarning,
            stacklevel=2,
        )
