"""Complex numbers become pairs of floats: no pass after this one, and no kernel, hears of them.

    store(p0, p1 * p2)                            of complex64 (n,), a number taking 8 bytes
      ->  store(p0[:, 0], p1[:, 0] * p2[:, 0] - p1[:, 1] * p2[:, 1])      p0, p1, p2 of float32 (n, 2)
          store(p0[:, 1], p1[:, 0] * p2[:, 1] + p1[:, 1] * p2[:, 0])

Goes in: a GROUP of STOREs, or another graph of tensors. Comes out: the same without complex dtypes. A complex value is
a `Pair`: two floats of its shape (`parts`), or one array with an axis of two more (`whole`), as it lies in memory. What
is only moved or added stays whole. A sum of many products, as a matrix product, is one of floats: its left operand as
it lies in memory, times the right one with each number as a matrix of two by two.

    reduce(add, a * b, axes=k)
      ->  reduce(add, whole(a)[..., c, None] * [[re b, im b], [-im b, re b]][c], axes=(k, c))

Bodies of functions are split too; their parameters and results are whole.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import prod
from typing import Any

from whit.cache import RecentlyUsed
from whit.dtype import dtypes, part_dtype
from whit.errors import InternalError
from whit.ir import ops
from whit.ir.graph import has_complex, topological
from whit.ir.map_graph import rebuilt
from whit.ir.op import Op
from whit.ir.uop import UOp, const, make
from whit.records import replace
from whit.schedule.values import LEAST_PRODUCTS, REUSED

Parts = tuple[UOp, UOp]


class Pair:
    """A complex value as floats: `parts` or `whole`, each made of the other where it is asked for."""

    __slots__ = ("_parts", "_whole", "is_whole")

    def __init__(self, parts: Parts | None = None, whole: UOp | None = None) -> None:
        self._parts = parts
        self._whole = whole
        self.is_whole = whole is not None

    @property
    def parts(self) -> Parts:
        """The real and the imaginary part."""
        if self._parts is None:
            assert self._whole is not None, "a pair is one of both"
            self._parts = (part_of_whole(self._whole, 0), part_of_whole(self._whole, 1))
        return self._parts

    @property
    def whole(self) -> UOp:
        """Both on a last axis."""
        if self._whole is None:
            self._whole = joined(*self.parts)
        return self._whole

    @property
    def is_real(self) -> bool:
        """Whether the imaginary part is the number 0."""
        return not self.is_whole and _is_zero(self.parts[1])


def part_of_whole(whole: UOp, place: int) -> UOp:
    """One of the two on the last axis."""
    shape = whole.shape[:-1]
    return whole.shrink([*((0, size) for size in shape), (place, 1)]).reshape(shape)


def joined(real: UOp, imaginary: UOp) -> UOp:
    """Two arrays, or scalars, on a new last axis."""
    shape = real.shape or imaginary.shape
    both = [_spread(part, shape) for part in (real, imaginary)]
    return make(ops.STACK, tuple(both)).permute((*range(1, len(shape) + 1), 0))


def _spread(part: UOp, shape: tuple[Any, ...]) -> UOp:
    return part if part.shape == shape else part.reshape((1,) * len(shape)).expand(shape)


def _is_zero(node: UOp) -> bool:
    return node.op is ops.CONST and node.arg == 0.0


def split_complex(graph: UOp) -> UOp:
    """The graph with floats in the place of complex numbers."""
    return _Split(graph).node_of(graph) if has_complex(graph) else graph


class _Split:
    """What the nodes of one graph become."""

    def __init__(self, *roots: UOp) -> None:
        self.done: dict[UOp, UOp] = {}  # what is real
        self.pairs: dict[UOp, Pair] = {}
        order = topological(roots)
        # what is changed in parts has views, which are to be views of one node
        self.changed = {n.src[0] for n in order if n.op is ops.AFTER and n.dtype.is_complex}
        for node in order:
            self._visit(node)

    def node_of(self, node: UOp) -> UOp:
        """What a node has become; a complex one is whole."""
        pair = self.pairs.get(node)
        return self.done[node] if pair is None else pair.whole

    def _visit(self, node: UOp) -> None:
        if node.dtype.is_complex:
            pair = _pair_of(self, node)
            if node in self.changed and not pair.is_whole:
                pair = Pair(whole=pair.whole)
            self.pairs[node] = pair
        elif node.op in _OF_EFFECTS or any(source in self.pairs for source in node.src):
            self.done[node] = _real_of(self, node)
        else:
            array = self._array_of(node)
            self.done[node] = rebuilt(node, tuple([self.done[s] for s in node.src])) if array is None else array

    def _array_of(self, node: UOp) -> UOp | None:
        """Both parts on a new last axis, of what is whole already: there is nothing to do."""
        if node.op is not ops.PERMUTE or node.src[0].op is not ops.STACK or len(node.src[0].src) != 2:
            return None
        real, imaginary = node.src[0].src
        if real.op is not ops.REAL or imaginary.op is not ops.IMAG or real.src != imaginary.src:
            return None
        pair = self.pairs[real.src[0]]
        is_last = node.arg == (*range(1, len(node.arg)), 0)
        return pair.whole if is_last and pair.is_whole else None

    def stores(self, node: UOp) -> list[UOp]:
        """A STORE of a complex value: one of all, or one of each part."""
        target, value, *places = node.src
        memory, pair = self.node_of(target), self.pairs[value]
        rest = [self.done[place] for place in places]
        if pair.is_whole and value.shape and not node.arg.gated:
            return [make(ops.STORE, (memory, pair.whole, *rest), node.arg)]
        return [
            make(ops.STORE, (part_of_whole(memory, place), part, *rest), node.arg)
            for place, part in enumerate(pair.parts)
        ]

    def effects(self, nodes: Sequence[UOp]) -> list[UOp]:
        """Effects, and values of a GROUP."""
        found: list[UOp] = []
        for node in nodes:
            if node.op is ops.STORE and node.src[1] in self.pairs:
                found += self.stores(node)
            else:
                found.append(self.node_of(node))
        return found


# ---- what is real and has complex sources


def _real_of(split: _Split, node: UOp) -> UOp:
    rule = _REAL.get(node.op)
    if rule is not None:
        return rule(split, node)
    raise InternalError(f"split_complex: {node.op.name} of a complex number", node.short())


def _comparison(split: _Split, node: UOp) -> UOp:
    (a, b), (c, d) = (split.pairs[s].parts for s in node.src)
    if node.op is ops.EQ:
        return a.eq(c) & b.eq(d)
    return a.ne(c) | b.ne(d)


def _cast_to_real(split: _Split, node: UOp) -> UOp:
    real, imaginary = split.pairs[node.src[0]].parts
    if node.dtype.is_bool:
        return real.cast(dtypes.bool) | imaginary.cast(dtypes.bool)
    return real.cast(node.dtype)


def _group(split: _Split, node: UOp) -> UOp:
    return make(ops.GROUP, tuple(split.effects(node.src)))


def _store(split: _Split, node: UOp) -> UOp:
    """One that stands alone; in a GROUP and behind AFTER it is two."""
    return make(ops.GROUP, tuple(split.stores(node)))


def _function(split: _Split, node: UOp) -> UOp:
    found = _functions.get(node)
    if found is None:
        found = _functions[node] = _split_function(node)
    return found


def _split_function(node: UOp) -> UOp:
    (body,) = node.src
    return _Split(body).node_of(body).function(node.arg.name) if has_complex(body) else node


_functions: RecentlyUsed[UOp, UOp] = RecentlyUsed("schedule.functions of complex numbers", 1024)


_OF_EFFECTS = (ops.GROUP, ops.AFTER, ops.FUNCTION)  # whose sources may be stores of complex numbers


def _over(split: _Split, node: UOp) -> UOp:
    """A node that has complex sources, over what they have become: calls, members."""
    if node.op is ops.ITEM and node.member is not None:
        return split.node_of(node.member)
    return make(node.op, tuple([split.node_of(s) for s in node.src]), node.arg)


_REAL: dict[Op, Callable[[_Split, UOp], UOp]] = {
    ops.REAL: lambda split, node: _spread(split.pairs[node.src[0]].parts[0], node.shape),
    ops.IMAG: lambda split, node: _spread(split.pairs[node.src[0]].parts[1], node.shape),
    ops.EQ: _comparison,
    ops.NE: _comparison,
    ops.CAST: _cast_to_real,
    ops.GROUP: _group,
    ops.STORE: _store,
    ops.FUNCTION: _function,
    ops.CALL: _over,
    ops.LOOP: _over,
    ops.ITEM: _over,
    ops.AFTER: lambda split, node: make(ops.AFTER, (split.done[node.src[0]], *split.effects(node.src[1:]))),
    ops.RECOMPUTE: _over,
    **dict.fromkeys(ops.SAME_VALUE, lambda split, node: split.done[node.src[0]]),
}


# ---- complex values


def _pair_of(split: _Split, node: UOp) -> Pair:
    op = node.op
    if op in ops.MOVEMENT:
        return _moved(split, node)
    rule = _COMPLEX.get(op)
    if rule is None:
        raise InternalError(f"split_complex: {op.name} of {node.dtype.name}", node.short())
    return rule(split, node)


def _memory(split: _Split, node: UOp) -> Pair:
    """Memory of floats: an axis more."""
    arg = replace(node.arg, dtype=part_dtype(node.dtype), shape=(*node.arg.shape, 2))
    return Pair(whole=make(node.op, tuple([split.done[s] for s in node.src]), arg))


def _const(split: _Split, node: UOp) -> Pair:
    part = part_dtype(node.dtype)
    return Pair((const(part, node.arg.real), const(part, node.arg.imag)))


def _complex(split: _Split, node: UOp) -> Pair:
    """Two parts; both halves of one array are that array."""
    real, imaginary = (split.done[s] for s in node.src)
    whole = _array_of(real)
    if whole is not None and part_of_whole(whole, 0) is real and part_of_whole(whole, 1) is imaginary:
        return Pair(whole=whole)
    return Pair((real, imaginary))


def _array_of(part: UOp) -> UOp | None:
    """The array of which this may be a half."""
    if part.op is not ops.RESHAPE or part.src[0].op is not ops.SHRINK:
        return None
    array: UOp = part.src[0].src[0]
    is_array = len(array.shape) == len(part.shape) + 1 and array.shape[-1] == 2
    return array if is_array and array.shape[:-1] == part.shape else None


def _cast(split: _Split, node: UOp) -> Pair:
    part, (source,) = part_dtype(node.dtype), node.src
    if source not in split.pairs:
        return Pair((split.done[source].cast(part), const(part, 0.0)))
    pair = split.pairs[source]
    if pair.is_whole:
        return Pair(whole=pair.whole.cast(part))
    real, imaginary = pair.parts
    return Pair((real.cast(part), imaginary.cast(part)))


def _moved(split: _Split, node: UOp) -> Pair:
    """The same movement of all, or of each part."""
    pair, rest = split.pairs[node.src[0]], tuple([split.done[s] for s in node.src[1:]])
    if not pair.is_whole:
        real, imaginary = pair.parts
        shape = node.src[0].shape
        return Pair(tuple(make(node.op, (_spread(p, shape), *rest), node.arg) for p in (real, imaginary)))  # type: ignore[arg-type]
    rank = len(node.src[0].shape)
    more: dict[Op, tuple[Any, ...]] = {
        ops.PERMUTE: (rank,),
        ops.PAD: ((0, 0),),
        ops.SHRINK: ((0, 2),),
        ops.FLIP: (),
    }
    arg = (*node.arg, *more.get(node.op, (2,)))
    return Pair(whole=make(node.op, (pair.whole, *rest), arg))


def _linear(split: _Split, node: UOp) -> Pair:
    """What is done to each part alone, or to all that lies in memory."""
    pairs = [split.pairs[s] for s in node.src]
    if all(pair.is_whole for pair in pairs):
        shape = (*node.shape, 2)
        wholes = [_under(pair.whole, shape) for pair in pairs]
        return Pair(whole=make(node.op, tuple(wholes)))
    real, imaginary = zip(*(pair.parts for pair in pairs), strict=True)
    return Pair((make(node.op, real), make(node.op, imaginary)))


def _under(whole: UOp, shape: tuple[Any, ...]) -> UOp:
    """A scalar, whole, at all positions of a shape."""
    return whole if whole.shape == shape else whole.reshape((*(1,) * (len(shape) - 1), 2)).expand(shape)


def _add(split: _Split, node: UOp) -> Pair:
    """x + y, x - y; a number without an imaginary part leaves that of the other as it is."""
    left, right = (split.pairs[s] for s in node.src)
    if right.is_real and not left.is_real:
        return Pair((make(node.op, (left.parts[0], right.parts[0])), _spread(left.parts[1], node.shape)))
    if left.is_real and node.op is ops.ADD:
        return Pair((left.parts[0] + right.parts[0], _spread(right.parts[1], node.shape)))
    return _linear(split, node)


def _mul(split: _Split, node: UOp) -> Pair:
    """(a + bi)(c + di); by a real number, each part by it, as in C."""
    left, right = (split.pairs[s] for s in node.src)
    if left.is_real:
        left, right = right, left
    if right.is_real:
        (a, b), (c, zero) = left.parts, right.parts
        return Pair((a * c, zero if left.is_real else b * c))
    return Pair(times(left.parts, right.parts))


def times(left: Parts, right: Parts) -> Parts:
    """The product."""
    (a, b), (c, d) = left, right
    return a * c - b * d, a * d + b * c


def _divide(split: _Split, node: UOp) -> Pair:
    """x / y, by a real number each part."""
    left, right = (split.pairs[s] for s in node.src)
    if right.is_real:
        (a, b), (c, zero) = left.parts, right.parts
        return Pair((a / c, zero if left.is_real else b / c))
    return Pair(quotient(left.parts, right.parts))


def _reciprocal(split: _Split, node: UOp) -> Pair:
    parts = split.pairs[node.src[0]].parts
    one = parts[0].constant(1.0)
    return Pair(quotient((one, one.constant(0.0)), parts))


def quotient(left: Parts, right: Parts) -> Parts:
    """(a + bi) / (c + di), divided by the larger part of the divisor first, so that its square need not fit (Smith,
    1962). By zero it is each part by zero."""
    (a, b), (c, d) = left, right
    is_flat = abs(d) <= abs(c)  # false where a part is NaN, which both formulas give
    large, small = is_flat.where(c, d), is_flat.where(d, c)
    is_zero = large.eq(0.0)
    ratio = is_zero.where(large.constant(0.0), small / is_zero.where(large.constant(1.0), large))
    first, second = is_flat.where(a, b), is_flat.where(b, a)
    scale = large + small * ratio
    real = (first + second * ratio) / scale
    imaginary = second - first * ratio
    return real, is_flat.where(imaginary, -imaginary) / scale


def _where(split: _Split, node: UOp) -> Pair:
    condition = split.done[node.src[0]]
    yes, no = (split.pairs[s].parts for s in node.src[1:])
    real, imaginary = (condition.where(a, b) for a, b in zip(yes, no, strict=True))
    return Pair((real, imaginary))


def _each(split: _Split, node: UOp) -> Pair:
    """An op on the first source, whose axes it leaves in their places: of all, or of each part."""
    pair, rest = split.pairs[node.src[0]], [split.node_of(s) for s in node.src[1:]]
    if pair.is_whole:
        return Pair(whole=make(node.op, (pair.whole, *rest), node.arg))
    real, imaginary = (make(node.op, (_spread(p, node.src[0].shape), *rest), node.arg) for p in pair.parts)
    return Pair((real, imaginary))


def _reduce(split: _Split, node: UOp) -> Pair:
    """The sum of each part; of many products, one sum of products of floats."""
    (value,) = node.src
    if value.op is ops.MUL and value not in split.changed:
        whole = _product(split, node, value)
        if whole is not None:
            return Pair(whole=whole)
    return _each(split, node)


def _product(split: _Split, node: UOp, value: UOp) -> UOp | None:
    """See the module's docstring; none where each number is used few times."""
    if any(s.op is not ops.EXPAND or split.pairs[s].is_real for s in value.src):
        return None
    sizes = [*value.shape, *(size for s in value.src for size in s.src[0].shape)]
    if not all(isinstance(size, int) for size in sizes):
        return None
    left, right = sorted(value.src, key=lambda s: (not split.pairs[s].is_whole, -prod(s.src[0].shape)))
    count = prod(value.shape)
    if count < LEAST_PRODUCTS or count < REUSED * sum(prod(s.src[0].shape) for s in (left, right)):
        return None
    rank, full = len(value.shape), (*value.shape, 2, 2)
    compact = split.pairs[left.src[0]]
    array = compact.whole if compact.is_whole else compact.whole.stage()
    rows = array.reshape((*array.shape, 1)).expand(full)
    real, imaginary = split.pairs[right.src[0]].parts
    matrix = joined(joined(real, -imaginary), joined(imaginary, real))  # (..., c, which part of the result)
    columns = matrix.stage().expand(full)
    return make(ops.REDUCE, (rows * columns,), replace(node.arg, axes=(*node.arg.axes, rank)))


def _stack(split: _Split, node: UOp) -> Pair:
    pairs = [split.pairs[s] for s in node.src]
    if all(pair.is_whole for pair in pairs):
        return Pair(whole=make(ops.STACK, tuple([pair.whole for pair in pairs])))
    shape = node.src[0].shape
    real, imaginary = ([_spread(p, shape) for p in part] for part in zip(*(pair.parts for pair in pairs), strict=True))
    return Pair((make(ops.STACK, tuple(real)), make(ops.STACK, tuple(imaginary))))


def _sort(split: _Split, node: UOp) -> Pair:
    """In the order of real keys."""
    key, value = node.src
    real, imaginary = (make(ops.SORT, (split.done[key], part), node.arg) for part in split.pairs[value].parts)
    return Pair((real, imaginary))


def _after(split: _Split, node: UOp) -> Pair:
    old, *effects = node.src
    return Pair(whole=make(ops.AFTER, (split.node_of(old), *split.effects(effects))))


def _item(split: _Split, node: UOp) -> Pair:
    if node.member is not None:
        return split.pairs[node.member]
    return Pair(whole=make(ops.ITEM, (split.done[node.src[0]],), node.arg))


_COMPLEX: dict[Op, Callable[[_Split, UOp], Pair]] = {
    ops.PARAM: _memory,
    ops.BUFFER: _memory,
    ops.CONST: _const,
    ops.COMPLEX: _complex,
    ops.CAST: _cast,
    ops.ADD: _add,
    ops.SUB: _add,
    ops.NEG: _linear,
    ops.MUL: _mul,
    ops.FDIV: _divide,
    ops.RECIPROCAL: _reciprocal,
    ops.WHERE: _where,
    ops.REDUCE: _reduce,
    ops.SCAN: _each,
    ops.INDEX: _each,
    ops.STAGE: _each,
    ops.RECOMPUTE: _each,
    ops.COPY: _each,
    ops.STACK: _stack,
    ops.SORT: _sort,
    ops.AFTER: _after,
    ops.ITEM: _item,
    ops.CALL: lambda split, node: Pair(whole=make(ops.CALL, tuple([split.node_of(s) for s in node.src]))),
    **dict.fromkeys(ops.SAME_VALUE, lambda split, node: split.pairs[node.src[0]]),
}
