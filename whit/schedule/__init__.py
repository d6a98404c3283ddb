"""Tensor graph -> LINEAR of kernel calls. `pipeline.py` lists the passes."""

from whit.schedule.pipeline import schedule

__all__ = ["schedule"]
