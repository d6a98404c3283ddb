"""Arrays: made, sliced, changed in copies by `at`, reduced, broadcast."""

import whit.jax.numpy as jnp


def main():
    x = jnp.arange(10)
    grid = jnp.linspace(0.0, 1.0, 12).reshape(3, 4)
    changed = x.at[2:5].set(0)
    counted = jnp.zeros(4).at[jnp.array([0, 1, 1, 3])].add(1.0)
    largest = grid.at[1].max(0.5)
    return {
        "dtypes": [x.dtype.name, grid.dtype.name],
        "changed": changed.tolist(),
        "kept": x.tolist(),
        "counted": counted.tolist(),
        "largest": largest[1].tolist(),
        "matrix": (grid @ grid.T).tolist(),
        "where": jnp.where(x % 3 == 0, x, -1).tolist(),
        "normalised": ((grid - grid.mean(axis=0)) / jnp.std(grid, axis=0))[0].tolist(),
        "stack": jnp.stack([x, x * 2], axis=1)[3].tolist(),
        "sort": jnp.sort(jnp.sin(x.astype(jnp.float32)))[:3].tolist(),
        "argmax": int(jnp.argmax(jnp.cos(x * 1.0) * x)),
        "outer": jnp.outer(x[:3], x[:3]).tolist(),
        "einsum": float(jnp.einsum("ij,ij->", grid, grid)),
        "clip": jnp.clip(x, 2, 5).tolist(),
        "cumsum": jnp.cumsum(x).tolist(),
    }
