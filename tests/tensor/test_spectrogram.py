"""Short-time transforms and windows against PyTorch."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from whit import Tensor
from whit.errors import ArgumentError, ShapeError

SIGNAL = np.random.default_rng(0).standard_normal((2, 50))


@pytest.fixture(scope="module")
def torch() -> Any:
    return pytest.importorskip("torch")


CASES: list[dict[str, Any]] = [
    {"n_fft": 8},
    {"n_fft": 8, "hop_length": 3, "center": False},
    {"n_fft": 10, "win_length": 7, "normalized": True},
    {"n_fft": 8, "onesided": False},
]


@pytest.mark.parametrize("case", CASES, ids=str)
def test_stft_and_back(case: dict[str, Any], torch: Any) -> None:
    size = case.get("win_length", case["n_fft"])
    for windowed in (False, True):
        window = np.hanning(size + 2)[1:-1] if windowed else np.ones(size)
        theirs = torch.stft(torch.tensor(SIGNAL), window=torch.tensor(window), return_complex=True, **case)
        ours = Tensor(SIGNAL).stft(window=Tensor(window), **case)
        np.testing.assert_allclose(ours.numpy(), theirs.numpy(), atol=1e-10)
        parts = Tensor(SIGNAL).stft(window=Tensor(window), return_complex=False, **case)
        np.testing.assert_allclose(parts.numpy(), torch.view_as_real(theirs).numpy(), atol=1e-10)
        np.testing.assert_allclose(
            parts.istft(window=Tensor(window), **case), ours.istft(window=Tensor(window), **case)
        )
        back = torch.istft(theirs, window=torch.tensor(window), **case).numpy() if case.get("center", True) else None
        found = ours.istft(window=Tensor(window), **case).numpy()
        if back is not None:
            np.testing.assert_allclose(found, back, atol=1e-10)
        np.testing.assert_allclose(found[:, 4:40], SIGNAL[:, 4:40], atol=1e-9)
    assert Tensor(SIGNAL).stft(8).istft(8, length=50).shape == (2, 50)


def test_windows(torch: Any) -> None:
    for name in ("hann", "hamming", "blackman", "bartlett", "kaiser"):
        for size in (0, 1, 2, 7, 8):
            for periodic in (True, False):
                theirs = getattr(torch, f"{name}_window")(size, periodic, dtype=torch.float64).numpy()
                ours = getattr(Tensor, f"{name}_window")(size, periodic, dtype="float64").numpy()
                np.testing.assert_allclose(ours, theirs, atol=1e-7, err_msg=f"{name} {size} {periodic}")


def test_what_does_not_fit() -> None:
    with pytest.raises(ShapeError, match="stft: windows of 60 in 50 samples"):
        Tensor(SIGNAL).stft(60, center=False)
    with pytest.raises(ShapeError, match=r"istft: n_fft=8 of \(2, 50\)"):
        Tensor(SIGNAL).istft(8)
    with pytest.raises(ArgumentError, match="win_length=9 of n_fft=8"):
        Tensor(SIGNAL).stft(8, win_length=9)
