"""Accesses by one flat position.

    p0[r0, r1] of a (6, 8) param        ->   p0[r0*8 + r1] of a (48,) param

Every later pass looks at positions as sums: the coefficient of a range is the stride of the access along it.
"""

from __future__ import annotations

from typing import Any

from whit.dtype import dtypes
from whit.ir import ops
from whit.ir.args import ParamArg
from whit.ir.rules import Rules, function_rule
from whit.ir.uop import UOp, as_index, const, make
from whit.simplify.sums import build_sum

ZERO = const(dtypes.weakint, 0)


def flat_param(param: UOp) -> UOp:
    """The same memory with one axis."""
    size = as_index(1)
    for n in param.shape:
        size = size * as_index(n)
    known: Any = 1
    for n in param.shape:
        known = known * n if isinstance(n, int) and isinstance(known, int) else None
    if known is None:
        return make(ops.PARAM, (size,), ParamArg(param.arg.slot, param.dtype, (None,)))
    return make(ops.PARAM, (), ParamArg(param.arg.slot, param.dtype, (known,)))


def flat_position(shape: tuple[Any, ...], position: tuple[UOp, ...]) -> UOp:
    """i0*n1*n2 + i1*n2 + i2"""
    terms: dict[UOp, int] = {}
    symbolic = ZERO
    stride: Any = 1
    for i, n in zip(reversed(position), reversed(shape), strict=True):
        if isinstance(stride, int):
            terms[i] = terms.get(i, 0) + stride
        else:
            symbolic = symbolic + i * stride
        stride = stride * n if isinstance(stride, int) and isinstance(n, int) else as_index(stride) * as_index(n)
    flat = build_sum(terms, 0, dtypes.weakint)
    return flat if symbolic is ZERO else flat + symbolic


@function_rule(ops.INDEX)
def flatten_index(node: UOp) -> UOp | None:
    """p0[i, j] -> p0[i*n + j]"""
    param, *position = node.src
    if param.op is not ops.PARAM or len(param.shape) == 1:
        return None
    gate = position.pop() if node.arg else None
    return flat_param(param).index(flat_position(param.shape, tuple(position)), gate=gate)


@function_rule(ops.STORE)
def flatten_store(node: UOp) -> UOp | None:
    """store p0, x, i, j -> store p0, x, i*n + j"""
    param, value, *position = node.src
    if len(param.shape) == 1 and len(position) - node.arg.gated == 1:
        return None
    gate = position.pop() if node.arg.gated else None
    place = flat_position(param.shape, tuple(position))
    return flat_param(param).store(value, place, combine=node.arg.combine, gate=gate)


def read_scalar_params(body: UOp) -> UOp:
    """A param without axes that is used as a value -> p0[0]"""
    scalars = [node for node in body.topological() if node.op is ops.PARAM and not node.shape]
    written = {store.src[0] for store in body.src}
    reads = {param: flat_param(param).index(0) for param in scalars}
    stores = []
    for store in body.src:
        target, *rest = store.src
        new = tuple(s.substitute(reads) for s in rest)
        stores.append(make(ops.STORE, (target, *new), store.arg))
    return UOp.group(*stores) if scalars or written else body


FLATTEN = Rules("flatten", (flatten_index, flatten_store))
