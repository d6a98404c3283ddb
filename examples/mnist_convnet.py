"""Trains a convolutional network on MNIST, and says how many of the test digits it reads.

Run it with `python examples/mnist_convnet.py [--steps 600] [folder]`: the folder has the four files of MNIST, packed or
not, or is an address to download them from ("web" for the one where they are published). Without it, the 8 by 8 digits
that come with whit take their place, enlarged to 28 by 28. Expect 98 to 99 % after 600 steps: a minute on 2 cores.
"""

import argparse

from whit import Tensor, TinyJit, nn
from whit.progress import trange

BATCH = 64


class ConvNet:
    """(batch, 1, 28, 28) to (batch, 10)."""

    def __init__(self) -> None:
        self.conv1, self.conv2 = nn.Conv2d(1, 16, 5, bias=False), nn.Conv2d(16, 32, 5, bias=False)
        self.norm1, self.norm2 = nn.BatchNorm(16), nn.BatchNorm(32)
        self.out = nn.Linear(32 * 4 * 4, 10)

    def __call__(self, x: Tensor) -> Tensor:
        x = self.norm1(self.conv1(x / 255)).relu().max_pool2d(2)  # (batch, 16, 12, 12)
        x = self.norm2(self.conv2(x)).relu().max_pool2d(2)  # (batch, 32, 4, 4)
        return self.out(x.flatten(1).dropout(0.25))


def load(folder: str | None) -> tuple[Tensor, ...]:
    """Images of bytes and labels to train with, and the same to test with."""
    if folder is not None:
        return nn.datasets.mnist(folder=None if folder == "web" else folder)
    print("no folder with MNIST was given: training on the small digits that come with whit")
    x, y, test_x, test_y = nn.datasets.digits()
    return enlarged(x), y, enlarged(test_x), test_y


def enlarged(images: Tensor) -> Tensor:
    """From 8 by 8 with pixels up to 16 to what MNIST has."""
    return (images.float() * (255 / 16)).interpolate((28, 28), mode="linear").cast(images.dtype).realize()


@TinyJit
def train_step(model: ConvNet, opt: nn.optim.Optimizer, x: Tensor, y: Tensor) -> Tensor:
    opt.zero_grad()
    loss = model(x).cross_entropy(y).backward()
    opt.step()
    return loss


def accuracy(model: ConvNet, x: Tensor, y: Tensor, rows: int = 1000) -> float:
    """The share of images whose digit is found, so many at a time."""
    right = [(model(x[i : i + rows]).argmax(1) == y[i : i + rows]).sum().item() for i in range(0, len(x), rows)]
    return float(sum(right) / len(x))


def main(steps: int = 600, folder: str | None = None) -> float:
    Tensor.manual_seed(0)
    x, y, test_x, test_y = load(folder)
    model = ConvNet()
    opt = nn.optim.AdamW(nn.state.get_parameters(model), lr=0.005)
    schedule = nn.optim.OneCycle(opt, steps)
    with Tensor.train():
        for _ in (bar := trange(steps)):
            rows = Tensor.randint(BATCH, high=len(x))
            loss = train_step(model, opt, x[rows], y[rows])
            schedule.step()
            bar.set_description(f"loss {loss.item():.3f}")
    share = accuracy(model, test_x, test_y)
    print(f"{share:.2%} of {len(test_x)} test digits are read correctly")
    return share


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", nargs="?")
    parser.add_argument("--steps", type=int, default=600)
    arguments = parser.parse_args()
    main(arguments.steps, arguments.folder)
