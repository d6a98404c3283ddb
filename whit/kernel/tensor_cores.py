"""What tensor cores take, and from which size on a product is worth it: what schedule and codegen both go by.

The schedule stores operands, splits depths and ends kernels so that a kernel has the form that a code generator has
tiles for. Both ask here, so that neither guesses what the other does.
"""

from __future__ import annotations

from whit.dtype import dtypes
from whit.target import GPU_LIMITS

FP8S = (dtypes.fp8e4m3, dtypes.fp8e5m2)
BYTES = (*FP8S, dtypes.int8, dtypes.uint8)  # whose operands tensor cores read along the depth

# Numbers are multiply-adds of a product, rows and columns of its result, and bytes.
LARGE_PRODUCT = 1 << 30  # multiply-adds from which on one kernel more costs next to nothing
LEAST_USES = 128  # of an element worth storing: 4 bytes take 1 ps, 700 instead of 220 TFLOP/s save 6 fs a use
SMALL_PRODUCT = 1 << 20  # multiply-adds from which on a product is worth tiles
SKINNY_ROWS = (2, 64)  # rows beside a large matrix whose blocks share the depth (skinny GEMM, split-k): one row is GEMV
SKINNY_COLUMNS = 512  # columns beside them, at least
LEAST_TILE_ROWS = 17  # rows, or columns, below which a tile is mostly empty
TILE_SIDE = 128  # rows and columns of a tile that keeps a multiprocessor busy
WIDE_TILE_COLUMNS = 192  # beside as many rows, where there is room for more sums
COPY_BYTES = GPU_LIMITS.access_bytes  # the copy engine wants rows at multiples of it
