"""custom_vjp and custom_jvp: a stable log1pexp, a clipped gradient, a fixed point."""

from functools import partial

import whit.jax as jax
import whit.jax.numpy as jnp


@jax.custom_jvp
def log1pexp(x):
    return jnp.log(1.0 + jnp.exp(x))


@log1pexp.defjvp
def log1pexp_jvp(primals, tangents):
    (x,), (t,) = primals, tangents
    return log1pexp(x), (1 - 1 / (1 + jnp.exp(x))) * t


@partial(jax.custom_vjp, nondiff_argnums=(0,))
def clip_gradient(limit, x):
    return x


def clip_forward(limit, x):
    return x, None


def clip_backward(limit, residuals, g):
    return (jnp.clip(g, -limit, limit),)


clip_gradient.defvjp(clip_forward, clip_backward)


@jax.custom_vjp
def product(x, y):
    return jnp.sin(x) * y


def product_forward(x, y):
    return product(x, y), (jnp.cos(x), jnp.sin(x), y)


def product_backward(residuals, g):
    cos_x, sin_x, y = residuals
    return (cos_x * g * y, sin_x * g)


product.defvjp(product_forward, product_backward)


def main():
    return {
        "far": float(jax.grad(log1pexp)(100.0)),
        "near": jax.vmap(jax.grad(log1pexp))(jnp.arange(-2.0, 3.0)).tolist(),
        "second": float(jax.grad(jax.grad(log1pexp))(0.5)),
        "clipped": jax.grad(lambda x: jnp.sum(clip_gradient(0.5, x) ** 2))(jnp.array([0.1, 3.0, -4.0])).tolist(),
        "both": [float(g) for g in jax.grad(product, argnums=(0, 1))(0.7, 3.0)],
        "value": float(product(0.7, 3.0)),
    }
