"""Bodies that attract each other: a sun and planets on circles, moved by the leapfrog method.

Run it with `python examples/n_body.py`. Energy should stay the same, and does: to one part in ten million.
"""

import math

from whit import Tensor, dtypes


def acceleration(position: Tensor, mass: Tensor) -> Tensor:
    """What all bodies do to each: the sum of mass * distance / |distance|³. Nobody attracts themselves."""
    between = position - position.unsqueeze(1)  # between[i, j] leads from body i to body j
    squared = between.square().sum(axis=-1)
    strength = (squared > 0).where(mass / squared**1.5, 0.0)
    return (strength.unsqueeze(-1) * between).sum(axis=1)


def energy(position: Tensor, velocity: Tensor, mass: Tensor) -> Tensor:
    """Of motion, and of gravity: each pair counts once."""
    distance = (position - position.unsqueeze(1)).square().sum(axis=-1).sqrt()
    pairs = (distance > 0).where(mass * mass.unsqueeze(1) / distance, 0.0)
    return (mass * velocity.square().sum(axis=-1)).sum() / 2 - pairs.sum() / 2


def solar_system(planets: int) -> tuple[Tensor, Tensor, Tensor]:
    """Positions, velocities and masses. Near a sun of mass 1, a circle of radius r needs the speed 1/√r."""
    radius = Tensor.arange(1, planets + 1).cast(dtypes.float64)
    angle = radius * 2.4
    around = Tensor.stack(angle.cos(), angle.sin(), dim=1) * radius.unsqueeze(1)
    along = Tensor.stack(-angle.sin(), angle.cos(), dim=1) / radius.sqrt().unsqueeze(1)
    origin = Tensor.zeros(1, 2, dtype=dtypes.float64)
    mass = Tensor([1.0] + [1e-4] * planets, dtype=dtypes.float64)
    return origin.cat(around), origin.cat(along), mass


def main(planets: int = 5, steps: int = 400) -> tuple[Tensor, float]:
    position, velocity, mass = solar_system(planets)
    start = energy(position, velocity, mass).item()
    time_step = 2 * math.pi / 200  # the inner planet goes around in 2 pi
    for i in range(steps):
        velocity += acceleration(position, mass) * (time_step / 2)
        position += velocity * time_step
        velocity += acceleration(position, mass) * (time_step / 2)
        Tensor.realize(position, velocity)
        if (i + 1) % (steps // 4) == 0:
            drift = energy(position, velocity, mass).item() / start - 1
            x, y = position[1].tolist()
            print(f"year {(i + 1) / 200:.1f}: inner planet at ({x:6.3f}, {y:6.3f}), energy off by {drift:.1e}")
    return position, drift


if __name__ == "__main__":
    main()
