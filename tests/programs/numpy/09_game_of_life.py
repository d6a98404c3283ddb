"""Conway's Game of Life by rolled arrays."""

import whit.numpy as np


def step(board):
    neighbours = sum(
        np.roll(board, (dy, dx), axis=(0, 1)) for dy in (-1, 0, 1) for dx in (-1, 0, 1) if (dy, dx) != (0, 0)
    )
    return ((neighbours == 3) | ((board == 1) & (neighbours == 2))).astype(np.int32)


def main():
    board = np.zeros((8, 8), dtype=np.int32)
    board[1, 2] = board[2, 3] = 1
    board[3, 1:4] = 1
    alive = []
    for _ in range(8):
        board = step(board)
        alive.append(int(board.sum()))
    return {"alive": alive, "board": board.tolist(), "rows": np.any(board == 1, axis=1).tolist()}
