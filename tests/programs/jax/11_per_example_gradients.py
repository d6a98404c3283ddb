"""Gradients for each example, and clipped sums of them."""

import whit.jax as jax
import whit.jax.numpy as jnp


def predict(params, x):
    hidden = jax.nn.relu(params["w1"] @ x + params["b1"])
    return params["w2"] @ hidden


def loss(params, x, y):
    return 0.5 * (predict(params, x) - y) ** 2


def main():
    params = {
        "w1": jnp.sin(jnp.arange(12.0)).reshape(4, 3),
        "b1": jnp.ones(4) * 0.1,
        "w2": jnp.cos(jnp.arange(4.0)),
    }
    xs = jnp.cos(jnp.arange(15.0)).reshape(5, 3)
    ys = jnp.arange(5.0)
    each = jax.jit(jax.vmap(jax.grad(loss), in_axes=(None, 0, 0)))(params, xs, ys)
    norms = jnp.sqrt(sum(jnp.sum(leaf.reshape(5, -1) ** 2, axis=1) for leaf in jax.tree.leaves(each)))
    factors = jnp.minimum(1.0, 1.0 / norms)
    clipped = jax.tree.map(lambda g: jnp.tensordot(factors, g, axes=1), each)
    return {
        "shapes": {name: list(g.shape) for name, g in each.items()},
        "norms": norms.tolist(),
        "clipped": clipped["w2"].tolist(),
    }
