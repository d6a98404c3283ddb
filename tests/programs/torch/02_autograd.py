"""Gradients of leaves, accumulated over calls, reset, and second derivatives."""

import whit.torch as torch


def main():
    a = torch.tensor([2.0, 3.0], requires_grad=True)
    b = torch.tensor([6.0, 4.0], requires_grad=True)
    q = 3 * a**3 - b**2
    q.backward(gradient=torch.tensor([1.0, 1.0]))
    first = [a.grad.tolist(), b.grad.tolist()]
    (a * b).sum().backward()
    second = [a.grad.tolist(), b.grad.tolist()]
    a.grad.zero_()
    b.grad = None
    (a.sin() * b.detach()).sum().backward()
    third = [a.grad.tolist(), b.grad is None]
    x = torch.tensor(1.5, requires_grad=True)
    y = torch.exp(x) * x**2
    (dx,) = torch.autograd.grad(y, x, create_graph=True)
    (ddx,) = torch.autograd.grad(dx, x)
    with torch.no_grad():
        z = x * 2
    return {
        "first": first,
        "second": second,
        "third": third,
        "dx": dx.item(),
        "ddx": ddx.item(),
        "flags": [a.requires_grad, z.requires_grad, torch.is_grad_enabled()],
    }
