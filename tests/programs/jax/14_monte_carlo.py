"""Pi by darts, an integral, and a random walk, all from keys."""

import whit.jax as jax
import whit.jax.numpy as jnp
from whit.jax import random


@jax.jit
def estimate(key):
    points = random.uniform(key, (4000, 2), minval=-1.0, maxval=1.0)
    return 4 * jnp.mean((points**2).sum(axis=1) < 1.0)


def main():
    keys = random.split(random.key(7), 4)
    darts = jnp.stack([estimate(k) for k in keys])
    x = random.normal(keys[0], (5000,))
    walk = jnp.cumsum(2 * random.bernoulli(keys[1], 0.5, (100,)).astype(jnp.int32) - 1)
    return {
        "darts": darts.tolist(),
        "pi": abs(float(darts.mean()) - 3.14159) < 0.1,
        "moment": float(jnp.mean(x**2)),
        "tail": float(jnp.mean(x > 1.0)),
        "end": int(walk[-1]),
        "highest": int(walk.max()),
    }
