"""Sizes that depend on variables: one form for equal ones, and what is known about them for all values.

    settled((n + 8) - n)                 8
    settled(2 * (n + 1) - n)             n + 2
    quotient(8 * n + 8, n + 1)           8
    is_at_most(n, n + 1)                 True

A size is an int or an integer node over VARIABLEs, bound or not. It is taken apart into a polynomial: a sum of products
of atoms, an atom being a variable or what is no ring operation (n // 3, a maximum). Equal polynomials are put together
to the identical node, so that sizes can be compared with `is`. The order of the terms does not depend on whether
variables are bound, and nothing here depends on their values: a kernel is the same for all of them.

Ops are known by their names, because the op table is made with this module.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from whit.dtype import dtypes
from whit.ir.interval import Interval, multiply
from whit.ir.record import Record

Size = Any  # an int or a UOp
Term = tuple[Any, ...]  # atoms, each as often as its power
Polynomial = dict[Term, int]

_CHOICES = ("max", "min")
_QUOTIENTS = ("floordiv", "floormod")
ONE: Term = ()
MOST_ORDERS = 3  # choices that are tried as the first


def settled(size: Size) -> Size:
    """The form that all equal sizes have: an int, or a node."""
    if not isinstance(size, Record) or size.op.name in ("variable", "bind") or size.dtype is not dtypes.weakint:
        return size
    return assembled(polynomial(size))


def polynomial(size: Size) -> Polynomial:
    """A sum of products of atoms, and its coefficients, none of them 0."""
    if isinstance(size, int):
        return {ONE: size} if size else {}
    done: dict[Any, Polynomial] = {}
    stack = [size]
    while stack:  # iteratively: nothing limits how long a sum users write
        node = stack[-1]
        waiting = [s for s in node.src if s not in done] if node.op.name not in ("variable", "bind") else []
        stack += waiting
        if not waiting:
            done[stack.pop()] = _of_node(node, [done[s] for s in node.src] if node.op.name != "bind" else [])
    return done[size]


def _of_node(node: Any, parts: list[Polynomial]) -> Polynomial:
    name = node.op.name
    if name == "const":
        return {ONE: node.arg} if node.arg else {}
    if name == "add":
        return _opened(_sum(parts[0], parts[1], 1))
    if name == "sub":
        return _opened(_sum(parts[0], parts[1], -1))
    if name == "neg":
        return _sum({}, parts[0], -1)
    if name == "mul":
        return _opened(_times(*parts))
    if name in _CHOICES:
        return _chosen(node, *parts)
    if name in _QUOTIENTS and set(parts[1]) == {ONE}:
        return _divided(node, parts[0], parts[1][ONE])
    return {(_atom(node, parts),): 1}


def _atom(node: Any, parts: list[Polynomial]) -> Any:
    """The node over its settled sources."""
    if not parts:
        return node
    sources = [assembled(part) for part in parts]
    constant = node.src[0].constant
    return node.replace(src=tuple(constant(s) if isinstance(s, int) else s for s in sources))


def _sum(a: Polynomial, b: Polynomial, sign: int) -> Polynomial:
    result = dict(a)
    for term, factor in b.items():
        total = result.pop(term, 0) + sign * factor
        if total:
            result[term] = total
    return result


def _times(a: Polynomial, b: Polynomial) -> Polynomial:
    result: Polynomial = {}
    for left, x in a.items():
        for right, y in b.items():
            result = _sum(result, {_product(left, right): x * y}, 1)
    return result


def _opened(value: Polynomial) -> Polynomial:
    """With 4*(x//4) as x - x%4: of rounded sizes it is the remainder that has close bounds."""
    for term, factor in value.items():
        for atom in term:
            by = atom.src[1].arg if atom.op.name == "floordiv" else None
            if not isinstance(by, int) or by <= 0 or factor % by:
                continue
            inner = polynomial(atom.src[0])
            whole = _sum(inner, polynomial(atom.src[0] % by), -1)
            rest = {_without(term, (atom,)) or ONE: factor // by}
            return _opened(_sum(_sum(value, {term: factor}, -1), _times(rest, whole), 1))
    return value


def _product(a: Term, b: Term) -> Term:
    return tuple(sorted((*a, *b), key=_key))


def _chosen(node: Any, a: Polynomial, b: Polynomial) -> Polynomial:
    """A maximum or minimum, decided where one side is never above the other."""
    low, high = _reach_of(_sum(b, a, -1))
    if (low is not None and low >= 0) or (high is not None and high <= 0):
        is_b_larger = low is not None and low >= 0
        return b if is_b_larger == (node.op.name == "max") else a
    return {(_atom(node, [a, b]),): 1}


def _divided(node: Any, value: Polynomial, by: int) -> Polynomial:
    """(8*n + k) // 8 is n + k // 8, and (8*n + k) % 8 is k % 8."""
    is_quotient = node.op.name == "floordiv"
    if by <= 0:
        return {(_atom(node, [value, {ONE: by}]),): 1}
    whole = {term: factor // by for term, factor in value.items() if factor // by and (not term or not factor % by)}
    rest = {term: factor % by if not term else factor for term, factor in value.items() if factor % by}
    low, high = _reach_of(rest)
    is_below = low is not None and high is not None and low >= 0 and high < by
    if is_below:
        return whole if is_quotient else rest
    atom: Polynomial = {(_atom(node, [rest, {ONE: by}]),): 1}
    return _sum(whole, atom, 1) if is_quotient else atom


# ---- back to a node


def assembled(value: Polynomial) -> Size:
    """The node of a polynomial, or the int: what is added first, then what is subtracted; constants last."""
    if not value:
        return 0
    if set(value) == {ONE}:
        return value[ONE]
    terms = sorted(value.items(), key=lambda item: (item[1] < 0, -len(item[0]), [_key(atom) for atom in item[0]]))
    result: Any = None
    for term, factor in terms:
        size = _of_term(term, abs(factor))
        if result is None:
            result = size if factor > 0 else -size
        else:
            result = result + size if factor > 0 else result - size
    return result


def _of_term(term: Term, factor: int) -> Size:
    result: Any = None
    for atom in term:
        result = atom if result is None else result * atom
    if result is None:
        return factor
    return result if factor == 1 else result * factor


def _key(atom: Any) -> tuple[str, int, int, tuple[int, ...]]:
    """An order of atoms in which bound variables stand where the variables do. Values only tell apart what is made of
    one variable with several of them."""
    if atom.op.name == "bind":
        variable, value = atom.src
        return variable.arg.name, variable.arg.low, variable.arg.high, (value.arg,)
    if atom.op.name == "variable":
        return atom.arg.name, atom.arg.low, atom.arg.high, ()
    bound = {node: node.src[0].arg.name for node in atom.topological() if node.op.name == "bind"}
    return atom.expression(1 << 20, bound), 0, 0, tuple(node.src[1].arg for node in bound)


# ---- questions


def same_size(a: Size, b: Size) -> bool:
    """Whether two settled sizes are one."""
    return a is b or (isinstance(a, int) and isinstance(b, int) and a == b)


def quotient(a: Size, b: Size) -> Size | None:
    """a / b where b divides a for all values; else None."""
    rest, divisor = polynomial(a), polynomial(b)
    if not divisor:
        return None
    lead = _lead(divisor)
    result: Polynomial = {}
    while rest:
        top = _lead(rest)
        term = _without(top, lead)
        if term is None or rest[top] % divisor[lead]:
            return None
        step = {term: rest[top] // divisor[lead]}
        result = _sum(result, step, 1)
        rest = _sum(rest, _times(step, divisor), -1)
    return assembled(result)


def _lead(value: Polynomial) -> Term:
    """The term of the highest degree; products keep this order, which division needs."""
    return max(value, key=lambda term: (len(term), [_key(atom) for atom in term]))


def _without(term: Term, part: Term) -> Term | None:
    """A product without these factors; None if it does not have them."""
    left = list(term)
    for atom in part:
        if atom not in left:
            return None
        left.remove(atom)
    return tuple(left)


def reach(size: Size) -> tuple[int | None, int | None]:
    """The smallest and the largest value; None where there is none. Exact or too wide."""
    return _reach_of(polynomial(size))


def _reach_of(value: Polynomial) -> tuple[int | None, int | None]:
    highest = _lowest(_sum({}, value, -1))
    return _lowest(value), None if highest is None else -highest


def _lowest(value: Polynomial) -> int | None:
    """A number that the value is never below."""
    choices = [term for term in value if len(term) == 1 and term[0].op.name in _CHOICES]
    if choices:  # which is looked at first makes a difference: max(n, 0) - min(max(n, 0), 1) is seen by the minimum
        found = [
            _lowest_of_choice(term[0], value[term], _sum(value, {term: value[term]}, -1))
            for term in choices[:MOST_ORDERS]
        ]
        return max((low for low in found if low is not None), default=None)
    for term, factor in value.items():
        if len(term) != 1:
            continue
        (atom,) = term
        rest = _sum(value, {term: factor}, -1)
        if atom.op.name == "floormod" and factor < 0 and _is_positive(atom.src[1]):  # it is below its divisor
            return _lowest(_sum(rest, polynomial(atom.src[1] - 1), factor))
    return _lowest_of_products(value)


def _is_positive(divisor: Any) -> bool:
    return divisor.op.name != "const" and (_lowest(polynomial(divisor)) or 0) > 0


def _lowest_of_choice(atom: Any, factor: int, rest: Polynomial) -> int | None:
    """The lowest of a maximum or minimum times a factor, plus a rest: a maximum is at least each of its two sides, and
    it is one of them."""
    sides = [_lowest(_sum(rest, polynomial(side), factor)) for side in atom.src]
    known = [side for side in sides if side is not None]
    if (atom.op.name == "max") == (factor > 0):
        return max(known, default=None)
    return min(known) if len(known) == len(sides) else None


def _lowest_of_products(value: Polynomial) -> int | None:
    """The sum of what each product is never below."""
    total = 0
    for term, factor in value.items():
        product: Interval = (factor, factor)
        for atom in term:
            inside = _reach_of_atom(atom)
            if inside is None:
                return None
            product = multiply(product, inside)
        total += product[0]
    return total


def _reach_of_atom(atom: Any) -> Interval | None:
    name = atom.op.name
    if name == "bind":
        atom, name = atom.src[0], "variable"
    if name == "variable":
        return atom.arg.low, atom.arg.high
    if atom.op.bounds is None:
        return None
    sources = []
    for source in atom.src:
        low, high = reach(source)
        if low is None or high is None:
            return None
        sources.append((low, high))
    return atom.op.bounds(*sources)  # type: ignore[no-any-return]


def value_now(size: Size) -> int | None:
    """The number that a size is with the values that its variables have now; None if one of them has none."""
    if isinstance(size, int):
        return size
    known: dict[Any, int | None] = {}
    for node in size.topological():
        name = node.op.name
        if name == "const":
            known[node] = node.arg
        elif name == "bind":
            known[node] = node.src[1].arg
        else:
            parts = [known[source] for source in node.src]
            is_open = not parts or node.op.bounds is None or None in parts
            known[node] = None if is_open else node.op.bounds(*((part, part) for part in parts))[0]  # exact for a point
    return known[size]


def is_at_most(a: Size, b: Size) -> bool | None:
    """Whether a <= b, for all values of the variables; None if it depends on them."""
    low, high = _reach_of(_opened(_sum(polynomial(b), polynomial(a), -1)))
    if low is not None and low >= 0:
        return True
    return False if high is not None and high < 0 else None


def smaller(a: Size, b: Size) -> Size:
    """The minimum of two sizes."""
    return min(a, b) if isinstance(a, int) and isinstance(b, int) else settled(_choice("minimum", a, b))


def larger(a: Size, b: Size) -> Size:
    """The maximum of two sizes."""
    return max(a, b) if isinstance(a, int) and isinstance(b, int) else settled(_choice("maximum", a, b))


def _choice(name: str, a: Size, b: Size) -> Any:
    return getattr(b, name)(a) if isinstance(a, int) else getattr(a, name)(b)


# Whether a - b is such that a comparison of b with a holds, from the lowest and highest value of the difference.
_COMPARISONS: dict[str, Callable[[int, int], bool | None]] = {
    "lt": lambda low, high: _surely(low > 0, high <= 0),
    "le": lambda low, high: _surely(low >= 0, high < 0),
    "eq": lambda low, high: _surely(low == high == 0, low > 0 or high < 0),
    "ne": lambda low, high: _surely(low > 0 or high < 0, low == high == 0),
}


def _surely(holds: bool, fails: bool) -> bool | None:
    return True if holds else False if fails else None


def decided(node: Any) -> bool | None:
    """Whether a comparison of sizes holds, or a size is not 0, for all values of the variables; None if it depends."""
    name = node.op.name
    if name in _COMPARISONS:
        left, right = node.src
        low, high = _reach_of(_opened(_sum(polynomial(right), polynomial(left), -1)))
    else:
        name = "ne"
        low, high = reach(node)
    return None if low is None or high is None else _COMPARISONS[name](low, high)


def is_size(node: Any) -> bool:
    """Whether a node is made of variables and numbers alone."""
    return not node.shape and all(
        below.op.name in ("const", "variable", "bind") or (below.src and below.op.elementwise)
        for below in node.topological()
    )
