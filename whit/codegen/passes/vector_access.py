"""Accesses of vectors: neighbours in one go, the rest gathered.

p0[r0*8 + lane]        ->   load 4 of p0 from r0*8 on
p0[r0*8 - lane]        ->   load 4 of p0 from r0*8 - 3 on, turned round
p0[r0*8 + lane//2]     ->   load 2 of p0 from r0*8 on, each twice
p0[r0 + lane*8]        ->   load p0 at r0 + (0, 8, 16, 24)
"""

from __future__ import annotations

from collections.abc import Mapping

from whit.codegen.passes.lanes import all_of
from whit.dtype import dtypes
from whit.ir import ops
from whit.ir.graph import joined
from whit.ir.rules import Rules, function_rule
from whit.ir.uop import UOp, make
from whit.simplify.sums import build_sum, linear_form


def start_of_neighbours(position: UOp, step: int = 1) -> UOp | None:
    """The scalar s if the position is s + (0, 1, 2, ...)*step."""
    terms, offset = linear_form(position)
    lanes, factor = only_vector(terms)
    if lanes is None or factor != step or not is_count(lanes):
        return None
    return scalar_part(terms, offset)


def only_vector(terms: Mapping[UOp, int]) -> tuple[UOp | None, int]:
    """The term of a sum that differs from lane to lane, and its factor; None if there are several, or none."""
    vectors = [base for base in terms if base.shape]
    return (vectors[0], terms[vectors[0]]) if len(vectors) == 1 else (None, 0)


def scalar_part(terms: Mapping[UOp, int], offset: int) -> UOp:
    """What the lanes of a sum have in common."""
    return build_sum({base: c for base, c in terms.items() if not base.shape}, offset, dtypes.weakint)


def reversed_lanes(vector: UOp) -> UOp:
    """The lanes of a vector back to front; a scalar is the same for all of them.

    What is computed of the numbers of lanes is computed of them back to front, so that masks stay arithmetic.
    """
    if not vector.shape:
        return vector
    stacks = stacks_of(vector)
    if stacks:
        return vector.substitute({stack: UOp.stack(*reversed(stack.src)) for stack in stacks})
    return make(ops.SHUFFLE, (vector,), tuple(reversed(range(vector.shape[0]))))


def stacks_of(vector: UOp) -> list[UOp]:
    """The STACKs of which a vector is computed lane by lane; none if of anything else."""
    leaves = [node for node in vector.topological() if node.shape and not node.op.elementwise]
    return leaves if all(leaf.op is ops.STACK for leaf in leaves) else []


def is_count(node: UOp) -> bool:
    """Whether a vector is (0, 1, 2, ...)."""
    return node.op is ops.STACK and all(s.op is ops.CONST and s.arg == i for i, s in enumerate(node.src))


def repeated(param: UOp, position: UOp, gate: list[UOp]) -> UOp | None:
    """The load if the position is s + (0, 1, 2, ...) // n, for all lanes or for the first ones, n at a time."""
    terms, offset = linear_form(position)
    width, (vector, factor) = position.shape[0], only_vector(terms)
    if vector is None or factor != 1 or vector.op is not ops.FLOORDIV:
        return None
    lanes, by = vector.src
    if not is_count(lanes) or not by.is_const or by.arg < 2 or width % by.arg:
        return None
    narrow: list[UOp] = []
    if gate:
        limit = gate[0].src[1] if gate[0].op is ops.LT else gate[0]
        if gate[0].src[:1] != (lanes,) or not limit.is_const or limit.arg % by.arg:
            return None
        narrow = [UOp.stack(*lanes.src[: width // by.arg]) < limit.arg // by.arg]
    few = make(ops.LOAD, (param, scalar_part(terms, offset), *narrow), width // by.arg)
    return make(ops.SHUFFLE, (few,), tuple(lane // by.arg for lane in range(width)))


@function_rule(ops.INDEX)
def index_to_load(node: UOp) -> UOp | None:
    """p0[x] -> load p0, x"""
    param, position, *gate = node.src
    if param.op not in (ops.PARAM, ops.BUFFER, ops.AFTER):
        return None
    if gate and gate[0].shape and not position.shape:  # one element, for some of the lanes
        position = UOp.stack(*([position] * gate[0].shape[0]))
    elif position.shape:
        start = start_of_neighbours(position)
        if start is not None:
            return make(ops.LOAD, (param, start, *gate), position.shape[0])
        last = start_of_neighbours(position, -1)
        if last is not None:
            width = position.shape[0]
            return reversed_lanes(make(ops.LOAD, (param, last - (width - 1), *map(reversed_lanes, gate)), width))
        few = repeated(param, position, gate)
        if few is not None:
            return few
    return make(ops.LOAD, (param, position, *gate), 1)


@function_rule(ops.STORE)
def store_neighbours(node: UOp) -> UOp | None:
    """store p0, v, x + (0, 1, 2, ...) -> store p0, v, x"""
    target, value, position, *gate = node.src
    if not position.shape:
        return None
    if not value.shape:
        value = UOp.stack(*([value] * position.shape[0]))
    start = start_of_neighbours(position)
    clauses = [clause for each in gate for clause in joined(each, ops.AND)]
    others = [clause for clause in clauses if not is_first_lane(clause)]
    if start is not None and len(others) < len(clauses) and not any(clause.shape for clause in others):
        return target.store(value.index(0), start, combine=node.arg.combine, gate=all_of(*others))
    last = start_of_neighbours(position, -1)
    if last is not None:
        start, value, gate = last - (position.shape[0] - 1), reversed_lanes(value), [reversed_lanes(g) for g in gate]
    new = make(ops.STORE, (target, value, position if start is None else start, *gate), node.arg)
    return None if new is node else new


def is_first_lane(gate: UOp) -> bool:
    """Whether a mask has the first lane and no other. LLVM 22 stores too much if the value was narrowed just before."""
    if gate.op is not ops.LT:
        return False
    lane, limit = gate.src
    return is_count(lane) and limit.op is ops.CONST and limit.arg == 1


VECTOR_ACCESS = Rules("vector_access", (index_to_load, store_neighbours))
