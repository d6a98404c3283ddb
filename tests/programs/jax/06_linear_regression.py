"""Least squares by gradient descent over a dictionary of parameters, with tree.map."""

import whit.jax as jax
import whit.jax.numpy as jnp


def loss(params, x, y):
    return jnp.mean((x * params["slope"] + params["offset"] - y) ** 2)


@jax.jit
def update(params, x, y):
    value, grads = jax.value_and_grad(loss)(params, x, y)
    return jax.tree.map(lambda p, g: p - 0.3 * g, params, grads), value


def main():
    x = jnp.linspace(-1, 1, 40)
    y = 1.5 * x + 0.25 + 0.02 * jnp.sin(50 * x)
    params = {"slope": jnp.zeros(()), "offset": jnp.zeros(())}
    values = []
    for _ in range(50):
        params, value = update(params, x, y)
        values.append(float(value))
    return {"slope": float(params["slope"]), "offset": float(params["offset"]), "first": values[0], "last": values[-1]}
