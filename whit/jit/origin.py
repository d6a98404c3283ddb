"""Whose code a class, a module or a function is: the user's, whit's, or that of a library.

The user's is looked into when a function is captured. Packages that are installed count as the user's if they use whit.
"""

from __future__ import annotations

import functools
import os
import sys
import types
from typing import Any

_WHIT = __name__.partition(".")[0]
_WHIT_FOLDER = os.path.dirname(os.path.dirname(os.path.abspath(__file__))) + os.sep
_HEAP, _IMMUTABLE = 1 << 9, 1 << 8  # flags of classes: made while Python runs; by C code that allows no changes


@functools.cache
def _folders(*names: str) -> tuple[str, ...]:
    import sysconfig  # lazy: 1 ms, for what is captured

    paths = sysconfig.get_paths()
    return tuple(paths[name] + os.sep for name in names)


def _python_folders() -> tuple[str, ...]:
    return _folders("stdlib", "platstdlib")


def _installed_folders() -> tuple[str, ...]:
    return _folders("purelib", "platlib")


def is_whit(module: str) -> bool:
    """Whether a module of this name is whit's."""
    return module == _WHIT or module.startswith(f"{_WHIT}.")


def is_users(value: Any) -> bool:
    """Whether a class or a module is the user's own: not one of Python, of whit, or of an installed library that does
    not use whit. What is unknown is; and so is __main__, though it may be started by a library."""
    name = value.__module__ if isinstance(value, type) else value.__name__
    if type(name) is not str or is_users_module(name):
        return True
    return isinstance(value, type) and bool(value.__flags__ & _HEAP) and _is_made_elsewhere(value, name)


def _is_made_elsewhere(kind: type, module: str) -> bool:
    """Whether a class says that it is a library's, and is not: `types.new_class` makes such."""
    first, _, rest = kind.__qualname__.partition(".")
    return not kind.__flags__ & _IMMUTABLE and "<locals>" not in rest and not hasattr(sys.modules.get(module), first)


def is_users_module(name: str) -> bool:
    """The same of a module of this name."""
    path = getattr(sys.modules.get(name), "__file__", None)
    if name == "__main__" or (path is None and name not in sys.builtin_module_names):
        return True
    return path is not None and not is_library_file(path, name)


def is_library_file(path: str, module: str | None) -> bool:
    """Whether code of this file is whit's or a library's."""
    return _is_library_file(path) and not (_is_installed(path) and _uses_whit(str(module).partition(".")[0]))


@functools.lru_cache(4096)
def _is_library_file(path: str) -> bool:
    full = os.path.abspath(path)
    return path.startswith("<frozen ") or full.startswith((_WHIT_FOLDER, *_python_folders(), *_installed_folders()))


@functools.lru_cache(4096)
def _is_installed(path: str) -> bool:
    full = os.path.abspath(path)
    return full.startswith(_installed_folders()) and not full.startswith(_WHIT_FOLDER)


@functools.lru_cache(4096)
def _uses_whit(package: str) -> bool:
    modules = [m for name, m in list(sys.modules.items()) if name == package or name.startswith(f"{package}.")]
    return any(_names_whit(value) for module in modules for value in list(vars(module).values()))


def _names_whit(value: Any) -> bool:
    kind = type(value)  # never isinstance: some packages warn when their objects are asked for their class
    if issubclass(kind, types.ModuleType):
        name = value.__name__
    else:
        name = value.__module__ if issubclass(kind, type | types.FunctionType) else kind.__module__
    return type(name) is str and is_whit(name)
