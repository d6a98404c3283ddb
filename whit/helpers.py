"""Small things that programs written on whit use: lists, timing, progress bars, downloads, raw memory.

The compiler does not import this module: it is for what is built on top.
"""

from __future__ import annotations

import contextlib
import functools
import itertools
import os
import sys
import time
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

from whit.config import (
    BEAM,
    CACHE,
    CACHE_DIR,
    DEBUG,
    DEFAULT_FLOAT,
    DEV,
    JIT,
    NOOPT,
    TRACK_MATCH_STATS,
    TRAINING,
    WINO,
    Context,
    ContextVar,
    getenv,
)
from whit.engine.report.counters import GlobalCounters
from whit.engine.report.show import colored, time_to_str
from whit.errors import ArgumentError, BackendError, FileMissingError, ShapeError, nearest
from whit.progress import tqdm, trange
from whit.recording import hooks

if TYPE_CHECKING:
    from pathlib import Path

__all__ = [
    "BEAM",
    "CI",
    "DEBUG",
    "DEFAULT_FLOAT",
    "DEV",
    "JIT",
    "NOOPT",
    "OSX",
    "TRACK_MATCH_STATS",
    "TRAINING",
    "WIN",
    "WINO",
    "Context",
    "ContextVar",
    "GlobalCounters",
    "Profiling",
    "Timing",
    "all_same",
    "argfix",
    "ceildiv",
    "colored",
    "dedup",
    "diskcache",
    "fetch",
    "flatten",
    "from_mv",
    "fully_flatten",
    "get_child",
    "get_shape",
    "getenv",
    "mv_address",
    "partition",
    "prod",
    "profile_marker",
    "round_up",
    "temp",
    "time_to_str",
    "to_mv",
    "tqdm",
    "trange",
]

Item = TypeVar("Item")
Result = TypeVar("Result")

CI = bool(os.environ.get("CI"))  # whether a service runs the program
OSX = sys.platform == "darwin"
WIN = sys.platform == "win32"

# ---- numbers and lists


def prod(items: Iterable[Any]) -> Any:
    """The product; 1 of nothing. Symbolic sizes multiply as well."""
    return functools.reduce(lambda x, y: x * y, items, 1)


def ceildiv(number: Any, divisor: Any) -> Any:
    """number / divisor rounded up."""
    return -(-number // divisor)


def round_up(number: int, multiple: int) -> int:
    """The next multiple that is not less than the number."""
    return ceildiv(number, multiple) * multiple  # type: ignore[no-any-return]


def flatten(lists: Iterable[Iterable[Item]]) -> list[Item]:
    """One list of what is in these lists."""
    return list(itertools.chain.from_iterable(lists))


def fully_flatten(nested: Any) -> list[Any]:
    """The elements of lists in lists, at any depth."""
    if not isinstance(nested, list | tuple):
        return [nested]
    return [element for part in nested for element in fully_flatten(part)]


def dedup(items: Iterable[Item]) -> list[Item]:
    """Each item once, in the order of first appearance."""
    return list(dict.fromkeys(items))


def all_same(items: Sequence[Any]) -> bool:
    """Whether all items equal the first one."""
    return all(item == items[0] for item in items)


def partition(items: Iterable[Item], condition: Callable[[Item], Any]) -> tuple[list[Item], list[Item]]:
    """Those for which the condition holds, and the others."""
    yes: list[Item] = []
    no: list[Item] = []
    for item in items:
        (yes if condition(item) else no).append(item)
    return yes, no


def argfix(*arguments: Any) -> tuple[Any, ...]:
    """f(1, 2) and f((1, 2)) alike: (1, 2)."""
    if arguments and isinstance(arguments[0], list | tuple):
        if len(arguments) != 1:
            raise ArgumentError(f"argfix: a list and more arguments: {arguments}", fix="Give one list, or numbers.")
        return tuple(arguments[0])
    return arguments


def get_shape(nested: Any) -> tuple[int, ...]:
    """The shape of lists in lists; they must be regular."""
    if not isinstance(nested, list | tuple):
        return ()
    shapes = [get_shape(part) for part in nested]
    if not all_same(shapes):
        raise ShapeError(f"get_shape: the lists differ in shape: {sorted(set(shapes))}", fix="Make them all equal.")
    return (len(nested), *(shapes[0] if shapes else ()))


def get_child(root: Any, path: str) -> Any:
    """What a dotted path leads to: attributes, keys and positions, as in "layers.0.weight"."""
    for name in path.split("."):
        if name.isdecimal():
            root = root[int(name)]
        elif isinstance(root, dict):
            root = root[name]
        else:
            root = getattr(root, name)
    return root


# ---- time


class Timing(contextlib.ContextDecorator):
    """`with Timing("step: "):` prints how long it took. `on_exit` gets nanoseconds and gives more text."""

    def __init__(self, prefix: str = "", on_exit: Callable[[int], str] | None = None, enabled: bool = True) -> None:
        self.prefix = prefix
        self.on_exit = on_exit
        self.enabled = enabled
        self.et = 0  # nanoseconds

    def __enter__(self) -> Timing:
        self._start = time.perf_counter_ns()
        return self

    def __exit__(self, *_: Any) -> None:
        self.et = time.perf_counter_ns() - self._start
        if self.enabled:
            print(f"{self.prefix}{self.et * 1e-6:6.2f} ms{self.on_exit(self.et) if self.on_exit else ''}")


class Profiling(contextlib.ContextDecorator):
    """`with Profiling():` prints the functions that took the most time."""

    def __init__(self, enabled: bool = True, sort: str = "cumtime", frac: float = 0.2, fn: str | None = None) -> None:
        self.enabled = enabled
        self.sort = sort
        self.frac = frac  # how much of the list is printed
        self.fn = fn  # a file for the whole profile
        self._profile: Any = None

    def __enter__(self) -> Profiling:
        if self.enabled:
            import cProfile  # lazy: few programs profile

            self._profile = cProfile.Profile()
            self._profile.enable()
        return self

    def __exit__(self, *_: Any) -> None:
        if not self.enabled:
            return
        import pstats  # lazy: few programs profile

        self._profile.disable()
        if self.fn:
            self._profile.dump_stats(self.fn)
        pstats.Stats(self._profile).strip_dirs().sort_stats(self.sort).print_stats(self.frac)


def profile_marker(name: str, color: str = "gray") -> None:
    """A mark with a name in the recordings that run now (docs/viz.md)."""
    if hooks.recorder is not None:
        hooks.recorder.event("mark", name=name, color=color)


# ---- files


def diskcache(function: Callable[..., Result]) -> Callable[..., Result]:
    """A function whose results are kept in the cache folder, by its name, its code and its arguments."""

    @functools.wraps(function)
    def cached(*args: Any, **given: Any) -> Result:
        import hashlib  # lazy: few programs keep results
        import pickle  # lazy: the same

        code = getattr(function, "__code__", None)
        key = (function.__module__, function.__qualname__, code.co_code if code else b"", args, sorted(given.items()))
        place = downloads_folder().parent / "functions" / hashlib.sha256(pickle.dumps(key)).hexdigest()
        if CACHE.value and place.is_file():
            found: Result = pickle.loads(place.read_bytes())
            return found
        result = function(*args, **given)
        if CACHE.value:
            place.parent.mkdir(parents=True, exist_ok=True)
            temporary = place.with_suffix(f".{os.getpid()}")
            temporary.write_bytes(pickle.dumps(result))
            temporary.replace(place)
        return result

    return cached


def temp(name: str, append_user: bool = False) -> str:
    """A path in the folder for temporary files."""
    import tempfile  # lazy: it loads a dozen modules

    user = f".{os.getuid()}" if append_user and hasattr(os, "getuid") else ""
    return os.path.join(tempfile.gettempdir(), name + user)


def fetch(
    url: str | os.PathLike[str],
    name: str | os.PathLike[str] | None = None,
    subdir: str | None = None,
    gunzip: bool = False,
    allow_caching: bool = True,
    headers: dict[str, str] | None = None,
    sha256: str | None = None,
) -> Path:
    """Downloads a file once and returns where it is; `gunzip` unpacks it, `sha256` is what it must hash to.

    A path or a file: URL is returned as it is, unless it has to be unpacked. What fails leaves no file behind.
    """
    from pathlib import Path  # lazy: few programs download

    address = os.fspath(url)
    local = _local_path(address)
    if local is not None and not gunzip:
        _check_file(address, local, sha256)
        return local
    if name is not None and (os.path.isabs(name) or len(Path(name).parts) > 1):
        place = Path(name)
    else:
        own = str(name or "") or _name_of_download(address, local, headers or {}) + ".gunzip" * gunzip
        place = downloads_folder() / (subdir or "") / own
    if not place.is_file() or not allow_caching:
        _download(local.resolve().as_uri() if local is not None else address, place, gunzip, headers or {}, sha256)
    else:
        _check_file(address, place, sha256)
    return place


def _name_of_download(address: str, local: Path | None, headers: dict[str, str]) -> str:
    """Another one for each address, for each content of a local file, and for each set of headers."""
    import hashlib  # lazy: few programs download

    source = f"{local.resolve()} {local.stat().st_mtime_ns}" if local is not None and local.is_file() else address
    return hashlib.sha256(f"{source}{sorted(headers.items())}".encode()).hexdigest()[:32]


def downloads_folder() -> Path:
    """Where downloaded files are kept."""
    from pathlib import Path  # lazy: few programs download

    return (Path(CACHE_DIR.value) if CACHE_DIR.value else Path.home() / ".cache" / "whit") / "downloads"


def _local_path(address: str) -> Path | None:
    """The path that an address names, if it is one of this machine."""
    from pathlib import Path  # lazy: few programs download

    if address.startswith("file:"):
        from urllib.parse import unquote, urlparse  # lazy: few programs download

        path = Path(unquote(urlparse(address).path))
    elif "://" in address:
        return None
    else:
        path = Path(address)
    if not path.is_file():
        near = nearest(path.name, os.listdir(path.parent)) if path.parent.is_dir() else ""
        raise FileMissingError(f"fetch: there is no file {path}.{near}", fix="Check the path, or give a URL.")
    return path


def _check_file(address: str, path: Path, sha256: str | None) -> None:
    if sha256 is None:
        return
    import hashlib  # lazy: few programs download

    with open(path, "rb") as file:
        found = hashlib.file_digest(file, "sha256").hexdigest()
    if found != sha256.lower():
        raise BackendError(
            f"fetch: {address} is not the file that was expected",
            f"sha256 is {found}, expected {sha256.lower()}",
            f"Remove {path} to fetch it again, or correct the checksum.",
        )


def _download(url: str, place: Path, gunzip: bool, headers: dict[str, str], sha256: str | None) -> None:
    import gzip  # lazy: few programs download
    import http.client  # lazy: 20 ms
    import tempfile  # lazy: it loads a dozen modules
    import urllib.error  # lazy: 20 ms
    import urllib.request  # lazy: 20 ms
    import zlib  # lazy: few programs download
    from pathlib import Path  # lazy: the same

    place.parent.mkdir(parents=True, exist_ok=True)
    descriptor, temporary = tempfile.mkstemp(dir=place.parent)
    try:
        request = urllib.request.Request(url, headers={"User-Agent": "whit", **headers})
        with os.fdopen(descriptor, "wb") as file, urllib.request.urlopen(request, timeout=30) as answer:
            length = int(answer.headers.get("content-length") or 0)
            source = gzip.GzipFile(fileobj=answer) if gunzip else answer
            with tqdm[None](
                total=length, unit="B", unit_scale=True, desc=url, disable=not sys.stderr.isatty()
            ) as progress:
                while chunk := source.read(1 << 20):
                    file.write(chunk)
                    progress.update(len(chunk))
        if length and not gunzip and os.path.getsize(temporary) != length:
            raise BackendError(f"fetch: {url} ended early", f"{os.path.getsize(temporary)} of {length} bytes", "Retry.")
        _check_file(url, Path(temporary), sha256)
        os.chmod(temporary, 0o644)
        os.replace(temporary, place)
    except (EOFError, gzip.BadGzipFile, zlib.error) as error:
        raise BackendError(f"fetch: {url} cannot be unpacked", f"{error}", "Leave out gunzip, or retry.") from None
    except (urllib.error.URLError, http.client.HTTPException, TimeoutError, ValueError) as error:
        raise BackendError(
            f"fetch: {url} cannot be downloaded", str(error), "Check the address and the network."
        ) from None
    finally:
        with contextlib.suppress(OSError):
            os.remove(temporary)


# ---- raw memory


def from_mv(view: memoryview, to_type: Any = None) -> Any:
    """A ctypes pointer to the memory of a view; to `ctypes.c_char`, if no type is given."""
    import ctypes  # lazy: 1 ms, and few programs point to memory

    to_type = ctypes.c_char if to_type is None else to_type
    return ctypes.cast(ctypes.addressof(to_type.from_buffer(view)), ctypes.POINTER(to_type * len(view))).contents


def to_mv(address: int, size: int) -> memoryview:
    """The bytes at an address. Nothing keeps them alive."""
    import ctypes  # lazy: as above

    return memoryview((ctypes.c_uint8 * size).from_address(address)).cast("B")


def mv_address(view: memoryview) -> int:
    """Where the memory of a view begins."""
    from whit.runtime.buffer import address_of  # lazy: loads the runtime

    return address_of(view)
