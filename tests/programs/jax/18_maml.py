"""Model-agnostic meta-learning: the gradient of a loss after a step of gradient descent."""

from functools import partial

import whit.jax as jax
import whit.jax.numpy as jnp


def net(params, x):
    hidden = jnp.tanh(x @ params[0] + params[1])
    return hidden @ params[2]


def loss(params, x, y):
    return jnp.mean((net(params, x)[:, 0] - y) ** 2)


def inner_update(params, x, y, rate=0.1):
    grads = jax.grad(loss)(params, x, y)
    return jax.tree.map(lambda p, g: p - rate * g, params, grads)


def maml_loss(params, x1, y1, x2, y2):
    return loss(inner_update(params, x1, y1), x2, y2)


def main():
    params = [
        jnp.sin(jnp.arange(5.0)).reshape(1, 5),
        jnp.zeros(5),
        0.5 * jnp.cos(jnp.arange(5.0)).reshape(5, 1),
    ]
    x = jnp.linspace(-2.0, 2.0, 10).reshape(10, 1)
    phases = jnp.array([0.0, 0.5, 1.0])

    def task(phase):
        y = jnp.sin(x[:, 0] + phase)
        return x, y, x + 0.1, jnp.sin(x[:, 0] + 0.1 + phase)

    batched = jax.vmap(partial(maml_loss, params))(*jax.vmap(task)(phases))
    total = lambda p: jnp.mean(jax.vmap(lambda phase: maml_loss(p, *task(phase)))(phases))
    slopes = jax.grad(total)(params)
    after = jax.tree.map(lambda p, g: p - 0.05 * g, params, slopes)
    return {
        "losses": batched.tolist(),
        "before": float(total(params)),
        "after": float(total(after)),
        "slope": slopes[2][:, 0].tolist(),
    }
