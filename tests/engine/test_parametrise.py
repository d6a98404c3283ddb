"""Equal computations have the identical parametrised graph, and so share schedules and kernels."""

import math

import pytest

from whit.dtype import DType, dtypes
from whit.engine.memory.storage import new_buffer, remember
from whit.engine.realize.parametrise import Parametrised, below, parametrise
from whit.ir import ops
from whit.ir.text.write import to_text
from whit.ir.uop import UOp


def normal(*roots: UOp) -> Parametrised:
    return parametrise(roots, below(roots)[0])


def buffer(shape: tuple[int, ...] = (4,), dtype: DType = dtypes.float32) -> UOp:
    return new_buffer(dtype, shape, "PYTHON")


def test_buffers_become_params_in_order_of_appearance() -> None:
    a, b = buffer(), buffer()
    found = normal(b + a * b)
    assert to_text(found.graph, types=False).splitlines() == [
        "p0 = param 0, float32(4,)",
        "p1 = param 1, float32(4,)",
        "p2 = param 2, float32(4,)",
        "%1 = mul p2, p1",
        "%2 = add p1, %1",
        "%3 = store p0, %2",
        "group %3",
    ]
    assert found.slots == (b, a)
    assert found.outputs == 1


def test_the_same_computation_on_other_buffers_is_the_same_graph() -> None:
    a, b, c, d = (buffer() for _ in range(4))
    assert normal(a * b + a).graph is normal(c * d + c).graph
    assert normal(a * b + a).graph is not normal(a * b + b).graph
    assert normal(a * a).graph is not normal(a * b).graph
    assert normal(a + 1).graph is not normal(buffer((5,)) + 1).graph


@pytest.mark.parametrize(("first", "second"), [(0.1, 0.2), (3.0, -7.5), (1e-8, 1e30)])
def test_a_different_constant_is_the_same_graph(first: float, second: float) -> None:
    a = buffer()
    one, other = normal(a * first), normal(a * second)
    assert one.graph is other.graph
    assert [node.arg for node in one.slots[1:]] == [UOp.const(dtypes.float32, first).arg]


@pytest.mark.parametrize("value", [0.0, -0.0, 1.0, -1.0, 2.0, 0.5, math.inf, -math.inf, math.nan])
def test_common_constants_stay(value: float) -> None:
    assert len(normal(buffer() * value).slots) == 1


def test_integer_constants_are_passed_except_where_they_make_better_code() -> None:
    a = buffer(dtype=dtypes.int32)
    assert normal(a + 5).graph is normal(a + 6).graph
    assert normal(a // 5).graph is not normal(a // 6).graph
    assert normal(a % 5).graph is not normal(a % 6).graph
    assert normal(a.cdiv(5)).graph is not normal(a.cdiv(6)).graph
    assert normal(a << 5).graph is not normal(a << 6).graph
    assert normal(a < 5).graph is not normal(a < 6).graph
    x = buffer()
    assert normal(x**3.5).graph is not normal(x**4.5).graph
    assert normal(x / 3.0).graph is normal(x / 5.0).graph
    assert normal(x / 4.0).graph is not normal(x / 8.0).graph


def test_what_is_subtracted_from_packed_weights_stays_on_a_gpu() -> None:
    for device, count in (("CPU", 2), ("NULL:PTX:sm_90a", 1)):
        packed = new_buffer(dtypes.uint8, (8,), device) & 15
        assert len(normal(packed.cast(dtypes.float32) - 8).slots) == count
        assert len(normal(packed.cast(dtypes.float32) * 8).slots) == 2


def test_equal_constants_share_a_slot() -> None:
    a = buffer()
    assert len(normal((a * 0.3) + (a + 0.3)).slots) == 2
    assert len(normal((a * 0.3) + (a + 0.4)).slots) == 3


def test_a_constant_that_is_spread_is_passed_too() -> None:
    def full(value: float) -> UOp:
        return UOp.const(dtypes.float32, value).reshape((1,)).expand((9,))

    a = buffer((9,))
    assert normal(a + full(0.3)).graph is normal(a + full(0.4)).graph
    assert normal(a + full(0.0)).graph is not normal(a + full(0.3)).graph
    assert normal(full(0.3)).graph is normal(full(0.0)).graph  # stored as it is: nothing to fold


def test_index_arithmetic_keeps_its_constants() -> None:
    places = UOp.const(dtypes.int32, 3).reshape((1,)).expand((4,)).scan(ops.ADD, 0) + 5
    assert normal(buffer((20,)).index(places)).slots[1:] == ()
    x = UOp.variable("n", 1, 10)
    assert normal(buffer((23,)).shrink(((x * 2, 3),))).slots[1:] == ()


def test_what_was_computed_is_read_from_its_buffer() -> None:
    a, b, kept = buffer(), buffer(), buffer()
    expression = a * b
    expected = normal(kept + 1).graph
    remember(expression, kept)
    found = normal(expression + 1)
    assert found.slots == (kept,)
    assert found.graph is expected


def test_bound_variables_lose_their_value() -> None:
    n = UOp.variable("n", 1, 8)
    a = buffer((8,))
    three, five = normal(a.shrink(((0, n.bind(3)),))), normal(a.shrink(((0, n.bind(5)),)))
    assert three.graph is five.graph
    assert three.variables == (("n", 3),)
    assert five.variables == (("n", 5),)


def test_further_values_of_a_variable_have_names_of_their_own() -> None:
    n, a = UOp.variable("n", 1, 8), buffer((8,))
    both = normal(a.shrink(((0, n.bind(3)),)), a.shrink(((0, n.bind(5)),)))
    assert both.variables == (("n", 3), ("n (2)", 5))
    assert both.again == {"n"}
    assert both.graph is normal(a.shrink(((0, n.bind(8)),)), a.shrink(((0, n.bind(1)),))).graph


def test_a_value_that_is_met_again_keeps_its_name() -> None:
    """First in the shape of a buffer, then in a window."""
    n = UOp.variable("n", 1, 8)
    value = buffer((8,)).shrink(((0, n.bind(3)),)) * 2
    remember(value, new_buffer(dtypes.float32, (n.bind(3),), "PYTHON"))
    found = normal(value.shrink(((0, n.bind(3) - 1),)) + buffer((8,)).shrink(((1, n.bind(3) - 1),)))
    assert found.variables == (("n", 3),)
    assert not found.again


def test_windows_narrow_the_bounds_of_variables() -> None:
    n, a = UOp.variable("n", 0, 8), buffer((8,))
    found = normal(a.shrink(((n.bind(3), 2),)))
    assert 'variable "n", 0..6' in to_text(found.graph)
    assert [str(one.room.expression()) for one in found.assumptions] == ["6 - n=3"]
    assert found.graph is normal(a.shrink(((n.bind(6), 2),))).graph
    assert 'variable "n", 0..8' in to_text(normal(a.shrink(((0, n.bind(3)),))).graph)


def test_a_buffer_of_symbolic_shape_becomes_such_a_param() -> None:
    n = UOp.variable("n", 1, 8)
    found = normal(new_buffer(dtypes.float32, (n.bind(3),), "PYTHON") + 1)
    assert "param 1, float32(n,)" in to_text(found.graph)
    assert found.variables == (("n", 3),)


def test_detach_and_whole_assignments_are_values() -> None:
    a, b = buffer(), buffer()
    assert normal((a * b).detach() + 1).graph is normal(a * b + 1).graph
    assigned = a.after(a.store(a + b))
    assert normal(assigned).graph is normal(a + b).graph
    again = assigned.after(assigned.store(assigned * 2))
    assert normal(again).graph is normal((a + b) * 2).graph


@pytest.mark.slow
def test_a_long_chain_needs_no_deep_stack() -> None:
    x = buffer()
    for _ in range(20_000):
        x = x.sin()
    assert len(normal(x).graph.topological()) == 20_004


def test_several_roots_share_what_they_have_in_common() -> None:
    a = buffer()
    found = normal(a + 1, (a + 1) * 2)
    assert found.outputs == 2
    assert [store.op for store in found.graph.src] == [ops.STORE, ops.STORE]
    assert found.slots == (a,)
