"""What is known of a value of the tensor graph before anything is lowered: sizes, cost, and what it is a case of.

prod_of((4, n)) -> elements            weigh(gelu(x)) -> operations an element
narrowest(half.cast(float32)) -> half  is_contraction(a @ b) -> True
"""

from __future__ import annotations

from math import prod
from typing import Any

from whit.ir import ops
from whit.ir.args import PLACE_SLOT
from whit.ir.op import Sources
from whit.ir.sizes import reach
from whit.ir.uop import UOp
from whit.kernel.contraction import distinct, find_product
from whit.kernel.cost import additions

LOOPS = frozenset({ops.REDUCE, ops.SCAN})
ALWAYS_CHEAP = 2  # a value of at most this cost is computed anew wherever it is needed
TWICE_IS_FINE = 40  # a value of at most this cost may be computed at two or three positions in one kernel

FEW, MANY = 8, 1 << 15
FAR = 100  # nodes to look at for what is below
LEAST_PRODUCTS = 1 << 16  # of a contraction that is worth a kernel
REUSED = 4  # products of each element of its operands


def is_join(node: UOp) -> bool:
    """Whether a value is a join: stores to a memory of which nothing is read."""
    return node.op is ops.AFTER and node.src[0].op is ops.PARAM and node.src[0].arg.slot == PLACE_SLOT


def prod_of(shape: tuple[Any, ...]) -> Any:
    """Number of elements; symbolic sizes count with their largest value."""
    return prod([size if isinstance(size, int) else _most_of(size) for size in shape])


def _most_of(size: UOp) -> int:
    return max(reach(size)[1] or 1, 1)


def narrowest(node: UOp) -> UOp:
    """Where to store a value: before casts to wider dtypes, or to positions, which cannot be stored, and before views
    that only repeat or rearrange it."""
    while True:
        widens = node.op is ops.CAST and not node.src[0].dtype.itemsize >= node.dtype.itemsize > 0
        repeats = node.op is ops.EXPAND
        rearranges = node.op in ops.MOVEMENT and prod_of(node.shape) == prod_of(node.src[0].shape)
        if not (widens or repeats or rearranges):
            return node
        node = node.src[0]


def operands_of(node: UOp) -> Sources:
    """The sources that a value is computed from: what an RECOMPUTE waits for is not among them."""
    return node.src[:1] if node.op is ops.RECOMPUTE else node.src


def needs_loops(root: UOp, stored: set[UOp]) -> bool:
    """Whether a value that is not stored has reductions inside: a kernel that sorts has no loops for them."""
    stack, seen = [root], {root}
    while stack:
        node = stack.pop()
        if node in stored:
            continue
        if node.op in (ops.REDUCE, ops.SCAN, ops.SORT):
            return True
        fresh = [s for s in operands_of(node) if s not in seen]
        seen.update(fresh)
        stack.extend(fresh)
    return False


def is_serial(node: UOp) -> bool:
    """Whether a reduction has so few results and so many operands that it should be split over threads."""
    results = prod_of(node.shape)
    if results > FEW:
        return False
    many = MANY * max(results, 1)
    return bool(prod_of(node.src[0].shape) >= many or _elements_of_rows(node.src[0]) >= 8 * many)


def is_contraction(node: UOp) -> bool:
    """Whether a value is a sum of many products that uses each of its operands several times."""
    return _is_product(node) and bool(prod_of(node.src[0].shape) >= REUSED * sum(map(distinct, node.src[0].src)))


def is_worth_a_kernel(node: UOp) -> bool:
    """Whether a value is a contraction, or the product of a vector and a matrix: of many, long rows, one operand of all
    of which is the same."""
    if not _is_product(node):
        return False
    vector, matrix = sorted(map(distinct, node.src[0].src))
    return is_contraction(node) or bool(prod_of(node.src[0].shape) == matrix == vector * prod_of(node.shape))


def _is_product(node: UOp) -> bool:
    """Whether a value is a sum of many products."""
    return find_product(node) is not None and bool(prod_of(node.src[0].shape) >= LEAST_PRODUCTS)


def _elements_of_rows(value: UOp) -> float:
    """Elements of the largest reduction that each element of a value is made of, as the loss of a row of logits is.
    Contractions are left out: they have kernels of their own."""
    most = 0.0
    stack, seen = [value], {value}
    while stack and len(seen) < FAR:
        node = stack.pop()
        if node.op is ops.REDUCE:
            most = max(most, 0 if is_worth_a_kernel(node) else prod_of(node.src[0].shape))
        elif node.op.elementwise or node.op in ops.MOVEMENT or node.op is ops.CAST:
            fresh = [s for s in node.src if s not in seen]
            seen.update(fresh)
            stack.extend(fresh)
    return most


_LEAVES = (ops.CONST, ops.VARIABLE, ops.ARANGE, ops.PARAM, ops.BUFFER)
_FREE = (*_LEAVES, ops.CAST, ops.BITCAST, *ops.SAME_VALUE, ops.RECOMPUTE, *ops.MOVEMENT)


def weigh(root: UOp, stored: set[UOp]) -> float:
    """Operations an element up to reductions and what is stored, counted only as far as it matters."""
    total = 0.0
    stack, seen = [root], {root}
    while stack and total <= TWICE_IS_FINE:
        node = stack.pop()
        is_position = not node.dtype.itemsize  # computed where a loop is entered, and next to nothing inside
        total += 0 if node.op in _FREE or is_position else additions(node.op)
        for s in operands_of(node):
            if s not in seen and s not in stored and s.op not in (ops.REDUCE, ops.SCAN, ops.SORT):
                seen.add(s)
                stack.append(s)
    return total
