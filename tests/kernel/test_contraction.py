"""Sums of products: what they are, and how large."""

import pytest
from schedule.build import matmul, param, relu, scheduled

from whit.dtype import dtypes
from whit.ir import ops
from whit.ir.graph import topological
from whit.ir.uop import UOp
from whit.kernel.contraction import Product, ProductSizes, distinct, find_contractions, find_product


def product_of(value: UOp) -> Product:
    found = find_product(value)
    assert found is not None, "every value of these tests is a product"
    return found


def kernel(value: UOp) -> UOp:
    (call,) = scheduled(value).src
    return call.src[0].src[0]


def test_a_product_of_matrices_has_rows_columns_and_a_depth() -> None:
    a, b = param(0, 16, 8), param(1, 8, 4)
    assert product_of(matmul(a, b)).sizes == ProductSizes(4, 16, 8, 1, products=512, results=64)
    assert product_of(matmul(b.permute((1, 0)), a.permute((1, 0)))).sizes == product_of(matmul(a, b)).sizes


def test_rows_and_columns_of_a_batch_count_together() -> None:
    left = param(0, 3, 16, 8).reshape((3, 16, 1, 8)).expand((3, 16, 4, 8))
    right = param(1, 3, 4, 8).reshape((3, 1, 4, 8)).expand((3, 16, 4, 8))
    batch = product_of((left * right).reduce(ops.ADD, (3,)))
    assert batch.sizes == ProductSizes(3 * 4, 3 * 16, 8, 1, products=3 * 512, results=3 * 64)


def test_results_beyond_rows_and_columns_are_of_repeated_operands() -> None:
    left = param(0, 16, 8).reshape((1, 16, 1, 8)).expand((5, 16, 4, 8))
    right = param(1, 4, 8).reshape((1, 1, 4, 8)).expand((5, 16, 4, 8))
    repeated = product_of((left * right).reduce(ops.ADD, (3,)))
    assert repeated.sizes == ProductSizes(4, 16, 8, 5, products=5 * 512, results=5 * 64)


def test_what_a_view_repeats_counts_once() -> None:
    x = param(0, 8, 4, dtype=dtypes.float16)
    assert distinct(x.reshape((8, 1, 4)).expand((8, 100, 4)).cast(dtypes.float32)) == 32
    assert distinct(x.shrink([(0, 2), (0, 4)])) == 8


@pytest.mark.parametrize(
    "value",
    [
        param(0, 8, 4),
        param(0, 8, 4).reduce(ops.ADD, (1,)),
        (param(0, 8, 4) * param(1, 8, 4)).reduce(ops.MAX, (1,)),
        relu(matmul(param(0, 8, 4), param(1, 4, 8))),
    ],
    ids=["memory", "sum", "largest product", "after a product"],
)
def test_what_is_no_product(value: UOp) -> None:
    assert find_product(value) is None


def test_nothing_is_known_of_a_product_of_no_elements() -> None:
    assert product_of((param(0, 0, 4) * param(1, 0, 4)).reduce(ops.ADD, (1,))).sizes is None


def test_a_kernel_has_the_product_that_its_graph_had() -> None:
    body = kernel(relu(matmul(param(0, 16, 8), param(1, 8, 4))))
    (product,) = filter(None, map(find_product, topological((body,))))
    either = find_contractions(body)
    assert [{found.a, found.b} for found in either] == [set(product.operands)] * 2
    assert [found.reduce for found in either] == [product.reduce] * 2
