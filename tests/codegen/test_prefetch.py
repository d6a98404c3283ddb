"""What a program asks for before it reads it."""

from dataclasses import replace

from schedule.build import matmul, param, scheduled

from whit.codegen import generate
from whit.codegen.cpu.prefetch import (
    COPY_DISTANCE_ROWS,
    PANEL_DISTANCE_BYTES,
    SHORT_ROW_BYTES,
    _next_rows,
    loads_after_loops,
    prefetch_distances,
)
from whit.config import Context
from whit.dtype import dtypes
from whit.ir import ops
from whit.ir.args import RangeKind
from whit.ir.graph import memory_of
from whit.ir.uop import UOp
from whit.render.llvm.text import render_llvm
from whit.target import parse_target

TARGET = replace(parse_target("CPU:LLVM:skylake-avx512"), cores=1)


def program(value: UOp) -> UOp:
    (call,) = scheduled(value).src
    with Context(NOOPT=0):
        return generate(call.src[0].src[0], TARGET).linear


def test_a_product_asks_for_rows_of_what_it_copies_and_lines_of_its_panel() -> None:
    linear = program(matmul(param(0, 64, 512), param(1, 512, 768)))
    ahead, asked = prefetch_distances(linear, TARGET), loads_after_loops(linear)
    copied = {distance for load, distance in ahead.items() if memory_of(load.src[0]).op is ops.PARAM}
    read = {distance for load, distance in ahead.items() if memory_of(load.src[0]).op is ops.BUFFER}
    assert copied == {COPY_DISTANCE_ROWS * 768 * 4}
    assert read == {PANEL_DISTANCE_BYTES}
    count = len(ahead) + sum(map(len, asked.values()))
    assert sum(node.op is ops.PREFETCH for node in linear.src) == count
    assert render_llvm({"kernel": linear}, TARGET).count("call void @llvm.prefetch") == count


def test_what_fits_the_first_cache_or_is_read_in_order_is_not_asked_for() -> None:
    assert not prefetch_distances(program(param(0, 4096) + param(1, 4096)), TARGET)
    small = program(matmul(param(0, 64, 32), param(1, 32, 64)))
    assert not [load for load in prefetch_distances(small, TARGET) if memory_of(load.src[0]).op is ops.BUFFER]


def rows_of_blocks(blocks: int) -> dict[str, set[int]]:
    """How far ahead sums of rows of packed blocks, 18 bytes for 16 elements, ask for what they read."""
    row, k = UOp.range(64, 0), UOp.range(16 * blocks, 1000, RangeKind.REDUCE)
    packed, start = UOp.param(2, dtypes.uint8, (64 * 18 * blocks,)), row * (18 * blocks) + k // 16 * 18
    value, scale = (packed.index(place).cast(dtypes.float32) for place in (start + k % 16 + 2, start))
    total = (value * scale * param(1, 16 * blocks).index(k)).reduce(ops.ADD, ranges=(k,))
    linear = generate(UOp.group(param(0, 64).store(total, row)), TARGET).linear
    found: dict[str, set[int]] = {}
    for load, distance in prefetch_distances(linear, TARGET).items():
        found.setdefault(f"p{memory_of(load.src[0]).arg.slot}", set()).add(distance)
    return found


def test_short_rows_of_blocks_side_by_side_ask_for_the_next_ones() -> None:
    assert rows_of_blocks(16) == {"p2": {8 * 16 * 18}}
    assert rows_of_blocks(SHORT_ROW_BYTES // 16) == {}  # a processor finds these by itself


def test_rows_of_unknown_length_are_not_asked_for() -> None:
    blocks = UOp.variable("blocks", 1, 100)
    along, row = UOp.range(blocks, 1000, RangeKind.REDUCE), UOp.range(64, 0)
    assert _next_rows(row * 18432 + along * 18) == 0
    assert _next_rows(row * 18432 + UOp.range(16, 1000, RangeKind.REDUCE) * 18) == 18432


def test_what_sums_are_added_to_is_asked_for_before_their_loop_and_read_after_it() -> None:
    linear = program(matmul(param(0, 96, 2048), param(1, 2048, 128)))
    loads = [node for node in linear.src if node.op is ops.LOAD and node.src[0].op is ops.PARAM and len(node.src) > 2]
    asked = loads_after_loops(linear)
    assert loads and len(asked) == 1
    ((loop, found),) = asked.items()
    places = {node: place for place, node in enumerate(linear.src)}
    assert set(found) <= set(loads) and len(found) >= len(loads) - 1
    assert all(places[load] > places[loop.end()] for load in loads)
    assert all(places.get(load.src[1], 0) < places[loop] for load in found)
