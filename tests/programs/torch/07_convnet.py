"""A small convolutional network with batch norm and pooling, on drawn shapes."""

import whit.torch as torch
import whit.torch.nn as nn
import whit.torch.nn.functional as F
import whit.torch.optim as optim


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv1 = nn.Conv2d(1, 6, 3, padding=1)
        self.norm = nn.BatchNorm2d(6)
        self.pool = nn.MaxPool2d(2, 2)
        self.conv2 = nn.Conv2d(6, 8, 3)
        self.fc1 = nn.Linear(8 * 2 * 2, 16)
        self.fc2 = nn.Linear(16, 2)

    def forward(self, x):
        x = self.pool(F.relu(self.norm(self.conv1(x))))
        x = F.max_pool2d(F.relu(self.conv2(x)), 2)
        x = torch.flatten(x, 1)
        x = F.relu(self.fc1(x))
        return self.fc2(x)


def drawn(count):
    """Horizontal bars are class 0, vertical ones class 1."""
    images = torch.zeros(count, 1, 12, 12)
    labels = torch.arange(count) % 2
    for i in range(count):
        place = 1 + (7 * i) % 10
        if labels[i] == 0:
            images[i, 0, place, :] = 1.0
        else:
            images[i, 0, :, place] = 1.0
    return images, labels


def main():
    torch.manual_seed(1)
    images, labels = drawn(20)
    net = Net()
    criterion = nn.CrossEntropyLoss()
    optimizer = optim.SGD(net.parameters(), lr=0.1, momentum=0.9)
    for epoch in range(12):
        optimizer.zero_grad()
        outputs = net(images)
        loss = criterion(outputs, labels)
        loss.backward()
        optimizer.step()
    net.eval()
    with torch.no_grad():
        _, predicted = torch.max(net(images), 1)
    right = (predicted == labels).sum().item()
    return {"learned": right >= 18, "shape": list(outputs.shape), "keys": sorted(net.state_dict())}
