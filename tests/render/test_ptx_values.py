"""On a GPU: every elementwise op and cast on every dtype agrees with the interpreter bit for bit."""

import ctypes
from collections.abc import Mapping
from typing import Any

import numpy as np
import pytest

from render.cpu_programs import BEFORE, accepts, assert_same, mapped, operand_dtypes, sample_arrays
from render.test_ptx_packed_f16x2 import FORMS, HALF_PRECISION, expected, operands, program
from whit.dtype import DType, dtypes
from whit.errors import DeviceError
from whit.ir import ops
from whit.ir.interpret import evaluate, numpy_dtype
from whit.ir.op import Op
from whit.ir.uop import UOp, make
from whit.render.ptx.text import render_ptx
from whit.runtime.cuda.gpu import Gpu, Module, open_gpu
from whit.target import parse_target


def _gpu() -> Gpu | None:
    try:
        return open_gpu(0)
    except DeviceError:
        return None


GPU = _gpu()
pytestmark = [pytest.mark.slow, pytest.mark.skipif(GPU is None, reason="there is no NVIDIA GPU")]
COUNT = 48 * 16
OPS = [op for op in ops.ELEMENTWISE if op not in BEFORE and op is not ops.NORMAL_DIV]  # that is not for all values


def compiled(programs: Mapping[str, UOp], arch: str = "sm_80") -> Module:
    assert GPU is not None
    return GPU.load_module(render_ptx(programs, parse_target(f"CUDA:PTX:{arch}")).encode())


def call(module: Module, name: str, arrays: list[Any], blocks: int = 1, threads: int = 1) -> None:
    """Runs a kernel; the first array is what it writes."""
    gpu = module.gpu
    places = [gpu.take(array.nbytes) for array in arrays]
    for place, array in zip(places, arrays, strict=True):
        gpu.transfers.upload(place, array.ctypes.data, array.nbytes)
    values = (ctypes.c_uint64 * len(places))(*places)
    start = ctypes.addressof(values)
    pointers = (ctypes.c_void_p * len(places))(*(start + 8 * i for i in range(len(places))))
    gpu.launch(module.function(name), blocks, threads, pointers, (name, ()))
    gpu.transfers.download(arrays[0].ctypes.data, places[0], arrays[0].nbytes)
    for place in places:
        gpu.give_back(place)


@pytest.mark.parametrize("op", OPS, ids=lambda op: op.name)
def test_elementwise_op_on_a_gpu_means_what_the_interpreter_says(op: Op) -> None:
    cases = [(dtype, width) for dtype in dtypes.scalars if accepts(op, dtype) for width in (1, 4)]
    module = compiled(
        {
            f"{dtype.name}_{width}": mapped(lambda *x: make(op, x), operand_dtypes(op, dtype), COUNT, width)
            for dtype, width in cases
        }
    )
    for dtype, width in cases:
        sources = operand_dtypes(op, dtype)
        given = sample_arrays(sources, COUNT)
        buffers = [UOp.buffer(i, source, (COUNT,)) for i, source in enumerate(sources)]
        node = make(op, tuple(buffers))
        expected = evaluate(node, dict(zip(buffers, given, strict=True)))
        result = np.zeros(COUNT, numpy_dtype(node.dtype))
        call(module, f"{dtype.name}_{width}", [result, *given])
        what = f"{op.name} of {width} {dtype.name}"
        assert_same(node.dtype, result, expected, what, signed_zero=op not in (ops.MAX, ops.MIN))


@pytest.mark.parametrize("source", dtypes.scalars, ids=lambda dtype: dtype.name)
def test_cast_on_a_gpu_means_what_the_interpreter_says(source: DType) -> None:
    module = compiled({to.name: mapped(lambda x, to=to: x.cast(to), [source], COUNT, 4) for to in dtypes.scalars})
    (given,) = sample_arrays([source], COUNT)
    buffer = UOp.buffer(0, source, (COUNT,))
    for to in dtypes.scalars:
        expected = evaluate(buffer.cast(to), {buffer: given})
        result = np.zeros(COUNT, numpy_dtype(to))
        call(module, to.name, [result, given])
        assert_same(to, result, expected, f"cast of {source.name} to {to.name}")


@pytest.mark.parametrize("arch", ("sm_75", "sm_80", "sm_90a"))
@pytest.mark.parametrize("dtype", HALF_PRECISION, ids=lambda dtype: dtype.name)
def test_halves_two_by_two_on_a_gpu_have_the_bits_of_the_interpreter(dtype: DType, arch: str) -> None:
    assert GPU is not None
    if arch == "sm_90a" and GPU.compute != (9, 0):
        pytest.skip("these instructions are of another GPU")
    count, threads = 3 << 17, 256
    given = operands(dtype, count)
    programs = {
        f"f{i}_{width}": program(form, dtype, count, width, threads)
        for i, form in enumerate(FORMS.values())
        for width in (1, 3, 8)
    }
    module = compiled(programs, arch)
    for i, (name, form) in enumerate(FORMS.items()):
        result_dtype, wanted = expected(form, dtype, given)
        for width in (1, 3, 8):
            result = np.zeros(count, numpy_dtype(result_dtype))
            call(module, f"f{i}_{width}", [result, *given], count // width // threads, threads)
            assert_same(result_dtype, result, wanted, f"{name} by {width}", signed_zero=name not in ("max", "min"))
