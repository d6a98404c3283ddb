"""Convolutions with named axes, pooling, and a blurred image."""

import whit.jax as jax
import whit.jax.numpy as jnp
from whit.jax import lax


def main():
    image = jnp.zeros((1, 6, 6, 1)).at[0, 2:4, 2:4, 0].set(1.0)
    kernel = jnp.array([[1.0, 2.0, 1.0], [2.0, 4.0, 2.0], [1.0, 2.0, 1.0]])[:, :, None, None] / 16
    blurred = lax.conv_general_dilated(image, kernel, (1, 1), "SAME", dimension_numbers=("NHWC", "HWIO", "NHWC"))
    strided = lax.conv_general_dilated(image, kernel, (2, 2), "VALID", dimension_numbers=("NHWC", "HWIO", "NHWC"))
    pooled = lax.reduce_window(blurred, -jnp.inf, lax.max, (1, 2, 2, 1), (1, 2, 2, 1), "VALID")
    plain = lax.conv(jnp.transpose(image, (0, 3, 1, 2)), jnp.transpose(kernel, (3, 2, 0, 1)), (1, 1), "SAME")
    slope = jax.grad(lambda k: lax.conv(jnp.transpose(image, (0, 3, 1, 2)), k, (1, 1), "SAME").max())(
        jnp.transpose(kernel, (3, 2, 0, 1))
    )
    smooth = jnp.convolve(jnp.array([0.0, 1.0, 0.0, 2.0]), jnp.array([0.5, 0.5]), mode="same")
    return {
        "blurred": blurred[0, 2, :, 0].tolist(),
        "strided": strided[0, :, :, 0].tolist(),
        "pooled": pooled[0, :, :, 0].tolist(),
        "same": bool(jnp.allclose(plain[0, 0], blurred[0, :, :, 0])),
        "slope_sum": float(slope.sum()),
        "smooth": smooth.tolist(),
    }
