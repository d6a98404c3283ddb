"""Trains the GPT of examples/ for a few steps, at its smallest: the program of the recording that a browser opens."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2] / "examples"))

from gpt import GPT, train

from whit import Tensor

LETTERS = "abcd \n"

if __name__ == "__main__":
    Tensor.manual_seed(0)
    train(GPT(LETTERS, width=8, layers=1, context=4), LETTERS * 20, steps=4, batch=2, lr=1e-3)
