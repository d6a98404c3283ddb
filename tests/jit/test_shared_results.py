"""Results that share elements with each other, with arguments or with captured tensors, as they do without JIT."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from jit.test_programs import assert_same, seen_by
from whit import Tensor, TinyJit

SHARES: list[Callable[[Any, Any], None]] = []


def shares(program: Callable[[Any, Any], None]) -> Callable[[Any, Any], None]:
    SHARES.append(program)
    return program


@shares
def result_and_part_of_it(jit: Any, see: Any) -> None:
    def f(x: Tensor) -> tuple[Tensor, Tensor]:
        y = x * 2
        return y, y[1:]

    g = jit(f)
    for i in range(3):
        a, b = g(Tensor([1.0, 2.0, 3.0 + i]))
        a += 1
        b *= 10
        see(a, b)


@shares
def parts_of_what_is_not_returned(jit: Any, see: Any) -> None:
    def f(x: Tensor) -> dict[str, Tensor]:
        y = (x * 2).reshape(2, 3)
        return {"turned": y.T, "row": y[1], "sum": y.sum(), "first": y[:, :1]}

    g = jit(f)
    for _ in range(3):
        found = g(Tensor([1.0, 2.0, 3.0, 4.0, 5.0, 6.0]))
        found["row"] += 1
        found["first"] *= 5
        see(found["turned"], found["row"], found["first"], found["sum"])


@shares
def part_of_an_argument(jit: Any, see: Any) -> None:
    g, x, grid = jit(lambda x: x[1:]), Tensor([1.0, 2.0, 3.0]).realize(), Tensor([[1.0, 2.0], [3.0, 4.0]]).realize()
    for i in range(3):
        part = g(x)
        x += 1
        part *= 2
        see(x, part, g(x + 1))
        row = g(grid[i % 2])
        row += 1
        see(grid, row)


@shares
def captured_tensor_and_part_of_it(jit: Any, see: Any) -> None:
    w = Tensor([1.0, 2.0]).realize()

    def f(x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        w.assign(w + x)
        return w, w[1:], x.reshape(2, 1)

    g = jit(f)
    for _ in range(3):
        x = Tensor([1.0, 1.0])
        whole, part, column = g(x)
        see(whole is w, whole, part)
        part += 5
        column += 3
        see(w, x, whole)


@shares
def written_view_of_an_argument(jit: Any, see: Any) -> None:
    def f(x: Tensor) -> Tensor:
        view = x[1:]
        view += 1
        return view

    g, x = jit(f), Tensor([1.0, 2.0, 3.0]).realize()
    for _ in range(3):
        view = g(x)
        see(view, x)
        view += 10
        see(view, x)


@shares
def view_of_a_view_that_is_captured(jit: Any, see: Any) -> None:
    base = Tensor([1.0, 2.0, 3.0, 4.0]).realize()
    part = base[1:]
    g = jit(lambda x: (part[1:], x + part.sum()))
    for _ in range(3):
        found, total = g(Tensor([1.0]))
        found += 1
        see(base, part, found, total)


@shares
def detached_and_expanded(jit: Any, see: Any) -> None:
    w = Tensor([1.0, 2.0]).realize()
    g = jit(lambda: (w.detach(), w.expand(3, 2)))
    for _ in range(2):
        a, b = g()
        w += 1
        see(a, b)


@shares
def gradient_through_a_view(jit: Any, see: Any) -> None:
    x = Tensor([1.0, 2.0, 3.0], requires_grad=True)
    g = jit(lambda x: x[1:])
    for _ in range(2):
        (g(x) * 2).sum().backward()
        see(x.grad)


@pytest.mark.parametrize("program", SHARES, ids=lambda program: program.__name__)
def test_results_share_what_they_share_without_jit(program: Any) -> None:
    assert_same(seen_by(program, TinyJit), seen_by(program, lambda function: function))


def test_shared_results_from_a_file(tmp_path: Path) -> None:
    w = Tensor([1.0, 2.0]).realize()

    def f(x: Tensor) -> tuple[Tensor, ...]:
        y = x * 2
        return y, y[1:], x[:1], w, w[1:]

    g = TinyJit(f)
    g(Tensor([1.0, 2.0]))
    g.save(tmp_path / "f.whit")
    loaded, x = TinyJit.load(tmp_path / "f.whit"), Tensor([3.0, 4.0]).realize()
    y, part, first, whole, rest = loaded(x)
    part += 1
    first += 2
    rest += 3
    assert y.tolist() == [6.0, 9.0] and x.tolist() == [5.0, 4.0] and whole.tolist() == [1.0, 5.0]
    assert whole is loaded.tensors["w"] and w.tolist() == [1.0, 2.0]
