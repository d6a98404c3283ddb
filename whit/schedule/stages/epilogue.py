"""The epilogue of a product, where tensor cores compute it: what may be computed of its sums before they are stored.

    gelu(a @ b + bias)      ->   one kernel
    (a @ b) * sigmoid(c)    ->   stored( a @ b ), the product of that with the sigmoid by another kernel
    (a @ b) + c             ->   one kernel, as always

A division or an exponential of every sum takes registers that hold sums, and time in which tensor cores wait. With
registers of threads that copy, and stores that nobody waits for, that is less than another kernel takes to read and
store everything: gelu(a @ b + bias) of 16384 x 768 x 3072 in 0.18 ms instead of 0.20 (H200). But not where more than a
row is read beside: gradients of gelu and silu are a little slower in one kernel. So are many values that are read
for every sum: two norms of images and their sum made 1.6 ms of one of 0.2 ms. Along a deep product, as that of a
gradient with the step of its optimiser behind it, it does not matter.
"""

from __future__ import annotations

from collections.abc import Iterable

from whit.ir import ops
from whit.ir.graph import topological
from whit.ir.uop import UOp
from whit.kernel.contraction import distinct
from whit.kernel.tensor_cores import LARGE_PRODUCT
from whit.schedule.values import prod_of

FUNCTIONS = frozenset(op for op in ops.ELEMENTWISE if op.operations > 1)
HEAVY = FUNCTIONS | {ops.FDIV, ops.RECIPROCAL, ops.EXP2, ops.LOG2, ops.SIN, ops.SQRT, ops.POW}
MANY_VALUES = 5  # values that are read for a sum
# steps: not more than of attention, whose scores are no values of their own; that hide it
SHALLOW_STEPS, DEEP_STEPS = 256, 2048


def narrowing(order: Iterable[UOp]) -> dict[UOp, UOp]:
    """Casts to a narrower dtype, by what they cast: where they are all that uses it, it is stored as they are."""
    users: dict[UOp, list[UOp]] = {}
    for node in order:
        for s in node.src:
            if s.dtype.is_float:
                users.setdefault(s, []).append(node)
    only = {s: found[0] for s, found in users.items() if len(found) == 1}
    narrow: dict[UOp, UOp] = {}
    for s, user in only.items():
        while user.op is ops.RESHAPE and user in only:
            user = only[user]
        if user.op is ops.CAST and user.dtype.itemsize < s.dtype.itemsize:
            narrow[s] = user
    return narrow


def is_too_much(value: UOp, product: UOp) -> bool:
    """Whether too much is computed of the sums of a product before a kernel stores its value."""
    depth = _depth_of_two(product)
    is_slow = len(_reads(value)) >= MANY_VALUES or (depth > SHALLOW_STEPS and is_heavy(value, product, 0))
    return 0 < depth < DEEP_STEPS and is_slow


def is_heavy(value: UOp, root: UOp, large: int) -> bool:
    """Whether much is read for every element, outside of reductions, or something expensive is computed of more than a
    row and `large` values of as many elements as the root has."""
    reads = [prod_of(_memory(node).shape) for node in _reads(value)]
    of_all = sum(not isinstance(size, int) or size >= prod_of(root.shape) for size in reads)
    is_much = of_all > large or len(reads) > of_all + 1
    return len(reads) > MANY_VALUES or (is_much and any(node.op in HEAVY and _varies(node) for node in _outside(value)))


def _reads(value: UOp) -> list[UOp]:
    return [node for node in _outside(value) if node.op is ops.INDEX]


def _memory(node: UOp) -> UOp:
    """What an INDEX reads: a value that is stored, or memory."""
    memory = node.src[0]
    return memory.src[0] if memory.op is ops.FUNCTION else memory


def _outside(value: UOp) -> list[UOp]:
    """What is not inside of a reduction."""
    reduces = [node for node in topological((value,)) if node.op is ops.REDUCE]
    return topological((value,), stop=reduces)


def _varies(node: UOp) -> bool:
    return any(s.op is ops.INDEX or s.op is ops.REDUCE for s in topological((node,)))


def is_large_sum(node: UOp) -> bool:
    """Whether a value is a product of so many elements that tensor cores compute it."""
    if node.op is not ops.REDUCE or node.arg.op is not ops.ADD or node.src[0].op is not ops.MUL:
        return False
    shape = node.src[0].shape
    return all(isinstance(size, int) for size in shape) and bool(prod_of(shape) >= LARGE_PRODUCT)


def _depth_of_two(product: UOp) -> int:
    """The steps of a product of two matrices; 0 if it is another one."""
    shape = product.src[0].shape
    depth: int = prod_of(tuple(shape[axis] for axis in product.arg.axes))
    left, right = (distinct(side) for side in product.src[0].src)
    return depth if left * right == prod_of(shape) * depth else 0
