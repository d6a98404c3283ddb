"""One computation on its way from a Tensor to a kernel: each stage printed, and the result checked.

Run it with `python examples/stages.py`. docs/tour.md shows every pass in between.
"""

import time

import numpy as np

from whit import Tensor, UOp, dtypes
from whit.codegen import generate
from whit.ir import ops
from whit.ir.interpret import run
from whit.ir.text.write import to_text
from whit.render import render
from whit.schedule import schedule
from whit.simplify import simplify
from whit.target import parse_target

ROWS, COLUMNS = 3, 8
DATA = np.arange(ROWS * COLUMNS, dtype=np.float32).reshape(ROWS, COLUMNS) % 5


def show(title: str, text: str) -> None:
    """A heading and a block."""
    print(f"\n{title}\n{'-' * len(title)}")
    print("\n".join(f"  {line}" for line in text.splitlines()))


def main() -> None:
    wanted = np.exp(DATA - DATA.max(1, keepdims=True))
    wanted /= wanted.sum(1, keepdims=True)
    source, result = (UOp.param(slot, dtypes.float32, (ROWS, COLUMNS)) for slot in range(2))

    graph = UOp.group(result.store(Tensor(source).softmax().uop))
    show("1. What was asked for: softmax of the rows, as a graph of whole arrays", to_text(graph))

    flat = UOp.range(ROWS, 0) * COLUMNS + UOp.range(COLUMNS, 1)
    position = flat // COLUMNS * COLUMNS + flat % COLUMNS
    show("2. Index arithmetic", f"{position.expression()}\nis simplified to\n{simplify(position).expression()}")

    calls = schedule(graph)
    show("3. What runs: one fused kernel over ranges", to_text(calls))
    written = np.zeros((ROWS, COLUMNS), np.float32)
    run(calls, {node: (DATA, written)[node.arg.slot] for node in calls.topological() if node.op is ops.PARAM})
    by_interpreter = np.allclose(written, wanted)

    target = parse_target("CPU")
    program = generate(calls.src[0].src[0].src[0], target)
    lines = render({"softmax": program.linear}, target).splitlines()
    show("4. How it is tiled, and the first lines of what LLVM gets", "\n".join([program.explanation, "", *lines[:24]]))

    start = time.perf_counter()
    values = Tensor(DATA).softmax().numpy()
    first = time.perf_counter() - start
    start = time.perf_counter()
    Tensor(DATA).softmax().numpy()
    second = time.perf_counter() - start
    checks = [
        (by_interpreter, "the schedule, run by the interpreter, gives what NumPy gives"),
        (np.allclose(values, wanted), "the machine code gives what NumPy gives"),
    ]
    show("Checked", "\n".join(f"{'yes' if holds else 'NO '}  {claim}" for holds, claim in checks))
    print(f"\nThe first call took {first * 1e3:.1f} ms, the second {second * 1e3:.2f} ms.")
    if not all(holds for holds, _ in checks):
        raise SystemExit("there is a difference")


if __name__ == "__main__":
    main()
