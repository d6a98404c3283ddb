"""What forms of convolutions cost: Winograd's transforms, and sums over images in parts."""

from __future__ import annotations

from math import prod

from whit.kernel.cost import Cost
from whit.kernel.rates import CPU_RATES
from whit.kernel.tensor_cores import TILE_SIDE, WIDE_TILE_COLUMNS

# ---- Winograd's F(m x m, 3 x 3)

WINOGRAD_TILES = (2, 4)  # m: rows and columns of results that a tile has

KERNELS = 5  # in place of one

# Measured on two cores of Ice Lake (bench/results/2026-11-15-convolutions.md): how much more work is around a product,
# by m; how much longer the same products take without transforms; and what must be gained.
AROUND, DIRECT, LEAST_GAIN = {2: 1.0, 4: 1.3}, 1.2, 1.15


def best_winograd_tile(batch: int, inputs: int, outputs: int, groups: int, sizes: tuple[int, ...]) -> int:
    """The m that is estimated to be fastest; 0 where none is worth it. `inputs` is the channels of a group."""
    costs = {m: _winograd_cost(m, batch, inputs, outputs, groups, sizes) for m in WINOGRAD_TILES}
    best = min(WINOGRAD_TILES, key=lambda m: costs[m])
    direct = Cost(2 * 9 * batch * inputs * outputs * prod(sizes), launches=0).seconds(CPU_RATES)
    return best if costs[best] * LEAST_GAIN < DIRECT * direct else 0


def fastest_winograd_tile(batch: int, inputs: int, outputs: int, groups: int, sizes: tuple[int, ...]) -> int:
    """The m that is estimated to be fastest, whatever another way would cost."""
    return min(WINOGRAD_TILES, key=lambda m: _winograd_cost(m, batch, inputs, outputs, groups, sizes))


def _winograd_cost(m: int, batch: int, inputs: int, outputs: int, groups: int, sizes: tuple[int, ...]) -> float:
    """Seconds more than one kernel that does nothing."""
    points = (m + 2) ** 2
    tiles = batch * prod(-(-size // m) for size in sizes)
    elements_between = points * (tiles * (inputs * groups + outputs) + inputs * outputs)
    products = 2 * points * inputs * outputs * tiles
    multiplied = Cost(products, launches=0).seconds(CPU_RATES)
    moved = Cost(bytes_read=4 * elements_between, bytes_written=4 * elements_between, launches=0).seconds(CPU_RATES)
    return AROUND[m] * (multiplied + moved) + (KERNELS - 1) * CPU_RATES.launch_seconds


# The same of images with channels last and weights that are transformed once: what lies between kernels is in caches,
# by vectors of channels (56 x 56 x 64 3 x 3 on one core of Zen 4: 2.07 ms as written, 0.69 by tiles of 4).
CACHED_BYTES_PER_SECOND = 60e9
LAST_KERNELS, LAST_LAUNCH_SECONDS = 3, 4e-6  # more than one


def best_tile_of_kept_weights(batch: int, inputs: int, outputs: int, sizes: tuple[int, ...]) -> int:
    """The m that is estimated to be fastest where weights are kept; 0 where none is worth it."""
    costs = {m: _kept_cost(m, batch, inputs, outputs, sizes) for m in (0, *WINOGRAD_TILES)}
    best = min(WINOGRAD_TILES, key=lambda m: costs[m])
    return best if costs[best] * LEAST_GAIN < costs[0] else 0


def _kept_cost(m: int, batch: int, inputs: int, outputs: int, sizes: tuple[int, ...]) -> float:
    """Seconds by tiles of m; as written for 0. Weights are in no cache."""
    points = (m + 2) ** 2 if m else 9
    tiles = batch * prod(-(-size // max(m, 1)) for size in sizes)
    work = Cost(2 * points * inputs * outputs * tiles, bytes_read=0, bytes_written=0, launches=0).seconds(CPU_RATES)
    weights = 4 * points * inputs * outputs / CPU_RATES.bytes_per_second
    if not m:
        return work + weights
    between = 2 * 4 * points * tiles * (inputs + outputs) / CACHED_BYTES_PER_SECOND
    return work + weights + between + LAST_KERNELS * LAST_LAUNCH_SECONDS


# ---- gradients of weights, on matrix units

CHANNELS_TOGETHER = 64  # neighbours along a sum that matrix units read at once
COST_OF_STORE = 1.32e-3  # to store a tile and add it up, beside computing it for all images


def parts_of_images(batch: int, pixels: int, rows: int, columns: int, cores: int) -> int:
    """In how many parts, each of whole pieces, a sum over `batch` images is computed: rounds of tiles are full then."""
    tiles = -(-rows // TILE_SIDE) * -(-columns // WIDE_TILE_COLUMNS)
    whole = [n for n in range(1, batch + 1) if batch % n == 0 and batch // n * pixels % CHANNELS_TOGETHER == 0]

    def cost(parts: int) -> float:
        rounds = -(-tiles * parts // cores)
        return rounds / parts + COST_OF_STORE * tiles * parts / cores

    return min(whole or [1], key=cost)
