"""Trains a classifier of handwritten digits on the data that comes with whit, and draws its loss.

Run it with `make demo`, or `python examples/demo.py [steps]`. examples/stages.py shows how a computation becomes a
kernel.
"""

import math
import sys
import time
from pathlib import Path

from whit import GlobalCounters, Tensor, TinyJit, nn
from whit.helpers import trange

BATCH = 64


class ConvNet:
    """Two convolutions and a linear layer: (batch, 1, 8, 8) to (batch, 10)."""

    def __init__(self) -> None:
        self.conv1, self.norm1 = nn.Conv2d(1, 16, 3, padding=1, bias=False), nn.BatchNorm(16)
        self.conv2, self.norm2 = nn.Conv2d(16, 32, 3, padding=1, bias=False), nn.BatchNorm(32)
        self.out = nn.Linear(32 * 4 * 4, 10)

    def __call__(self, x: Tensor) -> Tensor:
        x = self.norm1(self.conv1(x)).relu()  # (batch, 16, 8, 8)
        x = self.norm2(self.conv2(x)).relu().max_pool2d(2)  # (batch, 32, 4, 4)
        return self.out(x.flatten(1))


def picture(losses: list[float], title: str, width: int = 640, height: int = 320) -> str:
    """The losses as a curve in SVG, over a logarithmic axis from the largest to 0.001."""
    low, high = -3.0, 1.0
    edge = 44
    inside, tall = width - 2 * edge, height - 2 * edge

    def y(exponent: float) -> float:
        return edge + tall * (high - exponent) / (high - low)

    points = []
    for i, loss in enumerate(losses):
        exponent = min(max(_log10(loss), low), high)
        points.append(f"{edge + inside * i / max(len(losses) - 1, 1):.1f},{y(exponent):.1f}")
    lines = []
    for exponent in range(int(low), int(high) + 1):
        lines.append(f'<path d="M{edge} {y(exponent):.1f}h{inside}" stroke="#ddd"/>')
        lines.append(f'<text x="{edge - 6}" y="{y(exponent) + 4:.1f}" text-anchor="end">{10.0**exponent:g}</text>')
    return "\n".join(
        [
            f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" font-family="sans-serif"',
            ' font-size="12"><rect width="100%" height="100%" fill="white"/>',
            f'<text x="{edge}" y="24" font-size="14">{title}</text>',
            *lines,
            f'<text x="{edge}" y="{height - 16}">step 0</text>',
            f'<text x="{width - edge}" y="{height - 16}" text-anchor="end">step {len(losses)}</text>',
            f'<polyline points="{" ".join(points)}" fill="none" stroke="#06c" stroke-width="1.5"/>',
            "</svg>\n",
        ]
    )


def _log10(value: float) -> float:
    return math.log10(value) if value > 0 else -math.inf


def accuracy(model: ConvNet, x: Tensor, y: Tensor) -> float:
    """The share of rows whose class is found."""
    return float(model(x).argmax(1).eq(y).mean().item())


def train(steps: int) -> tuple[list[float], float, int, int]:
    """Losses, accuracy on rows that were not trained on; kernels of a step and the most bytes in use in one."""
    images, classes, test_images, test_classes = nn.datasets.digits()
    x, y = (images.float() / 16).realize(), classes.int().realize()
    test_x, test_y = (test_images.float() / 16).realize(), test_classes.int().realize()
    model = ConvNet()
    opt = nn.optim.AdamW(nn.state.get_parameters(model), lr=0.01)
    schedule = nn.optim.OneCycle(opt, steps)

    @TinyJit
    def step() -> Tensor:
        rows = Tensor.randint(BATCH, high=x.shape[0])
        opt.zero_grad()
        loss = model(x[rows]).cross_entropy(y[rows]).backward()
        opt.step()
        return loss

    losses = []
    with Tensor.train():
        for _ in (bar := trange(steps, desc="training")):
            GlobalCounters.reset()
            losses.append(step().item())
            peak = GlobalCounters.mem_peak
            schedule.step()
            bar.set_description(f"loss {losses[-1]:.4f}")
    return losses, accuracy(model, test_x, test_y), step.kernels, peak


def main() -> None:
    steps = int(sys.argv[1]) if len(sys.argv) > 1 else 200
    Tensor.manual_seed(0)
    start = time.perf_counter()
    losses, share, kernels, peak = train(steps)
    seconds = time.perf_counter() - start
    print(f"accuracy on test data: {share:.2%} after {steps} steps in {seconds:.1f} s, {steps / seconds:.0f} steps/s")
    print(f"a step: {kernels} kernels, at most {peak / 1e6:.2f} MB of memory")
    where = Path(__file__).parent.parent / "build" / "demo.svg"
    where.parent.mkdir(exist_ok=True)
    where.write_text(picture(losses, f"Loss on digits, {share:.2%} right on test data"))
    print(f"the loss is drawn in {where}")
    if steps >= 200 and share < 0.97:
        raise SystemExit("the accuracy should be at least 97 %")


if __name__ == "__main__":
    main()
