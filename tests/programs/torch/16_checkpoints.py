"""Saving a model, its optimiser and an epoch in one file, and going on from there."""

import io

import whit.torch as torch
from whit.torch import nn


def build():
    model = nn.Sequential(nn.Linear(3, 5), nn.ReLU(), nn.Linear(5, 1))
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.copy_(torch.linspace(-0.5, 0.5, parameter.numel()).view_as(parameter))
    return model, torch.optim.Adam(model.parameters(), lr=0.05)


def step(model, optimizer, x, y):
    optimizer.zero_grad()
    loss = (model(x) - y).square().mean()
    loss.backward()
    optimizer.step()
    return loss.item()


def main():
    x = torch.cos(torch.arange(24).float()).view(8, 3)
    y = x.sum(1, keepdim=True)
    model, optimizer = build()
    for _ in range(5):
        step(model, optimizer, x, y)
    buffer = io.BytesIO()
    torch.save({"epoch": 5, "model": model.state_dict(), "optimizer": optimizer.state_dict()}, buffer)
    straight = [step(model, optimizer, x, y) for _ in range(3)]
    buffer.seek(0)
    checkpoint = torch.load(buffer, weights_only=True)
    other, other_optimizer = build()
    other.load_state_dict(checkpoint["model"])
    other_optimizer.load_state_dict(checkpoint["optimizer"])
    resumed = [step(other, other_optimizer, x, y) for _ in range(3)]
    return {
        "epoch": checkpoint["epoch"],
        "straight": straight,
        "resumed": resumed,
        "keys": list(checkpoint["model"].keys()),
    }
