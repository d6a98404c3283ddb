"""`jax.scipy.stats`: logarithms of densities."""

from whit.jax.scipy.stats import bernoulli, norm

__all__ = ["bernoulli", "norm"]
