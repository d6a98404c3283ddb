"""`torch.nn.utils`: limits of gradients, parameters as one vector, sequences of different lengths (`rnn`)."""

from whit.nn.utils import rnn
from whit.nn.utils.gradients import clip_grad_norm_, clip_grad_value_, get_total_norm
from whit.nn.utils.vectors import parameters_to_vector, vector_to_parameters

__all__ = [
    "clip_grad_norm_",
    "clip_grad_value_",
    "get_total_norm",
    "parameters_to_vector",
    "rnn",
    "vector_to_parameters",
]
