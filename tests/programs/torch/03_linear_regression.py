"""A line through points by gradient descent, with the update written by hand."""

import whit.torch as torch


def main():
    x = torch.linspace(-1, 1, 50)
    noise = torch.sin(37 * x) * 0.05
    y = 2.5 * x - 0.75 + noise
    weight = torch.zeros(1, requires_grad=True)
    bias = torch.zeros(1, requires_grad=True)
    losses = []
    for _ in range(60):
        prediction = x * weight + bias
        loss = ((prediction - y) ** 2).mean()
        loss.backward()
        with torch.no_grad():
            weight -= 0.5 * weight.grad
            bias -= 0.5 * bias.grad
            weight.grad.zero_()
            bias.grad.zero_()
        losses.append(loss.item())
    return {"weight": weight.item(), "bias": bias.item(), "first": losses[0], "last": losses[-1]}
