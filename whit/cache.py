"""The list of whit's in-memory caches, so that all of them can be emptied at once.

A module that keeps a cache registers how to empty it, next to where it is defined:

    _kernels: dict[UOp, Program] = {}
    register_cache(_kernels.clear, "codegen.kernels")
"""

from collections.abc import Callable

from whit.errors import InternalError

_clear_by_name: dict[str, Callable[[], None]] = {}


def register_cache(clear: Callable[[], None], name: str) -> None:
    """Has `clear_caches` call `clear` from now on. Names are dotted paths, one for each cache."""
    if name in _clear_by_name:
        raise InternalError(f'register_cache: there already is a cache "{name}"', fix="Give each cache its own name.")
    _clear_by_name[name] = clear


def clear_caches() -> None:
    """Empties every in-memory cache. Results stay the same; the next call of everything is slower."""
    for clear in _clear_by_name.values():
        clear()
