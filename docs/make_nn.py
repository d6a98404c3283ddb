"""Writes docs/nn.md: the names of PyTorch that networks are made with, and what each is here."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final

from pages import ROOT, publish

from whit import nn
from whit.nn import data, optim

OWNERS: Final[Mapping[str, Any]] = {
    "nn": nn,
    "nn.Module": nn.Module,
    "nn.functional": nn.functional,
    "nn.init": nn.init,
    "nn.utils": nn.utils,
    "nn.utils.parametrize": nn.utils.parametrize,
    "nn.utils.parametrizations": nn.utils.parametrizations,
    "nn.utils.rnn": nn.utils.rnn,
    "optim": optim,
    "optim.lr_scheduler": optim.lr_scheduler,
    "utils.data": data,
}
OURS: Final = {"optim": "nn.optim", "optim.lr_scheduler": "nn.optim.lr_scheduler", "utils.data": "nn.data"}

# What is there, and not quite the same.
DIFFERS: Final = {
    "nn.BatchNorm1d": "any number of axes after the channels; `nn.BatchNorm` has tinygrad's order of arguments",
    "nn.BatchNorm2d": "as BatchNorm1d",
    "nn.BatchNorm3d": "as BatchNorm1d",
    "nn.CrossEntropyLoss": "`size_average` and `reduce`, which are deprecated, are no arguments; so in all losses",
    "nn.Dropout": "follows `Tensor.training` until `train()` or `eval()` is called; so do all layers that train",
    "nn.Embedding": "the sizes are `vocab_size` and `embed_size`, or PyTorch's names; gradients are dense",
    "nn.EmbeddingBag": "gradients are dense",
    "nn.GELU": "`Tensor.gelu` is the approximation by tanh, the layer is exact",
    "nn.LogSoftmax": "the axis is the last one unless it is said; so in Softmax and Softmin",
    "nn.Module": "`super().__init__()` is not needed; a model may be any object",
    "nn.ModuleDict": "a dictionary: layers in dictionaries are found like others",
    "nn.ModuleList": "a list: layers in lists are found like others",
    "nn.MultiheadAttention": "a query that sees nothing gives 0 without weights, where PyTorch gives NaN",
    "nn.Parameter": "a tensor: any float tensor of a model is trained, unless `requires_grad` is False",
    "nn.ParameterDict": "a dictionary of tensors",
    "nn.ParameterList": "a list of tensors",
    "nn.RMSNorm": "eps is 1e-6 unless it is said",
    "nn.Sequential": "takes a list of layers, too; functions of tensors are layers",
    "nn.TransformerEncoder": "`enable_nested_tensor` and `mask_check` have no effect",
    "nn.LazyLinear": "no parameters before the first call; so in all lazy layers",
    "nn.Module.register_forward_hook": "no `always_call`",
    "nn.Module.register_full_backward_hook": "gets the gradients of all float arguments, wanted or not",
    "nn.utils.parametrize.cached": "no effect: equal computations are one",
    "nn.Module.load_state_dict": "values are cast and moved to what the model has; nothing changes unless all fits",
    "nn.Module.register_buffer": "all buffers are part of the state: there is no `persistent`",
    "nn.Module.requires_grad_": "frozen parameters are no parameters any more",
    "nn.Module.to": "a device, a dtype, or both; no tensor to be like",
    "nn.functional.cross_entropy": "`ignore_index` and what follows are keywords; so in all losses",
    "nn.functional.grid_sample": "images; no bicubic mode",
    "nn.functional.affine_grid": "images",
    "nn.functional.interpolate": "no `antialias`",
    "nn.functional.softplus": "needs no threshold",
    "nn.utils.rnn.PackedSequence": "the filled tensor beside the lengths, in any order: nothing is packed",
    "nn.utils.rnn.pack_padded_sequence": "`enforce_sorted` has no effect",
    "optim.Optimizer": "parameters without a gradient stay as they are (steps count for all of a group); one has it",
    "optim.Adam": "`fused=True` changes all parameters of a group as one, on any device; so in all optimisers",
    "optim.LBFGS": "another line search of the same conditions",
    "optim.Muon": "axes after the first are taken as one",
    "optim.SGD": "after `momentum` come `weight_decay` and `nesterov`: write `dampening=`",
    "optim.lr_scheduler.OneCycleLR": "no `cycle_momentum`: a momentum is part of kernels",
    "optim.lr_scheduler.CyclicLR": "no `cycle_momentum`",
    "utils.data.DataLoader": "workers are threads, or processes with `multiprocessing_context=`; `device=`",
    "utils.data.RandomSampler": "a generator is a number or a `random.Random`; so in all samplers",
}

KERNELS = "kernels of some GPUs: `@` and `TinyJit` choose theirs"
DEPRECATED = "deprecated in PyTorch"

# What is not there, and why.
LEFT_OUT: Final = {
    "nn.Container": DEPRECATED,
    "nn.CrossMapLRN2d": DEPRECATED + "; `nn.LocalResponseNorm`",
    "nn.LinearCrossEntropy*": "a linear layer and `cross_entropy` are fused by the compiler",
    "nn.NLLLoss2d": DEPRECATED + "; `nn.NLLLoss`",
    "nn.RNNBase": "`nn.RNN`, `nn.LSTM` or `nn.GRU`",
    "nn.RNNCellBase": "`nn.RNNCell`, `nn.LSTMCell` or `nn.GRUCell`",
    "nn.SyncBatchNorm": "batches that are sharded are one batch for `nn.BatchNorm2d`",
    "nn.Module.register_backward_hook": DEPRECATED + "; `register_full_backward_hook`",
    "nn.Module.register_load_state_dict_p*_hook": "what `load_state_dict` returns, or another dictionary for it",
    "nn.Module.register_state_dict_p*_hook": "another dictionary, of what `state_dict` gives",
    "nn.Module.*_extra_state": "all that is in a state is a tensor",
    "nn.Module.compile": "`TinyJit(model)`",
    "nn.Module.ipu": "`model.to(device)`",
    "nn.Module.mtia": "`model.to(device)`",
    "nn.Module.xpu": "`model.to(device)`",
    "nn.Module.share_memory": "`x.data()`, or DLPack",
    "nn.Module.to_empty": "weights are lazy until they are used",
    "nn.functional.conv_tbc": "`conv1d` of another order of axes",
    "nn.functional.grouped_mm": KERNELS,
    "nn.functional.scaled_grouped_mm": KERNELS,
    "nn.functional.scaled_mm": KERNELS,
    "nn.functional.linear_cross_entropy": "`linear` and `cross_entropy` are fused by the compiler",
    "nn.functional.multi_head_attention_forward": "`nn.MultiheadAttention`",
    "nn.functional.native_channel_shuffle": "`channel_shuffle`",
    "nn.utils.clip_grad_norm": DEPRECATED + "; `clip_grad_norm_`",
    "nn.utils.convert_conv*": "the compiler chooses how tensors lie in memory",
    "nn.utils.parametrize.transfer_parametrizations_and_params": "`copy.deepcopy` of the module",
    "nn.utils.parametrize.type_before_parametrizations": "`isinstance`: the class is one below that of the layer",
    "nn.utils.skip_init": "weights are lazy until they are used",
    "nn.utils.stateless": "tensors of a model can be replaced",
    "nn.utils.rnn.invert_permutation": "`order.argsort()`",
    "optim.SparseAdam": "gradients are dense",
    "optim.swa_utils": "`nn.optim.EMA`",
    "optim.swap_in_optimizer_params_and_state": "`tensor.replace(other)`",
    "utils.data.DistributedSampler": "one process has all devices: batches are sharded",
}

HEAD = """\
# Networks, by PyTorch's names

What of `torch.nn`, `torch.optim` and `torch.utils.data` is here, compared with PyTorch 2.13. Where nothing is said,
names, arguments and their order, initial values, names and shapes of states, values and gradients are PyTorch's: tests
evaluate the same expression with both libraries (`tests/nn/pytorch/`). State dictionaries go both ways:

```python
>>> from whit import Tensor, nn
>>> theirs = {"weight_ih_l0": Tensor.ones(9, 2), "weight_hh_l0": Tensor.ones(9, 3)}   # as nn.state.torch_load(path)
>>> model = nn.GRU(2, 3, bias=False)
>>> model.load_state_dict(theirs)
IncompatibleKeys(missing_keys=[], unexpected_keys=[])
>>> model(Tensor.ones(5, 1, 2))[0].shape
(5, 1, 3)

```

Layers take `device` and `dtype` by name, and `model.to(device, dtype)` moves a model that is there.
The methods of a tensor that PyTorch has under `torch` are in the [reference](reference/tensor.md).
"""


def names_of_pytorch() -> dict[str, list[str]]:
    """By module, the names of docs/pytorch_names.txt."""
    text = (ROOT / "docs" / "pytorch_names.txt").read_text("utf-8")
    _, *parts = re.split(r"^\[(.*)\]$", text, flags=re.MULTILINE)
    return {module: names.split() for module, names in zip(parts[::2], parts[1::2], strict=True)}


def reason_of(name: str) -> str | None:
    """Why a name is left out: what is said of it, or of all that begin and end so."""
    if name in LEFT_OUT:
        return LEFT_OUT[name]
    for pattern, reason in LEFT_OUT.items():
        start, star, end = pattern.partition("*")
        if star and name.startswith(start) and name.endswith(end) and name.count(".") == pattern.count("."):
            return reason
    return None


def page() -> str:
    """All modules: the names that are the same, those that differ, and those that are left out."""
    parts = [HEAD]
    for module, names in names_of_pytorch().items():
        here = OURS.get(module, module)
        parts.append(f"## `{module}`\n")
        if here != module:
            parts.append(f"Here it is `{here}`.\n")
        found = [name for name in names if hasattr(OWNERS[module], name)]
        same = [f"`{name}`" for name in found if f"{module}.{name}" not in DIFFERS]
        parts.append(f"The same: {', '.join(same)}.\n")
        rows = [f"| `{name}` | {DIFFERS[f'{module}.{name}']} |" for name in found if f"{module}.{name}" in DIFFERS]
        if rows:
            parts.append("\n".join(["| differs | |", "|---|---|", *rows]) + "\n")
        missing = [f"| `{name}` | {reason_of(f'{module}.{name}')} |" for name in names if name not in found]
        if missing:
            parts.append("\n".join(["| left out | instead, or why |", "|---|---|", *missing]) + "\n")
    return "\n".join(parts)


if __name__ == "__main__":
    publish("nn.md", page())
