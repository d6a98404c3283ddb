"""Trains a small GPT on the characters of a text file, then writes more of the same.

Run it with `python examples/gpt.py [--steps 500] [--prompt "The "] [file]`; without a file it reads whit's own
documentation. `--save model.safetensors` keeps the weights, and `--load model.safetensors --steps 0` goes on with them.
Expect a loss of about 1.9 after 500 steps, when words come out right and sentences do not: a minute or two on 2 cores.
"""

import argparse
import math
from pathlib import Path

from whit import Tensor, TinyJit, nn
from whit.nn.state import get_parameters, get_state_dict, load_state_dict, safe_load, safe_load_metadata, safe_save
from whit.progress import trange

DOCS = Path(__file__).parent.parent / "docs"


class GPT:
    """Characters (batch, time) to the logits of those that follow (batch, time, letters)."""

    def __init__(self, letters: str, width: int, layers: int, context: int) -> None:
        self.letters, self.context = letters, context
        self.token, self.place = nn.Embedding(len(letters), width), nn.Embedding(context, width)
        self.blocks = [nn.TransformerBlock(width, n_heads=max(width // 32, 1)) for _ in range(layers)]
        self.norm, self.out = nn.LayerNorm(width), nn.Linear(width, len(letters), bias=False)

    def __call__(self, tokens: Tensor) -> Tensor:
        x = self.token(tokens) + self.place(Tensor.arange(tokens.shape[1]))
        for block in self.blocks:
            x = block(x, is_causal=True)
        return self.out(self.norm(x))

    def encode(self, text: str) -> Tensor:
        number = {letter: i for i, letter in enumerate(self.letters)}
        return Tensor([number[letter] for letter in text if letter in number])


@TinyJit
def train_step(model: GPT, opt: nn.optim.Optimizer, rows: Tensor) -> Tensor:
    opt.zero_grad()
    loss = model(rows[:, :-1]).flatten(0, 1).cross_entropy(rows[:, 1:].flatten()).backward()
    nn.optim.clip_grad_norm(opt.params, 1.0)
    opt.step()
    return loss


def train(model: GPT, text: str, steps: int, batch: int, lr: float) -> list[float]:
    """The loss of each step."""
    tokens = model.encode(text)
    opt = nn.optim.AdamW(get_parameters(model), lr=lr, b2=0.99)
    schedule = nn.optim.WarmUp(steps // 20 + 1, nn.optim.CosineAnnealing(opt, steps))
    losses = []
    with Tensor.train():
        for _ in (bar := trange(steps)):
            starts = Tensor.randint(batch, 1, high=len(tokens) - model.context)
            loss = train_step(model, opt, tokens[starts + Tensor.arange(model.context + 1)])
            schedule.step()
            losses.append(loss.item())
            bar.set_description(f"loss {losses[-1]:.3f}")
    return losses


def next_token(model: GPT, window: Tensor, temperature: float, top_k: int) -> Tensor:
    """One of the top_k most likely characters after the window, drawn with its probability."""
    logits, tokens = (model(window)[:, -1] / temperature).topk(min(top_k, len(model.letters)))
    return tokens.gather(1, logits.softmax().multinomial())


def sample(model: GPT, prompt: str, count: int, temperature: float = 0.8, top_k: int = 20) -> str:
    """The prompt and `count` characters more. Each one sees as many before it as the model can."""
    window = model.encode((model.letters[0] * model.context + prompt)[-model.context :]).unsqueeze(0)
    text = prompt
    for _ in range(count):
        token = next_token(model, window, temperature, top_k)
        window = window[:, 1:].cat(token, dim=1).realize()
        text += model.letters[int(window[0, -1].item())]
    return text


def save(model: GPT, path: str) -> None:
    safe_save(get_state_dict(model), path, {"letters": model.letters})


def load(path: str) -> GPT:
    """A saved model: its sizes are those of the weights."""
    weights = safe_load(path)
    context, width = weights["place.weight"].shape
    layers = sum(name.endswith("norm1.weight") for name in weights)
    model = GPT(safe_load_metadata(path)["letters"], width, layers, context)
    load_state_dict(model, weights)
    return model


def main(
    file: str | None = None, steps: int = 500, *, width: int = 128, layers: int = 4, context: int = 64, batch: int = 16,
    lr: float = 1e-3, prompt: str = "\n", count: int = 300, save_to: str | None = None, load_from: str | None = None,
) -> tuple[list[float], str]:  # fmt: skip
    Tensor.manual_seed(0)
    text = Path(file).read_text() if file else "\n".join(path.read_text() for path in sorted(DOCS.glob("*.md")))
    model = load(load_from) if load_from else GPT("".join(sorted(set(text))), width, layers, context)
    losses = train(model, text, steps, batch, lr) if steps else []
    if losses:
        print(
            f"loss {losses[0]:.2f} at first and {losses[-1]:.2f} at last; {math.log(len(model.letters)):.2f} is chance"
        )
    if save_to:
        save(model, save_to)
    written = sample(model, prompt, count)
    print(written)
    return losses, written


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("file", nargs="?")
    parser.add_argument("--steps", type=int, default=500)
    parser.add_argument("--prompt", default="\n")
    parser.add_argument("--save")
    parser.add_argument("--load")
    given = parser.parse_args()
    main(given.file, given.steps, prompt=given.prompt, save_to=given.save, load_from=given.load)
