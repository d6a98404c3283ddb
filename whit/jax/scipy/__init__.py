"""`jax.scipy`: the parts of SciPy that programs for JAX use."""

from whit.jax.scipy import linalg, special, stats

__all__ = ["linalg", "special", "stats"]
