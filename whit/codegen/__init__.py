"""A kernel and a target become a linear program. `pipeline.py` lists the passes."""

from whit.codegen.pipeline import Program, generate
from whit.codegen.strategy.record import Choice

__all__ = ["Choice", "Program", "generate"]
