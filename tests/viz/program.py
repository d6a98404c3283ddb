"""The program of the recordings that the tests look at: `python program.py [rows]`."""

import sys

from whit import Tensor


def run(rows: int) -> None:
    """Two schedules: one with temporaries, and one of a single kernel that runs twice."""
    x = Tensor([[float(i + j) for i in range(8)] for j in range(rows)])
    (x.exp2().contiguous().sum(0) * 2.0).contiguous().sum().realize()
    for _ in range(2):
        ((x * 3.0 + 1.0).sum(1) + 0.0).realize()


if __name__ == "__main__":
    run(int(sys.argv[1]))
