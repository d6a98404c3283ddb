"""Programs as PTX, the assembly language that NVIDIA's driver takes.

    store(p0, load(p1, r) * 2)           ->    @%lt9 bra ...
    r = block * 256 + thread                   ld.global.f32 %load7, [%at6];
                                               mul.rn.f32 %mul8, %load7, 0f40000000;
                                               st.global.f32 [%at5], %mul8;

A function has the memory of each PARAM as a parameter, by slot, then the values of its VARIABLEs by name. Ranges of
kind BLOCK and THREAD are what the hardware counts; all others are loops. A vector is one register for each lane, and
one access where its elements are neighbours, 16 bytes at most, and certainly aligned: memory of params begins at a
multiple of 16 bytes. Registers that the program indexes by numbers only are registers; others are local memory.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping

from whit.dtype import dtypes
from whit.errors import InternalError, NotSupportedError
from whit.ir import ops
from whit.ir.args import Memory, RangeKind
from whit.ir.atomic import is_atomic
from whit.ir.graph import memory_of
from whit.ir.op import Op
from whit.ir.uop import UOp
from whit.kernel.alignment import ALIGNMENT_BYTES
from whit.render.program import (
    GPU_RANGES,
    check_program,
    is_indexed_by_numbers,
    local_buffers_of,
    params_of,
    program_body,
    unsupported,
    variables_of,
    written_by,
)
from whit.render.ptx import launch as ptx_block
from whit.render.ptx import notes as ptx_notes
from whit.render.ptx.access import (
    listed,
    load_packed,
    pieces,
    reduce_in_memory,
    runs_of,
    spread_of,
    vector,
)
from whit.render.ptx.gemm.exchange import across
from whit.render.ptx.gemm.mma_tiles import Tiles
from whit.render.ptx.gemm.tma_loads import SHARED
from whit.render.ptx.gemm.wgmma import StagedGroups
from whit.render.ptx.gemm.wgmma_tiles import WarpGroups
from whit.render.ptx.ops import bitcast, cast, casts, combined, elementwise, spell
from whit.render.ptx.packed_f16x2 import instructions_of
from whit.render.ptx.parts import bytes_of, lanes_of_f16x2, leave_out_unused_lanes, pair
from whit.render.ptx.values import PtxWriter, lane_count, memory_type, number, register_type
from whit.render.ptx.words import bytewise
from whit.render.small_floats import emulate_small_floats
from whit.simplify.bounds import bounds
from whit.target import GPU_LIMITS, Target

_SPECIAL = {RangeKind.BLOCK: "%ctaid.x", RangeKind.THREAD: "%tid.x"}
# Versions of PTX: the first with MOST_PARAMETERS parameters, and those that know a target.
_VERSION, _VERSIONS = "8.1", {"sm_100": "8.6", "sm_120": "8.7"}
_NEWER = (".e4m3", ".e5m2", ".s8.u8", ".u8.s8")  # in the names of instructions that are of version 8.4
MOST_PARAMETERS = 32764 // 8


Instruction = Callable[["_Function", UOp], None]


def render_ptx(programs: Mapping[str, UOp], target: Target) -> str:
    """One module with a function for each program."""
    functions = [_Function(name, program, target).render() for name, program in programs.items()]
    shared = f".extern .shared .align 1024 .b8 {SHARED}[];\n" if any(SHARED in text for text in functions) else ""
    is_newer = any(word in text for text in functions for word in _NEWER)
    version = _VERSIONS.get(target.arch, "8.4" if is_newer else _VERSION)
    head = f"// {', '.join(programs)} for {target}\n.version {version}\n.target {target.arch}\n.address_size 64\n"
    return "\n".join([head + shared, *functions])


class _Function(PtxWriter):
    """Writes one function."""

    def __init__(self, name: str, program: UOp, target: Target) -> None:
        super().__init__()
        if not re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]*", name):
            raise InternalError(f"render PTX: {name!r} cannot be the name of a function")
        self.name = name
        self.early = target.has_early_launches  # started before those it waits for finish (`runtime.cuda.graph`)
        self.target = target
        self.halves = instructions_of(target.arch)
        self.linear = emulate_small_floats(
            program_body(program),
            has_half=True,
            has_bfloat=target.has_bfloat16,
            has_fp8=target.has_fp8,
            computed=frozenset(self.halves),
        )
        check_program(self.linear, "PTX", GPU_RANGES)
        self.arrays: dict[UOp, list[str]] = {}  # buffers that are registers
        self.paired: dict[UOp, list[str]] = {}  # and those of halves, two in each
        self.spaces: dict[UOp, str] = {}  # all other memory
        self.room: list[str] = []  # declarations of memory
        self.labels: dict[UOp, tuple[str, str]] = {}  # RANGE or IF -> its name, and where it ends
        self.alignments: dict[UOp, int] = {}
        self.reciprocal = ptx_block.reciprocal_of(self.linear)
        self.copies = ptx_block.copies_of(self.linear)
        self.copied = set(self.copies.values())
        if ptx_block.launch_hints(self.linear).flushes:
            self.exp2 = "ex2.approx.ftz.f32"
        self.asked_for = ptx_block.before_waiting(self.linear) if self.early else {}

    def render(self) -> str:
        parameters = self.prologue()
        tile = ptx_block.block_mma_of(self.linear)
        if tile is not None and ptx_block.is_by_roles(tile):
            written = {*written_by(self.linear)}
            # What is read alone may be loaded before others are stored: all of a tile at once, not one after another.
            self.spaces |= {node: "global.nc" for node in params_of(self.linear) if node not in written}
            self.note("barriers of each stage: it is full, it is empty; then one thread copies both operands")
            self.groups = WarpGroups(self, self.linear, tile, self.arrays[tile.src[0]], self.threads())
            parameters += self.groups.parameters()
            self.groups.open_copying(self.early)
            self.write(
                ptx_block.before_the_tile(self.linear, tile), {ops.BLOCK_MMA: lambda _, node: self.groups.copy()}
            )
            self.groups.open_computing()
            self.note("all others multiply what has come")
        self.write((node for node in self.linear.src if node not in self.asked_for), {})
        if tile is not None and ptx_block.is_by_roles(tile):
            self.groups.close()
        self.line("ret;")
        head = f".visible .entry {self.name}({', '.join(parameters)})"
        limits = ptx_block.limits_of(self.linear, self.threads())
        notes = ptx_notes.of_params(self.linear)
        first = self.first_lines()
        leave_out_unused_lanes(self)
        return "\n".join([*notes, head + limits, "{", *self.declarations(), *self.room, *first, *self.lines, "}", ""])

    def write(self, instructions: Iterable[UOp], instead: Mapping[Op, Instruction]) -> None:
        """Instructions in order, some of them in another way."""
        for node in instructions:
            write = instead.get(node.op) or _INSTRUCTIONS.get(node.op)
            if write is not None:
                write(self, node)
            elif node.op.elementwise:
                self.names[node] = bytewise(self, node) or elementwise(self, node)
            else:
                raise unsupported(node.op, "PTX", "is no instruction of a GPU", "Expand it before rendering.")

    def threads(self) -> int:
        """How many the program counts; 0 if it counts none."""
        ranges = [node for node in self.linear.src if node.op is ops.RANGE and node.arg.kind is RangeKind.THREAD]
        return max((int(node.src[0].arg) for node in ranges), default=0)

    def block_mma(self, node: UOp) -> None:
        held = self.arrays[memory_of(node.src[1])] if node.arg.a_in_registers else None
        rows, columns, depth = node.arg.tile
        self.note(f"product of {rows} x {columns} elements, {depth} of {node.arg.sizes[2]} of the depth at a time")
        if ptx_block.is_by_roles(node):
            self.groups.compute()
        elif node.arg.atom == "wgmma":
            StagedGroups(self, node, self.arrays[memory_of(node.src[0])], held).write()
        else:
            Tiles(self, node, self.arrays[memory_of(node.src[0])], self.threads(), held).write()

    def block_store(self, node: UOp) -> None:
        rows, columns = node.arg.box
        self.note(f"{rows} x {columns} elements of each group, by the copy engine")
        self.groups.store(node)

    def prologue(self) -> list[str]:
        """Reads the parameters and makes room for local buffers."""
        parameters = []
        for node in params_of(self.linear):
            name = f"p{node.arg.slot}"
            parameters.append(f".param .u64 {name}")
            generic = self.value("b64", f"{name}_", "ld.param.u64", f"[{name}]")
            self.names[node] = [self.value("b64", f"{name}_", "cvta.to.global.u64", generic)]
            self.spaces[node] = "global"
        for i, node in enumerate(variables_of(self.linear)):
            parameters.append(f".param .u64 var{i}")
            wide = self.value("b64", "var", "ld.param.u64", f"[var{i}]")
            self.names[node] = [
                wide if register_type(node.dtype) == "b64" else cast(self, dtypes.int64, node.dtype, wide)
            ]
        if len(parameters) > MOST_PARAMETERS:
            raise NotSupportedError(
                f"render PTX: a kernel over {len(parameters)} tensors and variables; {MOST_PARAMETERS} is the most",
                fix="Realise some of them first.",
            )
        tile = ptx_block.block_mma_of(self.linear)
        if self.early:
            self.note("the next kernel may come; this one waits for those before it")
            self.line("griddepcontrol.launch_dependents;")
            self.write(self.asked_for, {})
            if tile is None or not ptx_block.is_by_roles(tile):
                self.line("griddepcontrol.wait;")
        used = ptx_block.shared_bytes(self.linear)
        self.asked = 0 if used > GPU_LIMITS.shared_bytes else None  # bytes so far, if the launch brings the memory
        for node in local_buffers_of(self.linear):
            self.make_room(node)
        return parameters

    def make_room(self, node: UOp) -> None:
        """Registers, local or shared memory for a buffer."""
        count = int(node.shape[0])
        if node.arg.memory is Memory.REGISTER and ptx_block.is_used_whole(self.linear, node):
            self.paired[node] = [self.register("b32", f"acc{node.arg.id}_") for _ in range(count // 2)]
            return
        if node.arg.memory is Memory.REGISTER and is_indexed_by_numbers(self.linear, node):
            self.arrays[node] = [self.register(register_type(node.dtype), f"acc{node.arg.id}_") for _ in range(count)]
            return
        space = "local" if node.arg.memory is Memory.REGISTER else "shared"
        name = f"{space}{node.arg.id}"
        nbytes = count * node.dtype.itemsize
        self.spaces[node] = space
        if space == "shared" and self.asked is not None:
            start = self.value("b64", name + "_", "mov.u64", SHARED)
            self.names[node] = [self.value("b64", name + "_", "add.u64", start, str(self.asked))]
            self.asked += -(-nbytes // ALIGNMENT_BYTES) * ALIGNMENT_BYTES
            return
        self.room.append(f"  .{space} .align {ptx_block.alignment_of_rooms(self.linear)} .b8 {name}[{nbytes}];")
        self.names[node] = [self.value("b64", name + "_", "mov.u64", name)]

    # ---- control flow

    def open_range(self, node: UOp) -> None:
        (size,) = node.src
        kind, name = register_type(node.dtype), f"{node.arg.name}_"
        counter = f"s{kind[1:]}"
        self.note(ptx_notes.of_range(node))
        if node.arg.kind in _SPECIAL:
            short = self.value("b32", name, "mov.u32", _SPECIAL[node.arg.kind])
            self.names[node] = [short if kind == "b32" else self.value(kind, name, "cvt.u64.u32", short)]
            return
        r = self.value(kind, name, f"mov.{kind}", "0")
        self.names[node] = [r]
        label = f"L{self.count}"
        last = self.operand(size)
        self.labels[node] = (label, last)
        if not (size.op is ops.CONST and size.arg > 0):
            runs = self.value("pred", "runs", f"setp.lt.{counter}", "0", last)
            self.line(f"@!{runs} bra {label}_end;")
        self.label(f"{label}_loop")
        self.depth += 1

    def open_if(self, node: UOp) -> None:
        (condition,) = node.src
        test = self.operand(condition)
        label = f"L{self.count}_{len(self.labels)}"  # no register may be between two
        self.labels[node] = (label, "")
        self.line(f"@!{test} bra {label}_end;")
        self.depth += 1

    def close(self, node: UOp) -> None:
        (opener,) = node.src
        if opener not in self.labels:
            return  # counted by the hardware
        label, last = self.labels[opener]
        if opener.op is ops.RANGE and (bounds(opener.src[0]) or (0, 2))[1] > 1:
            (r,) = self.names[opener]
            counter = f"s{register_type(opener.dtype)[1:]}"
            self.line(f"add.{counter} {r}, {r}, 1;")
            more = self.value("pred", "more", f"setp.lt.{counter}", r, last)
            self.line(f"@{more} bra {label}_loop;")
        self.depth -= 1
        self.label(f"{label}_end")

    def prefetch(self, node: UOp) -> None:
        if self.early:
            memory, position, *gate = node.src
            guard = f"@{self.operand(gate[0])} " if gate else ""
            at = self.address(memory_of(memory), position)
            self.line(f"{guard}cp.async.bulk.prefetch.L2.global [{at}], {node.arg.nbytes};")

    def barrier(self, node: UOp) -> None:
        for line in ptx_block.barrier_of(self.linear, node, bool(self.copies)):
            self.line(line)

    # ---- memory

    def address(self, buffer: UOp, position: UOp, lane: int = 0) -> str:
        """What stands in the brackets of an access."""
        base, itemsize = self.names[buffer][0], buffer.dtype.itemsize
        if position.op is ops.CONST:
            return _plus(base, position.arg * itemsize)
        if position.op is ops.ADD and position.src[1].op is ops.CONST and not position.shape:
            return _plus(self.address(buffer, position.src[0]), position.src[1].arg * itemsize)
        index = self.operand(position, lane)
        if register_type(position.dtype) == "b32":
            index = cast(self, position.dtype, dtypes.int64, index)
        if itemsize == 1:
            return self.value("b64", "at", "add.s64", base, index)
        return self.value("b64", "at", "mad.lo.s64", index, str(itemsize), base)

    def load(self, node: UOp) -> None:
        buffer, position, *gate = node.src
        if node in self.copied:
            return  # by what stores it
        memory, width = memory_of(buffer), lane_count(node)
        if memory in self.paired:
            words = [self.value("b32", "load", "mov.b32", word) for word in self.paired[memory]]
            self.names[node] = [half for word in words for half in lanes_of_f16x2(self, word)]
            return
        if memory in self.arrays:
            first, kind = int(position.arg), register_type(node.dtype)
            cells = self.arrays[memory][first : first + width]
            self.names[node] = [self.value(kind, "load", f"mov.{kind}", cell) for cell in cells]
            return
        self.note(ptx_notes.of_access("load", memory, position, width))
        tests = self.tests(gate, width)
        spread = spread_of(position) if position.shape and len(set(tests)) == 1 else None
        if spread is not None:
            self.names[node] = self.load_spread(memory, *spread, tests[0])
            return
        result: list[str] = []
        one_by_one = bool(position.shape) or len(set(tests)) > 1
        step = 1 if one_by_one else pieces(memory.dtype.itemsize, position, width, self.alignments)
        address = self.addresses(memory, position)
        for lane in range(0, width, step):
            result += self.load_piece(memory, address(lane), step, tests[lane])
        self.names[node] = result

    def addresses(self, memory: UOp, position: UOp) -> Callable[[int], str]:
        """What stands in the brackets of an access, by lanes: what they have in common is computed once."""
        itemsize = memory.dtype.itemsize
        spread = spread_of(position) if position.shape else None
        if position.shape and spread is None:
            return lambda lane: self.address(memory, position, lane)
        if spread is None:
            start = self.address(memory, position)
            return lambda lane: _plus(start, lane * itemsize)
        common, offsets = spread
        start = self.common(memory, common)
        return lambda lane: _plus(start, offsets[lane] * itemsize)

    def common(self, memory: UOp, parts: list[UOp]) -> str:
        """The address of a place that is a sum."""
        start = self.names[memory][0]
        for node in parts:
            index = self.operand(node)
            if register_type(node.dtype) == "b32":
                index = cast(self, node.dtype, dtypes.int64, index)
            start = self.value("b64", "at", "mad.lo.s64", index, str(memory.dtype.itemsize), start)
        return start

    def load_spread(self, memory: UOp, common: list[UOp], offsets: list[int], test: str) -> list[str]:
        """Elements at numbers from a common place."""
        itemsize, start = memory.dtype.itemsize, self.common(memory, common)
        runs = runs_of(itemsize, common, offsets, self.alignments)
        return [x for at, count in runs for x in self.load_piece(memory, _plus(start, at * itemsize), count, test)]

    def tests(self, gate: list[UOp], width: int) -> list[str]:
        """The condition of each lane, or nothing."""
        if not gate:
            return [""] * width
        if not gate[0].shape:
            return [self.operand(gate[0])] * width
        return [self.operand(gate[0], lane) for lane in range(width)]

    def load_piece(self, memory: UOp, at: str, count: int, test: str) -> list[str]:
        """Neighbours with one instruction; zeros where the condition does not hold."""
        dtype = memory.dtype
        if dtype.itemsize == 2 and count > 1:
            return load_packed(self, dtype, self.spaces[memory], at, count, test)
        if dtype is dtypes.uint8 and count > 1 and not test:
            word = self.register("b32", "word")
            self.line(f"ld.{self.spaces[memory]}.u{8 * count} {word}, [{at}];")
            return bytes_of(self, word, count)
        kind = "b32" if dtype.is_bool else register_type(dtype)
        found = [self.register(kind, "load") for _ in range(count)]
        if test:
            zero = number(dtype, 0.0) if dtype.is_float else "0"
            for name in found:
                self.line(f"mov.{kind} {name}, {zero};")
        guard = f"@{test} " if test else ""
        self.line(f"{guard}ld.{self.spaces[memory]}{vector(count)}.{memory_type(dtype)} {listed(found)}, [{at}];")
        if dtype.is_bool:
            return [self.value("pred", "load", "setp.ne.u32", name, "0") for name in found]
        return found

    def store(self, node: UOp) -> None:
        buffer, value, position, *gate = node.src
        if node in self.copies:
            source, place, *_ = value.src
            self.note(ptx_notes.of_access("copy to", memory_of(buffer), position, lane_count(value)))
            to = self.address(memory_of(buffer), position)
            guard = f"@{self.operand(gate[0])} " if gate else ""
            self.line(f"{guard}cp.async.cg.shared.global [{to}], [{self.address(memory_of(source), place)}], 16;")
            return
        memory, width = memory_of(buffer), max(lane_count(value), lane_count(position))
        tests = self.tests(gate, width)
        if memory in self.paired:
            for i, word in enumerate(self.paired[memory]):
                two = pair(self, *(self.operand(value, lane) for lane in (2 * i, 2 * i + 1)))
                self.line(f"mov.b32 {word}, {two};")
            return
        if memory in self.arrays:
            self.store_in_registers(node, self.arrays[memory], tests)
            return
        self.note(ptx_notes.of_access("store", memory, position, width))
        address = self.addresses(memory, position)
        for lane, step in self.steps(memory, position, width, tests):
            at = address(lane)
            new = [self.operand(value, lane + i) for i in range(step)]
            if self.spaces[memory] == "global" and is_atomic(node):
                reduce_in_memory(self, node.arg.combine, memory.dtype, at, new, tests[lane])
                continue
            if node.arg.combine is not None:
                old = self.load_piece(memory, at, step, tests[lane])
                pairs = zip(old, new, strict=True)
                new = [spell(self, node.arg.combine, memory.dtype, [before, now]) for before, now in pairs]
            self.store_piece(memory, at, new, tests[lane])

    def steps(self, memory: UOp, position: UOp, width: int, tests: list[str]) -> list[tuple[int, int]]:
        """The lanes at which accesses begin, and how many each takes."""
        itemsize, is_one = memory.dtype.itemsize, len(set(tests)) == 1
        spread = spread_of(position) if position.shape and is_one else None
        if spread is not None:
            counts = [count for _, count in runs_of(itemsize, *spread, self.alignments)]
            return [(sum(counts[:i]), count) for i, count in enumerate(counts)]
        step = pieces(itemsize, position, width, self.alignments) if is_one and not position.shape else 1
        return [(lane, step) for lane in range(0, width, step)]

    def store_piece(self, memory: UOp, at: str, values: list[str], test: str) -> None:
        dtype = memory.dtype
        if dtype.itemsize == 2 and len(values) > 1:
            dtype = dtypes.uint32
            values = [pair(self, low, high) for low, high in zip(values[::2], values[1::2], strict=True)]
        if dtype.is_bool:
            values = [self.value("b32", "byte", "selp.b32", "1", "0", value) for value in values]
        guard = f"@{test} " if test else ""
        kind = memory_type(dtype)
        self.line(f"{guard}st.{self.spaces[memory]}{vector(len(values))}.{kind} [{at}], {listed(values)};")

    def store_in_registers(self, node: UOp, cells: list[str], tests: list[str]) -> None:
        _, value, position, *_ = node.src
        kind, at = register_type(value.dtype), int(position.arg)
        for lane, test in enumerate(tests):
            new, cell = self.operand(value, lane), cells[at + lane]
            if node.arg.combine is not None:
                new = spell(self, node.arg.combine, value.dtype, [cell, new])
            self.line(f"{f'@{test} ' if test else ''}mov.{kind} {cell}, {new};")

    def across(self, node: UOp) -> None:
        self.note(f"{node.arg.op.name if node.arg.op else 'one'} of {node.arg.threads} threads side by side")
        self.names[node] = [across(self, node, lane) for lane in range(lane_count(node))]

    # ---- vectors

    def index(self, node: UOp) -> None:
        vector, *positions = node.src
        if len(positions) != 1 or node.arg or node.shape or positions[0].op is not ops.CONST:
            raise unsupported(node.op, "PTX", f"of {node.short()} is no lane of a vector", "Say which lane.")
        self.names[node] = [self.operand(vector, int(positions[0].arg))]

    def stack(self, node: UOp) -> None:
        self.names[node] = [self.operand(source) for source in node.src]

    def shuffle(self, node: UOp) -> None:
        width = lane_count(node.src[0])
        self.names[node] = [self.operand(node.src[lane // width], lane % width) for lane in node.arg]

    def reduce(self, node: UOp) -> None:
        (vector,) = node.src
        lanes = [self.operand(vector, lane) for lane in range(lane_count(vector))]
        self.names[node] = [combined(self, node.arg.op, node.dtype, lanes)]

    def cast(self, node: UOp) -> None:
        self.names[node] = casts(self, node)

    def bitcast(self, node: UOp) -> None:
        (x,) = node.src
        lanes = range(lane_count(node))
        self.names[node] = [bitcast(self, x.dtype, node.dtype, self.operand(x, lane)) for lane in lanes]

    def nothing(self, node: UOp) -> None:
        """Already written, or names what is."""


def _plus(address: str, offset: int) -> str:
    """An address some bytes on."""
    base, _, known = address.partition("+")
    total = int(known or 0) + offset
    return f"{base}+{total}" if total else base


_INSTRUCTIONS: dict[Op, Instruction] = {
    ops.BLOCK_MMA: _Function.block_mma,
    ops.BLOCK_STORE: _Function.block_store,
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
    ops.BARRIER: _Function.barrier,
    ops.LAUNCH: _Function.nothing,
    ops.PREFETCH: _Function.prefetch,
    ops.ACROSS: _Function.across,
    ops.AFTER: _Function.nothing,
    ops.PARAM: _Function.nothing,
    ops.BUFFER: _Function.nothing,
    ops.VARIABLE: _Function.nothing,
    ops.GROUP: _Function.nothing,
}
