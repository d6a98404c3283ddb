"""A function for one vector, over batches, with axes of choice, nested."""

import whit.jax as jax
import whit.jax.numpy as jnp


def convolve(x, w):
    output = []
    for i in range(1, len(x) - 1):
        output.append(jnp.dot(x[i - 1 : i + 2], w))
    return jnp.array(output)


def main():
    x = jnp.arange(5.0)
    w = jnp.array([2.0, 3.0, 4.0])
    xs = jnp.stack([x, x + 1])
    ws = jnp.stack([w, w * 2])
    by_columns = jax.vmap(convolve, in_axes=(1, 1), out_axes=1)(xs.T, ws.T)
    table = jax.vmap(jax.vmap(lambda a, b: a * 10 + b, (None, 0)), (0, None))(jnp.arange(2), jnp.arange(3))
    shared = jax.vmap(convolve, in_axes=(0, None))(xs, w)
    named = jax.vmap(lambda p, v: p["scale"] * v, in_axes=({"scale": 0}, None))({"scale": jnp.arange(3.0)}, x)
    return {
        "one": convolve(x, w).tolist(),
        "both": jax.vmap(convolve)(xs, ws).tolist(),
        "columns": by_columns.tolist(),
        "shared": shared.tolist(),
        "table": table.tolist(),
        "named": named.tolist(),
        "same": bool(jnp.allclose(jax.jit(jax.vmap(convolve))(xs, ws), jax.vmap(convolve)(xs, ws))),
    }
