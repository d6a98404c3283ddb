"""One table from the names of PyTorch, NumPy, JAX and tinygrad to ours, for names that are not ours.

    x.cuda()                 AttributeError: Tensor has no `cuda`; instead: `x.to("CUDA")` ...
    x.norm(ord=1)            ArgumentError: norm: there is no argument `ord` ... Instead: `p=`

Who looks for a name that is here gets what to write instead; `hasattr` answers False, and names that are ours cost
nothing. docs/reference/names.md is written from it. Names that simply work are in
`whit/tensor/methods/foreign_names.py`.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Callable, Sequence
from types import FunctionType
from typing import Any, Final, NoReturn

from whit.errors import ArgumentError, nearest

TAKES_ANY_NAME: Final = 0x08  # in the flags of code: `inspect.CO_VARKEYWORDS`, without the 4 ms that `inspect` takes

# ---- name: (whose it is, what to write here)

TENSOR: Final = {
    # where a tensor is
    "cuda": ("PyTorch", '`x.to("CUDA")`, which moves a tensor'),
    "gpu": ("tinygrad", '`x.to("CUDA")`, which moves a tensor'),
    "pin_memory": ("PyTorch", "nothing: copies to a GPU need no special memory"),
    "share_memory_": ("PyTorch", "`x.data()`, or DLPack"),
    # gradients
    "grad_fn": ("PyTorch", "`x.uop`, the graph of a lazy tensor"),
    "is_leaf": ("PyTorch", "`loss.gradient(x)`, of any tensor"),
    "retain_grad": ("PyTorch", "`loss.gradient(x)`, of any tensor"),
    "register_hook": ("PyTorch", "`Tensor.custom_function(forward, gradient)`"),
    "no_grad": ("tinygrad", "nothing: nothing is kept for gradients that nobody asks for; `x.detach()` cuts them"),
    "inference_mode": ("PyTorch", "nothing: nothing is kept for gradients that nobody asks for"),
    # memory
    "is_contiguous": ("PyTorch", "nothing: tensors have no strides, and `view()` always works"),
    "stride": ("PyTorch", "reshape, permute and indexing: tensors have no strides"),
    "strides": ("NumPy", "reshape, permute and indexing: tensors have no strides"),
    "as_strided": ("PyTorch", "`x.unfold(dim, size, step)`, for windows"),
    "storage": ("PyTorch", "`x.data()`, the bytes"),
    "data_ptr": ("PyTorch", "`np.asarray(x).ctypes.data`, or DLPack"),
    "lazydata": ("tinygrad", "`x.uop`, the graph"),
    # writing
    "itemset": ("NumPy", "`x[i] = value`"),
    "set_": ("PyTorch", "`x.replace(y)`"),
    "resize": ("NumPy", "`x.reshape(shape)`"),
    "resize_": ("PyTorch", "`x.reshape(shape)`"),
    # making
    "tensor": ("PyTorch", "`Tensor(data)`"),
    "array": ("NumPy", "`Tensor(data)`"),
    "asarray": ("NumPy", "`Tensor(data)`"),
    "as_tensor": ("PyTorch", "`Tensor(data)`"),
    "from_numpy": ("PyTorch", "`Tensor(array)`"),
    # computing
    "pad2d": ("tinygrad", "`x.pad((left, right, top, bottom))`"),
    "glu": ("PyTorch", "`a, b = x.chunk(2, -1); a * b.sigmoid()`"),
    "cosine_similarity": ("PyTorch", "`(x.normalize() * y.normalize()).sum(1)`"),
    "conv1d": ("PyTorch", "`x.conv2d(weight)`, for any number of axes"),
    "conv3d": ("PyTorch", "`x.conv2d(weight)`, for any number of axes"),
    "max_pool1d": ("PyTorch", "`x.max_pool2d(kernel_size=(2,))`, for any number of axes"),
    "avg_pool1d": ("PyTorch", "`x.avg_pool2d(kernel_size=(2,))`, for any number of axes"),
    "layer_norm": ("PyTorch", "`x.layernorm()`"),
    "batch_norm": ("PyTorch", "`x.batchnorm(weight, bias, mean, invstd)`"),
    "apply_": ("PyTorch", "functions of tensors: `where()` in place of if"),
    "map_": ("PyTorch", "functions of tensors: `where()` in place of if"),
    "to_sparse": ("PyTorch", "nothing: there are no sparse tensors"),
    "to_dense": ("PyTorch", "nothing: all tensors are dense"),
}

MODULE: Final = {
    "cuda": ("PyTorch", '`model.to("CUDA")`'),
    "register_forward_hook": ("PyTorch", "a function around the layer"),
    "init": ("JAX", "nothing: layers have weights when they are made"),
}

NN: Final = {
    "DataParallel": ("PyTorch", "nothing yet"),
    "Dense": ("JAX", "`nn.Linear(in_features, out_features)`"),
    "Conv": ("JAX", "`nn.Conv2d(in_channels, out_channels, kernel_size)`"),
    "compact": ("JAX", "layers that `__init__` makes"),
    "Rngs": ("JAX", "`Tensor.manual_seed(0)`"),
}

OPTIM: Final = {
    "SparseAdam": ("PyTorch", "`nn.optim.Adam`: gradients are dense"),
}

WHIT: Final = {
    "array": ("NumPy", "`Tensor(data)`"),
    "asarray": ("NumPy", "`Tensor(data)`"),
    "as_tensor": ("PyTorch", "`Tensor(data)`"),
    "from_numpy": ("PyTorch", "`Tensor(array)`"),
    "no_grad": ("PyTorch", "nothing: nothing is kept for gradients that nobody asks for"),
    "inference_mode": ("PyTorch", "nothing: nothing is kept for gradients that nobody asks for"),
    "enable_grad": ("PyTorch", "nothing: gradients are computed when they are asked for"),
    "autograd": ("PyTorch", "`y.gradient(x)`, or `whit.grad(f)(x)`"),
    "compile": ("PyTorch", "`TinyJit(f)`"),
    "func": ("PyTorch", "`whit.grad`, `whit.vmap`, `whit.jvp` ... (docs/transforms.md)"),
    "functional_call": ("PyTorch", "`nn.state.functional_call`"),
    "tree_map": ("JAX", "`map_tensors(function, *containers)`"),
    "tree_util": ("JAX", "`map_tensors`, `register_container`"),
    "lax": ("JAX", "methods of Tensor; `whit.scan`, `while_loop`, `fori_loop`, `cond` and `map`"),
    "save": ("PyTorch", "`nn.state.safe_save(nn.state.get_state_dict(model), path)`"),
    "load": ("PyTorch", "`nn.state.safe_load(path)`, or `nn.state.torch_load(path)`"),
    "cuda": ("PyTorch", '`DEV=CUDA` in the environment, `Device.DEFAULT = "CUDA"`, or `x.to("CUDA")`'),
    "set_default_dtype": ("PyTorch", "`dtypes.default_float = dtypes.float64`"),
    "set_default_device": ("PyTorch", '`Device.DEFAULT = "CUDA"`'),
    "is_tensor": ("PyTorch", "`isinstance(x, Tensor)`"),
    "random": ("NumPy", "`Tensor.rand`, `Tensor.randn`, `Tensor.randint` ..."),
    "linalg": ("NumPy", "`whit.numpy.linalg`, or methods: `x.inv()`, `x.svd()` (docs/linalg.md)"),
    "optim": ("PyTorch", "`from whit.nn import optim`"),
    "utils": ("PyTorch", "`whit.checkpoint`, `whit.fetch`; batches are slices of tensors"),
}

# Keywords that are accepted for arguments of ours: of several, the one that a method has.
SYNONYMS: Final = {
    "axis": ("dim", "dims"),
    "dim": ("axis", "dims"),
    "dims": ("dim", "axis"),
    "axes": ("dims", "dim", "axis"),
    "keepdims": ("keepdim",),
    "keepdim": ("keepdims",),
    "ddof": ("correction",),
    "a_min": ("min",),
    "a_max": ("max",),
    "sorted": ("sorted_",),
    "num": ("steps",),
    "end": ("stop",),
    "reps": ("repeats",),
    "target": ("Y",),
    "k": ("diagonal", "offset"),
    "offset": ("diagonal",),
    "diagonal": ("offset",),
}

# Arguments: (whose, what to write here).
ARGUMENTS: Final = {
    "ord": ("NumPy", "`p=`"),
    "out": ("NumPy, PyTorch", "`y.assign(...)` of the result"),
    "inplace": ("PyTorch", "`x.assign(...)` of the result"),
    "where": ("NumPy", "`mask.where(x, 0)` before"),
    "initial": ("NumPy", "the value with + or `maximum()`"),
    "order": ("NumPy", "nothing: elements are in row-major order"),
    "non_blocking": ("PyTorch", "nothing: copies are queued, and waited for where they are read"),
    "memory_format": ("PyTorch", "nothing: the compiler chooses how tensors lie in memory"),
    "pin_memory": ("PyTorch", "nothing"),
    "layout": ("PyTorch", "nothing: all tensors are dense"),
    "generator": ("PyTorch", "`Tensor.manual_seed()` before"),
    "key": ("JAX", "`Tensor.manual_seed()` before"),
    "retain_graph": ("PyTorch", "nothing: a graph can be gone through as often as you like"),
    "create_graph": ("PyTorch", "nothing: gradients are tensors like others"),
    "newshape": ("NumPy", "the sizes: `x.reshape(2, 3)`"),
    "size": ("NumPy, PyTorch", "the sizes first: `Tensor.rand(2, 3)`"),
    "shape": ("NumPy, JAX", "the sizes first: `Tensor.rand(2, 3)`"),
    "maxval": ("JAX", "`high=`"),
    "minval": ("JAX", "`low=`"),
    "decimals": ("NumPy, PyTorch", "`(x * 10**n).round() / 10**n`"),
    "seed": ("NumPy", "`Tensor.manual_seed(seed)` before"),
    "lambd": ("PyTorch", "`rate=`"),
    "learning_rate": ("JAX", "`lr=`"),
    "device": ("PyTorch", '`Device.DEFAULT = "CUDA"` before, or `model.to("CUDA")` afterwards'),
    "dtype": ("PyTorch", "`with dtypes.defaults(float=...):`, or casts of the tensors"),
    "use_bias": ("JAX", "`bias=`"),
    "features": ("JAX", "`in_features` and `out_features`"),
}


class Absent:
    """A name that a class does not have, though somebody may look for it: not there, with a reason."""

    __slots__ = ("message",)

    def __init__(self, message: str) -> None:
        self.message = message

    def __get__(self, instance: object, owner: type | None = None) -> NoReturn:
        raise AttributeError(self.message)


def advice(owner: str, name: str, table: dict[str, tuple[str, str]]) -> str | None:
    """What to tell somebody who looks for a name in the wrong place."""
    return f"{owner} has no `{name}`; instead: {table[name][1]}" if name in table else None


def unknown_argument(function: str, name: str, known: Sequence[str]) -> ArgumentError:
    """The error about an argument that a function does not have."""
    listed = f"It takes {', '.join(known)}." if known else "It takes none."
    ours = ARGUMENTS.get(name, ("", ""))[1]
    argument = re.fullmatch(r"`(\w+)=`", ours)
    is_there = argument is None or argument[1] in known
    hint = f"Instead: {ours}" if ours and is_there else nearest(name, known).strip()
    return ArgumentError(f"{function}: there is no argument `{name}`", listed, hint)


def _as_ours(function: str, given: dict[str, Any], known: Sequence[str]) -> dict[str, Any]:
    """Keywords, those of other libraries under the names that a function has for them."""
    result = {}
    for keyword, value in given.items():
        names = [keyword] if keyword in known else [name for name in SYNONYMS.get(keyword, ()) if name in known]
        if not names or names[0] in result or (names[0] != keyword and names[0] in given):
            raise unknown_argument(function, keyword, known)
        result[names[0]] = value
    return result


def with_help(
    function: FunctionType, name: str, check: Callable[[Sequence[Any]], None] | None = None
) -> Callable[..., Any]:
    """A method that says what it takes when it is given a keyword that it does not have. `name` is for the message.
    `check` raises for positional arguments that other libraries have in another order."""
    code = function.__code__
    known = code.co_varnames[1 : code.co_argcount + code.co_kwonlyargcount]  # without self

    def call(self: Any, *args: Any, **given: Any) -> Any:
        if check is not None:
            check((self, *args))
        for keyword in given:
            if keyword not in known:
                return function(self, *args, **_as_ours(name, given, known))
        return function(self, *args, **given)

    call.__code__ = call.__code__.replace(co_name=code.co_name)  # what messages call the method that was called
    return functools.wraps(function)(call)
