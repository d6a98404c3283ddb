"""What Hypothesis draws for a call of each function of the standard: arguments as NumPy arrays.

Shapes are few, so that kernels are made once; values are small, so that sums are exact.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from hypothesis import strategies as st

from arrays.strict import ALL, COMPLEX, FLOATS, NUMERIC, REAL

SHAPES = [(), (1,), (3,), (0,), (2, 3), (3, 1), (2, 0, 3), (2, 3, 2)]
WITH_AXES = [shape for shape in SHAPES if shape]
MATRICES = [(3, 3), (2, 3, 3), (0, 2, 2), (1, 1)]
TALL = [(2, 3), (3, 2), (3, 3), (2, 3, 2)]
FLOATING = FLOATS + COMPLEX

Draw = Callable[..., Any]
Call = tuple[tuple[Any, ...], dict[str, Any]]


def array_of(
    draw: Draw, shape: tuple[int, ...], dtype: str, low: int = -3, high: int = 3, specials: bool = False
) -> Any:
    """Numbers of a dtype."""
    if dtype == "bool":
        low, high = 0, 1
    elif dtype.startswith("uint"):
        low, high = max(low, 0), max(high, 1)
    count = int(np.prod(shape))
    numbers: Any = st.integers(low, high)
    if specials and dtype in FLOATS:
        numbers = numbers | st.sampled_from([np.nan, np.inf, -np.inf])
    values = draw(st.lists(numbers, min_size=count, max_size=count))
    array = np.array(values, dtype).reshape(shape)
    if dtype in COMPLEX:
        return np.asarray(array + array.dtype.type(1j) * np.roll(array.reshape(-1), 1).reshape(shape))
    return array


def some(draw: Draw, dtypes: tuple[str, ...] = ALL, shapes: Any = None, **given: Any) -> Any:
    """An array."""
    shape = draw(st.sampled_from(SHAPES if shapes is None else shapes))
    return array_of(draw, shape, draw(st.sampled_from(dtypes)), **given)


def axis_of(draw: Draw, x: Any) -> int:
    return draw(st.integers(-x.ndim, x.ndim - 1))


def axes_of(draw: Draw, x: Any) -> Any:
    """None, one axis, or several."""
    several = st.lists(st.integers(0, max(x.ndim - 1, 0)), unique=True, max_size=x.ndim)
    choices = [st.none(), several.map(tuple)]
    return draw(st.one_of(*choices, st.integers(-x.ndim, x.ndim - 1)) if x.ndim else st.sampled_from([None, ()]))


def keeps(draw: Draw) -> bool:
    return draw(st.booleans())


def several(draw: Draw, shapes: Any = WITH_AXES) -> list[Any]:
    """Arrays of one shape, whose dtypes have a common one."""
    shape = draw(st.sampled_from(shapes))
    dtypes = draw(st.sampled_from([("int8", "int16"), ("float32", "float64"), ("uint8", "int32"), ("bool", "bool")]))
    return [array_of(draw, shape, dtype) for dtype in dtypes]


def fitting(draw: Draw, x: Any) -> Any:
    """A shape that one broadcasts to."""
    lead = draw(st.sampled_from([(), (2,), (0,)]))
    return (*lead, *(draw(st.integers(1, 3)) if size == 1 else size for size in x.shape))


# ---- reductions


def reducing(dtypes: tuple[str, ...], empty: bool = True, **more: Any) -> Any:
    def draw_call(draw: Draw) -> Call:
        x = some(draw, dtypes, None if empty else [(), (1,), (3,), (2, 3), (2, 3, 2)], **more)
        return (x,), {"axis": axes_of(draw, x), "keepdims": keeps(draw)}

    return draw_call


def deviating(draw: Draw) -> Call:
    x = some(draw, FLOATS, [(3,), (2, 3), (2, 3, 2)])
    return (x,), {"axis": axes_of(draw, x) or None, "correction": draw(st.sampled_from([0, 1, 0.5]))}


def positioning(draw: Draw) -> Call:
    x = some(draw, REAL, [(1,), (3,), (2, 3), (2, 3, 2)], specials=True)
    axis = draw(st.none() | st.just(axis_of(draw, x)))
    return (x,), {"axis": axis, "keepdims": keeps(draw)}


def running(draw: Draw) -> Call:
    x = some(draw, NUMERIC, [(1,), (3,), (0,), (2, 3), (2, 3, 2)], low=-2, high=2)
    axis = axis_of(draw, x) if x.ndim > 1 else None
    dtype = draw(st.sampled_from([None, np.dtype("float64")])) if x.dtype.kind != "c" else None
    return (x,), {"axis": axis, "include_initial": keeps(draw), "dtype": dtype}


def differing(draw: Draw) -> Call:
    x = some(draw, NUMERIC, [(1,), (3,), (2, 3), (2, 3, 2)])
    given: dict[str, Any] = {"axis": axis_of(draw, x), "n": draw(st.integers(1, 2))}
    if draw(st.booleans()):
        given["prepend"] = x
    return (x,), given


# ---- order and sets


def ordering(draw: Draw) -> Call:
    x = some(draw, REAL, WITH_AXES)
    return (x,), {"axis": axis_of(draw, x), "descending": draw(st.booleans())}


def alone(dtypes: tuple[str, ...] = ALL, shapes: Any = None, **more: Any) -> Any:
    return lambda draw: ((some(draw, dtypes, shapes, **more),), {})


def seeking(draw: Draw) -> Call:
    dtype = draw(st.sampled_from(REAL))
    row = np.sort(array_of(draw, (5,), dtype))
    values = array_of(draw, draw(st.sampled_from([(3,), (2, 3), (0,)])), dtype)
    given: dict[str, Any] = {"side": draw(st.sampled_from(["left", "right"]))}
    if draw(st.booleans()):
        given["sorter"] = np.arange(5)
    return (row, values), given


def choosing(draw: Draw) -> Call:
    shape = draw(st.sampled_from(SHAPES))
    left = array_of(draw, shape, "float32")
    right = draw(st.sampled_from([2.5, 1, array_of(draw, shape, "float64")]))
    return (array_of(draw, shape, "bool"), *draw(st.sampled_from([(left, right), (right, left)]))), {}


# ---- positions


def taking(draw: Draw) -> Call:
    x = some(draw, ALL, [(3,), (2, 3), (2, 3, 2)])
    axis = axis_of(draw, x)
    places = draw(st.lists(st.integers(-x.shape[axis], x.shape[axis] - 1), max_size=4))
    return (x, np.array(places, draw(st.sampled_from(["int32", "int64", "int8"])))), {"axis": axis}


def taking_along(draw: Draw) -> Call:
    x = some(draw, ALL, [(3,), (2, 3), (2, 3, 2)])
    axis = axis_of(draw, x)
    shape = list(x.shape)
    shape[axis] = draw(st.integers(0, 3))
    size = x.shape[axis]
    return (x, array_of(draw, tuple(shape), "int64", low=-size, high=size - 1)), {"axis": axis}


# ---- movement


def along(*more: str) -> Any:
    """An array and one of its axes."""

    def draw_call(draw: Draw) -> Call:
        x = some(draw, ALL, WITH_AXES)
        return (x,), {"axis": axis_of(draw, x)}

    return draw_call


def joining(draw: Draw) -> Call:
    arrays = several(draw)
    return (arrays,), {"axis": draw(st.sampled_from([None, axis_of(draw, arrays[0])]))}


def stacking(draw: Draw) -> Call:
    arrays = several(draw, SHAPES)
    return (arrays,), {"axis": draw(st.integers(-arrays[0].ndim - 1, arrays[0].ndim))}


def moving(draw: Draw) -> Call:
    x = some(draw, ALL, [(2, 3), (2, 3, 2), (3, 1)])
    if draw(st.booleans()):
        return (x, axis_of(draw, x), axis_of(draw, x)), {}
    order = draw(st.permutations(range(x.ndim)))
    return (x, tuple(range(x.ndim)), tuple(order)), {}


def permuting(draw: Draw) -> Call:
    x = some(draw)
    return (x, tuple(draw(st.permutations(range(x.ndim))))), {}


def repeating(draw: Draw) -> Call:
    x = some(draw, ALL, [(3,), (1,), (2, 3), (0,)])
    axis = draw(st.sampled_from([None, *range(-x.ndim, x.ndim)]))
    size = x.size if axis is None else x.shape[axis]
    counts = draw(st.lists(st.integers(0, 3), min_size=size, max_size=size))
    return (x, draw(st.sampled_from([2, 0, np.array(counts, "int64")]))), {"axis": axis}


def reshaping(draw: Draw) -> Call:
    x = some(draw)
    whole = x.size
    shape = draw(st.sampled_from([(whole,), (-1,), (1, whole), x.shape[::-1]]))
    return (x, shape), {"copy": draw(st.sampled_from([None, True]))}


def rolling(draw: Draw) -> Call:
    x = some(draw)
    if draw(st.booleans()) or not x.ndim:
        return (x, draw(st.integers(-4, 4))), {}
    axes = tuple(draw(st.permutations(range(x.ndim))))
    return (x, tuple(draw(st.integers(-4, 4)) for _ in axes)), {"axis": axes}


def squeezing(draw: Draw) -> Call:
    x = some(draw, ALL, [(1,), (3, 1), (1, 2, 1)])
    ones = [axis for axis, size in enumerate(x.shape) if size == 1]
    return (x, draw(st.sampled_from([ones[0], tuple(ones), ones[-1] - x.ndim]))), {}


def tiling(draw: Draw) -> Call:
    return (some(draw), tuple(draw(st.lists(st.integers(0, 3), max_size=4)))), {}


def flipping(draw: Draw) -> Call:
    x = some(draw)
    return (x,), {"axis": axes_of(draw, x)}


def expanding(draw: Draw) -> Call:
    x = some(draw)
    return (x,), {"axis": draw(st.integers(-x.ndim - 1, x.ndim))}


def broadcasting(draw: Draw) -> Call:
    x = some(draw)
    return (x, fitting(draw, x)), {}


def broadcasting_all(draw: Draw) -> Call:
    x = some(draw)
    return (x, array_of(draw, fitting(draw, x), "int8")), {}


# ---- creation


def counting(draw: Draw) -> Call:
    dtype = draw(st.sampled_from([None, *map(np.dtype, REAL)]))
    low, high, step = draw(st.tuples(st.integers(0, 5), st.integers(0, 20), st.integers(1, 4)))
    if dtype is not None and dtype.kind == "f":
        return (low + 0.5, high + 0.25, step * 0.5), {"dtype": dtype}
    if draw(st.booleans()):
        return (high,), {"dtype": dtype}
    return (low, high, step), {"dtype": dtype}


def lining(draw: Draw) -> Call:
    ends = st.integers(-5, 5)
    dtype = draw(st.sampled_from([None, *map(np.dtype, FLOATS)]))
    return (draw(ends), draw(ends), draw(st.integers(0, 6))), {"endpoint": draw(st.booleans()), "dtype": dtype}


def diagonal(draw: Draw) -> Call:
    dtype = draw(st.sampled_from([None, *map(np.dtype, NUMERIC)]))
    return (draw(st.integers(0, 3)), draw(st.sampled_from([None, 2, 4]))), {
        "k": draw(st.integers(-3, 3)),
        "dtype": dtype,
    }


def filling(draw: Draw) -> Call:
    value = draw(st.sampled_from([0, 1, 7, True, 0.5, np.inf]))
    return (draw(st.sampled_from([*SHAPES, 3])), value), {}


def constant(draw: Draw) -> Call:
    return (draw(st.sampled_from([*SHAPES, 3])),), {"dtype": draw(st.sampled_from([None, *map(np.dtype, ALL)]))}


def like(draw: Draw) -> Call:
    return (some(draw),), {"dtype": draw(st.sampled_from([None, *map(np.dtype, ALL)]))}


def like_filled(draw: Draw) -> Call:
    return (some(draw, REAL), 1), {}


def crossing_rows(draw: Draw) -> Call:
    dtype = draw(st.sampled_from(NUMERIC))
    rows = [array_of(draw, (size,), dtype) for size in draw(st.lists(st.integers(0, 3), min_size=1, max_size=3))]
    return tuple(rows), {"indexing": draw(st.sampled_from(["xy", "ij"]))}


def triangle(draw: Draw) -> Call:
    return (some(draw, NUMERIC, [(2, 3), (2, 3, 2), (3, 1)]),), {"k": draw(st.integers(-3, 3))}


def casting(draw: Draw) -> Call:
    x = some(draw, ("bool", *REAL), low=0)
    return (x, np.dtype(draw(st.sampled_from(ALL)))), {"copy": draw(st.booleans())}


def bounding(draw: Draw) -> Call:
    x = some(draw, REAL)
    number = 1 if x.dtype.kind in "iu" else 0.5
    low, high = (draw(st.sampled_from([None, number, array_of(draw, x.shape, x.dtype.name)])) for _ in range(2))
    if low is not None and high is not None:
        high = np.maximum(low, high).astype(x.dtype)
        high = high.item() if isinstance(low, int | float) and not high.ndim else high
    return (x, low, high), {}


# ---- matrices


def multiplying(draw: Draw) -> Call:
    shapes = [((3,), (3,)), ((2, 3), (3,)), ((3,), (3, 2)), ((2, 3), (3, 4)), ((2, 2, 3), (3, 2)), ((0, 3), (3, 2))]
    left, right = draw(st.sampled_from(shapes))
    dtype = draw(st.sampled_from(NUMERIC))
    return (array_of(draw, left, dtype), array_of(draw, right, dtype)), {}


def contracting(draw: Draw) -> Call:
    dtype = draw(st.sampled_from(NUMERIC))
    left, right = array_of(draw, (2, 3, 4), dtype), array_of(draw, (3, 4, 2), dtype)
    return (left, right), {"axes": draw(st.sampled_from([2, ((1, 2), (0, 1)), ((0,), (2,)), ((-1,), (1,))]))}


def dotting(draw: Draw) -> Call:
    dtype = draw(st.sampled_from(NUMERIC))
    shapes = [((3,), (3,), -1), ((2, 3), (3,), -1), ((2, 3), (2, 3), -2), ((3, 1), (3, 2), -2)]
    left, right, axis = draw(st.sampled_from(shapes))
    return (array_of(draw, left, dtype), array_of(draw, right, dtype)), {"axis": axis}


def outward(draw: Draw) -> Call:
    dtype = draw(st.sampled_from(NUMERIC))
    return (array_of(draw, (3,), dtype), array_of(draw, (2,), dtype)), {}


def upright(draw: Draw) -> Call:
    dtype = draw(st.sampled_from(NUMERIC))
    shapes = [((3,), (3,), -1), ((2, 3), (2, 3), -1), ((2, 3), (3,), -1), ((3, 2), (3, 2), -2)]
    left, right, axis = draw(st.sampled_from(shapes))
    return (array_of(draw, left, dtype), array_of(draw, right, dtype)), {"axis": axis}


def part_of_matrix(draw: Draw) -> Call:
    return (some(draw, NUMERIC, [(2, 3), (2, 3, 2), (3, 3)]),), {"offset": draw(st.integers(-3, 3))}


def well(draw: Draw, shapes: Any = MATRICES, dtypes: tuple[str, ...] = FLOATING) -> Any:
    """Matrices that are far from singular."""
    x = some(draw, dtypes, shapes)
    rows, columns = x.shape[-2:]
    return x + (10 * np.eye(rows, columns)).astype(x.dtype)


def definite(draw: Draw) -> Any:
    x = well(draw)
    return np.conj(np.swapaxes(x, -1, -2)) @ x


def vector_norms(draw: Draw) -> Call:
    x = some(draw, FLOATING, [(3,), (2, 3), (2, 3, 2)])
    orders = st.sampled_from([1, 2, 3, 0, np.inf, -np.inf, 0.5])
    return (x,), {"axis": axes_of(draw, x) or None, "keepdims": keeps(draw), "ord": draw(orders)}


def matrix_norms(draw: Draw) -> Call:
    orders = st.sampled_from([1, -1, 2, -2, np.inf, -np.inf, "fro", "nuc"])
    return (some(draw, FLOATING, TALL),), {"keepdims": keeps(draw), "ord": draw(orders)}


def solving(draw: Draw) -> Call:
    dtype = draw(st.sampled_from(FLOATING))
    shapes = [((3, 3), (3,)), ((3, 3), (3, 2)), ((2, 3, 3), (3, 2)), ((3, 3, 3), (3, 3)), ((3, 3), (2, 3, 1))]
    left, right = draw(st.sampled_from(shapes))
    return (well(draw, [left], (dtype,)), array_of(draw, right, dtype)), {}


def powering(draw: Draw) -> Call:
    return (well(draw), draw(st.integers(-2, 3))), {}


# ---- transforms


def transforming(dtypes: tuple[str, ...], least: int = 1) -> Any:
    def draw_call(draw: Draw) -> Call:
        x = some(draw, dtypes, [(4,), (3,), (2, 4)])
        norm = draw(st.sampled_from(["backward", "ortho", "forward"]))
        return (x,), {"n": draw(st.sampled_from([None, least + 2, 4])), "axis": axis_of(draw, x), "norm": norm}

    return draw_call


def transforming_all(dtypes: tuple[str, ...]) -> Any:
    def draw_call(draw: Draw) -> Call:
        x = some(draw, dtypes, [(4,), (2, 4), (3, 4)])
        axes = draw(st.sampled_from([None, tuple(range(x.ndim))]))
        sizes = draw(st.sampled_from([None, tuple(size + 1 for size in x.shape)])) if axes is not None else None
        return (x,), {"axes": axes, "s": sizes, "norm": draw(st.sampled_from(["backward", "ortho", "forward"]))}

    return draw_call


def frequencies(draw: Draw) -> Call:
    return (draw(st.integers(1, 9)),), {"d": draw(st.sampled_from([1.0, 0.5]))}


def shifting(draw: Draw) -> Call:
    x = some(draw, FLOATING, WITH_AXES)
    return (x,), {"axes": axes_of(draw, x) or None}
