"""Conway's game of life on a torus: after four steps a glider is the same again, one cell further down and right.

Run it with `python examples/game_of_life.py`. It prints the board as it moves.
"""

from itertools import product

from whit import Tensor

GLIDER = [[0, 1, 0], [0, 0, 1], [1, 1, 1]]


def step(board: Tensor) -> Tensor:
    """One generation. A cell lives if it has three living neighbours, or has two and is alive."""
    neighbours = -board  # the sum below counts the cell itself, too
    for shifts in product((-1, 0, 1), repeat=2):
        neighbours += board.roll(shifts, dims=(0, 1))
    return ((neighbours == 3) | ((neighbours == 2) & (board == 1))).int()


def show(board: Tensor) -> str:
    """The board as text."""
    return "\n".join("".join(".#"[cell] for cell in row) for row in board.tolist())


def main(size: int = 10, steps: int = 12) -> Tensor:
    board = Tensor.zeros(size, size, dtype="int32")
    board[:3, :3] = GLIDER
    for i in range(steps + 1):
        if i % 4 == 0:
            print(f"generation {i}: {board.sum().item()} cells\n{show(board)}\n")
        if i < steps:
            board = step(board).realize()
    return board


if __name__ == "__main__":
    main()
