"""What programs with a tile of a matrix product need beside their text: how they are launched, and their two roles.

launch_of(linear, 256)  ->  {"threads": 288, "shared": 196672, "maps": [...]}     by warp groups
"""

from __future__ import annotations

from math import prod
from typing import Any

from whit.ir import ops
from whit.ir.uop import UOp
from whit.render import ptx_tiles, ptx_wgmma

FEW = 64  # sums of a thread with which two blocks have room on a multiprocessor


def block_mma_of(linear: UOp) -> UOp | None:
    """The tile of a program, if it computes one."""
    return next((node for node in linear.src if node.op is ops.BLOCK_MMA), None)


def threads_of(node: UOp) -> int:
    """The threads of a block, those included that the program does not count."""
    threads = prod(digit.count for digit in node.arg.threads)
    return int(threads + (ptx_wgmma.COPYING if node.arg.atom == "wgmma" else 0))


def limits_of(node: UOp) -> str:
    """What the assembler has to know: the threads of a block, how many blocks need registers, the size of clusters."""
    few = prod(digit.count for digit in node.arg.elements) <= FEW
    blocks = ptx_wgmma.blocks_of(node.arg) if node.arg.atom == "wgmma" else 2 if few else 1
    cluster = f"\n.explicitcluster\n.reqnctapercluster {node.arg.cluster}, 1, 1" if node.arg.cluster > 1 else ""
    return f"\n.maxntid {threads_of(node)}\n.minnctapersm {blocks}{cluster}"


def launch_of(linear: UOp, threads: int) -> dict[str, Any]:
    """How a program is launched that counts so many threads."""
    node = block_mma_of(linear)
    if node is None:
        return {"threads": threads, "shared": 0, "maps": []}
    if node.arg.atom == "wgmma":
        shared, maps = ptx_wgmma.shared_bytes(node.arg), ptx_wgmma.tensor_maps(node)
    elif ptx_tiles.is_staged(node):
        shared, maps = 0, []
    else:
        shared, maps = node.arg.stages * ptx_tiles.stage_bytes(node.arg, node.src[1].dtype.itemsize), []
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
    return [
        each
        for each in linear.src
        if each in needed or each in around or (each.op is ops.END and each.src[0] in around)
    ]
