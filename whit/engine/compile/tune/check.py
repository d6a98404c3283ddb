"""Whether a kernel computes what it should: on random inputs, on nasty ones, and on whole numbers.

    check = Check(body, reference)          `reference` fills the memory as it should be
    check.problem(kernel)                   "" or what is wrong

The reference is the interpreter for a small kernel; for a larger one the program without optimisation; for the largest
the default program. Integers have to be equal, also at the ends of their range. Floats may differ by rounding, which
other orders of a sum cause; NaN and infinities have to be where they are in the reference. Where sums are of products
and the like, small whole numbers are tried too: their sums are exact in any order, so nothing may differ. What is not
written must stay."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from whit.dtype import DType
from whit.engine.compile.tune.alone import Alone
from whit.engine.compile.tune.task import Runnable
from whit.ir import ops
from whit.ir.interpret import numpy_dtype
from whit.ir.uop import UOp

NASTY = 6  # places of an array that get a nasty value, at most one of sixteen: results that are not NaN are left
SAMPLE_ELEMENTS = 1 << 14  # elements whose median is the usual size of a result
ROOM_ULPS = 16.0  # units in the last place that any two programs may differ by
LARGEST_WHOLE_NUMBER = 2  # the largest of whole numbers: sums of a million products of two are exact in float32
_EXACT = (ops.INDEX, ops.LOAD, ops.PARAM, ops.ADD, ops.SUB, ops.MUL, ops.NEG, ops.ABS, ops.MAX, ops.MIN, ops.WHERE)


class Check:
    """Inputs of two kinds, and what they should give."""

    def __init__(self, body: UOp, alone: Alone, reference: Callable[[Alone], None]) -> None:
        self.alone = alone
        self._cases: list[tuple[str, dict[int, Any], dict[int, Any]]] = []
        folds = any(node.op in (ops.REDUCE, ops.SCAN) for node in body.topological())
        rounded = tolerance(body)
        self._tolerances = {"random": rounded, "nasty": rounded}
        if folds and sums_are_exact(body):
            self._tolerances["whole"] = tolerance(body, is_exact=True)
        for kind in self._tolerances:
            inputs = {slot: values(param, kind, folds, slot) for slot, param in alone.params.items()}
            alone.fill(inputs)
            reference(alone)
            wanted = {slot: alone.arrays[slot].copy() for slot in alone.written}
            self._cases.append((kind, inputs, wanted))

    def problem(self, kernel: Runnable) -> str:
        """What a kernel gets wrong; nothing if it is right."""
        for kind, inputs, wanted in self._cases:
            self.alone.fill(inputs)
            self.alone.run(kernel)
            for slot, expected in wanted.items():
                found = difference(self.alone.arrays[slot], expected, self._tolerances[kind])
                if found:
                    return f"on {'whole numbers' if kind == 'whole' else f'{kind} inputs'}: result {slot} {found}"
        return ""

    def fill(self) -> None:
        """Random inputs again, to measure on."""
        self.alone.fill(self._cases[0][1])


def tolerance(body: UOp, is_exact: bool = False) -> float:
    """How far results may be apart, as a part of them: by rounding in other orders of the longest sum."""
    floats = [node.dtype for node in body.topological() if node.dtype.is_float]
    unit = max((2.0 ** -(dtype.mantissa_bits + 1) for dtype in floats), default=0.0)
    ranges = [node.src[1:] for node in body.topological() if node.op in (ops.REDUCE, ops.SCAN)]
    terms = max((math.prod(r.size for r in group if isinstance(r.size, int)) for group in ranges), default=1)
    return unit * ROOM_ULPS * (1 if is_exact else 1 + math.sqrt(terms))


def sums_are_exact(body: UOp) -> bool:
    """Whether all that is reduced is whole, if inputs are."""
    for node in body.topological():
        if node.op in (ops.REDUCE, ops.SCAN) and node.dtype.is_float:
            stack, seen = [node.src[0]], {node.src[0]}
            while stack:
                value = stack.pop()
                is_whole = value.op is ops.CONST and float(value.arg).is_integer()
                is_cast = value.op is ops.CAST and value.dtype.is_float and value.src[0].dtype.is_float
                if not (is_whole or is_cast or value.op in _EXACT):
                    return False
                parts = value.src[1:] if value.op is ops.WHERE else value.src
                fresh = [s for s in parts if s.dtype.is_float and s not in seen]
                seen.update(fresh)
                stack.extend(fresh)
    return True


def values(param: UOp, kind: str, folds: bool, seed: int) -> Any:
    """Inputs for a param. A single number is a constant of the program, and stays harmless."""
    rng = np.random.default_rng(seed)
    drawn: Any
    shape, dtype = tuple(int(size) for size in param.shape), param.dtype
    if dtype.is_float and kind == "whole":
        drawn = rng.integers(-LARGEST_WHOLE_NUMBER, LARGEST_WHOLE_NUMBER + 1, shape) if shape else 1.0
    elif dtype.is_float:
        drawn = rng.standard_normal(shape) if shape else rng.uniform(0.5, 2.0, shape)
    elif dtype.name == "bool":
        drawn = rng.integers(0, 2, shape)
    else:
        drawn = rng.integers(0, 100, shape) - (0 if dtype.is_unsigned else 50)
    result = np.asarray(drawn).astype(numpy_dtype(dtype))
    if kind == "nasty" and result.size > 1:
        flat = result.reshape(-1)
        bad = nasty(dtype, folds)
        count = max(min(NASTY, flat.size // 16), 1)
        places = (
            rng.choice(flat.size, count, replace=False) if flat.size < 1 << 20 else rng.integers(0, flat.size, count)
        )
        for place, value in zip(places, np.resize(np.array(bad, result.dtype), count), strict=True):
            flat[place] = value
    return result


def nasty(dtype: DType, folds: bool) -> list[Any]:
    """Values that go wrong first. In a sum, the largest floats overflow in one order and not in another."""
    if dtype.is_float:
        special = [math.nan, math.inf, -0.0, -math.inf, 0.0, 2.0 ** (-dtype.bias)]
        return special if folds else [*special, 2.0 ** (dtype.bias - 1)]
    if dtype.name == "bool":
        return [True, False]
    return [dtype.max, dtype.min, 0, 1]


def difference(found: Any, wanted: Any, tolerance: float) -> str:
    """How an array differs from what it should be; nothing if it does not."""
    if found.dtype.kind in "iub":
        return "" if np.array_equal(found, wanted) else _place(found != wanted, found, wanted)
    with np.errstate(all="ignore"):
        x, y = found.astype(np.float64), wanted.astype(np.float64)
        is_finite = np.isfinite(y)
        size = np.abs(y, where=is_finite, out=np.zeros_like(y))
        sample = size.reshape(-1)[:: -(-max(size.size, 1) // SAMPLE_ELEMENTS)]
        sample = sample[sample > 0]  # of a relu, half are 0: what they were made of is as large as the others
        usual = float(np.median(sample)) if sample.size else 0.0
        far = ~(np.abs(x - y) <= tolerance * (size + 8 * usual)) & is_finite
        other = ~is_finite & (x != y) & ~(np.isnan(x) & np.isnan(y))
    wrong = far | other
    return _place(wrong, found, wanted) if wrong.any() else ""


def _place(wrong: Any, found: Any, wanted: Any) -> str:
    place = tuple(int(i) for i in np.argwhere(wrong)[0])
    return f"is {found[place]} in place of {wanted[place]} at {place}, and wrong in {int(wrong.sum())} places"
