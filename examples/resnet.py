"""Trains a ResNet-18 on small pictures.

Run it with `python examples/resnet.py [--steps 300] [--width 64] [folder]`: the folder has the files of CIFAR-10, or is
an address to download them from ("web" for the one where they are published). Without it, it learns the digits that
come with whit, enlarged to 16 by 16. Expect 97 % of these after 100 steps of `--width 16`, in less than a minute on 2
cores; the full width of 64 has 11 million weights and is meant for CIFAR-10, where a step takes seconds.
"""

import argparse

from whit import Tensor, TinyJit, nn
from whit.progress import trange


class Block:
    """Two convolutions around which the input goes straight on, or through a third where the shape changes."""

    def __init__(self, channels: int, out: int, stride: int) -> None:
        self.conv1 = nn.Conv2d(channels, out, 3, stride=stride, padding=1, bias=False)
        self.conv2 = nn.Conv2d(out, out, 3, padding=1, bias=False)
        self.bn1, self.bn2 = nn.BatchNorm(out), nn.BatchNorm(out)
        same = stride == 1 and channels == out
        self.downsample = [] if same else [nn.Conv2d(channels, out, 1, stride=stride, bias=False), nn.BatchNorm(out)]

    def __call__(self, x: Tensor) -> Tensor:
        inside = self.bn2(self.conv2(self.bn1(self.conv1(x)).relu()))
        result: Tensor = (inside + x.sequential(self.downsample)).relu()
        return result


class ResNet18:
    """Four stages of two blocks, each with half the points and twice the channels of the one before.

    The first convolution is the small one for small pictures. The names of the weights are those of torchvision.
    """

    def __init__(self, channels: int, width: int = 64, classes: int = 10) -> None:
        self.conv1, self.bn1 = nn.Conv2d(channels, width, 3, padding=1, bias=False), nn.BatchNorm(width)
        self.layer1 = [Block(width, width, 1), Block(width, width, 1)]
        self.layer2 = [Block(width, 2 * width, 2), Block(2 * width, 2 * width, 1)]
        self.layer3 = [Block(2 * width, 4 * width, 2), Block(4 * width, 4 * width, 1)]
        self.layer4 = [Block(4 * width, 8 * width, 2), Block(8 * width, 8 * width, 1)]
        self.fc = nn.Linear(8 * width, classes)

    def __call__(self, x: Tensor) -> Tensor:
        x = self.bn1(self.conv1(x)).relu()
        x = x.sequential([*self.layer1, *self.layer2, *self.layer3, *self.layer4])
        return self.fc(x.mean((2, 3)))


def load(folder: str | None, size: int) -> tuple[Tensor, ...]:
    """Pictures with a mean of about 0 and labels to train with, and the same to test with."""
    if folder is not None:
        x, y, test_x, test_y = nn.datasets.cifar(folder=None if folder == "web" else folder)
        return x / 127.5 - 1, y, test_x / 127.5 - 1, test_y
    print(f"no folder with CIFAR-10 was given: training on the digits that come with whit, {size} by {size}")
    x, y, test_x, test_y = nn.datasets.digits()
    return (
        (x / 8 - 1).interpolate((size, size), mode="linear"),
        y,
        (test_x / 8 - 1).interpolate((size, size), mode="linear"),
        test_y,
    )


@TinyJit
def train_step(model: ResNet18, opt: nn.optim.Optimizer, x: Tensor, y: Tensor) -> Tensor:
    opt.zero_grad()
    loss = model(x).cross_entropy(y, label_smoothing=0.1).backward()
    opt.step()
    return loss


def accuracy(model: ResNet18, x: Tensor, y: Tensor, rows: int = 500) -> float:
    """The share of pictures whose class is found, so many at a time."""
    right = [(model(x[i : i + rows]).argmax(1) == y[i : i + rows]).sum().item() for i in range(0, len(x), rows)]
    return float(sum(right) / len(x))


def main(folder: str | None = None, steps: int = 300, width: int = 64, size: int = 16, batch: int = 64) -> float:
    Tensor.manual_seed(0)
    x, y, test_x, test_y = (tensor.realize() for tensor in load(folder, size))
    model = ResNet18(x.shape[1], width)
    weights = nn.state.get_parameters(model)
    print(f"{sum(weight.numel() for weight in weights):,} weights")
    opt = nn.optim.SGD(weights, lr=0.1, momentum=0.9, weight_decay=5e-4, nesterov=True)
    schedule = nn.optim.OneCycle(opt, steps)
    with Tensor.train():
        for _ in (bar := trange(steps)):
            rows = Tensor.randint(batch, high=len(x))
            loss = train_step(model, opt, x[rows], y[rows])
            schedule.step()
            bar.set_description(f"loss {loss.item():.3f}")
    share = accuracy(model, test_x, test_y)
    print(f"{share:.2%} of {len(test_x)} test pictures are classified correctly")
    return share


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", nargs="?")
    parser.add_argument("--steps", type=int, default=300)
    parser.add_argument("--width", type=int, default=64)
    given = parser.parse_args()
    main(given.folder, given.steps, given.width)
