"""What all renderers of programs share: what stands in a LINEAR, and putting a rewritten one back in order.

A program is a LINEAR of instructions (stage PROGRAM). Its function has the same parameters whatever it computes:

    void name(void **buffers, const int64_t *variables, int64_t start, int64_t stop)

`buffers[slot]` is the memory of each PARAM, `variables` the values of its VARIABLEs in the order of their names, and
the one outermost range of kind CORE, if there is one, goes from `start` to `stop`.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping

from whit.dtype import dtypes
from whit.errors import InternalError, NotSupportedError
from whit.ir import ops
from whit.ir.args import Memory, RangeKind
from whit.ir.graph import memory_of
from whit.ir.op import Op
from whit.ir.uop import UOp

_SEQUENTIAL = (RangeKind.LOOP, RangeKind.REDUCE, RangeKind.ORDERED, RangeKind.CORE)
GPU_RANGES = (RangeKind.LOOP, RangeKind.REDUCE, RangeKind.ORDERED, RangeKind.BLOCK, RangeKind.THREAD)
_HINTS = (ops.PREFETCH, ops.LAUNCH)
_STAYS = (ops.STORE, ops.LOAD, ops.BARRIER, ops.AFTER, ops.BLOCK_MMA, ops.BLOCK_STORE, ops.ACROSS, *_HINTS)


def program_body(program: UOp) -> UOp:
    """The LINEAR of a program, which may be the body of a FUNCTION."""
    body = program.src[0] if program.op is ops.FUNCTION else program
    if body.op is not ops.LINEAR:
        raise InternalError(f"render: {body.short()} is no list of instructions", fix="Linearise the kernel first.")
    return body


def written_by(linear: UOp) -> list[UOp]:
    """The memory that a program writes."""
    return [memory_of(node.src[0]) for node in linear.src if node.op in (ops.STORE, ops.BLOCK_STORE)]


def variables_of(linear: UOp) -> list[UOp]:
    """The variables of a program in the order in which their values are passed."""
    found = {node for node in linear.topological() if node.op is ops.VARIABLE}
    return sorted(found, key=lambda node: str(node.arg.name))


def params_of(linear: UOp) -> list[UOp]:
    """The params of a program by slot."""
    found = {node for node in linear.topological() if node.op is ops.PARAM}
    return sorted(found, key=lambda node: int(node.arg.slot))


def local_buffers_of(linear: UOp) -> list[UOp]:
    """The buffers that live inside the function, by id; those of one id, in two memories, as they are used."""
    found = [node for node in linear.topological() if node.op is ops.BUFFER]
    for node in found:
        if node.arg.memory is Memory.GLOBAL or len(node.shape) != 1 or not isinstance(node.shape[0], int):
            raise InternalError(f"render: {node.short()} is no flat memory of the function", fix="Make it a PARAM.")
    return sorted(found, key=lambda node: int(node.arg.id))


def is_indexed_by_numbers(linear: UOp, buffer: UOp) -> bool:
    """Whether every access of a buffer says where, so that it can be registers."""
    for node in linear.src:
        if node.op in (ops.LOAD, ops.STORE) and memory_of(node.src[0]) is buffer:
            position = node.src[1] if node.op is ops.LOAD else node.src[2]
            if position.op is not ops.CONST:
                return False
    return True


def unsupported(op: Op, renderer: str, why: str, fix: str) -> NotSupportedError:
    """A renderer has no spelling for an op."""
    return NotSupportedError(f"render {renderer}: {op.name} {why}", fix=fix)


def check_program(linear: UOp, renderer: str, kinds: Collection[RangeKind] = _SEQUENTIAL) -> None:
    """Raises unless the program keeps the conventions above: sized dtypes, ranges of these kinds, flat vectors."""
    depth = 0
    for node in linear.src:
        if node.dtype is dtypes.weakint or node.dtype is dtypes.weakfloat:
            raise InternalError(f"render {renderer}: {node.short()} has no size", fix="Give it a sized dtype first.")
        if len(node.shape) > 1:
            raise InternalError(f"render {renderer}: {node.short()} is no vector", fix="Split it into vectors.")
        if node.op is ops.RANGE:
            kind = node.arg.kind
            if kind not in kinds:
                raise InternalError(f"render {renderer}: {node.short()} is no loop", fix="Expand it first.")
            if kind is RangeKind.CORE and depth:
                raise InternalError(f"render {renderer}: {node.short()} is inside another block")
        if node.op is ops.LOAD or node.op is ops.STORE:
            _check_lanes(node, renderer)
        depth += (node.op is ops.RANGE or node.op is ops.IF) - (node.op is ops.END)


def _check_lanes(node: UOp, renderer: str) -> None:
    """All vectors of a memory access have as many lanes as it has; scalars go with any."""
    _, *parts = node.src
    shape = node.shape if node.op is ops.LOAD else parts[0].shape or parts[1].shape
    for part in parts:
        if part.shape and part.shape != shape:
            what = f"{part.short()} in an access of {shape[0] if shape else 1} lanes"
            raise InternalError(f"render {renderer}: {node.short()} has {what}", fix="Widen its position or value too.")


def relist(linear: UOp, replaced: Mapping[UOp, UOp]) -> UOp:
    """The program with its instructions replaced, and what the replacements are made of listed before them.

    Memory accesses and effects stay in their block. A value goes to the innermost block that makes one of its sources,
    in front of the inner block that uses it first: so all of that block can use it, and loops do not repeat it.
    """
    blocks: list[list[UOp]] = [[]]  # the instructions so far of each open block, its opener first
    depth_of: dict[UOp, int] = {}  # of listed instructions: how many blocks are around it

    for old in linear.src:
        for node in _unlisted(replaced.get(old, old), depth_of):
            if node.op is ops.END:
                block = blocks.pop()
                blocks[-1] += [*block, node]
                depth_of[node] = len(blocks) - 1
            elif node.op is ops.RANGE or node.op is ops.IF:
                blocks.append([node])
                depth_of[node] = len(blocks) - 1
            else:
                innermost = len(blocks) - 1
                depth = innermost if node.op in _STAYS else max((depth_of.get(s, 0) for s in node.src), default=0)
                depth_of[node] = depth
                blocks[depth].append(node)
    return UOp.linear(*blocks[0])


def _unlisted(root: UOp, listed: Mapping[UOp, int]) -> list[UOp]:
    """The instructions below and including root that are not listed yet, sources first."""
    order: dict[UOp, None] = {}
    stack = [root]
    while stack:
        node = stack[-1]
        missing = [s for s in node.src if s.op is not ops.CONST and s not in listed and s not in order]
        if missing:
            stack += reversed(missing)
            continue
        stack.pop()
        if node not in listed:
            order[node] = None
    return list(order)
