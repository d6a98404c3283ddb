"""A mixture density network's loss for data of two branches, by logsumexp."""

import math

import whit.torch as torch
from whit.torch import nn


class MDN(nn.Module):
    def __init__(self, hidden, parts):
        super().__init__()
        self.body = nn.Sequential(nn.Linear(1, hidden), nn.Tanh())
        self.weights = nn.Linear(hidden, parts)
        self.means = nn.Linear(hidden, parts)
        self.scales = nn.Linear(hidden, parts)

    def forward(self, x):
        h = self.body(x)
        return torch.log_softmax(self.weights(h), dim=-1), self.means(h), torch.exp(self.scales(h))


def negative_log_likelihood(log_pi, mu, sigma, y):
    exponent = -0.5 * ((y - mu) / sigma) ** 2
    log_density = exponent - torch.log(sigma) - 0.5 * math.log(2 * math.pi)
    return -torch.logsumexp(log_pi + log_density, dim=-1).mean()


def main():
    torch.manual_seed(2)
    x = torch.linspace(0.2, 1.0, 64).unsqueeze(1)
    sign = torch.where(torch.arange(64) % 2 == 0, 1.0, -1.0).unsqueeze(1)
    y = sign * torch.sqrt(x)
    model = MDN(16, 2)
    optimizer = torch.optim.Adam(model.parameters(), lr=0.05)
    scheduler = torch.optim.lr_scheduler.StepLR(optimizer, step_size=20, gamma=0.5)
    history = []
    for _ in range(60):
        loss = negative_log_likelihood(*model(x), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        scheduler.step()
        history.append(loss.item())
    exact = negative_log_likelihood(
        torch.log(torch.tensor([[0.3, 0.7]])), torch.tensor([[0.0, 1.0]]), torch.tensor([[1.0, 0.5]]), torch.ones(1, 1)
    )
    return {
        "falls": history[-1] < history[0] - 0.5,
        "exact": exact.item(),
        "rate": round(scheduler.get_last_lr()[0], 9),
    }
