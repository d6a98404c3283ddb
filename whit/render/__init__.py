"""Linear programs as text: one file a language, and what they share.

    render({"kernel": linear}, parse_target("CPU"))      the text of a module with one function for each program

`program` says what a program may contain and how its function is called, `small_floats` and `fused` rewrite arithmetic
that the target does not have, `llvm`, `c` and `ptx` write the text.
"""

from __future__ import annotations

from collections.abc import Mapping

from whit.ir.uop import UOp
from whit.render.c.text import render_c
from whit.render.llvm.text import render_llvm
from whit.render.ptx.text import render_ptx
from whit.target import Target

__all__ = ["render", "render_c", "render_llvm", "render_ptx"]

_RENDERERS = {"LLVM": render_llvm, "C": render_c, "PTX": render_ptx}


def render(programs: Mapping[str, UOp], target: Target) -> str:
    """The text of a module with a function for each program, in the language of the target."""
    return _RENDERERS[target.renderer](programs, target)
