"""Gradients, nested, with auxiliary results, by several arguments, of dictionaries."""

import whit.jax as jax
import whit.jax.numpy as jnp


def tanh(x):
    y = jnp.exp(-2.0 * x)
    return (1.0 - y) / (1.0 + y)


def loss(params, x, y):
    prediction = jnp.dot(x, params["w"]) + params["b"]
    errors = prediction - y
    return jnp.mean(errors**2), errors


def main():
    x = jnp.array([[1.0, 2.0], [3.0, -1.0], [0.5, 0.5]])
    y = jnp.array([1.0, 0.0, 2.0])
    params = {"w": jnp.array([0.1, -0.2]), "b": 0.3}
    slopes, errors = jax.grad(loss, has_aux=True)(params, x, y)
    value, (by_x, by_y) = jax.value_and_grad(lambda a, b: jnp.sum(a * jnp.sin(b)), argnums=(0, 1))(x[0], x[1])
    return {
        "first": float(jax.grad(tanh)(1.0)),
        "second": float(jax.grad(jax.grad(tanh))(1.0)),
        "third": float(jax.grad(jax.grad(jax.grad(tanh)))(1.0)),
        "w": slopes["w"].tolist(),
        "b": float(slopes["b"]),
        "errors": errors.tolist(),
        "value": float(value),
        "both": [by_x.tolist(), by_y.tolist()],
        "stopped": float(jax.grad(lambda t: t * jax.lax.stop_gradient(t))(3.0)),
        "relu": float(jax.grad(jax.nn.relu)(0.0)),
    }
