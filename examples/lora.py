"""Fine-tunes loaded weights by low-rank adapters (LoRA): they stay as they are, and thin matrices learn the difference.

Run it with `python examples/lora.py [--steps 200]`. A classifier learns the digits that come with whit and is saved as
build/digits.safetensors. Then the same digits come upside down, which it cannot read. Adapters of rank 4 are trained on
top of the loaded weights, with a few per cent of their size, and merged into weights for a plain model again.
Expect less than half right before and more than 90 % after, in a few seconds.
"""

import argparse
from pathlib import Path

from whit import Tensor, TinyJit, nn
from whit.nn.state import get_parameters, get_state_dict, load_state_dict, safe_load, safe_save
from whit.progress import trange

BATCH = 64
WIDTH = 128


class Classifier:
    """Pictures (n, 64) to the logits of ten digits."""

    def __init__(self) -> None:
        self.first, self.second, self.out = nn.Linear(64, WIDTH), nn.Linear(WIDTH, WIDTH), nn.Linear(WIDTH, 10)

    def __call__(self, x: Tensor) -> Tensor:
        return self.out(self.second(self.first(x).relu()).relu())


class LoRA:
    """A linear layer that stays as it is, and `up @ down` beside it, which begins as nothing."""

    def __init__(self, base: nn.Linear, rank: int) -> None:
        outputs, inputs = base.weight.shape
        self.base = base
        for weight in get_parameters(base):
            weight.requires_grad = False  # optimisers leave it alone
        self.down, self.up = Tensor.kaiming_uniform(rank, inputs), Tensor.zeros(outputs, rank)

    def __call__(self, x: Tensor) -> Tensor:
        return self.base(x) + x @ self.down.T @ self.up.T

    def merged(self) -> nn.Linear:
        """A plain layer that does the same."""
        layer = nn.Linear(*self.base.weight.shape[::-1])
        layer.weight, layer.bias = (self.base.weight + self.up @ self.down).realize(), self.base.bias
        return layer


@TinyJit
def train_step(model: Classifier, opt: nn.optim.Optimizer, x: Tensor, y: Tensor) -> Tensor:
    opt.zero_grad()
    loss = model(x).cross_entropy(y).backward()
    opt.step()
    return loss


def train(model: Classifier, x: Tensor, y: Tensor, steps: int, name: str) -> None:
    opt = nn.optim.Adam(get_parameters(model), lr=0.005)
    print(f"{name}: {sum(weight.numel() for weight in opt.params):,} weights are trained")
    for _ in (bar := trange(steps)):
        rows = Tensor.randint(BATCH, high=len(x))
        loss = train_step(model, opt, x[rows], y[rows])
        bar.set_description(f"{name}, loss {loss.item():.3f}")


def accuracy(model: Classifier, x: Tensor, y: Tensor) -> float:
    return float((model(x).argmax(1) == y).mean().item())


def main(steps: int = 200, rank: int = 4, folder: str = "build") -> dict[str, float]:
    """The share of test digits that are read: by the base, and upside down before, with adapters, and merged."""
    Tensor.manual_seed(0)
    x, y, test_x, test_y = nn.datasets.digits()
    x, test_x = (x.flatten(1) / 16).realize(), (test_x.flatten(1) / 16).realize()
    path = Path(folder) / "digits.safetensors"
    path.parent.mkdir(exist_ok=True)

    base = Classifier()
    train(base, x, y, steps, "base")
    safe_save(get_state_dict(base), path)

    model = Classifier()
    load_state_dict(model, safe_load(path))
    turned, test_turned = x.flip(1).realize(), test_x.flip(1).realize()  # the last pixel first: upside down
    found = {"upright": accuracy(model, test_x, test_y), "before": accuracy(model, test_turned, test_y)}
    for name, layer in list(vars(model).items()):
        setattr(model, name, LoRA(layer, rank))
    train(model, turned, y, steps, "adapters")
    found["adapted"] = accuracy(model, test_turned, test_y)
    for name, layer in list(vars(model).items()):
        setattr(model, name, layer.merged())
    found["merged"] = accuracy(model, test_turned, test_y)

    print(f"upright digits: {found['upright']:.1%} are read; upside down: {found['before']:.1%}")
    print(f"with adapters of rank {rank}: {found['adapted']:.1%}; merged into the weights: {found['merged']:.1%}")
    return found


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--steps", type=int, default=200)
    main(parser.parse_args().steps)
