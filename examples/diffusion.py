"""Learns to draw digits out of noise, by diffusion: a network is shown noisy digits and guesses the clean ones.

Run it with `python examples/diffusion.py [--steps 3000]`. It learns from the digits that come with whit, and writes
build/diffusion.svg: a row of new ones of each kind, 0 to 9. Expect a loss of about 0.2, and digits that can be read, in
a minute or two on 2 cores.
"""

import argparse
import math
from pathlib import Path

from whit import Tensor, TinyJit, nn
from whit.progress import trange

LEVELS = 50  # from hardly any noise to nothing else
BATCH = 128


class Denoiser:
    """Noisy pictures (n, 64), their levels (n,) and digits (n,) to clean ones (n, 64)."""

    def __init__(self, width: int) -> None:
        self.inside, self.digit = nn.Linear(64, width), nn.Embedding(10, width)
        self.level = nn.Embedding(LEVELS, width)
        self.layers = [nn.Linear(width, width) for _ in range(3)]
        self.norms = [nn.LayerNorm(width) for _ in self.layers]
        self.out = nn.Linear(width, 64)

    def __call__(self, x: Tensor, level: Tensor, digit: Tensor) -> Tensor:
        hints = self.level(level) + self.digit(digit)
        x = self.inside(x)
        for norm, layer in zip(self.norms, self.layers, strict=True):
            x = x + layer(norm(x + hints).silu())
        return self.out(x)


def kept() -> Tensor:
    """How much of the picture's variance is left at each level: from nearly 1 to nearly 0, along a cosine."""
    return ((Tensor.arange(LEVELS) + 1) / (LEVELS + 1) * (math.pi / 2)).cos().square()


@TinyJit
def train_step(model: Denoiser, opt: nn.optim.Optimizer, share: Tensor, x: Tensor, digit: Tensor) -> Tensor:
    """Each picture gets a level and a noise by chance."""
    level, noise = Tensor.randint(x.shape[0], high=LEVELS), Tensor.randn(*x.shape)
    left = share[level].unsqueeze(1)
    opt.zero_grad()
    loss = (model(left.sqrt() * x + (1 - left).sqrt() * noise, level, digit) - x).square().mean().backward()
    opt.step()
    return loss


def sample_step(model: Denoiser, share: Tensor, x: Tensor, level: Tensor, digit: Tensor) -> Tensor:
    """Pictures with a little less noise: the clean ones that the model sees, with the noise of the level before."""
    left, before = share[level], (level > 0).where(share[level - 1], 1.0)
    clean = model(x, level.expand(x.shape[0]), digit).clip(-1, 1)
    noise = (x - left.sqrt() * clean) / (1 - left).sqrt()
    return (before.sqrt() * clean + (1 - before).sqrt() * noise).realize()


def sample(model: Denoiser, share: Tensor, digit: Tensor) -> Tensor:
    """A picture (64,) of each digit, from noise alone."""
    x = Tensor.randn(digit.shape[0], 64)
    for level in reversed(range(LEVELS)):
        x = sample_step(model, share, x, Tensor([level]), digit)
    return x


def picture(pixels: list[list[float]], columns: int, scale: int = 6) -> str:
    """Pictures of 8 by 8 points from -1 to 1, side by side, in SVG."""
    squares = []
    for i, points in enumerate(pixels):
        left, top = i % columns * 9 + 1, i // columns * 9 + 1
        for j, value in enumerate(points):
            light = round((min(max(value, -1), 1) + 1) * 127.5)
            place = f'x="{left + j % 8}" y="{top + j // 8}"'
            squares.append(f'<rect {place} width="1" height="1" fill="rgb({light},{light},{light})"/>')
    width, height = columns * 9 + 1, -(-len(pixels) // columns) * 9 + 1
    head = f'<svg xmlns="http://www.w3.org/2000/svg" width="{width * scale}" height="{height * scale}"'
    return "\n".join(
        [f'{head} viewBox="0 0 {width} {height}"><rect width="100%" height="100%"/>', *squares, "</svg>\n"]
    )


def main(steps: int = 3000, width: int = 256, columns: int = 8, folder: str = "build") -> tuple[list[float], Tensor]:
    Tensor.manual_seed(0)
    images, labels, _, _ = nn.datasets.digits()
    x, y = (images.flatten(1) / 8 - 1).realize(), labels.int().realize()
    model, share = Denoiser(width), kept().realize()
    opt = nn.optim.AdamW(nn.state.get_parameters(model), lr=2e-3)
    schedule = nn.optim.CosineAnnealing(opt, steps)
    ema = nn.optim.EMA(opt.params, decay=0.99)
    losses = []
    for _ in (bar := trange(steps)):
        rows = Tensor.randint(BATCH, high=len(x))
        loss = train_step(model, opt, share, x[rows], y[rows])
        schedule.step()
        ema.update()
        losses.append(loss.item())
        bar.set_description(f"loss {losses[-1]:.3f}")
    with ema.applied():
        drawn = sample(model, share, Tensor.arange(10).repeat_interleave(columns))
    where = Path(folder) / "diffusion.svg"
    where.parent.mkdir(exist_ok=True)
    where.write_text(picture(drawn.tolist(), columns))
    last = losses[-50:]
    print(f"loss {losses[0]:.2f} at first, {sum(last) / len(last):.3f} at last; {len(drawn)} new digits are in {where}")
    return losses, drawn


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--steps", type=int, default=3000)
    main(parser.parse_args().steps)
