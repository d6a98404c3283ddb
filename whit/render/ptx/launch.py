"""What programs with a tile of a matrix product need beside their text: how they are launched, and their two roles.

launch_of(linear, 256)  ->  {"threads": 288, "shared": 196672, "maps": [...]}     by warp groups
"""

from __future__ import annotations

from math import prod
from typing import Any

from whit.errors import NotSupportedError
from whit.ir import ops
from whit.ir.args import LaunchArg, Memory, RangeKind
from whit.ir.graph import memory_of
from whit.ir.uop import UOp
from whit.kernel.alignment import ALIGNMENT_BYTES
from whit.render.program import local_buffers_of
from whit.render.ptx.gemm import mma_tiles, tma_loads, tma_stores
from whit.render.ptx.values import lane_count
from whit.target import GPU_LIMITS

COUNTED = (RangeKind.BLOCK, RangeKind.THREAD)  # ranges without a loop
WARPS_THREADS = GPU_LIMITS.warp_group_threads
MOST_UNASKED = GPU_LIMITS.shared_bytes  # of shared memory: above it, a launch has to ask for it


def block_mma_of(linear: UOp) -> UOp | None:
    """The tile of a program, if it computes one."""
    return next((node for node in linear.src if node.op is ops.BLOCK_MMA), None)


def is_by_roles(node: UOp) -> bool:
    """Whether a warp of a block only copies, and others compute: operands are in memory, and warp groups multiply."""
    return node.arg.atom == "wgmma" and not node.arg.accumulate


def launch_hints(linear: UOp) -> LaunchArg:
    """What the program says of its launch."""
    return next((node.arg for node in linear.src if node.op is ops.LAUNCH), LaunchArg())


def has_groups(linear: UOp) -> bool:
    """Whether a warp group multiplies what the program has put into shared memory."""
    return any(node.op is ops.BLOCK_MMA and node.arg.atom == "wgmma" and node.arg.accumulate for node in linear.src)


def reciprocal_of(linear: UOp) -> str:
    """The instruction for reciprocals of float32. The exact one is a call, around which wgmma would have to wait."""
    if has_groups(linear):
        return "rcp.approx.ftz.f32"
    return "rcp.approx.f32" if launch_hints(linear).approximates else "rcp.rn.f32"


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
    most = GPU_LIMITS.most_shared_bytes
    if used > most:
        raise NotSupportedError(
            f"render PTX: {used} bytes of shared memory, and a block has {most}", fix="Use smaller tiles."
        )
    return used


def copies_of(linear: UOp) -> dict[UOp, UOp]:
    """STORE -> LOAD of asynchronous copies (cp.async): the next barrier waits for them."""
    return {node: node.src[1] for node in linear.src if node.op is ops.STORE and node.arg.asynchronous}


def threads_of(node: UOp) -> int:
    """The threads of a block, those included that the program does not count."""
    threads = prod(mode.count for mode in node.arg.threads)
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
    if node is None:  # registers are given to four warps together, and copies need no others
        count = -(-threads // WARPS_THREADS) * WARPS_THREADS if copies_of(linear) else threads
    else:
        count = threads_of(node)
    blocks = launch_hints(linear).blocks
    cluster_blocks = 1 if node is None else node.arg.cluster * node.arg.split_k
    limits = f"\n.maxntid {count}" if count else ""
    limits += f"\n.minnctapersm {blocks}" if blocks else ""
    return limits + (f"\n.explicitcluster\n.reqnctapercluster {cluster_blocks}, 1, 1" if cluster_blocks > 1 else "")


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
