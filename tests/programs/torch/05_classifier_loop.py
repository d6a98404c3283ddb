"""A classifier with a Dataset, a DataLoader, cross entropy, Adam, and accuracy on held-out points."""

import whit.torch as torch
from whit.torch import nn
from whit.torch.utils.data import DataLoader, Dataset


class Rings(Dataset):
    """Points inside a circle or around it."""

    def __init__(self, count, seed):
        generator = torch.Generator().manual_seed(seed)
        self.points = torch.rand(count, 2, generator=generator) * 2 - 1
        self.labels = (self.points.pow(2).sum(dim=1) > 0.5).long()

    def __len__(self):
        return len(self.points)

    def __getitem__(self, index):
        return self.points[index], self.labels[index]


def train(loader, model, loss_fn, optimizer):
    model.train()
    total = 0.0
    for points, labels in loader:
        loss = loss_fn(model(points), labels)
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        total += loss.item() * len(points)
    return total / len(loader.dataset)


def test(loader, model):
    model.eval()
    right = 0
    with torch.no_grad():
        for points, labels in loader:
            right += (model(points).argmax(1) == labels).type(torch.float).sum().item()
    return right / len(loader.dataset)


def main():
    torch.manual_seed(0)
    training = DataLoader(Rings(256, 1), batch_size=64, shuffle=True)
    testing = DataLoader(Rings(128, 2), batch_size=64)
    model = nn.Sequential(nn.Linear(2, 32), nn.ReLU(), nn.Linear(32, 2))
    optimizer = torch.optim.Adam(model.parameters(), lr=0.02)
    losses = [train(training, model, nn.CrossEntropyLoss(), optimizer) for _ in range(12)]
    return {
        "falls": losses[-1] < 0.6 * losses[0],
        "accurate": test(testing, model) > 0.85,
        "batches": len(training),
        "parameters": sum(p.numel() for p in model.parameters()),
    }
