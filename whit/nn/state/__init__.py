"""Model files: names of tensors in a model, and the formats that weights come in.

model             get_state_dict, get_parameters, load_state_dict
functional        functional_call: a model as a function of its tensors
safetensors       safe_load, safe_load_metadata, safe_save
torch_files       torch_load; pickles reads pickles without running code, strided builds tensors with steps
gguf              gguf_load; gguf_blocks unpacks quantised blocks
numpy_files       npy_load, npy_save, also of .npz
archives          tar_extract, zip_extract
tensor_io         TensorIO: a tensor as a file
source            the bytes that all of them read, of a path, a tensor or memory

Loading gives tensors whose elements are still in the file. See docs/files.md.
"""

from whit.nn.state.archives import tar_extract, zip_extract
from whit.nn.state.functional import functional_call
from whit.nn.state.gguf import gguf_load
from whit.nn.state.model import StateError, get_parameters, get_state_dict, load_state_dict
from whit.nn.state.numpy_files import npy_load, npy_save
from whit.nn.state.safetensors import safe_load, safe_load_metadata, safe_save
from whit.nn.state.tensor_io import TensorIO
from whit.nn.state.torch_files import torch_load
from whit.nn.state.torch_saving import torch_save

__all__ = [
    "StateError",
    "TensorIO",
    "functional_call",
    "get_parameters",
    "get_state_dict",
    "gguf_load",
    "load_state_dict",
    "npy_load",
    "npy_save",
    "safe_load",
    "safe_load_metadata",
    "safe_save",
    "tar_extract",
    "torch_load",
    "torch_save",
    "zip_extract",
]
