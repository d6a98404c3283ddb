"""Prints how accurate, how long and how fast the expansions of whit/codegen/math/expand.py are.

    python bench/ulp.py                 # every 101st float32, 200,000 float64 a region; some minutes
    python bench/ulp.py sin log2        # only these
    python bench/ulp.py --all sin       # every float32, in blocks: minutes a function

Columns: the function, the dtype, operations (nodes that are no constants and no bitcasts), the largest error in ulps
and the arguments where it is, nanoseconds an element of the compiled loop on one core, with arrays in the cache.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests"))

from codegen.accuracy import (
    HAS_EXTENDED,
    REFERENCES,
    compiled,
    every_float32,
    expanded,
    float64_inputs,
    pow_inputs,
    worst,
)

from whit.dtype import DType, dtypes
from whit.ir import ops

BLOCK = 1 << 24


def inputs(name: str, dtype: DType, every: bool) -> Iterator[tuple[np.ndarray, ...]]:
    """Blocks of arguments."""
    if name == "pow":
        yield pow_inputs(dtype, 4_000_000 if dtype is dtypes.float32 else 200_000)
    elif dtype is dtypes.float64:
        yield (float64_inputs(3_000 if name == "erf" else 200_000),)
    elif every:
        for start in range(0, 2**32, BLOCK):
            yield (np.arange(start, start + BLOCK, dtype=np.uint64).astype(np.uint32).view(np.float32),)
    else:
        yield (every_float32(10007 if name == "erf" else 101),)


def operations(name: str, dtype: DType) -> int:
    nodes = expanded(name, dtype)[0].topological()
    return sum(node.op not in (ops.CONST, ops.PARAM, ops.BITCAST) for node in nodes)


def nanoseconds(name: str, dtype: DType) -> float:
    """The best of several runs over 16,384 ordinary numbers."""
    function = compiled(name, dtype)
    random = np.random.default_rng(0)
    arrays = [random.uniform(0.1, 9, 1 << 14) for _ in range(2 if name == "pow" else 1)]
    typed = [a.astype(dtype.name) for a in arrays]
    best = np.inf
    for _ in range(200):
        start = time.perf_counter()
        function(*typed)
        best = min(best, time.perf_counter() - start)
    return best / (1 << 14) * 1e9


def main() -> None:
    every = "--all" in sys.argv
    wanted = [a for a in sys.argv[1:] if a in REFERENCES] or list(REFERENCES)
    print(f"{'function':9} {'dtype':8} {'operations':>10} {'ulps':>7} {'ns':>6}  worst at")
    for dtype in (dtypes.float32, dtypes.float64):
        if dtype is dtypes.float64 and not HAS_EXTENDED:
            print("no float wider than float64 here: float64 cannot be measured")
            return
        for name in wanted:
            error, place = max(worst(name, dtype, *arrays) for arrays in inputs(name, dtype, every))
            where = ", ".join(f"{x!r}" for x in place)
            speed = nanoseconds(name, dtype)
            print(
                f"{name:9} {dtype.name:8} {operations(name, dtype):10} {error:7.3f} {speed:6.2f}  {where}", flush=True
            )


if __name__ == "__main__":
    main()
