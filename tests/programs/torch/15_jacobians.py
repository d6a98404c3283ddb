"""Jacobians and Hessians forward and in reverse, Hessian-vector products, Newton's method."""

import whit.torch as torch
from whit.torch.func import grad, hessian, jacfwd, jacrev, jvp, vjp, vmap


def rosenbrock(x):
    return (100 * (x[1:] - x[:-1] ** 2) ** 2 + (1 - x[:-1]) ** 2).sum()


def predict(weight, bias, x):
    return torch.nn.functional.linear(x, weight, bias).tanh()


def main():
    torch.set_default_dtype(torch.float64)
    try:
        x = torch.tensor([-0.3, 0.8, 1.1])
        weight = torch.sin(torch.arange(6)).view(2, 3)
        bias = torch.tensor([0.1, -0.2])
        reverse = jacrev(predict, argnums=2)(weight, bias, x)
        forward = jacfwd(predict, argnums=2)(weight, bias, x)
        second = hessian(rosenbrock)(x)
        value, tangent = jvp(lambda v: v.exp() * 2, (x,), (torch.ones(3),))
        output, pull = vjp(torch.sin, x)
        (cotangent,) = pull(torch.ones(3))
        rows = vmap(lambda v: vjp(torch.sin, x)[1](v)[0])(torch.eye(3))
        point = torch.tensor([-0.5, 0.5])
        for _ in range(8):
            point = point - torch.linalg.solve(hessian(rosenbrock)(point), grad(rosenbrock)(point))
        functional = torch.autograd.functional.hessian(rosenbrock, x)
        return {
            "reverse": reverse.tolist(),
            "same": torch.allclose(reverse, forward),
            "hessian": second.tolist(),
            "jvp": [value.tolist(), tangent.tolist()],
            "vjp": [output.tolist(), cotangent.tolist()],
            "rows": rows.tolist(),
            "newton": point.tolist(),
            "functional": torch.allclose(functional, second),
        }
    finally:
        torch.set_default_dtype(torch.float32)
