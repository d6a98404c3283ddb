"""What the code of functions reads by name: globals, modules that it imports, attributes, strings that may be names.

    def f(self, x):
        return x * self.rate * getattr(self, "scale") * FACTOR         attributes  rate, scale, ...; globals  FACTOR

Of names that are put together it may be known how they begin (`getattr(self, f"layer{i}")`). Where nothing is known
(`getattr(self, name)`, `vars`, `asdict`) all attributes count (`is_open`).
"""

from __future__ import annotations

import dis
import functools
import types
from collections.abc import Iterator
from dataclasses import dataclass

_OPEN = frozenset(
    [
        "vars",
        "__dict__",
        "asdict",
        "astuple",
        "deepcopy",
        "eval",
        "exec",
        "locals",
        "attrgetter",
        "methodcaller",
        "getmembers",
        "dumps",
        "__getstate__",
        "dir",
        "__reduce__",
        "__reduce_ex__",
        "get_parameters",
        "get_state_dict",
    ]
)
_TEXT = frozenset({"str", "repr", "format", "ascii", "dumps", "__str__", "__repr__", "__format__"})
_CALL = "PRECALL" if "PRECALL" in dis.opmap else "CALL"  # 3.11 has both, and this is the first of them
_BY_NAME = frozenset({"getattr", "hasattr", "__getattribute__", "delattr"})


@dataclass(frozen=True, slots=True)
class CodeNames:
    """The names in the code of a function, and of functions that it defines."""

    attributes: frozenset[str]
    globals: tuple[str, ...]
    imports: tuple[tuple[str, int], ...]  # names of modules, and how many packages up
    is_open: bool
    makes_text: bool  # of objects, perhaps
    prefixes: frozenset[str]  # how attributes begin whose names are put together


@functools.lru_cache(4096)
def names_of(code: types.CodeType) -> CodeNames:
    """The names in a function's code."""
    attributes: set[str] = set()
    names: dict[str, None] = {}
    imports: dict[tuple[str, int], None] = {}
    is_open = makes_text = False
    prefixes: set[str] = set()
    for inner in _with_inner(code):
        attributes.update(inner.co_names)
        for constant in inner.co_consts:
            attributes.update(_strings(constant))
        steps = list(dis.get_instructions(inner))
        for place, step in enumerate(steps):
            if step.opname in ("LOAD_GLOBAL", "LOAD_NAME"):
                names[step.argval] = None
                if step.argval in _BY_NAME:
                    asked = _name_asked_for(steps, place)
                    is_open = is_open or not (asked and asked[0])
                    if asked is not None and not asked[1]:
                        prefixes.add(asked[0])
            elif step.opname.startswith("FORMAT_") or (step.opname == "BINARY_OP" and step.argrepr in ("%", "%=")):
                makes_text = True
            elif step.opname == "IMPORT_NAME":
                level = steps[place - 2].argval if place >= 2 else 0
                imports[step.argval, level if type(level) is int else 0] = None
    is_open = is_open or not _OPEN.isdisjoint(attributes & {name for c in _with_inner(code) for name in c.co_names})
    makes_text = makes_text or not _TEXT.isdisjoint(attributes)
    return CodeNames(frozenset(attributes), tuple(names), tuple(imports), is_open, makes_text, frozenset(prefixes))


def _with_inner(code: types.CodeType) -> Iterator[types.CodeType]:
    yield code
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            yield from _with_inner(constant)


def _strings(constant: object) -> Iterator[str]:
    """The strings in a constant that may be names, also in tuples, and parts of dotted ones."""
    if type(constant) is str:
        yield constant
        if "." in constant and len(constant) < 200:
            yield from constant.split(".")
    elif isinstance(constant, tuple | frozenset):
        for part in constant:
            yield from _strings(part)


def _name_asked_for(steps: list[dis.Instruction], place: int) -> tuple[str, bool] | None:
    """The second argument of a call of `getattr` or the like, loaded at a place: how it begins, and whether that is
    all; None if it is computed.

    getattr(self, "rate") -> rate, True      getattr(self, f"layer{i}") -> layer, False      getattr(self, name) -> None
    """
    made: list[tuple[str, bool] | None] = []  # what is known of the texts on the stack above the function
    for step in steps[place + 1 :]:
        if step.opname == _CALL and step.arg == len(made):  # its own arguments are on the stack
            return made[1] if len(made) >= 2 else None
        if "JUMP" in step.opname:
            return None
        depth = len(made) + dis.stack_effect(step.opcode, step.arg)
        if depth < 0:
            return None
        top: tuple[str, bool] | None = None
        if step.opname == "LOAD_CONST" and type(step.argval) is str:
            top = step.argval, True
        elif step.opname == "BUILD_STRING" or (step.opname == "BINARY_OP" and step.argrepr == "+"):
            first = made[depth - 1]
            top = None if first is None else (first[0], False)
        made = made[: max(depth - 1, 0)]
        made += [top] * (depth - len(made))
    return None
