"""Arithmetic of float16 and bfloat16 in PTX, on two of them at once.

    x = load(p1, r, 2)                    ->      ld.global.b32 %two5, [%at4];
    store(p0, x * x + x)                          mul.rn.f16x2 %mul8, %two5, %two5;
                                                  add.rn.f16x2 %add11, %mul8, %two5;
                                                  st.global.u32 [%at13], %add11;

Each lane has a register of its own, as in all vectors, and `parts` knows whose half it is: an op takes two lanes that
are the halves of one register from there, and puts others together; a lane that nobody needs alone is not written. One
without a neighbour is computed in the same way: it has zeros above it, and of zeros all these ops make zeros.

The instructions round the exact result once, which is the same as computing in float32 and rounding that
(`small_floats`), keep subnormal numbers, and make NaN of NaN. What a GPU has none for is computed in float32.
"""

from __future__ import annotations

from collections.abc import Mapping

from whit.dtype import DType, dtypes
from whit.ir import ops
from whit.ir.op import Op
from whit.ir.uop import UOp
from whit.render.ptx.parts import lanes_of_f16x2, pair
from whit.render.ptx.values import PtxWriter, lane_count

F16, BF16 = dtypes.float16, dtypes.bfloat16
_BITS = {ops.NEG: 0x8000, ops.ABS: 0x7FFF}
_ROUNDED = {ops.ADD: "add.rn.{}", ops.SUB: "sub.rn.{}", ops.MUL: "mul.rn.{}"}
_COMPARED = {ops.LT: "setp.lt.{}", ops.LE: "setp.le.{}", ops.EQ: "setp.eq.{}", ops.NE: "setp.neu.{}"}
_FUSED = {ops.FMA: "fma.rn.{}"}
_OTHERS = {ops.MAX: "max.NaN.{}", ops.MIN: "min.NaN.{}", ops.CAST: "cvt.rn.{}.f32"}
# The first architecture that has instructions for a dtype; later rows replace what others say.
_SINCE: tuple[tuple[int, DType, Mapping[Op, str]], ...] = (
    (53, F16, {ops.NEG: "xor.b32", ops.ABS: "and.b32", **_ROUNDED, **_COMPARED, **_FUSED}),
    (53, BF16, {ops.NEG: "xor.b32", ops.ABS: "and.b32"}),
    (80, F16, _OTHERS),
    (80, BF16, {**dict.fromkeys(_ROUNDED, "fma.rn.{}"), **_FUSED, **_OTHERS}),
    (90, BF16, {**_ROUNDED, **_COMPARED}),
)


def instructions_of(arch: str) -> dict[tuple[Op, DType], str]:
    """What a GPU computes two by two: op and dtype (of the operands; of a cast, the result) -> instruction."""
    number = int(arch.removeprefix("sm_").rstrip("a"))
    rows = [(dtype, names) for since, dtype, names in _SINCE if since <= number]
    return {
        (op, dtype): name.format("f16x2" if dtype is F16 else "bf16x2")
        for dtype, names in rows
        for op, name in names.items()
    }


def is_f16x2(w: PtxWriter, node: UOp) -> bool:
    """Whether an elementwise op is computed two by two."""
    dtype = node.src[-1].dtype
    return (node.op, dtype) in w.halves or (node.op is ops.WHERE and dtype in (F16, BF16))


def spell_f16x2(w: PtxWriter, node: UOp) -> list[str]:
    """All lanes of such an op."""
    result = []
    for lanes in _by_two(lane_count(node)):
        result += _computed(w, node, [[w.operand(source, lane) for lane in lanes] for source in node.src])
    return result


def rounded(w: PtxWriter, node: UOp) -> list[str]:
    """All lanes of a cast from float32."""
    (x,) = node.src
    result = []
    for lanes in _by_two(lane_count(node)):
        low, *high = [w.in_register("f32", w.operand(x, lane)) for lane in lanes]
        word = w.value("b32", "cast", w.halves[ops.CAST, node.dtype], *(high or ["0f00000000"]), low)
        result += lanes_of_f16x2(w, word) if high else [word]
    return result


def _by_two(count: int) -> list[range]:
    return [range(lane, min(lane + 2, count)) for lane in range(0, count, 2)]


def _computed(w: PtxWriter, node: UOp, x: list[list[str]]) -> list[str]:
    """An op on two lanes of each operand, or on one."""
    op, is_pair = node.op, len(x[0]) == 2
    if op is ops.WHERE:
        word = _chosen(w, x[0], *[_word(w, lanes) for lanes in x[1:]])
        return lanes_of_f16x2(w, word) if is_pair else [word]
    dtype = node.src[0].dtype
    instruction = w.halves[op, dtype]
    words = [w.in_register("b32", _word(w, lanes)) for lanes in x]
    if op in _COMPARED:
        return _compared(w, instruction, words)[: len(x[0])]
    if op in _BITS:
        words.append(hex(_BITS[op] << 16 | _BITS[op] if is_pair else _BITS[op]))
    elif op in _ROUNDED and instruction.startswith("fma"):
        words = _as_fused(w, op, *words)
    word = w.value("b32", op.name, instruction, *words)
    return lanes_of_f16x2(w, word) if is_pair else [word]


def _word(w: PtxWriter, lanes: list[str]) -> str:
    return pair(w, lanes[0], lanes[1]) if len(lanes) == 2 else lanes[0]


def _as_fused(w: PtxWriter, op: Op, x: str, y: str) -> list[str]:
    """x + y = x * 1 + y, x - y = y * -1 + x, x * y = x * y + -0, for bfloat16: adding -0 changes nothing."""
    if op is ops.MUL:
        return [x, y, w.in_register("b32", "0x80008000")]
    if op is ops.ADD:
        return [x, w.in_register("b32", "0x3f803f80"), y]
    return [y, w.in_register("b32", "0xbf80bf80"), x]


def _compared(w: PtxWriter, instruction: str, words: list[str]) -> list[str]:
    """Two conditions, and how to have them as a mask of both halves."""
    _, name, kind = instruction.split(".")
    low, high = (w.register("pred", name) for _ in (0, 1))
    w.line(f"{instruction} {low}|{high}, {', '.join(words)};")
    w.lane_lines |= dict.fromkeys((low, high), len(w.lines) - 1)
    w.masks[low, high] = (f"set.{name}.u32.{kind}", *words)
    return [low, high]


def _chosen(w: PtxWriter, tests: list[str], yes: str, no: str) -> str:
    """Halves of one register or another. Without a mask each test chooses a register, of which one half is taken."""
    if len(tests) == 2 and (tests[0], tests[1]) in w.masks:
        mask = w.value("b32", "mask", *w.masks[tests[0], tests[1]])
        return w.value("b32", "where", "lop3.b32", mask, yes, no, "0xca")  # mask & yes | ~mask & no
    choices = [w.value("b32", "where", "selp.b32", yes, no, test) for test in dict.fromkeys(tests)]
    return choices[0] if len(choices) == 1 else w.value("b32", "where", "prmt.b32", *choices, "0x7610")
