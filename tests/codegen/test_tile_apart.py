"""Contractions that share a kernel have tiles of their own, and give what they give alone."""

import numpy as np
import pytest

from whit import GlobalCounters, Tensor
from whit.codegen.passes.linearise import is_panel
from whit.codegen.strategy.tile_apart import tile_apart
from whit.dtype import dtypes
from whit.ir import ops
from whit.ir.args import RangeKind
from whit.ir.uop import UOp
from whit.target import host_target


def product(
    out: int,
    left: int,
    right: int,
    extra: UOp | None = None,
    sizes: tuple[int, int, int] = (64, 64, 64),
    scale: float | None = None,
) -> UOp:
    """A store of a matrix product, over flat params, with something added; what is scaled is not read where it is."""
    rows, columns, depth = sizes
    i, j = UOp.range(rows, 0), UOp.range(columns, 1)
    k = UOp.range(depth, 1000, RangeKind.REDUCE)
    a = UOp.param(left, dtypes.float32, (rows * depth,)).index(i * depth + k)
    a = a if scale is None else a * scale
    b = UOp.param(right, dtypes.float32, (depth * columns,)).index(k * columns + j)
    total = (a * b).reduce(ops.ADD, ranges=(k,))
    value = total if extra is None else total + extra.index(i * columns + j)
    return UOp.param(out, dtypes.float32, (rows * columns,)).store(value, i * columns + j)


def test_an_operand_in_common_is_copied_once() -> None:
    found = tile_apart(UOp.group(product(0, 2, 3, scale=2.0), product(1, 2, 4, scale=2.0)), host_target())
    assert found is not None
    body, reasons = found
    panels = [node for node in body.topological() if is_panel(node)]
    assert len(reasons) == 2
    assert len(panels) == 3
    alone = tile_apart(UOp.group(product(0, 2, 3, scale=2.0), product(1, 5, 4, scale=2.0)), host_target())
    assert alone is not None
    assert len([node for node in alone[0].topological() if is_panel(node)]) == 4


def test_what_the_first_may_overwrite_is_not_read_by_the_second() -> None:
    added = UOp.param(6, dtypes.float32, (64 * 64,))
    assert tile_apart(UOp.group(product(0, 2, 3, added), product(1, 2, 4)), host_target()) is not None
    assert tile_apart(UOp.group(product(0, 2, 3, added), product(1, 2, 4, added)), host_target()) is None


def test_other_kernels_are_tiled_as_one() -> None:
    assert tile_apart(UOp.group(product(0, 2, 3)), host_target()) is None
    assert tile_apart(UOp.group(product(0, 2, 3), product(1, 2, 4, sizes=(64, 64, 4))), host_target()) is None


def test_products_without_panels_are_tiled_apart_too() -> None:
    few_rows = (8, 300, 300)
    found = tile_apart(UOp.group(product(0, 2, 3, sizes=few_rows), product(1, 5, 4, sizes=few_rows)), host_target())
    assert found is not None
    assert [node for node in found[0].topological() if is_panel(node)] == []


@pytest.mark.parametrize("sizes", [(96, 72, 65), (70, 130, 33)], ids=str)
def test_products_of_one_matrix_are_one_kernel(sizes: tuple[int, int, int]) -> None:
    rows, columns, depth = sizes
    rng = np.random.default_rng(0)
    x, *others = (rng.standard_normal(shape, np.float32) for shape in ((rows, depth), *[(depth, columns)] * 3))
    tensors = [Tensor(a) for a in (x, *others)]
    products = [tensors[0] @ other for other in tensors[1:]]
    GlobalCounters.reset()
    Tensor.realize(*products)
    assert GlobalCounters.kernel_count == 1
    for found, other in zip(products, others, strict=True):
        np.testing.assert_allclose(found.numpy(), x @ other, atol=1e-4)


def test_weights_are_updated_in_place_by_products_in_one_kernel() -> None:
    rng = np.random.default_rng(1)
    x, y, a, b = (rng.standard_normal((80, 80), np.float32) for _ in range(4))
    left, right, first, second = (Tensor(value) for value in (x, y, a, b))
    first.assign(first + left @ right)
    second.assign(second * 2 + left @ left)
    Tensor.realize(first, second)
    np.testing.assert_allclose(first.numpy(), a + x @ y, atol=1e-4)
    np.testing.assert_allclose(second.numpy(), 2 * b + x @ x, atol=1e-4)


@pytest.mark.parametrize("kind", ["int8", "uint8"])
def test_products_of_bytes_share_a_kernel_as_words(kind: str) -> None:
    random = np.random.default_rng(0)
    x, *weights = (random.integers(0, 100, (64, 64)).astype(kind if i else "uint8") for i in range(3))
    rows = random.integers(0, 9, (64, 1)).astype(np.int32)
    wide = Tensor(x).realize().cast(dtypes.int32)
    added = Tensor(rows).realize()
    found = [wide @ (Tensor(w).realize() ^ 1).bitcast(dtypes.int8).cast(dtypes.int32) + added for w in weights]
    GlobalCounters.reset()
    Tensor.realize(*found)
    assert GlobalCounters.kernel_count == 1
    for result, w in zip(found, weights, strict=True):
        assert (result.numpy() == x.astype(int) @ (w ^ 1).view(np.int8).astype(int) + rows).all()
