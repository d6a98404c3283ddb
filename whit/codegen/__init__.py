"""A kernel and a target become a linear program. `pipeline.py` lists the passes."""

from whit.codegen.pipeline import Program, generate

__all__ = ["Program", "generate"]
