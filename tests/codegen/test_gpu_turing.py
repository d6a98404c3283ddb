"""Products on sm_75, which has no `cp.async`, and smaller matrix instructions: the text, run without a GPU."""

from typing import Any

import numpy as np
import pytest
from render.ptx_machine import run_ptx
from schedule.build import param

from codegen.test_gpu_matmul import body_of, of_bytes, product, turned
from codegen.test_kernel_programs import arrays_of
from whit.codegen import generate
from whit.dtype import dtypes
from whit.ir import ops
from whit.ir.interpret import run
from whit.ir.uop import UOp
from whit.render import render
from whit.render.ptx.launch import launch_of
from whit.target import parse_target

pytestmark = pytest.mark.slow

TARGET = parse_target("CUDA:PTX:sm_75")
F16, BF16, F32, I8, U8 = dtypes.float16, dtypes.bfloat16, dtypes.float32, dtypes.int8, dtypes.uint8


PARTS = (  # that end inside of what is copied at once
    param(0, 40, 72, dtype=F16).shrink(((3, 35), (8, 45))),
    param(1, 45, 24, dtype=F16).shrink(((0, 45), (0, 21))),
)
PRODUCTS: dict[str, tuple[UOp, str]] = {  # value, atom
    "float16": (product(param(0, 64, 80, dtype=F16), param(1, 80, 72, dtype=F16)), "mma"),
    "float16, turned": (product(turned(param(0, 48, 64, dtype=F16)), turned(param(1, 72, 48, dtype=F16))), "mma"),
    "float16, odd": (product(param(0, 35, 67, dtype=F16), param(1, 67, 21, dtype=F16)), "mma"),
    "float16, batched": (product(param(0, 2, 64, 72, dtype=F16), param(1, 2, 72, 64, dtype=F16)), "mma"),
    "parts of lines": (product(PARTS[0], PARTS[1]), "mma"),
    "on the way": (product(param(0, 35, 67, dtype=F16) + 1.0, param(1, 67, 21, dtype=F16)), "mma"),
    "fp8": (of_bytes(dtypes.fp8e4m3, dtypes.fp8e5m2, 33, 35, 40), "mma"),
    "int8": (of_bytes(I8, I8, 64, 32, 144), "bytes"),
    "int8 by uint8, odd": (of_bytes(I8, U8, 33, 19, 69), "bytes"),
    "int8, across the depth": (product(param(0, 64, 80, dtype=I8), param(1, 80, 32, dtype=I8)), "bytes"),
    "float32": (product(param(0, 64, 48), param(1, 48, 64)), "fma"),
    "float32, odd": (product(param(0, 35, 37), param(1, 37, 21)), "fma"),
    "bfloat16": (product(param(0, 64, 48, dtype=BF16), param(1, 48, 64, dtype=BF16)), "fma"),
    "bfloat16, odd": (product(param(0, 35, 37, dtype=BF16), param(1, 37, 21, dtype=BF16)), "fma"),
}  # fmt: skip


@pytest.mark.parametrize("name", PRODUCTS)
def test_products(name: str) -> None:
    """On small integers, whose sums are exact."""
    value, atom = PRODUCTS[name]
    body = body_of(value)
    program = generate(body, TARGET)
    assert [node.arg.atom for node in program.linear.src if node.op is ops.BLOCK_MMA] == [atom]
    rng = np.random.default_rng(0)
    low = 0 if any(node.dtype is U8 for node in program.linear.src) else -4
    arrays: dict[UOp, Any] = {
        node: rng.integers(low, 5, array.shape).astype(array.dtype) for node, array in arrays_of(body, rng).items()
    }
    memory = {node.arg.slot: array.reshape(-1).copy() for node, array in arrays.items()}
    launch = launch_of(program.linear, program.threads)
    given = {f"p{slot}": memory[slot] for slot in sorted(memory)}
    run_ptx(render({"product": program.linear}, TARGET), program.total, launch["threads"], given, launch["shared"])
    run(body, arrays)
    for node, expected in arrays.items():
        np.testing.assert_array_equal(memory[node.arg.slot].reshape(expected.shape), expected)
