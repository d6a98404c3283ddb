"""Tensor graph -> LINEAR of kernel calls. `pipeline.py` lists the passes."""

from whit.schedule.pipeline import schedule
from whit.schedule.rewrites.align_rows import align_rows

__all__ = ["align_rows", "schedule"]
