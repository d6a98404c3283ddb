"""A cubic as a module with parameters of its own, trained by SGD with momentum."""

import math

import whit.torch as torch


class Cubic(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.a = torch.nn.Parameter(torch.zeros(()))
        self.b = torch.nn.Parameter(torch.zeros(()))
        self.c = torch.nn.Parameter(torch.zeros(()))
        self.d = torch.nn.Parameter(torch.zeros(()))

    def forward(self, x):
        return self.a + self.b * x + self.c * x**2 + self.d * x**3

    def text(self):
        return f"{self.a.item():.3f} + {self.b.item():.3f} x"


def main():
    x = torch.linspace(-math.pi, math.pi, 200)
    y = torch.sin(x)
    model = Cubic()
    criterion = torch.nn.MSELoss(reduction="sum")
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-6, momentum=0.9)
    for step in range(100):
        loss = criterion(model(x), y)
        if step == 0:
            start = loss.item()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    names = [name for name, _ in model.named_parameters()]
    return {"start": start, "end": loss.item(), "b": model.b.item(), "d": model.d.item(), "names": names}
