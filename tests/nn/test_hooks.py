"""Hooks of modules: before and after calls, and of their gradients, as PyTorch has them."""

from __future__ import annotations

import copy
import importlib
import pickle
from typing import Any

import numpy as np
import pytest

from whit import Tensor, TinyJit, nn
from whit.errors import ArgumentError

WEIGHTS = {
    "0.weight": np.arange(6, dtype="float32").reshape(3, 2) / 10 - 0.2,
    "0.bias": np.arange(3, dtype="float32") / 10,
    "2.weight": np.arange(6, dtype="float32").reshape(2, 3) / 10 - 0.3,
    "2.bias": np.arange(2, dtype="float32") / 10,
}


def observed(library: Any, tensor: Any) -> list[Any]:
    """What hooks of every kind see and change in a small model of a library."""
    log: list[Any] = []

    def number(value: Any) -> Any:
        return np.asarray(value.numpy() if isinstance(value, Tensor) else value.detach().numpy())

    model = library.Sequential(library.Linear(2, 3), library.Tanh(), library.Linear(3, 2))
    model.load_state_dict({name: tensor(value) for name, value in WEIGHTS.items()})
    first, middle, last = model[0], model[1], model[2]

    def told(name: str, change: Any = None) -> Any:
        def hook(_: Any, *given: Any) -> Any:
            log.append((name, [[number(x) for x in each] if type(each) is tuple else number(each) for each in given]))
            return None if change is None else change(*given)

        return hook

    first.register_forward_pre_hook(told("before"))
    first.register_forward_hook(told("after", lambda _, y: y * 2))
    first.register_forward_hook(told("earlier"), prepend=True)
    middle.register_full_backward_hook(told("gradients", lambda dx, _: (dx[0] * 3,)))
    last.register_full_backward_pre_hook(told("gradients of results", lambda dy: (dy[0] * 2,)))
    model.register_forward_pre_hook(lambda _, args, words: ((args[0] + 1,), words), with_kwargs=True)
    model.register_forward_hook(lambda _, args, words, y: y + len(words), with_kwargs=True)
    model(tensor(np.array([[1.0, 2.0]], dtype="float32"))).sum().backward()
    return [*log, ("weights", [number(first.weight.grad), number(last.weight.grad), number(first.bias.grad)])]


def flat(found: list[Any]) -> list[tuple[str, list[float]]]:
    return [
        (name, [round(float(x), 5) for each in parts for array in np.atleast_1d([each]) for x in np.ravel(array)])
        for name, parts in found
    ]


EXPECTED_NAMES = ["before", "earlier", "after", "gradients of results", "gradients", "weights"]


def test_hooks_see_and_change_arguments_results_and_gradients() -> None:
    found = dict(flat(observed(nn, Tensor)))
    assert list(found) == EXPECTED_NAMES
    assert found["before"] == [2, 3]
    w1, b1, w2 = (WEIGHTS[name] for name in ("0.weight", "0.bias", "2.weight"))
    hidden = w1 @ [2, 3] + b1
    assert np.allclose(found["earlier"][2:], hidden, atol=1e-5)
    inside = np.tanh(hidden * 2)
    coming = 2 * w2.sum(0)  # the gradient of the results counts twice, says a hook
    assert np.allclose(found["gradients"], [*(coming * (1 - inside**2)), *coming], atol=1e-5)
    assert np.allclose(found["weights"][-3:], 3 * 2 * coming * (1 - inside**2), atol=1e-5)


def test_hooks_do_what_those_of_pytorch_do() -> None:
    torch = importlib.import_module("torch") if importlib.util.find_spec("torch") else pytest.importorskip("torch")
    ours, theirs = flat(observed(nn, Tensor)), flat(observed(torch.nn, torch.tensor))
    assert [name for name, _ in ours] == [name for name, _ in theirs]
    for (name, first), (_, second) in zip(ours, theirs, strict=True):
        assert np.allclose(first, second, atol=1e-4), name


def test_a_backward_hook_is_called_though_no_gradient_of_the_input_is_wanted() -> None:
    layer = nn.Linear(2, 1)
    layer.load_state_dict({"weight": Tensor([[2.0, 3.0]]), "bias": Tensor([0.0])})
    seen: list[Any] = []
    layer.register_full_backward_hook(lambda _, dx, dy: seen.append((dx[0].tolist(), dy[0].tolist())))
    layer(Tensor([[1.0, 1.0]])).sum().gradient(layer.weight)
    assert seen == [([[2.0, 3.0]], [[1.0]])]


def test_a_hook_is_gone_when_it_is_removed() -> None:
    layer, seen = nn.Identity(), []
    handle = layer.register_forward_hook(lambda *_: seen.append(1))
    with layer.register_forward_pre_hook(lambda *_: seen.append(2)):
        layer(Tensor([1.0]))
    handle.remove()
    handle.remove()
    layer(Tensor([1.0]))
    assert seen == [2, 1]
    assert type(layer).__name__ == "Identity" and isinstance(layer, nn.Identity) and repr(layer) == "Identity()"


def doubled(_: Any, __: Any, y: Tensor) -> Tensor:
    return y * 2


def test_modules_with_hooks_are_copied_and_pickled() -> None:
    layer = nn.Linear(2, 2)
    plain = layer(Tensor.ones(1, 2)).numpy()
    layer.register_forward_hook(doubled)
    for other in (copy.deepcopy(layer), pickle.loads(pickle.dumps(layer))):
        assert np.array_equal(other(Tensor.ones(1, 2)).numpy(), plain * 2)
        assert np.array_equal(other.forward(Tensor.ones(1, 2)).numpy(), plain)


def test_a_captured_function_sees_a_hook_that_comes_later() -> None:
    layer = nn.Linear(2, 2)
    run = TinyJit(lambda x: layer(x))
    before = run(Tensor.ones(1, 2)).numpy()
    handle = layer.register_forward_hook(doubled)
    assert np.array_equal(run(Tensor.ones(1, 2)).numpy(), before * 2)
    handle.remove()
    assert np.array_equal(run(Tensor.ones(1, 2)).numpy(), before)


def test_wrong_hooks_are_told() -> None:
    layer = nn.Identity()
    with pytest.raises(ArgumentError, match="is no hook"):
        layer.register_forward_hook(3)  # type: ignore[arg-type]
    layer.register_forward_pre_hook(lambda *_: 1, with_kwargs=True)
    with pytest.raises(ArgumentError, match="gives 1"):
        layer(Tensor([1.0]))


def test_a_layer_of_the_user_calls_that_above_by_forward() -> None:
    class Twice(nn.Linear):
        def forward(self, x: Tensor) -> Tensor:
            return super().forward(x) * 2

    layer = Twice(2, 2)
    assert np.array_equal(layer(Tensor.ones(1, 2)).numpy(), nn.Linear.__call__(layer, Tensor.ones(1, 2)).numpy() * 2)
