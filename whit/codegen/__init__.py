"""A kernel and a target become a linear program. `pipeline.py` lists the passes."""

from whit.codegen.choice import Choice
from whit.codegen.pipeline import Program, generate
from whit.codegen.separate import separate

__all__ = ["Choice", "Program", "generate", "separate"]
