"""Programs written by hand, values at which code goes wrong, and how both renderers' code is run on them."""

import ctypes
import math
import random
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import pytest

from whit.dtype import DType, decode, dtypes, encode, round_float
from whit.errors import DTypeError
from whit.ir import ops
from whit.ir.interpret import numpy_dtype
from whit.ir.op import Op
from whit.ir.uop import UOp, const, make
from whit.render.c.text import render_c
from whit.render.llvm.text import render_llvm
from whit.runtime.code.gcc import compile_c, find_compiler, load_shared
from whit.runtime.code.library import Library
from whit.runtime.code.llvm import compile_llvm, load_object
from whit.target import parse_target

I64 = dtypes.int64
BEFORE = (  # expanded before anything is rendered
    *(ops.EXP, ops.EXP2, ops.LOG, ops.LOG2, ops.SIN, ops.COS, ops.POW, ops.LOGADDEXP),
    *(ops.SIGMOID, ops.TANH, ops.ERF),
)


def index(value: int) -> UOp:
    """A position."""
    return const(I64, value)


def by_llvm(programs: Mapping[str, UOp], target: str = "CPU:LLVM") -> Library:
    chosen = parse_target(target)
    return load_object(compile_llvm(render_llvm(programs, chosen), chosen))


def by_c(programs: Mapping[str, UOp], level: int = 1) -> Library:
    chosen = parse_target("CPU:C")
    return load_shared(compile_c(render_c(programs, chosen), chosen, level))


Compile = Callable[[Mapping[str, UOp]], Library]
RENDERERS = [
    pytest.param(by_llvm, id="llvm"),
    pytest.param(by_c, id="c", marks=pytest.mark.skipif(find_compiler() is None, reason="there is no C compiler")),
]


def call(
    library: Library, name: str, arrays: Sequence[Any], variables: Sequence[int] = (), start: int = 0, stop: int = 1
) -> None:
    """Runs a kernel on NumPy arrays, one for each slot."""
    buffers = (ctypes.c_void_p * max(len(arrays), 1))(*(array.ctypes.data for array in arrays))
    numbers = (ctypes.c_int64 * max(len(variables), 1))(*variables)
    library.kernel(name)(ctypes.addressof(buffers), ctypes.addressof(numbers), start, stop)


# ---- values

_FLOATS = (0.0, 1.0, 0.5, 1.5, 2.5, 3.0, 0.1, 1 / 3, math.pi, 100.0, 1e-3, 65504.0, 65520.0, 2.0**31, 2.0**63, 1e30)


def corners(dtype: DType, generator: random.Random) -> list[Any]:
    """Values where something changes, and some ordinary ones."""
    if dtype.is_bool:
        return [False, True]
    if dtype.is_float:
        codes = [0, 1, 2, (1 << dtype.mantissa_bits) - 1, 1 << dtype.mantissa_bits, encode(dtype, dtype.largest)]
        codes += [generator.randrange(1 << (dtype.bitsize - 1)) for _ in range(12)]
        found = [decode(dtype, code) for code in codes] + [round_float(dtype, value) for value in _FLOATS]
        if dtype.has_inf:
            found.append(math.inf)
        return [*found, math.nan, *(-value for value in found)]
    near = (0, 1, 2, 3, 7, 8, 9, 15, 16, 31, 32, 33, 63, 64, 65, 100)
    found = [*near, *(-value for value in near), dtype.min, dtype.min + 1, dtype.max, dtype.max - 1, dtype.max // 2]
    found += [generator.randint(dtype.min, dtype.max) for _ in range(12)]
    return [value for value in found if dtype.min <= value <= dtype.max]


def array_of(dtype: DType, values: Sequence[Any]) -> Any:
    """Python values as an array, bit by bit."""
    if dtype.is_float:
        return np.array([encode(dtype, value) for value in values], f"u{dtype.itemsize}").view(numpy_dtype(dtype))
    return np.array(values, numpy_dtype(dtype))


def sample_arrays(sources: Sequence[DType], count: int) -> list[Any]:
    """Arrays of `count` operands each, chosen at random among corners."""
    generator = random.Random(str([source.name for source in sources]))
    choices = [array_of(source, corners(source, generator)) for source in sources]
    return [choice[[generator.randrange(len(choice)) for _ in range(count)]] for choice in choices]


def assert_same(dtype: DType, result: Any, expected: Any, what: str, signed_zero: bool = True) -> None:
    """Equal bits; any NaN equals any NaN, and 0.0 equals -0.0 where the sign is not specified."""
    bits = f"u{dtype.itemsize}"
    same = result.view(bits) == expected.view(bits)
    if dtype.is_float:
        with np.errstate(all="ignore"):
            left, right = result.astype(np.float64), expected.astype(np.float64)
        same |= np.isnan(left) & np.isnan(right)
        if not signed_zero:
            same |= (left == 0) & (right == 0)
    bad = np.flatnonzero(~same)
    assert bad.size == 0, f"{what}: place {bad[0]} of {len(bad)} bad ones is {result[bad[0]]}, not {expected[bad[0]]}"


# ---- programs


def operand_dtypes(op: Op, dtype: DType) -> tuple[DType, ...]:
    return (dtypes.bool, dtype, dtype) if op is ops.WHERE else (dtype,) * op.least


def accepts(op: Op, dtype: DType) -> bool:
    try:
        make(op, tuple(const(source, 1) for source in operand_dtypes(op, dtype)))
    except DTypeError:
        return False
    return True


def mapped(function: Callable[..., UOp], sources: Sequence[DType], count: int, width: int) -> UOp:
    """A loop that applies `function` to `width` elements at a time: slot 0 is the result, the others the operands."""
    loop = UOp.range(index(count // width), 0)
    place = loop * width
    inputs = [UOp.param(i + 1, source, (count,)) for i, source in enumerate(sources)]
    loads = [buffer.load(place, width) for buffer in inputs]
    value = function(*loads)
    out = UOp.param(0, value.dtype, (count,))
    listed = [node for node in value.topological() if node.op is not ops.CONST]
    known = {*inputs, loop, place, *loads}
    body = [node for node in listed if node not in known]
    return UOp.linear(out, *inputs, loop, place, *loads, *body, out.store(value, place), loop.end())


def listed(*roots: UOp) -> UOp:
    """A LINEAR of the roots in order, each after what it needs and what is not listed yet."""
    order: dict[UOp, None] = {}
    for root in roots:
        for node in root.topological():
            if node.op is not ops.CONST:
                order.setdefault(node)
    return UOp.linear(*order)
