"""Complex numbers against NumPy: what they are made of, arithmetic, functions, reductions, writes, wrong calls."""

from __future__ import annotations

import operator
import pickle
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from whit import Tensor, dtypes, nn
from whit.dtype import DType, part_dtype
from whit.errors import DTypeError, NotSupportedError
from whit.ir import ops
from whit.ir.interpret import evaluate
from whit.ir.uop import UOp
from whit.schedule import schedule

pytestmark = pytest.mark.slow

DTYPES = pytest.mark.parametrize("dtype", dtypes.complexes, ids=lambda dtype: dtype.name)
DEVICES = ("CPU", "PYTHON")
TOLERANCE = {dtypes.complex64: 2e-5, dtypes.complex128: 1e-12}


def numbers(shape: tuple[int, ...], dtype: DType = dtypes.complex64, seed: int = 0) -> Any:
    random = np.random.default_rng(seed)
    return (random.standard_normal(shape) + 1j * random.standard_normal(shape)).astype(dtype.name)


def same(found: Tensor, expected: Any, tolerance: float = 2e-5) -> None:
    array, wanted = found.numpy(), np.asarray(expected)
    assert array.dtype == wanted.dtype and array.shape == wanted.shape
    np.testing.assert_allclose(array, wanted, rtol=tolerance, atol=tolerance)


BINARY: list[Callable[[Any, Any], Any]] = [operator.add, operator.sub, operator.mul, operator.truediv, operator.pow]


@DTYPES
@pytest.mark.parametrize("device", DEVICES)
def test_arithmetic_is_that_of_numpy(dtype: DType, device: str) -> None:
    x, y = numbers((3, 4), dtype), numbers((3, 4), dtype, 1)
    a, b = Tensor(x, device), Tensor(y, device)
    for op in BINARY:
        same(op(a, b), op(x, y), TOLERANCE[dtype])
    same(-a, -x)
    same(a.reciprocal(), 1 / x, TOLERANCE[dtype])
    same(a == b, x == y)
    same(a != Tensor(x, device), x != x)
    same(abs(a), abs(x), TOLERANCE[dtype])


@pytest.mark.parametrize("shape", [(), (0, 3), (1,), (2, 1, 3)])
def test_shapes_of_all_kinds(shape: tuple[int, ...]) -> None:
    x = numbers(shape)
    same(Tensor(x) * 2j + 1, x * np.complex64(2j) + np.complex64(1))
    same(Tensor(x).sum(), x.sum())
    assert Tensor(x).tolist() == x.tolist()


def test_dtypes_meet_as_in_the_array_standard() -> None:
    f32, f64 = Tensor([1.0]), Tensor([1.0], dtype="float64")
    c64, c128 = Tensor([1j]), Tensor([1j], dtype="complex128")
    assert (f32 + 1j).dtype is dtypes.complex64 and (1j * f64).dtype is dtypes.complex128
    assert (Tensor([1]) * 1j).dtype is dtypes.complex64 and (Tensor([True]) + 1j).dtype is dtypes.complex64
    assert (f64 * c64).dtype is dtypes.complex128 and (f32 / c128).dtype is dtypes.complex128
    assert (c64 + 1.5).dtype is dtypes.complex64 and (c64 / 2).dtype is dtypes.complex64
    assert (Tensor([1.0], dtype="float16") - c64).dtype is dtypes.complex64
    with dtypes.defaults(float=dtypes.float64):
        assert Tensor(1j).dtype is dtypes.complex128 and dtypes.default_complex is dtypes.complex128


def test_made_of_numbers_lists_arrays_and_buffers() -> None:
    assert Tensor(1 + 2j).item() == 1 + 2j and complex(Tensor(3)) == 3
    same(Tensor([[1, 2j], [True, 0.5]]), np.array([[1, 2j], [1, 0.5]], np.complex64))
    x = numbers((2, 3), dtypes.complex128)
    same(Tensor(x), x)
    same(Tensor(memoryview(x)), x)
    same(Tensor(x.tobytes(), dtype="complex128"), x.reshape(-1))
    same(Tensor(x, dtype="cfloat"), x.astype(np.complex64))
    same(Tensor(x[:, ::-1].T), x[:, ::-1].T)
    same(Tensor.full((2,), 1j), np.full(2, 1j, np.complex64))
    same(Tensor.eye(2, dtype=complex), np.eye(2, dtype=np.complex64))
    same(Tensor.from_dlpack(Tensor(x)), x)
    np.testing.assert_array_equal(np.from_dlpack(Tensor(x, "CPU").realize()), x)


def test_shown_as_numpy_shows_them() -> None:
    assert repr(Tensor([1 + 2j], "CPU").realize()) == "Tensor([1.+2.j], shape=(1,), dtype=complex64, device=CPU)"


OF_POWERS = ["exp", "log", "log2", "log10", "log1p", "expm1", "sqrt", "square", "exp2", "sign", "reciprocal"]
OF_ANGLES = [f"{arc}{name}{h}" for arc in ("", "arc") for name in ("sin", "cos", "tan") for h in ("", "h")]


def of_numpy(name: str, z: Any) -> Any:
    if name == "sign":
        return z / abs(z)
    return 2**z if name == "exp2" else getattr(np, name)(z)


@DTYPES
@pytest.mark.parametrize("name", OF_POWERS + OF_ANGLES)
def test_functions_are_those_of_numpy(name: str, dtype: DType) -> None:
    z = np.concatenate([numbers((60,), dtype), 8 * numbers((30,), dtype, 1), 1e-3 * numbers((30,), dtype, 2)])
    z = z.astype(dtype.name)
    expected = of_numpy(name, z.astype(np.clongdouble))
    found = getattr(Tensor(z), name)().numpy()
    assert found.dtype == z.dtype
    tolerance = 2e-6 if dtype is dtypes.complex64 else 2e-13
    np.testing.assert_array_less(abs(found - expected), tolerance * np.maximum(abs(expected), 1e-30))


@pytest.mark.parametrize("name", ["sqrt", "log", "arcsin", "arccos", "arctan", "arcsinh", "arccosh", "arctanh"])
def test_branch_cuts_are_continuous_with_the_side_of_a_signed_zero(name: str) -> None:
    ends = [complex(x, y) for x in (-3.0, -0.5, 0.5, 3.0) for y in (0.0, -0.0)]
    ends += [complex(y, x) for x in (-3.0, -0.5, 0.5, 3.0) for y in (0.0, -0.0)]
    z = np.array(ends, np.complex128)
    found, expected = getattr(Tensor(z), name)().numpy(), getattr(np, name)(z)
    np.testing.assert_allclose(found, expected, rtol=1e-12, atol=1e-15)
    imaginary = expected.imag != 0
    np.testing.assert_array_equal(np.signbit(found.imag[imaginary]), np.signbit(expected.imag[imaginary]))


def test_functions_of_large_and_small_numbers_do_not_overflow_on_the_way() -> None:
    z = np.array([2e38 + 2e38j, 1e-40 + 1e-42j, 1e30 - 1j, 2e19j], np.complex64)
    wide = z.astype(np.complex128)
    for name in ("sqrt", "log", "arcsinh", "arctan", "abs"):
        found = getattr(Tensor(z), name)().numpy()
        np.testing.assert_allclose(found, getattr(np, name)(wide).astype(found.dtype), rtol=3e-6)
    same(Tensor(z[2:3]) / Tensor(z[2:3]), np.array([1], np.complex64))


def test_infinities_and_nans() -> None:
    inf, nan = np.inf, np.nan
    z = np.array([inf, -inf, complex(0, inf), complex(nan, 0), 1j, complex(inf, nan)], np.complex64)
    x = Tensor(z)
    same(x.isnan(), np.isnan(z))
    same(x.isinf(), np.isinf(z))
    same(x.isfinite(), np.isfinite(z))
    assert x.abs().tolist()[:3] == [inf, inf, inf] and x.abs().tolist()[5] == inf
    assert Tensor(complex(-inf, nan)).exp().abs().item() == 0 and Tensor(complex(-inf, 1)).exp().item() == 0
    assert Tensor(complex(3, inf)).sqrt().item() == complex(inf, inf)


def test_parts_and_what_is_made_of_them() -> None:
    z = numbers((3, 4))
    x = Tensor(z)
    same(x.real, z.real)
    same(x.imag, z.imag)
    same(x.conj(), z.conj())
    same(x.angle(), np.angle(z))
    same(Tensor.complex(x.real, x.imag), z)
    same(Tensor.polar(x.abs(), x.angle()), z)
    same(x.view_as_real(), np.stack([z.real, z.imag], -1))
    same(x.view_as_real().view_as_complex(), z)
    same(x.mH, z.conj().T)
    same(Tensor([1.5, -2]).imag, np.zeros(2, np.float32))
    assert x.is_complex() and not x.real.is_complex() and Tensor([1.0]).conj().tolist() == [1.0]
    assert Tensor([1j, 2]).iscomplex().tolist() == [True, False] == Tensor([2, 1j]).isreal().tolist()[::-1][::-1]
    x.real = 0
    same(x, 1j * z.imag)
    x.imag = x.imag + 1
    same(x, 1j * (z.imag + np.float32(1)))


@pytest.mark.parametrize("device", DEVICES)
def test_reductions_and_scans(device: str) -> None:
    z = numbers((3, 5))
    x = Tensor(z, device)
    same(x.sum(), z.sum())
    same(x.sum(1, keepdim=True), z.sum(1, keepdims=True))
    same(x.mean(0), z.mean(0))
    same(x.prod(1), z.prod(1))
    same(x.prod(), z.prod(), 1e-4)
    same(x.var(0), z.var(0, ddof=1))
    same(x.std(), z.std(ddof=1))
    same(x.norm(), np.linalg.norm(z))
    same(x.cumsum(1), z.cumsum(1))
    same(x.cumprod(1), z.cumprod(1))
    same((x * Tensor([0, 1j, 0, 1, 0], device)).any(0), np.array([False, True, False, True, False]))
    assert Tensor(np.zeros((0,), np.complex64)).prod().item() == 1


@pytest.mark.parametrize("device", DEVICES)
def test_products(device: str) -> None:
    x, y = numbers((3, 4)), numbers((4, 5), seed=1)
    a, b = Tensor(x, device), Tensor(y, device)
    same(a @ b, x @ y)
    same(a @ Tensor(y.real, device), x @ y.real)
    same(Tensor.einsum("ij,jk->ki", a, b), (x @ y).T)
    same(a[0].outer(b[0]), np.outer(x[0], y[0]))
    same(a.vdot(a), np.vdot(x, x))
    same(a.vecdot(a), (x.conj() * x).sum(-1))


def test_a_matrix_product_is_one_of_floats() -> None:
    x, y = numbers((64, 48)), numbers((48, 80), seed=1)
    product = Tensor(x, "CPU").realize() @ Tensor(y, "CPU").realize()
    assert len(product.kernels()) == 2  # the second operand as matrices of two by two, and the product
    assert "contraction" in product.explain()
    same(product, x @ y, 1e-4)


def test_both_parts_are_computed_in_one_kernel() -> None:
    a, b = Tensor(numbers((4, 100))).realize(), Tensor(numbers((4, 100), seed=1)).realize()
    for value in (a * b, a / b, (a * b).sum(1), a.exp() * b, a + b, a[:, ::2].T * 2j):
        assert len(value.kernels()) == 1
    assert len((a * b).realize().kernels()) <= 1


@pytest.mark.parametrize("device", DEVICES)
def test_moved_indexed_and_written(device: str) -> None:
    z = numbers((4, 5))
    x = Tensor(z, device)
    same(x.T, z.T)
    same(x[1:, ::2].flip(0), z[1:, ::2][::-1])
    same(x.pad(((1, 0), (0, 2))), np.pad(z, ((1, 0), (0, 2))))
    same(x[[2, 0]], z[[2, 0]])
    same(
        x.gather(1, Tensor([[0, 1], [1, 1], [2, 0], [4, 3]], device)),
        z[np.arange(4)[:, None], [[0, 1], [1, 1], [2, 0], [4, 3]]],
    )
    same(Tensor.cat(x, x * 1j), np.concatenate([z, z * np.complex64(1j)]))
    same(Tensor.stack(x, x.conj()), np.stack([z, z.conj()]))
    same((x.real > 0).where(x, 0), np.where(z.real > 0, z, 0))
    y = Tensor(z, device).realize()
    y[1] = 2j
    y[:, 0] = y[:, 1] * 1j
    y[[0, 3], 2] = 5
    w = z.copy()
    w[1] = 2j
    w[:, 0] = w[:, 1] * 1j
    w[[0, 3], 2] = 5
    same(y, w)
    y += y
    same(y, w + w)
    same(
        Tensor.zeros(3, dtype="complex64", device=device).index_add(0, Tensor([1, 1, 0, 1], device), x[:, 0]),
        np.array([z[2, 0], z[[0, 1, 3], 0].sum(), 0], np.complex64),
    )
    y.assign(x)
    same(y, z)


def test_a_write_of_what_is_read_is_of_the_old_numbers() -> None:
    z = numbers((6,))
    x = Tensor(z).realize()
    x[:] = x.conj() * 1j + x.flip(0)
    same(x, (z.conj() * np.complex64(1j) + z[::-1]).astype(np.complex64))


def test_casts_take_the_real_part_and_writes_refuse_to() -> None:
    x = Tensor([1.5 + 2j, 0, 1j])
    assert x.float().tolist() == [1.5, 0, 0] and x.int().tolist() == [1, 0, 0]
    assert x.bool().tolist() == [True, False, True] and x.cdouble().dtype is dtypes.complex128
    assert Tensor([True, False]).cfloat().tolist() == [1, 0]
    real = Tensor([1.0, 2.0, 3.0])
    for write in (
        lambda: real.assign(x),
        lambda: real.__setitem__(0, 1j),
        lambda: real.__setitem__(slice(None), x),
        lambda: real.__iadd__(1j),
        lambda: Tensor(1j, dtype="float32"),
        lambda: Tensor([1j], dtype="float32"),
        lambda: Tensor([1j], dtype="int32"),
    ):
        with pytest.raises(DTypeError):
            write()


@pytest.mark.parametrize(
    "call",
    [
        lambda x: x < x,
        lambda x: x >= 1,
        lambda x: x.max(),
        lambda x: x.argmin(),
        lambda x: x.sort(),
        lambda x: x % 2,
        lambda x: x // 2,
        lambda x: x.maximum(1),
        lambda x: x.clamp(0, 1),
        lambda x: x.floor(),
        lambda x: x.erf(),
        lambda x: x & 1,
        lambda x: x.cummax(0),
        lambda x: Tensor.complex(x, x),
        lambda x: x.real.view_as_real(),
        lambda x: x.view_as_complex(),
        lambda x: x.index_put((Tensor([0]),), 1j, accumulate=True).scatter_reduce(0, Tensor([0]), x[:1], "amax"),
    ],
)
def test_what_has_no_meaning_is_refused(call: Callable[[Tensor], Any]) -> None:
    with pytest.raises(DTypeError):
        call(Tensor([1j, 2]))


def test_random_programs() -> None:
    steps: list[Callable[[Any, Any], Any]] = [
        lambda x, where: x * x.conj() + 1j,
        lambda x, where: x[::-1],
        lambda x, where: x.T,
        lambda x, where: x.reshape(x.shape[::-1]),
        lambda x, where: where(x.real > 0, x, x * 1j),
        lambda x, where: x - x.sum(0),
        lambda x, where: x.cumsum(1) * 0.5,
        lambda x, where: x / (abs(x) + 1),
    ]
    for seed in range(20):
        random = np.random.default_rng(seed)
        z: Any = numbers((4, 6), dtypes.complex128, seed)
        x: Any = Tensor(z)
        for step in random.choice(len(steps), 6):
            x, z = (
                steps[step](x, lambda condition, yes, no: condition.where(yes, no)),
                steps[step](z, np.where),
            )
        np.testing.assert_allclose(x.numpy(), z, rtol=1e-9, atol=1e-9, err_msg=str(seed))


def test_random_numbers() -> None:
    x = Tensor.randn(4000, dtype="complex64").numpy()
    assert abs(x.mean()) < 0.1 and abs((abs(x) ** 2).mean() - 1) < 0.1 and abs((x**2).mean()) < 0.1
    y = Tensor.rand(1000, dtype="complex128").numpy()
    assert min(y.real.min(), y.imag.min()) >= 0 and max(y.real.max(), y.imag.max()) < 1
    assert Tensor([1j]).randn_like().dtype is dtypes.complex64


def test_files_and_pickles(tmp_path: Any) -> None:
    z = numbers((3, 4))
    tensors = {"a": Tensor(z), "b": Tensor(z).cdouble()}
    nn.state.safe_save({"a": tensors["a"]}, str(tmp_path / "x.safetensors"))
    same(nn.state.safe_load(str(tmp_path / "x.safetensors"))["a"].to("CPU"), z)
    with pytest.raises(DTypeError):
        nn.state.safe_save(tensors, str(tmp_path / "y.safetensors"))  # the format has no complex128
    nn.state.npy_save(tensors, tmp_path / "x.npz")
    found = nn.state.npy_load(tmp_path / "x.npz")
    same(found["b"].to("CPU"), z.astype(np.complex128))
    np.save(tmp_path / "x.npy", z.astype(">c16"))
    same(nn.state.npy_load(tmp_path / "x.npy").to("CPU"), z.astype(np.complex128))
    same(pickle.loads(pickle.dumps(Tensor(z))), z)
    graph = (Tensor(1j) * 2.5).uop
    assert pickle.loads(pickle.dumps(graph)).op is graph.op


def test_a_symbolic_product_is_refused() -> None:
    n = UOp.variable("n", 1, 4).bind(2)
    with pytest.raises(NotSupportedError):
        Tensor([1j, 2, 3, 4])[:n].prod()
    same(Tensor([1j, 2, 3, 4])[:n].sum(), np.complex64(2 + 1j))


@DTYPES
def test_schedules_have_no_complex_numbers(dtype: DType) -> None:
    """The graph as it is, by NumPy's complex numbers, and its schedule, of floats alone, give the same."""
    p1, p2 = UOp.param(1, dtype, (3, 4)), UOp.param(2, dtype, (3, 4))
    value = ((p1 * p2 + p1 / p2).flip((1,)) * UOp.const(dtype, 2 - 1j)).reduce(ops.ADD, (0,))
    linear = schedule(UOp.group(UOp.param(0, dtype, (4,)).store(value)))
    assert not any(node.dtype.is_complex for node in linear.topological(enter_functions=True))
    x, y = numbers((3, 4), dtype), numbers((3, 4), dtype, 1)
    found = evaluate(value, {p1: x, p2: y})
    np.testing.assert_allclose(found, ((x * y + x / y)[:, ::-1] * dtype_of(dtype)(2 - 1j)).sum(0), rtol=1e-4)
    params = [UOp.param(i, part_dtype(dtype), (4, 2) if not i else (3, 4, 2)) for i in range(3)]
    out = np.zeros(4, x.dtype)
    from whit.ir.interpret import run

    floats = [z.view(z.real.dtype).reshape(*z.shape, 2) for z in (out, x, y)]
    run(linear, dict(zip(params, floats, strict=True)))
    np.testing.assert_allclose(out, found, rtol=1e-4)


def dtype_of(dtype: DType) -> Any:
    return np.dtype(dtype.name).type


def test_null_plans_and_files_hold_complex_numbers(tmp_path: Any) -> None:
    z = numbers((3, 4))
    assert Tensor(z, "NULL").sum(0).realize().shape == (4,)
    on_disk = Tensor(z).to(f"DISK:{tmp_path / 'numbers'}").realize()
    same(on_disk.to("CPU"), z)
    same(on_disk[1:, 2].to("CPU") * 2, z[1:, 2] * 2)
