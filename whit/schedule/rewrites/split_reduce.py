"""Long reductions to few results, in two steps.

    sum of (16777216,)   ->   sum over 64 of stored( sum over 262144 of (64, 262144) )

A kernel runs its output elements on all cores. A reduction to a handful of elements would use one core, so its longest
axis of known size is cut into `PIECES` and the partial results are stored. If the axis does not divide, it is padded,
and the padding replaced by the identity of the op.

    sum over k of a[m, k] * b[k, n]   ->   sum over 8 of stored( sum over k/8 of a[m, p, k'] * b[p, k', n] )

A deep product of matrices with few results is split too (split-k): cores that share its rows would all copy the
columns, and each of them would read lines of memory in part. How many pieces there are depends on sizes alone, and they
are added in order: the same result on any number of cores. What is left of a depth that does not divide is added to the
pieces.

On a GPU a tile of the result is computed by one multiprocessor. Where there are fewer tiles than half of these, as
there are of gradients of small weights by many tokens, the depth is split so that all have something to do. So are long
rows of which each would have a block, if there are fewer than two for each multiprocessor:

    sum of (16, 1048576) over the last   ->   sum over 64 of stored( sum over 16384 of (64, 16, 16384) )
"""

from __future__ import annotations

from math import prod

from whit.dtype import dtypes
from whit.ir import ops
from whit.ir.rules import Rules, function_rule
from whit.ir.uop import UOp, const
from whit.kernel.contraction import ProductSizes, distinct, find_product
from whit.kernel.rates import CPU_CYCLES
from whit.kernel.tensor_cores import LEAST_TILE_ROWS, TILE_SIDE
from whit.schedule.rewrites.stage_operands import few_rows_of
from whit.schedule.values import is_serial, prod_of
from whit.target import Target

PIECES = 64
FEWEST_PIECES = 16  # pieces that are worth a kernel
PARTS = (8, 10, 6, 12, 9, 7, 16, 14, 5, 4)  # of a contraction, the best first
FEW_ROWS = 8  # for which nothing is copied
MOST_COLUMNS = 512  # beside few rows: the parts of lines that a core would read; more of them are runs long enough
LEAST_PRODUCTS = 1 << 20  # that are worth it beside few rows: 600 -> 340 us for 1 x 65536 x 64 on two cores
MOST_RESULTS = 1 << 15  # whose parts stay in the second cache: 8 of 4 bytes are 1 MiB
FAR_NODES = 100  # nodes to look at for a softmax
EXPONENTIALS = frozenset({ops.EXP, ops.EXP2, ops.SIGMOID, ops.TANH, ops.ERF})
# of a reduction, the most first; elements of each at least
GPU_PIECES, GPU_PIECE_ELEMENTS = (1024, 512, 256, 128), 1 << 13
GPU_ROW_ELEMENTS = 1 << 17  # elements of a row that blocks share: fewer are read by one in the time of another kernel
GPU_ROW_PIECE_ELEMENTS = 1 << 12  # elements of a piece at least
# rows for each multiprocessor, of which as many run at once; pieces for each at most
GPU_ROWS_A_CORE, GPU_PIECES_A_CORE = 2, 8
GPU_PARTS = (4, 3, 2)  # the most first: 32 x 4096^2 30 -> 15 us, 768 x 16384 x 768 55 -> 43 (bench/gpu_products.py)
GPU_DEPTH, GPU_DEPTH_OF_FEW = 4096, 1024  # of a part at least; of few rows


@function_rule(ops.REDUCE)
def split_long_reduce(node: UOp, target: Target) -> UOp | None:
    """reduce over n -> reduce over 64 of stage of reduce over n/64"""
    if not node.arg.axes:  # a reduction of single elements, of which there is nothing to split
        return None
    split = _split_serial(node, target.is_gpu)
    if split is None and target.is_gpu:
        split = _split_rows(node, target.cores)
    return _split_deep(node, target) if split is None else split


def _split_rows(node: UOp, cores: int) -> UOp | None:
    """reduce of 16 x n over n -> reduce over 64 of stage of reduce over n/64, for a GPU

    The result is stored: a kernel that reduces pieces and goes on with all elements would have a block for each row.
    """
    value, results = node.src[0], prod(node.shape)
    if not all(isinstance(size, int) for size in value.shape) or not 0 < results < GPU_ROWS_A_CORE * cores:
        return None
    if not _has_long_rows(node) or _is_of_products(node):
        return None
    axis = max(node.arg.axes, key=lambda a: value.shape[a])
    size = value.shape[axis]
    most = min(GPU_PIECES_A_CORE * cores // results, prod(value.shape) // (results * GPU_ROW_PIECE_ELEMENTS), size)
    pieces = next((p for p in range(most, most // 4, -1) if size % p == 0), None)
    if pieces is None:
        value, pieces = _padded(value, axis, most, node), most
    return in_parts(value, axis, pieces, node).stage()


def _has_long_rows(node: UOp) -> bool:
    return bool(prod_of(node.src[0].shape) >= GPU_ROW_ELEMENTS * prod_of(node.shape))


def _is_of_products(node: UOp) -> bool:
    """Whether a reduction is a product of matrices, or may be a statistic of one, computed with it (`chains`)."""
    value = node.src[0]
    product = find_product(node)
    if product is not None and 1 < min(map(distinct, product.operands)) < prod(value.shape):
        return True
    seen = _below(value, past_products=False)
    is_softmax = node.arg.op is ops.MAX or any(below.op in EXPONENTIALS for below in seen)
    return len(seen) >= FAR_NODES or (is_softmax and any(map(find_product, seen)))


def _split_serial(node: UOp, on_gpu: bool) -> UOp | None:
    (value,) = node.src
    known = [axis for axis in node.arg.axes if isinstance(value.shape[axis], int)]
    if not known or not is_serial(node):
        return None
    axis = max(known, key=lambda a: value.shape[a])
    pieces = _serial_pieces(value.shape[axis], on_gpu)
    if pieces is None:
        value, pieces = _padded(value, axis, PIECES, node), PIECES
    elif pieces < FEWEST_PIECES:
        return None
    result = in_parts(value, axis, pieces, node)
    return result.stage() if on_gpu and _has_long_rows(node) else result  # as those of rows


def _serial_pieces(size: int, on_gpu: bool) -> int | None:
    """How many pieces an axis is split into; None if no good number divides it."""
    for_gpu = (p for p in GPU_PIECES if on_gpu and size % (p * GPU_PIECE_ELEMENTS) == 0)
    pieces = next(for_gpu, None) or _divisor(size)
    if pieces is None and size < PIECES * 64:
        return size  # short beside the others: one for each
    return pieces


def in_parts(value: UOp, axis: int, parts: int, node: UOp) -> UOp:
    """The reduction of a value in parts of an axis, which are stored one after the other, and then of these."""
    shape = (*value.shape[:axis], parts, value.shape[axis] // parts, *value.shape[axis + 1 :])
    first = (axis, *(a for a in range(len(shape)) if a != axis))
    inner_axes = tuple(a + 1 for a in node.arg.axes)
    partial = value.reshape(shape).permute(first).reduce(node.arg.op, inner_axes).stage()
    return partial.reduce(node.arg.op, (0,))


def _divisor(size: int) -> int | None:
    """A number of pieces near 64 that divides the size."""
    return next((p for p in (64, 60, 72, 56, 48, 80, 40, 96, 32, 100, 50) if size % p == 0), None)


def _padded(value: UOp, axis: int, pieces: int, node: UOp) -> UOp:
    size: int = value.shape[axis]
    extra = -size % pieces
    pads = [(0, extra if a == axis else 0) for a in range(len(value.shape))]
    padded = value.pad(pads)
    identity = node.arg.op.identity(value.dtype)
    if identity == 0 and node.arg.op is ops.ADD:
        return padded
    ones = tuple(size + extra if a == axis else 1 for a in range(len(value.shape)))
    inside: UOp = (UOp.arange(size + extra, dtypes.int64) < size).reshape(ones).expand(padded.shape)
    return inside.where(padded, const(value.dtype, identity))


# ---- contractions


def _split_deep(node: UOp, target: Target) -> UOp | None:
    """sum over k of a * b -> sum over 8 of stage of sum over k/8 of a * b, and what is left of k"""
    product = find_product(node)
    if product is None or (target.has_wgmma and few_rows_of(product)):  # blocks share the depth of a tile
        return None
    sizes = product.sizes
    if sizes is None:
        return None
    if target.is_gpu and sizes.rows >= LEAST_TILE_ROWS:
        return _split_tiles(node, sizes, target.cores)
    return _split_over_cores(node) if _is_deep(node, sizes) else None


def _split_tiles(node: UOp, sizes: ProductSizes, cores: int) -> UOp | None:
    """The same for a GPU whose multiprocessors compute a tile each."""
    value = node.src[0]
    axis = max(node.arg.axes, key=lambda a: value.shape[a])
    parts = gpu_parts(sizes.rows, sizes.columns, sizes.batches, value.shape[axis], cores)
    return in_parts(value, axis, parts, node) if parts > 1 and not _is_after_softmax(value) else None


def _split_over_cores(node: UOp) -> UOp:
    """The same in parts that cores compute, and what is left where none divides."""
    value = node.src[0]
    sizes = {axis: size for axis, size in enumerate(value.shape) if axis in node.arg.axes}
    axis, parts = next(((a, p) for a in sizes for p in PARTS if sizes[a] % p == 0), (-1, PARTS[0]))
    if axis < 0:
        axis = max(sizes, key=lambda a: sizes[a])
    end = sizes[axis] // parts * parts
    total = in_parts(_between(value, axis, 0, end), axis, parts, node)
    left = sizes[axis] - end
    return total + _between(value, axis, end, left).reduce(ops.ADD, node.arg.axes) if left else total


def gpu_parts(rows: int, columns: int, batches: int, depth: int, cores: int) -> int:
    """In how many parts a GPU computes a product."""
    side = TILE_SIDE if rows > TILE_SIDE // 2 else TILE_SIDE // 2
    tiles = -(-rows // side) * -(-columns // side) * batches
    room, least = (cores * 5 // 4, GPU_DEPTH) if side == TILE_SIDE else (cores * 2, GPU_DEPTH_OF_FEW)
    fits = (p for p in GPU_PARTS if p * tiles <= room and depth % p == 0 and depth >= p * least)
    return next(fits, 1)


def _is_deep(node: UOp, sizes: ProductSizes) -> bool:
    """Whether a product is so deep beside its results that cores should share its depth."""
    rows, columns, results = sizes.rows, sizes.columns, sizes.results
    if results > MOST_RESULTS:
        return False
    if rows * columns >= 2 * results or _is_after_softmax(node.src[0]):  # a batch, which the cores share
        return False
    if rows * sizes.batches >= FEW_ROWS and node.dtype is dtypes.int32 and all(map(_is_of_bytes, node.src[0].src)):
        return False  # weights that lie in panels are not copied: 0.30 -> 0.11 ms for 16 x 4608 x 512
    if rows < FEW_ROWS:
        return columns <= MOST_COLUMNS and sizes.products >= LEAST_PRODUCTS
    # of a convolution: elements are copied again and again
    cycles, is_matrix = CPU_CYCLES, rows * columns >= results
    saved = rows * sizes.depth * (cycles.element_read_cycles if is_matrix else cycles.window_element_read_cycles)
    return saved > results * PARTS[0] * cycles.add_part_cycles + cycles.launch_cycles


def _is_of_bytes(side: UOp) -> bool:
    """Whether an operand is bytes, cast up."""
    while side.op in ops.MOVEMENT:
        side = side.src[0]
    return side.op is ops.CAST and side.src[0].dtype in (dtypes.int8, dtypes.uint8)


def _between(value: UOp, axis: int, start: int, size: int) -> UOp:
    """Part of an axis."""
    if size == value.shape[axis]:
        return value
    return value.shrink([(start, size) if a == axis else (0, n) for a, n in enumerate(value.shape)])


def _is_after_softmax(value: UOp) -> bool:
    """Whether a value is made of statistics of exponentials: its product may be computed block by block (`chains`)."""
    seen = _below(value)
    is_reduced = any(node.op is ops.REDUCE and node.src[0].op is not ops.MUL for node in seen)
    return is_reduced and any(node.op in EXPONENTIALS for node in seen)


def _below(value: UOp, past_products: bool = True) -> set[UOp]:
    """What a value is made of, up to what is in memory anyway, and not too far."""
    stack, seen = [value], {value}
    while stack and len(seen) < FAR_NODES:
        node = stack.pop()
        if not past_products and find_product(node) is not None:
            continue
        if node.op.elementwise or node.op in ops.MOVEMENT or node.op in (ops.CAST, ops.REDUCE):
            fresh = [s for s in node.src if s not in seen]
            seen.update(fresh)
            stack.extend(fresh)
    return seen


SPLIT_REDUCE = Rules("split_reduce", (split_long_reduce,))
