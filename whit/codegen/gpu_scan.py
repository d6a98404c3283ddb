"""Scans shared between the threads of a block.

    scan add over k < n of x[k]      ->      k = piece*512 + thread*8 + lane: each thread scans 8 neighbours in
    64 threads, one row                      registers, and keeps their sum in shared memory; all threads wait;
                                             each 16 threads keep the sum of theirs; all threads wait;
                                             what came before: in pieces, in groups of 16, in threads of the group

    scan add over k of x[k, c]       ->      k = piece*128 + thread // 32 * 8 + lane, c = block*32 + thread % 32;
    512 threads, 32 columns                  what came before: in pieces, in the 16 threads of the column

Values past the end of a row come last, so what they hold reaches nobody. Shared memory has two halves, one for every
other piece: who writes a half again has waited for those who read it. The order is always the same, so sums are too.
"""

from __future__ import annotations

from collections.abc import Mapping

from whit.codegen.gpu_reduce import GROUP, Team
from whit.codegen.lanes import lane_numbers
from whit.ir import ops
from whit.ir.args import Memory, StageArg
from whit.ir.graph import topological
from whit.ir.op import Op
from whit.ir.uop import UOp, as_index, const, make

PIECE_ID = 10_000  # of the loop along a row
LANES, LANES_OF_COLUMNS = 8, 8  # neighbours that a thread scans by itself
THREADS, MOST_THREADS, FEWEST = 64, 512, 32  # of a block: of many, of few, and for short rows
MOST_SCANS = 8  # of a kernel


def threads_of_a_scan(size: int, columns: int, is_alone: bool) -> tuple[int, int]:
    """The threads of a block, and the elements of each, for so many elements of each of its columns."""
    if columns > 1:
        return GROUP * columns, LANES_OF_COLUMNS
    lanes = LANES if size % LANES == 0 and size >= LANES * FEWEST else LANES // 2
    threads = MOST_THREADS if is_alone else THREADS
    while threads > FEWEST and threads * lanes >= 2 * size:
        threads //= 2
    return threads, lanes


def share_scans(body: UOp, along: UOp, team: Team, lanes: int, digits: Mapping[UOp, UOp], inside: UOp | None) -> UOp:
    """The kernel with the scanned range shared between threads, the other ranges as digits; accesses are `inside`."""
    size, step = as_index(along.size), team.parts * lanes
    pieces = (size + (step - 1)) // step if size.op is not ops.CONST else as_index(-(-size.arg // step))
    is_one = pieces.op is ops.CONST and pieces.arg == 1
    piece = as_index(0) if is_one else UOp.range(pieces, PIECE_ID, along.arg.kind)
    first = piece * step + team.part * lanes
    gates = {(): inside, (lanes,): _inside(first, size, step, lanes, inside)}
    done: dict[UOp, UOp] = {**digits, along: first + lane_numbers(lanes)}
    count = 0
    for node in topological((body,)):
        if node in done:
            continue
        src = tuple([done[s] for s in node.src])
        if node.op is ops.SCAN:
            done[node] = _scanned(_as_wide(done[node.src[0]], lanes), node, team, piece, count)
            count += 2
        elif node.op is ops.STORE or (node.op is ops.INDEX and src[0].op is ops.PARAM):
            done[node] = _gated(node, src, gates[src[2 if node.op is ops.STORE else 1].shape])
        else:
            done[node] = node if src == node.src else make(node.op, src, node.arg)
    return done[body]


def _inside(first: UOp, size: UOp, step: int, lanes: int, inside: UOp | None) -> UOp | None:
    """Where the lanes of a thread are elements: one condition if they are all or none."""
    within: UOp | None = None
    if size.op is not ops.CONST or size.arg % lanes:
        within = lane_numbers(lanes) < (size - first)
    elif size.arg % step:
        within = _as_wide(first < size, lanes)
    if inside is None or within is None:
        return within if inside is None else _as_wide(inside, lanes)
    return within & inside


def _gated(node: UOp, src: tuple[UOp, ...], gate: UOp | None) -> UOp:
    """An access under one more condition."""
    if gate is None:
        return make(node.op, src, node.arg)
    if node.op is ops.INDEX:
        memory, position, *given = src
        return memory.index(position, gate=gate & given[0] if given else gate)
    memory, value, position, *given = src
    return memory.store(value, position, combine=node.arg.combine, gate=gate & given[0] if given else gate)


def _as_wide(value: UOp, lanes: int) -> UOp:
    return value if value.shape else UOp.stack(*([value] * lanes))


def _scanned(vector: UOp, node: UOp, team: Team, piece: UOp, id: int) -> UOp:
    """The scan of what a thread has, after what came before."""
    op, lanes = node.arg.op, vector.shape[0]
    sums = [vector.index(0)]
    for lane in range(1, lanes):
        sums.append(make(op, (sums[-1], vector.index(lane))))
    before, every = _shared(sums[-1], op, team, piece, id)
    if piece.op is ops.RANGE:
        before = make(op, (every.scan(op, range=piece, exclusive=True), before))
    else:
        before = make(op, (const(node.dtype, op.identity(node.dtype)), before))
    if node.arg.exclusive:
        return UOp.stack(before, *(make(op, (before, part)) for part in sums[:-1]))
    return make(op, (before, UOp.stack(*sums)))


def _shared(value: UOp, op: Op, team: Team, piece: UOp, id: int) -> tuple[UOp, UOp]:
    """What the threads before this one have, and what all have."""
    half = piece % 2
    if team.columns > 1:
        every = _kept(value, team.threads, half, team.thread, id, None)
        return _combined(every, op, half * team.threads + team.column, team.columns, team.parts, team.part)
    thread, groups = team.thread, team.threads // GROUP
    near = _kept(value, team.threads, half, thread, id, None)
    start = half * team.threads + thread // GROUP * GROUP
    in_group, group = _combined(near, op, start, 1, GROUP, thread % GROUP)
    far = _kept(group, groups, half, thread // GROUP, id + 1, (thread % GROUP).eq(0))
    in_groups, everything = _combined(far, op, half * groups, 1, groups, thread // GROUP)
    return make(op, (in_groups, in_group)), everything


def _kept(value: UOp, count: int, half: UOp, place: UOp, id: int, gate: UOp | None) -> UOp:
    """Shared memory that holds so many values, twice."""
    halves = 1 if half.op is ops.CONST or half.src[0].op is ops.CONST else 2
    memory = UOp.buffer(id, value.dtype, (halves * count,), memory=Memory.SHARED)
    fill = memory.store(value, half * count + place, gate=gate)
    return memory.after(make(ops.STAGE, (UOp.group(fill),), StageArg(Memory.SHARED)))


def _combined(memory: UOp, op: Op, start: UOp, step: int, count: int, mine: UOp) -> tuple[UOp, UOp]:
    """The combination of the values before mine, and of all."""
    numbers = lane_numbers(count)
    values = memory.index(start + numbers * step)
    identity = const(values.dtype, op.identity(values.dtype))  # type: ignore[misc]
    before = (numbers < mine).where(values, identity)
    return before.reduce(op, axes=(0,)), values.reduce(op, axes=(0,))
