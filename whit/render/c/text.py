"""Programs as C text: plain C11, for machines that have a C compiler, and to compare LLVM with.

    store(p0, load(p1, r0, 4) * 2)   ->   for (int64_t r0 = 0; r0 < 100; r0++) {
    for r0 in 0 .. 99                       float load1[4];
                                            for (int l = 0; l < 4; l++) load1[l] = p1[(r0) + l];
                                            ...

A vector is a small array and each instruction on vectors a loop over its lanes `l`, which compilers turn into vector
instructions. Values are declared in the block where they are made. Compile without contraction of products and sums
(-ffp-contract=off) and without aliasing by type (-fno-strict-aliasing), as `whit.runtime.code.gcc` does.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from whit.dtype import convert
from whit.errors import InternalError
from whit.ir import ops
from whit.ir.args import Memory, RangeKind
from whit.ir.graph import memory_of
from whit.ir.op import Op
from whit.ir.uop import UOp
from whit.render.c.ops import Helpers, bitcast, c_type, conversion, expression, number
from whit.render.program import check_program, local_buffers_of, params_of, program_body, unsupported, variables_of
from whit.render.small_floats import emulate_small_floats
from whit.target import Target

_HEAD = "#include <math.h>\n#include <stdint.h>\n#include <string.h>\n"
_SIGNATURE = "(void **buffers, const int64_t *variables, int64_t start, int64_t stop)"


def render_c(programs: Mapping[str, UOp], target: Target) -> str:
    """One file with a function for each program."""
    helpers = Helpers()
    functions = [_Function(name, program, helpers).render() for name, program in programs.items()]
    return "\n".join([f"// {', '.join(programs)} for {target}", _HEAD, *helpers.texts.values(), "", *functions])


class _Function:
    """Writes one function."""

    def __init__(self, name: str, program: UOp, helpers: Helpers) -> None:
        if not name.isidentifier() or not name.isascii():
            raise InternalError(f"render C: {name!r} cannot be the name of a function")
        self.name = name
        self.helpers = helpers
        self.linear = emulate_small_floats(program_body(program), has_half=False)
        check_program(self.linear, "C")
        self.lines: list[str] = []
        self.names: dict[UOp, str] = {}
        self.depth = 1

    def render(self) -> str:
        self.prologue()
        for node in self.linear.src:
            write = _INSTRUCTIONS.get(node.op)
            if write is not None:
                write(self, node)
            elif node.op.elementwise:
                self.elementwise(node)
            else:
                raise unsupported(node.op, "C", "is no instruction of a CPU", "Expand it before rendering.")
        return "\n".join([f"void {self.name}{_SIGNATURE} {{", *self.lines, "}", ""])

    def prologue(self) -> None:
        for node in params_of(self.linear):
            name = self.names[node] = f"p{node.arg.slot}"
            kind = c_type(node.dtype)
            self.line(f"{kind} *{name} = ({kind} *)buffers[{node.arg.slot}];")
        for i, node in enumerate(variables_of(self.linear)):
            name = self.names[node] = f"var{i}"
            self.line(
                f"const {c_type(node.dtype)} {name} = ({c_type(node.dtype)})variables[{i}];  // {node.arg.name!a}"
            )
        for node in local_buffers_of(self.linear):
            stem = "acc" if node.arg.memory is Memory.REGISTER else "panel"
            name = self.names[node] = f"{stem}{node.arg.id}"
            self.line(f"_Alignas(64) {c_type(node.dtype)} {name}[{node.shape[0]}];")

    # ---- text

    def line(self, text: str) -> None:
        self.lines.append("  " * self.depth + text)

    def operand(self, node: UOp) -> str:
        """A scalar, or lane `l` of a vector."""
        text = number(self.helpers, node.dtype, node.arg) if node.op is ops.CONST else self.names[node]
        return f"{text}[l]" if node.shape else text

    def define(self, node: UOp, text: str) -> None:
        """Declares a value; `text` is its lane `l` where it is a vector."""
        name = self.names[node] = f"{node.op.name}{len(self.names)}"
        kind = c_type(node.dtype)
        if node.shape:
            self.line(f"{kind} {name}[{node.shape[0]}];")
            self.line(f"{_each(node.shape[0])} {name}[l] = {text};")
        else:
            self.line(f"{kind} {name} = {text};")

    # ---- control flow

    def open_range(self, node: UOp) -> None:
        name = self.names[node] = node.arg.name
        kind, (size,) = c_type(node.dtype), node.src
        first, last = "0", self.operand(size)
        if node.arg.kind is RangeKind.CORE:
            first, last = f"({kind})start", f"({kind})stop"
        self.line(f"for ({kind} {name} = {first}; {name} < {last}; {name}++) {{")
        self.depth += 1

    def open_if(self, node: UOp) -> None:
        self.line(f"if ({self.operand(node.src[0])}) {{")
        self.depth += 1

    def close(self, node: UOp) -> None:
        self.depth -= 1
        self.line("}")

    # ---- memory

    def place(self, buffer: UOp, position: UOp, width: int) -> str:
        """The element of a buffer for lane `l`."""
        index = self.operand(position)
        if width > 1 and not position.shape:
            index = f"{index} + l"
        return f"{self.names[memory_of(buffer)]}[{index}]"

    def load(self, node: UOp) -> None:
        buffer, position, *gate = node.src
        text = self.place(buffer, position, node.arg)
        self.define(node, f"{self.operand(gate[0])} ? {text} : 0" if gate else text)

    def store(self, node: UOp) -> None:
        buffer, value, position, *gate = node.src
        shape = position.shape or value.shape
        place = self.place(buffer, position, shape[0] if shape else 1)
        text = self.operand(value)
        if node.arg.combine is not None:
            text = expression(self.helpers, node.arg.combine, value.dtype, [place, text])
        test = f"if ({self.operand(gate[0])}) " if gate else ""
        self.line(f"{_each(shape[0]) + ' ' if shape else ''}{test}{place} = {text};")

    # ---- values

    def elementwise(self, node: UOp) -> None:
        dtype = node.dtype if node.op is ops.WHERE else node.src[0].dtype
        self.define(node, expression(self.helpers, node.op, dtype, [self.operand(s) for s in node.src]))

    def index(self, node: UOp) -> None:
        vector, *positions = node.src
        if len(positions) != 1 or node.arg or len(vector.shape) != 1:
            raise InternalError(f"render C: {node.short()} is no lane of a vector")
        self.define(node, f"{self.names[vector]}[{self.operand(positions[0])}]")

    def stack(self, node: UOp) -> None:
        name = self.names[node] = f"stack{len(self.names)}"
        lanes = ", ".join(self.operand(source) for source in node.src)
        self.line(f"{c_type(node.dtype)} {name}[{len(node.src)}] = {{{lanes}}};")

    def shuffle(self, node: UOp) -> None:
        name = self.names[node] = f"mix{len(self.names)}"
        width = node.src[0].shape[0]
        lanes = ", ".join(f"{self.names[node.src[lane // width]]}[{lane % width}]" for lane in node.arg)
        self.line(f"{c_type(node.dtype)} {name}[{len(node.arg)}] = {{{lanes}}};")

    def reduce(self, node: UOp) -> None:
        (vector,) = node.src
        op, dtype = node.arg.op, node.dtype
        start = convert(dtype, op.identity(dtype)) if op.identity else 0
        name = self.names[node] = f"reduce{len(self.names)}"
        self.line(f"{c_type(dtype)} {name} = {number(self.helpers, dtype, start)};")
        text = expression(self.helpers, op, dtype, [name, self.operand(vector)])
        self.line(f"{_each(vector.shape[0])} {name} = {text};")

    def cast(self, node: UOp) -> None:
        (x,) = node.src
        self.define(node, conversion(self.helpers, x.dtype, node.dtype, self.operand(x)))

    def bitcast(self, node: UOp) -> None:
        (x,) = node.src
        text = self.operand(x)
        if c_type(x.dtype) != c_type(node.dtype):
            text = f"{bitcast(self.helpers, x.dtype, node.dtype)}({text})"
        self.define(node, text)

    def same(self, node: UOp) -> None:
        root = memory_of(node)
        self.names[node] = self.operand(root) if root.op is ops.CONST else self.names[root]

    def nothing(self, node: UOp) -> None:
        """Already written, or nothing to do on one thread."""


def _each(count: int) -> str:
    return f"for (int l = 0; l < {count}; l++)"


_INSTRUCTIONS: dict[Op, Callable[[_Function, UOp], None]] = {
    ops.RANGE: _Function.open_range,
    ops.IF: _Function.open_if,
    ops.END: _Function.close,
    ops.LOAD: _Function.load,
    ops.STORE: _Function.store,
    ops.INDEX: _Function.index,
    ops.STACK: _Function.stack,
    ops.SHUFFLE: _Function.shuffle,
    ops.REDUCE: _Function.reduce,
    ops.CAST: _Function.cast,
    ops.BITCAST: _Function.bitcast,
    ops.AFTER: _Function.same,
    ops.PARAM: _Function.nothing,
    ops.BUFFER: _Function.nothing,
    ops.VARIABLE: _Function.nothing,
    ops.BARRIER: _Function.nothing,
    ops.LAUNCH: _Function.nothing,
    ops.PREFETCH: _Function.nothing,
    ops.GROUP: _Function.nothing,
}
