"""Linear programs as text: one folder a language, and what they share.

    render({"kernel": linear}, parse_target("CPU"))      the text of a module with one function for each program

`program` says what a program may contain and how its function is called, `small_floats` and `fused` rewrite arithmetic
that the target does not have, `llvm`, `c` and `ptx` write the text. The language that a target needs is loaded for it.
"""

from __future__ import annotations

from collections.abc import Mapping

from whit.ir.uop import UOp
from whit.target import Target

__all__ = ["render"]


def render(programs: Mapping[str, UOp], target: Target) -> str:
    """The text of a module with a function for each program, in the language of the target."""
    if target.renderer == "LLVM":
        from whit.render.llvm.text import render_llvm  # lazy: one language is loaded, the one that is written

        return render_llvm(programs, target)
    if target.renderer == "C":
        from whit.render.c.text import render_c  # lazy: the same

        return render_c(programs, target)
    from whit.render.ptx.text import render_ptx  # lazy: the same

    return render_ptx(programs, target)
