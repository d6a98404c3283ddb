"""JAX's namespace on whit's tensors: `import whit.jax as jax`, and the rest of the program stays as it is.

    import whit.jax as jax
    import whit.jax.numpy as jnp

    step = jax.jit(jax.value_and_grad(loss))
    jax.random.normal(jax.random.key(0), (3,))

Transforms are whit's (docs/transforms.md), `jit` is TinyJit, `jax.numpy` is `whit.numpy`, and the random numbers of a
key are those of JAX. Every name, and how it differs: docs/migration.md.
"""

from whit.jax import lax, nn, numpy, random, scipy, tree, tree_util
from whit.jax.devices import (
    Array,
    ShapeDtypeStruct,
    block_until_ready,
    clear_caches,
    config,
    debug,
    default_backend,
    default_device,
    device_count,
    device_get,
    device_put,
    devices,
    disable_jit,
    enable_x64,
    eval_shape,
    local_device_count,
    local_devices,
    named_scope,
    process_count,
    process_index,
    typeof,
)
from whit.jax.transforms import (
    checkpoint,
    custom_gradient,
    custom_jvp,
    custom_vjp,
    grad,
    hessian,
    jacfwd,
    jacobian,
    jacrev,
    jit,
    jvp,
    linear_transpose,
    linearize,
    remat,
    value_and_grad,
    vjp,
    vmap,
)

__all__ = [
    "Array",
    "ShapeDtypeStruct",
    "block_until_ready",
    "checkpoint",
    "clear_caches",
    "config",
    "custom_gradient",
    "custom_jvp",
    "custom_vjp",
    "debug",
    "default_backend",
    "default_device",
    "device_count",
    "device_get",
    "device_put",
    "devices",
    "disable_jit",
    "enable_x64",
    "eval_shape",
    "grad",
    "hessian",
    "jacfwd",
    "jacobian",
    "jacrev",
    "jit",
    "jvp",
    "lax",
    "linear_transpose",
    "linearize",
    "local_device_count",
    "local_devices",
    "named_scope",
    "nn",
    "numpy",
    "process_count",
    "process_index",
    "random",
    "remat",
    "scipy",
    "tree",
    "tree_util",
    "typeof",
    "value_and_grad",
    "vjp",
    "vmap",
]
