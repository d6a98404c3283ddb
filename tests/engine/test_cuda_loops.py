"""Loops on a GPU that is made of Python: kernels of all steps of a scan, and loops that the host drives."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from tensor.loops import agree, arguments, results, written_out

import whit
from engine.fake_gpu import fake_gpu
from whit import Device, Tensor, TinyJit


def on_gpu(values: Any) -> list[Tensor]:
    return [tensor.to("CUDA").realize() for tensor in values]


def test_a_scan_is_the_kernels_of_its_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    with fake_gpu(monkeypatch):
        found = [value.to("CPU") for value in results(whit.scan, True)(*on_gpu(arguments(3, "float32")))]
        agree(found, results(written_out, True)(*arguments(3, "float32")), 1e-5)


def test_while_loops_are_driven_by_the_host(monkeypatch: pytest.MonkeyPatch) -> None:
    def grown(x: Tensor) -> Any:
        return whit.while_loop(lambda s: s[0].sum() < 50, lambda s: (s[0] * 1.5 + 1, s[1] + 1), (x, 0))

    with fake_gpu(monkeypatch):
        run = TinyJit(lambda x: [value.realize() for value in grown(x)])
        for start in (1.0, 100.0, 7.0):
            values = np.array([start, 1.0], np.float32)
            count = 0
            x, steps = run(Tensor(values, device="CUDA").realize())
            while values.sum() < 50:
                values, count = values * 1.5 + 1, count + 1
            np.testing.assert_allclose(x.numpy(), values, rtol=1e-6)
            assert steps.item() == count


def test_choices_are_the_host_s(monkeypatch: pytest.MonkeyPatch) -> None:
    with fake_gpu(monkeypatch):
        x = Tensor([1.0, -2.0], device="CUDA").realize()
        for sign in (1.0, -1.0):
            found = whit.cond((x * sign).sum() > 0, lambda a: a * 2, lambda a: a - 1, x)
            wanted = np.array([2.0, -4.0] if -sign > 0 else [0.0, -3.0], np.float32)
            np.testing.assert_array_equal(found.numpy(), wanted)


def test_scans_of_symbolic_lengths(monkeypatch: pytest.MonkeyPatch) -> None:
    n = whit.Variable("n", 1, 6)
    with fake_gpu(monkeypatch):
        x = Tensor(np.arange(12, dtype=np.float32).reshape(6, 2), device="CUDA").realize()
        for length in (1, 2, 5):
            state = Tensor.ones(2, device="CUDA")
            state, _ = whit.scan(lambda s, p: (s * 0.5 + p, s), state, x[: n.bind(length)], reverse=True)
            last = np.ones(2, np.float32)
            for part in x.numpy()[:length][::-1]:
                last = last * 0.5 + part
            np.testing.assert_allclose(state.numpy(), last, rtol=1e-6)
        assert Device["CUDA"].name == "CUDA"
