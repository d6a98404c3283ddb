"""Nodes and their memory: lifetimes, data in and out."""

import math
import subprocess
import sys

import ml_dtypes
import numpy as np
import pytest

from whit.dtype import DType, dtypes
from whit.engine.memory.storage import attach, computed, from_bytes, nbytes_of, new_buffer, remember, storage, to_bytes
from whit.engine.memory.values import from_numpy, item, to_list, to_numpy
from whit.errors import DTypeError, InternalError, ShapeError
from whit.ir.uop import UOp
from whit.runtime.buffer import Buffer, usage


def test_memory_dies_with_the_last_graph_that_refers_to_it() -> None:
    before = usage("CPU:3").now
    node = new_buffer(dtypes.float32, (10, 10), "CPU:3")
    graph = node + 1
    del node
    assert usage("CPU:3").now - before == 400
    del graph
    assert usage("CPU:3").now == before


def test_what_was_computed_is_remembered_while_its_expression_lives() -> None:
    a = new_buffer(dtypes.float32, (4,), "CPU:3")
    result = new_buffer(dtypes.float32, (4,), "CPU:3")
    expression = a + 1
    remember(expression, result)
    del result
    assert computed(a + 1) is not None
    assert usage("CPU:3").now == 32
    del expression
    assert computed(a + 1) is None
    assert usage("CPU:3").now == 16


def test_two_buffers_are_never_one_node() -> None:
    assert new_buffer(dtypes.int8, (1,), "CPU") is not new_buffer(dtypes.int8, (1,), "CPU")


def test_a_buffer_without_memory_is_an_internal_error() -> None:
    with pytest.raises(InternalError, match="has no memory"):
        storage(UOp.buffer(10**9, dtypes.int8, (1,), "CPU"))
    with pytest.raises(DTypeError, match="weakint has no size in memory"):
        new_buffer(dtypes.weakint, (1,), "CPU")


def test_symbolic_sizes_have_room_for_their_largest_value() -> None:
    n = UOp.variable("n", 1, 100)
    assert nbytes_of(dtypes.float32, (n, 3)) == 1200
    node = new_buffer(dtypes.int16, (n.bind(4) * 2,), "CPU")
    assert storage(node).nbytes == 400
    storage(node).memory()[:16] = np.arange(8, dtype=np.int16).tobytes()
    assert to_list(node) == list(range(8))
    assert to_numpy(node).shape == (8,)


@pytest.mark.parametrize("dtype", dtypes.all, ids=lambda dtype: dtype.name)
def test_every_dtype_goes_through_numpy_and_back(dtype: DType) -> None:
    from whit.ir.interpret import numpy_dtype

    array = np.arange(6).reshape(2, 3).astype(numpy_dtype(dtype))
    node = from_numpy(array)
    assert node.dtype is dtype and node.shape == (2, 3)
    result = to_numpy(node)
    assert result.dtype == array.dtype
    assert result.tobytes() == array.tobytes()
    assert to_list(node) == array.astype(np.complex128 if dtype.is_complex else np.float64).tolist()


@pytest.mark.cpu
def test_numpy_memory_is_used_as_it_is_where_possible() -> None:
    array = np.arange(12, dtype=np.float32).reshape(3, 4)
    assert storage(from_numpy(array)).address == array.ctypes.data
    assert storage(from_numpy(array[1:])).address == array[1:].ctypes.data
    assert to_numpy(from_numpy(array.T)).tolist() == array.T.tolist()
    assert to_numpy(from_numpy(array.astype(">f4"))).tolist() == array.tolist()
    assert to_numpy(from_numpy(np.zeros((0, 3), np.int8))).shape == (0, 3)
    assert to_numpy(from_numpy(np.float32(3.5).reshape(()))).shape == ()  # type: ignore[arg-type]


@pytest.mark.cpu
def test_numpy_results_are_copies_unless_asked() -> None:
    node = from_bytes(b"abcd", dtypes.uint8, (4,))
    copied = to_numpy(node)
    copied[0] = 0
    shared = to_numpy(node, copy=False)
    assert not shared.flags.writeable
    assert storage(node).is_shared
    assert shared.tobytes() == b"abcd" == to_bytes(node)
    del shared
    assert not storage(node).is_shared


def test_arrays_of_unknown_dtype_are_refused() -> None:
    with pytest.raises(DTypeError, match="there is no dtype for arrays of"):
        from_numpy(np.zeros(3, np.clongdouble))


@pytest.mark.parametrize(
    ("dtype", "data", "value"),
    [
        (dtypes.float32, np.float32(1.5).tobytes(), 1.5),
        (dtypes.bool, b"\1", True),
        (dtypes.int64, (-5).to_bytes(8, "little", signed=True), -5),
        (dtypes.bfloat16, np.array(2.5, ml_dtypes.bfloat16).tobytes(), 2.5),
        (dtypes.float16, np.float16(-math.inf).tobytes(), -math.inf),
        (dtypes.fp8e4m3, np.array(1.25, ml_dtypes.float8_e4m3fn).tobytes(), 1.25),
    ],
    ids=str,
)
def test_one_element_is_a_python_scalar(dtype: DType, data: bytes, value: object) -> None:
    found = item(from_bytes(data, dtype, (1, 1)))
    assert found == value and type(found) is type(value)


def test_item_of_many_elements_is_an_error() -> None:
    with pytest.raises(ShapeError, match=r"item: a tensor of shape \(2, 3\) is not one number"):
        item(new_buffer(dtypes.int8, (2, 3), "CPU"))
    with pytest.raises(DTypeError, match=r"from_bytes: 3 bytes for int16\(2,\), which has 4"):
        from_bytes(b"abc", dtypes.int16, (2,))


def test_lists_have_the_shape() -> None:
    node = from_bytes(bytes(range(24)), dtypes.uint8, (2, 3, 4))
    assert to_list(node) == np.arange(24).reshape(2, 3, 4).tolist()
    assert to_list(attach(Buffer("CPU", 0), dtypes.uint8, (2, 0))) == [[], []]


def test_scalars_need_no_numpy() -> None:
    program = (
        "import sys; from whit.engine.memory.storage import from_bytes\n"
        "from whit.engine.memory.values import item, to_list\n"
        "from whit.dtype import dtypes; import whit.engine.realize.realize\n"
        "print(item(from_bytes(b'a', dtypes.uint8, ())), 'numpy' in sys.modules)"
    )
    found = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True).stdout
    assert found == "97 False\n"
