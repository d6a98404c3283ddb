"""Kernels of sums of products, as both layouts of GEMV look at them.

y[m, n] = relu(sum over k of w[n, k] * x[m, k])        m < 2, n < 4096

->  results   m, n          regions   the sum -> loads of w and x
    rows      n             the ranges that the matrix w depends on
    batch     m             the others: what is read of w is used for all of them
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from math import prod

from whit.codegen.gpu.thread_index import Free
from whit.ir import ops
from whit.ir.uop import UOp
from whit.kernel.ranges import Region, free_ranges, in_order, ordered_ranges, regions, sizes_of

OF_OTHER_KERNELS = (ops.SCAN, ops.SORT, ops.STAGE)


@dataclass(frozen=True, slots=True)
class Products:
    """The reductions of a kernel: none is inside of another, and every store is over all ranges of the results."""

    free: Free
    results: frozenset[UOp]
    regions: dict[UOp, Region]  # REDUCE -> what it reads

    @property
    def matrices(self) -> dict[UOp, UOp]:
        """REDUCE -> the load of its matrix."""
        return {reduce: matrix_of(region, self.free) for reduce, region in self.regions.items()}

    @property
    def rows(self) -> set[UOp]:
        """The ranges of results that matrices depend on."""
        return {r for matrix in self.matrices.values() for r in self.free[matrix] if r in self.results}

    @property
    def batch(self) -> list[UOp]:
        """The ranges of results that read the same elements of matrices."""
        return in_order(self.results - self.rows)

    def along(self, choose: Callable[[Region], UOp | None]) -> dict[UOp, UOp]:
        """REDUCE -> the range of it that is chosen for threads to share; nothing if there is none of one of them."""
        chosen = {reduce: choose(region) for reduce, region in self.regions.items()}
        known = {reduce: r for reduce, r in chosen.items() if r is not None}
        return known if len(known) == len(chosen) else {}


def find_products(body: UOp) -> Products | None:
    """The products of a kernel, if all that it stores is made of them."""
    free = free_ranges(body)
    results = free[body]
    found = {region.reduce: region for region in regions(body)[1:] if region.reduce is not None}
    if not found or any(node.op in OF_OTHER_KERNELS for node in free):
        return None
    if any(store.arg.combine or free[store] != results for store in body.src) or ordered_ranges(body, free):
        return None
    is_of_memory = all(region.loads and free[reduce] <= results for reduce, region in found.items())
    return Products(free, results, found) if is_of_memory else None


def matrix_of(region: Region, free: Free) -> UOp:
    """What a product reads most of."""
    return max(region.loads, key=lambda load: prod(sizes_of(free[load])))
