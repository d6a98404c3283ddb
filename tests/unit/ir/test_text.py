"""The text form: what is printed reads back as the same object, and what does not read says where and why."""

import contextlib
import dataclasses
import doctest
import gc
import math
import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st
from strategies import (
    bool_expressions,
    float_expressions,
    floats,
    index_expressions,
    int_expressions,
    integers,
    tensor_graphs,
)

import whit.ir.text.diff
import whit.ir.text.parse
import whit.ir.text.write
from whit.dtype import DType, dtypes, part_dtype
from whit.errors import ParseError, ShapeError
from whit.ir import ops
from whit.ir.args import (
    ENUMS,
    RECORDS,
    AcrossArg,
    AxisArg,
    BlockMmaArg,
    BlockStoreArg,
    DotArg,
    FormulaArg,
    FunctionArg,
    LaunchArg,
    Layout,
    LeafArg,
    LoopArg,
    MatrixArg,
    Memory,
    MmaArg,
    Mode,
    MoveArg,
    ParamArg,
    PrefetchArg,
    RangeKind,
    RepeatArg,
    SortArg,
    StageArg,
    StoreArg,
)
from whit.ir.text.diff import diff
from whit.ir.text.parse import FIELD_READERS, parse, parse_all
from whit.ir.text.write import excerpt, to_text
from whit.ir.uop import UOp, const, live_nodes, make

f32, i32, index = dtypes.float32, dtypes.int32, dtypes.weakint
n, x = UOp.variable("n", 1, 64), UOp.variable("x", 0, 1000)
r0, r1 = UOp.range(4, 0), UOp.range(8, 1, RangeKind.REDUCE)
b0 = UOp.buffer(0, f32, (4, 8), "CPU")


def matmul() -> UOp:
    a, b, c = UOp.param(0, f32, (4, 8)), UOp.param(1, f32, (8, 4)), UOp.param(2, f32, (4, 4))
    i, j, k = UOp.range(4, 0), UOp.range(4, 1), UOp.range(8, 2, RangeKind.REDUCE)
    product = a.index(i, k) * b.index(k, j)
    return c.store(product.reduce(ops.ADD, ranges=(k,)), i, j).function("matmul")


def row_sums() -> UOp:
    """The sum of each row of an 8x16 array, as a program."""
    source, out = UOp.param(0, f32, (8, 16)), UOp.param(1, f32, (8,))
    total = UOp.buffer(0, f32, (1,), memory=Memory.REGISTER)
    i, k = UOp.range(8, 0), UOp.range(16, 1, RangeKind.REDUCE)
    start = total.store(const(f32, 0), 0)
    cleared = total.after(start)
    row = i * 16
    place = row + k
    value = source.load(place)
    old = cleared.load(0)
    added = old + value
    kept = total.store(added, 0)
    finished = k.end()
    summed = total.after(kept, finished)
    result = summed.load(0)
    written = out.store(result, i)
    inner = [k, place, value, old, added, kept, finished]
    return UOp.linear(source, out, total, i, start, cleared, row, *inner, summed, result, written, i.end())


# ---- what the text looks like


def test_an_expression() -> None:
    text = 'x = variable "x", 0..1000\n%1 = mul x, 3\n%2 = add %1, 5\n%3 = floormod %2, 977'
    assert to_text((x * 3 + 5) % 977) == text
    assert parse(text) is (x * 3 + 5) % 977


def test_a_kernel() -> None:
    text = """\
matmul = function "matmul" {
  p2 = param 2, float32(4, 4)
  p0 = param 0, float32(4, 8)
  r0 = range 4, id=0, kind=loop
  r2 = range 8, id=2, kind=reduce
  %1 = index p0, r0, r2  # float32
  p1 = param 1, float32(8, 4)
  r1 = range 4, id=1, kind=loop
  %2 = index p1, r2, r1  # float32
  %3 = mul %1, %2  # float32
  %4 = reduce %3, r2, op=add  # float32
  store p2, %4, r0, r1
}"""
    assert to_text(matmul()) == text
    assert parse(text) is matmul()


def test_a_program_is_printed_in_its_order_and_indented() -> None:
    text = """\
p0 = param 0, float32(8, 16)
p1 = param 1, float32(8,)
b0 = buffer 0, float32(1,), memory=register
r0 = range 8, id=0, kind=loop
  %1 = store b0, 0.0:float32, 0
  %2 = after b0, %1  # float32(1,)
  %3 = mul r0, 16
  r1 = range 16, id=1, kind=reduce
    %4 = add %3, r1
    %5 = load p0, %4  # float32
    %6 = load %2, 0  # float32
    %7 = add %6, %5  # float32
    %8 = store b0, %7, 0
  %9 = end r1
  %10 = after b0, %8, %9  # float32(1,)
  %11 = load %10, 0  # float32
  store p1, %11, r0
end r0
linear ..."""
    assert to_text(row_sums()) == text
    assert parse(text) is row_sums()


def test_a_schedule_shows_each_function_once_and_callees_first() -> None:
    buffers = [UOp.buffer(i, f32, shape, "CPU") for i, shape in enumerate([(4, 8), (8, 4), (4, 4), (4, 4)])]
    first = matmul().call(*buffers[:3])
    second = matmul().call(*buffers[:2], buffers[3])
    schedule = UOp.linear(first, second)
    lines = to_text(schedule, types=False).splitlines()
    assert lines[0] == 'matmul = function "matmul" {'
    assert lines[13:] == [
        'b0 = buffer 0, float32(4, 8), device="CPU"',
        'b1 = buffer 1, float32(8, 4), device="CPU"',
        'b2 = buffer 2, float32(4, 4), device="CPU"',
        "%1 = call matmul, b0, b1, b2",
        'b3 = buffer 3, float32(4, 4), device="CPU"',
        "%2 = call matmul, b0, b1, b3",
        "linear %1, %2",
    ]
    outer = schedule.function("step")
    assert to_text(outer).index('"matmul"') < to_text(outer).index('"step"')
    assert parse(to_text(schedule)) is schedule
    assert parse(to_text(outer)) is outer


def test_movement_shows_symbolic_sizes_in_their_place() -> None:
    a = UOp.param(0, f32, (4, n))
    moved = a.reshape((n, 4)).pad(((0, 1), (n, 0))).shrink(((0, 2), (n, 4))).permute((1, 0)).flip((0,))
    assert to_text(moved).splitlines()[1:4] == [
        "p0 = param 0, float32(4, n)",
        "%1 = reshape p0, shape=(n, 4)  # float32(n, 4)",
        "%2 = pad %1, pads=((0, 1), (n, 0))  # float32(n + 1, n + 4)",
    ]
    assert parse(to_text(moved)) is moved


def test_a_size_that_is_a_constant_node_stays_a_node() -> None:
    expanded = UOp.param(0, f32, (1, 1)).expand((n, 3)).substitute({n: const(index, 8)})
    assert "shape=(8:weakint, 3)" in to_text(expanded)
    assert parse(to_text(expanded)) is expanded


def test_distinct_nodes_never_share_a_name() -> None:
    nodes = [
        x,
        UOp.variable("x", 0, 5),
        UOp.variable("x", 0, 5, i32).cast(index),
        UOp.variable("r0", 0, 5),
        UOp.range(4, 0),
        UOp.range(5, 0),
        UOp.variable("true", 0, 1),
        UOp.variable("two words", 0, 1),
        UOp.variable('quote " and \n newline \\ é', 0, 1),
        UOp.variable("", 0, 1),
        UOp.variable("add", 0, 1),
        UOp.variable("roots", 0, 1),
        UOp.variable("x.1", 0, 1),
        UOp.range(4, -1),
    ]
    root = UOp.stack(*nodes)
    names = [line.partition(" = ")[0] for line in to_text(root).splitlines()]
    assert len(set(names)) == len(names)
    assert names[:2] == ["x", "x.1"]
    assert parse(to_text(root)) is root


def test_functions_of_one_name_are_told_apart() -> None:
    p = UOp.param(0, index)
    one, two = (p + 1).function("f"), (p + 2).function("f")
    root = one.call(UOp.variable("f", 0, 9)) + two.call(n)
    assert "f.1 = function" in to_text(root)
    assert parse(to_text(root)) is root


def test_types_are_noted_only_on_request_and_where_they_do_not_show() -> None:
    root = b0.cast(dtypes.float16).index(r0, r1) + const(dtypes.float16, 1)
    assert "#" not in to_text(root, types=False)
    assert to_text(root).splitlines()[-1] == "%3 = add %2, 1.0:float16  # float16"
    assert parse(to_text(root, types=False)) is root


def test_several_roots() -> None:
    roots = (x + 1, x, const(i32, 3), x + 1)
    text = to_text(roots)
    assert text.splitlines()[-1] == "roots %1, x, 3:int32, %1"
    assert parse_all(text) == roots
    assert parse_all(to_text(matmul())) == (matmul(),)
    assert parse_all(to_text([matmul(), x])) == (matmul(), x)
    assert parse_all("roots") == ()
    assert to_text([]) == "roots"


def test_blank_lines_comments_and_spaces_do_not_matter() -> None:
    text = '\n# a comment\n  x   =variable "x" ,0 .. 1000 # bounds\n\n%7 = add x,1 #\n\t%9 = mul  %7 , 2#end\n\n'
    assert parse(text) is (x + 1) * 2


@pytest.mark.parametrize("line", ["param 7, int8", "param 7, int8(3,)", "buffer 7, int8(3, 4)", "buffer 7, int8(0, 1)"])
def test_memory_reads_the_same_however_it_is_spaced(line: str) -> None:
    node = parse(f"p7 = {line}")
    assert parse(f"p7  =  {line}") is parse(line) is node
    assert to_text(node) == f"{'p' if line.startswith('p') else 'b'}7 = {line}"


def test_a_hash_inside_a_string_is_no_comment() -> None:
    node = UOp.variable("a # b", 0, 1)
    assert parse(to_text(node)) is node


# ---- constants

SIGNALLING: float = struct.unpack(">d", bytes.fromhex("7ff0000000000001"))[0]


@pytest.mark.parametrize(
    ("node", "text"),
    [
        (const(index, 3), "3"),
        (const(index, -(10**40)), "-" + str(10**40)),
        (const(i32, 3), "3:int32"),
        (const(dtypes.uint64, 2**64 - 1), "18446744073709551615:uint64"),
        (const(dtypes.bool, True), "true"),
        (const(dtypes.bool, False), "false"),
        (const(f32, 1.5), "1.5:float32"),
        (const(dtypes.float64, -0.0), "-0.0:float64"),
        (const(dtypes.float16, math.inf), "inf:float16"),
        (const(dtypes.bfloat16, -math.inf), "-inf:bfloat16"),
        (UOp.const_from_bits(dtypes.fp8e5m2, 0x7C), "inf:fp8e5m2"),
        (UOp.const_from_bits(dtypes.fp8e5m2, 0xFC), "-inf:fp8e5m2"),
        (const(f32, math.nan), "nan:float32"),
        (const(f32, struct.unpack(">d", bytes.fromhex("7ff8000020000000"))[0]), "nan(0x7fc00001):float32"),
        (const(f32, -math.nan), "nan(0xffc00000):float32"),
        (const(dtypes.float64, SIGNALLING), "nan(0x7ff0000000000001):float64"),
        (const(dtypes.weakfloat, 1e300), "1e+300"),
        (const(dtypes.weakfloat, math.nan), "nan"),
        (const(dtypes.weakfloat, 5e-324), "5e-324"),
        (const(dtypes.fp8e4m3fnuz, math.nan), "nan:fp8e4m3fnuz"),
        (const(dtypes.fp8e4m3, -math.nan), "nan(0xff):fp8e4m3"),
    ],
)  # fmt: skip
def test_a_constant_is_written_as(node: UOp, text: str) -> None:
    assert to_text(node) == f"const {text}"
    assert parse(f"const {text}") is node
    assert parse(to_text(UOp.group(node))) is UOp.group(node)


def test_integers_of_thousands_of_digits_are_in_hexadecimal() -> None:
    for value in (10**5000, -(10**5000)):
        node = x + const(index, value)
        assert "0x" in to_text(node)
        assert parse(to_text(node)) is node
    wide = UOp.variable("wide", -(10**5000), 10**5000)
    assert parse(to_text(wide)) is wide


def _constants(dtype: DType) -> st.SearchStrategy[UOp]:
    if dtype.is_complex:
        parts = floats(part_dtype(dtype))
        return st.builds(complex, parts, parts).map(lambda value: const(dtype, value))
    values = st.booleans() if dtype.is_bool else floats(dtype) if dtype.is_float else integers(dtype)
    return values.map(lambda value: const(dtype, value))


@given(st.tuples(*(_constants(dtype) for dtype in [*dtypes.all, dtypes.weakint, dtypes.weakfloat])))
def test_constants_of_every_dtype_round_trip(constants: tuple[UOp, ...]) -> None:
    root = UOp.group(*constants)
    assert parse(to_text(root)) is root


# ---- everything round-trips

body = UOp.param(0, f32, (4, 8)) * const(f32, 2)
tile = [UOp.buffer(i, dtypes.float16, shape) for i, shape in enumerate([(16, 8), (8, 4)])]
accumulator = UOp.buffer(9, f32, (16, 4))
axes = (AxisArg(2, 20, 2), AxisArg(5, 4, 3, step=2, taps=3, gap=1, before=1))
matrices = (MatrixArg(0, 5, 1, axes=axes, channels=4), MatrixArg(0, 1, 4, 20, 2, copied=16))
modes = ((Mode(2, row=1),), (Mode(2, column=1),))
odd_layout = StageArg(Memory.SHARED, Layout((1, 0), 8, 128), 3)
condition = make(ops.IF, (r0 < 2,))

step = UOp.group(UOp.param(0, f32, (4, 8)) * const(f32, 2)).function("step")

OF_FLOATS = (ops.FDIV, ops.NORMAL_DIV, ops.POW, ops.LOGADDEXP)
EXAMPLES = [
    x.bind(5) + n.bind(3),
    UOp.variable("i", -5, 5, i32),
    *(UOp.range(n + 1, 7, kind) for kind in RangeKind),
    UOp.range(const(i32, 5), 0) + 1,
    UOp.range(n.cast(i32), 0),
    UOp.arange(5) + UOp.arange(5, i32).cast(index),
    UOp.arange(n + 1, i32),
    make(ops.SHUFFLE, (UOp.param(0, f32, (4,)), UOp.param(1, f32, (4,))), (7, 0, 0)),
    make(ops.SHUFFLE, (UOp.param(0, f32, (4,)),), (3,)),
    UOp.param(3, dtypes.int8, (n, 2, n), "CUDA:0"),
    *(UOp.buffer(2**70, f32, (3, n), "DISK:/a b", memory) for memory in Memory),
    b0.reshape((2, 16)).expand((2, 16)).permute((1, 0)).pad(((0, 0), (1, 1))).shrink(((1, 3), (0, 2))).flip((0, 1)),
    UOp.arange(5, i32) + UOp.arange(n + 5).cast(i32).shrink(((0, 5),)),
    b0.reduce(ops.ADD, (0, 1)),
    b0.reduce(ops.ADD, ()).flip(()),
    b0.scan(ops.MAX, 1).reduce(ops.MUL, (0,)),
    b0.index(r0, r1).scan(ops.ADD, range=r1),
    b0.scan(ops.ADD, 0, reverse=True) + b0.index(r0, r1).scan(ops.ADD, range=r1, exclusive=True),
    b0.sort(b0, 1, 3, descending=True),
    make(
        ops.SORT, (b0.index(r0, r1), b0.index(r0, r1), r1, r0, UOp.param(1, i32, (9,))), SortArg(3, None, False, 2, 4)
    ),
    b0.index(r0, gate=r0 < 2),
    b0.load(r0, gate=r0 < 2).sqrt() + b0.load(0, width=4, gate=r0 < 3),
    b0.store(b0, gate=r0 < 2),
    b0.store(b0, combine=ops.ADD),
    b0.store(const(f32, 1), r0, r1, gate=r0 < 2, combine=ops.MAX),
    b0.after(b0.store(b0), make(ops.BARRIER)),
    b0.index(r0, r1).stage(r0, r1, arg=odd_layout),
    b0.stage(),
    make(ops.BARRIER, (b0.store(b0),)),
    b0.store(b0, gate=make(ops.EACH, (UOp.range(3, 0),))),
    make(ops.MMA, (*tile, accumulator), MmaArg(16, 4, 8, 'wg"mma')),
    make(ops.MMA, (*tile, accumulator), MmaArg(16, 4, 8)),
    make(ops.BLOCK_MMA, (b0, b0, b0, r0, r1, r1, r0, r0), BlockMmaArg("fma", (3, 4, 5), (2, 2, 2), *matrices, *modes)),
    make(ops.BLOCK_STORE, (b0, r0, r1, r1, r0, b0), BlockStoreArg((3, 4), (2, 2), matrices[0], *modes)),
    make(ops.ACROSS, (const(f32, 1), r0), AcrossArg(ops.ADD, 4)),
    make(ops.LOOP, (step, b0, n), LoopArg("scan", 1, length=None, is_reversed=True)).item(0),
    make(ops.REPEAT, (step, UOp.param(0, f32, (4, 8))), RepeatArg("scan", (MoveArg(0, 0, 0), MoveArg(1, 2)), 1, (1,))),
    make(ops.ACROSS, (const(f32, 1), r0), AcrossArg(None, 32, 2)),
    make(ops.PREFETCH, (b0, r0), PrefetchArg(128)),
    make(ops.PREFETCH, (b0, r0), PrefetchArg(64, ahead=8192)),
    make(ops.STORE, (b0, const(f32, 1.0), r0), StoreArg(streaming=True)),
    make(ops.STORE, (b0, const(f32, 1.0), r0, r0 < 2), StoreArg(gated=True, asynchronous=True)),
    make(ops.LAUNCH, (), LaunchArg(2, approximates=True)),
    make(ops.PREFETCH, (b0, r0, r0 < 2), PrefetchArg(128)),
    make(ops.DOT, (const(i32, 1), const(i32, 2), const(i32, 3)), DotArg(dtypes.int8, dtypes.uint8)),
    make(ops.STAGE_GRADIENT, (make(ops.LEAF, (b0,), LeafArg(7)).formula("tanh", b0),)),
    b0.recompute(b0 * 2),
    make(ops.FORMULA, (UOp.group(b0, b0 * 2), b0), FormulaArg("two")).item(1),
    b0.copy_to("CUDA:0").detach().bitcast(i32).cast(dtypes.fp8e5m2),
    UOp.group(body, body + 1).function("two").call(b0).item(1),
    body.function("a name\n"),
    const(f32, 1).function("constant"),
    UOp.group().function("empty"),
    matmul().function("only a function"),
    make(ops.FUNCTION, (body,), FunctionArg("odd", (ParamArg(0, f32, (None, 8), "CPU"), ParamArg(1, f32)))),
    UOp.linear(),
    UOp.linear(r0, condition, condition.end(), r0.end()),
    UOp.linear(condition.end(), r0, condition),
    matmul(),
    row_sums(),
    *(UOp.stack(b0, b0).alu(op, *[UOp.stack(b0, b0)] * (op.least - 1)) for op in (ops.FMA, *OF_FLOATS)),
    *(b0.alu(op) for op in ops.ELEMENTWISE if op.least == 1 and op is not ops.NOT),
    *(x.alu(op, n) for op in ops.ELEMENTWISE if op.least == 2 and op not in OF_FLOATS),
    (~(x < n)).where(x, n),
    const(i32, 3),
    b0.alu(ops.COMPLEX, b0).alu(ops.REAL) + (b0.alu(ops.COMPLEX, b0) * 2.5j).alu(ops.IMAG),
]


@pytest.mark.parametrize("node", EXAMPLES)
def test_examples_round_trip(node: UOp) -> None:
    assert parse(to_text(node)) is node
    assert parse(to_text(node, types=False)) is node
    assert parse_all(to_text([node, x])) == (node, x)


def test_every_op_is_among_the_examples() -> None:
    found = {inner.op for node in EXAMPLES for inner in node.topological(enter_functions=True)}
    assert found == set(ops.OPS.values())


def test_every_argument_record_and_enum_is_among_the_examples() -> None:
    arguments = [inner.arg for node in EXAMPLES for inner in node.topological(enter_functions=True)]
    arguments += [arg.layout for arg in arguments if isinstance(arg, StageArg)]
    arguments += [move for arg in arguments if isinstance(arg, RepeatArg) for move in arg.moves]
    tiles = [arg for arg in arguments if isinstance(arg, BlockMmaArg)]
    arguments += [part for arg in tiles for part in (arg.a, *arg.a.axes, *arg.threads)]
    assert {type(arg) for arg in arguments} >= set(RECORDS.values())


def test_every_field_of_every_record_can_be_read() -> None:
    types = {field.type for record in RECORDS.values() for field in dataclasses.fields(record)}
    assert types <= set(FIELD_READERS)
    assert set(ENUMS) <= set(FIELD_READERS)


@given(
    index_expressions()
    | bool_expressions()
    | tensor_graphs()
    | int_expressions(dtypes.uint16)
    | float_expressions(dtypes.float64)
    | float_expressions(dtypes.fp8e5m2)
)
def test_random_graphs_round_trip(node: UOp) -> None:
    assert parse(to_text(node)) is node


@given(st.text(max_size=30), st.text(max_size=30))
def test_any_strings_round_trip(first: str, second: str) -> None:
    node = UOp.variable(first, 0, 9) + UOp.variable(second, 0, 8)
    node = node.function(second).call().copy_to(first)
    assert parse(to_text(node)) is node


@given(st.text('%=,(){}"#.:x10 \n-adnif', max_size=40))
def test_any_text_reads_or_raises_a_parse_error(text: str) -> None:
    before = live_nodes()
    with contextlib.suppress(ParseError):
        parse_all(text)
    assert live_nodes() <= before + 40


@pytest.mark.slow
def test_deep_and_large_graphs_round_trip() -> None:
    node = x
    for i in range(200_000):
        node = node + 1 if i % 2 else node * n
    assert parse(to_text(node)) is node


def test_printing_reading_and_comparing_keep_nothing_alive() -> None:
    gc.collect()
    before = live_nodes()
    gc.disable()
    try:
        size = UOp.variable("size", 1, 9)
        moved = UOp.param(0, f32, (3, size)).pad(((0, 1), (size, 0))).shrink(((0, 2), (0, size)))
        called = (moved + 1).function("f").call(UOp.buffer(0, f32, (3, size)))
        assert parse(to_text(called)) is called
        assert diff(called, moved)
        assert excerpt(called)
        del size, moved, called
        assert live_nodes() == before
    finally:
        gc.enable()


def test_text_rebuilds_nodes_that_are_gone() -> None:
    text = to_text(UOp.variable("soon gone", 0, 9) * 3)
    assert to_text(parse(text)) == text


# ---- errors

X = 'x = variable "x", 0..9\n'


@pytest.mark.parametrize(
    ("text", "parts"),
    [
        ("", ("line 1: nothing is defined", "at least one node")),
        ("# only a comment", ("nothing is defined",)),
        (X + "%1 = addd x, 1", ("line 2: there is no op 'addd'. Did you mean \"add\"?",)),
        (X + "%1 = add y, 1", ("line 2: y is not defined", "           ^\n", "defined on a line above")),
        (X + "%1 = add %2, 1\n%2 = add x, 1", ("line 2: %2 is not defined",)),
        (X + "x = add x, 1", ("line 2: x is defined already", "  ^\n", "defined once")),
        (X + "%1 = add x, 1\n%1 = add x, 2", ("line 3: %1 is defined already",)),
        (X + "%1 = add x, 1 2", ("line 2: unexpected '2'", "the end of the line")),
        (X + "%1 = add x 1", ("line 2: unexpected '1'", "             ^\n", "`,` or the end")),
        (X + "%1 = cast x float32", ("line 2: unexpected 'float32'", "`,` or the end")),
        (X + "%1 = range x, id=0 kind=loop", ("line 2: unexpected 'kind'", "`,` or the end")),
        (X + "%1 = range x, id=0,", ("line 2: the line ends", "something after the comma")),
        ("p0 = param 0, float32,", ("line 1: the line ends", "something after the comma")),
        (X + "%1 = add x,", ("line 2: the line ends", "something after the comma")),
        (X + "%1 = add x, 1, axis=3", ("line 2: unexpected 'axis'", "the end of the line")),
        (X + "%1 = add x", ("line 2: add: takes 2 sources, and gets 1", "%1 = add x\n  operand 0", "x + y")),
        (X + "%1 = sqrt x", ("line 2: sqrt: operands must have the same float dtype",)),
        (X + "%1 = add x, @", ("line 2: unexpected '@'", "a name or a constant")),
        (X + "%1 = add x, 1:flot32", ("line 2: dtype: there is no dtype named 'flot32'", "float32")),
        (X + "%1 = add x, 1:float32", ("line 2: unexpected '1:float32'", "a number with a point")),
        (X + "%1 = and x, 1:bool", ("true, false",)),
        (X + "%1 = cast x, flot", ("line 2: dtype: there is no dtype named 'flot'",)),
        (X + "%1 = cast x, 3", ("unexpected '3'", "a dtype")),
        (X + "%1 = cast x", ("the line ends", "a dtype")),
        (X + "%1 = copy x, CPU", ("unexpected 'CPU'", "a string in double quotes")),
        (X + '%1 = copy x, "CPU', ("unexpected '\"'", "a string")),
        (X + '%1 = copy x, "\\q"', ("JSON's escapes",)),
        (X + "true = add x, 1", ("line 2: unexpected 'true'", "a name")),
        (X + "3 = add x, 1", ("line 2: unexpected '3'", "a name")),
        (X + "%1 =", ("line 2: the line ends", "an op")),
        (X + "%1 = 3", ("unexpected '3'", "an op")),
        ("const 300:int8", ("line 1: const: 300 is outside int8", "-128 to 127")),
        ("const nan(0x1):float32", ("0x1 is no NaN of float32",)),
        ("const nan(0x7fc00000):int32", ("a float dtype",)),
        ("const " + "9" * 5000, ("too many digits", "hexadecimal")),
        ("const x", ("unexpected 'x'", "a constant")),
        ("x = variable 0..9", ("unexpected '0'", "a string")),
        ('x = variable "x", 0', ("the line ends", "`..`")),
        ('x = variable "x", 0..1.5', ("unexpected '1.5'", "an integer")),
        ('x = variable "x", 9..0', ("line 1: variable: the bounds [9, 0]",)),
        ("r0 = range 4, kind=loop", ("id is missing", "id=...")),
        ("r0 = range 4, id=0, kind=lop", ("unexpected 'lop'", "one of loop, reduce")),
        ("r0 = range 4, id=0, id=1", ("id is given twice",)),
        ("r0 = range 4, id=0, size=1", ("unexpected 'size'", "one of id, kind")),
        ("p0 = param 0, float32(4", ("the line ends", "`,` or `)`")),
        ("p0 = param 0, float32(4, none)", ("none is not defined",)),
        ("p0 = param 0, float32(-4)", ("line 1: param: a size is -4",)),
        ("p0 = param 0, floot32(4)", ("line 1: dtype: there is no dtype named 'floot32'",)),
        ("p0 = param 0, float32(4)\np0 = param 1, float32(4)", ("line 2: p0 is defined already",)),
        ('f = function "f" {\n  p0 = param 0, int32\n}\n%1 = neg p0', ("line 4: p0 is not defined",)),
        ('f = function "f" {\n  x = const 3\n}\n%1 = neg x', ("line 4: x is not defined",)),
        ("roots 1\np0 = param 0, float32(4)", ("line 2: a line after the roots",)),
        ("p0 = param 0, float32(4)\n%1 = reshape p0", ("shape is missing",)),
        ("p0 = param 0, float32(4)\n%1 = reshape p0, shape=(5,)", ("line 2: reshape: (4,) has 4 elements", "5")),
        ("p0 = param 0, float32(4)\n%1 = reshape shape=(4,)", ("unexpected 'shape'", "an operand")),
        ("p0 = param 0, float32(4)\n%1 = reduce p0, op=ad, axes=(0,)", ("no op 'ad'",)),
        ("p0 = param 0, float32(4)\n%1 = reduce p0, axes=(0,)", ("op is missing",)),
        ("%1 = group\n%2 = item %1", ("member is missing",)),
        ("}", ("line 1: nothing to close", "function")),
        ('f = function "f" {\n%1 = group', ("line 1: the block is never closed", "`}`")),
        ('f = function "f" {\n}', ("line 2: nothing is defined",)),
        ('f = function "f" {\ng = function "g" {', ("line 2: a function inside a function",)),
        ('f = function "f" {\ngroup\n}\nf = function "f" {', ("line 4: f is defined already",)),
        ('f = function "f" {\nconst 3\nroots 3, 4\n}', ("line 4: a body of 2 roots", "group them")),
        (X + 'f = function "f" {\n%1 = add x, 1\n}', ("line 3: x is not defined",)),
        ("roots 1, 2", ("the text has 2 roots", "parse_all")),
        ("roots 1\n%1 = group", ("line 2: a line after the roots",)),
        ("roots 1\n%1 = group 1", ("line 2: a line after the roots",)),
    ],
)
def test_text_that_does_not_read_says_where_and_why(text: str, parts: tuple[str, ...]) -> None:
    before = live_nodes()
    with pytest.raises(ParseError) as raised:
        parse(text)
    message = str(raised.value)
    assert message.startswith("parse: ")
    assert len(message.splitlines()) >= 2
    for part in parts:
        assert part in message
    del raised
    assert live_nodes() <= before + 1


def test_an_error_has_three_parts() -> None:
    with pytest.raises(ParseError) as raised:
        parse(X + "%1 = muls x, 3")
    assert str(raised.value).splitlines() == [
        "parse: line 2: there is no op 'muls'. Did you mean \"mul\"?",
        "  %1 = muls x, 3",
        "       ^",
        "  Expected an op of whit/ir/ops.py.",
    ]


def test_an_error_of_the_builder_is_kept_as_the_cause() -> None:
    with pytest.raises(ParseError) as raised:
        parse("p0 = param 0, float32(4)\n%1 = permute p0, order=(1,)")
    assert isinstance(raised.value.__cause__, ShapeError)


# ---- excerpts and differences


def test_an_excerpt_shows_the_nearest_nodes() -> None:
    node = x
    for i in range(100):
        node = node + i
    lines = excerpt(node, limit=6).splitlines()
    assert lines[0] == "..."
    assert len(lines) <= 7
    assert lines[-1].endswith("99")
    assert excerpt(x + 1) == to_text(x + 1)


def test_an_excerpt_of_a_wide_node_is_short() -> None:
    wide = UOp.group(*(x + i for i in range(1000)))
    assert len(excerpt(wide)) < 1500


def test_equal_graphs_have_no_difference() -> None:
    assert diff(x + 1, x + 1) == ""
    assert diff([x, n], [x, n]) == ""


def test_a_difference_shows_only_what_changed() -> None:
    before = ((x * 8 + 5) % 977) * n
    after = (((x << 3) + 5) % 977) * n
    assert diff(before, after).splitlines() == [
        '  x = variable "x", 0..1000',
        "- %1 = mul x, 8",
        "+ %1 = shl x, 3",
        "  ... 4 more unchanged",
    ]


def test_a_difference_names_new_and_removed_nodes() -> None:
    assert diff((x * 1 + n) * 7, (x + n // 2) * 7).splitlines() == [
        '  x = variable "x", 0..1000',
        "- %1 = mul x, 1",
        '  n = variable "n", 1..64',
        "+ %4 = floordiv n, 2",
        "- %2 = add %1, n",
        "+ %2 = add x, %4",
        "  ... 1 more unchanged",
    ]


def test_a_difference_shows_when_the_root_becomes_something_else() -> None:
    assert diff(x * 1, x).splitlines()[-2:] == ["- roots %1", "+ roots x"]
    assert diff(x * 0, const(index, 0)).splitlines()[-2:] == ["- roots %1", "+ roots 0"]


def test_a_difference_looks_into_functions() -> None:
    p = UOp.param(0, index)
    before, after = (p * 2).function("f").call(x), (p + p).function("f").call(x)
    changed = [line for line in diff(before, after).splitlines() if line[0] in "+-"]
    assert changed == ["- %1 = mul p0, 2", "+ %1 = add p0, p0"]


@given(tensor_graphs(), tensor_graphs())
def test_a_difference_is_empty_only_for_the_same_graph(before: UOp, after: UOp) -> None:
    text = diff(before, after)
    assert (text == "") == (before is after)
    if text:
        assert any(line[0] in "+-" for line in text.splitlines())


@pytest.mark.slow
def test_a_change_at_the_bottom_of_a_deep_chain_is_one_pair_of_lines() -> None:
    before, after = x + 1, x + 2
    for i in range(50_000):
        before, after = before * i, after * i
    assert len([line for line in diff(before, after).splitlines() if line[0] in "+-"]) == 2


@pytest.mark.parametrize("module", [whit.ir.text.write, whit.ir.text.parse, whit.ir.text.diff])
def test_the_examples_in_the_docstrings_are_right(module: object) -> None:
    results = doctest.testmod(module)  # type: ignore[arg-type]
    assert results.attempted > 0
    assert results.failed == 0
