"""`torch.nn.utils.parametrizations`: weights as a length times a direction, of spectral norm 1, orthogonal."""

from whit.nn.utils.orthogonal import orthogonal
from whit.nn.utils.weight_norms import parametrized_spectral_norm as spectral_norm
from whit.nn.utils.weight_norms import parametrized_weight_norm as weight_norm

__all__ = ["orthogonal", "spectral_norm", "weight_norm"]
