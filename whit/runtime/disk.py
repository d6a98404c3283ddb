"""Files as memory: bytes read and written at a position, and errors that say what to do.

    file = open_file("/data/weights")
    file.read_into(8, view)                 # exactly the bytes asked for, wherever they lie
    file.write(8, data); file.grow(1 << 33)

Reads are `pread`, never a mapping: a file that another process cuts off gives an error here, where a mapping would end
the process, and a position past 4 GiB is a number like any other. One `File` serves all tensors on the same file of
this process. It stays open while one of them lives, so that deleting or replacing the path does not change them.
"""

from __future__ import annotations

import errno
import os
import stat
import threading
import weakref
from contextlib import suppress
from time import perf_counter_ns

from whit.errors import FileError, FileMissingError, FileReadOnlyError, nearest
from whit.recording import hooks

MOST_BYTES_AT_ONCE = 1 << 30  # bytes; Linux moves at most 2 GiB in one call
NO_ROOM = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG})
NOT_ALLOWED = frozenset({errno.EACCES, errno.EPERM, errno.EROFS, errno.EBADF, errno.ETXTBSY})
BLOCK_BYTES = 512  # bytes, the unit of `st_blocks`


class File:
    """An open file. Nothing is kept of its content or size: other processes may change both."""

    __slots__ = ("__weakref__", "_descriptor", "_is_writable", "_lock", "path")

    def __init__(self, path: str, descriptor: int, is_writable: bool) -> None:
        self.path = path
        self._descriptor = descriptor
        self._is_writable = is_writable
        self._lock = threading.Lock()
        # Not __del__: while that closes the file, `open_file` of another thread may still find the object.
        weakref.finalize(self, _close, descriptor).atexit = False

    @property
    def size(self) -> int:
        """Bytes, now."""
        return os.fstat(self._descriptor).st_size

    def read_into(self, offset: int, target: memoryview) -> None:
        """Fills the target with the bytes from `offset` on."""
        start, done = perf_counter_ns(), 0
        while done < len(target):
            try:
                count = os.preadv(self._descriptor, [target[done : done + MOST_BYTES_AT_ONCE]], offset + done)
            except OSError as error:
                raise file_error("read", self.path, error) from error
            if not count:
                raise FileError(
                    f"file: {self.path} ends at byte {self.size}",
                    f"bytes {offset} to {offset + len(target)} were asked for",
                    "It was cut off after the tensor was made. Build the tensor again.",
                )
            done += count
        hooks.copied("DISK", "read", done, start)

    def write(self, offset: int, data: memoryview) -> None:
        """Puts the bytes at `offset`; the file grows if it ends before. Where there is no room nothing is written."""
        self._open_for_writing()
        self._reserve(offset, len(data))
        start, done = perf_counter_ns(), 0
        while done < len(data):
            try:
                done += os.pwrite(self._descriptor, data[done : done + MOST_BYTES_AT_ONCE], offset + done)
            except OSError as error:
                where = f"bytes {offset} to {offset + done} of {offset} to {offset + len(data)} are written"
                raise file_error("written", self.path, error, where) from error
        hooks.copied("DISK", "written", done, start)

    def grow(self, size: int) -> None:
        """Makes the file at least that long. The new part reads as zeros and takes no room until it is written."""
        if self.size >= size:
            return
        self._open_for_writing()
        try:
            os.ftruncate(self._descriptor, size)
        except OSError as error:
            where = f"it has {self.size} bytes and needs {size}"
            raise file_error("made longer", self.path, error, where) from error

    def synchronize(self) -> None:
        """Waits until what was written is on the disk itself."""
        try:
            os.fsync(self._descriptor)
        except OSError as error:
            raise file_error("written", self.path, error) from error

    def _reserve(self, offset: int, nbytes: int) -> None:
        """Gets the blocks that a write needs before it changes a byte, so that a full disk loses nothing."""
        status = os.fstat(self._descriptor)
        is_there = offset + nbytes <= status.st_size and status.st_blocks * BLOCK_BYTES >= status.st_size
        if is_there or not nbytes or not stat.S_ISREG(status.st_mode) or not hasattr(os, "posix_fallocate"):
            return
        try:
            os.posix_fallocate(self._descriptor, offset, nbytes)
        except OSError as error:
            if error.errno not in NO_ROOM:
                return  # not every file system can; then the write itself will tell
            with suppress(OSError):
                os.ftruncate(self._descriptor, status.st_size)
            where = f"{nbytes} bytes at {offset} of a file of {status.st_size}; the file is as it was"
            raise file_error("written", self.path, error, where) from error

    def _open_for_writing(self) -> None:
        """Files are opened to be read; the first write asks for more."""
        if self._is_writable:
            return
        with self._lock:
            try:
                descriptor = os.open(self.path, os.O_RDWR | os.O_CLOEXEC)
            except OSError as error:
                raise file_error("written", self.path, error) from error
            if not os.path.sameopenfile(descriptor, self._descriptor):
                os.close(descriptor)
                raise FileError(
                    f"file: {self.path} is another file now",
                    "it was replaced after the tensor was made",
                    "Build the tensor again.",
                )
            os.dup2(descriptor, self._descriptor, inheritable=False)  # other threads may be reading
            os.close(descriptor)
            self._is_writable = True


def _close(descriptor: int) -> None:
    with suppress(OSError):
        os.close(descriptor)


_files: weakref.WeakValueDictionary[tuple[int, int], File] = weakref.WeakValueDictionary()
_files_lock = threading.Lock()


def open_file(path: str, *, create: bool = False) -> File:
    """The file at a path. `create`: an empty one where there is none."""
    flags = os.O_RDWR | os.O_CREAT if create and not os.path.exists(path) else os.O_RDONLY
    try:
        descriptor = os.open(path, flags | os.O_CLOEXEC, 0o666)
    except OSError as error:
        raise file_error("opened", path, error) from error
    status = os.fstat(descriptor)
    if not stat.S_ISREG(status.st_mode):
        os.close(descriptor)
        raise FileError(f"file: {path} is no regular file", *_kind(status.st_mode))
    file = File(path, descriptor, bool(flags & os.O_RDWR))
    with _files_lock:
        return _files.setdefault((status.st_dev, status.st_ino), file)


def _kind(mode: int) -> tuple[str, str]:
    """What a path is, and what to do then."""
    if stat.S_ISDIR(mode):
        return "it is a folder", "Name a file in it."
    return "it is a device, a pipe or a socket", "Read its bytes, and build a tensor of them."


def file_error(what: str, path: str, error: OSError, details: str = "") -> FileError:
    """An error of the operating system about a file, in words that say what to do."""
    reason = os.strerror(error.errno) if error.errno else str(error)
    about = "\n".join([reason, details]) if details else reason
    kind: type[FileError] = FileError
    fix = "Check the disk."
    if error.errno in (errno.ENOENT, errno.ENOTDIR):
        kind, (about, fix) = FileMissingError, _missing(path)
    elif error.errno in NOT_ALLOWED:
        kind = FileReadOnlyError
        fix = "Change who may write it, or copy it." if what != "opened" else "Change who may read it."
    elif error.errno in NO_ROOM:
        fix = "Make room on the disk, or raise the limit on the size of files, and try again."
    elif error.errno in (errno.EMFILE, errno.ENFILE):
        fix = "Too many files are open at once. Move tensors to memory with to(), or raise the limit (ulimit -n)."
    elif error.errno == errno.EISDIR:
        fix = "Name a file in the folder."
    result = kind(f"file: {path} cannot be {what}", about, fix)
    result.errno, result.filename = error.errno, path
    return result


def _missing(path: str) -> tuple[str, str]:
    folder, name = os.path.split(os.path.abspath(path))
    if not os.path.isdir(folder):
        return f"there is no folder {folder}", "Make the folder first, or check the path."
    with suppress(OSError):
        return f"{folder} has no {name}.{nearest(name, os.listdir(folder))}", "Check the path."
    return f"{folder} has no {name}", "Check the path."


def _after_fork() -> None:
    global _files_lock  # noqa: PLW0603  a fork: nobody would release it
    _files_lock = threading.Lock()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)
