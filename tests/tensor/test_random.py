"""Random numbers: the generator against its published vectors, what draws share, bounds, distributions, dropout.

All seeds are fixed: a test of a distribution gives the same value on every run, and the limits are those of a chance of
1 in 10,000 and less.
"""

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from tensor.check import INTS
from whit import Context, Tensor
from whit.dtype import DType, dtypes
from whit.engine.plan.find_plan import _plans
from whit.engine.report.counters import GlobalCounters
from whit.errors import ArgumentError, DTypeError, ShapeError
from whit.ir.interpret import evaluate, numpy_dtype
from whit.ir.uop import UOp, const
from whit.tensor.graphs import uniform
from whit.tensor.graphs.threefry import block, draw_of, next_draw, seed_with, words
from whit.tensor.graphs.uniform import high_product

pytestmark = pytest.mark.slow  # compiles much

FLOATS = (dtypes.float16, dtypes.bfloat16, dtypes.float32, dtypes.float64, dtypes.fp8e4m3, dtypes.fp8e5m2)
MILLION = 1_000_000


def _numbers(make: Callable[[], Tensor], seed: int = 0) -> Any:
    Tensor.manual_seed(seed)
    return make().numpy()


# ---- the generator

# counter, key, result: the test vectors that come with the paper's code, for 20 rounds
VECTORS = [
    ((0, 0), (0, 0), (0x6B200159, 0x99BA4EFE)),
    ((0xFFFFFFFF, 0xFFFFFFFF), (0xFFFFFFFF, 0xFFFFFFFF), (0x1CB996FC, 0xBB002BE7)),
    ((0x243F6A88, 0x85A308D3), (0x13198A2E, 0x03707344), (0xC4923A9C, 0x483DF7A0)),
]


@pytest.mark.parametrize("counter, key, expected", VECTORS, ids=str)
def test_threefry_gives_the_published_words(counter: Any, key: Any, expected: Any) -> None:
    nodes = [const(dtypes.uint32, number) for number in (*key, *counter)]
    assert tuple(int(evaluate(word, {})) for word in block(*nodes)) == expected


def _reference(seed: int, counter: int) -> tuple[int, int]:
    key = (seed & 0xFFFFFFFF, seed >> 32)
    nodes = [const(dtypes.uint32, n) for n in (*key, counter & 0xFFFFFFFF, counter >> 32)]
    first, second = block(*nodes)
    return int(evaluate(first, {})), int(evaluate(second, {}))


@pytest.mark.parametrize("device", ("PYTHON", "CPU"))
def test_a_value_is_the_block_of_its_number(device: str) -> None:
    seed_with(0x123456789ABCDEF)
    next_draw(2**32 - 2, device)  # the next counters cross the border between the two words
    draw = next_draw(4, device)
    for offset in (0, 3):
        found = [Tensor(node).tolist() for node in words(draw, (2, 2), offset)]
        flat = [[x for row in word for x in row] for word in found]
        expected = [_reference(0x123456789ABCDEF, 2**32 - 2 + offset + i) for i in range(4)]
        assert list(zip(*flat, strict=True)) == expected


def test_positions_beyond_32_bits_reach_the_second_word() -> None:
    seed_with(5)
    draw = next_draw(2**33, "PYTHON")
    high, low = (Tensor(node.shrink([(2**32 + 7, 2)])) for node in words(draw, (2**33,)))
    assert list(zip(high.tolist(), low.tolist(), strict=True)) == [_reference(5, 2**32 + 7 + i) for i in range(2)]


def test_draws_tell_what_they_are() -> None:
    Tensor.manual_seed(7)
    Tensor.rand(5)
    x = Tensor.randn(2, 3, dtype=dtypes.float64)
    (draw,) = {draw_of(node) for node in x.uop.topological()} - {None}
    assert draw is not None
    assert (draw.seed, draw.start, draw.count) == (7, 5, 12)


# ---- what draws have in common


MAKERS: dict[str, Callable[..., Tensor]] = {
    "rand": Tensor.rand,
    "rand half": lambda *shape, **kw: Tensor.rand(*shape, dtype="half", **kw),
    "rand double": lambda *shape, **kw: Tensor.rand(*shape, dtype="double", **kw),
    "randn": Tensor.randn,
    "randn double": lambda *shape, **kw: Tensor.randn(*shape, dtype="double", **kw),
    "randint": lambda *shape, **kw: Tensor.randint(*shape, low=-3, high=1000, **kw),
    "randint long": lambda *shape, **kw: Tensor.randint(*shape, low=-(2**60), high=2**62 + 1, dtype="long", **kw),
    "uniform": lambda *shape, **kw: Tensor.uniform(*shape, low=-0.3, high=0.7, **kw),
    "normal": lambda *shape, **kw: Tensor.normal(*shape, mean=3.0, std=0.1, **kw),
    "exponential": lambda *shape, **kw: Tensor.exponential(*shape, rate=3.0, **kw),
    "gumbel": Tensor.gumbel,
    "kaiming": Tensor.kaiming_uniform,
}


@pytest.mark.slow
@pytest.mark.parametrize("name", MAKERS)
def test_numbers_are_the_same_on_every_device_to_the_last_bit(name: str) -> None:
    found = [_numbers(lambda device=device: MAKERS[name](37, 3, device=device), 9) for device in ("CPU", "PYTHON")]  # type: ignore[misc]
    np.testing.assert_array_equal(*found)
    with Context(NOOPT=1):
        np.testing.assert_array_equal(found[0], _numbers(lambda: MAKERS[name](37, 3), 9))


@pytest.mark.slow
@pytest.mark.parametrize("name", ("rand", "randn", "randint"))
def test_numbers_do_not_depend_on_shape_or_on_when_they_are_computed(name: str) -> None:
    make = MAKERS[name]
    first = _numbers(lambda: make(6, 4))
    np.testing.assert_array_equal(first.reshape(-1), _numbers(lambda: make(24)))
    np.testing.assert_array_equal(first.reshape(-1)[:10], _numbers(lambda: make(10)))
    Tensor.manual_seed(0)
    x, y = make(6, 4), make(5)
    late = y.numpy(), x.numpy()
    Tensor.manual_seed(0)
    x, y = make(6, 4).realize(), make(5).realize()
    np.testing.assert_array_equal(late[1], x.numpy())
    np.testing.assert_array_equal(late[0], y.numpy())
    np.testing.assert_array_equal(first[::2, 1], _numbers(lambda: make(6, 4)[::2, 1]))


@pytest.mark.slow
def test_draws_do_not_overlap() -> None:
    Tensor.manual_seed(1)
    whole = Tensor.rand(10).numpy()
    Tensor.manual_seed(1)
    parts = [Tensor.rand(size).numpy() for size in (3, 0, 1, 6)]
    np.testing.assert_array_equal(whole, np.concatenate(parts))
    Tensor.manual_seed(1)
    doubles = Tensor.randn(2, dtype="double")  # two blocks a value
    np.testing.assert_array_equal(Tensor.rand(6).numpy(), whole[4:])
    assert doubles.shape == (2,)


def test_a_seed_starts_over_and_seeds_differ() -> None:
    seen = {tuple(_numbers(lambda: Tensor.rand(4), seed)) for seed in (0, 1, 2**32, 2**63, 2**64 - 1)}
    assert len(seen) == 5
    assert tuple(_numbers(lambda: Tensor.rand(4), -1)) in seen  # the same 64 bits as 2**64 - 1
    Tensor.manual_seed()
    np.testing.assert_array_equal(Tensor.rand(4).numpy(), _numbers(lambda: Tensor.rand(4), 0))


def test_another_draw_is_the_same_kernel() -> None:
    for make in (Tensor.rand, Tensor.randn, lambda n: Tensor.randint(n, low=3, high=50)):
        make(4).realize()
        before = len(_plans)
        make(4).realize()
        Tensor.manual_seed(99)
        make(4).realize()
        assert len(_plans) == before
    Tensor.normal(5, mean=7.0, std=3.0).realize()
    before = len(_plans)
    Tensor.normal(5, mean=8.0, std=4.0).realize()
    assert len(_plans) == before


def _kernels(tensor: Tensor) -> int:
    GlobalCounters.reset()
    tensor.realize()
    return GlobalCounters.kernel_count


def test_the_rounds_share_their_sums() -> None:
    GlobalCounters.reset()
    Tensor.rand(1024).realize()
    assert GlobalCounters.global_ops < 150 * 1024


def test_many_random_tensors_are_equal_kernels_and_no_endless_one() -> None:
    made = [Tensor.rand(64, 64, device="NULL") for _ in range(8)]
    GlobalCounters.reset()
    Tensor.realize(*made)
    assert GlobalCounters.kernel_count == 4


@pytest.mark.slow
def test_random_numbers_fuse_into_their_users() -> None:
    # Made in functions: an assert would keep the random tensors, and what is kept is stored.
    assert _kernels(Tensor.rand(8, 8)) == 1
    assert _kernels((lambda: Tensor.randn(8, 8) * 2 + Tensor.rand(8, 8))()) == 1
    assert _kernels((lambda: Tensor.rand(64, 64).sum(1))()) == 1
    # Not where every number would be computed 64 times: one kernel draws both.
    assert _kernels((lambda: Tensor.rand(64, 64) @ Tensor.rand(64, 64))()) == 2
    with Tensor.train():
        x = Tensor.ones(16, 16).contiguous().realize()
        assert _kernels((x + 1).dropout(0.5).relu()) == 1


# ---- bounds and dtypes


@pytest.mark.parametrize("dtype", FLOATS, ids=lambda d: d.name)
def test_rand_has_every_multiple_of_its_resolution_below_one(dtype: DType) -> None:
    x = _numbers(lambda: Tensor.rand(2**18, dtype=dtype)).astype(np.float64)
    step = 2.0 ** -(dtype.mantissa_bits + 1)
    assert x.min() >= 0 and x.max() <= 1 - step
    np.testing.assert_array_equal(x / step, np.round(x / step))
    if dtype.mantissa_bits <= 10:
        assert len(np.unique(x)) == 1 / step
    assert abs(x.mean() - (0.5 - step / 2)) < 5 / math.sqrt(12 * 2**18)


def test_extreme_words_give_numbers_inside() -> None:
    zero, ones = const(dtypes.uint32, 0), const(dtypes.uint32, 2**32 - 1)
    for dtype in FLOATS:
        assert float(evaluate(uniform.unit((zero, zero), dtype), {})) == 0
        assert float(evaluate(uniform.unit((ones, ones), dtype), {})) == 1 - 2.0 ** -(dtype.mantissa_bits + 1)
    for dtype, bits in ((dtypes.float32, 33), (dtypes.float64, 65)):
        assert float(evaluate(uniform.minus_log((zero, zero), dtype), {})) == pytest.approx(
            bits * math.log(2), rel=1e-7
        )
        assert float(evaluate(uniform.minus_log((ones, ones), dtype), {})) == pytest.approx(2.0**-bits, rel=1e-7)
        radius = float(evaluate(uniform.normal((zero, zero), (zero, zero), dtype), {}))
        assert radius == pytest.approx(math.sqrt(2 * bits * math.log(2)), rel=1e-7)


@pytest.mark.slow
@pytest.mark.parametrize(
    "dtype", (dtypes.float16, dtypes.bfloat16, dtypes.float32, dtypes.float64), ids=lambda d: d.name
)
@pytest.mark.parametrize("low, high", [(0.0, 1.0), (1.0, 1.01), (-3.0, -1.0), (-1e4, 1e4), (1000.0, 1002.0)])
def test_uniform_excludes_its_upper_end(dtype: DType, low: float, high: float) -> None:
    x = _numbers(lambda: Tensor.uniform(10_000, low=low, high=high, dtype=dtype)).astype(np.float64)
    assert x.max() < high
    assert x.min() >= float(np.asarray(low).astype(numpy_dtype(dtype)))
    assert abs(x.mean() - (low + high) / 2) < (high - low) * 0.05 + abs(high) * 2.0**-dtype.mantissa_bits


@pytest.mark.slow
def test_logarithm_and_cosine_are_accurate() -> None:
    rng = np.random.default_rng(0)
    high, low = (rng.integers(0, 2**32, 20_000, dtype=np.uint32) for _ in range(2))
    nodes = Tensor(high).uop, Tensor(low).uop
    exact = high.astype(np.longdouble) * 2.0**32 + low
    for dtype, ulps in ((dtypes.float32, 2), (dtypes.float64, 2)):
        u = (high.astype(np.longdouble) + 0.5) / 2**32 if dtype is dtypes.float32 else (exact + 0.5) / 2.0**64
        found = Tensor(uniform.minus_log(nodes, dtype)).numpy()
        rest: np.ndarray = ((~high).astype(np.longdouble) + 0.5) / 2**32
        if dtype is dtypes.float64:
            rest = ((~high).astype(np.longdouble) * 2.0**32 + ~low + 0.5) / 2.0**64
        expected = -np.where(u < 0.5, np.log(u), np.log1p(-rest))
        np.testing.assert_allclose(found, expected.astype(np.float64), rtol=ulps * 2.0**-dtype.mantissa_bits)
        turn = high / np.longdouble(2**32) if dtype is dtypes.float32 else exact / 2.0**64
        cosine = Tensor(uniform._cosine(nodes, dtype)).numpy()
        expected = np.cos(8 * np.arctan(np.longdouble(1)) * turn).astype(np.float64)
        np.testing.assert_allclose(cosine, expected, atol=2.0**-dtype.mantissa_bits, rtol=0)


RANGES = [(0, 1), (0, 2), (-5, 6), (0, 256), (-(2**31), 2**31), (0, 2**32), (-(2**63), 2**63), (0, 2**64), (5, 2**63)]


@pytest.mark.slow
@pytest.mark.parametrize("low, high", RANGES, ids=str)
def test_randint_stays_in_its_range(low: int, high: int) -> None:
    for dtype in INTS:
        if not (dtype.min <= low and high - 1 <= dtype.max):
            with pytest.raises(DTypeError, match="does not fit"):
                Tensor.randint(4, low=low, high=high, dtype=dtype)
            continue
        x = _numbers(lambda dtype=dtype: Tensor.randint(1000, low=low, high=high, dtype=dtype, device="PYTHON"))  # type: ignore[misc]
        values = [int(v) for v in x]
        assert x.dtype == numpy_dtype(dtype)
        assert min(values) >= low and max(values) < high
        middle = sum(values) / 1000
        assert abs(middle - (low + high - 1) / 2) <= 5 * (high - low) / math.sqrt(12_000)


def test_products_of_64_bits() -> None:
    rng = np.random.default_rng(1)
    x, y = (rng.integers(0, 2**64, 500, dtype=np.uint64) for _ in range(2))
    x[:3], y[:3] = (2**64 - 1, 0, 2**64 - 1), (2**64 - 1, 2**64 - 1, 2)
    nodes = [Tensor(values, device="PYTHON").uop for values in (x, y)]
    found = Tensor(high_product(*nodes)).tolist()
    assert found == [int(a) * int(b) >> 64 for a, b in zip(x, y, strict=True)]


@pytest.mark.slow
def test_large_ranges_use_all_their_bits() -> None:
    # 3 * 2**62 numbers from 64 bits alone would make every third twice as likely
    size = 3 * 2**62
    x = _numbers(lambda: Tensor.randint(30_000, low=0, high=size, dtype=dtypes.uint64))
    counts = np.bincount((x % np.uint64(3)).astype(np.int64), minlength=3)
    assert _chi_square(counts) < 20


def test_names_of_api() -> None:
    x = Tensor.zeros(2, 3, dtype=dtypes.float16)
    assert Tensor.rand().shape == () and Tensor.rand((2, 3)).shape == Tensor.rand(2, 3).shape == (2, 3)
    assert Tensor.rand(0, 3).numpy().shape == (0, 3)
    assert Tensor.rand(2, contiguous=False, device="PYTHON", requires_grad=True).requires_grad
    assert (x.rand_like().shape, x.rand_like().dtype) == ((2, 3), dtypes.float16)
    assert x.randn_like(dtype=dtypes.float64).dtype is dtypes.float64
    assert Tensor.rand(2).dtype is Tensor.randn(2).dtype is dtypes.float32
    assert Tensor.randint(2).dtype is dtypes.int32
    assert Tensor.uniform(3, low=2, high=4, dtype=dtypes.int8).dtype is dtypes.int8
    with Context(DEFAULT_FLOAT="float64"):
        assert Tensor.rand(2).dtype is dtypes.float64
    with Context(DEV="PYTHON"):
        assert Tensor.rand(2).device == "PYTHON"


@pytest.mark.slow
def test_bounds_of_initial_weights() -> None:
    cases = {
        "scaled_uniform": (1 / math.sqrt(600), 1 / math.sqrt(1800)),
        "glorot_uniform": (math.sqrt(6 / 50), math.sqrt(2 / 50)),
        "kaiming_uniform": (math.sqrt(6 / 1.0001 / 30), math.sqrt(2 / 1.0001 / 30)),
    }
    for name, (bound, std) in cases.items():
        x = _numbers(lambda name=name: getattr(Tensor, name)(20, 5, 6))  # type: ignore[misc]
        assert 0.97 * bound < abs(x).max() <= bound
        assert x.std() == pytest.approx(std, rel=0.1)
    x = _numbers(lambda: Tensor.kaiming_normal(100, 30, a=1.0))
    assert x.std() == pytest.approx(math.sqrt(1 / 30), rel=0.06)
    for name in (*cases, "kaiming_normal"):
        assert getattr(Tensor, name)(0, 3).shape == (0, 3)
        assert getattr(Tensor, name)(4).numpy().shape == (4,)


# ---- distributions


def _chi_square(counts: Any, expected: Any = None) -> float:
    """How many deviations the chi-square of counts is from what it should be."""
    expected = np.full(len(counts), counts.sum() / len(counts)) if expected is None else expected
    statistic = float(((counts - expected) ** 2 / expected).sum())
    freedom = len(counts) - 1
    return (statistic - freedom) / math.sqrt(2 * freedom)


def _kolmogorov(x: Any, distribution: Callable[[Any], Any]) -> float:
    """The chance of a sample that is at least as far from the distribution."""
    x = np.sort(x.astype(np.float64))
    n = len(x)
    values = distribution(x)
    places = np.arange(n + 1) / n
    distance = max((places[1:] - values).max(), (values - places[:-1]).max())
    t = distance * math.sqrt(n)
    return min(1.0, 2 * sum((-1) ** (k - 1) * math.exp(-2 * (k * t) ** 2) for k in range(1, 100)))


def _normal(x: Any) -> Any:
    return 0.5 * np.vectorize(math.erfc)(-x / math.sqrt(2))


DISTRIBUTIONS: dict[str, tuple[Callable[[int], Tensor], Callable[[Any], Any]]] = {
    "rand": (Tensor.rand, lambda x: x),
    "rand double": (lambda n: Tensor.rand(n, dtype="double"), lambda x: x),
    "uniform": (lambda n: Tensor.uniform(n, low=-2, high=3), lambda x: (x + 2) / 5),
    "randn": (Tensor.randn, _normal),
    "randn double": (lambda n: Tensor.randn(n, dtype="double"), _normal),
    "normal": (lambda n: Tensor.normal(n, mean=1, std=2), lambda x: _normal((x - 1) / 2)),
    "exponential": (lambda n: Tensor.exponential(n, rate=2), lambda x: -np.expm1(-2 * x)),
    "gumbel": (Tensor.gumbel, lambda x: np.exp(-np.exp(-x))),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", DISTRIBUTIONS)
def test_kolmogorov_smirnov(name: str) -> None:
    make, distribution = DISTRIBUTIONS[name]
    chances = [_kolmogorov(_numbers(lambda: make(50_000), seed), distribution) for seed in range(4)]
    assert min(chances) > 1e-3
    assert max(chances) < 1 - 1e-3


@pytest.mark.slow
@pytest.mark.parametrize("dtype", (dtypes.float32, dtypes.float64), ids=lambda d: d.name)
def test_moments_and_tails_of_the_normal_distribution(dtype: DType) -> None:
    x = _numbers(lambda: Tensor.randn(4 * MILLION, dtype=dtype)).astype(np.float64)
    n = len(x)
    assert abs(x.mean()) < 4 / math.sqrt(n)
    assert abs(x.var() - 1) < 4 * math.sqrt(2 / n)
    assert abs((x**3).mean()) < 4 * math.sqrt(15 / n)
    assert abs((x**4).mean() - 3) < 4 * math.sqrt(96 / n)
    for bound in (1, 2, 3, 4, 4.5, 5):
        chance = math.erfc(bound / math.sqrt(2)) / 2
        for count in ((x > bound).sum(), (x < -bound).sum()):
            assert abs(count - n * chance) < 4 * math.sqrt(n * chance) + 1


@pytest.mark.slow
def test_bits_are_balanced_and_independent() -> None:
    Tensor.manual_seed(3)
    n = 2**16
    found = [Tensor(node).numpy() for node in words(next_draw(n, "CPU"), (n,))]
    bits = np.concatenate([(word[:, None] >> np.arange(32, dtype=np.uint32)) & 1 for word in found], axis=1)
    signs = bits.astype(np.float64) * 2 - 1  # (n, 64)
    limit = 4.5 / math.sqrt(n)
    assert abs(signs.mean(0)).max() < limit
    together = signs.T @ signs / n
    np.fill_diagonal(together, 0)
    assert abs(together).max() < limit
    for lag in (1, 2, 3, 64, 4096):
        assert abs(signs[lag:].T @ signs[:-lag] / n).max() < 5.2 / math.sqrt(n - lag)


@pytest.mark.slow
def test_streams_are_independent() -> None:
    n = 100_000
    limit = 4.5 / math.sqrt(n)
    streams = [_numbers(lambda: Tensor.randn(n), seed) for seed in (0, 1, 2, 2**32, 2**33)]
    Tensor.manual_seed(0)
    streams += [Tensor.randn(n).numpy() for _ in range(3)][1:]
    together = np.corrcoef(np.stack(streams))
    np.fill_diagonal(together, 0)
    assert abs(together).max() < limit
    x = streams[0]
    for lag in (1, 2, 7, 64, 1000):
        assert abs(np.corrcoef(x[lag:], x[:-lag])[0, 1]) < limit


@pytest.mark.slow
@pytest.mark.parametrize("size", (2, 3, 7, 10, 256, 1000))
def test_chi_square_of_randint(size: int) -> None:
    x = _numbers(lambda: Tensor.randint(200_000, low=-4, high=size - 4))
    assert abs(_chi_square(np.bincount(x + 4, minlength=size))) < 4


@pytest.mark.slow
def test_pairs_of_neighbours_fill_the_square() -> None:
    x = (_numbers(lambda: Tensor.rand(400_000)) * 32).astype(np.int64)
    assert abs(_chi_square(np.bincount(x[::2] * 32 + x[1::2], minlength=1024))) < 4


# ---- dropout and training


def test_training_is_a_setting() -> None:
    assert Tensor.training is False
    with Tensor.train():
        assert Tensor.training is True
        with Tensor.train(False):
            assert Tensor.training is False
        Tensor.training = False
        assert Tensor.training is False
    assert Tensor.training is False
    with Context(TRAINING=1):
        assert Tensor.training is True

    @Tensor.train()
    def inside() -> bool:
        return Tensor.training

    assert inside() and not Tensor.training


def test_dropout_outside_of_training_is_nothing() -> None:
    x = Tensor([1.0, 2.0])
    assert x.dropout(0.5) is x
    with Tensor.train():
        assert x.dropout(0) is x
        assert x.dropout(1).tolist() == [0, 0]
        assert Tensor([math.nan, math.inf]).dropout(1.0).tolist() == [0, 0]


@pytest.mark.slow
@pytest.mark.parametrize(
    "dtype", (dtypes.float16, dtypes.bfloat16, dtypes.float32, dtypes.float64), ids=lambda d: d.name
)
@pytest.mark.parametrize("p", (0.1, 0.3, 0.5, 0.9))
def test_dropout_keeps_the_mean(p: float, dtype: DType) -> None:
    Tensor.manual_seed(4)
    with Tensor.train():
        x = Tensor.full((100_000,), 3.0, dtype=dtype).contiguous().dropout(p)
        assert x.dtype is dtype
        found = x.numpy().astype(np.float64)
    scale = float(np.asarray(3.0 * float(np.float32(1 / (1 - p)))).astype(numpy_dtype(dtype)))
    values, counts = np.unique(found, return_counts=True)
    np.testing.assert_allclose(values, [0, scale], rtol=1e-7)
    assert abs(counts[0] - p * 100_000) < 4 * math.sqrt(p * (1 - p) * 100_000)


def test_dropped_infinities_are_zero() -> None:
    with Tensor.train():
        x = Tensor.full((1000,), math.inf).contiguous().dropout(0.5).numpy()
    assert set(np.unique(x)) == {0.0, math.inf}


# ---- choices


def test_bernoulli() -> None:
    Tensor.manual_seed(2)
    p = np.array([0.0, 0.25, 0.5, 1.0])
    x = Tensor(p).expand(50_000, 4).bernoulli()
    assert x.dtype is dtypes.float64
    found = x.numpy()
    assert set(np.unique(found)) == {0.0, 1.0}
    np.testing.assert_allclose(found.mean(0), p, atol=4 * math.sqrt(0.25 / 50_000))
    assert found[:, 0].max() == 0 and found[:, 3].min() == 1


@pytest.mark.slow
@pytest.mark.parametrize("size", (1, 2, 3, 8, 9, 100))
def test_choices_with_replacement_follow_the_weights(size: int) -> None:
    Tensor.manual_seed(6)
    weights = np.random.default_rng(size).uniform(0, 5, (2, size)).astype(np.float32)
    weights[0, size // 2] = 0 if size > 1 else 1
    x = Tensor(weights).multinomial(50_000, replacement=True)
    assert x.dtype is dtypes.int32 and x.shape == (2, 50_000)
    for row, found in zip(weights.astype(np.float64), x.numpy(), strict=True):
        counts = np.bincount(found, minlength=size)
        assert len(counts) == size
        possible = row > 0
        assert counts[~possible].sum() == 0
        if possible.sum() > 1:
            assert abs(_chi_square(counts[possible], row[possible] / row.sum() * 50_000)) < 5


def test_choices_are_two_kernels_whatever_their_number() -> None:
    weights = Tensor.ones(1000).contiguous().realize()
    assert _kernels(weights.multinomial(5000, replacement=True)) == 2


def test_one_choice_never_has_weight_zero() -> None:
    Tensor.manual_seed(0)
    weights = Tensor([[0.0, 0.0, 1.0, 0.0], [1e-30, 0.0, 0.0, 0.0]])
    for _ in range(10):
        assert weights.multinomial().tolist() == [[2], [0]]
    assert Tensor([3, 0, 0]).multinomial(4, replacement=True).tolist() == [0, 0, 0, 0]


needs_sorting = pytest.mark.skipif(not hasattr(Tensor, "argsort"), reason="there is no sorting yet")


@needs_sorting
def test_permutations() -> None:
    for n in (0, 1, 2, 7, 1000):
        x = _numbers(lambda n=n: Tensor.randperm(n))  # type: ignore[misc]
        assert x.dtype == np.int32
        assert sorted(x.tolist()) == list(range(n))
    assert Tensor.randperm(5, dtype=dtypes.int64).dtype is dtypes.int64
    np.testing.assert_array_equal(_numbers(lambda: Tensor.randperm(50)), _numbers(lambda: Tensor.randperm(50)))
    with pytest.raises(DTypeError, match="randperm: 299 is outside uint8"):
        Tensor.randperm(300, dtype="uint8")


@needs_sorting
@pytest.mark.slow
def test_all_orders_are_equally_likely() -> None:
    Tensor.manual_seed(1)
    counts: dict[Any, int] = {}
    for _ in range(600):
        order = tuple(Tensor.randperm(3).tolist())
        counts[order] = counts.get(order, 0) + 1
    assert len(counts) == 6
    assert abs(_chi_square(np.array(list(counts.values())))) < 4


@needs_sorting
def test_shuffle_moves_whole_parts() -> None:
    Tensor.manual_seed(1)
    x = np.arange(600).reshape(20, 30)
    for axis in (0, 1, -1):
        found = Tensor(x).shuffle(axis).numpy()
        assert not np.array_equal(found, x)
        np.testing.assert_array_equal(np.sort(found, axis), x)
        np.testing.assert_array_equal(np.diff(found, axis=1 - axis % 2), np.diff(x, axis=1 - axis % 2))


@needs_sorting
def test_choices_without_replacement() -> None:
    Tensor.manual_seed(1)
    weights = Tensor([1.0, 0.0, 2.0, 4.0, 0.0]).expand(20_000, 5)
    found = weights.multinomial(3).numpy()
    assert found.dtype == np.int32
    np.testing.assert_array_equal(np.sort(found, 1), np.tile([0, 2, 3], (20_000, 1)))
    # The first is chosen by weight, the second by the weights of the others.
    first = np.bincount(found[:, 0], minlength=5)[[0, 2, 3]]
    assert abs(_chi_square(first, np.array([1, 2, 4]) / 7 * 20_000)) < 4
    second = np.bincount(found[found[:, 0] == 3, 1], minlength=5)[[0, 2]]
    assert abs(second[0] - second.sum() / 3) < 4 * math.sqrt(second.sum() * 2 / 9)
    last = weights[:100].multinomial(5).numpy()[:, 3:]
    np.testing.assert_array_equal(np.sort(last, 1), np.tile([1, 4], (100, 1)))


# ---- mistakes


def _symbolic_dropout() -> Tensor:
    counted = UOp.arange(UOp.variable("n", 1, 9), dtypes.int32).cast(dtypes.float32)
    with Tensor.train():
        return Tensor(counted).dropout()


MISTAKES: dict[str, tuple[Callable[[], Any], type[Exception], str]] = {
    "seed text": (lambda: Tensor.manual_seed("a"), ArgumentError, "manual_seed: 'a' is no seed"),  # type: ignore[arg-type]
    "seed too long": (lambda: Tensor.manual_seed(2**64), ArgumentError, "is no seed"),
    "rand of integers": (lambda: Tensor.rand(2, dtype="int32"), DTypeError, "rand: int32 is no float dtype"),
    "randn of integers": (lambda: Tensor.zeros(2, dtype="int8").randn_like(), DTypeError, "randn: int8 is no float"),
    "unknown parameter": (lambda: Tensor.rand(2, size=3), ArgumentError, "rand: there is no argument `size`"),
    "negative size": (lambda: Tensor.randn(-1), ShapeError, "randn: -1 is no size"),
    "symbolic size": (lambda: Tensor.rand(UOp.variable("n", 1, 9)), ArgumentError, "rand: the size n has no value"),
    "symbolic dropout": (_symbolic_dropout, ArgumentError, "dropout: the size n has no value"),
    "empty range": (lambda: Tensor.randint(2, low=5, high=5), ArgumentError, "randint: low=5 is not below high=5"),
    "float bounds": (lambda: Tensor.randint(2, high=2.5), ArgumentError, "randint: low=0, high=2.5"),  # type: ignore[arg-type]
    "range too wide": (lambda: Tensor.randint(2, high=300, dtype="uint8"), DTypeError, "does not fit uint8"),
    "randint of floats": (lambda: Tensor.randint(2, dtype="half"), DTypeError, "randint: float16 is no integer dtype"),
    "uniform upside down": (lambda: Tensor.uniform(2, low=1, high=0), ArgumentError, "uniform: low=1, high=0"),
    "uniform without end": (lambda: Tensor.uniform(2, high=math.inf), ArgumentError, "uniform: low=0.0, high=inf"),
    "uniform fractions": (lambda: Tensor.uniform(2, high=1.5, dtype="int"), DTypeError, "uniform: int32 is no float"),
    "negative deviation": (lambda: Tensor.normal(2, std=-1.0), ArgumentError, "normal: std=-1.0"),
    "no rate": (lambda: Tensor.exponential(2, rate=0), ArgumentError, "exponential: rate=0"),
    "no probability": (lambda: Tensor.ones(2).dropout(1.5), ArgumentError, "dropout: p=1.5 is no probability"),
    "dropout of integers": (lambda: Tensor.ones(2, dtype="int").dropout(), DTypeError, "dropout: only floats"),
    "weights of three axes": (lambda: Tensor.ones(1, 2, 3).multinomial(), ShapeError, "multinomial: weights (1, 2, 3)"),
    "no weights": (lambda: Tensor.ones(3, 0).multinomial(), ShapeError, "multinomial: weights (3, 0)"),
    "no samples": (lambda: Tensor.ones(3).multinomial(0), ArgumentError, "multinomial: num_samples=0"),
    "too many": (lambda: Tensor.ones(3).multinomial(4), ArgumentError, "multinomial: 4 of 3 without replacement"),
}


@pytest.mark.parametrize("name", MISTAKES)
def test_mistakes_are_told(name: str) -> None:
    call, kind, message = MISTAKES[name]
    with pytest.raises(kind) as caught:
        call()
    assert message in str(caught.value)
