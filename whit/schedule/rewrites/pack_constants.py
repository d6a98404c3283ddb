"""Weights of the products in a loop lie in panels before it, so that no step copies them.

    scan(h -> f(h @ w.T), h0, w)   ->   scan(h -> f(stored( h by panels )), h0, stored( panels of w ))

A kernel for a product reads a few vectors of columns at a time, line after line. For that it copies them into panels:
(columns / 64, k, 64). With few rows this is a third of its time, and the same in all steps of a scan. So it is done
once, before the scan. The product is stored as it is, with a range for panels and one for the columns of a panel, since
a kernel that computes more of it walks all columns as one.
"""

from __future__ import annotations

from math import prod

from whit.dtype import dtypes
from whit.ir import ops
from whit.ir.map_graph import map_graph
from whit.ir.op import Sources
from whit.ir.uop import UOp, make
from whit.kernel.contraction import MOST_PANEL_ROWS, find_product
from whit.records import dataclass
from whit.target import Target

LEAST_STEPS = 8  # that share a copy: it takes as long as what four gain (0.19 ms, 0.048 ms for 32 x 256 x 1024)
LEAST_ROWS = 8  # with fewer, products wait for the memory of the matrix
LEAST_DEPTH, LEAST_PANELS = 64, 4
VECTORS = 4  # of columns in a panel: as many as the widest register tile has


@dataclass(frozen=True, slots=True)
class _Packed:
    """A product of a step that reads a constant."""

    reduce: UOp
    param: UOp
    views: tuple[UOp, ...]  # of the param, the first one first: (columns, k) in the end
    other: UOp
    columns: int  # of a panel

    def panels_of(self, operand: UOp) -> UOp:
        """(panels, k, columns of a panel) of what the loop is given."""
        for view in self.views:
            operand = make(view.op, (operand,), view.arg)
        count, depth = operand.shape
        return operand.reshape((count // self.columns, self.columns, depth)).permute((0, 2, 1))

    def product_of(self, panels: UOp) -> UOp:
        """The same product."""
        parts, depth, columns = panels.shape
        lead = self.reduce.shape[:-1]
        shape = (*lead, parts, columns, depth)
        lines = panels.permute((0, 2, 1)).reshape((*[1] * len(lead), parts, columns, depth)).expand(shape)
        product = (self.other.reshape(shape) * lines).reduce(ops.ADD, (len(shape) - 1,))
        return product.stage().reshape(self.reduce.shape)


def pack_constants(graph: UOp, target: Target) -> UOp:
    """The graph whose scans are given panels."""

    def changed(node: UOp, src: Sources) -> UOp | None:
        is_scan = node.op is ops.LOOP and node.arg.kind == "scan" and (node.arg.length or 0) >= LEAST_STEPS
        return _with_panels(make(node.op, src, node.arg), target) if is_scan else None

    return map_graph(graph, changed)


def _with_panels(loop: UOp, target: Target) -> UOp:
    """A scan whose products read panels."""
    function, *operands = loop.src
    (body,) = function.src
    first = loop.arg.carries + loop.arg.inputs
    for node in body.topological():
        found = _find(node, first, target)
        if found is None:
            continue
        slot = found.param.arg.slot
        panels = found.panels_of(operands[slot])
        param = UOp.param(slot, panels.dtype, panels.shape, found.param.arg.device)
        changed = body.substitute({found.reduce: found.product_of(param)})
        if found.param not in changed.topological():  # or something else reads it as it is
            body, operands[slot] = changed, panels
    if body is function.src[0]:
        return loop
    return make(ops.LOOP, (body.function(function.arg.name), *operands), loop.arg)


def _find(node: UOp, first: int, target: Target) -> _Packed | None:
    """The product that a node is, if it is one of few rows and a constant matrix, a param from `first` on."""
    product = find_product(node)
    if product is None or node.dtype not in (dtypes.float32, dtypes.float64) or not _is_over_last(node):
        return None
    columns = VECTORS * target.vector_bytes // node.dtype.itemsize
    *lead, count, depth = node.src[0].shape
    rows = prod(lead)
    if not LEAST_ROWS <= rows <= MOST_PANEL_ROWS or depth < LEAST_DEPTH:
        return None
    if count % columns or count < LEAST_PANELS * columns:
        return None
    for constant, other in (product.operands, product.operands[::-1]):
        views = _views(constant, count, depth)
        if views is None:
            continue
        param, *rest = views
        if param.op is ops.PARAM and param.arg.slot >= first and param.dtype is node.dtype is other.dtype:
            return _Packed(node, param, tuple(rest), other, columns)
    return None


def _is_over_last(node: UOp) -> bool:
    """Whether a reduction is over the last of axes that are known, three at least."""
    shape = node.src[0].shape
    is_known = all(isinstance(size, int) for size in shape)
    return is_known and len(shape) > 2 and node.arg.axes == (len(shape) - 1,) and node.src[0].op is ops.MUL


def _views(constant: UOp, count: int, depth: int) -> list[UOp] | None:
    """What an operand is a view of, and its views as a matrix, if it repeats a matrix (count, depth)."""
    if constant.op is not ops.EXPAND or constant.src[0].op is not ops.RESHAPE:
        return None
    line = constant.src[0]
    node = line.src[0]
    if line.shape != (*[1] * (len(line.shape) - 2), count, depth) or node.shape != (count, depth):
        return None
    views = []
    while node.op is ops.PERMUTE:
        views.append(node)
        node = node.src[0]
    return [node, *views[::-1]]
