"""From a kernel and a target to a linear program: the passes, in order.

flatten           positions become sums, so that strides can be read off
merge_ranges      fewer, longer loops
choose_strategy   looks; apply_strategy splits ranges into cores, loops, unrolled copies and lanes
simplify          the new index arithmetic
vector_access     lanes that are neighbours in memory are one access
transpose_loads   columns that are read side by side are loaded as rows
expand_math       transcendental functions as polynomials, where the target has no instruction
fix_index_dtype   after everything that reasons about unbounded integers
linearise         last: nothing but order is left to decide
"""

from __future__ import annotations

from dataclasses import dataclass
from math import prod

from whit.codegen.apply_strategy import apply_strategy
from whit.codegen.flatten import FLATTEN, read_scalar_params
from whit.codegen.index_dtype import fix_index_dtype
from whit.codegen.linearise import linearise
from whit.codegen.math import EXPAND_MATH
from whit.codegen.merge_ranges import merge_ranges
from whit.codegen.ranges import free_ranges
from whit.codegen.strategy import Strategy, choose_strategy
from whit.codegen.transpose_loads import transpose_loads
from whit.codegen.vector_access import VECTOR_ACCESS
from whit.config import CHECK_OOB, NOOPT
from whit.dtype import dtypes
from whit.ir import ops
from whit.ir.args import RangeKind
from whit.ir.graph import topological
from whit.ir.rewrite import rewrite
from whit.ir.uop import UOp
from whit.simplify import simplify
from whit.target import Target


@dataclass(frozen=True, slots=True)
class Program:
    """A kernel ready to be rendered, and what is known about it."""

    name: str
    linear: UOp
    total: int  # iterations of the range that runs on the cores; 1 if there is none
    variables: tuple[UOp, ...]
    ops: int  # element operations of one run
    bytes_read: int
    bytes_written: int
    explanation: str


def generate(body: UOp, target: Target, name: str = "kernel") -> Program:
    """The program of a kernel: a GROUP of stores over params."""
    work, read, written = estimate(body)
    body = simplify(rewrite(read_scalar_params(body), FLATTEN, once=True))
    if NOOPT:
        strategy = Strategy(order=[], reasons=["optimisation is off"])
    else:
        body = merge_ranges(body)
        strategy = choose_strategy(body, target)
        body = simplify(apply_strategy(body, strategy))
    body = transpose_loads(rewrite(body, VECTOR_ACCESS, once=True))
    body = fix_index_dtype(simplify(body))
    body = rewrite(body, EXPAND_MATH)
    linear = linearise(body, target.has_fma)
    if CHECK_OOB:
        from whit.codegen.check_bounds import check_bounds  # lazy: loads NumPy

        check_bounds(linear, name)
    cores = [node for node in linear.src if node.op is ops.RANGE and node.arg.kind is RangeKind.CORE]
    total = int(cores[0].src[0].arg) if cores else 1
    variables = tuple(node for node in linear.src if node.op is ops.VARIABLE)
    ordered = tuple(sorted(variables, key=lambda node: str(node.arg.name)))
    return Program(name, linear, total, ordered, work, read, written, str(strategy))


def estimate(body: UOp) -> tuple[int, int, int]:
    """Element operations, bytes read and bytes written by one run of a kernel, counted before it is tiled."""
    free = free_ranges(body)
    work = 0
    touched: dict[UOp, int] = {}
    for node in topological((body,)):
        around = free[node] | set(node.src[1:] if node.op is ops.REDUCE else ())
        times = prod(r.size if isinstance(r.size, int) else 1 for r in around)
        if (node.op.elementwise or node.op is ops.REDUCE) and node.dtype is not dtypes.weakint:
            work += times
        if node.op is ops.INDEX and node.src[0].op is ops.PARAM:
            param = node.src[0]
            size = prod(n if isinstance(n, int) else 1 for n in param.shape)
            touched[param] = min(touched.get(param, 0) + times, size)
    written = 0
    for store in body.src:
        times = prod(r.size if isinstance(r.size, int) else 1 for r in free[store])
        written += times * store.src[0].dtype.itemsize
    read = sum(count * param.dtype.itemsize for param, count in touched.items())
    return work, read, written
