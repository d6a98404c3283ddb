"""One total order of nodes, so that sums and products have one form.

Ranges come first (as their loops nest), then variables (by name), then everything else by a digest of its structure;
constants come last. The order does not depend on when a node was built, so two processes give the same text and the
same code.
"""

from __future__ import annotations

from whit.ir import ops
from whit.ir.graph import digest
from whit.ir.uop import UOp

Key = tuple[int, tuple[int, int] | str | int, int]


def order(node: UOp) -> Key:
    """The sort key of a node."""
    number = node.known_digest
    if number is None:
        number = digest(node)
    op = node.op
    if op is ops.RANGE:
        return 0, node.arg.order, number
    if op is ops.VARIABLE:
        return 1, node.arg.name, number
    return (3 if op is ops.CONST else 2), number, 0
