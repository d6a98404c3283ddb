"""`torch.nn.utils`: limits of gradients, parameters as one vector, weights that are computed, layers that are fused,
sequences of different lengths (`rnn`)."""

from whit.nn.utils import parametrizations, parametrize, rnn
from whit.nn.utils.fusion import (
    fuse_conv_bn_eval,
    fuse_conv_bn_weights,
    fuse_linear_bn_eval,
    fuse_linear_bn_weights,
)
from whit.nn.utils.gradients import clip_grad_norm_, clip_grad_value_, clip_grads_with_norm_, get_total_norm
from whit.nn.utils.vectors import parameters_to_vector, vector_to_parameters
from whit.nn.utils.weight_norms import remove_spectral_norm, remove_weight_norm, spectral_norm, weight_norm

__all__ = [
    "clip_grad_norm_",
    "clip_grad_value_",
    "clip_grads_with_norm_",
    "fuse_conv_bn_eval",
    "fuse_conv_bn_weights",
    "fuse_linear_bn_eval",
    "fuse_linear_bn_weights",
    "get_total_norm",
    "parameters_to_vector",
    "parametrizations",
    "parametrize",
    "remove_spectral_norm",
    "remove_weight_norm",
    "rnn",
    "spectral_norm",
    "vector_to_parameters",
    "weight_norm",
]
