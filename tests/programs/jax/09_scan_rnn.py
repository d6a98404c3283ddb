"""A recurrent cell over time by lax.scan, and its gradient."""

import whit.jax as jax
import whit.jax.numpy as jnp
from whit.jax import lax


def cell(params, h, x):
    return jnp.tanh(params["w"] @ h + params["u"] @ x + params["b"])


def run(params, xs):
    def step(h, x):
        h = cell(params, h, x)
        return h, h.sum()

    return lax.scan(step, jnp.zeros(3), xs)


def main():
    params = {
        "w": 0.3 * jnp.sin(jnp.arange(9.0)).reshape(3, 3),
        "u": 0.5 * jnp.cos(jnp.arange(6.0)).reshape(3, 2),
        "b": jnp.array([0.1, 0.0, -0.1]),
    }
    xs = jnp.sin(jnp.arange(16.0)).reshape(8, 2)
    last, sums = run(params, xs)
    slopes = jax.grad(lambda p: run(p, xs)[0].sum())(params)
    fibonacci, _ = lax.scan(lambda carry, _: ((carry[1], carry[0] + carry[1]), None), (0, 1), None, length=10)
    running = lax.scan(lambda c, x: (c + x, c + x), 0.0, jnp.arange(5.0), reverse=True)[1]
    return {
        "last": last.tolist(),
        "sums": sums.tolist(),
        "w": slopes["w"].tolist(),
        "b": slopes["b"].tolist(),
        "fibonacci": int(fibonacci[0]),
        "running": running.tolist(),
    }
