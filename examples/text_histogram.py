"""The letters of a text file, counted: the file is a tensor of bytes.

Run it with `python examples/text_histogram.py FILE`. Without a file it counts its own letters.
"""

import sys
from pathlib import Path

from whit import Tensor


def letter_counts(path: Path) -> Tensor:
    """How often each letter from a to z is in the file, whether small or large."""
    text = Tensor(path).to("CPU")  # bytes: numbers from 0 to 255
    counts = text.bincount(minlength=256)  # one for each byte
    return counts[ord("a") : ord("z") + 1] + counts[ord("A") : ord("Z") + 1]


def main(path: str = __file__) -> Tensor:
    counts = letter_counts(Path(path))
    share = counts / counts.sum().maximum(1)
    for i in counts.argsort(descending=True).tolist():
        if counts[i] > 0:
            print(f"{chr(ord('a') + i)} {counts[i]:6d} {share[i]:6.1%} {'#' * round(400 * share[i].item())}")
    return counts


if __name__ == "__main__":
    main(*sys.argv[1:])
