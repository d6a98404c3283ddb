"""Logistic regression with the gradient written out."""

import whit.numpy as np


def sigmoid(z):
    return 1.0 / (1.0 + np.exp(-z))


def main():
    t = np.arange(40.0)
    features = np.stack([np.sin(t * 1.3), np.cos(t * 0.7)], axis=1)
    labels = (features[:, 0] + 0.5 * features[:, 1] > 0.1).astype(np.float64)
    x = np.concatenate([np.ones((40, 1)), features], axis=1)
    weights = np.zeros(3)
    losses = []
    for _ in range(20):
        p = sigmoid(x @ weights)
        losses.append(float(-np.mean(labels * np.log(p) + (1 - labels) * np.log(1 - p))))
        weights = weights - 1.0 * (x.T @ (p - labels)) / len(labels)
    accuracy = np.mean((sigmoid(x @ weights) > 0.5) == (labels == 1))
    return {"weights": weights.tolist(), "first": losses[0], "last": losses[-1], "accuracy": float(accuracy)}
