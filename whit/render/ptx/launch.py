"""What programs with a tile of a matrix product need beside their text: how they are launched, and their two roles.

launch_of(linear, 256)  ->  {"threads": 288, "shared": 196672, "maps": [...]}     by warp groups
"""

from __future__ import annotations

from math import prod
from typing import Any

from whit.dtype import dtypes
from whit.errors import NotSupportedError
from whit.ir import ops
from whit.ir.args import Memory, RangeKind
from whit.ir.graph import memory_of
from whit.ir.uop import UOp
from whit.render.program import local_buffers_of, written_by
from whit.render.ptx.access import ALIGNMENT_BYTES, alignment_of
from whit.render.ptx.gemm import mma_tiles, tma_loads, tma_stores
from whit.render.ptx.values import lane_count
from whit.target import GPU_LIMITS

COUNTED = (RangeKind.BLOCK, RangeKind.THREAD)  # ranges without a loop
FEW_SUMS = 64  # accumulators of a thread with which two blocks fit on a multiprocessor

# Threads of a multiprocessor for which the assembler must find registers (.minnctapersm). The fewer, the more loads
# each has in flight; the more, the more warps hide each other's latency.
FEW_THREADS = 256  # of programs that exchange values between threads
COPIED_THREADS, HELD_THREADS = 896, 512  # with asynchronous copies; and where a thread loads more than FEW_HELD floats
FEW_HELD = 40
MANY_THREADS = 1024  # of scans, where a thread gets at most FEW_SCANNED bytes from others; half of them above that
FEW_SCANNED = 192
FEW_HALVES = 32  # that a thread reads, up to which rows have MANY_THREADS as well: log softmax of 16384 x 8192 takes
# 0.131 instead of 0.140 ms, with 64 registers instead of 72

MOST_UNASKED = GPU_LIMITS.shared_bytes  # of shared memory: above it, a launch has to ask for it


def block_mma_of(linear: UOp) -> UOp | None:
    """The tile of a program, if it computes one."""
    return next((node for node in linear.src if node.op is ops.BLOCK_MMA), None)


def is_by_roles(node: UOp) -> bool:
    """Whether a warp of a block only copies, and others compute: operands are in memory, and warp groups multiply."""
    return node.arg.atom == "wgmma" and not node.arg.adds


def has_attention(linear: UOp) -> bool:
    """Whether products go on with others that are still in registers, as in attention."""
    return any(node.op is ops.BLOCK_MMA and node.arg.held for node in linear.src)


def has_groups(linear: UOp) -> bool:
    """Whether a warp group multiplies what the program has put into shared memory."""
    return any(node.op is ops.BLOCK_MMA and node.arg.atom == "wgmma" and node.arg.adds for node in linear.src)


def reciprocal_of(linear: UOp) -> str:
    """The instruction for reciprocals of float32. The exact one is a call, around which wgmma would have to wait.
    Beside matrix instructions the approximate one does, an ulp off, if all results are rounded to 16 bits."""
    if has_groups(linear):
        return "rcp.approx.ftz.f32"
    stored = [memory.dtype for memory in written_by(linear) if memory.op is ops.PARAM]
    is_half_precision = all(dtype.is_float and dtype.bitsize <= 16 for dtype in stored)
    return "rcp.approx.f32" if block_mma_of(linear) is not None and is_half_precision else "rcp.rn.f32"


def alignment_of_rooms(linear: UOp) -> int:
    """Where buffers begin: at a multiple of 16 bytes, or of eight swizzled lines."""
    return 8 * tma_loads.SWIZZLE_BYTES if has_groups(linear) else ALIGNMENT_BYTES


def barrier_of(linear: UOp, node: UOp, has_copies: bool) -> list[str]:
    """All threads wait, at first for their own copies; matrix instructions see what was stored. Or each waits for its
    own products."""
    if any(source.op is ops.AFTER and memory_of(source).arg.memory is Memory.REGISTER for source in node.src):
        return ["wgmma.wait_group.sync.aligned 0;"]
    waits = ["cp.async.wait_all;"] if has_copies else []
    fences = ["fence.proxy.async.shared::cta;"] if has_groups(linear) else []
    return [*waits, *fences, "bar.sync 0;"]


def shared_bytes(linear: UOp) -> int:
    """The bytes of the program's own buffers in shared memory, which must be there."""
    buffers = [node for node in local_buffers_of(linear) if node.arg.memory is Memory.SHARED]
    used = sum(int(node.shape[0]) * node.dtype.itemsize for node in buffers)
    most = (
        GPU_LIMITS.most_shared_bytes
        if used > MOST_UNASKED and (has_attention(linear) or copies_of(linear))
        else MOST_UNASKED
    )
    if used > most:
        raise NotSupportedError(
            f"render PTX: {used} bytes of shared memory, and a block has {most}", fix="Use smaller tiles."
        )
    return used


def copies_of(linear: UOp) -> dict[UOp, UOp]:
    """STORE -> LOAD of 16 bytes that go from global to shared memory as they are, by an asynchronous copy (cp.async):
    the next barrier waits for it. In chains of products, and of packed weights."""
    is_attention = has_attention(linear)
    users: dict[UOp, list[UOp]] = {}
    for node in linear.src:
        for source in node.src:
            users.setdefault(source, []).append(node)
    found: dict[UOp, UOp] = {}
    for load in linear.src:
        if not _is_load_of_param(load) or not (is_attention or load.dtype is dtypes.uint8):
            continue
        if any(gate.shape for gate in load.src[2:]):
            continue
        store, *others = users.get(load, [load])
        is_store = store.op is ops.STORE and not others and store.src[3:] == load.src[2:]
        memory = memory_of(store.src[0]) if is_store else load
        if memory.op is ops.BUFFER and memory.arg.memory is Memory.SHARED and _is_whole(load, store):
            found[store] = load
    return found


def _is_load_of_param(node: UOp) -> bool:
    return node.op is ops.LOAD and memory_of(node.src[0]).op is ops.PARAM


def _is_whole(load: UOp, store: UOp) -> bool:
    """Whether both are 16 bytes at multiples of 16."""
    itemsize = load.dtype.itemsize
    width = lane_count(load)
    places = (load.src[1], store.src[2])
    if width * itemsize != 16 or any(place.shape for place in places):
        return False
    return all(alignment_of(place, {}) * itemsize % 16 == 0 for place in places)


def _held(linear: UOp) -> int:
    """Floats that a thread loads of memory."""
    loads = [node for node in linear.src if _is_load_of_param(node)]
    return sum(lane_count(load) for load in loads if load.dtype.is_float)


def threads_of(node: UOp) -> int:
    """The threads of a block, those included that the program does not count."""
    threads = prod(digit.count for digit in node.arg.threads)
    return int(threads + (tma_loads.copying_threads(node.arg) if is_by_roles(node) else 0))


def before_waiting(linear: UOp) -> dict[UOp, None]:
    """What may run while earlier kernels still do: it says what will be read, whatever that will be then."""
    loops = {node for node in linear.src if node.op is ops.RANGE and node.arg.kind not in COUNTED}
    asked = [node for node in linear.src if node.op is ops.PREFETCH and loops.isdisjoint(node.topological())]
    needed = set(UOp.group(*asked).topological())
    return dict.fromkeys(node for node in linear.src if node in needed)


def limits_of(linear: UOp, threads: int) -> str:
    """What the assembler has to know of a program that counts `threads` threads: the threads of a block, how many
    blocks need registers, the size of clusters."""
    node = block_mma_of(linear)
    if node is None:
        return _limits_without_tile(linear, threads)
    count = threads_of(node)
    if has_attention(linear):
        products = {memory_of(each.src[0]) for each in linear.src if each.op is ops.BLOCK_MMA}
        sums = sum(int(memory.shape[0]) for memory in products)
        return f"\n.maxntid {count}\n.minnctapersm {2 if count <= 128 or sums <= FEW_SUMS else 1}"
    few = prod(digit.count for digit in node.arg.elements) <= FEW_SUMS
    blocks = tma_loads.blocks_of(node.arg) if node.arg.atom == "wgmma" else 2 if few else 1
    cluster_blocks = node.arg.cluster * node.arg.parts
    cluster = f"\n.explicitcluster\n.reqnctapercluster {cluster_blocks}, 1, 1" if cluster_blocks > 1 else ""
    return f"\n.maxntid {count}\n.minnctapersm {blocks}{cluster}"


def _limits_without_tile(linear: UOp, threads: int) -> str:
    """The same of a program without matrix instructions. Only one whose threads exchange values asks for registers."""
    most = -(-threads // 128) * 128 if copies_of(linear) else threads  # registers are given to four warps together
    limits = f"\n.maxntid {most}" if threads else ""
    exchanges = [node for node in linear.src if node.op is ops.ACROSS]
    if not exchanges:
        return limits
    return f"{limits}\n.minnctapersm {max(_threads_with_registers(linear, exchanges) // threads, 1)}"


def _threads_with_registers(linear: UOp, exchanges: list[UOp]) -> int:
    """How many threads of a multiprocessor must have registers at once."""
    if copies_of(linear):
        return COPIED_THREADS if _held(linear) <= FEW_HELD else HELD_THREADS
    scanned = sum(node.dtype.itemsize for node in exchanges if node.arg.op is None)
    if scanned:
        return MANY_THREADS if scanned <= FEW_SCANNED else MANY_THREADS // 2
    return MANY_THREADS if _reads_few_halves(linear) else FEW_THREADS


def _reads_few_halves(linear: UOp) -> bool:
    """Whether vectors of halves are all that is read, and no more of them than registers of many threads hold."""
    rows = [node for node in linear.src if _is_load_of_param(node) and lane_count(node) > 1]
    few = sum(lane_count(node) for node in rows) <= FEW_HALVES
    return bool(rows) and few and all(node.dtype.itemsize <= 2 for node in rows)


def is_used_whole(linear: UOp, buffer: UOp) -> bool:
    """Whether registers of halves are only read and written all at once: there are two in each then."""
    width = int(buffer.shape[0])
    if not buffer.dtype.is_float or buffer.dtype.itemsize != 2 or width % 2:
        return False
    if any(node.op is ops.BLOCK_MMA and buffer in map(memory_of, node.src) for node in linear.src):
        return False
    accesses = [node for node in linear.src if node.op in (ops.LOAD, ops.STORE) and memory_of(node.src[0]) is buffer]
    return all(_moves_all(access, width) for access in accesses)


def _moves_all(access: UOp, width: int) -> bool:
    """Whether a LOAD or STORE moves `width` lanes, always, and combines nothing."""
    if access.op is ops.LOAD:
        return len(access.src) == 2 and lane_count(access) == width
    return len(access.src) == 3 and access.arg.combine is None and lane_count(access.src[1]) == width


def launch_of(linear: UOp, threads: int) -> dict[str, Any]:
    """How a program is launched that counts `threads` threads."""
    node = block_mma_of(linear)
    if node is None:
        asked = shared_bytes(linear)
        return {"threads": threads, "shared": asked if asked > MOST_UNASKED else 0, "maps": []}
    if is_by_roles(node):
        shared = tma_loads.stages_bytes(node.arg) + tma_stores.staged_bytes(linear, node.arg)
        results = [tma_stores.result_map(*result) for result in tma_stores.results_of(linear)]
        maps = [*tma_loads.tensor_maps(node), *results]
    elif mma_tiles.is_staged(node):
        asked = shared_bytes(linear)
        shared, maps = asked if asked > MOST_UNASKED else 0, []
    else:
        shared, maps = node.arg.stages * mma_tiles.stage_bytes(node.arg, node.src[1].dtype.itemsize), []
    return {"threads": threads_of(node), "shared": shared, "maps": maps}


def before_the_tile(linear: UOp, node: UOp) -> list[UOp]:
    """The instructions that say where a tile is, the loops around it, and the tile."""
    needed = {*UOp.group(*node.src[4:]).topological(), node}
    around: list[UOp] = []
    for each in linear.src[: linear.src.index(node)]:
        if each.op is ops.RANGE or each.op is ops.IF:
            around.append(each)
        elif each.op is ops.END:
            around.pop()
    needed |= {*around, *(block.end() for block in around)}
    return [each for each in linear.src if each in needed]
