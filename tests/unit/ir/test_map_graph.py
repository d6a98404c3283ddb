"""Graphs mapped node by node."""

from __future__ import annotations

from whit.dtype import dtypes
from whit.ir import ops
from whit.ir.map_graph import map_graph, map_graphs, rebuilt
from whit.ir.op import Sources
from whit.ir.uop import UOp, const

X = UOp.variable("x", 0, 9)
Y = UOp.variable("y", 0, 9)


def no_change(node: UOp, src: Sources) -> UOp | None:
    return None


def test_a_graph_that_nothing_changes_in_is_the_same_object() -> None:
    root = (X * 3 + Y) // 2
    assert map_graph(root, no_change) is root


def test_a_change_is_asked_about_each_node_once_sources_first() -> None:
    shared = X * 3
    root = shared + (shared + Y)
    asked: list[UOp] = []
    map_graph(root, lambda node, src: asked.append(node))
    assert asked == root.topological()


def test_a_change_gets_the_node_as_it_was_and_its_sources_as_they_are() -> None:
    def change(node: UOp, src: Sources) -> UOp | None:
        if node is X:
            return Y
        if node.op is ops.MUL:
            assert node.src[0] is X and src[0] is Y
            return src[0] + src[1]
        return None

    assert map_graph(X * 3 + 1, change) is (Y + 3) + 1


def test_what_a_change_returns_is_not_entered_again() -> None:
    assert map_graph(X + 1, lambda node, src: node + 1 if node is X else None) is (X + 1) + 1


def test_nodes_that_are_known_are_neither_asked_about_nor_entered() -> None:
    inner = X * 3
    known = {inner: Y}
    asked: list[UOp] = []
    assert map_graph(inner + 1, lambda node, src: asked.append(node), known) is Y + 1
    assert X not in asked
    assert inner not in asked


def test_the_memo_is_filled_and_can_be_used_again() -> None:
    memo: dict[UOp, UOp] = {X: Y}
    map_graph(X * 3, no_change, memo)
    assert memo[X * 3] is Y * 3
    asked: list[UOp] = []
    assert map_graph(X * 3 + 1, lambda node, src: asked.append(node), memo) is Y * 3 + 1
    assert asked == [const(dtypes.weakint, 1), X * 3 + 1]


def test_several_roots_share_their_nodes() -> None:
    shared = X * 3
    asked: list[UOp] = []
    done = map_graphs((shared + 1, shared + 2), lambda node, src: asked.append(node))
    assert asked.count(shared) == 1
    assert done[shared + 2] is shared + 2


def test_bodies_of_functions_are_not_entered() -> None:
    param = UOp.param(0, dtypes.float32, (4,))
    function = UOp.function(param + param, "twice")
    call = function.call(UOp.param(1, dtypes.float32, (4,)))
    asked: list[UOp] = []
    assert map_graph(call, lambda node, src: asked.append(node)) is call
    assert param not in asked
    assert function in asked


def test_depth_does_not_matter() -> None:
    root = X
    for _ in range(100_000):
        root = root + Y
    assert map_graph(root, lambda node, src: Y if node is X else None) is not root


def test_a_node_over_its_own_sources_is_itself() -> None:
    node = X + Y
    assert rebuilt(node, (X, Y)) is node
    assert rebuilt(node, (Y, Y)) is Y + Y
