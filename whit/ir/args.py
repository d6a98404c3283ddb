"""The arguments of ops that need more than one fact: frozen records that print as they are written.

Arguments never contain UOps: whatever a rewrite must see stands in the sources. Where a size is symbolic, the argument
holds `None` in its place and the size is the next source.
"""

from __future__ import annotations

import enum
from typing import Any

from whit.dtype import DType
from whit.ir.nesting import Owner
from whit.ir.op import Op
from whit.records import dataclass, field


class Memory(enum.Enum):
    """Where a staged value is kept."""

    GLOBAL = "global"  # visible to every kernel: a buffer
    SHARED = "shared"  # a GPU block's shared memory; on a CPU a packed panel in the core's cache
    REGISTER = "register"  # private to one thread

    __hash__ = object.__hash__  # 200 ns -> 30 ns, in the key of every BUFFER


class RangeKind(enum.Enum):
    """What runs the iterations of a range."""

    LOOP = "loop"  # one after another
    REDUCE = "reduce"  # one after another, feeding a reduction
    ORDERED = "ordered"  # one after another: two iterations may write one place, and the later one must come later
    UNROLL = "unroll"  # written out
    LANE = "lane"  # the lanes of a vector register
    CORE = "core"  # the cores of a CPU
    BLOCK = "block"  # the thread blocks of a GPU
    WARP = "warp"  # the warps of a block
    THREAD = "thread"  # the threads of a block or warp


HINT = "hint"  # in the metadata of a field


def hint() -> bool:
    """A field that says how something is done and not what: digests leave it out, so the order of operands is the same
    with it."""
    found: bool = field(default=False, metadata={HINT: True})
    return found


@dataclass(frozen=True, slots=True)
class VariableArg:
    """A named integer with its inclusive bounds."""

    name: str
    low: int
    high: int
    dtype: DType


@dataclass(frozen=True, slots=True)
class RangeArg:
    """Which range of its owner this is, and what runs it."""

    id: int
    kind: RangeKind = RangeKind.LOOP
    owner: Owner = Owner.OUTPUT

    @property
    def order(self) -> tuple[int, int]:
        """Where its loop nests: less is further out."""
        return self.owner.place, self.id

    @property
    def name(self) -> str:
        """r0, k1: in texts, and in what the names of variables in kernels begin with."""
        return f"{self.owner.stem}{self.id}"


# Slots of params that stand for something as long as one pass works. Those of functions are counted from 0.
LANES_SLOT = 1_000_000  # values that need as many lanes as they have, while what is around them is simplified
PLACE_SLOT = 1 << 40  # memory, in the targets of stores
LARGEST_SLOT = (1 << 41) - 1  # the largest score of attention so far
LEAF_SLOT = 1 << 41  # the reductions in what attention computes
HELD_SLOT = 1 << 50  # what a thread has in registers


@dataclass(frozen=True, slots=True)
class ParamArg:
    """The parameter in place `slot` of a function or kernel."""

    slot: int
    dtype: DType
    shape: tuple[int | None, ...] = ()
    device: str | None = None


@dataclass(frozen=True, slots=True)
class BufferArg:
    """A piece of memory: `id` tells equal-looking ones apart."""

    id: int
    dtype: DType
    shape: tuple[int | None, ...]
    device: str | None = None
    memory: Memory = Memory.GLOBAL


@dataclass(frozen=True, slots=True)
class ArangeArg:
    """How many integers, and of which dtype."""

    size: int | None
    dtype: DType


@dataclass(frozen=True, slots=True)
class ReduceArg:
    """Combine with `op`: over these axes (tensor stage), or over the ranges in the sources (kernel stage)."""

    op: Op
    axes: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class ScanArg:
    """Running combination with `op` along an axis (tensor stage), or over the range in the sources (kernel stage)."""

    op: Op
    axis: int | None = None
    reverse: bool = False  # position i combines i and all after it
    exclusive: bool = False  # without the element at the position itself: the first is the identity


@dataclass(frozen=True, slots=True)
class SortArg:
    """The order of the keys along an axis (tensor stage), or over the range in the sources (kernel stage)."""

    count: int  # how many of the sorted elements: all, or the first few
    axis: int | None = None
    descending: bool = False
    piece: int = 0  # elements that are sorted by themselves, one piece after another; 0 is all together
    runs: int = 0  # a promise: keys are in order already in runs of this length; 0 promises nothing


@dataclass(frozen=True, slots=True)
class Layout:
    """How a staged value lies in memory."""

    order: tuple[int, ...] = ()  # axes from slowest to fastest; () is as they come
    padding: int = 0  # elements added to the fastest axis
    swizzle: int = 0  # bytes of the XOR swizzle pattern; 0 is none


@dataclass(frozen=True, slots=True)
class StageArg:
    """Where a value is kept, in which layout, how many versions of it are in flight, and which copy of it this is."""

    memory: Memory = Memory.GLOBAL
    layout: Layout = Layout()
    depth: int = 1
    copy: int = 0  # tells copies of one value apart, each in memory of its own


@dataclass(frozen=True, slots=True)
class StoreArg:
    """Plain write, or `old combine value`. A gated store has the condition as its last source."""

    combine: Op | None = None
    gated: bool = False
    streaming: bool = hint()  # past the caches (non-temporal), if memory begins with a line when it runs
    asynchronous: bool = hint()  # a copy that goes on while others run (cp.async), until the next barrier


@dataclass(frozen=True, slots=True)
class MmaArg:
    """A matrix instruction: the shape of its tile, and the name of the target's atom that does it."""

    m: int
    n: int
    k: int
    atom: str = ""


@dataclass(frozen=True, slots=True)
class Mode:
    """A mode of a layout, as CuTe calls it: a digit of a number of threads or elements, which has so many values, and
    how far each of them moves in a tile."""

    count: int
    row: int = 0
    column: int = 0


@dataclass(frozen=True, slots=True)
class AxisArg:
    """An axis of an image along which windows lie: tap j of window i is at i*step + j*gap - before. Outside there are
    zeros."""

    size: int  # of the image
    stride: int  # elements from one to the next
    count: int  # windows
    step: int = 1
    taps: int = 1
    gap: int = 1
    before: int = 0


@dataclass(frozen=True, slots=True)
class MatrixArg:
    """How a matrix lies in memory: elements before the first, and from one row, depth and batch to the next.

    With axes it is a matrix of the windows of images: one side of it counts all windows, the other, whose stride is 1,
    the channels of all taps, those of one tap side by side. The first axis is that of images; so is a batch.
    """

    start: int
    row: int
    depth: int
    batch: int = 0
    batches: int = 1
    copied: int = 1  # bytes that may be copied together
    lines: int = 0  # of how many lines of 128 bytes a tile in shared memory is, each swizzled; 0: it is as it says
    axes: tuple[AxisArg, ...] = ()  # of images, the innermost last
    channels: int = 0

    @property
    def is_depth_major(self) -> bool:
        """Whether neighbours in memory are neighbours along the depth."""
        return self.depth == 1

    def swizzled(self, row: int, k: int, itemsize: int) -> int:
        """Where an element of swizzled lines is: groups of 16 bytes change places, by the number of the line."""
        line, along = (row, k) if self.is_depth_major else (k, row)
        length, size = 128 // itemsize, 16 // itemsize
        group = along % length // size ^ line % 8
        return along // length * self.lines * length + line * length + group * size + along % size


@dataclass(frozen=True, slots=True)
class BlockMmaArg:
    """A product of matrices by tiles: which atom does it, and which elements of a tile each thread of a block has."""

    atom: str
    sizes: tuple[int, ...]  # rows of a, rows of b (columns of the product), depth
    tile: tuple[int, ...]
    a: MatrixArg
    b: MatrixArg
    threads: tuple[Mode, ...]  # how far a thread's first element is from the tile's; the last mode is the lowest
    elements: tuple[Mode, ...]  # how far its others are from that
    stages: int = 1  # pieces of the depth that are in flight
    accumulate: bool = False  # onto what the registers hold
    cluster: int = 1  # neighbouring blocks whose tiles are below each other, and which share what they read of b
    a_in_registers: tuple[Mode, ...] = ()  # the elements of a that a thread has there; none: a is in memory
    in_flight: int = 0  # products that may go on while other instructions run, this one included: a barrier ends them
    split_k: int = 1  # neighbouring blocks that share the depth of a tile, of which the first has the sums at the end
    donates_registers: bool = False  # whether a whole group copies, and gives its registers to those that compute

    def place(self, thread: int, element: int) -> tuple[int, int]:
        """The row and column of one element in the tile."""
        (row, column), (down, right) = place_of(thread, self.threads), place_of(element, self.elements)
        return row + down, column + right


@dataclass(frozen=True, slots=True)
class BlockStoreArg:
    """A part of a tile that goes to memory: boxes, as many as there are groups of 128 threads, and which elements of
    them each thread has, as in `BlockMmaArg`. The columns of a box are 128 bytes."""

    sizes: tuple[int, ...]  # rows and columns of the result: nothing is stored beyond
    box: tuple[int, ...]
    matrix: MatrixArg  # the result in memory; its depth are the columns
    threads: tuple[Mode, ...]
    elements: tuple[Mode, ...]

    def place(self, thread: int, element: int) -> tuple[int, int]:
        """The row and column of one element, from the first of the part on."""
        (row, column), (down, right) = place_of(thread, self.threads), place_of(element, self.elements)
        return row + down, column + right


def place_of(number: int, modes: tuple[Mode, ...]) -> tuple[int, int]:
    """How far a number moves in a tile."""
    row = column = 0
    for mode in reversed(modes):
        number, value = divmod(number, mode.count)
        row, column = row + value * mode.row, column + value * mode.column
    return row, column


@dataclass(frozen=True, slots=True)
class AcrossArg:
    """Combine with `op` what `threads` neighbouring threads have; without an op, what the thread has that is `before`
    threads earlier, or the thread itself where there is none."""

    op: Op | None
    threads: int
    before: int = 0


@dataclass(frozen=True, slots=True)
class PrefetchArg:
    """How much will be read, and how many bytes after the position it begins."""

    nbytes: int
    ahead: int = 0


@dataclass(frozen=True, slots=True)
class LaunchArg:
    """For how many blocks a multiprocessor must have registers at once (0: as many as it happens to), and how exact
    functions have to be."""

    blocks: int = 0
    approximates: bool = False  # reciprocals may be an ulp off
    flushes: bool = False  # powers of two may be 0 below the smallest normal number


@dataclass(frozen=True, slots=True)
class DotArg:
    """What the words of each operand are made of: four int8 or uint8, or two bfloat16."""

    left: DType
    right: DType


@dataclass(frozen=True, slots=True)
class FunctionArg:
    """A function's name and the parameters that its body uses, by slot."""

    name: str
    params: tuple[ParamArg, ...] = ()


@dataclass(frozen=True, slots=True)
class LoopArg:
    """How functions follow one another. The sources of a LOOP are functions, then operands, then a symbolic length.

    "scan": one function, of carries and parts of inputs to carries and parts of outputs, for each part in turn
    "while": a body of carries, and a test of them, as long as that is true
    "cond": two functions of the same operands, of which a bool, the first operand, takes one
    """

    kind: str
    carries: int = 0  # operands that are states: what a step returns first is what the next step gets
    inputs: int = 0  # operands after them of which each step gets a part, along the first axis
    length: int | None = 0  # steps of a scan; None: the last source says it
    is_reversed: bool = False  # the last part comes first

    @property
    def functions(self) -> int:
        """How many of the sources are functions."""
        return 1 if self.kind == "scan" else 2


@dataclass(frozen=True, slots=True)
class MoveArg:
    """Where a param of the steps of a REPEAT lies: which operand of the REPEAT that is, in which step.

    Steps are counted from the end, so that the last one is even; where that is not known from the start. In the first
    step a state is another operand. What moves along is the part of the step, or of the step before.
    """

    even: int
    odd: int
    first: int = -1  # in the first step; -1: as in the others
    is_part: bool = False
    is_before: bool = False


@dataclass(frozen=True, slots=True)
class RepeatArg:
    """A LOOP in a schedule: schedules instead of functions, memory instead of values."""

    kind: str
    moves: tuple[MoveArg, ...]  # of the params of its schedules, by slot
    written: int  # the first operands are written to
    finals: tuple[int, ...] = ()  # in the end, into the first operands goes what these params would be next
    decides: int = -1  # which operand is the bool
    length: int | None = 0  # None: the last source says it
    is_reversed: bool = False


@dataclass(frozen=True, slots=True)
class LeafArg:
    """Which leaf this is."""

    id: int


@dataclass(frozen=True, slots=True, weakref_slot=True)
class FormulaArg:
    """The function that a value is."""

    name: str


RECORDS: dict[str, Any] = {
    cls.__name__: cls
    for cls in (
        VariableArg,
        RangeArg,
        ParamArg,
        BufferArg,
        ArangeArg,
        ReduceArg,
        ScanArg,
        SortArg,
        Layout,
        StageArg,
        StoreArg,
        MmaArg,
        Mode,
        AxisArg,
        MatrixArg,
        BlockMmaArg,
        BlockStoreArg,
        AcrossArg,
        PrefetchArg,
        LaunchArg,
        DotArg,
        FunctionArg,
        LoopArg,
        MoveArg,
        RepeatArg,
        LeafArg,
        FormulaArg,
    )
}
ENUMS: dict[str, type[enum.Enum]] = {cls.__name__: cls for cls in (Memory, RangeKind, Owner)}
