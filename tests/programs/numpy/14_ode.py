"""Predator and prey by Runge-Kutta, and the area under a curve."""

import whit.numpy as np


def slope(state):
    prey, hunters = state[0], state[1]
    return np.array([1.1 * prey - 0.4 * prey * hunters, 0.1 * prey * hunters - 0.4 * hunters])


def main():
    state = np.array([10.0, 5.0])
    h = 0.05
    path = [state]
    for _ in range(40):
        k1 = slope(state)
        k2 = slope(state + h / 2 * k1)
        k3 = slope(state + h / 2 * k2)
        k4 = slope(state + h * k3)
        state = state + h / 6 * (k1 + 2 * k2 + 2 * k3 + k4)
        path.append(state)
    path = np.array(path)
    x = np.linspace(0, np.pi, 101)
    return {
        "end": path[-1].tolist(),
        "highest": path.max(axis=0).tolist(),
        "area": float(np.trapezoid(np.sin(x), x)),
        "interpolated": np.interp(np.array([0.5, 1.5]), np.arange(3.0), np.array([0.0, 10.0, 30.0])).tolist(),
    }
