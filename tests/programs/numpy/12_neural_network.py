"""A network of two layers with backpropagation written out."""

import whit.numpy as np


def main():
    x = np.array([[0.0, 0.0], [0.0, 1.0], [1.0, 0.0], [1.0, 1.0]])
    y = np.array([[0.0], [1.0], [1.0], [0.0]])
    w1 = np.sin(np.arange(8.0)).reshape(2, 4)
    b1 = np.zeros((1, 4))
    w2 = np.cos(np.arange(4.0)).reshape(4, 1)
    b2 = np.zeros((1, 1))
    losses = []
    for _ in range(10):
        hidden = np.tanh(x @ w1 + b1)
        out = hidden @ w2 + b2
        error = out - y
        losses.append(float(np.mean(error**2)))
        d_out = 2 * error / len(x)
        d_hidden = (d_out @ w2.T) * (1 - hidden**2)
        w2 = w2 - 0.2 * hidden.T @ d_out
        b2 = b2 - 0.2 * d_out.sum(axis=0, keepdims=True)
        w1 = w1 - 0.2 * x.T @ d_hidden
        b1 = b1 - 0.2 * d_hidden.sum(axis=0, keepdims=True)
    return {"first": losses[0], "last": losses[-1], "w2": w2.ravel().tolist()}
