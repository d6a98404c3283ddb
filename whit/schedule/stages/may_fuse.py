"""May a value be computed where it is read, or is it stored? The rules of fusion, each with the reason it gives.

    relu(x) * 2                    computed there: next to nothing
    x - mean(x)                    stored( mean(x) ), which would be computed for each element of x
    gelu(a @ b) @ c                stored( gelu(a @ b) ), a contraction inside of another
    two kernels over sum(x)        stored( sum(x) ), once for both
    cumsum(x) + 1                  stored( cumsum(x) + 1 ): what follows a loop and costs no memory goes with it

Goes in: a value, how it is read (`Reading`, or the kernels that compute it), what is stored so far. Comes out: an
`Answer`, or the values to store, each with its reason. `lower.py` asks about each value that a kernel meets,
`choose.py` about each kernel, until nothing more is to be stored; `Tensor.explain` shows the reasons that are left.
Before they ask, `attention.py` has found the matrices that are never stored, whatever reads them.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from typing import TYPE_CHECKING

from whit.ir import ops
from whit.ir.op import Op
from whit.ir.uop import UOp
from whit.kernel.tensor_cores import SMALL_PRODUCT
from whit.records import dataclass
from whit.schedule.movement import Position, Positions, source_position
from whit.schedule.rewrites.stage_operands import FEW_USES, is_large_product, is_short_row, multiplies, operands_to_read
from whit.schedule.stages.epilogue import is_large_sum, is_too_much
from whit.schedule.values import (
    ALWAYS_CHEAP,
    LOOPS,
    TWICE_IS_FINE,
    is_contraction,
    is_join,
    is_serial,
    is_worth_a_kernel,
    needs_loops,
    prod_of,
    weigh,
)
from whit.target import Target

if TYPE_CHECKING:
    from whit.schedule.stages.choose import StoredValue

MAYBE_FINE = 8  # positions: asked for at up to this many, a value may be asked for at fewer in the end, or cost less
MOST_STACKED = 8  # a stack of more sources is written part by part instead of chosen from
DIVISIONS = frozenset({ops.FLOORDIV, ops.FLOORMOD})
GATHER = 3  # operations: finding elements here and there in the loop of a reduction, where vectors could be loaded
WINDOWS = 4  # overlapping windows: from this many on, reading an element costs more than storing it
MUCH = 3  # values of its own size that a value reads, from which on two kernels do not both compute it
MOST_READS = 128  # values, more than a kernel takes; from there on some are stored on the way
LEAST_SIDE = 32  # rows and columns of a contraction whose operands are copied
MOST_UNPACKED = 32  # bytes made of one that is read, where weights are packed: two bits for a float32 are 16
LARGE = 1 << 19  # products: without tiles it takes longer to add them up than to store the sums (bench/onnx_models.py)
WIDE = 500  # nodes to look at for what a value reads: the gates of a recurrent layer are 100


@dataclass(frozen=True, slots=True)
class Answer:
    """Whether a value is stored, and why."""

    stored: bool
    reason: str = ""
    is_alone: bool = False  # its kernel has no other reduction
    is_in_doubt: bool = False  # it may come out otherwise when more is stored


COMPUTED = Answer(False)


@dataclass(slots=True)
class Reading:
    """How a kernel that is being lowered reads a value."""

    node: UOp
    times: float  # each of its elements would be computed, by all that was read of it so far
    is_outside: bool  # of some loops of the kernel, which run inside of those that compute it
    is_inside: bool  # of the loop of a reduction or a scan
    is_gpu: bool


# ---- one kernel


def may_fuse(reading: Reading, stored: set[UOp]) -> Answer:
    """Whether a kernel that reads a value computes it. Views and numbers are not asked about."""
    node = reading.node
    if is_join(node):
        return Answer(True, "its parts are computed where they lie")
    if node.op is ops.STACK and len(node.src) > MOST_STACKED:
        return Answer(True, f"each of {len(node.src)} parts is written by a loop of its own")
    if node.op is ops.SORT:
        return Answer(True, "a kernel that sorts does nothing else")
    return _of_loop(reading) if node.op in LOOPS else _of_element(reading, stored)


def _of_loop(reading: Reading) -> Answer:
    """The answer for a reduction or a scan."""
    node = reading.node
    if reading.times > 1:
        return Answer(True, f"{_loop(node)} would be computed {_times(reading.times)} where it is read")
    if node.op is ops.SCAN:
        return Answer(True, "the loop of a scan is the innermost of its kernel")
    if is_serial(node):
        return Answer(True, f"{_loop(node)} with so few results is split over cores, in a kernel of its own")
    if reading.is_outside and is_contraction(node):
        return Answer(True, "a contraction outside of a loop gets no tiles", is_alone=True)
    if reading.is_inside and is_worth_a_kernel(node):
        return Answer(True, "a contraction inside of another reduction gets no tiles", is_alone=True)
    return COMPUTED


def _of_element(reading: Reading, stored: set[UOp]) -> Answer:
    """The answer for a value that is computed element by element."""
    node, times = reading.node, reading.times
    if times <= 1 or not node.dtype.itemsize:  # positions of dtype weakint cannot be stored
        return COMPUTED
    is_looked_for = node.op is ops.INDEX and reading.is_inside and not reading.is_gpu
    weight = weigh(node, stored) + (GATHER if is_looked_for else 0)
    if weight <= ALWAYS_CHEAP or times <= (3 if weight <= TWICE_IS_FINE else 1):
        return COMPUTED
    cost = f"{_spelled(weight)} operations" if weight <= TWICE_IS_FINE else f"more than {TWICE_IS_FINE} operations"
    reason = f"{cost} an element would be computed {_times(times)} where it is read"
    return Answer(True, reason, is_in_doubt=times <= MAYBE_FINE)


def of_windows(
    view: UOp,
    position: Position,
    stored: Collection[UOp],
    ranges_of: Callable[[UOp], frozenset[UOp]],
    positions: Positions,
) -> Answer:
    """The answer for a view that is read in overlapping windows, as a convolution does it, at positions that are sums
    here and divided sums in the memory that it shows: (y + dy) // 2 of an enlarged image. It is stored as it is read: a
    CPU copies vectors of it then, where it would look for elements (pixel shuffle 1.5, transposed convolutions 1.2 to 9
    times as fast: bench/cliffs.py). Not measured on GPUs."""
    ranges: frozenset[UOp] = frozenset().union(*map(ranges_of, position))
    times = prod_of(tuple(r.size for r in ranges))
    if times < WINDOWS * prod_of(view.shape):
        return COMPUTED
    node, place = view, position
    while node.op in ops.MOVEMENT and node not in stored:
        place, _ = source_position(node, place, positions)
        node = node.src[0]
    if _divided_sums(place, ranges_of) <= _divided_sums(position, ranges_of):
        return COMPUTED
    return Answer(True, "overlapping windows read it, at positions that would be divided for each element")


def _divided_sums(position: Position, ranges_of: Callable[[UOp], frozenset[UOp]]) -> int:
    """Divisions and remainders of what changes with several loops. Those of one are gone when it is split."""
    nodes = UOp.group(*position).topological()
    return sum(node.op in DIVISIONS and len(ranges_of(node.src[0])) > 1 for node in nodes)


def of_recomputed(value: UOp, stored: set[UOp]) -> Answer:
    """The answer for what a recomputation starts from: it is stored, and not computed again in its turn."""
    if value in stored or not (weigh(value, stored) or needs_loops(value, stored)):
        return COMPUTED
    return Answer(True, "a recomputation starts from it")


def of_sorted(source: UOp, stored: set[UOp]) -> Answer:
    """The answer for what a kernel sorts, or sorts by: it has no loops for reductions."""
    return Answer(True, "a kernel that sorts has no other loops") if needs_loops(source, stored) else COMPUTED


def of_scattered(fused: Iterable[UOp]) -> Answer:
    """The answer for what a kernel scatters that writes one element after the other, since two may go to one place."""
    if not any(node.op in LOOPS for node in fused):
        return COMPUTED
    return Answer(True, "the one core that scatters would compute it: on all of them, first")


def with_epilogue(
    node: UOp, path: Iterable[UOp], asked: Mapping[UOp, float], times: float, is_alone: bool, stored: set[UOp]
) -> UOp:
    """The last of the elementwise ops above a reduction (`path`, from it up) that are asked for as often as it is: the
    value to keep. Of floats the last of the narrowest. `is_alone`: only those that need no other reduction."""
    size, top, below = prod_of(node.shape), node, node
    for above in path:
        is_computing = above.op.elementwise or above.op is ops.CAST
        if prod_of(above.shape) != size or not (is_computing or above.op in ops.MOVEMENT):
            break
        if is_computing:
            if asked.get(above, 0) / max(size, 1) < times:
                break
            if is_alone and any(s is not below and needs_loops(s, stored) for s in above.src):
                break
            top = top if _widens(top, above) else above
        below = above
    return top


def _widens(narrow: UOp, wide: UOp) -> bool:
    """Whether a float is another in more bytes."""
    return wide.dtype.is_float and narrow.dtype.is_float and wide.dtype.itemsize > narrow.dtype.itemsize


# ---- what one kernel computes beside a product


def after_product(root: UOp, value: UOp, fused: Collection[UOp]) -> dict[UOp, str]:
    """The products in a kernel that are to be stored before anything else is computed of them, where tensor cores
    compute them: what follows is heavy, or computes them again for each element that it makes of one of theirs."""
    found = [node for node in fused if node is not root and is_large_sum(node)]
    if len(found) != 1:
        return {}
    (product,) = found
    if prod_of(root.shape) > prod_of(product.shape):
        return {product: "a product of tensor cores would be computed for each element that is made of one of its"}
    if is_too_much(value, product):
        return {product: "tensor cores would wait for what is computed of their sums"}
    return {}


def for_products(nodes: Iterable[UOp], stored: Collection[UOp], target: Target) -> dict[UOp, str]:
    """What a kernel that computes these nodes had better read from memory, whether it is stored so far or not."""
    if not target.is_gpu:
        return _beside_product(nodes)
    root, *others = nodes
    reduces = [node for node in (root, *others) if node.op is ops.REDUCE]
    products = [node for node in reduces if is_contraction(node)]
    beside = [node for node in reduces if node is not products[0]] if products else []
    if root in beside and is_large_product(products[0], SMALL_PRODUCT, FEW_USES):
        beside.append(products[0])  # sum(x * (a @ b)) -> sum(x * stored( a @ b ))
    found = dict.fromkeys(beside, "a product is the only reduction of its kernel")
    for operand in operands_to_read(products, stored) if target.has_wgmma else ():
        found.setdefault(operand, "tensor cores read their operands from memory")
    found.pop(root, None)
    return found


def _beside_product(nodes: Iterable[UOp]) -> dict[UOp, str]:
    """The products of a kernel for a CPU but one, if they are large: the register tile is for the sums of one."""
    products = [
        node for node in nodes if node.op is ops.REDUCE and prod_of(node.src[0].shape) >= LARGE and is_contraction(node)
    ]
    return dict.fromkeys(products[1:], "a kernel has tiles for one product, and another one is as large")


# ---- several kernels


def of_shared(node: UOp, stored: set[UOp]) -> Answer:
    """The answer for what two kernels compute: a reduction, or a value that reads much, is computed once."""
    if node.op is ops.REDUCE:
        return Answer(True, f"{_loop(node)} would be computed by several kernels")
    if reads_much(node, stored):
        return Answer(True, f"several kernels would compute it of {MUCH} or more values of its size")
    return COMPUTED


def of_way_station(node: UOp, stored: set[UOp]) -> Answer:
    """The answer for a value on the way through a kernel that reads very many, as the sum over all layers of a deep
    network: those that others need too would be stored in the end, and until then be added up from the beginning for
    each of them."""
    if not reads_much(node, stored, LOOPS):
        return COMPUTED
    return Answer(True, f"a kernel would read more than {MOST_READS} values without it")


def reads_much(root: UOp, stored: set[UOp], like_reads: Collection[Op] = ()) -> bool:
    """Whether a value reads so many others of its size that reading it instead is worth storing it.

    A sum that goes on from layer to layer would otherwise be added up from its beginning in every kernel that needs it,
    and the memory of a recurrent layer be computed from the first step on. Several parts of one value count each, and
    what some ops compute can count like a read.
    """
    size, reads = prod_of(root.shape), 0
    stack, seen = [root], {root}
    while stack and reads < MUCH and len(seen) < WIDE:
        node = stack.pop()
        base = _viewed(node, stored)
        if node is not root and (base in stored or base.op in (ops.PARAM, ops.BUFFER) or base.op in like_reads):
            reads += 2 * min(prod_of(node.shape), prod_of(base.shape)) >= size
        elif node.op.elementwise or node.op in ops.MOVEMENT or node.op is ops.CAST:
            fresh = [s for s in node.src if s not in seen]
            seen.update(fresh)
            stack.extend(fresh)
    return reads >= MUCH


def _viewed(node: UOp, stored: set[UOp]) -> UOp:
    """What a value is a view of."""
    while node not in stored and node.op in ops.MOVEMENT:
        node = node.src[0]
    return node


# ---- what was stored, as things are now: it was early, and others are stored too


def is_next_to_nothing(kernel: StoredValue, readers: Mapping[UOp, Collection[UOp]], stored: set[UOp]) -> bool:
    """Whether a stored value is made of one other of its size, which is read by others too, in next to no
    operations."""
    return _is_made_of_one(kernel, readers, ALWAYS_CHEAP, stored)


def is_copied_operand(
    kernel: StoredValue, reading: Collection[StoredValue], readers: Mapping[UOp, Collection[UOp]], stored: set[UOp]
) -> bool:
    """Whether a stored value is elementwise made of another, and only contractions read it, which copy their operands
    anyway, and can compute it then. Small contractions compute what is unpacked from fewer bytes, too."""
    if not reading:
        return False
    if _is_unpacked(kernel):
        return all(_is_copied(kernel.root, reader, 1) for reader in reading)
    if not _is_made_of_one(kernel, readers, TWICE_IS_FINE, stored):
        return False
    return all(_is_copied(kernel.root, reader, LEAST_SIDE) for reader in reading)


def is_row_of_products(kernel: StoredValue, reading: Collection[StoredValue], target: Target) -> bool:
    """Whether a stored value is one short row, as a norm makes it, and only products with matrices read it, on a GPU:
    while the first rows of a matrix are on their way, every group of threads computes it."""
    if not target.is_gpu or kernel.is_write or not is_short_row(kernel.root, kernel.reads):
        return False
    return bool(reading) and all(multiplies(kernel.root, reader.value) for reader in reading)


def _is_made_of_one(kernel: StoredValue, readers: Mapping[UOp, Collection[UOp]], most: float, stored: set[UOp]) -> bool:
    root = kernel.root
    if not root.op.elementwise or kernel.is_write or any(not _is_plain(node) for node in kernel.fused):
        return False
    size = prod_of(root.shape)
    whole = [node for node in kernel.reads if 2 * prod_of(node.shape) >= size]
    if len(whole) != 1 or len(readers.get(whole[0], ())) < 2:
        return False
    is_wider = whole[0].dtype.itemsize > root.dtype.itemsize  # no matter to those that read it anyway
    if is_wider and not set(readers.get(whole[0], ())).issuperset(readers.get(root, ())):
        return False
    return weigh(root, stored) <= most


def _is_plain(node: UOp) -> bool:
    return node.op.elementwise or node.op in ops.MOVEMENT or node.op in (ops.CAST, ops.CONST)


def _is_unpacked(kernel: StoredValue) -> bool:
    """Whether a stored value is made elementwise of at most half as many bytes. Random numbers are made of hardly
    any."""
    if kernel.is_write or any(node.op in (ops.REDUCE, ops.SCAN, ops.SORT) for node in (kernel.root, *kernel.fused)):
        return False
    read = sum(prod_of(node.shape) * node.dtype.itemsize for node in dict.fromkeys(kernel.reads))
    made = prod_of(kernel.root.shape) * kernel.root.dtype.itemsize
    return bool(2 * read <= made <= MOST_UNPACKED * read)


def _is_copied(node: UOp, reader: StoredValue, least: int) -> bool:
    """Whether a kernel is a contraction of `least` rows and columns or more, and reads a value only as one of its
    operands, each element once."""
    nodes = reader.value.topological()
    reads = [n for n in nodes if _is_read_of(n, node)]
    reduces = [n for n in nodes if n.op is ops.REDUCE]
    if len(reads) != 1 or len(reduces) != 1 or reduces[0].src[0].op is not ops.MUL or reduces[0].arg.op is not ops.ADD:
        return False
    left, right = (side.topological() for side in reduces[0].src[0].src)
    if (reads[0] in left) is (reads[0] in right):
        return False
    here, other = map(_ranges_in, (left, right) if reads[0] in left else (right, left))
    rows, columns, depth = (prod_of(tuple(r.size for r in part)) for part in (here - other, other - here, here & other))
    return bool(min(rows, columns) >= least and rows * depth <= prod_of(node.shape))


def _is_read_of(node: UOp, value: UOp) -> bool:
    """Whether a node of a kernel reads an element of a stored value."""
    return node.op is ops.INDEX and node.src[0].op is ops.FUNCTION and node.src[0].src[0] is value


def _ranges_in(nodes: Iterable[UOp]) -> set[UOp]:
    return {node for node in nodes if node.op is ops.RANGE}


# ---- words


def _loop(node: UOp) -> str:
    """What a reduction or scan is called in a reason."""
    return f"a {'scan' if node.op is ops.SCAN else 'reduction'} of {_spelled(prod_of(node.src[0].shape))} elements"


def _times(count: float) -> str:
    return "twice" if count == 2 else f"{_spelled(count)} times"


def _spelled(count: float) -> str:
    """A number without digits that say nothing."""
    return f"{count:.3g}" if count < 100 else f"{count:.0f}"
