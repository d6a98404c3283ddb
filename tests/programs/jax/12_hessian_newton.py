"""Jacobians, Hessians, Hessian-vector products, and Newton's method."""

import whit.jax as jax
import whit.jax.numpy as jnp


def rosenbrock(x):
    return jnp.sum(100.0 * (x[1:] - x[:-1] ** 2) ** 2 + (1 - x[:-1]) ** 2)


def hvp(f, x, v):
    return jax.jvp(jax.grad(f), (x,), (v,))[1]


def main():
    x = jnp.array([0.5, -0.2, 1.3])
    v = jnp.array([1.0, 0.5, -1.0])
    full = jax.hessian(rosenbrock)(x)
    forward = jax.jacfwd(lambda t: jnp.sin(t) * t.sum())(x)
    reverse = jax.jacrev(lambda t: jnp.sin(t) * t.sum())(x)
    value, pull = jax.vjp(lambda a, b: a * b, x, v)
    point = jnp.array([0.7, 0.6])
    for _ in range(6):
        point = point - jnp.linalg.solve(jax.hessian(rosenbrock)(point), jax.grad(rosenbrock)(point))
    out, linear = jax.linearize(jnp.exp, x)
    return {
        "hessian": full.tolist(),
        "hvp": hvp(rosenbrock, x, v).tolist(),
        "same": bool(jnp.allclose(full @ v, hvp(rosenbrock, x, v), rtol=1e-3)),
        "forward": forward.tolist(),
        "equal": bool(jnp.allclose(forward, reverse, atol=1e-5)),
        "pulled": [part.tolist() for part in pull(jnp.ones(3))],
        "newton": [round(float(p), 3) for p in point],
        "linear": linear(v).tolist(),
    }
