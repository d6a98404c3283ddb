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

# ---- name: (whose it is, what to write here)

TENSOR: Final = {
    # where a tensor is
    "cuda": ("PyTorch", '`x.to("CUDA")`, which moves a tensor'),
    "gpu": ("tinygrad", '`x.to("CUDA")`, which moves a tensor'),
    "is_cuda": ("PyTorch", '`x.device.startswith("CUDA")`'),
    "get_device": ("PyTorch", "`x.device`"),
    "pin_memory": ("PyTorch", "nothing: copies to a GPU need no special memory"),
    "share_memory_": ("PyTorch", "`x.data()`, or DLPack"),
    "block_until_ready": ("JAX", "`x.realize()`"),
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
    "tobytes": ("NumPy", "`x.numpy().tobytes()`"),
    "tofile": ("NumPy", "`x.numpy().tofile(path)`, or `nn.state.safe_save`"),
    "itemsize": ("NumPy", "`x.element_size()`"),
    "flat": ("NumPy", "`x.flatten()`"),
    "lazydata": ("tinygrad", "`x.uop`, the graph"),
    # writing
    "at": ("JAX", "`x[i] = v`, `x[i] += v`: tensors can be written to"),
    "fill": ("NumPy", "`x.fill_(value)`, or `x[...] = value`"),
    "itemset": ("NumPy", "`x[i] = value`"),
    "put": ("NumPy", "`x.put_along_axis(indices, values, axis)`, or `x[indices] = values`"),
    "set_": ("PyTorch", "`x.replace(y)`"),
    "resize": ("NumPy", "`x.reshape(shape)`"),
    "resize_": ("PyTorch", "`x.reshape(shape)`"),
    "relu_": ("PyTorch", "`x.assign(x.relu())`"),
    "sigmoid_": ("PyTorch", "`x.assign(x.sigmoid())`"),
    "tanh_": ("PyTorch", "`x.assign(x.tanh())`"),
    "exp_": ("PyTorch", "`x.assign(x.exp())`"),
    "sqrt_": ("PyTorch", "`x.assign(x.sqrt())`"),
    "pow_": ("PyTorch", "`x **= y`"),
    "masked_fill_": ("PyTorch", "`x[mask] = value`"),
    "scatter_": ("PyTorch", "`x.assign(x.scatter(dim, index, src))`"),
    "scatter_add_": ("PyTorch", "`x.assign(x.scatter_add(dim, index, src))`"),
    "index_add_": ("PyTorch", "`x.assign(x.index_add(dim, index, source))`"),
    "index_copy_": ("PyTorch", "`x[index] = source`"),
    "index_fill_": ("PyTorch", "`x[index] = value`"),
    "unsqueeze_": ("PyTorch", "`x = x.unsqueeze(dim)`"),
    "squeeze_": ("PyTorch", "`x = x.squeeze(dim)`"),
    "detach_": ("PyTorch", "`x = x.detach()`"),
    "normal_": ("PyTorch", "`x.assign(Tensor.normal(*x.shape, mean=0, std=1))`"),
    "uniform_": ("PyTorch", "`x.assign(Tensor.uniform(*x.shape, low=0, high=1))`"),
    "bernoulli_": ("PyTorch", "`x.assign((Tensor.rand(*x.shape) < p).cast(x.dtype))`"),
    # making
    "tensor": ("PyTorch", "`Tensor(data)`"),
    "array": ("NumPy", "`Tensor(data)`"),
    "asarray": ("NumPy", "`Tensor(data)`"),
    "as_tensor": ("PyTorch", "`Tensor(data)`"),
    "from_numpy": ("PyTorch", "`Tensor(array)`"),
    "randint_like": ("PyTorch", "`Tensor.randint(*x.shape, low=0, high=10)`"),
    # computing
    "pad2d": ("tinygrad", "`x.pad((left, right, top, bottom))`"),
    "addmm": ("PyTorch", "`x + a @ b`"),
    "baddbmm": ("PyTorch", "`x + a @ b`"),
    "addcmul": ("PyTorch", "`x + value * a * b`"),
    "addcdiv": ("PyTorch", "`x + value * a / b`"),
    "matrix_exp": ("PyTorch", "nothing yet"),
    "erfc": ("PyTorch", "`1 - x.erf()`"),
    "lgamma": ("PyTorch", "nothing yet"),
    "glu": ("PyTorch", "`a, b = x.chunk(2, -1); a * b.sigmoid()`"),
    "prelu": ("PyTorch", "`x.leaky_relu(slope)`"),
    "histc": ("PyTorch", "`x.histogram(bins)`"),
    "dist": ("PyTorch", "`(x - y).norm()`"),
    "ger": ("PyTorch", "`x.outer(y)`"),
    "fix": ("NumPy", "`x.trunc()`"),
    "rint": ("NumPy", "`x.round()`"),
    "pinverse": ("PyTorch", "`x.pinv()`"),
    "is_nonzero": ("PyTorch", "`bool(x)`"),
    "cosine_similarity": ("PyTorch", "`(x.normalize() * y.normalize()).sum(1)`"),
    "conv1d": ("PyTorch", "`x.conv2d(weight)`, for any number of axes"),
    "conv3d": ("PyTorch", "`x.conv2d(weight)`, for any number of axes"),
    "max_pool1d": ("PyTorch", "`x.max_pool2d(kernel_size=(2,))`, for any number of axes"),
    "avg_pool1d": ("PyTorch", "`x.avg_pool2d(kernel_size=(2,))`, for any number of axes"),
    "layer_norm": ("PyTorch", "`x.layernorm()`"),
    "batch_norm": ("PyTorch", "`x.batchnorm(weight, bias, mean, invstd)`"),
    "index_fill": ("PyTorch", "`x[index] = value`"),
    "log_": ("PyTorch", "`x.assign(x.log())`"),
    "abs_": ("PyTorch", "`x.assign(x.abs())`"),
    "neg_": ("PyTorch", "`x.assign(-x)`"),
    "ptp": ("NumPy", "`x.max() - x.min()`"),
    "diff": ("NumPy", "`x[1:] - x[:-1]`"),
    "average": ("NumPy", "`(x * weights).sum() / weights.sum()`"),
    "vstack": ("NumPy", "`Tensor.cat([a, b])`"),
    "hstack": ("NumPy", "`Tensor.cat([a, b], 1)`"),
    "dstack": ("NumPy", "`Tensor.stack([a, b], -1)`"),
    "partition": ("NumPy", "`x.topk(k)`, or `x.sort()`"),
    "argpartition": ("NumPy", "`x.topk(k)[1]`, or `x.argsort()`"),
    "compress": ("NumPy", "`x.masked_select(mask)`, or `x[mask]`"),
    "flatnonzero": ("NumPy", "`x.flatten().nonzero()`"),
    "conj": ("NumPy", "`x * Tensor([1, -1])`: real and imaginary parts are the last axis (docs/linalg.md)"),
    "real": ("NumPy", "`x[..., 0]` of a transform: there are no complex dtypes (docs/linalg.md)"),
    "imag": ("NumPy", "`x[..., 1]` of a transform: there are no complex dtypes (docs/linalg.md)"),
    "apply_": ("PyTorch", "functions of tensors: `where()` in place of if"),
    "map_": ("PyTorch", "functions of tensors: `where()` in place of if"),
    "to_sparse": ("PyTorch", "nothing: there are no sparse tensors"),
    "to_dense": ("PyTorch", "nothing: all tensors are dense"),
}

MODULE: Final = {
    "train": ("PyTorch", "`with Tensor.train():` around training"),
    "eval": ("PyTorch", "nothing: all that is not inside `with Tensor.train():` is evaluation"),
    "cuda": ("PyTorch", '`model.to("CUDA")`'),
    "cpu": ("PyTorch", '`model.to("CPU")`'),
    "zero_grad": ("PyTorch", "`opt.zero_grad()`"),
    "modules": ("PyTorch", "`nn.state.get_state_dict(model)`, or `nn.summary(model)`"),
    "children": ("PyTorch", "`vars(model)`"),
    "named_modules": ("PyTorch", "`nn.state.get_state_dict(model)`, or `nn.summary(model)`"),
    "buffers": ("PyTorch", "`model.state_dict()`: buffers are the tensors of `requires_grad=False`"),
    "register_buffer": ("PyTorch", "`self.name = Tensor(..., requires_grad=False)`"),
    "register_parameter": ("PyTorch", "`self.name = Tensor(...)`"),
    "register_forward_hook": ("PyTorch", "a function around the layer"),
    "apply": ("PyTorch", "a loop over `model.parameters()`"),
    "init": ("JAX", "nothing: layers have weights when they are made"),
}

NN: Final = {
    "functional": ("PyTorch", "methods: `x.relu()`, `logits.cross_entropy(y)`"),
    "init": ("PyTorch", "`layer.weight = Tensor.kaiming_uniform(*layer.weight.shape)`"),
    "utils": ("PyTorch", "`nn.optim.clip_grad_norm`, which limits gradients"),
    "MultiheadAttention": ("PyTorch", "`nn.MultiHeadAttention`"),
    "TransformerEncoderLayer": ("PyTorch", "`nn.TransformerBlock`"),
    "InstanceNorm1d": ("PyTorch", "`nn.InstanceNorm`"),
    "InstanceNorm2d": ("PyTorch", "`nn.InstanceNorm`"),
    "InstanceNorm3d": ("PyTorch", "`nn.InstanceNorm`"),
    "ParameterList": ("PyTorch", "a list of tensors"),
    "ParameterDict": ("PyTorch", "a dictionary of tensors"),
    "DataParallel": ("PyTorch", "nothing yet"),
    "RNN": ("PyTorch", "`nn.GRU` or `nn.LSTM`"),
    "PReLU": ("PyTorch", "`nn.LeakyReLU`"),
    "Dropout1d": ("PyTorch", "`nn.Dropout`, which drops elements"),
    "Dropout2d": ("PyTorch", "`nn.Dropout`, which drops elements"),
    "ZeroPad2d": ("PyTorch", "`x.pad((left, right, top, bottom))`"),
    "AdaptiveMaxPool2d": ("PyTorch", "`x.max((2, 3), keepdim=True)`"),
    "CosineSimilarity": ("PyTorch", "`(x.normalize() * y.normalize()).sum(1)`"),
    "KLDivLoss": ("PyTorch", "`x.kl_div(y)`"),
    "Dense": ("JAX", "`nn.Linear(in_features, out_features)`"),
    "Conv": ("JAX", "`nn.Conv2d(in_channels, out_channels, kernel_size)`"),
    "compact": ("JAX", "layers that `__init__` makes"),
    "Rngs": ("JAX", "`Tensor.manual_seed(0)`"),
}

OPTIM: Final = {
    "lr_scheduler": ("PyTorch", "`nn.optim.CosineAnnealing`, `OneCycle`, `MultiStep` or `WarmUp`"),
    "NAdam": ("PyTorch", "`nn.optim.Adam` or `AdamW`"),
    "RMSprop": ("PyTorch", "`nn.optim.Adam` or `AdamW`"),
    "Adagrad": ("PyTorch", "`nn.optim.Adam` or `AdamW`"),
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
    "numpy": ("JAX", "methods of Tensor"),
    "lax": ("JAX", "methods of Tensor; `where()` in place of cond"),
    "save": ("PyTorch", "`nn.state.safe_save(nn.state.get_state_dict(model), path)`"),
    "load": ("PyTorch", "`nn.state.safe_load(path)`, or `nn.state.torch_load(path)`"),
    "cuda": ("PyTorch", '`DEV=CUDA` in the environment, `Device.DEFAULT = "CUDA"`, or `x.to("CUDA")`'),
    "set_default_dtype": ("PyTorch", "`dtypes.default_float = dtypes.float64`"),
    "set_default_device": ("PyTorch", '`Device.DEFAULT = "CUDA"`'),
    "is_tensor": ("PyTorch", "`isinstance(x, Tensor)`"),
    "random": ("NumPy", "`Tensor.rand`, `Tensor.randn`, `Tensor.randint` ..."),
    "linalg": ("NumPy", "methods: `x.inv()`, `x.svd()` (docs/linalg.md)"),
    "optim": ("PyTorch", "`from whit.nn import optim`"),
    "utils": ("PyTorch", "`whit.checkpoint`, `whit.fetch`; batches are slices of tensors"),
}

# Arguments: (whose, what to write here).
ARGUMENTS: Final = {
    "axis": ("NumPy", "`dim=`"),
    "dim": ("PyTorch", "`axis=`"),
    "ord": ("NumPy", "`p=`"),
    "k": ("NumPy", "`diagonal=`"),
    "target": ("PyTorch", "`Y=`"),
    "end": ("PyTorch", "`stop=`"),
    "reps": ("NumPy", "`repeats=`"),
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
    "a_min": ("NumPy", "`min=`"),
    "a_max": ("NumPy", "`max=`"),
    "axes": ("NumPy", "the axes one by one: `x.permute(1, 0)`"),
    "newshape": ("NumPy", "the sizes: `x.reshape(2, 3)`"),
    "num": ("NumPy", "`steps=`"),
    "size": ("NumPy, PyTorch", "the sizes first: `Tensor.rand(2, 3)`"),
    "shape": ("NumPy, JAX", "the sizes first: `Tensor.rand(2, 3)`"),
    "maxval": ("JAX", "`high=`"),
    "minval": ("JAX", "`low=`"),
    "decimals": ("NumPy, PyTorch", "`(x * 10**n).round() / 10**n`"),
    "seed": ("NumPy", "`Tensor.manual_seed(seed)` before"),
    "lambd": ("PyTorch", "`rate=`"),
    "amsgrad": ("PyTorch", "nothing: there is no such variant"),
    "foreach": ("PyTorch", "`fused=True`, for few kernels"),
    "capturable": ("PyTorch", "nothing: steps can always be captured"),
    "maximize": ("PyTorch", "the loss with a minus"),
    "learning_rate": ("JAX", "`lr=`"),
    "batch_first": ("PyTorch", "`x.transpose(0, 1)`: time is the first axis"),
    "bidirectional": ("PyTorch", "two layers, one of `x.flip(0)`"),
    "padding_idx": ("PyTorch", "`weight[i] = 0`"),
    "padding_mode": ("PyTorch", "`x.pad(..., mode=...)` before"),
    "device": ("PyTorch", '`Device.DEFAULT = "CUDA"` before, or `model.to("CUDA")` afterwards'),
    "dtype": ("PyTorch", "`with dtypes.defaults(float=...):`, or casts of the tensors"),
    "use_bias": ("JAX", "`bias=`"),
    "num_embeddings": ("PyTorch", "`vocab_size=`"),
    "embedding_dim": ("PyTorch", "`embed_size=`"),
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
                raise unknown_argument(name, keyword, known)
        return function(self, *args, **given)

    call.__code__ = call.__code__.replace(co_name=code.co_name)  # what messages call the method that was called
    return functools.wraps(function)(call)
