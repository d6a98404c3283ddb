"""Links x86-64 ELF object code into this process: sections are mapped, relocations applied, symbols looked up.

Goes in: what `compile_llvm` makes. Comes out: a `Library`. It takes about 0.1 ms and needs no LLVM, so that a program
whose kernels are all cached on disk never loads it. An unknown symbol is an error here; LLVM's own linker would leave a
call to address 0.

    undefined_symbols(code)     which functions the code calls that it does not contain
    load_elf(code)              mapped, writable first and then executable

Layout of the mapping: executable sections, then read-only and data ones, then stubs that jump to functions outside and
the table of their addresses. Code and data share pages, and are both readable and executable; nothing is writable but
zero-initialised and data sections, which kernels do not have.
"""

from __future__ import annotations

import ctypes
import functools
import struct
from typing import Any

from whit.errors import BackendError
from whit.records import dataclass
from whit.runtime.code.library import Library
from whit.runtime.pages import Pages, c_library

_HEADER = struct.Struct("<16sHHIQQQIHHHHHH")
_SECTION = struct.Struct("<IIQQQQIIQQ")
_SYMBOL = struct.Struct("<IBBHQQ")
_RELOCATION = struct.Struct("<QQq")

_PROGBITS, _SYMTAB, _RELA, _NOBITS = 1, 2, 4, 8
_ALLOCATED, _WRITABLE = 2, 1
_X86_64 = 62
_UNDEFINED, _ABSOLUTE = 0, 0xFFF1
_LOCAL, _FUNCTION = 0, 2
_STUB_BYTES = 16  # jmp *6(%rip); two bytes of padding; the address


@dataclass(frozen=True, slots=True)
class _Section:
    name: str
    kind: int
    flags: int
    offset: int
    size: int
    link: int
    info: int
    align: int


@dataclass(frozen=True, slots=True)
class _Symbol:
    name: str
    binding: int
    kind: int
    section: int
    value: int


class _Object:
    """The tables of an object file."""

    def __init__(self, code: bytes) -> None:
        self.code = code
        fields = _HEADER.unpack_from(code)
        if fields[0][:6] != b"\x7fELF\x02\x01":
            raise BackendError("link: this is no 64-bit ELF object", f"it begins with {code[:8]!r}")
        self.machine: int = fields[2]
        start, count, names = fields[6], fields[12], fields[13]
        rows = [_SECTION.unpack_from(code, start + i * _SECTION.size) for i in range(count)]
        texts = rows[names][4]
        self.sections = [
            _Section(self._text(texts + row[0]), row[1], row[2], row[4], row[5], row[6], row[7], row[8]) for row in rows
        ]
        self.symbols: list[_Symbol] = []
        for section in self.sections:
            if section.kind == _SYMTAB:
                self._read_symbols(section, self.sections[section.link].offset)

    def _text(self, offset: int) -> str:
        return self.code[offset : self.code.index(b"\0", offset)].decode()

    def _read_symbols(self, section: _Section, texts: int) -> None:
        for offset in range(section.offset, section.offset + section.size, _SYMBOL.size):
            name, info, _, index, value, _ = _SYMBOL.unpack_from(self.code, offset)
            self.symbols.append(_Symbol(self._text(texts + name), info >> 4, info & 15, index, value))

    def undefined(self) -> list[str]:
        return [symbol.name for symbol in self.symbols if symbol.section == _UNDEFINED and symbol.name]

    def functions(self) -> list[_Symbol]:
        defined = (symbol for symbol in self.symbols if symbol.section not in (_UNDEFINED, _ABSOLUTE))
        return [symbol for symbol in defined if symbol.kind == _FUNCTION and symbol.binding != _LOCAL]


def undefined_symbols(code: bytes) -> list[str]:
    """The names that object code refers to and does not define."""
    return _Object(code).undefined()


def defined_functions(code: bytes) -> list[str]:
    """The functions that others may call."""
    return [symbol.name for symbol in _Object(code).functions()]


# Functions that LLVM or gcc may call on their own behalf; what a kernel rounds with on processors without SSE4.1, and
# multiplies and adds with in float64 on those without FMA.
KNOWN_SYMBOLS = frozenset(
    {"memcpy", "memset", "memmove", "fma"}
    | {f"{name}{kind}" for name in ("floor", "ceil", "trunc", "rint", "nearbyint", "roundeven") for kind in ("", "f")}
)


def check_symbols(code: bytes, allowed: frozenset[str] = frozenset()) -> None:
    """Raises unless everything the code calls is known."""
    unknown = [name for name in undefined_symbols(code) if name not in KNOWN_SYMBOLS and name not in allowed]
    if unknown:
        raise BackendError(
            f"link: the code calls {', '.join(unknown)}, which {'is' if len(unknown) == 1 else 'are'} nowhere",
            "The compiler made a call out of an instruction that the target does not have.",
            "Expand the operation before rendering.",
        )


def load_elf(code: bytes, allowed: frozenset[str] = frozenset()) -> Library:
    """The functions of an object, ready to be called. `allowed` names what it may call besides KNOWN_SYMBOLS."""
    parsed = _Object(code)
    if parsed.machine != _X86_64:
        raise BackendError(f"link: the code is for ELF machine {parsed.machine}, not for x86-64")
    check_symbols(code, allowed)
    places, size = _layout(parsed)
    outside = {name: size + i * _STUB_BYTES for i, name in enumerate(parsed.undefined())}
    total = size + len(outside) * _STUB_BYTES
    memory = Pages(total)
    image = (ctypes.c_char * total).from_address(memory.address)
    for index, place in places.items():
        section = parsed.sections[index]
        if section.kind != _NOBITS:
            ctypes.memmove(memory.address + place, code[section.offset : section.offset + section.size], section.size)
    for name, place in outside.items():
        stub = b"\xff\x25\x02\x00\x00\x00\x0f\x0b" + struct.pack("<Q", _process_symbol(name))
        ctypes.memmove(memory.address + place, stub, _STUB_BYTES)
    writable = any(section.flags & _WRITABLE for section in parsed.sections if section.flags & _ALLOCATED)
    _relocate(parsed, image, memory.address, places, outside)
    memory.make_executable(writable)
    functions = parsed.functions()
    return Library({f.name: memory.address + places[f.section] + f.value for f in functions}, memory)


def _layout(parsed: _Object) -> tuple[dict[int, int], int]:
    """Section number -> place in the mapping, and the bytes of all of them."""
    places: dict[int, int] = {}
    size = 0
    for index, section in enumerate(parsed.sections):
        if section.flags & _ALLOCATED and section.kind in (_PROGBITS, _NOBITS) and section.name != ".eh_frame":
            align = max(section.align, 1)
            size = (size + align - 1) // align * align
            places[index] = size
            size += section.size
    return places, (size + 15) // 16 * 16


def _relocate(parsed: _Object, image: Any, base: int, places: dict[int, int], outside: dict[str, int]) -> None:
    for table in parsed.sections:
        if table.kind != _RELA or table.info not in places:
            continue
        for offset in range(table.offset, table.offset + table.size, _RELOCATION.size):
            where, info, addend = _RELOCATION.unpack_from(parsed.code, offset)
            symbol, kind = parsed.symbols[info >> 32], info & 0xFFFFFFFF
            place = places[table.info] + where
            _apply(kind, image, base, place, _place_of(symbol, kind, places, outside, base), addend)


def _place_of(symbol: _Symbol, kind: int, places: dict[int, int], outside: dict[str, int], base: int) -> int:
    """Where a symbol is, counted from the start of the mapping."""
    if symbol.section == _UNDEFINED:
        # a table entry of its address is the last 8 bytes of its stub
        return outside[symbol.name] + (8 if kind in _THROUGH_TABLE else 0)
    if symbol.section == _ABSOLUTE:
        return symbol.value - base
    if kind in _THROUGH_TABLE:
        raise BackendError(f"link: {symbol.name} is reached through a table although the code contains it")
    return places[symbol.section] + symbol.value


_THROUGH_TABLE = (9, 41, 42)  # R_X86_64_GOTPCREL, GOTPCRELX, REX_GOTPCRELX


def _apply(kind: int, image: Any, base: int, place: int, target: int, addend: int) -> None:
    if kind in (2, 4, *_THROUGH_TABLE):  # R_X86_64_PC32, PLT32
        struct.pack_into("<i", image, place, target + addend - place)
    elif kind == 1:  # R_X86_64_64
        struct.pack_into("<Q", image, place, base + target + addend)
    elif kind == 24:  # R_X86_64_PC64
        struct.pack_into("<q", image, place, target + addend - place)
    else:
        raise BackendError(f"link: relocation {kind} of x86-64 is not known", fix="Compile position-independent code.")


@functools.cache
def _process_symbol(name: str) -> int:
    """The address of a function of the C or mathematical library."""
    for library in (c_library(), ctypes.CDLL("libm.so.6")):
        try:
            address = ctypes.cast(getattr(library, name), ctypes.c_void_p).value
        except AttributeError:
            continue
        if address:
            return address
    raise BackendError(f"link: the function {name} is not in this process")
