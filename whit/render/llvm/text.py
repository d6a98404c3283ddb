"""Programs as LLVM IR text.

Goes in: LINEARs by the name of their function, and a Target. Comes out: one module that LLVM turns into an object.

    store(p0, load(p1, r0) * 2)     ->    %load1 = load float, ptr %at0, align 4
    for r0 in 0 .. 99                     %mul2 = fmul float %load1, 2.0
                                          store float %mul2, ptr %at3, align 4

The text is final: loops, vectors and hoisting are the work of codegen, and LLVM only promotes local arrays to registers
and selects instructions. There are no fast-math flags, so a product and a sum are never fused. Small floats are by now
integers of their size (`small_floats`); bool is i1 in registers and a byte in memory.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from whit.dtype import DType, dtypes
from whit.errors import InternalError
from whit.ir import ops
from whit.ir.args import Memory, RangeKind
from whit.ir.graph import memory_of
from whit.ir.op import Op
from whit.ir.uop import UOp
from whit.render.fused import expand_fma
from whit.render.llvm.ops import ELEMENTWISE, cast, combine, reduce_vector
from whit.render.llvm.values import LlvmWriter, lane_count, memory_type, number, quoted, scalar_type, type_of, vector_of
from whit.render.program import check_program, local_buffers_of, params_of, program_body, unsupported, variables_of
from whit.render.small_floats import SMALL, emulate_small_floats
from whit.target import CACHE_LINE_BYTES, Target

_SIGNATURE = "(ptr noalias readonly %buffers, ptr noalias readonly %variables, i64 %start, i64 %stop)"
_ALL_LANES = "splat (i1 true)"


def render_llvm(programs: Mapping[str, UOp], target: Target, *, atomic: bool = False) -> str:
    """One module with a function for each program. With `atomic`, combining stores are safe between threads."""
    declarations: dict[str, str] = {}
    functions = [_Function(name, program, target, declarations, atomic).render() for name, program in programs.items()]
    head = f'; {", ".join(programs)} for {target}\ntarget triple = "{target.triple}"\n'
    return "\n".join([head, *functions, *(text for _, text in sorted(declarations.items())), ""])


class _Function(LlvmWriter):
    """Writes one function."""

    def __init__(
        self, name: str, program: UOp, target: Target, declarations: dict[str, str], atomic: bool = False
    ) -> None:
        super().__init__(target, declarations)
        self.name = name
        self.atomic = atomic
        body = program_body(program)
        if atomic:
            for node in body.src:
                if node.op is ops.STORE and node.arg.combine is not None:
                    _atomic_spelling(node.arg.combine, node.src[0].dtype)
        self.linear = expand_fma(emulate_small_floats(body, has_half=target.has_half), has_fma=target.has_fma)
        check_program(self.linear, "LLVM")
        self.streamed = {
            memory_of(node.src[0]) for node in self.linear.src if node.op is ops.STORE and node.arg.streaming
        }
        self.loaded: tuple[UOp, UOp, str] | None = None  # where the load just before is from, and its address

    def render(self) -> str:
        self.prologue()
        for node in self.linear.src:
            if node.op is not ops.PREFETCH:
                self.loaded = None
            write = _INSTRUCTIONS.get(node.op)
            if write is not None:
                write(self, node)
            elif node.op in ELEMENTWISE:
                self.names[node] = ELEMENTWISE[node.op](self, node)
            else:
                raise unsupported(node.op, "LLVM", "is no instruction of a CPU", "Expand it before rendering.")
        if self.streamed:
            self.intrinsic("x86.sse.sfence", "void")  # other threads may see such stores later than what follows
        self.line("ret void")
        body = "\n".join(self.lines)
        return f"define void @{quoted(self.name)}{_SIGNATURE} nounwind {{\nentry:\n{body}\n}}\n"

    def prologue(self) -> None:
        """Loads the arguments and makes room for local buffers."""
        for node in params_of(self.linear):
            slot = node.arg.slot
            address = self.value(f"p{slot}.at", f"getelementptr inbounds ptr, ptr %buffers, i64 {slot}")
            self.names[node] = self.named(f"p{slot}", f"load ptr, ptr {address}, align 8")
            if node in self.streamed:
                low = self.value(
                    "low", f"and i64 {self.value('bits', f'ptrtoint ptr %p{slot} to i64')}, {CACHE_LINE_BYTES - 1}"
                )
                self.named(f"p{slot}.aligned", f"icmp eq i64 {low}, 0")
        for i, node in enumerate(variables_of(self.linear)):
            address = self.value("var.at", f"getelementptr inbounds i64, ptr %variables, i64 {i}")
            # With a space, as no name of ours has: users may call theirs "start" or "p0".
            wide = self.named(quoted(f"variable {node.arg.name}"), f"load i64, ptr {address}, align 8")
            narrow = scalar_type(node.dtype)
            self.names[node] = wide if narrow == "i64" else self.value("var", f"trunc i64 {wide} to {narrow}")
        for node in local_buffers_of(self.linear):
            name = ("acc" if node.arg.memory is Memory.REGISTER else "panel") + str(node.arg.id)
            room = f"[{node.shape[0]} x {memory_type(node.dtype)}]"
            self.names[node] = self.named(name, f"alloca {room}, align 64")

    # ---- control flow

    def open_range(self, node: UOp) -> None:
        """A loop with its test at the end; where it might not run at all, a test in front."""
        (size,) = node.src
        name, kind = node.arg.name, scalar_type(node.dtype)
        first, last = "0", self.operand(size)
        if node.arg.kind is RangeKind.CORE:
            first, last = "%start", "%stop"
            if kind != "i64":
                first = self.value("start", f"trunc i64 %start to {kind}")
                last = self.value("stop", f"trunc i64 %stop to {kind}")
        self.ends[node] = (name, last)
        if size.op is ops.CONST and size.arg > 0 and node.arg.kind is not RangeKind.CORE:
            self.line(f"br label %{name}.loop")
        else:
            runs = self.value(f"{name}.runs", f"icmp {self.less(node)} {kind} {first}, {last}")
            self.line(f"br i1 {runs}, label %{name}.loop, label %{name}.end")
        before = self.label
        self.open_block(f"{name}.loop")
        phi = f"phi {kind} [ {first}, %{before} ], [ %{name}.next, %{name}.latch ]"
        self.names[node] = self.named(name, phi)

    def less(self, node: UOp) -> str:
        return "ult" if node.dtype.is_unsigned else "slt"

    def open_if(self, node: UOp) -> None:
        (condition,) = node.src
        name = f"if{len(self.ends)}"
        self.ends[node] = (name, "")
        self.line(f"br i1 {self.operand(condition)}, label %{name}.then, label %{name}.end")
        self.open_block(f"{name}.then")

    def close(self, node: UOp) -> None:
        (opener,) = node.src
        name, last = self.ends[opener]
        if opener.op is ops.RANGE:
            kind = scalar_type(opener.dtype)
            self.line(f"br label %{name}.latch")
            self.start_block(f"{name}.latch")
            self.named(f"{name}.next", f"add nuw nsw {kind} %{name}, 1")
            self.named(f"{name}.more", f"icmp {self.less(opener)} {kind} %{name}.next, {last}")
            self.line(f"br i1 %{name}.more, label %{name}.loop, label %{name}.end")
        else:
            self.line(f"br label %{name}.end")
        self.close_block(f"{name}.end")

    # ---- memory

    def address(self, buffer: UOp, position: UOp) -> str:
        """The pointer (or vector of pointers) to a position of a buffer."""
        index, kind = self.operand(position), type_of(position)
        if position.dtype.is_unsigned and position.dtype.bitsize < 64 and position.op is not ops.CONST:
            wide = vector_of("i64", lane_count(position))
            index, kind = self.value("wide", f"zext {kind} {index} to {wide}"), wide
        base, element = self.names[memory_of(buffer)], memory_type(buffer.dtype)
        return self.value("at", f"getelementptr inbounds {element}, ptr {base}, {kind} {index}")

    def load(self, node: UOp) -> None:
        buffer, position, *gate = node.src
        count, align = lane_count(node), max(buffer.dtype.itemsize, 1)
        kind = vector_of(memory_type(buffer.dtype), count)
        mask = self.operand(gate[0], count) if gate and (gate[0].shape or position.shape) else ""
        at = self.address(buffer, position)
        if position.shape:
            result = self.gather(kind, count, align, at, mask)
        elif mask:
            result = self.masked_load(kind, count, align, at, mask)
        else:
            if gate:
                at = self.value("at", f"select i1 {self.operand(gate[0])}, ptr {at}, ptr {self.zeros(count, align)}")
            result = self.value("load", f"load {kind}, ptr {at}, align {align}")
            self.loaded = buffer, position, at
        if buffer.dtype.is_bool:
            result = self.value("load", f"icmp ne {kind} {result}, {'0' if count == 1 else 'zeroinitializer'}")
        self.names[node] = result

    def prefetch(self, node: UOp) -> None:
        """Asks for memory that will be read soon; always, as this does no harm."""
        memory, position = node.src[:2]
        known = self.loaded
        at = known[2] if known and known[:2] == (memory, position) else self.address(memory, position)
        soon = self.value("soon", f"getelementptr i8, ptr {at}, i64 {node.arg.ahead}")
        self.intrinsic("prefetch.p0", "void", ("ptr", soon), ("i32", "0"), ("i32", "3"), ("i32", "1"))

    def zeros(self, count: int, align: int) -> str:
        """Memory that holds zeros: what a load reads where its gate is false, without a branch."""
        room = count * align
        self.declarations[f"@zeros{room}"] = f"@zeros{room} = private constant [{room} x i8] zeroinitializer, align 64"
        return f"@zeros{room}"

    def gather(self, kind: str, count: int, align: int, at: str, mask: str) -> str:
        masks = (vector_of("i1", count), mask or _ALL_LANES)
        arguments = ((f"<{count} x ptr>", at), ("i32", str(align)), masks, (kind, "zeroinitializer"))
        return self.intrinsic(f"masked.gather.{self.suffix(kind)}.v{count}p0", kind, *arguments)

    def masked_load(self, kind: str, count: int, align: int, at: str, mask: str) -> str:
        arguments = (("ptr", at), ("i32", str(align)), (vector_of("i1", count), mask), (kind, "zeroinitializer"))
        return self.intrinsic(f"masked.load.{self.suffix(kind)}.p0", kind, *arguments)

    def store(self, node: UOp) -> None:
        buffer, value, position, *gate = node.src
        count = max(lane_count(value), lane_count(position))
        if position.shape and node.arg.combine is not None:
            self.scatter_combining(node)
            return
        if gate and not gate[0].shape and not position.shape:
            self.store_if(node)
            return
        kind, align = vector_of(memory_type(buffer.dtype), count), max(buffer.dtype.itemsize, 1)
        mask = self.operand(gate[0], count) if gate else ""
        at = self.address(buffer, position)
        if position.shape:
            text = self.stored(self.operand(value, count), value, count)
            places = ((f"<{count} x ptr>", at), ("i32", str(align)), (vector_of("i1", count), mask or _ALL_LANES))
            self.intrinsic(f"masked.scatter.{self.suffix(kind)}.v{count}p0", "void", (kind, text), *places)
        elif mask:
            new = self.combined(node.arg.combine, buffer, value, at, mask)
            places = (("ptr", at), ("i32", str(align)), (vector_of("i1", count), mask))
            self.intrinsic(f"masked.store.{self.suffix(kind)}.p0", "void", (kind, new), *places)
        else:
            self.store_plain(node.arg.combine, buffer, value, at, is_streaming=node.arg.streaming)

    def store_plain(self, operator: Op | None, buffer: UOp, value: UOp, at: str, *, is_streaming: bool = False) -> None:
        kind, align = vector_of(memory_type(buffer.dtype), lane_count(value)), max(buffer.dtype.itemsize, 1)
        if operator is not None and self.atomic:
            for lane in range(lane_count(value)):
                place = self.value("at", f"getelementptr inbounds {scalar_type(value.dtype)}, ptr {at}, i64 {lane}")
                self.store_atomic(operator, value.dtype, place, self.lane(value, lane))
            return
        text = f"store {kind} {self.combined(operator, buffer, value, at)}, ptr {at}"
        if is_streaming:
            self.store_streaming(
                text,
                f"{self.names[memory_of(buffer)]}.aligned",
                min(lane_count(value) * align, CACHE_LINE_BYTES),
                align,
            )
        else:
            self.line(f"{text}, align {align}")

    def store_streaming(self, text: str, is_aligned: str, wide: int, align: int) -> None:
        """A store past the caches, which must be aligned: whether memory starts with a line is seen when it runs."""
        name = f"past{self.fresh()}"
        self.declarations["!0"] = "!0 = !{i32 1}"
        self.line(f"br i1 {is_aligned}, label %{name}.do, label %{name}.else")
        for block, how in (("do", f"{wide}, !nontemporal !0"), ("else", f"{align}")):
            self.start_block(f"{name}.{block}")
            self.line(f"{text}, align {how}")
            self.line(f"br label %{name}.end")
        self.start_block(f"{name}.end")

    def store_if(self, node: UOp) -> None:
        """A store that a scalar gate may skip."""
        buffer, value, position, gate = node.src
        at = self.address(buffer, position)
        name = f"store{self.fresh()}"
        self.line(f"br i1 {self.operand(gate)}, label %{name}.do, label %{name}.end")
        self.open_block(f"{name}.do")
        self.store_plain(node.arg.combine, buffer, value, at)
        self.line(f"br label %{name}.end")
        self.close_block(f"{name}.end")

    def combined(self, operator: Op | None, buffer: UOp, value: UOp, at: str, mask: str = "") -> str:
        """What is stored: the value, or old operator value; in the form that memory has."""
        text, count = self.operand(value), lane_count(value)
        if operator is not None:
            kind, align = vector_of(memory_type(buffer.dtype), count), max(buffer.dtype.itemsize, 1)
            if mask:
                old = self.masked_load(kind, count, align, at, mask)
            else:
                old = self.value("old", f"load {kind}, ptr {at}, align {align}")
            if buffer.dtype.is_bool:
                old = self.value("old", f"trunc {kind} {old} to {vector_of('i1', count)}")
            text = combine(self, operator, buffer.dtype, count, old, text)
        return self.stored(text, value, count)

    def stored(self, text: str, value: UOp, count: int) -> str:
        """A value in the form that memory has: bool as a byte."""
        if not value.dtype.is_bool:
            return text
        return self.value("byte", f"zext {vector_of('i1', count)} {text} to {vector_of('i8', count)}")

    def scatter_combining(self, node: UOp) -> None:
        """Lane after lane, because two may have one position."""
        buffer, value, position, *gate = node.src
        count, pointers = lane_count(position), self.address(buffer, position)
        kind, memory, align = scalar_type(value.dtype), memory_type(buffer.dtype), max(buffer.dtype.itemsize, 1)
        for lane in range(count):
            at = self.value("at", f"extractelement <{count} x ptr> {pointers}, i64 {lane}")
            new = self.lane(value, lane)
            name = f"lane{self.fresh()}"
            if gate:
                self.line(f"br i1 {self.lane(gate[0], lane)}, label %{name}.do, label %{name}.end")
                self.open_block(f"{name}.do")
            if self.atomic:
                self.store_atomic(node.arg.combine, value.dtype, at, new)
            else:
                old = self.value("old", f"load {memory}, ptr {at}, align {align}")
                if value.dtype.is_bool:
                    old = self.value("old", f"trunc i8 {old} to i1")
                result = combine(self, node.arg.combine, value.dtype, 1, old, new)
                if value.dtype.is_bool:
                    result, kind = self.value("byte", f"zext i1 {result} to i8"), "i8"
                self.line(f"store {kind} {result}, ptr {at}, align {align}")
            if gate:
                self.line(f"br label %{name}.end")
                self.close_block(f"{name}.end")

    def store_atomic(self, operator: Op, dtype: DType, at: str, text: str) -> None:
        """old operator value as one step that no other thread can come between."""
        self.line(f"atomicrmw {_atomic_spelling(operator, dtype)} ptr {at}, {scalar_type(dtype)} {text} monotonic")

    # ---- vectors

    def lane(self, node: UOp, lane: int) -> str:
        """One lane of a vector, or the scalar itself."""
        if not node.shape:
            return self.operand(node)
        return self.value("lane", f"extractelement {type_of(node)} {self.operand(node)}, i64 {lane}")

    def index(self, node: UOp) -> None:
        vector, *positions = node.src
        if len(positions) != 1 or node.arg or len(vector.shape) != 1:
            raise InternalError(f"render LLVM: {node.short()} is no lane of a vector")
        (position,) = positions
        if position.shape:
            self.look_up(node, vector, position)
            return
        text = f"extractelement {type_of(vector)} {self.operand(vector)}, {type_of(position)} {self.operand(position)}"
        self.names[node] = self.value("lane", text)

    def look_up(self, node: UOp, vector: UOp, position: UOp) -> None:
        """A lane of a vector for each lane of another: the instruction looks at the lowest four bits."""
        if type_of(vector) != "<16 x float>" or "avx512f" not in self.target.features:
            raise unsupported(node.op, "LLVM", f"picks lanes of {type_of(vector)}", "Only 16 float32, with AVX-512.")
        if position.op is ops.AND and position.src[1].op is ops.CONST and position.src[1].arg == 15:
            position = position.src[0]
        kind, lanes = type_of(vector), self.operand(position, 16)
        arguments = ((kind, self.operand(vector)), (vector_of("i32", 16), lanes))
        self.names[node] = self.intrinsic("x86.avx512.permvar.sf.512", kind, *arguments)

    def stack(self, node: UOp) -> None:
        kind, element = type_of(node), scalar_type(node.dtype)
        if all(source is node.src[0] for source in node.src):
            self.names[node] = self.operand(node.src[0], len(node.src))
            return
        constants = [number(s.dtype, s.arg) if s.op is ops.CONST else "poison" for s in node.src]
        vector = f"<{', '.join(f'{element} {text}' for text in constants)}>"
        for lane, source in enumerate(node.src):
            if source.op is not ops.CONST:
                text = f"insertelement {kind} {vector}, {element} {self.operand(source)}, i64 {lane}"
                vector = self.value("stack", text)
        self.names[node] = vector

    def shuffle(self, node: UOp) -> None:
        first, second = node.src[0], node.src[-1]
        kind = type_of(first)
        lanes = ", ".join(f"i32 {lane}" for lane in node.arg)
        pair = f"{kind} {self.operand(first)}, {kind} {self.operand(second)}"
        self.names[node] = self.value("mix", f"shufflevector {pair}, <{len(node.arg)} x i32> <{lanes}>")

    def reduce(self, node: UOp) -> None:
        if len(node.src) != 1 or node.arg.axes != (0,):
            raise InternalError(f"render LLVM: {node.short()} is no reduction of one vector")
        self.names[node] = reduce_vector(self, node)

    def dot(self, node: UOp) -> None:
        """Four products of bytes, unsigned ones by signed ones, or two of bfloat16."""
        x, y, z = node.src
        count, kind = lane_count(node), type_of(node)
        feature, name, part, width = _DOTS.get((node.arg.left, node.arg.right), ("", "", "", 0))
        if feature not in self.target.features or count not in (4, 8, 16):
            why = f"of {node.arg.left.name} and {node.arg.right.name} as {kind}"
            raise unsupported(node.op, "LLVM", why, "Only unsigned by signed bytes, or bfloat16, in vectors.")
        words, parts = vector_of("i32", count), vector_of(part, width * count)
        given = [self.value("parts", f"bitcast {words} {self.operand(s, count)} to {parts}") for s in (x, y)]
        arguments = ((kind, self.operand(z, count)), *((parts, text) for text in given))
        self.names[node] = self.intrinsic(f"x86.{name}.{32 * count}", kind, *arguments)

    def cast(self, node: UOp) -> None:
        self.names[node] = cast(self, node)

    def bitcast(self, node: UOp) -> None:
        (x,) = node.src
        source, kind, text = type_of(x), type_of(node), self.operand(x)
        self.names[node] = text if source == kind else self.value("bits", f"bitcast {source} {text} to {kind}")

    def same(self, node: UOp) -> None:
        self.names[node] = self.operand(memory_of(node))

    def nothing(self, node: UOp) -> None:
        """Already written, or nothing to do on one thread."""


# What words are made of -> the feature, the instruction, its type of the parts and how many a word has.
_DOTS = {
    (dtypes.uint8, dtypes.int8): ("avx512vnni", "avx512.vpdpbusd", "i8", 4),
    (dtypes.bfloat16, dtypes.bfloat16): ("avx512bf16", "avx512bf16.dpbf16ps", "bfloat", 2),
}

_ATOMIC = {
    (ops.ADD, "float"): "fadd",
    **{(ops.ADD, kind): "add" for kind in ("int", "uint")},
    **{(ops.AND, kind): "and" for kind in ("int", "uint")},
    **{(ops.OR, kind): "or" for kind in ("int", "uint")},
    (ops.MAX, "int"): "max",
    (ops.MAX, "uint"): "umax",
    (ops.MIN, "int"): "min",
    (ops.MIN, "uint"): "umin",
}


def _atomic_spelling(operator: Op, dtype: DType) -> str:
    spelling = _ATOMIC.get((operator, dtype.kind))
    if spelling is None or dtype in SMALL:
        raise unsupported(operator, "LLVM", f"of {dtype.name} is not atomic", "Reduce first, then store.")
    return spelling


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
    ops.DOT: _Function.dot,
    ops.BITCAST: _Function.bitcast,
    ops.AFTER: _Function.same,
    ops.PARAM: _Function.nothing,
    ops.BUFFER: _Function.nothing,
    ops.VARIABLE: _Function.nothing,
    ops.BARRIER: _Function.nothing,
    ops.LAUNCH: _Function.nothing,
    ops.PREFETCH: _Function.prefetch,
    ops.GROUP: _Function.nothing,
}
