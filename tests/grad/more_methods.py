"""More of `methods`: what is less common, and the names that other libraries have."""

from __future__ import annotations

from typing import Any

import numpy as np

from grad.methods import (
    CUBE,
    INSIDE,
    MASK,
    MATRIX,
    POSITIVE,
    POSITIVE_DEFINITE,
    ROWS,
    Case,
    at,
    broadcast,
    first,
    ints,
    names,
    one,
    spread,
    two,
)
from whit import Tensor

VECTOR = spread(4)
BATCH, OTHER = spread(2, 3, 4, seed=5), spread(2, 4, 3, seed=6)
LOWER = np.linalg.cholesky(POSITIVE_DEFINITE)
PLACES = ints(2, 0)
SLICES = spread(2, 4, seed=7)


def three(name: str, *arrays: Any, **named: Any) -> Case:
    return at(lambda x, *others: getattr(x, name)(*others, **named), *arrays)


def joined(name: str, left: Any = ROWS, right: Any = None) -> Case:
    return two(name, left, spread(*left.shape, seed=8) if right is None else right)


def inserted(name: str, array: Any, source: Any, *rest: Any) -> Case:
    """A method that puts a second tensor into the first one."""
    return at(lambda x, y: getattr(x, name)(*rest, y), array, source)


def _choose(x: Tensor, y: Tensor) -> Tensor:
    return ints([0, 1, 1, 0], [1, 1, 0, 0], [0, 0, 1, 1]).choose([x, y])


def _sum_of(results: Any) -> Any:
    return sum(((part * part).sum() * (i + 1) for i, part in enumerate(results)), Tensor(0.0, dtype="double"))


MORE: dict[str, tuple[Case, ...]] = {
    **{name: (one(name, POSITIVE),) for name in names("digamma lgamma i0 erfc")},
    **{name: (one(name, INSIDE),) for name in names("erfinv")},
    "logit": (one("logit", INSIDE * 0.5 + 0.5), one("logit", INSIDE * 0.5 + 0.5, 0.2, smooth=False)),
    "polygamma": (one("polygamma", POSITIVE, 1), one("polygamma", POSITIVE, 2)),
    "mvlgamma": (one("mvlgamma", POSITIVE + 1, 2),),
    "logaddexp2": broadcast("logaddexp2"),
    "float_power": (one("float_power", POSITIVE, 1.5),),
    "fmax": broadcast("fmax"),
    "fmin": broadcast("fmin"),
    "nextafter": (two("nextafter"),),
    "ldexp": (one("ldexp", ROWS, 3),),
    "frexp": (first("frexp"),),
    "modf": (first("modf"),),
    "hardshrink": (one("hardshrink"),),
    "prelu": (joined("prelu", ROWS, VECTOR),),
    "mm": (two("mm", ROWS, spread(4, 2)),),
    "mv": (two("mv", ROWS, VECTOR),),
    "bmm": (two("bmm", BATCH, OTHER),),
    "addmm": (three("addmm", spread(3, 2), ROWS, spread(4, 2), beta=2, alpha=3),),
    "addmv": (three("addmv", spread(3), ROWS, VECTOR, beta=2, alpha=3),),
    "addr": (three("addr", ROWS, spread(3), VECTOR, beta=2, alpha=3),),
    "addbmm": (three("addbmm", spread(3, 3), BATCH, OTHER, beta=2, alpha=3),),
    "baddbmm": (three("baddbmm", spread(2, 3, 3), BATCH, OTHER, beta=2, alpha=3),),
    "addcmul": (three("addcmul", ROWS, spread(3, 4, seed=1), VECTOR, value=2),),
    "addcdiv": (three("addcdiv", ROWS, spread(3, 4, seed=1), POSITIVE, value=2),),
    "logdet": (one("logdet", POSITIVE_DEFINITE),),
    "cholesky_inverse": (one("cholesky_inverse", LOWER),),
    "cholesky_solve": (three("cholesky_solve", spread(3, 2), LOWER),),
    "matrix_exp": (one("matrix_exp", spread(3, 3) * 0.7),),
    "adjoint": (one("adjoint"),),
    "matrix_transpose": (one("matrix_transpose"),),
    "mH": (at(lambda x: x.mH, ROWS),),
    "H": (at(lambda x: x.H, ROWS),),
    "vecdot": (joined("vecdot"),),
    "chain_matmul": (three("chain_matmul", ROWS, spread(4, 2), spread(2, 3)),),
    "vander": (one("vander", VECTOR, 4),),
    "block_diag": (joined("block_diag", ROWS, MATRIX),),
    "dist": (joined("dist"),),
    "cdist": (two("cdist", ROWS, spread(2, 4, seed=3)),),
    "pdist": (one("pdist"),),
    "renorm": (one("renorm", ROWS, 2, 0, 1.5),),
    "cov": (one("cov"),),
    "corrcoef": (one("corrcoef"),),
    "stft": (one("stft", spread(16), 4, return_complex=False),),
    "istft": (at(lambda x: x.istft(4), spread(3, 5, 2)),),
    "tensor_split": (at(lambda x: _sum_of(x.tensor_split(3, 1)), ROWS),),
    "hsplit": (at(lambda x: _sum_of(x.hsplit(2)), ROWS),),
    "vsplit": (at(lambda x: _sum_of(x.vsplit(3)), ROWS),),
    "dsplit": (at(lambda x: _sum_of(x.dsplit(2)), CUBE),),
    **{name: (joined(name),) for name in names("hstack vstack row_stack dstack column_stack append")},
    "insert": (at(lambda x, y: x.insert(1, y, 1), ROWS, spread(3)),),
    "delete": (one("delete", ROWS, 1, 1),),
    **{name: (one(name),) for name in names("atleast_1d atleast_2d atleast_3d")},
    "broadcast_tensors": (at(lambda x, y: _sum_of(x.broadcast_tensors(y)), ROWS, VECTOR),),
    "broadcast_arrays": (at(lambda x, y: _sum_of(x.broadcast_arrays(y)), ROWS, VECTOR),),
    "sum_to_size": (one("sum_to_size", ROWS, 1, 4),),
    "rollaxis": (one("rollaxis", CUBE, 2),),
    "diag_embed": (one("diag_embed", ROWS, 1),),
    "diagflat": (one("diagflat"),),
    "diagonal_scatter": (joined("diagonal_scatter", MATRIX, spread(3)),),
    "select_scatter": (at(lambda x, y: x.select_scatter(y, 1, 2), ROWS, spread(3)),),
    "slice_scatter": (at(lambda x, y: x.slice_scatter(y, 1, 1, 3), ROWS, spread(3, 2)),),
    "index_copy": (inserted("index_copy", ROWS, SLICES, 0, PLACES),),
    "index_fill": (one("index_fill", ROWS, 0, PLACES, 2.0),),
    "index_reduce": (at(lambda x, y: x.index_reduce(0, PLACES, y, "prod"), ROWS, SLICES),),
    "masked_scatter": (at(lambda x, y: x.masked_scatter(MASK, y), ROWS, spread(3, 4, seed=2)),),
    "take_along_dim": (one("take_along_dim", ROWS, ints([0, 2], [1, 1], [3, 0]), 1),),
    "choose": (at(_choose, ROWS, spread(3, 4, seed=3)),),
    "compress": (one("compress", ROWS, [True, False, True], 0),),
    "extract": (one("extract", ROWS, MASK),),
    "partition": (one("partition", ROWS, 1),),
    "unique_consecutive": (at(lambda x: x.unique_consecutive(), VECTOR),),
    **{name: (one(name, ROWS, 1),) for name in names("nanprod nancumsum nancumprod nanmax nanmin nanvar nanstd ptp")},
    "nanmedian": (first("nanmedian", ROWS, 1),),
    "nanquantile": (one("nanquantile", ROWS, 0.3, 1),),
    "percentile": (one("percentile", ROWS, 30, 1),),
    "nanpercentile": (one("nanpercentile", ROWS, 30, 1),),
    "diff": (one("diff", ROWS, 2),),
    "ediff1d": (one("ediff1d"),),
    "trapezoid": (one("trapezoid"), joined("trapezoid", ROWS, VECTOR)),
    "cumulative_trapezoid": (one("cumulative_trapezoid"), joined("cumulative_trapezoid", ROWS, VECTOR)),
    "aminmax": (at(lambda x: _sum_of(x.aminmax(dim=1)), ROWS),),
    "average": (at(lambda x, w: x.average(1, weights=w), ROWS, POSITIVE),),
    "interp": (three("interp", spread(5, low=0.1, high=2.9), np.array([0.0, 1.0, 2.0, 3.0]), VECTOR),),
    "convolve": (joined("convolve", VECTOR, spread(3)),),
    "correlate": (joined("correlate", VECTOR, spread(3)),),
    "cartesian_prod": (joined("cartesian_prod", VECTOR, spread(3)),),
    "divmod": (at(lambda x, y: x.divmod(y)[1], ROWS, POSITIVE),),
    "unwrap": (one("unwrap"),),
    "polyval": (joined("polyval", VECTOR, spread(3)),),
    "matvec": (two("matvec", ROWS, VECTOR),),
    "vecmat": (two("vecmat", spread(3), ROWS),),
    "trim_zeros": (one("trim_zeros", VECTOR),),
    "shrink_to": (one("shrink_to", ROWS, 2, None),),
    "pad_to": (one("pad_to", ROWS, 5, None),),
    "flat": (at(lambda x: x.flat, ROWS),),
    "to_device": (at(lambda x: x.to_device(x.device), ROWS),),
    "combinations": (one("combinations", VECTOR),),
}

MORE_NONE = frozenset(names("""
    argpartition bucketize digitize flatnonzero gcd get_device histc indices intersect1d is_complex is_conj is_cpu
    is_cuda is_inference is_neg is_nonzero is_same_size is_set_to is_signed isin isneginf isposinf isreal itemsize lcm
    lexsort nanargmax nanargmin nonzero_static ravel_multi_index setdiff1d setxor1d sgn tobytes tofile union1d
    unravel_index randint_like bitwise_count spacing packbits unpackbits array_equiv unique_values unique_counts
    unique_inverse unique_all iscomplex tril_indices_from triu_indices_from histogram_bin_edges fill_diagonal putmask
    place const invalids max_shape is_param is_param_ keccak hash schedule_linear strong_dtype
    show
    bartlett blackman hamming hanning kaiser
    bartlett_window blackman_window hamming_window hann_window kaiser_window geomspace identity logspace tri
    tril_indices triu_indices
    bernoulli_ cauchy_ exponential_ geometric_ log_normal_ normal_ random_ uniform_ copy_ fill fill_ put zero_
"""))  # fmt: skip
