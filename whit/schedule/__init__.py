"""Tensor graph -> LINEAR of kernel calls. `pipeline.py` lists the passes."""

from whit.schedule.align_rows import align_rows
from whit.schedule.pipeline import schedule

__all__ = ["align_rows", "schedule"]
