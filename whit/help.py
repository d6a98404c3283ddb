"""Examples in what `help` shows: `help(Tensor.softmax)`, `help(x.sum)`, `help(nn.Linear)` end with one and its result.

    added(["whit", "whit.nn"])         docstrings of these modules have their examples, once somebody may look

Docstrings get them when `pydoc` is loaded, which is how `help` begins, or at once where it is, or a notebook. So a
program that asks for no help loads none of the texts (`help_texts`), and `import whit` takes as long as without them.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from contextlib import suppress
from types import ModuleType
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from importlib.machinery import ModuleSpec

EXAMPLE = "Example:"
_ASKED = ("pydoc", "IPython")
_waiting: list[str] = []


class _WhenAsked:
    """Is told of imports, and finds no module."""

    def find_spec(self, name: str, path: Any = None, target: ModuleType | None = None) -> ModuleSpec | None:
        """Before `pydoc` is loaded docstrings are completed."""
        if name in _ASKED:
            sys.meta_path[:] = [finder for finder in sys.meta_path if finder is not self]
            _add()
        return None


def added(names: Sequence[str]) -> None:
    """Docstrings of what is in modules get their examples, now or when `help` is called."""
    _waiting.extend(names)
    if any(name in sys.modules for name in _ASKED):
        _add()
    elif not any(isinstance(finder, _WhenAsked) for finder in sys.meta_path):
        sys.meta_path.insert(0, _WhenAsked())


def _add() -> None:
    """Completes the docstrings of modules that wait for it."""
    from whit.help_texts import TEXTS  # lazy: few programs ask for help

    modules, _waiting[:] = _waiting[:], []
    for path, text in TEXTS.items():
        owner, name = path.rpartition(".")[::2]
        outer = "whit" if owner == "Tensor" else f"whit.{owner}".rstrip(".")
        if outer in modules:
            found = _function(sys.modules[outer], owner, name)
            doc = getattr(found, "__doc__", None) or ""
            if found is not None and EXAMPLE not in doc and text not in doc:
                if hasattr(found, "same_as"):  # made by one function for all of these
                    found.__name__ = name
                with suppress(AttributeError):  # of an object: its class has the docstring
                    found.__doc__ = f"{_dedented(doc)}\n\n{text}".strip()


def _function(module: ModuleType, owner: str, name: str) -> Any:
    """What a name stands for, below what is around it; None if it takes no docstring."""
    if owner != "Tensor":
        return vars(module).get(name)
    kinds = module.__dict__["Tensor"].__mro__
    found = next((vars(kind)[name] for kind in kinds if name in vars(kind)), None)
    found = found.__func__ if isinstance(found, classmethod | staticmethod) else found
    return found if callable(found) or isinstance(found, property) else None


def _dedented(doc: str) -> str:
    """A docstring as `inspect.cleandoc` makes it, so that what is added is not indented otherwise."""
    from inspect import cleandoc  # lazy: `help` loads it

    return cleandoc(doc)
