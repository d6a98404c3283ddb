"""Functions into functions: gradients, tangents, batches. They nest in any order (docs/transforms.md).

    grad(f)(x)                  vmap(grad(f), in_axes=(None, 0))(w, xs)             hessian(f)(x)

Each runs the function once, on tensors that stand for its arguments, and works on the graph that this has made.
"""

from whit.tensor.transforms.batch import vmap
from whit.tensor.transforms.forward import hvp, jvp, linearize
from whit.tensor.transforms.jacobians import hessian, jacfwd, jacobian, jacrev
from whit.tensor.transforms.reverse import grad, value_and_grad, vjp

__all__ = [
    "grad",
    "hessian",
    "hvp",
    "jacfwd",
    "jacobian",
    "jacrev",
    "jvp",
    "linearize",
    "value_and_grad",
    "vjp",
    "vmap",
]
