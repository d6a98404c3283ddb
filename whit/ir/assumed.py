"""What a graph takes for granted of the variables in its sizes.

    x[:, start:start + 2], 128 columns, start in 0..128, now 5        126 - start >= 0      start in 0..126

A window that is inside for all values of its variables needs nothing. One that is inside for the values that they have
now is allowed, too: how much room there is beside it, as a size, must then not be negative. Such a *room* is an
assumption of every graph that has the window. It narrows the bounds that the graph's kernels are made for, and is
compared with the values of each replay. Nothing that is decided here depends on the values of variables, except whether
there is an error.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

from whit.ir.interval import Interval
from whit.ir.sizes import ONE, Polynomial, Size, is_at_most, polynomial, reach, settled, value_now

MOST_TRIED = 1000  # values of a variable at each end of its bounds

Bounds = dict[Any, Interval]  # of BINDs
Bindings = Mapping[Any, int]  # values by name; of a variable with several values, by name and value in the graph

# Told each room that is not negative now, and may be: who replays a program with other values checks it again.
when_assumed: list[Callable[[Any], None]] = []


def fits(a: Size, b: Size) -> bool:
    """Whether a <= b for all values of their variables, or else for those that all of them have now."""
    always = is_at_most(a, b)
    if always is not None:
        return always
    room = settled(b - a)
    now = value_now(room)
    if now is None or now < 0:
        return False
    for note in when_assumed:
        note(room)
    return True


def is_size_now(size: Size) -> bool:
    """Whether a size is not negative: for all values; or now, where it is so for an interval of its one variable."""
    if isinstance(size, int):
        return size >= 0
    return fits(0, size) and (is_at_most(0, size) is True or is_line(size))


def is_line(size: Size) -> bool:
    """Whether a size is a multiple of one bound variable, and a number: bounds of the variable say where it is >= 0."""
    terms = [term for term in polynomial(size) if term is not ONE and term != ONE]
    return len(terms) == 1 and len(terms[0]) == 1 and terms[0][0].op.name == "bind"


def rooms(node: Any) -> Iterator[Size]:
    """The sizes that must not be negative for a node to have a meaning, those that never are left out."""
    name, src = node.op.name, node.src
    if name == "shrink":
        for old, (start, size) in zip(src[0].shape, _pairs(node), strict=True):
            yield from _open((start, size, old - (start + size)))
    elif name == "pad":
        for before, after in _pairs(node):
            yield from _open((before, after))
    elif name in ("expand", "arange", "buffer"):
        yield from _open(node.shape)


def _pairs(node: Any) -> tuple[Any, ...]:
    """The argument of a movement op with its symbolic sizes."""
    symbolic = iter(node.src[1:])
    return tuple(tuple(next(symbolic) if part is None else part for part in pair) for pair in node.arg)


def _open(sizes: Iterable[Size]) -> Iterator[Size]:
    """Those that may be negative."""
    for size in sizes:
        if not isinstance(size, int) and not isinstance(known := settled(size), int) and (reach(known)[0] or 0) < 0:
            yield known


def value_of_bound(node: Any, bindings: Bindings) -> int:
    """The value of a bound variable: as that variable with this value, or by its name alone, or the one it has."""
    variable, value = node.src
    name = variable.arg.name
    found = bindings.get((name, value.arg))
    return bindings.get(name, value.arg) if found is None else found


def value_with(size: Size, bindings: Bindings) -> int:
    """The number that a size is with these values of its bound variables; the others have those they are bound to."""
    if isinstance(size, int):
        return size
    name = size.op.name
    if name == "const":
        return int(size.arg)
    if name == "bind":
        return value_of_bound(size, bindings)
    parts = [value_with(source, bindings) for source in size.src]
    return int(size.op.bounds(*((part, part) for part in parts))[0])  # exact for a point


# ---- bounds


def narrowed(sizes: Iterable[Size]) -> Bounds:
    """The bounds of bound variables for which these sizes can be zero or more. They are exact where a size has one
    variable, and wider than the truth where it has several."""
    found: Bounds = {}
    for size in sizes:
        _hold(polynomial(size), found)
        bound = [node for node in size.topological() if node.op.name == "bind"]
        if len(bound) == 1 and not is_line(size):
            _move_ends(size, bound[0], found)
    return found


def _move_ends(size: Size, bound: Any, found: Bounds) -> None:
    """Narrows the bounds of the one variable of a size that has it several times, to where it is zero or more."""
    name, arg = bound.src[0].arg.name, bound.src[0].arg
    low, high = found.get(bound, (arg.low, arg.high))
    for _ in range(MOST_TRIED):
        is_low, is_high = value_with(size, {name: low}) >= 0, value_with(size, {name: high}) >= 0
        if (is_low and is_high) or low == high:
            break
        low, high = low + (not is_low), high - (not is_high)
    found[bound] = low, high


def _hold(value: Polynomial, found: Bounds) -> None:
    """Narrows bounds so that a polynomial can be zero or more: each of its terms makes up for the rest at its best."""
    for term, factor in value.items():
        if len(term) != 1:
            continue
        most = _highest({other: f for other, f in value.items() if other != term})
        if most is None:
            continue
        if factor > 0:
            _limit(term[0], -(most // factor), None, found)  # factor * atom >= -most
        else:
            _limit(term[0], None, most // -factor, found)


def _highest(value: Polynomial) -> int | None:
    """A number that a polynomial is never above."""
    total = value.get(ONE, 0)
    for term, factor in value.items():
        if term == ONE:
            continue
        product: Any = None
        for atom in term:
            product = atom if product is None else product * atom
        low, high = reach(product)
        end = high if factor > 0 else low
        if end is None:
            return None
        total += factor * end
    return total


def _limit(atom: Any, low: int | None, high: int | None, found: Bounds) -> None:
    """Narrows the bounds of what an atom is made of, so that it can lie between these ends."""
    name = atom.op.name
    if name == "bind":
        least, most = found.get(atom, (atom.src[0].arg.low, atom.src[0].arg.high))
        found[atom] = least if low is None else max(least, low), most if high is None else min(most, high)
    elif name == "floordiv" and atom.src[1].op.name == "const" and atom.src[1].arg > 0:
        by = atom.src[1].arg
        _between(atom.src[0], None if low is None else low * by, None if high is None else high * by + by - 1, found)
    elif name == "max" and high is not None:
        for side in atom.src:
            _between(side, None, high, found)
    elif name == "min" and low is not None:
        for side in atom.src:
            _between(side, low, None, found)


def _between(size: Any, low: int | None, high: int | None, found: Bounds) -> None:
    """The same of a size."""
    if low is not None:
        _hold(polynomial(size - low), found)
    if high is not None:
        _hold(polynomial(high - size), found)
