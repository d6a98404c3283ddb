"""Kernels that are contractions of contractions: which have that form, and what is read off them."""

from random import Random

from whit.dtype import dtypes
from whit.ir import ops
from whit.ir.args import RangeKind
from whit.ir.uop import UOp
from whit.kernel.attention_form import find_attention

HEADS = UOp.range(8, 0)
ROW, E = UOp.range(64, 1), UOp.range(32, 2)
Q, K, V, G = (UOp.param(slot, dtypes.float32, (8, 64, 32)) for slot in range(4))


def summed(number: int, size: int = 64) -> UOp:
    return UOp.range(size, 1000 + number, RangeKind.REDUCE)


def scores(i: UOp, j: UOp, d: UOp, a: UOp = Q, b: UOp = K) -> UOp:
    return (a.index(HEADS, i, d) * b.index(HEADS, j, d)).reduce(ops.ADD, ranges=(d,))


def softmax_times_values() -> UOp:
    j, jm, jl = summed(0), summed(1), summed(2)
    top = scores(ROW, jm, summed(3, 32)).reduce(ops.MAX, ranges=(jm,))
    total = (scores(ROW, jl, summed(4, 32)) - top).exp2().reduce(ops.ADD, ranges=(jl,))
    weights = (scores(ROW, j, summed(5, 32)) - top).exp2()
    return (weights * V.index(HEADS, j, E)).reduce(ops.ADD, ranges=(j,)) / total


def test_attention_is_a_chain_of_one_matrix_however_often_it_is_written() -> None:
    form = find_attention([softmax_times_values()])
    assert form is not None
    assert (form.rows, form.columns) == (ROW, E) and form.keys.size == 64
    assert (len(form.inner), len(form.statistics), len(form.products)) == (1, 2, 1)
    assert [statistic.op for statistic in form.statistics] == [ops.MAX, ops.ADD]
    assert form.statistics[1].value is form.products[0].p
    assert form.is_worth_blocks()


def test_a_product_with_the_matrix_turned_round_computes_nothing_again() -> None:
    j, k = summed(0), summed(1)
    queries = (scores(ROW, j, summed(2, 32)).exp2() * K.index(HEADS, j, E)).reduce(ops.ADD, ranges=(j,))
    keys = (scores(k, ROW, summed(3, 32)).exp2() * Q.index(HEADS, k, E)).reduce(ops.ADD, ranges=(k,))
    form = find_attention([queries, keys])
    assert form is not None
    assert (len(form.inner), len(form.products), len(form.transposed)) == (1, 1, 1)
    assert form.transposed[0].p is form.products[0].p
    both = find_attention([queries + keys])
    assert both is not None and not both.transposed and len(both.inner) == 2  # stored together, so computed together


def test_other_forms_are_none() -> None:
    j, d = summed(0), summed(1, 32)
    row = scores(ROW, j, d)
    assert find_attention([row]) is None
    assert find_attention([(Q.index(HEADS, ROW, j) * V.index(HEADS, j, E)).reduce(ops.ADD, ranges=(j,))]) is None
    by_row = (row * V.index(HEADS, j, E) * G.index(HEADS, ROW, E)).reduce(ops.ADD, ranges=(j,))
    assert find_attention([by_row]) is None
    assert find_attention([(row * V.index(HEADS, j, E)).reduce(ops.MAX, ranges=(j,))]) is None


def test_short_sides_are_not_worth_blocks() -> None:
    i, j, d = UOp.range(8, 1), summed(0), summed(1, 32)
    form = find_attention([(scores(i, j, d).exp2() * V.index(HEADS, j, E)).reduce(ops.ADD, ranges=(j,))])
    assert form is not None and not form.is_worth_blocks()


def test_the_factor_with_contractions_is_the_one_that_has_them_along_the_sum() -> None:
    j, k = summed(0), summed(2)
    of_row = G.index(HEADS, ROW, k).reduce(ops.ADD, ranges=(k,))
    row = scores(ROW, j, summed(1, 32))
    values = V.index(HEADS, j, E)
    assert find_attention([(of_row * row).reduce(ops.ADD, ranges=(j,))]) is None
    assert find_attention([((values * of_row) * row).reduce(ops.ADD, ranges=(j,))]) is None
    plain = find_attention([(values * row).reduce(ops.ADD, ranges=(j,))])
    assert plain is not None and plain.columns is E


def random_value(rng: Random, depth: int, ranges: tuple[UOp, ...]) -> UOp:
    """Sums, maxima and products of reads along any ranges that are open."""
    kind = rng.random()
    if depth == 0 or kind < 0.2:
        read = (rng.choice(ranges) for _ in range(2))
        return rng.choice((Q, K, V, G)).index(HEADS, *read)
    if kind < 0.6:
        along = summed(rng.randrange(1, 1 << 20), rng.choice((32, 64)))
        op = rng.choice((ops.ADD, ops.ADD, ops.ADD, ops.MAX))
        value = random_value(rng, depth - 1, (*ranges, along))
        return (value * random_value(rng, depth - 1, (*ranges, along))).reduce(op, ranges=(along,))
    left, right = (random_value(rng, depth - 1, ranges) for _ in range(2))
    return rng.choice((left * right, left + right, left * left))


def test_whatever_is_no_chain_is_none() -> None:
    rng = Random(1)
    values = [random_value(rng, 4, (ROW, E)) for _ in range(600)]
    found = [find_attention([value]) for value in values] + [
        find_attention(values[n : n + 2]) for n in range(0, 600, 2)
    ]
    assert any(form is not None for form in found) and any(form is None for form in found)


def test_a_depth_that_is_split_into_loops_is_as_deep() -> None:
    j, k, d, e = summed(0), summed(1), summed(2, 16), summed(3, 2)
    deep = UOp.param(4, dtypes.float32, (8, 64, 16, 2))
    split = (deep.index(HEADS, ROW, d, e) * deep.index(HEADS, j, d, e)).reduce(ops.ADD, ranges=(d, e))
    form = find_attention([(split.exp2() * V.index(HEADS, j, E)).reduce(ops.ADD, ranges=(j,))])
    assert form is not None and len(form.inner[0].along) == 2 and form.is_worth_blocks()
    shallow = (deep.index(HEADS, ROW, 0, e) * deep.index(HEADS, k, 0, e)).reduce(ops.ADD, ranges=(e,))
    form = find_attention([(shallow.exp2() * V.index(HEADS, k, E)).reduce(ops.ADD, ranges=(k,))])
    assert form is not None and not form.is_worth_blocks()
