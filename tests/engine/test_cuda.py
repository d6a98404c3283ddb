"""The device CUDA. Tests with a GPU are skipped where there is none; what it says where there is no driver is not."""

import os

import numpy as np
import pytest
from gpus import GPUS, needs_gpu

from whit import Context, Device, Tensor, TinyJit, clear_caches
from whit.codegen.gpu.gemm import atoms as gpu_atoms
from whit.dtype import DType, dtypes
from whit.errors import BackendError, DeviceError, WhitError
from whit.ir.interpret import numpy_dtype
from whit.runtime.buffer import OutOfMemoryError

rng = np.random.default_rng(0)


@pytest.mark.skipif(bool(GPUS), reason="there is a GPU")
def test_without_a_driver_the_error_says_so() -> None:
    with pytest.raises(DeviceError, match=r"CUDA: (there is no NVIDIA driver|the driver cannot be used)"):
        Device["CUDA"]
    with pytest.raises(DeviceError, match="CUDA"):
        (Tensor([1.0], device="CUDA") + 1).realize()


def test_import_loads_no_driver() -> None:
    import subprocess
    import sys

    program = "import sys, whit; print([m for m in sys.modules if 'whit' in m and 'cuda' in m])"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def on_both(build, *arrays: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The same on CUDA and on the CPU."""
    return tuple(
        build(*(Tensor(array, device=device) for array in arrays)).to("CPU").numpy() for device in ("CUDA", "CPU")
    )


@needs_gpu
@pytest.mark.parametrize("shape", [(), (1,), (0,), (7,), (1000, 3), (1 << 20,), (1 << 20) + 3])
def test_copies_there_and_back(shape: tuple[int, ...] | int) -> None:
    array = rng.standard_normal(shape).astype(np.float32)
    np.testing.assert_array_equal(Tensor(array, device="CUDA").numpy(), array)
    np.testing.assert_array_equal(Tensor(array).to("CUDA").to("CPU").numpy(), array)


@needs_gpu
def test_a_copy_of_more_than_the_pinned_memory() -> None:
    array = rng.integers(0, 255, (40 << 20) + 5).astype(np.uint8)
    np.testing.assert_array_equal(Tensor(array, device="CUDA").numpy(), array)


@needs_gpu
@pytest.mark.parametrize("dtype", dtypes.scalars, ids=lambda dtype: dtype.name)
def test_arithmetic_of_every_dtype(dtype: DType) -> None:
    values = rng.integers(0, 7, (2, 1003)).astype(np.float32)
    a, b = values.astype(numpy_dtype(dtype))
    third = (lambda x, y: x.where(x, y)) if dtype.is_bool else (lambda x, y: x * y)
    for build in (lambda x, y: x.maximum(y), lambda x, y: x.eq(y), third):
        got, expected = on_both(build, a, b)
        np.testing.assert_array_equal(got, expected)


KERNELS = {
    "elementwise": (lambda x, y: (x * 2 + y).exp(), (1000, 37), (1000, 37)),
    "sum": (lambda x: x.sum(), (1000, 37)),
    "rows": (lambda x: x.sum(1), (37, 1000)),
    "columns": (lambda x: x.max(0), (1000, 37)),
    "columns and a minus": (lambda x, y: x.int().maximum(-y.int()).max(0), (9, 37), (9, 37)),  # loses it by CUDA 13.0
    "a maximum with 0 that is compared": (  # by CUDA 13.0 it says whether x <= y
        lambda x, y: (x * 4).int().minimum((y * 4).int()).maximum(0).eq((x * 4).int()),
        (9, 37),
        (9, 37),
    ),
    "bytes that are compared": (lambda x: (x * 300).cast("uint8").eq(255), (9, 37)),
    "softmax": (lambda x: x.softmax(-1), (33, 1025)),
    "layernorm": (lambda x: x.layernorm(), (33, 768)),
    "matmul": (lambda x, y: x @ y, (65, 70), (70, 33)),
    "batched matmul": (lambda x, y: x @ y, (3, 17, 64), (3, 64, 32)),
    "transpose": (lambda x: (x.transpose(0, 1) + 1).contiguous(), (100, 77)),
    "cat": (lambda x, y: x.cat(y), (10, 7), (3, 7)),
    "cumsum": (lambda x: x.cumsum(1), (5, 300)),
    "sort": (lambda x: x.sort(1)[0], (5, 300)),
    "gather": (lambda x: x[Tensor([3, 1, 2, 1], device=x.device)], (5, 300)),
    "pad": (lambda x: x.pad(((1, 2), (3, 4))), (5, 30)),
    "shrink off alignment": (lambda x: x[1:] * 2, (1001,)),
    "conv": (lambda x, y: x.conv2d(y), (2, 3, 12, 12), (4, 3, 3, 3)),
}


@needs_gpu
@pytest.mark.parametrize("name", KERNELS)
def test_kernels_agree_with_the_cpu(name: str) -> None:
    build, *shapes = KERNELS[name]
    arrays = [rng.standard_normal(shape).astype(np.float32) for shape in shapes]  # type: ignore[arg-type]
    got, expected = on_both(build, *arrays)
    np.testing.assert_allclose(got, expected, rtol=2e-5, atol=2e-5)


def _product(a, b):
    return a @ b


PRODUCTS = {  # what is computed, and the shapes of its operands
    "plain": (_product, (256, 128), (128, 512)),
    "long": (_product, (300, 2048), (2048, 264)),
    "odd": (_product, (129, 77), (77, 201)),
    "odd rows": (_product, (1000, 72), (72, 328)),
    "few": (_product, (40, 40), (40, 40)),
    "left turned": (lambda a, b: a.transpose(-1, -2) @ b, (96, 264), (96, 136)),
    "right turned": (lambda a, b: a @ b.transpose(-1, -2), (264, 96), (136, 96)),
    "both turned": (lambda a, b: a.transpose(-1, -2) @ b.transpose(-1, -2), (96, 264), (136, 96)),
    "both turned, odd": (lambda a, b: a.transpose(-1, -2) @ b.transpose(-1, -2), (95, 263), (135, 95)),
    "result turned": (lambda a, b: (a @ b).transpose(-1, -2).contiguous(), (264, 96), (96, 136)),
    "batched": (_product, (3, 130, 64), (3, 64, 72)),
    "batched, odd": (_product, (3, 33, 65), (3, 65, 47)),
    "heads": (lambda a, b: a.permute(0, 2, 1, 3) @ b.permute(0, 2, 3, 1), (2, 40, 4, 64), (2, 48, 4, 64)),
    "a part": (lambda a, b: a[8:136, 16:80] @ b[:, 8:], (200, 100), (64, 200)),
    "a part off alignment": (lambda a, b: a[3:131, 5:69] @ b[:, 1:], (200, 100), (64, 200)),
    "epilogue": (lambda a, b: (a @ b + b[0]).relu() * 2, (200, 96), (96, 264)),
    "prologue": (lambda a, b: (a * 2 + 1) @ b, (200, 96), (96, 264)),
    "prologue, odd": (lambda a, b: (a * 2 + 1) @ (b - 1), (201, 97), (97, 263)),
    "turned prologue": (lambda a, b: (a * 2).transpose(0, 1) @ (b - 1).transpose(0, 1), (96, 264), (136, 96)),
    "convolution": (lambda a, b: a.conv2d(b, padding=1), (2, 16, 14, 14), (40, 16, 3, 3)),
    "convolution of odd sizes": (lambda a, b: a.conv2d(b, stride=2), (3, 5, 17, 19), (33, 5, 3, 3)),
    "two products": (lambda a, b: (a @ b).cat(a.transpose(0, 1) @ b), (64, 64), (64, 64)),
    "epilogue, odd": (lambda a, b: (a @ b + b[0]).relu() * 2, (201, 97), (97, 263)),
}


@needs_gpu
@pytest.mark.parametrize("dtype", (dtypes.float32, dtypes.float16, dtypes.bfloat16), ids=lambda dtype: dtype.name)
@pytest.mark.parametrize("name", PRODUCTS)
def test_products_agree_with_the_cpu(name: str, dtype: DType) -> None:
    build, *shapes = PRODUCTS[name]
    arrays = [rng.integers(-4, 5, shape).astype(numpy_dtype(dtype)) for shape in shapes]
    got, expected = on_both(build, *arrays)
    np.testing.assert_array_equal(got.astype(np.float32), expected.astype(np.float32))  # sums of these are exact


ATOMS = [(name, atom) for name in ("WGMMA", "MMA", "FMA", "ROUNDED") for atom in getattr(gpu_atoms, name)]
ALONG = [  # atoms of operands that lie along the depth, and dtypes of these
    (name, atom, left, right)
    for name, left, right in (
        ("WGMMA_FP8", dtypes.fp8e4m3, dtypes.fp8e4m3),
        ("WGMMA_FP8", dtypes.fp8e5m2, dtypes.fp8e4m3),
        ("WGMMA_INT", dtypes.int8, dtypes.uint8),
        ("BYTES", dtypes.int8, dtypes.int8),
        ("BYTES", dtypes.fp8e4m3, dtypes.fp8e5m2),
    )
    for atom in getattr(gpu_atoms, name)
]


@needs_gpu
@pytest.mark.parametrize(("name", "atom", "left", "right"), ALONG, ids=str)
def test_every_atom_of_operands_along_the_depth(
    name: str, atom: gpu_atoms.Atom, left: DType, right: DType, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(gpu_atoms, name, (atom,))
    clear_caches()
    total = dtypes.float32 if left.is_float else dtypes.int32
    with Context(CACHE=0):
        for m, k, n in ((264, 80, 520), (2049, 208, 1000), (70, 77, 33)):  # rows of the last are not aligned
            a, b = (rng.integers(0, 5, shape) for shape in ((m, k), (n, k)))
            x, y = (Tensor(v.astype(numpy_dtype(d)), device="CUDA") for v, d in ((a, left), (b, right)))
            np.testing.assert_array_equal(x.matmul(y.T, dtype=total).numpy(), a @ b.T)
            np.testing.assert_array_equal(x.matmul(y.T.contiguous(), dtype=total).numpy(), a @ b.T)
    clear_caches()


@needs_gpu
def test_large_products_of_bytes_and_of_computed_operands() -> None:
    """These are stored before, and turned: 2**30 products and more."""
    a, b = (rng.integers(-4, 5, (1024, 1024)).astype(np.float32) for _ in range(2))
    for dtype, total in ((dtypes.fp8e4m3, dtypes.float32), (dtypes.int8, dtypes.int32)):
        x, y = (Tensor(array, device="CUDA").cast(dtype).realize() for array in (a, b))
        np.testing.assert_array_equal(x.T.matmul(y, dtype=total).numpy(), a.T @ b)
    x, y = (Tensor(array, device="CUDA") for array in (a, b))
    with Context(TF32=1):
        np.testing.assert_array_equal((x.T @ y).numpy(), a.T @ b)
        powers = np.float32(2) ** rng.integers(0, 3, (1024, 1024))
        near = Tensor((powers * (1 + 2**-11)).astype(np.float32), device="CUDA")  # ties go away from zero
        np.testing.assert_array_equal((x @ near).numpy(), a @ (powers * (1 + 2**-10)).astype(np.float32))
    x, y = (Tensor(array, device="CUDA").cast(dtypes.bfloat16).realize() for array in (a, b))
    np.testing.assert_array_equal(x.relu().T.matmul(y * 2, dtype=dtypes.float32).numpy(), np.maximum(a, 0).T @ (b * 2))


@needs_gpu
@pytest.mark.parametrize("atom", gpu_atoms.WGMMA[:4], ids=str)
def test_what_becomes_of_sums_before_they_are_stored(atom: gpu_atoms.Atom, monkeypatch: pytest.MonkeyPatch) -> None:
    """Long functions, for which a group lends its registers; other matrices; several results; parts of larger ones."""
    monkeypatch.setattr(gpu_atoms, "WGMMA", (atom,))
    clear_caches()
    a, b, c = (rng.integers(-2, 3, shape).astype(np.float32) for shape in ((1100, 72), (72, 1048), (1100, 1048)))
    x, y, z = (Tensor(array, device="CUDA").cast(dtypes.bfloat16).realize() for array in (a, b, c))
    total = a @ b
    with Context(CACHE=0):
        bent = (x.matmul(y, dtype=dtypes.float32) / 32).tanh().cast(dtypes.bfloat16).cast(dtypes.float32).numpy()
        np.testing.assert_allclose(bent, np.tanh(total / 32), rtol=2**-7, atol=1e-6)
        np.testing.assert_array_equal((x @ y + z).cast(dtypes.float32).numpy(), total + c)
        both = x @ y
        one, other = (both * 2).contiguous(), both.cast(dtypes.float32).contiguous()
        Tensor.realize(one, other)
        np.testing.assert_array_equal(one.cast(dtypes.float32).numpy(), 2 * total)
        np.testing.assert_array_equal(other.numpy(), total)
        larger = Tensor.zeros(1200, 2000, dtype=dtypes.bfloat16, device="CUDA").contiguous().realize()
        larger[50:1150, 48:1096] = x @ y
        expected = np.zeros((1200, 2000), np.float32)
        expected[50:1150, 48:1096] = total
        np.testing.assert_array_equal(larger.cast(dtypes.float32).numpy(), expected)
        z.assign(z + x @ y)
        np.testing.assert_array_equal(z.cast(dtypes.float32).numpy(), total + c)
    clear_caches()


@needs_gpu
def test_sums_of_fp8_are_nearly_float32() -> None:
    """Tensor cores of Hopper add in 14 bits; of numbers of one sign the error is largest."""
    a, b = (np.abs(rng.standard_normal((256, 4096))).astype(numpy_dtype(dtypes.fp8e4m3)) for _ in range(2))
    x, y = (Tensor(array, device="CUDA") for array in (a, b))
    exact = a.astype(np.float64) @ b.astype(np.float64).T
    np.testing.assert_allclose(x.matmul(y.T, dtype=dtypes.float32).numpy(), exact, rtol=1e-3)


@needs_gpu
@pytest.mark.parametrize(("name", "atom"), ATOMS, ids=str)
def test_every_atom_on_odd_and_turned_matrices(
    name: str, atom: gpu_atoms.Atom, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(gpu_atoms, name, (atom,))
    clear_caches()
    with Context(CACHE=0, TF32=name == "ROUNDED"):
        dtype = dtypes.float32 if name in ("FMA", "ROUNDED") else dtypes.bfloat16
        for m, k, n in ((264, 80, 520), (2049, 200, 1000)):  # more tiles than fit at once of some
            for turns in range(4):
                shapes = ((k, m) if turns & 1 else (m, k), (n, k) if turns & 2 else (k, n))
                a, b = (rng.integers(-4, 5, shape).astype(numpy_dtype(dtype)) for shape in shapes)
                x, y = (Tensor(array, device="CUDA") for array in (a, b))
                got = ((x.T if turns & 1 else x) @ (y.T if turns & 2 else y)).cast(dtypes.float32).numpy()
                left, right = (a.T if turns & 1 else a), (b.T if turns & 2 else b)
                expected = (left.astype(np.float32) @ right.astype(np.float32)).astype(numpy_dtype(dtype))
                np.testing.assert_array_equal(got, expected.astype(np.float32))
    clear_caches()


@needs_gpu
@pytest.mark.parametrize("rows", (2, 3, 8, 9, 16, 17, 30, 33, 64))
def test_few_rows_beside_large_matrices(rows: int) -> None:
    """One block for a tile, blocks that share its depth, tiles one after another; matrices of odd sizes."""
    for depth, columns in ((1000, 520), (4096, 1032), (72, 40008)):
        a, b = (rng.integers(-4, 5, shape).astype(np.float32) for shape in ((rows, depth), (depth, columns)))
        x, y = (Tensor(array, device="CUDA").cast(dtypes.bfloat16).realize() for array in (a, b))
        z = y.T.contiguous().realize()
        pairs = [(x @ y, a @ b), (x @ z.T, a @ b), (z @ x.T, (a @ b).T), (x @ y, a @ b)]
        for got, expected in [*pairs, ((x * 2) @ z.T + z[:, 0], 2 * a @ b + b[0])]:
            np.testing.assert_allclose(got.cast(dtypes.float32).numpy(), expected, rtol=2**-7, atol=1)


@needs_gpu
def test_random_graphs_agree_with_the_interpreter() -> None:
    from fuzz.cuda import problem_of, problem_of_program  # here: it opens the device

    assert {seed: problem for seed in range(100) if (problem := problem_of(seed))} == {}
    assert {seed: problem for seed in range(60) if (problem := problem_of_program(seed))} == {}


@needs_gpu
def test_a_function_under_the_jit_is_replayed() -> None:
    step = TinyJit(lambda x: (x * 2).sum())
    for k in range(4):
        assert step(Tensor(np.full(1000, k, np.float32), device="CUDA")).item() == 2000 * k


@needs_gpu
@pytest.mark.parametrize("seed", range(20))
def test_random_functions_under_the_jit(seed: int) -> None:
    from jit.test_random_programs import seen_by  # here: it takes long to import, and most machines have no GPU

    with Context(DEV="CUDA"):
        assert seen_by(seed, TinyJit) == seen_by(seed, lambda function: function)


@needs_gpu
def test_programs_that_people_get_wrong_with_jits() -> None:
    from jit.programs import EQUAL  # here: the same
    from jit.test_programs import assert_same, seen_by

    with Context(DEV="CUDA"):
        for _, program in EQUAL.values():
            assert_same(seen_by(program, TinyJit), seen_by(program, lambda function: function))


@needs_gpu
def test_a_replay_is_one_graph_with_copies_beside_it() -> None:
    from engine.test_cuda_graph import branches, copies  # here: the same

    step, other = TinyJit(branches), TinyJit(copies)
    for _ in range(5):
        a, b = (rng.standard_normal((70, 70)).astype(np.float32) for _ in range(2))
        got = step(Tensor(a, device="CUDA"), Tensor(b, device="CUDA"))
        for one, expected in zip(got, branches(Tensor(a, device="CPU"), Tensor(b, device="CPU")), strict=True):
            np.testing.assert_allclose(one.numpy(), expected.numpy(), rtol=1e-4, atol=1e-4)
        got = other(Tensor(a, device="CPU"), Tensor(b, device="CUDA"))
        for one, expected in zip(got, copies(Tensor(a, device="CPU"), Tensor(b, device="CUDA")), strict=True):
            np.testing.assert_allclose(one.numpy(), expected.numpy(), rtol=1e-4, atol=1e-4)
    assert [len(jit.captured) for jit in (step, other)] == [1, 1]
    assert step.captured[0].program.submission is not None and other.captured[0].program.submission is not None


@needs_gpu
def test_scatter_adds_in_order() -> None:
    index = rng.integers(0, 5, (40, 3)).astype(np.int32)
    got, expected = on_both(
        lambda x, i: Tensor.zeros(5, 3, device=x.device).scatter_reduce(0, i, x, "sum"),
        rng.standard_normal((40, 3)).astype(np.float32),
        index,
    )
    np.testing.assert_array_equal(got, expected)


@needs_gpu
@pytest.mark.parametrize("places", (3, 40_000), ids=("few", "many"))
@pytest.mark.parametrize("reduce", ("sum", "amax"))
def test_scatters_of_many_floats_are_the_same_bits_in_every_run(reduce: str, places: int) -> None:
    values = (rng.standard_normal(100_000) * np.exp(rng.standard_normal(100_000))).astype(np.float32)
    index = rng.integers(0, places, 100_000).astype(np.int32)
    x, i = Tensor(values, device="CUDA").realize(), Tensor(index, device="CUDA").realize()
    got = [Tensor.zeros(places, device="CUDA").scatter_reduce(0, i, x, reduce).numpy() for _ in range(4)]
    wanted = np.zeros(places)
    (np.add if reduce == "sum" else np.maximum).at(wanted, index, values)
    np.testing.assert_allclose(got[0], wanted.astype(np.float32), rtol=1e-6, atol=1e-6)
    assert len({array.tobytes() for array in got}) == 1


@needs_gpu
def test_views_that_are_not_aligned() -> None:
    array = rng.standard_normal(4097).astype(np.float32)
    x = Tensor(array, device="CUDA").realize()
    part = x[1:].realize()
    np.testing.assert_array_equal((part * 2).numpy(), array[1:] * 2)


@needs_gpu
def test_assignment_and_gradients() -> None:
    for device in ("CUDA", "CPU"):
        w = Tensor(np.arange(6, dtype=np.float32).reshape(2, 3), device=device, requires_grad=True)
        (w * w).sum().backward()
        np.testing.assert_array_equal(w.grad.numpy(), 2 * np.arange(6).reshape(2, 3))
        x = Tensor.zeros(4, device=device).contiguous().realize()
        x[1:3] = 5.0
        np.testing.assert_array_equal(x.numpy(), [0, 5, 5, 0])


@needs_gpu
def test_out_of_memory_names_the_largest_buffers() -> None:
    _kept = Tensor.zeros(1 << 22, device="CUDA").contiguous().realize()
    with pytest.raises(OutOfMemoryError, match=r"(?s)out of memory: .* on CUDA.*16,777,216 bytes on CUDA"):
        Tensor.empty(1 << 40, device="CUDA").realize()
    np.testing.assert_array_equal((Tensor([1.0], device="CUDA") + 1).numpy(), [2.0])


@needs_gpu
def test_text_that_the_driver_does_not_take_is_an_error_with_its_log() -> None:
    with pytest.raises(BackendError, match=r"(?s)the driver does not take a kernel.*INVALID_PTX"):
        Device["CUDA"].gpu.load_module(b".version 8.0\n.target sm_80\n.address_size 64\nnonsense\n")  # type: ignore[attr-defined]


@needs_gpu
def test_ops_between_devices_are_refused() -> None:
    with pytest.raises(WhitError, match="CUDA"):
        (Tensor([1.0], device="CUDA").realize() + Tensor([1.0], device="CPU").realize()).realize()


@needs_gpu
@pytest.mark.parametrize("shape", [(2, 4, 256, 64), (1, 2, 200, 128), (1, 1, 70, 96)])
@pytest.mark.parametrize("is_causal", [False, True])
@pytest.mark.parametrize(("dtype", "most"), [(dtypes.bfloat16, 2e-2), (dtypes.fp8e4m3, 0.13)], ids=["bf16", "fp8"])
def test_attention_by_tensor_cores(shape: tuple[int, ...], is_causal: bool, dtype: DType, most: float) -> None:
    """The result and all gradients beside those of the same kernels as written."""
    arrays = [rng.standard_normal(shape).astype(np.float32) for _ in range(4)]
    results = []
    for blocks in (0, 1):
        with Context(FLASH_ATTENTION=blocks):
            q, k, v, g = (Tensor(array, device="CUDA").cast(dtype).realize() for array in arrays)
            out = q.scaled_dot_product_attention(k, v, is_causal=is_causal)
            assert ("tensor cores" in out.explain()) == bool(blocks)
            found = [out, *out.gradient(q, k, v, gradient=g)]
            Tensor.realize(*found)
            results.append([t.cast(dtypes.float32).numpy() for t in found])
    for written, blocked in zip(*results, strict=True):
        assert np.abs(blocked - written).max() <= most * max(np.abs(written).max(), 1)


@needs_gpu
def test_kernels_are_counted_and_timed() -> None:
    from whit import GlobalCounters

    GlobalCounters.reset()
    (Tensor(np.ones(1000, np.float32), device="CUDA") + 1).realize()
    assert GlobalCounters.device("CUDA").kernel_count == 1
    with Context(DEBUG=2):
        (Tensor(np.ones(1000, np.float32), device="CUDA") + 1).realize()


@needs_gpu
def test_a_fork_after_use_fails_clearly() -> None:
    x = (Tensor([1.0], device="CUDA") + 1).realize()
    read, write = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            x.numpy()
            os.write(write, b"no error")
        except DeviceError as error:
            os.write(write, str(error).encode())
        finally:
            os._exit(0)
    os.waitpid(child, 0)
    assert "forked after it had used the GPU" in os.read(read, 1000).decode()
    np.testing.assert_array_equal(x.numpy(), [2.0])
