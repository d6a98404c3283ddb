"""jit with static arguments, decorators, and functions of containers."""

from functools import partial

import whit.jax as jax
import whit.jax.numpy as jnp


@jax.jit
def selu(x, alpha=1.67, scale=1.05):
    return scale * jnp.where(x > 0, x, alpha * jnp.exp(x) - alpha)


@partial(jax.jit, static_argnums=(1,))
def power(x, n):
    result = jnp.ones_like(x)
    for _ in range(n):
        result = result * x
    return result


@partial(jax.jit, static_argnames=["kind"])
def pooled(x, *, kind="mean"):
    if kind == "mean":
        return {"value": x.mean(axis=0)}
    return {"value": x.max(axis=0)}


def main():
    x = jnp.arange(-2.0, 3.0)
    same = jnp.allclose(selu(x), selu(x))
    return {
        "selu": selu(x).tolist(),
        "again": bool(same),
        "cube": power(x, 3).tolist(),
        "fifth": power(x, 5).tolist(),
        "mean": pooled(x.reshape(5, 1))["value"].tolist(),
        "max": pooled(x.reshape(5, 1), kind="max")["value"].tolist(),
        "number": float(selu(2.0)),
        "grad": jax.grad(lambda v: selu(v).sum())(x).tolist(),
    }
