"""The language: one node type, one table of ops, rules that rewrite, a text form, a verifier, an interpreter."""

from whit.ir.op import OPS, Op, Stage
from whit.ir.uop import UOp

__all__ = ["OPS", "Op", "Stage", "UOp"]
