"""Keys: the same key, the same numbers; split and folded keys, others."""

import whit.jax as jax
import whit.jax.numpy as jnp
from whit.jax import random


def main():
    key = random.PRNGKey(42)
    again = random.normal(key, (2,)).tolist() == random.normal(key, (2,)).tolist()
    key, first, second = random.split(key, 3)
    steps = [float(random.uniform(random.fold_in(key, i))) for i in range(3)]
    batch = jax.vmap(lambda k: random.normal(k, (2,)))(random.split(first, 4))
    shuffled = random.permutation(second, 10)
    return {
        "again": again,
        "normal": random.normal(first, (3,)).tolist(),
        "steps": steps,
        "batch": batch.tolist(),
        "shuffled": shuffled.tolist(),
        "integers": random.randint(second, (5,), 0, 100).tolist(),
        "choice": random.choice(first, jnp.array([10, 20, 30]), (4,)).tolist(),
        "flips": random.bernoulli(second, 0.3, (8,)).tolist(),
        "classes": random.categorical(first, jnp.log(jnp.array([0.1, 0.6, 0.3])), shape=(6,)).tolist(),
        "mean": abs(float(random.normal(second, (1000,)).mean())) < 0.1,
    }
