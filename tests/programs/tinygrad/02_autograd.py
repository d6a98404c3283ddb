"""backward, gradients, and what is detached."""

from whit import Tensor


def main():
    x = Tensor([1.0, 2.0, 3.0])
    y = Tensor([[2.0, 0.0, -2.0]])
    z = y.matmul(x.reshape(3, 1)).sum()
    z.backward()
    w = Tensor([0.5, -0.5])
    (w.sigmoid() * w.relu() + w.tanh()).sum().backward()
    (slope,) = (x * x * x).sum().gradient(x)
    return {"x": x.grad.tolist(), "y": y.grad.tolist(), "w": w.grad.tolist(), "slope": slope.tolist()}
