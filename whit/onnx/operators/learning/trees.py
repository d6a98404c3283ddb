"""Ensembles of trees: all rows walk down all trees at once, a step of gathers for each level.

A node is a row of a table: feature, threshold, comparison, and where to go; a leaf goes to itself. The walk ends after
as many steps as the deepest tree has levels, and the weights of the leaves are added up.
"""

from __future__ import annotations

from typing import Any, Final

import numpy

from whit.dtype import dtypes
from whit.errors import ArgumentError
from whit.onnx.operators.learning.scores import DOMAIN, class_labels, labelled, transformed
from whit.onnx.operators.registry import Node, Value, host_array, operator
from whit.records import dataclass
from whit.tensor import Tensor

Array = numpy.ndarray[Any, Any]
_MODES: Final = (
    "BRANCH_LEQ",
    "BRANCH_LT",
    "BRANCH_GTE",
    "BRANCH_GT",
    "BRANCH_EQ",
    "BRANCH_NEQ",
    "BRANCH_MEMBER",
    "LEAF",
)
MEMBER: Final = 6
LEAF: Final = 7
_AGGREGATES: Final = ("AVERAGE", "SUM", "MIN", "MAX")


@dataclass(frozen=True)
class Forest:
    """The nodes of all trees in one table, and what their leaves say."""

    roots: Array
    features: Array
    thresholds: Array
    modes: Array
    yes: Array
    no: Array
    missing: Array  # whether NaN goes the way of yes
    weights: Array  # (nodes, targets): zero where a leaf says nothing
    says: Array  # (nodes, targets): whether a leaf says something
    members: tuple[tuple[float, ...], ...] = ()  # the set of each node that asks for membership

    @property
    def levels(self) -> int:
        """How many steps lead from a root to the deepest leaf."""
        depth, front = 0, numpy.unique(self.roots)
        while len(front) and depth <= len(self.modes):
            inner = front[self.modes[front] != LEAF]
            if not len(inner):
                return depth
            front = numpy.unique(numpy.concatenate([self.yes[inner], self.no[inner]]))
            depth += 1
        raise ArgumentError("onnx: a tree that leads back to itself", fix="The model is wrong.")


def _compare(forest: Forest, tensors: dict[str, Tensor], at: Tensor, value: Tensor) -> Tensor:
    """Which rows go the way of yes."""
    limit = _taken(tensors["thresholds"], at)
    answers = {
        0: value <= limit,
        1: value < limit,
        2: value >= limit,
        3: value > limit,
        4: value == limit,
        5: value != limit,
    }
    kinds = [int(mode) for mode in numpy.unique(forest.modes) if mode != LEAF]
    mode = _taken(tensors["modes"], at)
    result: Tensor | None = None
    for kind in kinds:
        if kind == MEMBER:
            sets = tensors["members"].index_select(0, at.reshape((at.numel(),))).reshape((*at.shape, -1))
            answer = (value.unsqueeze(-1) == sets).any(-1)
        else:
            answer = answers[kind]
        result = answer if result is None else (mode == kind).where(answer, result)
    if result is None:
        return value == value
    if forest.missing.any():
        result = result | (value.isnan() & _taken(tensors["missing"], at))
    return result


def _taken(table: Tensor, at: Tensor) -> Tensor:
    return table.index_select(0, at.reshape((at.numel(),))).reshape(at.shape)


def walk(forest: Forest, x: Tensor) -> Tensor:
    """(rows, features) -> (rows, trees): the leaf that each row reaches in each tree."""
    device = x.device
    tensors = {
        name: Tensor(numpy.ascontiguousarray(getattr(forest, name)), device=device)
        for name in ("features", "modes", "yes", "no", "missing")
    }
    tensors["thresholds"] = Tensor(forest.thresholds, device=device).cast(x.dtype)
    if forest.members:
        longest = max(map(len, forest.members))
        sets = [[*each, *[float("nan")] * (longest - len(each))] for each in forest.members]
        tensors["members"] = Tensor(numpy.array(sets), device=device).cast(x.dtype)
    at = Tensor(forest.roots, device=device).reshape((1, -1)).expand((x.shape[0], len(forest.roots)))
    for _ in range(forest.levels):
        value = x.gather(1, _taken(tensors["features"], at))
        yes = _compare(forest, tensors, at, value)
        at = yes.where(_taken(tensors["yes"], at), _taken(tensors["no"], at))
    return at


def aggregate(forest: Forest, x: Tensor, how: str) -> Tensor:
    """(rows, targets): what the reached leaves say, put together."""
    at, targets = walk(forest, x), forest.weights.shape[1]
    flat = at.reshape((at.numel(),))
    said = Tensor(forest.weights, device=x.device).index_select(0, flat).reshape((*at.shape, targets))
    if how in ("SUM", "AVERAGE"):
        total = said.sum(1)
        return total / len(forest.roots) if how == "AVERAGE" else total
    speaks = Tensor(forest.says, device=x.device).index_select(0, flat).reshape((*at.shape, targets))
    sign = 1.0 if how == "MAX" else -1.0
    best = speaks.where(said * sign, -float("inf")).max(1) * sign
    return best.isinf().where(0, best)


# ---- attributes -> a forest


def _numbers(node: Node, name: str) -> Array | None:
    given = node.get(f"{name}_as_tensor")
    if given is not None:
        return host_array(given).reshape(-1)
    listed = node.get(name)
    return None if listed is None or len(listed) == 0 else numpy.array(listed, dtype=numpy.float32)


def read_forest(node: Node, prefix: str, targets: int) -> Forest:
    """From the attributes of TreeEnsembleRegressor and TreeEnsembleClassifier."""
    trees, ids = (numpy.array(node.get(f"nodes_{name}"), dtype=numpy.int64) for name in ("treeids", "nodeids"))
    place = {pair: i for i, pair in enumerate(zip(trees.tolist(), ids.tolist(), strict=True))}
    modes = numpy.array([_MODES.index(name) for name in node.get("nodes_modes")], dtype=numpy.int32)
    own = numpy.arange(len(ids))
    sides = []
    for name in ("nodes_truenodeids", "nodes_falsenodeids"):
        goes = [place.get(pair, -1) for pair in zip(trees.tolist(), node.get(name), strict=True)]
        sides.append(numpy.where(modes == LEAF, own, numpy.array(goes, dtype=numpy.int64)))
    if any((side < 0).any() for side in sides):
        raise ArgumentError(f"{node}: a node leads to one that is not there", fix="The model is wrong.")
    thresholds = _numbers(node, "nodes_values")
    values = _numbers(node, f"{prefix}_weights")
    weights = numpy.zeros((len(ids), targets), dtype=numpy.float32 if values is None else values.dtype)
    says = numpy.zeros((len(ids), targets), dtype=bool)
    leaves = zip(node.get(f"{prefix}_treeids"), node.get(f"{prefix}_nodeids"), strict=True)
    for i, (pair, target) in enumerate(zip(leaves, node.get(f"{prefix}_ids"), strict=True)):
        weights[place[pair], target] += 0 if values is None else values[i]
        says[place[pair], target] = True
    missing = node.get("nodes_missing_value_tracks_true") or [0] * len(ids)
    return Forest(
        roots=_roots(trees, sides),
        features=numpy.where(modes == LEAF, 0, numpy.array(node.get("nodes_featureids"), dtype=numpy.int64)),
        thresholds=numpy.zeros(len(ids), numpy.float32) if thresholds is None else thresholds,
        modes=modes,
        yes=sides[0],
        no=sides[1],
        missing=numpy.array(missing, dtype=bool),
        weights=weights,
        says=says,
    )


def _roots(trees: Array, sides: list[Array]) -> Array:
    """The node of each tree that no other leads to, or the first."""
    own = numpy.arange(len(trees))
    reached = numpy.zeros(len(trees), dtype=bool)
    for side in sides:
        reached[side[side != own]] = True
    roots = []
    for tree in numpy.unique(trees):
        nodes = own[trees == tree]
        free = nodes[~reached[nodes]]
        roots.append(int(free[0] if len(free) else nodes[0]))
    return numpy.array(roots, dtype=numpy.int64)


def _base(node: Node, scores: Tensor) -> Tensor:
    values = _numbers(node, "base_values")
    if values is None:
        return scores
    return scores + Tensor(values, device=scores.device).cast(scores.dtype)


def _wide(x: Tensor) -> Tensor:
    return x if x.dtype is dtypes.float64 else x.cast(dtypes.float32)


@operator("TreeEnsembleRegressor", since=(1, 3), domain=DOMAIN)
def tree_regressor(node: Node, x: Tensor) -> Tensor:
    """(rows, targets)."""
    forest = read_forest(node, "target", int(node.get("n_targets", 1)))
    total = _base(node, aggregate(forest, _wide(x), node.get("aggregate_function", "SUM")))
    return transformed(total, node.get("post_transform", "NONE")).cast(dtypes.float32)


@operator("TreeEnsembleClassifier", since=(1, 3), domain=DOMAIN)
def tree_classifier(node: Node, x: Tensor) -> tuple[Value, Value]:
    """The label and the scores; weights of one class of two are those of the second."""
    labels, how = class_labels(node), node.get("post_transform", "NONE")
    forest = read_forest(node, "class", max(len(labels), 1))
    scores = aggregate(forest, _wide(x), "SUM")
    used = sorted({int(number) for number in node.get("class_ids")})
    if len(labels) == 2 and len(used) == 1:
        return _of_two(node, labels, scores[:, used[0] : used[0] + 1], bool((forest.weights >= 0).all()))
    total = _base(node, scores)
    return labelled(labels, total.argmax(1)), transformed(total, how).cast(dtypes.float32)


def _of_two(node: Node, labels: list[Any], one: Tensor, is_share: bool) -> tuple[Value, Value]:
    """Shares of the second class, or scores of any sign."""
    values, how = _numbers(node, "base_values"), node.get("post_transform", "NONE")
    if values is not None:
        one = one + float(values[-1])
    best = (one[:, 0] > (0.5 if is_share else 0.0)).cast(dtypes.int64)
    share = one.sigmoid() if how == "LOGISTIC" else one  # of one number there is no softmax
    if is_share or how == "LOGISTIC":
        both = (1 - share).cat(share, dim=1)
    else:
        both = (-one).cat(one, dim=1)
    return labelled(labels, best), both.cast(dtypes.float32)


@operator("TreeEnsemble", since=(5,), domain=DOMAIN)
def tree_ensemble(node: Node, x: Tensor) -> Tensor:
    """(rows, targets), from the newer attributes: inner nodes and leaves in tables of their own."""
    modes, splits = (host_array(node.get(f"nodes_{name}")).reshape(-1) for name in ("modes", "splits"))
    inner, weights = len(modes), host_array(node.get("leaf_weights")).reshape(-1)
    leaves, targets = len(weights), int(node.get("n_targets", 1))
    own = numpy.arange(inner + leaves)
    sides = []
    for name in ("true", "false"):
        ids, ends = (numpy.array(node.get(f"nodes_{name}{what}"), dtype=numpy.int64) for what in ("nodeids", "leafs"))
        side = own.copy()
        side[:inner] = ids + inner * (ends != 0)
        sides.append(side)
    table = numpy.zeros((inner + leaves, targets), dtype=weights.dtype)
    says = numpy.zeros((inner + leaves, targets), dtype=bool)
    ids = numpy.array(node.get("leaf_targetids"), dtype=numpy.int64)
    table[own[inner:], ids], says[own[inner:], ids] = weights, True
    missing = node.get("nodes_missing_value_tracks_true") or [0] * inner
    forest = Forest(
        roots=numpy.array(node.get("tree_roots"), dtype=numpy.int64),
        features=numpy.concatenate(
            [numpy.array(node.get("nodes_featureids"), dtype=numpy.int64), numpy.zeros(leaves, numpy.int64)]
        ),
        thresholds=numpy.concatenate([splits, numpy.zeros(leaves, splits.dtype)]),
        modes=numpy.concatenate([modes.astype(numpy.int32), numpy.full(leaves, LEAF, numpy.int32)]),
        yes=sides[0],
        no=sides[1],
        missing=numpy.concatenate([numpy.array(missing, dtype=bool), numpy.zeros(leaves, dtype=bool)]),
        weights=table,
        says=says,
        members=_members(node, modes, leaves),
    )
    total = aggregate(forest, x, _AGGREGATES[int(node.get("aggregate_function", 1))])
    return transformed(total, int(node.get("post_transform", 0))).cast(x.dtype)


def _members(node: Node, modes: Array, leaves: int) -> tuple[tuple[float, ...], ...]:
    """The sets, which NaN divides, given to the nodes that ask for them."""
    if node.get("membership_values") is None:
        return ()
    sets: list[list[float]] = [[]]
    for value in host_array(node.get("membership_values")).reshape(-1).tolist():
        if value != value:
            sets.append([])
        else:
            sets[-1].append(value)
    given = iter(sets)
    rows = [tuple(next(given)) if mode == MEMBER else () for mode in modes]
    return (*rows, *((),) * leaves)
