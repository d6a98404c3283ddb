"""Sums of products of two operands: which ranges are rows, which are columns, and how the operands lie in memory.

    c[m, n] = sum over k of a[m, k] * b[k, n]

Rows and columns are groups of output ranges that the stores walk as one: the height and width of an image, the channels
and the window of a convolution's weight. Either operand may be `a`. The rows of `a` are read one element at a time and
may lie in memory as they like; the columns of `b` become vectors. `tiling` chooses, by what has to be copied how.

The outermost range of the rows, and of the columns, may be open: its size is known when the kernel runs. It is tiled as
the largest that it can be; `end_of` says where it ends.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from math import prod

from whit.cache import register_cache
from whit.ir import ops
from whit.ir.graph import topological
from whit.ir.uop import UOp
from whit.kernel.ranges import free_ranges, is_open, most_of, size_of, sizes_of, stride
from whit.records import dataclass
from whit.simplify.sums import linear_form

LEAST_NEIGHBOURS = 4  # neighbours that are worth a vector
MOST_PANEL_ROWS = 64  # beside a matrix that lies in panels in memory, up to which it is read where it is

# ---- at any stage


@dataclass(frozen=True, slots=True)
class Product:
    """A sum of products of two operands: a value of the tensor graph, or a reduction inside a kernel."""

    reduce: UOp
    a: UOp
    b: UOp

    @property
    def operands(self) -> tuple[UOp, UOp]:
        """Both."""
        return self.a, self.b

    @property
    def sizes(self) -> ProductSizes | None:
        """How large a value of the tensor graph is; None where a size is not known, or nothing is multiplied."""
        shape = self.reduce.src[0].shape
        products = prod(shape) if all(isinstance(size, int) for size in shape) else 0
        if not products:
            return None
        results = prod(self.reduce.shape)
        depth = products // results
        rows, columns = sorted(max(distinct(operand) // depth, 1) for operand in self.operands)
        return ProductSizes(rows, columns, depth, max(results // (rows * columns), 1), products, results)


@dataclass(frozen=True, slots=True)
class ProductSizes:
    """A product of matrices in numbers, by how many elements its operands have. Rows are the fewer, whichever operand
    they are of; the rows of several matrices, a batch, count together, and so do their columns."""

    rows: int
    columns: int
    depth: int
    batches: int  # times rows x columns are the results: more than 1 where operands repeat elements, as windows do
    products: int  # multiply-adds
    results: int


def find_product(node: UOp) -> Product | None:
    """The sum of products that a node is, if it is one."""
    if node.op is not ops.REDUCE or node.arg.op is not ops.ADD or node.src[0].op not in (ops.MUL, ops.DOT):
        return None
    a, b = node.src[0].src[:2]
    return Product(node, a, b)


def distinct(view: UOp) -> int:
    """How many elements a view shows, repeated or not; symbolic sizes count with their largest value."""
    least = _count(view)
    while view.op in ops.MOVEMENT or view.op is ops.CAST:
        view = view.src[0]
        least = min(least, _count(view))
    return least


def _count(view: UOp) -> int:
    return prod(size if isinstance(size, int) else max(most_of(size), 1) for size in view.shape)


# ---- kernels


@dataclass(slots=True)
class Contraction:
    """A kernel that is one sum of products of two operands. Groups of ranges are outer first."""

    reduce: UOp
    a: UOp  # over m, not n
    b: UOp  # over n, not m
    m: list[UOp]  # none for a vector times a matrix
    n: list[UOp]
    outer: list[UOp]  # further ranges of b alone: other panels, for one
    batch: list[UOp]  # the other output ranges

    @property
    def along(self) -> list[UOp]:
        """The ranges that are summed over."""
        return list(self.reduce.src[1:])

    @property
    def is_open_inside(self) -> bool:
        """Whether a range is open that is not the outermost of the rows or of the columns."""
        return any(is_open(r) for r in (*self.m[1:], *self.n[1:], *self.along, *self.outer, *self.batch))


def end_of(ranges: list[UOp]) -> UOp | None:
    """How many positions several ranges have, if the outermost is open."""
    return None if not ranges or isinstance(ranges[0].size, int) else ranges[0].size * prod(sizes_of(ranges[1:]))


def find_contraction(body: UOp) -> Contraction | None:
    """The product of two matrices of known sizes that a kernel is, if it is one, whichever operand is `a`."""
    choices = [found for found in find_contractions(body, by_panels=False) if found.m and not is_open(found.m[0])]
    return choices[0] if choices and not is_open(choices[0].n[0]) else None


def find_contractions(body: UOp, by_panels: bool = True) -> list[Contraction]:
    """The contraction that a kernel is, if it is one: with either operand as `a`. Columns of an operand that lies in
    panels are those of one panel."""
    reduce = _only_loop(body)
    product = None if reduce is None or reduce.arg.axes else find_product(reduce)
    free = free_ranges(body)
    if product is None or not _stores_whole_results(body, free):
        return []
    along, left, right = set(product.reduce.src[1:]), free[product.a], free[product.b]
    only_left, only_right = left - right - along, right - left - along
    if not along or not along <= left & right or not (only_left or only_right):
        return []
    rows, columns = _walked_as_one(body, only_left, free), _walked_as_one(body, only_right, free)
    if by_panels:
        rows, columns = _of_panel(product.a, rows, product), _of_panel(product.b, columns, product)
    others = free[body.src[0]] - {*rows, *columns}
    either = (
        Contraction(product.reduce, product.a, product.b, rows, columns, *_split_by(others, only_right)),
        Contraction(product.reduce, product.b, product.a, columns, rows, *_split_by(others, only_left)),
    )
    return [found for found in either if found.n and not found.is_open_inside]


def _of_panel(operand: UOp, group: list[UOp], product: Product) -> list[UOp]:
    """Of a group of ranges those of one panel, if an operand lies in panels."""
    return group[-1:] if lies_in_panels(operand, group, product.reduce.src[1:]) else group


def _only_loop(body: UOp) -> UOp | None:
    """The reduction of a kernel that has one, and no scan."""
    loops = [node for node in topological((body,)) if node.op in (ops.REDUCE, ops.SCAN)]
    return loops[0] if len(loops) == 1 and loops[0].op is ops.REDUCE else None


def _stores_whole_results(body: UOp, free: dict[UOp, frozenset[UOp]]) -> bool:
    """Whether all stores are over the same ranges, and none combines."""
    return all(free[store] == free[body.src[0]] and store.arg.combine is None for store in body.src)


def _split_by(ranges: frozenset[UOp], chosen: frozenset[UOp]) -> tuple[list[UOp], list[UOp]]:
    """Those that are chosen, and the others, outer first."""
    ordered = sorted(ranges, key=lambda r: r.arg.order)
    return [r for r in ordered if r in chosen], [r for r in ordered if r not in chosen]


def _walked_as_one(body: UOp, ranges: frozenset[UOp], free: dict[UOp, frozenset[UOp]]) -> list[UOp]:
    """The range with the smallest stride in what is stored, and those that continue it."""
    if not ranges:
        return []
    steps = {r: [stride(store.src[2], r, free) for store in body.src] for r in ranges}
    rest = sorted(ranges, key=lambda r: (steps[r][0] is None, abs(steps[r][0] or 0), [-place for place in r.arg.order]))
    group = [rest.pop(0)]
    for r in rest:
        before, size = steps[group[0]], size_of(group[0])
        follows = all(s is not None and t == s * size for s, t in zip(before, steps[r], strict=True))
        if is_open(group[0]) or not follows:
            break
        group.insert(0, r)
    return group


# ---- how an operand lies


@lru_cache(8)  # both operands are asked about for each of hundreds of tilings: 1277 -> 196 traversals (GPT-2's forward)
def _free_ranges(value: UOp) -> dict[UOp, frozenset[UOp]]:
    return free_ranges(value)


register_cache(_free_ranges.cache_clear, "codegen.contraction")


def accesses(value: UOp) -> list[UOp]:
    """The elements of memory that an operand is made of."""
    return [node for node in _free_ranges(value) if node.op is ops.INDEX]


def is_gated(value: UOp) -> bool:
    """Whether some elements are read under a condition."""
    return any(node.arg for node in accesses(value))


def is_unit(value: UOp, r: UOp) -> bool:
    """Whether what is read along a range are neighbours, or always the same."""
    free = _free_ranges(value)
    steps = {stride(node.src[1], r, free) for node in accesses(value)}
    if steps == {_parts(value)}:
        return True
    return steps <= {0, 1, -1} and steps != {0} and bool(steps)


def _parts(value: UOp) -> int:
    """Of how many neighbours in memory each element is made: 4 of an int32 that is put together from bytes."""
    found = accesses(value)
    forms = [linear_form(node.src[1]) for node in found]
    if is_gated(value) or len({node.src[0] for node in found}) != 1 or any(form[0] != forms[0][0] for form in forms):
        return 1
    offsets = sorted(offset for _, offset in forms)
    return len(offsets) if offsets == list(range(offsets[0], offsets[0] + len(offsets))) else 1


def merged(value: UOp, ranges: list[UOp]) -> int:
    """How many of the last ranges an operand walks as one: 1 if only the last."""
    free = _free_ranges(value)
    found = accesses(value)
    outside = topological((value,), stop=found)
    count = 1
    for r, after in zip(ranges[-2::-1], ranges[:0:-1], strict=True):
        if is_open(after) or any(r is node or after is node for node in outside):
            break
        for node in found:
            s, t = stride(node.src[1], after, free), stride(node.src[1], r, free)
            gate = node.src[2:] if node.arg else ()
            if s is None or t is None or t != s * size_of(after) or any({r, after} & free[g] for g in gate):
                return count
        count += 1
    return count


def neighbours(value: UOp, ranges: list[UOp]) -> int:
    """The size of the last ranges that are walked as one."""
    return prod(sizes_of(ranges[len(ranges) - merged(value, ranges) :]))


def lies_in_panels(value: UOp, columns: list[UOp], along: Sequence[UOp]) -> bool:
    """Whether an operand is memory in which each run of columns is a matrix of its own, k by columns."""
    if len(columns) < 2 or value.op is not ops.INDEX or value.arg or is_open(columns[0]):
        return False
    free, last, depth = _free_ranges(value), columns[-1], list(along)
    step, panel = size_of(last), size_of(last) * prod(sizes_of(depth))
    strides = [stride(value.src[1], r, free) for r in (last, depth[-1], columns[-2])]
    is_matrix = strides == [1, step, panel] and merged(value, depth) == len(depth)
    return is_matrix and merged(value, columns[:-1]) == len(columns) - 1


def can_transpose(value: UOp, along: list[UOp]) -> bool:
    """Whether squares of an operand can be loaded by rows and turned in registers."""
    return is_unit(value, along[-1]) and not is_gated(value) and neighbours(value, along) >= LEAST_NEIGHBOURS


# ---- what a result may overwrite


def may_overwrite(body: UOp, reduce: UOp) -> bool:
    """Whether the value that is stored is made of elements that the store may overwrite."""
    free = free_ranges(body)
    outside = topological((body,), stop=(reduce,))
    return any(node.op is ops.INDEX and free[node] == free[body.src[0]] for node in outside)


def has_room_for_sums(body: UOp, found: Contraction) -> bool:
    """Whether a result can hold the sums that it is made of until they are complete."""
    store = body.src[0]
    target, _, position, *gate = store.src
    if len(body.src) > 1 or gate or target.dtype is not found.reduce.dtype or may_overwrite(body, found.reduce):
        return False
    return stride(position, found.n[-1], free_ranges(body)) == 1


def reads_what_it_writes(body: UOp) -> bool:
    """Whether computing an element twice could give another value."""
    written = {store.src[0].arg.slot for store in body.src}
    return any(node.op is ops.INDEX and node.src[0].arg.slot in written for node in topological((body,)))
