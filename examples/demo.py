"""One computation through what exists of the compiler: built, simplified, lowered by hand, run and checked.

    make demo

The column sums of a 4x6 matrix that lies in memory as 24 numbers.
"""

from __future__ import annotations

import numpy as np

from whit import UOp, dtypes
from whit.ir import Stage, ops
from whit.ir.args import Memory, RangeKind
from whit.ir.interpret import evaluate, run
from whit.ir.parse import parse
from whit.ir.rewrite import tracing
from whit.ir.text import to_text
from whit.ir.verify import verify
from whit.simplify import bounds, simplify

FLOAT = dtypes.float32


def show(title: str, text: str) -> None:
    print(f"\n{title}\n{'-' * len(title)}")
    print("\n".join(f"  {line}" for line in text.splitlines()))


def tensor_graph() -> UOp:
    """shape (24,) -> (4, 6) -> (6, 4) -> (6,)"""
    numbers = UOp.buffer(0, FLOAT, (24,))
    return numbers.reshape((4, 6)).permute((1, 0)).reduce(ops.ADD, (1,))


def naive_position(column: UOp, row: UOp) -> UOp:
    """Where element (column, row) of the transposed matrix lies, as taking one movement op at a time gives it."""
    transposed = column * 4 + row
    back = (transposed % 4) * 6 + transposed // 4
    return (back // 6) * 6 + back % 6


def kernel(position: UOp, column: UOp, row: UOp) -> UOp:
    numbers, sums = UOp.param(0, FLOAT, (24,)), UOp.param(1, FLOAT, (6,))
    return sums.store(numbers.index(position).reduce(ops.ADD, ranges=(row,)), column)


def program(position: UOp, column: UOp, row: UOp) -> UOp:
    numbers, sums = UOp.param(0, FLOAT, (24,)), UOp.param(1, FLOAT, (6,))
    total = UOp.buffer(0, FLOAT, (1,), memory=Memory.REGISTER)
    clear = total.store(UOp.const(FLOAT, 0.0), 0)
    so_far = total.after(clear).load(0)
    update = total.store(so_far + numbers.load(position), 0)
    summed = total.after(update, row.end()).load(0)
    write = sums.store(summed, column)
    # The list is the order of execution: what stands here, each after the nodes that it needs.
    *order, _ = UOp.group(numbers, sums, total, column, clear, row, update, write, column.end()).topological()
    return UOp.linear(*(node for node in order if node.op is not ops.CONST))


def main() -> None:
    data = np.arange(24, dtype=np.float32)
    expected = data.reshape(4, 6).sum(axis=0)

    graph = tensor_graph()
    verify(graph, Stage.TENSOR)
    show("1. What was asked for: whole arrays", to_text(graph))
    (numbers,) = (node for node in graph.topological() if node.op is ops.BUFFER)
    assert np.array_equal(evaluate(graph, {numbers: data}), expected)

    column, row = UOp.range(6, 0), UOp.range(4, 1, RangeKind.REDUCE)
    naive = naive_position(column, row)
    with tracing() as steps:
        position = simplify(naive)
    lines = [naive.expression(), *(f"  {step}" for step in steps), position.expression()]
    show("2. The position that it reads, simplified rule by rule", "\n".join(lines))
    low, high = bounds(position) or (0, -1)
    assert (low, high) == (0, 23), "the position leaves the 24 numbers"
    places = evaluate(naive)
    assert np.array_equal(places, evaluate(position))

    loops = kernel(position, column, row)
    verify(loops, Stage.KERNEL)
    show("3. The kernel: ranges, and a sum over one of them", to_text(loops))
    assert np.array_equal(sums_of(loops, data), expected)

    instructions = program(position, column, row)
    verify(instructions, Stage.PROGRAM)
    show("4. The program: loops in order, the sum in a register", to_text(instructions))
    assert np.array_equal(sums_of(instructions, data), expected)
    for each in (graph, loops, instructions):
        assert parse(to_text(each)) is each

    checked = (
        f"1, 3 and 4, run by the interpreter, give what NumPy gives: {expected.tolist()}",
        f"the position in 2 is the same before and after for all {places.size} values of its ranges, and in bounds",
        "each graph is what its stage promises (the verifier), and its text reads back as the same graph",
    )
    show("Checked", "\n".join(checked))
    print("\nThe steps from 1 to 3 and from 3 to 4 are written by hand: no pass of whit makes them yet.")


def sums_of(effect: UOp, data: np.ndarray) -> np.ndarray:
    """What a kernel or a program writes into its second param."""
    sums = np.zeros(6, np.float32)
    run(effect, {node: (data, sums)[node.arg.slot] for node in effect.topological() if node.op is ops.PARAM})
    return sums


if __name__ == "__main__":
    main()
