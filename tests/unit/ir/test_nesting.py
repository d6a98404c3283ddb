"""Ranges belong to owners: how they nest, what they are called, and that no two owners share one."""

import pytest

from whit.dtype import dtypes
from whit.errors import VerifyError
from whit.ir import ops
from whit.ir.args import RangeKind
from whit.ir.check.verify import verify
from whit.ir.nesting import Owner
from whit.ir.op import Stage
from whit.ir.text.parse import parse
from whit.ir.text.write import to_text
from whit.ir.uop import UOp
from whit.kernel.ranges import in_order, next_id

MEMORIES = {"p", "b", "acc", "panel", "local", "shared"}  # what the names of memory in kernels begin with


def test_loops_nest_by_owner_and_then_by_number() -> None:
    inner, outer, core = UOp.range(4, 0, owner=Owner.FILL), UOp.range(4, 7), UOp.range(4, 3, owner=Owner.CORE)
    later = UOp.range(4, 8)
    assert in_order((inner, later, outer, core)) == [core, outer, later, inner]


def test_names_tell_owners_and_memories_apart() -> None:
    stems = [owner.stem for owner in Owner]
    assert len({*stems, *MEMORIES}) == len(stems) + len(MEMORIES)
    assert UOp.range(4, 1).arg.name == "r1"
    assert UOp.range(4, 2, RangeKind.REDUCE, Owner.REDUCE).arg.name == "k2"
    assert UOp.range(4, 3, owner=Owner.TILE).arg.name == "tile3"


@pytest.mark.parametrize("owner", Owner, ids=lambda owner: owner.value)
def test_every_owner_reads_back(owner: Owner) -> None:
    r = UOp.range(4, 12, RangeKind.REDUCE, owner)
    assert parse(to_text(r * 2 + 1)) is r * 2 + 1


def _copied(*ranges: UOp) -> UOp:
    source, target = (UOp.param(slot, dtypes.float32, (64,)) for slot in (0, 1))
    return target.store(source.index(sum(ranges, start=UOp.range(1, 99))), sum(ranges, start=UOp.range(1, 99)))


def test_a_number_may_be_used_by_two_owners_but_not_twice_by_one() -> None:
    verify(_copied(UOp.range(4, 0), UOp.range(8, 0, owner=Owner.TILE)), Stage.KERNEL)
    with pytest.raises(VerifyError, match="has the id of"):
        verify(_copied(UOp.range(4, 0, owner=Owner.TILE), UOp.range(8, 0, owner=Owner.TILE)), Stage.KERNEL)


def test_the_next_number_is_free_for_the_owner() -> None:
    nodes = [UOp.range(4, 5), UOp.range(4, 2, owner=Owner.APART), UOp.range(4, 2).cast(dtypes.int32)]
    assert [next_id(owner, nodes) for owner in (Owner.OUTPUT, Owner.APART, Owner.PART)] == [6, 3, 0]


def test_a_range_of_another_size_is_of_the_same_owner() -> None:
    r = UOp.range(8, 3, RangeKind.REDUCE, Owner.REDUCE)
    assert r.resized(2) is UOp.range(2, 3, RangeKind.REDUCE, Owner.REDUCE)
    assert r.resized(2).op is ops.RANGE
