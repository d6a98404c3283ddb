"""A Gaussian process: covariance by vmap, Cholesky, log likelihood and its gradient."""

import whit.jax as jax
import whit.jax.numpy as jnp
from whit.jax.scipy.linalg import cho_solve, cholesky
from whit.jax.scipy.special import logsumexp
from whit.jax.scipy.stats import norm


def kernel(params, a, b):
    return params["scale"] ** 2 * jnp.exp(-0.5 * jnp.sum((a - b) ** 2) / params["length"] ** 2)


def covariance(params, xs, ys):
    return jax.vmap(lambda x: jax.vmap(lambda y: kernel(params, x, y))(ys))(xs)


def log_likelihood(params, x, y):
    n = len(x)
    k = covariance(params, x, x) + 0.01 * jnp.eye(n)
    lower = cholesky(k, lower=True)
    alpha = cho_solve((lower, True), y)
    return -0.5 * y @ alpha - jnp.log(jnp.diag(lower)).sum() - 0.5 * n * jnp.log(2 * jnp.pi)


def main():
    x = jnp.linspace(0.0, 3.0, 7)[:, None]
    y = jnp.sin(2 * x[:, 0])
    params = {"scale": 1.0, "length": 0.8}
    value, slopes = jax.value_and_grad(log_likelihood)(params, x, y)
    k = covariance(params, x, x) + 0.01 * jnp.eye(7)
    new = jnp.array([[0.5], [1.7]])
    mean = covariance(params, new, x) @ jnp.linalg.solve(k, y)
    return {
        "likelihood": float(value),
        "slopes": {name: float(slope) for name, slope in slopes.items()},
        "mean": mean.tolist(),
        "logsumexp": float(logsumexp(jnp.array([1.0, 2.0, 3.0]), b=jnp.array([0.2, 0.3, 0.5]))),
        "normal": [float(norm.logpdf(0.3, 0.1, 2.0)), float(norm.cdf(1.0))],
    }
