"""Runs PTX without a GPU: the threads of a block in step, each instruction on all of them at once with NumPy.

Goes in: the text of a module with one function, and arrays for its parameters, which it changes. Threads that went
different ways meet again where their ways do: of those that wait at different lines, the first line is run. Copies in
flight (`cp.async`) arrive when somebody waits for them, not before; shared memory holds poison at first. An instruction
that is not known raises.
"""

from __future__ import annotations

import functools
import math
import re
import struct
from collections.abc import Callable
from fractions import Fraction
from typing import Any

import numpy as np
from ml_dtypes import bfloat16, finfo, float8_e4m3fn, float8_e5m2

Array = Any
_STORAGE = {"pred": np.bool_, "b16": np.uint16, "b32": np.uint32, "f32": np.uint32, "b64": np.uint64, "f64": np.uint64}
_NUMPY: dict[str, Any] = {
    "f16": np.dtype("f2"),
    "bf16": np.dtype(bfloat16),
    "e4m3": np.dtype(float8_e4m3fn),
    "e5m2": np.dtype(float8_e5m2),
    "f32": np.dtype("f4"),
    "f64": np.dtype("f8"),
}
for _bits in (8, 16, 32, 64):
    for _kind, _letter in (("u", "u"), ("b", "u"), ("s", "i")):
        _NUMPY[f"{_kind}{_bits}"] = np.dtype(f"{_letter}{_bits // 8}")
SHARED_BASE = 1024  # 14 bits of a descriptor say where 16 bytes are
_COMPARE: dict[str, Callable[[Array, Array], Array]] = {
    "lt": np.less, "le": np.less_equal, "gt": np.greater, "ge": np.greater_equal, "eq": np.equal,
    "ne": lambda x, y: (x < y) | (x > y), "neu": np.not_equal, "nan": lambda x, y: np.isnan(x) | np.isnan(y),
}  # fmt: skip
_WHOLE: dict[str, Any] = {"rzi": np.trunc, "rmi": np.floor, "rpi": np.ceil, "rni": np.rint}


def _fused(x: Array, y: Array, z: Array) -> Array:
    """x * y + z, rounded once when it is made narrower again.

    The product is exact in double; a sum that is not becomes the neighbour whose last bit is 1, which is never between
    two values of a narrower format.
    """
    if x.dtype == np.float64:
        return np.array([_exactly(*map(float, each)) for each in zip(x, y, z, strict=True)])
    product, z = x.astype(np.float64) * y, z.astype(np.float64)
    total = product + z
    back = total - product
    error = (product - (total - back)) + (z - back)
    steps = np.isfinite(error) & (error != 0) & (total.view(np.int64) & 1 == 0)
    return np.where(steps, np.nextafter(total, np.copysign(np.inf, error)), total)


def _exactly(x: float, y: float, z: float) -> float:
    plain = x * y + z
    if not all(map(math.isfinite, (x, y, z))):
        return plain
    exact = Fraction(x) * Fraction(y) + Fraction(z)
    return float(exact) if exact and math.isfinite(plain) else plain


def _towards_zero(x: Array, y: Array) -> Array:
    """The quotient of integers; whatever of a division by 0, which nobody may look at."""
    y = np.where(y == 0, 1, y)
    quotient = x // y
    return quotient + ((quotient < 0) & (quotient * y != x)) if x.dtype.kind == "i" else quotient


def run_ptx(text: str, blocks: int, threads: int, arrays: dict[str, Array], shared: int = 0, offset: int = 0) -> None:
    """Runs all blocks, one after another; `arrays` by the names of parameters, `shared` bytes beyond those declared.
    Arrays begin so many bytes after a multiple of 16."""
    for block in range(blocks):
        with np.errstate(all="ignore"):
            _Block(text, block, threads, arrays, shared, offset).run()


@functools.cache
def _parsed(line: str) -> tuple[str, str, str, list[str]]:
    """Guard, instruction, what follows it, and that as operands. Threads of all blocks run the same lines."""
    guard, text = re.match(r"(?:@(\S+) )?(.*)", line).groups()
    name, _, rest = text.partition(" ")
    return guard, name, rest, re.findall(r"\{[^}]*\}|\[[^\]]*\]|[^,\s]+", rest)


class _Block:
    def __init__(self, text: str, block: int, threads: int, arrays: dict[str, Array], shared: int, offset: int) -> None:
        self.threads, self.block = threads, block
        self.lane = np.arange(threads)
        self.symbols: dict[str, int] = {}
        self.memory: list[tuple[int, Array]] = []  # first address, bytes
        self.params: dict[str, int] = {}
        for i, (name, array) in enumerate(arrays.items()):
            assert array.flags.c_contiguous
            self.params[name] = ((i + 1) << 40) + (offset if array.dtype.itemsize == 2 else 0)
            self.memory.append((self.params[name], array.reshape(-1).view(np.uint8)))
        self.kinds: dict[str, str] = {}
        self.lines: list[str] = []
        self.labels: dict[str, int] = {}
        size = self._read(text)
        self.shared = np.full(size + shared, 0xAB, np.uint8)
        self.memory.append((SHARED_BASE, self.shared))
        self.registers = {name: np.zeros(threads, _STORAGE[kind]) for name, kind in self.kinds.items()}
        self.flying: list[tuple[Array, Array]] = []
        self.waits = np.zeros(threads, bool)  # for what other threads do

    def _read(self, text: str) -> int:
        size = 0
        for line in (line.strip() for line in text[text.index("{") + 1 :].splitlines()):
            if match := re.match(r"\.reg \.(\w+) (.*);", line):
                self.kinds.update(dict.fromkeys(match[2].split(", "), match[1]))
            elif match := re.match(r"\.shared \.align \d+ \.b8 (\w+)\[(\d+)\];", line):
                self.symbols[match[1]] = SHARED_BASE + size
                size += -(-int(match[2]) // 16) * 16
            elif line.endswith(":"):
                self.labels[line[:-1]] = len(self.lines)
            elif line.endswith(";"):
                self.lines.append(line[:-1])
        self.symbols["tiles"] = SHARED_BASE + size
        return size

    def run(self) -> None:
        at = np.zeros(self.threads, np.int64)
        end = len(self.lines)
        while (at < end).any():
            ready = (at < end) & ~self.waits
            assert ready.any(), "threads wait for nobody"
            first = int(at[ready].min())
            self.active = ready & (at == first)
            line = self.lines[first]
            at[self.active] += 1
            guard, name, rest, operands = _parsed(line)
            if guard:
                test = self.registers[guard.lstrip("!")]
                self.active = self.active & (~test if guard.startswith("!") else test)
            if name == "ret":
                at[self.active] = end
            elif name == "bra":
                at[self.active] = self.labels[rest]
            elif self.active.any():
                self.step(name, operands)

    # ---- operands

    def get(self, operand: str, kind: str) -> Array:
        """An operand as numbers of a type of PTX, one for each thread."""
        wanted = _NUMPY[kind]
        if operand in self.registers:
            bits = self.registers[operand]
            size = wanted.itemsize
            return bits.astype(np.dtype(f"u{size}")).view(wanted)
        special = {"%tid.x": self.lane, "%laneid": self.lane % 32, "%ctaid.x": np.full(self.threads, self.block)}
        if operand in special:
            return special[operand].astype(wanted)
        if operand in self.symbols:
            return np.full(self.threads, self.symbols[operand], wanted)
        if operand.startswith(("0f", "0d")):
            code = "f" if operand[1] == "f" else "d"
            packed = struct.pack(">I" if code == "f" else ">Q", int(operand[2:], 16))
            return np.full(self.threads, struct.unpack(f">{code}", packed)[0], wanted)
        return np.full(self.threads, int(operand.rstrip("U"), 0) % (1 << 64), np.uint64).astype(wanted)

    def get_two(self, operand: str, kind: str) -> Array:
        """An operand as two halves of each thread, the lower one first."""
        assert operand in self.registers, "there are no numbers of these"
        return self.get(operand, "u32").view(_NUMPY[kind[:-2]]).reshape(-1, 2)

    def put(self, register: str, value: Array) -> None:
        storage = self.registers[register]
        if storage.dtype == np.bool_:
            new = value
        else:
            new = value.view(np.dtype(f"u{value.dtype.itemsize}")).astype(storage.dtype)
        storage[self.active] = new[self.active]

    def address(self, text: str) -> Array:
        base, _, offset = text.strip("[]").partition("+")
        if base in self.registers:
            return self.registers[base].astype(np.int64) + int(offset or 0)
        return np.full(self.threads, self.symbols[base] + int(offset or 0), np.int64)

    def bytes_at(self, address: Array, count: int) -> tuple[Array, Array, Array]:
        """The memory behind addresses of active threads: its array, positions by thread and byte, which threads."""
        who = np.flatnonzero(self.active)
        there = address[who]
        for base, array in self.memory:
            if base <= there[0] < base + array.size:
                inside = there - base
                assert inside.min() >= 0 and inside.max() + count <= array.size, "outside of memory"
                assert (there % min(count, 16) == 0).all(), "not aligned"
                return array, inside[:, None] + np.arange(count), who
        raise AssertionError(f"no memory at {there[0]}")

    def load(self, address: Array, count: int) -> Array:
        array, places, who = self.bytes_at(address, count)
        found = np.zeros((self.threads, count), np.uint8)
        found[who] = array[places]
        return found

    # ---- instructions

    def step(self, name: str, x: list[str]) -> None:
        op, *kinds = name.split(".")
        handler = getattr(self, "do_" + op, None)
        if handler is not None:
            handler(kinds, x)
            return
        kind = kinds[-1]
        if kind == "pred":
            sources = [self.registers[source] for source in x[1:]]
            self.put(
                x[0],
                {"and": np.logical_and, "or": np.logical_or, "xor": np.logical_xor, "not": np.logical_not}[op](
                    *sources
                ),
            )
            return
        if kind.endswith("x2"):
            self.put(x[0], self.of_twos(op, kinds, [self.get_two(source, kind) for source in x[1:]]))
            return
        a = [self.get(source, kind) for source in x[1:]]
        self.put(x[0], self.arithmetic(op, kinds, a).astype(_NUMPY[kind]))

    def of_twos(self, op: str, kinds: list[str], a: list[Array]) -> Array:
        """Rounded once: what is computed in float32 rounds as the exact result, and sums of products to odd first."""
        assert kinds[0] == ("NaN" if op in ("max", "min") else "rn")
        item = a[0].dtype
        wide = self.arithmetic(op, ["f32"], [each.astype(np.float32) for each in a])
        near = wide.astype(np.float32)
        if wide.dtype == np.float64:
            near = np.where(abs(near) > abs(wide), np.nextafter(near, np.float32(0)), near)
            near = (near.view(np.uint32) | (np.isfinite(wide) & (near != wide))).view(np.float32)
        return np.ascontiguousarray(near.astype(item)).view(np.uint32).reshape(-1)

    def arithmetic(self, op: str, kinds: list[str], a: list[Array]) -> Array:
        is_float = kinds[-1][0] == "f"
        if kinds[0] == "hi":
            assert (op, kinds[-1]) == ("mul", "u32")
            return a[0].astype(np.uint64) * a[1].astype(np.uint64) >> np.uint64(32)
        if op in ("add", "sub", "mul"):
            return {"add": np.add, "sub": np.subtract, "mul": np.multiply}[op](*a)
        if op == "mad":
            return a[0] * a[1] + a[2]
        if op == "fma":
            return _fused(*a)
        if op == "div":
            return a[0] / a[1] if is_float else _towards_zero(*a)
        if op == "rem":
            return a[0] - _towards_zero(*a) * a[1]
        if op in ("max", "min"):
            return (np.maximum if op == "max" else np.minimum)(*a)
        if op in ("and", "or", "xor"):
            return {"and": np.bitwise_and, "or": np.bitwise_or, "xor": np.bitwise_xor}[op](*a)
        if op in ("shl", "shr"):
            return (np.left_shift if op == "shl" else np.right_shift)(a[0], a[1].astype(a[0].dtype))
        if op in ("abs", "sqrt"):
            return {"abs": np.abs, "sqrt": np.sqrt}[op](a[0])
        if op == "neg":
            return -a[0]
        if op == "not":
            return np.invert(a[0])
        if op == "ex2":
            return np.exp2(a[0])
        if op == "rcp":
            return 1 / a[0]
        raise AssertionError(f"no instruction {op}.{'.'.join(kinds)}")

    def do_mov(self, kinds: list[str], x: list[str]) -> None:
        if x[0].startswith("{"):
            both = self.get(x[1], "u64")
            low, high = x[0].strip("{}").split(", ")
            self.put(low, both.astype(np.uint32))
            self.put(high, (both >> np.uint64(32)).astype(np.uint32))
            return
        if x[1].startswith("{"):
            half, whole = (np.uint16, np.uint32) if kinds[0] == "b32" else (np.uint32, np.uint64)
            bits = 8 * np.dtype(half).itemsize
            low, high = (self.get(part, f"u{bits}").astype(whole) for part in x[1].strip("{}").split(", "))
            self.put(x[0], low | high << whole(bits))
            return
        self.put(x[0], self.get(x[1], kinds[0]))

    def do_ld(self, kinds: list[str], x: list[str]) -> None:
        if kinds[0] == "param":
            self.put(x[0], np.full(self.threads, self.params[x[1].strip("[]")], np.uint64))
            return
        targets = x[0].strip("{}").split(", ")
        item = _NUMPY[kinds[-1]]
        found = self.load(self.address(x[1]), item.itemsize * len(targets)).view(item)
        for i, target in enumerate(targets):
            value = np.ascontiguousarray(found[:, i])
            wide = np.dtype("i4" if item.kind == "i" else "u4")
            self.put(target, value.astype(wide) if item.itemsize < 4 else value)

    def do_st(self, kinds: list[str], x: list[str]) -> None:
        sources = x[1].strip("{}").split(", ")
        item = _NUMPY[kinds[-1]]
        values = np.stack([self.get(source, kinds[-1]) for source in sources], axis=1)
        array, places, who = self.bytes_at(self.address(x[0]), item.itemsize * len(sources))
        array[places] = np.ascontiguousarray(values[who]).view(np.uint8).reshape(len(who), -1)

    def do_cp(self, kinds: list[str], x: list[str]) -> None:
        if kinds[1] == "wait_all":
            for places, value in self.flying:
                self.shared[places] = value
            self.flying = []
            return
        if "prefetch" in kinds:
            return
        assert kinds[1] == "cg" and x[2] == "16"
        value = self.load(self.address(x[1]), 16)
        _, places, who = self.bytes_at(self.address(x[0]), 16)
        self.flying.append((places, value[who]))

    def do_griddepcontrol(self, kinds: list[str], x: list[str]) -> None:
        """Nothing runs before."""

    def do_fence(self, kinds: list[str], x: list[str]) -> None:
        assert not self.flying, "the fence is before what it is for"

    def do_bar(self, kinds: list[str], x: list[str]) -> None:
        count = self.threads if len(x) == 1 else int(x[1])
        assert self.active.sum() % count == 0, "not all threads are here"

    def do_cvta(self, kinds: list[str], x: list[str]) -> None:
        self.put(x[0], self.get(x[1], "u64"))

    def do_setp(self, kinds: list[str], x: list[str]) -> None:
        if kinds[1].endswith("x2"):
            both = _COMPARE[kinds[0]](*(self.get_two(source, kinds[1]) for source in x[1:]))
            for i, register in enumerate(x[0].split("|")):
                self.put(register, both[:, i])
            return
        self.put(x[0], _COMPARE[kinds[0]](*(self.get(source, kinds[1]) for source in x[1:])))

    def do_set(self, kinds: list[str], x: list[str]) -> None:
        assert kinds[1] == "u32" and kinds[2].endswith("x2")
        both = _COMPARE[kinds[0]](*(self.get_two(source, kinds[2]) for source in x[1:]))
        self.put(x[0], np.where(both, np.uint16(0xFFFF), np.uint16(0)).view(np.uint32).reshape(-1))

    def do_lop3(self, kinds: list[str], x: list[str]) -> None:
        assert x[4] == "0xca"
        mask, yes, no = (self.get(source, "u32") for source in x[1:4])
        self.put(x[0], mask & yes | ~mask & no)

    def do_selp(self, kinds: list[str], x: list[str]) -> None:
        self.put(x[0], np.where(self.registers[x[3]], self.get(x[1], kinds[0]), self.get(x[2], kinds[0])))

    def do_cvt(self, kinds: list[str], x: list[str]) -> None:
        *_, target, source = kinds
        if source.endswith("x2"):
            two = self.get(x[1], "u16").view(np.uint8).view(_NUMPY[source[:-2]]).astype(np.float16)
            self.put(x[0], np.ascontiguousarray(two).view(np.uint32))
            return
        if target.endswith("x2") and "satfinite" in kinds:
            item = _NUMPY[target[:-2]]
            most = float(finfo(item).max)
            high, low = (self.get(part, source).clip(-most, most).astype(item).view(np.uint8) for part in x[1:])
            self.put(x[0], (high.astype(np.uint16) << 8 | low).astype(np.uint16))
            return
        if target.endswith("x2"):
            high, low = (self.get(part, source).astype(_NUMPY[target[:-2]]).view(np.uint16) for part in x[1:])
            self.put(x[0], high.astype(np.uint32) << 16 | low)
            return
        value = self.get(x[1], source)
        if kinds[0] in _WHOLE:
            value = _WHOLE[kinds[0]](value)
            if target[0] != "f":  # what is too large becomes the largest
                ends = np.iinfo(_NUMPY[target])
                exact = [0 if np.isnan(v) else min(max(int(v), ends.min), ends.max) if abs(v) < 1e30 else
                         int(ends.max if v > 0 else ends.min) for v in value.astype(np.float64)]  # fmt: skip
                value = np.array(exact, _NUMPY[target])
        self.put(x[0], value.astype(_NUMPY[target]))

    def do_prmt(self, kinds: list[str], x: list[str]) -> None:
        places = int(x[3], 16)
        given = np.stack([self.get(source, "u32") for source in x[1:3]], axis=1).view(np.uint8)
        taken = given[:, [places >> shift & 7 for shift in (0, 4, 8, 12)]]
        self.put(x[0], np.ascontiguousarray(taken).view(np.uint32).reshape(-1))

    def do_shfl(self, kinds: list[str], x: list[str]) -> None:
        warps = self.active.reshape(-1, 32)
        assert kinds[0] == "sync" and (warps.all(axis=1) == warps.any(axis=1)).all()
        if kinds[1] == "up":
            assert x[3] == "0"
            source = np.where(self.lane % 32 >= int(x[2]), self.lane - int(x[2]), self.lane)
        else:
            assert kinds[1] == "bfly"
            source = self.lane ^ int(x[2])
        self.put(x[0], self.get(x[1], "u32")[source])

    def do_redux(self, kinds: list[str], x: list[str]) -> None:
        assert kinds[:2] == ["sync", "or"] and self.active.all()
        of_warps = np.bitwise_or.reduce(self.get(x[1], "u32").reshape(-1, 32), axis=1)
        self.put(x[0], np.repeat(of_warps, 32))

    def do_ldmatrix(self, kinds: list[str], x: list[str]) -> None:
        """Squares of 8 x 8: the eight lines of square i are at the addresses of lanes 8i and on."""
        rows = self.load(self.address(x[1]), 16).view(np.uint16).reshape(-1, 4, 8, 8)
        if "trans" in kinds:
            rows = rows.swapaxes(2, 3)
        lane = self.lane % 32
        for i, target in enumerate(x[0].strip("{}").split(", ")):
            two = [rows[self.lane // 32, i, lane // 4, lane % 4 * 2 + e].astype(np.uint32) for e in (0, 1)]
            self.put(target, two[1] << 16 | two[0])

    def do_stmatrix(self, kinds: list[str], x: list[str]) -> None:
        """The same the other way round."""
        array, places, who = self.bytes_at(self.address(x[0]), 16)
        lane = who % 32
        for i, source in enumerate(x[1].strip("{}").split(", ")):
            two = self.get(source, "u32").view(np.uint16).reshape(-1, 2)[who]
            rows = places[who // 32 * 32 - who[0] + 8 * i + lane // 4].reshape(-1, 8, 2)
            array[rows[np.arange(len(who)), lane % 4 * 2]] = two[:, :1].view(np.uint8)
            array[rows[np.arange(len(who)), lane % 4 * 2 + 1]] = two[:, 1:].copy().view(np.uint8)

    def do_mma(self, kinds: list[str], x: list[str]) -> None:
        """m x 8 x k: registers of a are rows, rows 8 below, both further along the depth; of b the depth twice."""
        assert kinds[2] in ("m16n8k16", "m16n8k8", "m8n8k16") and self.active.all()
        rows, columns, depth = (int(size) for size in re.findall(r"\d+", kinds[2]))
        total, items = _NUMPY[kinds[5]], [_NUMPY[kind] for kind in kinds[6:8]]
        lane, warp = self.lane % 32, self.lane // 32
        group, pair, lanes = lane // 4, lane % 4 * 2, 4 // items[0].itemsize
        exact = np.float64 if total.kind == "f" else np.int64
        a, b, c = (np.zeros((self.threads // 32, *shape), exact) for shape in ((rows, depth), (depth, 8), (rows, 8)))
        targets, of_a, of_b, of_c = (part.strip("{}").split(", ") for part in x)
        assert len(of_a) == rows * depth // 32 // lanes and len(of_b) == depth * columns // 32 // lanes
        for registers, item, matrix, in_column in ((of_a, items[0], a, rows // 8), (of_b, items[1], b, 1)):
            for i, source in enumerate(registers):
                some = self.get(source, "u32").view(item).reshape(-1, lanes).astype(exact)
                for e in range(lanes):
                    line, k = group + i % in_column * 8, lane % 4 * lanes + e + i // in_column * 4 * lanes
                    matrix[(warp, line, k) if matrix is a else (warp, k, line)] = some[:, e]
        for i, source in enumerate(of_c):
            c[warp, group + i // 2 * 8, pair + i % 2] = self.get(source, kinds[5])
        c += a @ b  # type: ignore[arg-type]
        for i, target in enumerate(targets):
            self.put(target, c[warp, group + i // 2 * 8, pair + i % 2].astype(total))

    def do_wgmma(self, kinds: list[str], x: list[str]) -> None:
        """64 x n x 32 bytes by four warps: each has 16 rows, as mma has them."""
        if kinds[0] != "mma_async":
            return
        groups = [group for group in range(self.threads // 128) if self.active[128 * group : 128 * (group + 1)].all()]
        assert groups and self.active.sum() == 128 * len(groups)
        targets = x[0].strip("{}").split(", ")
        found = [np.where(self.registers[x[3]], self.get(target, kinds[4]), 0) for target in targets]
        for group in groups:
            self.multiply_group(group, kinds, x, found)
        for target, value in zip(targets, found, strict=True):
            self.put(target, value.astype(_NUMPY[kinds[4]]))

    def multiply_group(self, group: int, kinds: list[str], x: list[str], found: list[Array]) -> None:
        """What the threads of one group add."""
        columns, depth = (int(size) for size in re.findall(r"\d+", kinds[3])[1:])
        left, right = (_NUMPY[kind] for kind in kinds[-2:])
        mine = np.arange(128 * group, 128 * (group + 1))
        warp, lane = self.lane[mine] % 128 // 32, self.lane[mine] % 32
        row, pair = 16 * warp + lane // 4, lane % 4 * 2
        turned = [False, False] if depth == 32 else [x[6] == "1", x[-1] == "1"]
        if x[1].startswith("{"):
            a = np.zeros((64, depth))
            lanes = 4 // left.itemsize
            for i, source in enumerate(x[1].strip("{}").split(", ")):
                some = self.get(source, "u32").view(left).reshape(-1, lanes).astype(np.float64)[mine]
                for e in range(lanes):
                    a[row + i % 2 * 8, lane % 4 * lanes + e + i // 2 * depth // 2] = some[:, e]
        else:
            a = self.matrix(x[1], mine, 64, turned[0], left)
        b = self.matrix(x[2], mine, columns, turned[1], right)
        sums = a @ b.T
        for i, value in enumerate(found):
            value[mine] = value[mine] + sums[row + i % 4 // 2 * 8, i // 4 * 8 + pair + i % 2]

    def matrix(self, register: str, mine: Array, rows: int, is_turned: bool, item: Any) -> Array:
        """Rows by 32 bytes of a matrix in shared memory, from its descriptor: lines of 128 bytes, swizzled."""
        bits = {int(value) for value in self.registers[register][mine]}
        assert len(bits) == 1, "threads have different descriptors"
        value = bits.pop()
        start, leading, stride = ((value >> shift & 0x3FFF) << 4 for shift in (0, 16, 32))
        assert value >> 62 == 1
        r, k = np.arange(rows)[:, None], np.arange(32 // item.itemsize)[None, :]
        if is_turned:
            place = start + r // 64 * leading + k // 8 * stride + k % 8 * 128 + r % 64 * 2
        else:
            place = start + r // 8 * stride + r % 8 * 128 + k * item.itemsize
        place = (place ^ (place >> 7 & 7) << 4) - SHARED_BASE
        return self.shared.view(item)[place // item.itemsize].astype(np.float64)
