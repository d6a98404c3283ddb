"""eval_shape, ShapeDtypeStruct, devices, checkpoint, block_until_ready, initializers."""

import whit.jax as jax
import whit.jax.numpy as jnp


def model(params, x):
    with jax.named_scope("hidden"):
        hidden = jax.nn.silu(x @ params["w"])
    return {"out": hidden @ params["v"], "hidden": hidden}


def main():
    key = jax.random.key(3)
    one, two = jax.random.split(key)
    init = jax.nn.initializers.glorot_uniform()
    params = {"w": init(one, (4, 8)), "v": jax.nn.initializers.he_normal()(two, (8, 2))}
    shapes = jax.eval_shape(model, params, jax.ShapeDtypeStruct((5, 4), jnp.float32))
    x = jax.device_put(jnp.sin(jnp.arange(20.0)).reshape(5, 4), jax.devices()[0])
    out = jax.block_until_ready(jax.jit(model)(params, x))
    whole = jax.grad(lambda p: model(p, x)["out"].sum())(params)
    light = jax.grad(lambda p: jax.checkpoint(model)(p, x)["out"].sum())(params)
    return {
        "shapes": {name: [list(s.shape), s.dtype.name] for name, s in sorted(shapes.items())},
        "out": out["out"][0].tolist(),
        "w": params["w"][0, :3].tolist(),
        "v": params["v"][:2, 0].tolist(),
        "same": bool(jnp.allclose(whole["w"], light["w"], atol=1e-6)),
        "devices": len(jax.devices()) >= 1,
        "backend": jax.default_backend() in ("cpu", "gpu", "tpu"),
        "ready": float(x.sum().block_until_ready()),
    }
