"""A pendulum by Runge-Kutta under scan, and how its end depends on its start."""

import whit.jax as jax
import whit.jax.numpy as jnp


def pendulum(state, damping):
    angle, speed = state
    return jnp.array([speed, -jnp.sin(angle) - damping * speed])


def rk4(f, y, h, *args):
    k1 = f(y, *args)
    k2 = f(y + 0.5 * h * k1, *args)
    k3 = f(y + 0.5 * h * k2, *args)
    k4 = f(y + h * k3, *args)
    return y + h / 6 * (k1 + 2 * k2 + 2 * k3 + k4)


def solve(start, damping, steps=12, h=0.1):
    def step(y, _):
        y = rk4(pendulum, y, h, damping)
        return y, y

    return jax.lax.scan(step, start, None, length=steps)


def main():
    start = jnp.array([1.0, 0.0])
    end, path = solve(start, 0.1)
    slope = jax.grad(lambda d: solve(start, d)[0][0])(0.1)
    sensitivity = jax.jacfwd(lambda s: solve(s, 0.1)[0])(start)
    return {
        "end": end.tolist(),
        "middle": path[5].tolist(),
        "slope": float(slope),
        "sensitivity": sensitivity.tolist(),
    }
