"""The fields of a node, and the two that may be filled in later.

`Record` is a node while it is being built; `UOp` is the same layout, sealed. What is derived from a node and asked for
often is kept in the node itself: a slot costs 8 bytes, a dictionary entry beside it 100.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from whit.dtype import DType
from whit.ir.op import Op, Shape, Sources

if TYPE_CHECKING:
    from whit.ir.uop import UOp


class Record:
    """The slots of a node."""

    __slots__ = ("__weakref__", "arg", "device", "dtype", "known_bounds", "known_digest", "made", "op", "shape", "src")

    op: Op
    dtype: DType
    src: Sources
    arg: Any
    shape: Shape
    device: str | None
    known_bounds: tuple[int, ...] | None  # filled by whit.simplify.bounds, on demand
    known_digest: int | None  # filled by whit.ir.graph.digest, on demand
    made: Any  # where in the user's program (`engine.report.launch_names`): names for people, no part of the node


# The slots' own setters: they pass by UOp.__setattr__, which refuses everything.
_slots: dict[str, Any] = dict(vars(Record))
set_bounds: Callable[[UOp, tuple[int, ...]], None] = _slots["known_bounds"].__set__
set_digest: Callable[[UOp, int], None] = _slots["known_digest"].__set__
set_made: Callable[[UOp, Any], None] = _slots["made"].__set__  # 30 ns; not there before that
