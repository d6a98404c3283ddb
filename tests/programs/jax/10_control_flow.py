"""while_loop, fori_loop, cond, switch and map."""

import whit.jax as jax
import whit.jax.numpy as jnp
from whit.jax import lax


def newton_root(a):
    def keep_going(state):
        x, step = state
        return (jnp.abs(x * x - a) > 1e-4) & (step < 50)

    def improve(state):
        x, step = state
        return 0.5 * (x + a / x), step + 1

    return lax.while_loop(keep_going, improve, (a, 0))


def main():
    root, steps = newton_root(jnp.float32(2.0))
    factorial = lax.fori_loop(1, 6, lambda i, total: total * i, 1)
    signs = [float(lax.cond(x > 0, lambda v: v * 2, lambda v: v - 1, x)) for x in (jnp.array(3.0), jnp.array(-3.0))]
    chosen = [float(lax.switch(jnp.array(i), [jnp.sin, jnp.cos, lambda v: v * v], 2.0)) for i in range(3)]
    squares = lax.map(lambda v: v**2 + 1, jnp.arange(4.0))
    window = lax.dynamic_slice(jnp.arange(10), (3,), (4,))
    slope = jax.grad(lambda v: lax.cond(v > 1.0, lambda t: t**3, lambda t: -t, v))(2.0)
    return {
        "root": float(root),
        "steps": int(steps),
        "factorial": int(factorial),
        "signs": signs,
        "chosen": chosen,
        "squares": squares.tolist(),
        "window": window.tolist(),
        "slope": float(slope),
        "selected": lax.select(jnp.array([True, False]), jnp.ones(2), jnp.zeros(2)).tolist(),
    }
