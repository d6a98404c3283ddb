"""What is computed once of captured tensors, and what is not worth its memory."""

from whit.dtype import dtypes
from whit.engine.memory.placeholder import new_placeholder
from whit.engine.programs.prune import prune
from whit.ir import ops
from whit.ir.uop import UOp

F32 = dtypes.float32


def given(dtype: object, *shape: int) -> UOp:
    return new_placeholder(dtype, shape, "CPU")  # type: ignore[arg-type]


def taken(value: UOp, *fixed: UOp) -> list[UOp]:
    return [node for _, node in prune([value], set(fixed))[1]]


def test_what_is_repeated_is_taken_before_it_is() -> None:
    x, w = given(F32, 4, 8), given(F32, 8)
    scale = w.sqrt()
    assert taken(x * scale.reshape((1, 8)).expand((4, 8)), w) == [scale]


def test_weights_that_are_unpacked_stay_as_they_are() -> None:
    x, w = given(F32, 4, 8), given(dtypes.int8, 4, 8)
    assert taken(x * w.cast(F32), w) == []


def test_what_unpacked_weights_are_made_of_is_taken() -> None:
    x, w = given(F32, 4, 8), given(dtypes.int8, 8)
    negative = -w
    assert taken(x * negative.cast(F32).reshape((1, 8)).expand((4, 8)), w) == [negative]


def test_what_is_to_be_kept_is_taken_whatever_it_takes() -> None:
    x, w = given(F32, 4, 8), given(dtypes.int8, 4, 8)
    kept = w.cast(F32).stage()
    assert taken(x * kept, w) == [kept]
    assert kept.op is ops.STAGE
