"""A variational autoencoder: reparametrised samples, and the Kullback-Leibler term."""

import whit.torch as torch
from whit.torch import nn
from whit.torch.nn import functional as F


class VAE(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc1 = nn.Linear(16, 12)
        self.mean = nn.Linear(12, 2)
        self.log_variance = nn.Linear(12, 2)
        self.fc3 = nn.Linear(2, 12)
        self.fc4 = nn.Linear(12, 16)

    def encode(self, x):
        h = F.relu(self.fc1(x))
        return self.mean(h), self.log_variance(h)

    def reparameterize(self, mu, logvar):
        std = torch.exp(0.5 * logvar)
        eps = torch.randn_like(std)
        return mu + eps * std

    def decode(self, z):
        return torch.sigmoid(self.fc4(F.relu(self.fc3(z))))

    def forward(self, x):
        mu, logvar = self.encode(x.view(-1, 16))
        z = self.reparameterize(mu, logvar)
        return self.decode(z), mu, logvar


def loss_function(reconstruction, x, mu, logvar):
    bce = F.binary_cross_entropy(reconstruction, x.view(-1, 16), reduction="sum")
    kld = -0.5 * torch.sum(1 + logvar - mu.pow(2) - logvar.exp())
    return bce + kld


def main():
    torch.manual_seed(7)
    base = torch.eye(4).repeat(1, 4)
    data = base.repeat(8, 1).view(32, 4, 4)
    model = VAE()
    optimizer = torch.optim.Adam(model.parameters(), lr=0.02)
    losses = []
    for _ in range(50):
        optimizer.zero_grad()
        reconstruction, mu, logvar = model(data)
        loss = loss_function(reconstruction, data, mu, logvar)
        loss.backward()
        losses.append(loss.item() / len(data))
        optimizer.step()
    with torch.no_grad():
        sample = model.decode(torch.randn(5, 2))
    exact = loss_function(torch.full((1, 16), 0.25), base[:1], torch.ones(1, 2), torch.zeros(1, 2)).item()
    return {
        "falls": losses[-1] < 0.85 * losses[0],
        "exact": exact,
        "range": bool(((sample >= 0) & (sample <= 1)).all()),
        "shape": list(sample.shape),
    }
