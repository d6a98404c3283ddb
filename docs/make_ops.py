"""Writes docs/ops.md, the reference of all ops, from the op table."""

from __future__ import annotations

import re

from pages import ROOT, publish

from whit.ir.op import OPS, Op, Stage

INTRODUCTION = """\
# Ops

Every op of the IR, from the records in `whit/ir/ops.py`. This page is generated: `make docs` writes it.

- **sources**: how many nodes it is built on. **argument**: what else it is built from (see `whit/ir/args.py`).
- **dtype**: the rule that checks the dtypes of the sources and gives that of the result; explained below the tables.
- **stages** where it may appear: {stages}.
- **expands**: can be rewritten into simpler ops, with exactly the same value.

What the elementwise ops mean for every value (NaN, overflow, division by zero) is in [semantics.md](semantics.md); how
to add one is in [adding-an-op.md](adding-an-op.md).
"""
HEADER = """\
| op | sources | argument | dtype | stages | expands | |
|---|---|---|---|---|---|---|"""


def sections() -> dict[str, list[Op]]:
    """The ops under the headings that the table's own comments give."""
    found: dict[str, list[Op]] = {}
    heading = ""
    for line in (ROOT / "whit/ir/ops.py").read_text().splitlines():
        if line.startswith("# ---- "):
            heading = line.removeprefix("# ---- ").capitalize()
        match = re.match(r'(?:[A-Z0-9_]+ = define\(|    )"(\w+)",', line)
        if match and match[1] in OPS:
            found.setdefault(heading, []).append(OPS[match[1]])
    missing = OPS.keys() - {op.name for listed in found.values() for op in listed}
    if missing:
        raise SystemExit(f"make_ops: no line of whit/ir/ops.py begins the records of {sorted(missing)}")
    return found


def spelled_arity(op: Op) -> str:
    if op.most is None:
        return f"{op.least} or more"
    return str(op.least) if op.least == op.most else f"{op.least} or {op.most}"


def letters(stages: Stage) -> str:
    return " ".join(str(stage.name)[0] for stage in Stage if stage in stages)


def row(op: Op) -> str:
    argument = op.arg_type.__name__ if op.arg_type is not None else ""
    expands = "yes" if op.expand is not None else ""
    doc = op.doc.replace("|", "\\|").replace("*", "\\*")
    return (
        f"| `{op.name}` | {spelled_arity(op)} | {argument} | {op.dtype.__name__} "
        f"| {letters(op.stages)} | {expands} | {doc} |"
    )


def page() -> str:
    named = [f"{str(stage.name)[0]} {stage.name}" for stage in Stage]
    parts = [INTRODUCTION.format(stages=", ".join(named))]
    for heading, listed in sections().items():
        parts.append("\n".join([f"## {heading}", "", HEADER, *map(row, listed), ""]))
    rules = sorted({op.dtype for op in OPS.values()}, key=lambda rule: rule.__name__)
    parts.append(
        "\n".join(["## Dtype rules", "", *(f"- **{r.__name__}**: {first_line(r.__doc__)}" for r in rules), ""])
    )
    return "\n".join(parts)


def first_line(doc: str | None) -> str:
    return (doc or "").strip().partition("\n")[0]


if __name__ == "__main__":
    publish("ops.md", page())
