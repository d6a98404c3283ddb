"""A generator and a discriminator, with labels by BCE and detached samples."""

import whit.torch as torch
import whit.torch.nn as nn


def main():
    torch.manual_seed(5)
    generator = nn.Sequential(nn.Linear(4, 16), nn.LeakyReLU(0.2), nn.Linear(16, 2))
    discriminator = nn.Sequential(nn.Linear(2, 16), nn.LeakyReLU(0.2), nn.Linear(16, 1), nn.Sigmoid())
    loss_fn = nn.BCELoss()
    g_optimizer = torch.optim.Adam(generator.parameters(), lr=0.01, betas=(0.5, 0.999))
    d_optimizer = torch.optim.Adam(discriminator.parameters(), lr=0.01, betas=(0.5, 0.999))
    before = [p.clone().detach() for p in generator.parameters()]
    for _ in range(60):
        real = torch.randn(32, 2) * 0.1 + torch.tensor([2.0, -1.0])
        fake = generator(torch.randn(32, 4))
        d_optimizer.zero_grad()
        d_loss = loss_fn(discriminator(real), torch.ones(32, 1)) + loss_fn(
            discriminator(fake.detach()), torch.zeros(32, 1)
        )
        d_loss.backward()
        untouched = all(p.grad is None or p.grad.abs().sum().item() == 0 for p in generator.parameters())
        d_optimizer.step()
        g_optimizer.zero_grad()
        g_loss = loss_fn(discriminator(fake), torch.ones(32, 1))
        g_loss.backward()
        g_optimizer.step()
        g_optimizer.zero_grad()
    with torch.no_grad():
        mean = generator(torch.randn(256, 4)).mean(dim=0)
    moved = any((p - q).abs().max().item() > 0 for p, q in zip(generator.parameters(), before))
    return {
        "nearer": (mean - torch.tensor([2.0, -1.0])).norm().item() < 2.2,
        "moved": moved,
        "untouched": untouched,
        "finite": bool(torch.isfinite(d_loss).item() and torch.isfinite(g_loss).item()),
    }
