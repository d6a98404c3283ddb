"""Operands of large products, computed before on a GPU whose tensor cores read them from memory by themselves.

    relu(a) @ b   ->   stored( relu(a) ) @ b

A kernel computes cheap operands on their way to tensor cores, for which threads must store them: at a third of the
speed at which the copy engine brings what lies in memory (`codegen.gpu.gemm.matmul`). An element that is used many
times is worth being stored once. So are bytes that do not lie along the depth, as tensor cores read them
(`TRANSPOSE_OPERANDS`), and float32 under `TF32=1`, whose bits are rounded before, since tensor cores cut them off:

Few rows beside a large matrix are stored, too, whatever it costs: then the matrix is read at the speed of memory, by
blocks that share the depth (`codegen.gpu.gemm.atoms.skinny`).

    a @ b of fp8      ->   a @ stored( b.T ).T
    a @ b of float32  ->   float32 of stored( bits of a, rounded ) @ float32 of stored( bits of b.T, rounded ).T

Values of attention are multiplied as halves, since weights are: those of fp8 are stored so, once, instead of being
converted for each block of queries:

    softmax(q @ k.T) @ v of fp8   ->   softmax(q @ k.T) @ stored( float16 of v )

On any GPU a product is the only reduction of its kernel, since a tile of it is computed by many threads together:

    a @ b + sum of rows(c)   ->   a @ b + stored( sum of rows(c) )

The product of one row with a large matrix waits for memory: its threads compute the row themselves.

    stored( norm(x) ) @ w      ->   norm(x) @ w                                      x of shape (1, 4096)
"""

from __future__ import annotations

from collections.abc import Collection, Iterable

from whit.config import FLASH_ATTENTION, TF32
from whit.dtype import DType, dtypes
from whit.ir import ops
from whit.ir.rules import Rules, function_rule
from whit.ir.uop import UOp, make
from whit.kernel.contraction import Product, ProductSizes, distinct, find_product
from whit.kernel.tensor_cores import (
    BYTES,
    COPY_BYTES,
    FP8S,
    LARGE_PRODUCT,
    LEAST_USES,
    SKINNY_COLUMNS,
    SKINNY_ROWS,
)
from whit.schedule.values import prod_of

MOST_NODES = 300  # that weights are computed of
FEW_USES = 16  # of an element, from which on a product is worth tiles
LONGEST_ROW_ELEMENTS, MOST_ROWS_READ = 1 << 14, 4  # elements of a row that products compute; rows that it is made of
MANY_COLUMNS = 512  # of a matrix, beside which what a row costs is little


def operands_to_read(nodes: Iterable[UOp], stored: Collection[UOp]) -> list[UOp]:
    """The operands of large products that are computed, and had better be read from memory."""
    found: list[UOp] = []
    for product in filter(None, map(find_product, nodes)):
        for side in product.operands if is_large_product(product.reduce) else few_rows_of(product):
            other = product.b if side is product.a else product.a
            value = _to_read(side, other, stored)
            if value is not None and value.shape[-1] * value.dtype.itemsize % COPY_BYTES == 0:
                found.append(value)
    return found


def few_rows_of(product: Product) -> tuple[UOp, ...]:
    """The operand of a product that has few rows, lying along the depth, beside a matrix of halves in memory."""
    sizes = product.sizes
    if sizes is None or not _is_skinny(sizes):
        return ()
    few, matrix = sorted(product.operands, key=distinct)
    narrow = [_narrow(side) for side in (few, matrix)]
    are_half_precision = all(side is not None and side.dtype in dtypes.float16s for side in narrow)
    depth = sizes.products // (sizes.rows * sizes.columns)
    is_aligned = depth * 2 % COPY_BYTES == 0 and sizes.columns * 2 % COPY_BYTES == 0
    is_transposed = any(step.op is ops.PERMUTE and step.arg[-1] != len(step.arg) - 1 for step in _path(few))
    is_memory = not _path(matrix)[-1].op.elementwise
    return (few,) if are_half_precision and is_aligned and is_memory and not is_transposed else ()


def _is_skinny(sizes: ProductSizes) -> bool:
    """Whether a product is one of few rows with a large matrix."""
    fewest, most = SKINNY_ROWS
    return sizes.batches == 1 and fewest <= sizes.rows <= most and sizes.columns >= SKINNY_COLUMNS


def is_large_product(node: UOp, large: int = LARGE_PRODUCT, uses: int = LEAST_USES) -> bool:
    """Whether a value is a product of matrices whose elements are all used many times."""
    product = find_product(node)
    sizes = None if product is None else product.sizes
    if product is None or sizes is None or sizes.products < large:
        return False
    return all(sizes.products >= uses * distinct(side) for side in product.operands)


def _to_read(side: UOp, other: UOp, stored: Collection[UOp]) -> UOp | None:
    """What to read of an operand."""
    value, beside = _narrow(side), _narrow(other)
    if value is None or beside is None:
        return None
    while value.op in ops.MOVEMENT and value not in stored:
        value = value.src[0]
    is_alike = value.dtype is beside.dtype or (value.dtype in BYTES and beside.dtype in BYTES)
    return value if is_alike and (value.op.elementwise or value.op is ops.CAST) else None


def _narrow(side: UOp) -> UOp | None:
    """An operand before it is cast up to what products are added in."""
    while side.dtype not in dtypes.float16s and side.dtype not in BYTES:
        if side.op is not ops.CAST and side.op not in ops.MOVEMENT:
            return None
        side = side.src[0]
    return side


def is_short_row(root: UOp, reads: Iterable[UOp]) -> bool:
    """Whether a value is one row, made of a few of its length."""
    shape = root.shape
    if not shape or not isinstance(shape[-1], int) or not prod_of(shape) == shape[-1] <= LONGEST_ROW_ELEMENTS:
        return False
    return bool(sum(prod_of(node.shape) for node in reads) <= MOST_ROWS_READ * shape[-1])


def multiplies(row: UOp, value: UOp) -> bool:
    """Whether all that a kernel reduces are products of a row, which it reads, with matrices of many columns."""
    reduces = [node for node in value.topological() if node.op is ops.REDUCE]
    return value.op is not ops.GROUP and bool(reduces) and all(_is_of_row(row, node) for node in reduces)


def _is_of_row(row: UOp, reduce: UOp) -> bool:
    product = find_product(reduce)
    if product is None or reduce.dtype is not dtypes.float32:
        return False
    sides = [side.topological() for side in product.operands]
    reads = [[node.src[0].src for node in side if node.op is ops.INDEX].count((row,)) for side in sides]
    if sorted(reads) != [0, 1]:
        return False
    here, other = ({r for r in side if r.op is ops.RANGE} for side in (sides if reads[0] else reversed(sides)))
    return bool(prod_of(tuple(r.size for r in other - here)) >= MANY_COLUMNS)


@function_rule(ops.REDUCE)
def transpose_operands(node: UOp) -> UOp | None:
    """sum over k of a[m, k] * b[k, n] -> the same with a stage of b.T, if tensor cores read a and b along the depth"""
    product = find_product(node)
    if product is None or not is_large_product(node):
        return None
    sides = product.operands
    bases = [_path(side)[-1] for side in sides]
    are_floats = TF32 and all(base.dtype is dtypes.float32 and base.shape for base in bases)
    if not all(base.dtype in BYTES for base in bases) and not are_floats:
        return None
    return make(ops.MUL, tuple(map(_along_depth, sides))).reduce(node.arg.op, node.arg.axes)


def _path(side: UOp) -> list[UOp]:
    """An operand, and what it is a view of, at last."""
    path = [side]
    while path[-1].op in (ops.CAST, ops.EXPAND, ops.RESHAPE, ops.PERMUTE):
        path.append(path[-1].src[0])
    return path


def _along_depth(side: UOp) -> UOp:
    """An operand with a copy, if its last axis is another one in memory, or if it has to be rounded."""
    *path, base = _path(side)
    transposes = [step for step in path if step.op is ops.PERMUTE and step.arg[-1] != len(step.arg) - 1]
    is_transposed = len(transposes) == 1 and prod_of(transposes[0].shape) == prod_of(base.shape)
    if not is_transposed and base.dtype in BYTES:
        return side
    node = base if is_transposed else _copied(base, side.dtype)
    for step in reversed(path):
        if step.op is not ops.CAST:
            node = make(step.op, (node, *step.src[1:]), step.arg)
        if is_transposed and step is transposes[0]:
            node = _copied(node, side.dtype)
    return node


def _copied(x: UOp, dtype: DType) -> UOp:
    """A value that is stored, in the dtype that is multiplied."""
    return x.stage().cast(dtype) if x.dtype in BYTES else _rounded(x).stage().bitcast(dtype)


def _rounded(x: UOp) -> UOp:
    """The bits of float32 with 10 bits of mantissa, ties away from zero."""
    bits = x.bitcast(dtypes.uint32)
    is_special = (bits & 0x7F800000).eq(0x7F800000)
    return is_special.where(x.eq(x).where(bits, bits | 0x400000), bits + 0x1000) & 0xFFFFE000


@function_rule(ops.REDUCE)
def widen_values(node: UOp) -> UOp | None:
    """sum over keys of weights * v of fp8 -> the same with a stage of v as float16, if weights are made of fp8"""
    product = find_product(node) if FLASH_ATTENTION else None
    if product is None or not is_large_product(node, LARGE_PRODUCT, 1):
        return None
    for weights, values in (product.operands, product.operands[::-1]):
        *path, base = _path(values)
        is_often_used = prod_of(node.src[0].shape) >= LEAST_USES * distinct(values)
        if not is_often_used or base.dtype not in FP8S or not _is_of_fp8(_path(weights)[-1]):
            continue
        found = base.cast(dtypes.float16).stage()
        for step in reversed(path):
            if step.op is not ops.CAST:
                found = make(step.op, (found, *step.src[1:]), step.arg)
        return make(ops.MUL, (weights, found.cast(values.dtype))).reduce(node.arg.op, node.arg.axes)
    return None


def _is_of_fp8(weights: UOp) -> bool:
    """Whether a value is computed of products of fp8 with fp8, element by element, and of no others."""
    size, products = prod_of(weights.shape), []
    stack, seen = [weights], {weights}
    while stack and len(seen) < MOST_NODES:
        node = stack.pop()
        if node.op is ops.REDUCE and node.src[0].op is ops.MUL and prod_of(node.shape) == size:
            products.append(node)
        elif node.op.elementwise or node.op is ops.CAST or node.op in (ops.EXPAND, ops.RESHAPE, ops.PERMUTE):
            fresh = [source for source in node.src if source not in seen]
            seen.update(fresh)
            stack.extend(fresh)
    bases = [_path(side)[-1] for product in products for side in product.src[0].src]
    return bool(bases) and all(base.dtype in FP8S for base in bases)


TRANSPOSE_OPERANDS = Rules("transpose_operands", (transpose_operands, widen_values))
