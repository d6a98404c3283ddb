"""A line by SGD."""

from whit import Context, Tensor, nn


def main():
    x = Tensor.arange(20).reshape(20, 1) / 10 - 1
    y = x * 3 - 0.5
    w, b = Tensor.zeros(1, 1).contiguous(), Tensor.zeros(1).contiguous()
    opt = nn.optim.SGD([w, b], lr=0.3)
    losses = []
    with Context(TRAINING=1):
        for _ in range(30):
            opt.zero_grad()
            loss = (x @ w + b - y).square().mean().backward()
            losses.append(loss.item())
            opt.step()
    return {"w": w.item(), "b": b.item(), "first": losses[0], "last": losses[-1]}
