"""The rewrites that only GPUs need: this module is loaded with the first schedule for one."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from whit.ir.rewrite import rewrite
from whit.ir.uop import UOp
from whit.schedule.rewrites.align_rows import align_rows
from whit.schedule.rewrites.merge_depth import MERGE_DEPTH
from whit.schedule.rewrites.scatter_at_once import SCATTER_AT_ONCE
from whit.schedule.rewrites.split_columns import SPLIT_COLUMNS
from whit.schedule.rewrites.stage_operands import TRANSPOSE_OPERANDS

REWRITES: Mapping[str, Callable[[UOp], UOp]] = {
    "scatter_at_once": lambda graph: rewrite(graph, SCATTER_AT_ONCE, once=True),
    "split_columns": lambda graph: rewrite(graph, SPLIT_COLUMNS, once=True),
    "transpose_operands": lambda graph: rewrite(graph, TRANSPOSE_OPERANDS, once=True),
    "merge_depth": lambda graph: rewrite(graph, MERGE_DEPTH, once=True),
    "align_rows": align_rows,
}
