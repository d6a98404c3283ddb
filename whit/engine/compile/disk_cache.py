"""Compiled kernels on disk, so that the next process does not compile them again.

    keep(key, header, code)          # key: 64 hexadecimal digits; header: what JSON can hold; code: bytes
    find(key)                        # (header, code), or None

One file an entry, written under another name and renamed, so that processes never see half of one. Each carries a
checksum of its name and content: a damaged one, or one under another key, is removed. The folder is kept below
`LIMIT_BYTES` bytes: what was not used for the longest time goes first.

What is found here runs, so only this user may write it: the folder is made for nobody else (0700), one that belongs to
another user or that everybody can write is not used, and neither are such files, nor links. Where the folder cannot be
used, whit works without it and says so once.
"""

from __future__ import annotations

import contextlib
import errno
import json
import os
import re
import stat
import struct
import sys
import threading
from typing import Any

from whit.config import CACHE, CACHE_DIR
from whit.engine.compile.sha256 import sha256
from whit.errors import warn
from whit.records import dataclass

LIMIT_BYTES = 512 * 1024 * 1024
MAGIC = b"whit kernel 2\n"
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
    where = ""
    try:
        where = folder()
        check_owner(where)
        path = os.path.join(where, key + ending)
        content = _read(path)
    except UnsafeError as error:
        _warn(where, error)
        return None
    except OSError:
        return None
    entry = unpack(content, name=key + ending)
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
        make_folder(where)
        temporary = os.path.join(where, f"{key}.{os.getpid()}.{threading.get_ident()}.part")  # nobody else's name
        _remove(temporary)  # of a process that had the same number, and crashed
        with open(temporary, "xb", opener=_open_new) as file:
            file.write(pack(header, code, name=key + ending))
        os.replace(temporary, os.path.join(where, key + ending))
    except OSError as error:
        _remove(temporary)
        _warn(where, error)
        return
    _state["writes"] += 1
    if _state["writes"] % WRITES_BETWEEN_CLEANING == 1:
        clean(where, LIMIT_BYTES)


# ---- who may write here


class UnsafeError(PermissionError):
    """A folder or a file that somebody else could have written."""

    def __init__(self, why: str, path: str) -> None:
        super().__init__(errno.EPERM, why, path)


def make_folder(where: str) -> None:
    """The folder, made if it is not there, for this user alone."""
    os.makedirs(where, mode=0o700, exist_ok=True)
    check_owner(where)


def check_owner(where: str) -> None:
    """Raises if others than this user and the administrator could put code into a folder."""
    if not hasattr(os, "geteuid"):
        return
    status = os.stat(where)
    if not _is_ours(status.st_uid) or not _is_ours(os.lstat(where).st_uid):  # the folder, or a link to it
        raise UnsafeError(f"it belongs to another user ({status.st_uid}), whose code would run", where)
    if status.st_mode & stat.S_IWOTH:
        raise UnsafeError("everybody can write there, and what they put there would run", where)


def _is_ours(user: int) -> bool:
    return user in (os.geteuid(), 0)


def _read(path: str) -> bytes:
    """The content of a file that nobody else can write."""
    with open(path, "rb", opener=_open_old) as file:
        status = os.fstat(file.fileno())
        if not stat.S_ISREG(status.st_mode):
            raise OSError(errno.EINVAL, "is no file", path)
        if hasattr(os, "geteuid") and (not _is_ours(status.st_uid) or status.st_mode & (stat.S_IWGRP | stat.S_IWOTH)):
            raise OSError(errno.EPERM, "somebody else can write it", path)
        return file.read()


_NO_LINK = getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0)  # the second: nobody waits for a pipe


def _open_old(path: str, flags: int) -> int:
    return os.open(path, flags | _NO_LINK)


def _open_new(path: str, flags: int) -> int:
    return os.open(path, flags | _NO_LINK, 0o600)


# ---- the folder


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


# ---- entries


def pack(header: dict[str, Any], code: bytes, magic: bytes = MAGIC, name: str = "") -> bytes:
    """An entry as bytes, with a digest of them and of its name."""
    text = json.dumps(header).encode()
    payload = _lengths.pack(len(text)) + text + code
    return magic + _digest(name, payload) + payload


def unpack(content: bytes, magic: bytes = MAGIC, name: str = "") -> tuple[dict[str, Any], bytes] | None:
    """The entry that was packed under this name; None if the bytes are damaged, or something else."""
    start = len(magic) + 32
    payload = content[start:]
    if content[: len(magic)] != magic or _digest(name, payload) != content[len(magic) : start]:
        return None
    try:
        (length,) = _lengths.unpack_from(payload)
        begin = _lengths.size
        header = json.loads(payload[begin : begin + length])
    except (ValueError, struct.error, RecursionError):
        return None
    return (header, payload[begin + length :]) if isinstance(header, dict) else None


def _digest(name: str, payload: bytes) -> bytes:
    return sha256(name.encode() + b"\0" + payload if name else payload)


def _remove(path: str) -> bool:
    try:
        os.remove(path)
    except OSError:
        return False
    return True


def _warn(where: str, error: OSError) -> None:
    if _state["warned"]:
        return
    _state["warned"] = 1
    if isinstance(error, UnsafeError):
        warn(
            f"whit uses no compiled kernels of {where}: {error.strerror}. It compiles them anew in each process. Make "
            f"the folder yours alone (chmod 700, once it is empty), set CACHE_DIR to another one, or CACHE=0."
        )
        return
    warn(
        f"whit cannot keep compiled kernels in {where or 'its cache folder'} ({error}); "
        "it compiles them anew in each process. Set CACHE_DIR to a folder that can be written, or CACHE=0."
    )
