"""PyTorch's namespace on whit's tensors: `import whit.torch as torch`, and the rest of the program stays as it is.

    import whit.torch as torch
    from whit.torch import nn

    x = torch.tensor([1.0, 2.0], requires_grad=True)
    torch.sin(x).sum().backward()

Functions are methods of Tensor by tables (`rows.py`); what differs in arguments or results is in `functions.py` and
`creation.py`. `torch.Tensor` is whit's. Every name, and how it differs: docs/migration.md.
"""

import math as _math
from typing import TYPE_CHECKING, Any

from whit.dtype import DType
from whit.dtype import dtypes as _dtypes
from whit.nn import functional as _functional
from whit.tensor import Tensor
from whit.torch import autograd, backends, cuda, fft, func, linalg, nn, optim, special, utils
from whit.torch.creation import (
    arange,
    as_tensor,
    asarray,
    bernoulli,
    complex,
    empty,
    eye,
    from_dlpack,
    from_numpy,
    frombuffer,
    full,
    full_like,
    linspace,
    logspace,
    normal,
    ones,
    poisson,
    polar,
    rand,
    randint,
    randint_like,
    randn,
    randperm,
    scalar_tensor,
    tensor,
    tril_indices,
    triu_indices,
    zeros,
)
from whit.torch.creation import range_ as range
from whit.torch.device import device, get_default_device, get_default_dtype, set_default_device, set_default_dtype
from whit.torch.files import load, save
from whit.torch.func import vmap
from whit.torch.functions import (
    atleast_1d,
    atleast_2d,
    atleast_3d,
    broadcast_shapes,
    bucketize,
    can_cast,
    dropout,
    einsum,
    gradient,
    histogram,
    imag,
    is_tensor,
    isin,
    max,
    min,
    nonzero,
    pca_lowrank,
    polygamma,
    promote_types,
    qr,
    real,
    result_type,
    rrelu_,
    rsub,
    searchsorted,
    svd,
    svd_lowrank,
    threshold_,
    typename,
    unique,
    where,
)
from whit.torch.generator import (
    Generator,
    default_generator,
    fork_rng,
    get_rng_state,
    initial_seed,
    manual_seed,
    seed,
    set_rng_state,
)
from whit.torch.grad_mode import (
    enable_grad,
    inference_mode,
    is_grad_enabled,
    is_inference_mode_enabled,
    no_grad,
    set_grad_enabled,
)
from whit.torch.rows import COPIES, IN_PLACE, METHODS, OF_LISTS, OF_NUMBERS, functions, of_lists, of_numbers, renamed
from whit.torch.switches import (
    are_deterministic_algorithms_enabled,
    compile,
    finfo,
    get_float32_matmul_precision,
    get_num_threads,
    iinfo,
    set_float32_matmul_precision,
    set_num_threads,
    use_deterministic_algorithms,
)

dtype = DType
Size = tuple[Any, ...]
bool = _dtypes.bool
uint8, uint16, uint32, uint64 = _dtypes.uint8, _dtypes.uint16, _dtypes.uint32, _dtypes.uint64
int8, int16, int32, int64 = _dtypes.int8, _dtypes.int16, _dtypes.int32, _dtypes.int64
short, int, long = int16, int32, int64
float16, bfloat16, float32, float64 = _dtypes.float16, _dtypes.bfloat16, _dtypes.float32, _dtypes.float64
half, float, double = float16, float32, float64
float8_e4m3fn, float8_e5m2 = _dtypes.fp8e4m3, _dtypes.fp8e5m2
strided, contiguous_format, preserve_format, channels_last = None, None, None, None  # layouts: the compiler's choice
pi, e, inf, nan, newaxis = _math.pi, _math.e, _math.inf, _math.nan, None

# What `torch` shares with `torch.nn.functional`.
_SHARED = """
    adaptive_avg_pool1d adaptive_max_pool1d alpha_dropout avg_pool1d batch_norm bilinear
    binary_cross_entropy_with_logits channel_shuffle conv1d conv2d conv3d conv_transpose1d conv_transpose2d
    conv_transpose3d cosine_embedding_loss cosine_similarity ctc_loss embedding embedding_bag feature_alpha_dropout
    group_norm hinge_embedding_loss instance_norm kl_div layer_norm margin_ranking_loss max_pool1d max_pool2d max_pool3d
    pairwise_distance pixel_shuffle pixel_unshuffle poisson_nll_loss relu rms_norm rrelu threshold triplet_margin_loss
""".split()
_WINDOWS = "bartlett_window blackman_window hamming_window hann_window kaiser_window".split()

_TABLES = (
    functions(METHODS)
    | functions(IN_PLACE)
    | of_numbers(OF_NUMBERS)
    | of_lists(OF_LISTS)
    | renamed({f"{name}_copy": name for name in COPIES if name != "alias"} | {"alias_copy": "clone"})
    | {name: getattr(_functional, name) for name in _SHARED}
    | {name: getattr(Tensor, name) for name in _WINDOWS}
)
globals().update(_TABLES)

if TYPE_CHECKING:

    def __getattr__(name: str) -> Any:
        """The functions of the tables."""


__all__ = [
    "Generator",
    "Size",
    "Tensor",
    "arange",
    "are_deterministic_algorithms_enabled",
    "as_tensor",
    "asarray",
    "atleast_1d",
    "atleast_2d",
    "atleast_3d",
    "autograd",
    "backends",
    "bernoulli",
    "bfloat16",
    "bool",
    "broadcast_shapes",
    "bucketize",
    "can_cast",
    "channels_last",
    "compile",
    "complex",
    "contiguous_format",
    "cuda",
    "default_generator",
    "device",
    "double",
    "dropout",
    "dtype",
    "e",
    "einsum",
    "empty",
    "enable_grad",
    "eye",
    "fft",
    "finfo",
    "float",
    "float8_e4m3fn",
    "float8_e5m2",
    "float16",
    "float32",
    "float64",
    "fork_rng",
    "from_dlpack",
    "from_numpy",
    "frombuffer",
    "full",
    "full_like",
    "func",
    "get_default_device",
    "get_default_dtype",
    "get_float32_matmul_precision",
    "get_num_threads",
    "get_rng_state",
    "gradient",
    "half",
    "histogram",
    "iinfo",
    "imag",
    "inf",
    "inference_mode",
    "initial_seed",
    "int",
    "int8",
    "int16",
    "int32",
    "int64",
    "is_grad_enabled",
    "is_inference_mode_enabled",
    "is_tensor",
    "isin",
    "linalg",
    "linspace",
    "load",
    "logspace",
    "long",
    "manual_seed",
    "max",
    "min",
    "nan",
    "newaxis",
    "nn",
    "no_grad",
    "nonzero",
    "normal",
    "ones",
    "optim",
    "pca_lowrank",
    "pi",
    "poisson",
    "polar",
    "polygamma",
    "preserve_format",
    "promote_types",
    "qr",
    "rand",
    "randint",
    "randint_like",
    "randn",
    "randperm",
    "range",
    "real",
    "result_type",
    "rrelu_",
    "rsub",
    "save",
    "scalar_tensor",
    "searchsorted",
    "seed",
    "set_default_device",
    "set_default_dtype",
    "set_float32_matmul_precision",
    "set_grad_enabled",
    "set_num_threads",
    "set_rng_state",
    "short",
    "special",
    "strided",
    "svd",
    "svd_lowrank",
    "tensor",
    "threshold_",
    "tril_indices",
    "triu_indices",
    "typename",
    "uint8",
    "uint16",
    "uint32",
    "uint64",
    "unique",
    "use_deterministic_algorithms",
    "utils",
    "vmap",
    "where",
    "zeros",
]
__all__.extend(_TABLES)
