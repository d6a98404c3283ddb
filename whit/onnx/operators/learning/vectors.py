"""Support vector machines: kernels of each row with the vectors, weighted; classes by votes of pairs."""

from __future__ import annotations

import itertools
from typing import Any

import numpy

from whit.dtype import dtypes
from whit.onnx.operators.learning.scores import DOMAIN, class_labels, labelled, transformed
from whit.onnx.operators.registry import Node, Value, host_array, operator
from whit.tensor import Tensor


def _table(node: Node, name: str, device: str) -> Tensor:
    return Tensor(numpy.array(node.get(name), dtype=numpy.float32), device=device)


def _kernel(node: Node, x: Tensor, vectors: Tensor) -> Tensor:
    """(rows, vectors)."""
    gamma, offset, degree = (float(number) for number in node.get("kernel_params") or (0.0, 0.0, 0.0))
    kind = node.get("kernel_type", "LINEAR")
    if kind == "RBF":
        return ((x.unsqueeze(1) - vectors).square().sum(-1) * -gamma).exp()
    product = x @ vectors.transpose(0, 1)
    if kind == "POLY":
        return (product * gamma + offset) ** degree
    return (product * gamma + offset).tanh() if kind == "SIGMOID" else product


@operator("SVMRegressor", since=(1,), domain=DOMAIN)
def svm_regressor(node: Node, x: Tensor) -> Tensor:
    """One number for each row, or with `one_class` its sign."""
    rows, count = x.cast(dtypes.float32), int(node.get("n_supports", 0))
    weights = _table(node, "coefficients", x.device)
    if count:
        vectors = _table(node, "support_vectors", x.device).reshape((count, -1))
        total = _kernel(node, rows, vectors) @ weights.reshape((-1, 1))
    else:
        total = _kernel(node, rows, weights.reshape((1, -1)))
    total = total + float(node.get("rho")[0])
    if node.get("one_class", 0):
        return (total > 0).where(1.0, -1.0)
    return transformed(total, node.get("post_transform", "NONE"))


def _pair_scores(node: Node, x: Tensor, counts: list[int]) -> Tensor:
    """(rows, pairs): for each pair of classes, positive where the first wins."""
    total, classes = sum(counts), len(counts)
    kernel = _kernel(node, x, _table(node, "support_vectors", x.device).reshape((total, -1)))
    weights: Any = numpy.array(node.get("coefficients"), dtype=numpy.float32).reshape(classes - 1, total)
    starts = numpy.cumsum([0, *counts])
    table = numpy.zeros((total, classes * (classes - 1) // 2), dtype=numpy.float32)
    for pair, (i, j) in enumerate(itertools.combinations(range(classes), 2)):
        table[starts[i] : starts[i + 1], pair] = weights[j - 1, starts[i] : starts[i + 1]]
        table[starts[j] : starts[j + 1], pair] = weights[i, starts[j] : starts[j + 1]]
    return kernel @ Tensor(table, device=x.device) + _table(node, "rho", x.device)


def _probabilities(node: Node, pairs: Tensor, classes: int) -> Tensor:
    """Of classes from those of pairs: the fixed point that Wu, Lin and Weng describe, on the host."""
    a, b = (numpy.array(node.get(name), dtype=numpy.float64) for name in ("prob_a", "prob_b"))
    scores: Any = host_array(pairs).astype(numpy.float64)
    wins = (1 / (1 + numpy.exp(scores * a + b))).clip(1e-7, 1 - 1e-7)
    r = numpy.zeros((len(wins), classes, classes))
    for pair, (i, j) in enumerate(itertools.combinations(range(classes), 2)):
        r[:, i, j], r[:, j, i] = wins[:, pair], 1 - wins[:, pair]
    return Tensor(numpy.array([_coupled(row) for row in r]), device=pairs.device).cast(dtypes.float32)


def _coupled(r: Any) -> Any:
    """p with sum 1 that agrees best with the shares r[i, j] of i among i and j."""
    count = len(r)
    q = -(r.T * r)
    numpy.fill_diagonal(q, numpy.square(r).sum(0))
    p = numpy.full(count, 1 / count)
    for _ in range(max(100, count)):
        product = q @ p
        if numpy.abs(product - p @ product).max() < 0.005 / count:
            return p
        for t in range(count):
            step = (p @ product - product[t]) / q[t, t]
            p[t] += step
            p /= 1 + step
            product = q @ p
    return p


@operator("SVMClassifier", since=(1,), domain=DOMAIN)
def svm_classifier(node: Node, x: Tensor) -> tuple[Value, Value]:
    """The label, and the scores of pairs or the probabilities of classes."""
    labels, how = class_labels(node), node.get("post_transform", "NONE")
    rows = x.cast(dtypes.float32)
    rows = rows.unsqueeze(0) if rows.ndim == 1 else rows
    counts = [int(number) for number in node.get("vectors_per_class") or ()]
    if not counts:  # linear: a row of coefficients for each class
        weights = _table(node, "coefficients", x.device).reshape((len(labels), -1))
        scores = _kernel(node, rows, weights) + float(node.get("rho")[0])
        return labelled(labels, scores.argmax(1)), transformed(scores, how)
    pairs = _pair_scores(node, rows, counts)
    if node.get("prob_a"):
        shares = _probabilities(node, pairs, len(counts))
        return labelled(labels, _votes(pairs, len(counts)).argmax(1)), transformed(shares, how)
    votes = _votes(pairs, len(counts))
    if len(counts) == 2:
        pairs = (-pairs).cat(pairs, dim=1)
    return labelled(labels, votes.argmax(1)), transformed(pairs, how)


def _votes(pairs: Tensor, classes: int) -> Tensor:
    table: Any = numpy.zeros((2, pairs.shape[1], classes), dtype=numpy.float32)
    for pair, (i, j) in enumerate(itertools.combinations(range(classes), 2)):
        table[0, pair, i], table[1, pair, j] = 1, 1
    won = (pairs > 0).cast(dtypes.float32)
    first, second = (Tensor(each, device=pairs.device) for each in table)
    return won @ first + (1 - won) @ second
