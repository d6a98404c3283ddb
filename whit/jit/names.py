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

from whit.records import dataclass

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
_OF_ATTRIBUTES = frozenset({"LOAD_ATTR", "LOAD_METHOD", "STORE_ATTR", "DELETE_ATTR"})


@dataclass(frozen=True, slots=True)
class Chain:
    """Attributes of attributes of something that is known when a function is looked at.

    self.opt.step -> SELF, self, (opt, step)       model.scale -> CELL or GLOBAL, model, (scale,)
    """

    root: str
    name: str
    attributes: tuple[str, ...]


SELF, CELL, GLOBAL = "self", "cell", "global"


@dataclass(frozen=True, slots=True)
class CodeNames:
    """The names in the code of a function, and of functions that it defines."""

    attributes: frozenset[str]  # of things that are not known
    chains: tuple[Chain, ...]
    strings: frozenset[str]
    globals: tuple[str, ...]
    imports: tuple[tuple[str, int], ...]  # names of modules, and how many packages up
    is_open: bool
    makes_text: bool  # of objects, perhaps
    prefixes: frozenset[str]  # how attributes begin whose names are put together


@functools.lru_cache(4096)
def names_of(code: types.CodeType) -> CodeNames:
    """The names in a function's code."""
    reader = _Reader(code)
    for inner in _with_inner(code):
        reader.read(inner)
    return CodeNames(
        frozenset(reader.attributes),
        tuple(reader.chains),
        frozenset(reader.strings),
        tuple(reader.globals),
        tuple(reader.imports),
        reader.is_open or not _OPEN.isdisjoint(reader.names),
        reader.makes_text or not _TEXT.isdisjoint(reader.names),
        frozenset(reader.prefixes),
    )


class _Reader:
    """Walks through the instructions of a function and of those inside it."""

    def __init__(self, code: types.CodeType) -> None:
        self.attributes: set[str] = set()
        self.chains: dict[Chain, None] = {}
        self.strings: set[str] = set()
        self.names: set[str] = set()
        self.globals: dict[str, None] = {}
        self.imports: dict[tuple[str, int], None] = {}
        self.prefixes: set[str] = set()
        self.is_open = self.makes_text = False
        self._code = code
        inner = [one for one in _with_inner(code) if one is not code]
        own = {name for one in inner for name in one.co_cellvars}  # of functions inside: not those of this one
        stored = {step.argval for one in (code, *inner) for step in dis.get_instructions(one) if _stores(step)}
        first = code.co_varnames[0] if code.co_argcount else ""
        self._first = "" if first in stored or first in own else first
        self._cells = set(code.co_freevars) - stored - own

    def read(self, code: types.CodeType) -> None:
        """One of them."""
        self.names.update(code.co_names)
        for constant in code.co_consts:
            self.strings.update(_strings(constant))
        steps = [step for step in dis.get_instructions(code) if step.opname != "EXTENDED_ARG"]
        chain: Chain | None = None  # what the last instruction has put on the stack
        for place, step in enumerate(steps):
            chain = self._follow(code, steps, place, None if step.is_jump_target else chain)

    def _follow(
        self, code: types.CodeType, steps: list[dis.Instruction], place: int, chain: Chain | None
    ) -> Chain | None:
        """The chain that an instruction leaves on the stack, if it is one; else what it names is noted."""
        step = steps[place]
        if chain is not None and step.opname in _OF_ATTRIBUTES:
            longer = Chain(chain.root, chain.name, (*chain.attributes, step.argval))
            self.chains[longer] = None
            return longer
        root = self._root(code, step)
        if root is None:
            self._note(steps, place)
        elif root.root == GLOBAL:
            self.globals[root.name] = None
            if root.name in _BY_NAME:
                self._asked_for(steps, place)
        return root

    def _root(self, code: types.CodeType, step: dis.Instruction) -> Chain | None:
        """What an instruction loads, if a chain begins there: a global, the first argument, a variable from outside."""
        name, value = step.opname, step.argval
        if name in ("LOAD_GLOBAL", "LOAD_NAME"):
            return Chain(GLOBAL, value, ())
        if name != "LOAD_DEREF" and not (name == "LOAD_FAST" and code is self._code):
            return None
        if value == self._first:
            return Chain(SELF, value, ())
        return Chain(CELL, value, ()) if name == "LOAD_DEREF" and value in self._cells else None

    def _note(self, steps: list[dis.Instruction], place: int) -> None:
        """What any other instruction names."""
        step = steps[place]
        name, value = step.opname, step.argval
        if name.startswith("FORMAT_") or (name == "BINARY_OP" and step.argrepr in ("%", "%=")):
            self.makes_text = True
        elif name == "IMPORT_NAME":
            level = steps[place - 2].argval if place >= 2 else 0
            self.imports[value, level if type(level) is int else 0] = None
        elif name == "MATCH_CLASS":
            self.attributes.update(_strings(steps[place - 1].argval))
        elif step.opcode in dis.hasname and name != "STORE_GLOBAL":
            self.attributes.add(value)

    def _asked_for(self, steps: list[dis.Instruction], place: int) -> None:
        asked = _name_asked_for(steps, place)
        if asked is None or not asked[0]:
            self.is_open = True
        elif asked[1]:
            self.attributes.add(asked[0])
        else:
            self.prefixes.add(asked[0])


def _stores(step: dis.Instruction) -> bool:
    return step.opname in ("STORE_FAST", "STORE_DEREF", "DELETE_FAST", "DELETE_DEREF") or "STORE_FAST" in step.opname


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
